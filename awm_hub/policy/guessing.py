"""Random arguments that follow a tool's schema, as far as a glance at it tells.

The schemas come from rows of datasets and are untrusted: whatever is in them, a value is made, quickly, and is JSON.
Nothing is checked against the schema here, since a `pattern` can take for ever; what does not fit is an `invalid_call`.
"""

import math
import random
from typing import Any

_MAX_DEPTH = 8
_MAX_ITEMS = 4
_MAX_CHARS = 64
_WORDS = ("amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heron")
_FORMATS = {
    "date": "2026-03-{0:02d}",
    "date-time": "2026-03-{0:02d}T09:00:00Z",
    "time": "{0:02d}:00:00",
    "email": "person{0}@example.com",
    "uri": "https://example.com/{0}",
    "uuid": "00000000-0000-4000-8000-0000000000{0:02d}",
}


def arguments_for(schema: Any, draw: random.Random) -> dict[str, Any]:
    """Arguments for a tool with this input schema."""
    found = _value(schema if isinstance(schema, dict) else {}, draw, schema, 0)
    return found if isinstance(found, dict) else {}


def _value(schema: Any, draw: random.Random, root: Any, depth: int) -> Any:
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        return draw.choice([None, 1, "amber"]) if schema is True else None
    if "const" in schema:
        return schema["const"]
    for name in ("enum", "examples"):
        if isinstance(listed := schema.get(name), list) and listed:
            return draw.choice(listed)
    for name in ("anyOf", "oneOf", "allOf"):
        if isinstance(options := schema.get(name), list) and options:
            return _value(draw.choice(options), draw, root, depth + 1)
    if isinstance(reference := schema.get("$ref"), str):
        return _value(_resolved(reference, root), draw, root, depth + 1)
    return _typed(_kind(schema, draw), schema, draw, root, depth)


def _kind(schema: dict[str, Any], draw: random.Random) -> Any:
    kind = schema.get("type", "object" if "properties" in schema else "string")
    return draw.choice(kind) if isinstance(kind, list) and kind else kind


def _typed(kind: Any, schema: dict[str, Any], draw: random.Random, root: Any, depth: int) -> Any:
    match kind:
        case "object":
            return _object(schema, draw, root, depth)
        case "array":
            least = int(_bound(schema, "minItems", 0))
            count = min(max(least, draw.randint(0, 2)), _MAX_ITEMS)
            return [_value(schema.get("items", True), draw, root, depth + 1) for _ in range(count)]
        case "integer" | "number":
            return _number(schema, draw, is_integer=kind == "integer")
        case "boolean":
            return draw.random() < 0.5
        case "null":
            return None
    return _text(schema, draw)


def _object(schema: dict[str, Any], draw: random.Random, root: Any, depth: int) -> dict[str, Any]:
    properties = schema.get("properties")
    required = schema.get("required")
    needed = required if isinstance(required, list) else []
    return {
        name: _value(part, draw, root, depth + 1)
        for name, part in (properties if isinstance(properties, dict) else {}).items()
        if name in needed or draw.random() < 0.5
    }


def _number(schema: dict[str, Any], draw: random.Random, *, is_integer: bool) -> int | float:
    """A number within its bounds; small ones are ids that exist more often."""
    least = _bound(schema, "minimum", _bound(schema, "exclusiveMinimum", 0) + ("exclusiveMinimum" in schema))
    most = _bound(schema, "maximum", _bound(schema, "exclusiveMaximum", least + 21) - 1)
    step = _bound(schema, "multipleOf", 0)
    if step > 0:
        first = math.ceil(least / step)
        found = step * draw.randint(first, max(first, min(math.floor(most / step), first + 20)))
    else:
        found = draw.randint(math.ceil(least), max(math.ceil(least), math.floor(min(most, least + 20))))
    return int(found) if is_integer else float(found)


def _text(schema: dict[str, Any], draw: random.Random) -> str:
    kind = schema.get("format")
    if isinstance(kind, str) and kind in _FORMATS:
        return _FORMATS[kind].format(draw.randint(1, 23))
    least = min(int(_bound(schema, "minLength", 0)), _MAX_CHARS)
    most = max(least, min(int(_bound(schema, "maxLength", _MAX_CHARS)), _MAX_CHARS))
    return draw.choice(_WORDS).ljust(least, "x")[: max(most, 0)]


def _bound(schema: dict[str, Any], name: str, default: float) -> float:
    """A number of the schema, within what SQLite holds."""
    value = schema.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool) or value != value:
        return default
    return max(-(2**53), min(value, 2**53))


def _resolved(reference: str, root: Any) -> Any:
    """What a reference inside the schema points at; None for any other."""
    found = root
    for part in reference.removeprefix("#").split("/")[1:]:
        found = found.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
    return found

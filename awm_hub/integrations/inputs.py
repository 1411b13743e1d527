"""From a tool's JSON Schema to the inputs that smolagents knows.

smolagents describes a parameter by a type name or several, a description, and `nullable`, which also means "may be left
out". It knows neither `$ref` nor `anyOf` with objects, and its code prompt shows only type and description. So
references are resolved, unions become type names, and what else a caller has to know goes into the description.
"""

import keyword
from collections.abc import Mapping
from typing import Any

from awm_hub.canonical import to_json

KINDS = ("string", "boolean", "integer", "number", "array", "object", "null")
_PYTHON_KINDS = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}
_KEPT = ("items", "properties")
_SHOWN_CHARS = 600
"""A nested schema longer than this is cut in the description; the model still sees it as `items` and `properties`."""
_MAX_DEPTH = 12
_MOST_PARTS = 2_000


def inputs_of(schema: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The inputs of a tool by name, required ones first: code may pass them by position."""
    required = schema.get("required") or ()
    parts = sorted(properties_of(schema).items(), key=lambda item: item[0] not in required)
    return {name: _input(part, name in required) for name, part in parts}


def properties_of(schema: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The schemas of the parameters, without references; those that are no objects allow anything."""
    found = schema.get("properties")
    parts = found.items() if isinstance(found, dict) else ()
    resolver = _Resolver(schema)
    return {str(name): resolver.resolved(part) for name, part in parts}


def kinds_of(schema: Mapping[str, Any]) -> tuple[str, ...]:
    """The types that a schema without references allows, in the order of `KINDS`; empty where it allows any."""
    for found in (_named(schema.get("type")), _listed(schema), _united(schema), _implied(schema)):
        if found:
            return tuple(kind for kind in KINDS if kind in found)
    return ()


def awkward_names(schema: Mapping[str, Any]) -> tuple[str, ...]:
    """Parameters that Python code cannot pass as `name=value`."""
    return tuple(name for name in properties_of(schema) if not name.isidentifier() or keyword.iskeyword(name))


def _input(schema: dict[str, Any], is_required: bool) -> dict[str, Any]:
    kinds = kinds_of(schema)
    rest = [kind for kind in kinds if kind != "null"]
    if "number" in rest and len(rest) > 1 and "integer" not in rest:
        rest.append("integer")  # smolagents takes an integer for a number only where that is the only type
    values = _values(schema)
    kept = {key: schema[key] for key in _KEPT if key in schema}
    return {
        **kept,
        **({"enum": values} if values else {}),
        "type": "any" if not rest else rest[0] if len(rest) == 1 else rest,
        "description": _description(schema, rest),
        "nullable": not is_required or "null" in kinds,
    }


def _description(schema: Mapping[str, Any], kinds: list[str]) -> str:
    parts = [schema["description"].strip()] if isinstance(schema.get("description"), str) else []
    if values := _values(schema):
        parts.append(f"One of: {', '.join(to_json(value) for value in values)}.")
    elif kinds in (["array"], ["object"]) or not kinds or len(kinds) > 1:
        shape = {key: part for key, part in schema.items() if key not in ("description", "default", "title")}
        if shape and shape != {"type": kinds[0] if kinds else None}:
            parts.append(f"JSON Schema: {_cut(to_json(shape))}")
    if schema.get("default") is not None:
        parts.append(f"Default: {_cut(to_json(schema['default']))}.")
    return " ".join(part for part in parts if part)


def _values(schema: Mapping[str, Any]) -> list[Any]:
    """The values that an enumeration, a constant or a union of these allows; empty where others are allowed too."""
    if isinstance(schema.get("enum"), list):
        return list(schema["enum"])
    if "const" in schema:
        return [schema["const"]]
    union: list[Any] = next((schema[key] for key in ("anyOf", "oneOf") if isinstance(schema.get(key), list)), [])
    found = [[None] if part == {"type": "null"} else _values(part) for part in union]
    return [value for values in found for value in values] if all(found) else []


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"


def _named(kind: Any) -> set[str]:
    return {k for k in (kind if isinstance(kind, list) else [kind]) if k in KINDS}


def _listed(schema: Mapping[str, Any]) -> set[str]:
    """The types of the values that an enumeration or a constant allows."""
    found = schema.get("enum")
    values = found if isinstance(found, list) else [schema["const"]] if "const" in schema else []
    return {_PYTHON_KINDS.get(type(value), "null") for value in values}


def _united(schema: Mapping[str, Any]) -> set[str]:
    for key in ("anyOf", "oneOf"):
        parts = schema.get(key)
        if isinstance(parts, list) and parts:
            found = [set(kinds_of(part)) for part in parts]
            return set().union(*found) if all(found) else set()
    for part in schema.get("allOf") or ():
        if kinds := set(kinds_of(part)):
            return kinds
    return set()


def _implied(schema: Mapping[str, Any]) -> set[str]:
    return {kind for key, kind in (("properties", "object"), ("items", "array")) if key in schema}


class _Resolver:
    """Replaces the local references of one schema, within a budget: a small schema can unfold without end."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._left = _MOST_PARTS

    def resolved(self, schema: Any, depth: int = 0) -> dict[str, Any]:
        """A schema without references; beyond the budget, and where it is no object, it allows anything."""
        self._left -= 1
        if not isinstance(schema, dict) or depth > _MAX_DEPTH or self._left < 0:
            return {}
        found = dict(schema)
        if isinstance(found.get("$ref"), str):
            return {**self.resolved(self._target(found.pop("$ref")), depth + 1), **found}
        for key, part in found.items():
            if key in ("items", "additionalProperties") and isinstance(part, dict):
                found[key] = self.resolved(part, depth + 1)
            elif key == "properties" and isinstance(part, dict):
                found[key] = {name: self.resolved(value, depth + 1) for name, value in part.items()}
            elif key in ("anyOf", "oneOf", "allOf") and isinstance(part, list):
                found[key] = [self.resolved(value, depth + 1) for value in part]
        return found

    def _target(self, reference: str) -> Any:
        """What a reference within the schema points at; None for any other."""
        found: Any = self._root if reference.startswith("#") else None
        for part in reference.split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            found = found.get(key) if isinstance(found, Mapping) else None
        return found

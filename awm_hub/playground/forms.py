"""Forms for tools: what a JSON Schema asks for, as fields that people fill in.

The schemas come from rows of datasets and are untrusted, and some are odd: whatever is in them, there is a form. What a
field has no shape for (free objects, unions of different types, schemas that refer to themselves) is a field that takes
JSON. `awm_hub.playground.filling` turns what was filled in into a call's arguments, and back.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from awm_hub.canonical import to_json
from awm_hub.errors import AwmHubError, RecordError, UnknownNameError
from awm_hub.parts import ToolSpec

ENTRY = "[]"
"""In a path: any entry of a list."""

_MAX_DEPTH = 5
_MAX_FIELDS = 200
_MAX_CHOICES = 300
_MAX_HOPS = 12
_LONG_TEXTS = frozenset(
    [
        "body",
        "comment",
        "comments",
        "content",
        "description",
        "details",
        "message",
        "note",
        "notes",
        "reason",
        "remark",
        "remarks",
        "report",
        "summary",
        "text",
    ]
)
_LONG_FROM = 200
"""Texts that may be longer get several lines."""
_EXAMPLES = {
    "date": "YYYY-MM-DD",
    "date-time": "YYYY-MM-DDTHH:MM:SS",
    "time": "HH:MM",
    "email": "name@example.com",
    "uri": "https://…",
    "uuid": "00000000-0000-0000-0000-000000000000",
}
_DATES = ("YYYY-MM-DDTHH:MM:SS", "YYYY-MM-DDTHH:MM", "YYYY-MM-DD HH:MM:SS", "YYYY-MM-DD HH:MM", "YYYY-MM-DD")


class FormError(AwmHubError):
    """A field cannot be sent as it is filled in; `path` leads to it, list entries by their position from 0."""

    exit_code = 2

    def __init__(self, path: tuple[str | int, ...], problem: str, *, next_step: str = "") -> None:
        self.path, self.problem = path, problem
        words = [f"{part + 1}" if isinstance(part, int) else part for part in path]
        super().__init__(f"{' › '.join(words)}: {problem}" if words else problem, next_step=next_step)


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """Limits of a value: of numbers the value, of texts the characters, of lists the entries. None: no limit."""

    least: float | None = None
    most: float | None = None
    is_least_excluded: bool = False
    is_most_excluded: bool = False

    def broken_by(self, number: float, noun: str = "") -> str:
        """What is wrong with a number; empty if it is within them."""
        unit = f" {noun}" if noun else ""
        if self.least is not None and (number < self.least or (self.is_least_excluded and number == self.least)):
            return f"must be {'more than' if self.is_least_excluded else 'at least'} {self.least:g}{unit}"
        if self.most is not None and (number > self.most or (self.is_most_excluded and number == self.most)):
            return f"must be {'less than' if self.is_most_excluded else 'at most'} {self.most:g}{unit}"
        return ""


@dataclass(frozen=True, kw_only=True)
class Field:
    """One thing to fill in."""

    path: tuple[str, ...]
    """Property names from the top, `ENTRY` for any entry of a list. The arguments themselves have the path ()."""
    label: str
    kind: str
    """`text`, `long_text`, `integer`, `number`, `boolean`, `choice`, `list`, `object` or `json`."""
    is_required: bool = True
    is_nullable: bool = False
    default: str = ""
    """What holds where the field is left alone, as JSON; empty where the schema does not say."""
    choices: tuple[Any, ...] = ()
    help: str = ""
    example: str = ""
    """The form of a value, to be shown in an empty field."""
    bounds: Bounds = field(default_factory=Bounds)
    fields: "tuple[Field, ...]" = ()
    """Of an object."""
    item: "Field | None" = None
    """Any entry of a list."""


class Tools:
    """The tools that a form is for; two of the same content are equal, and it can be hashed."""

    def __init__(self, specs: tuple[ToolSpec, ...] = ()) -> None:
        self.specs = specs
        self._names = {spec.name: spec for spec in specs}
        self._hash = hash(tuple((s.name, s.description, repr(s.input_schema), s.effect) for s in specs))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tools) and other.specs == self.specs

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __getitem__(self, name: str) -> ToolSpec:
        """The tool of this name.

        Raises:
            UnknownNameError: there is none.
        """
        if name not in self._names:
            raise UnknownNameError("tool", name, self._names)
        return self._names[name]


def form_of(tool: ToolSpec) -> Field:
    """A tool's arguments: a field of the kind `object`, or `json` where the schema has no form. Never fails."""
    return _Reader(tool.input_schema).form()


class _Reader:
    """Makes the fields of one schema. References are followed inside it only, so far and no further."""

    def __init__(self, root: Any) -> None:
        self._root, self._left = root, _MAX_FIELDS

    def form(self) -> Field:
        made = self.field(self._root, (), is_required=True)
        if self._left > 0 and made.kind == "object":
            return made
        return Field(path=(), label="arguments", kind="json", help=made.help)

    def field(self, schema: Any, path: tuple[str, ...], *, is_required: bool) -> Field:
        self._left -= 1
        plain, is_nullable = self._plain(schema) if self._left > 0 and len(path) <= _MAX_DEPTH else ({}, True)
        kind, further = self._shape(plain, path)
        told = plain.get("description", plain.get("title", "") if kind == "json" else "")
        return Field(
            path=path,
            label=path[-1] if path else "arguments",
            kind=kind,
            is_required=is_required,
            is_nullable=is_nullable,
            default=_as_json(plain["default"]) if "default" in plain else "",
            help=told if isinstance(told, str) else "",
            example=_example(kind, plain),
            bounds=_bounds(kind, plain),
            **further,
        )

    def _shape(self, schema: Mapping[str, Any], path: tuple[str, ...]) -> tuple[str, dict[str, Any]]:
        """Kind of a field, and what is particular to the kind."""
        choices = _choices(schema)
        if choices is not None:
            return ("choice", {"choices": choices}) if 0 < len(choices) <= _MAX_CHOICES else ("json", {})
        match schema.get("type", "object" if "properties" in schema else None):
            case "string":
                return ("long_text" if _is_long(schema, path) else "text"), {}
            case "integer" | "number" | "boolean" as kind:
                return kind, {}
            case "array":
                return self._list(schema, path)
            case "object":
                return self._object(schema, path)
        return "json", {}

    def _list(self, schema: Mapping[str, Any], path: tuple[str, ...]) -> tuple[str, dict[str, Any]]:
        if not isinstance(schema.get("items"), Mapping) or "prefixItems" in schema:
            return "json", {}
        item = self.field(schema["items"], (*path, ENTRY), is_required=True)
        return ("json", {}) if item.kind == "json" else ("list", {"item": item})

    def _object(self, schema: Mapping[str, Any], path: tuple[str, ...]) -> tuple[str, dict[str, Any]]:
        properties, required = schema.get("properties", {}), schema.get("required", [])
        if not isinstance(properties, Mapping) or not isinstance(required, list) or len(properties) > _MAX_FIELDS:
            return "json", {}
        is_free = not properties and path != () and schema.get("additionalProperties") is not False
        if is_free or any(name not in properties for name in required if isinstance(name, str)):
            return "json", {}
        fields = [self.field(part, (*path, name), is_required=name in required) for name, part in properties.items()]
        order = {name: i for i, name in enumerate(required) if isinstance(name, str)}  # as the tool's author wrote them
        return "object", {"fields": tuple(sorted(fields, key=lambda found: order.get(found.path[-1], len(order))))}

    def _plain(self, schema: Any) -> tuple[Mapping[str, Any], bool]:
        """A schema with references followed and `X | None` resolved, and whether null is one of its values."""
        is_nullable = False
        for _ in range(_MAX_HOPS):
            if not isinstance(schema, Mapping):
                return {}, True
            name = next((n for n in ("$ref", "allOf", "anyOf", "oneOf") if n in schema), None)
            if name is None:
                return _without_null(schema, is_nullable)
            rest = {key: value for key, value in schema.items() if key != name}
            options, has_null = self._options(name, schema[name])
            is_nullable = is_nullable or has_null
            if len(options) != 1:
                return {k: rest[k] for k in ("description", "default", "title") if k in rest}, is_nullable
            schema = {**options[0], **rest} if isinstance(options[0], Mapping) else options[0]
        return {}, True

    def _options(self, name: str, found: Any) -> tuple[list[Any], bool]:
        """What a value may be by `$ref`, `allOf`, `anyOf` or `oneOf`, and whether it may be null besides."""
        if name == "$ref":
            return [self._resolved(found)], False
        if not isinstance(found, list) or name == "allOf":
            return (found if isinstance(found, list) else []), False
        others = [option for option in found if not _is_null(option)]
        values = [value for option in others for value in _choices(option) or ()]
        if len(others) > 1 and all(_choices(option) for option in others):
            others = [{"enum": values}]
        elif len(others) > 1 and {_kind(option) for option in others} == {"integer", "number"}:
            others = [{"type": "number"}]
        return others, len(others) < len(found) and any(map(_is_null, found))

    def _resolved(self, reference: Any) -> Any:
        if not isinstance(reference, str) or not reference.startswith("#"):
            return None
        found = self._root
        for part in reference[1:].split("/")[1:]:
            found = found.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(found, Mapping) else None
        return found


def _without_null(schema: Mapping[str, Any], is_nullable: bool) -> tuple[Mapping[str, Any], bool]:
    """The same with null taken out of a list of types or choices."""
    kinds = schema.get("type")
    if isinstance(kinds, list):
        others = [kind for kind in kinds if kind != "null"]
        is_nullable = is_nullable or len(others) < len(kinds)
        named = [kind for kind in others if isinstance(kind, str)]
        one = "number" if set(named) == {"integer", "number"} else named[0] if len(others) == len(named) == 1 else None
        schema = {**schema, "type": one}
    if isinstance(schema.get("enum"), list) and None in schema["enum"]:
        return {**schema, "enum": [value for value in schema["enum"] if value is not None]}, True
    return schema, is_nullable


def _choices(schema: Any) -> tuple[Any, ...] | None:
    """The values that a schema lists, objects among them; None where it lists none."""
    if not isinstance(schema, Mapping):
        return None
    if "const" in schema:
        return (schema["const"],)
    return tuple(schema["enum"]) if isinstance(schema.get("enum"), list) else None


def _kind(schema: Any) -> Any:
    found = (
        schema.get("type") if isinstance(schema, Mapping) and set(schema) <= {"type", "title", "description"} else None
    )
    return found if isinstance(found, str) else None


def _is_null(schema: Any) -> bool:
    if not isinstance(schema, Mapping):
        return False
    return schema.get("type") == "null" or _choices(schema) == (None,)


def _is_long(schema: Mapping[str, Any], path: tuple[str, ...]) -> bool:
    most = schema.get("maxLength")
    words = path[-1].lower().rsplit("_", 1) if path else []
    return (words[-1:] != [] and words[-1] in _LONG_TEXTS) or (isinstance(most, int) and most >= _LONG_FROM)


def _example(kind: str, schema: Mapping[str, Any]) -> str:
    if kind not in ("text", "long_text"):
        return ""
    form, told = schema.get("format"), schema.get("description")
    if isinstance(form, str) and form in _EXAMPLES:
        return _EXAMPLES[form]
    return next((d for d in _DATES if isinstance(told, str) and d in told), "")


def _bounds(kind: str, schema: Mapping[str, Any]) -> Bounds:
    names = {
        "text": ("minLength", "maxLength"),
        "long_text": ("minLength", "maxLength"),
        "list": ("minItems", "maxItems"),
        "integer": ("minimum", "maximum"),
        "number": ("minimum", "maximum"),
    }.get(kind)
    if names is None:
        return Bounds()
    least, most = (_number(schema.get(name)) for name in names)
    if kind not in ("integer", "number"):
        return Bounds(least=least, most=most)
    above, below = _number(schema.get("exclusiveMinimum")), _number(schema.get("exclusiveMaximum"))
    return Bounds(
        least=above if above is not None else least,
        most=below if below is not None else most,
        is_least_excluded=above is not None,
        is_most_excluded=below is not None,
    )


def _number(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 2**64 else None


def _as_json(value: Any) -> str:
    try:
        return to_json(value)
    except RecordError:
        return ""

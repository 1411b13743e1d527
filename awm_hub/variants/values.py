"""Another value of the same type: how arguments and answers are made wrong.

A perturbed value stays as plausible as its type allows: another choice of an enumeration, the next day, one more.
"""

import datetime as dt
import re
from collections.abc import Iterator, Mapping
from typing import Any

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_HOUR = re.compile(r"([01]\d|2[0-3])(:[0-5]\d)")


def perturbed(value: Any, schema: Any = None) -> Iterator[tuple[str, Any]]:
    """Values near a JSON value, each with the words for what was done.

    Args:
        value: The value; a list or object gives variants with one part missing or perturbed.
        schema: Its JSON Schema, untrusted; only enumerations, properties and items are looked at.
    """
    if others := [choice for choice in _choices(schema) if not _is_same(choice, value)]:
        yield "another choice", others[0]
        return
    match value:
        case bool():
            yield "the opposite", not value
        case int() | float():
            yield "one more", value + 1
        case str():
            yield _text(value)
        case list():
            yield from _lists(value, schema)
        case dict():
            yield from _objects(value, schema)


def property_schema(schema: Any, name: str) -> Any:
    """The schema of one property of an object; None where there is none."""
    for branch in _branches(schema):
        properties = branch.get("properties")
        if isinstance(properties, Mapping) and name in properties:
            return properties[name]
    return None


def _choices(schema: Any) -> list[Any]:
    found: list[Any] = []
    for branch in _branches(schema):
        enum = branch.get("enum")
        found.extend(enum if isinstance(enum, list) else [branch["const"]] if "const" in branch else [])
    return found


def _branches(schema: Any) -> Iterator[Mapping[str, Any]]:
    """A schema and the alternatives it offers at its top."""
    if isinstance(schema, Mapping):
        yield schema
        options = schema.get("anyOf")
        yield from (option for option in (options if isinstance(options, list) else ()) if isinstance(option, Mapping))


def _is_same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)


def _text(value: str) -> tuple[str, str]:
    if found := _DAY.match(value):
        try:
            day = dt.date.fromisoformat(found[0]) + dt.timedelta(days=1)
        except (ValueError, OverflowError):
            return "a longer text", value + "x"
        return "the next day", day.isoformat() + value[found.end() :]
    if found := _HOUR.fullmatch(value):
        return "an hour later", f"{(int(found[1]) + 1) % 24:02}{found[2]}"
    return "a longer text", f"{value} again" if " " in value else value + "x"


def _lists(value: list[Any], schema: Any) -> Iterator[tuple[str, Any]]:
    if not value:
        return
    yield "without the last item", value[:-1]
    items = next((branch["items"] for branch in _branches(schema) if "items" in branch), None)
    for words, other in perturbed(value[0], items):
        yield f"first item: {words}", [other, *value[1:]]


def _objects(value: dict[str, Any], schema: Any) -> Iterator[tuple[str, Any]]:
    for name, part in value.items():
        yield f"without {name}", {key: kept for key, kept in value.items() if key != name}
        for words, other in perturbed(part, property_schema(schema, name)):
            yield f"{name}: {words}", {**value, name: other}

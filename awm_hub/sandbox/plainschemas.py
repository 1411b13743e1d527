"""A quick yes to arguments that plainly fit their schema.

Most tools have schemas of a few common keywords, and most calls fit them. For those a few comparisons are enough, a
tenth of what a general validator takes. Whatever these comparisons do not cover, or do not accept, is left to the full
validation, which also finds the words for a refusal.
"""

import operator
from collections.abc import Callable
from typing import Any

Test = Callable[[Any], bool]
_INTEGER_RANGE = range(-(2**63), 2**63)
_SILENT = {"title", "description", "default", "examples", "format", "deprecated", "readOnly", "writeOnly"}
_BOUNDS: dict[str, Callable[[Any, Any], bool]] = {
    "minimum": operator.ge, "maximum": operator.le, "exclusiveMinimum": operator.gt, "exclusiveMaximum": operator.lt,
}  # fmt: skip
_SIZES: dict[str, tuple[type[str] | type[list[Any]], Callable[[Any, Any], bool]]] = {
    "minLength": (str, operator.ge), "maxLength": (str, operator.le),
    "minItems": (list, operator.ge), "maxItems": (list, operator.le),
}  # fmt: skip
_OBJECT = ("properties", "required", "additionalProperties")


class _Unusual(Exception):
    """The schema says something that is not covered here."""


def plain_test(schema: Any) -> Test | None:
    """A test that is true only for values that fit the schema exactly, integers as integers; None if it is unusual."""
    try:
        return _test(schema)
    except (_Unusual, RecursionError):
        return None


def _test(schema: Any) -> Test:
    if not isinstance(schema, dict):
        raise _Unusual
    if set(schema) - _SILENT <= {"type"} and isinstance(schema.get("type"), str):
        return _type(schema["type"])
    tests = [_keyword(name, wanted, schema) for name, wanted in schema.items() if name not in _SILENT]
    if "type" not in schema:
        tests.append(_is_bounded)
    return lambda value: all(test(value) for test in tests)


def _keyword(name: str, wanted: Any, schema: dict[str, Any]) -> Test:
    if name == "type":
        types = [_type(kind) for kind in (wanted if isinstance(wanted, list) else [wanted])]
        return types[0] if len(types) == 1 else lambda value: any(test(value) for test in types)
    if name in _BOUNDS and _is_number(wanted):
        holds = _BOUNDS[name]
        return lambda value: not _is_number(value) or holds(value, wanted)
    if name in _SIZES and type(wanted) is int:
        kind, fits = _SIZES[name]
        return lambda value: not isinstance(value, kind) or fits(len(value), wanted)
    if name == "enum" and isinstance(wanted, list) and all(isinstance(choice, str) for choice in wanted):
        choices = frozenset(wanted)
        return lambda value: isinstance(value, str) and value in choices
    if name == "enum" and isinstance(wanted, list) and all(type(choice) is int for choice in wanted):
        numbers = frozenset(wanted)
        return lambda value: type(value) is int and value in numbers
    if name == "anyOf" and isinstance(wanted, list):
        options = [_test(option) for option in wanted]
        return lambda value: any(test(value) for test in options)
    if name == "items":
        item = _test(wanted)
        return lambda value: not isinstance(value, list) or all(map(item, value))
    if name in _OBJECT:
        return _object(schema) if name == next(k for k in schema if k in _OBJECT) else _anything
    raise _Unusual


def _object(schema: dict[str, Any]) -> Test:
    properties, required = schema.get("properties", {}), schema.get("required", [])
    others = schema.get("additionalProperties", True)
    if not isinstance(properties, dict) or not isinstance(required, list) or not isinstance(others, bool):
        raise _Unusual
    tests = {name: _test(part) for name, part in properties.items()}
    unknown = _is_bounded if others else _nothing

    def fits(value: Any) -> bool:
        if not isinstance(value, dict):
            return True
        return all(name in value for name in required) and all(
            tests.get(name, unknown)(part) for name, part in value.items()
        )

    return fits


def _type(kind: Any) -> Test:
    found = _TYPES.get(kind) if isinstance(kind, str) else None
    if found is None:
        raise _Unusual
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_integer(value: Any) -> bool:
    return type(value) is int and value in _INTEGER_RANGE


def _is_bounded(value: Any) -> bool:
    """Whether no integer in it is outside 64 bits."""
    if isinstance(value, dict):
        return all(map(_is_bounded, value.values()))
    if isinstance(value, list):
        return all(map(_is_bounded, value))
    return not isinstance(value, int) or value in _INTEGER_RANGE


def _anything(_value: Any) -> bool:
    return True


def _nothing(_value: Any) -> bool:
    return False


_TYPES: dict[str, Test] = {
    "string": lambda value: isinstance(value, str),
    "integer": _is_integer,
    "number": lambda value: _is_integer(value) or isinstance(value, float),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "array": lambda value: isinstance(value, list) and _is_bounded(value),
    "object": lambda value: isinstance(value, dict) and _is_bounded(value),
}

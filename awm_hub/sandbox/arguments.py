"""Checking a call's arguments against the published schema, inside the sandbox.

Schemas of a row are untrusted (a `pattern` can run for ever), so validation happens in the worker, under the call's
deadline, with reference resolution confined to the schema itself. No coercion: `"5"` is no integer and `5` is no text.
Integral floats count as integers and are handed over as such; integers outside 64 bits are invalid, because SQLite
could not hold them. The lenient mode coerces by type and says what it did.
"""

from collections.abc import Iterator
from typing import Any

import jsonschema
import referencing

from awm_hub.sandbox.plainschemas import plain_test

_INTEGER_RANGE = range(-(2**63), 2**63)


class InvalidArguments(Exception):
    """The arguments violate the schema; the message says where and how."""


class ArgumentCheck:
    """The compiled check of one tool's arguments."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self._schema = schema
        self._is_plain = plain_test(schema)
        self._validator = jsonschema.Draft202012Validator(schema, registry=referencing.Registry())

    def check(self, arguments: dict[str, Any], *, lenient: bool = False) -> tuple[dict[str, Any], list[str]]:
        """The arguments to hand over, and what was coerced (lenient mode).

        Raises:
            InvalidArguments: they violate the schema.
        """
        if self._is_plain is not None and self._is_plain(arguments):
            return arguments, []
        coerced: list[str] = []
        if lenient:
            arguments = _coerce(arguments, self._schema, "", coerced)
        for path, value in _integers(arguments, ""):
            if value not in _INTEGER_RANGE:
                raise InvalidArguments(f"{path or 'value'}: {value} is outside 64 bits")
        error = next(iter(self._validator.iter_errors(arguments)), None)
        if error is not None:
            error = jsonschema.exceptions.best_match([error])
            where = ".".join(str(part) for part in error.absolute_path)
            raise InvalidArguments(f"{where}: {error.message[:300]}" if where else error.message[:300])
        integral: dict[str, Any] = _integral(arguments, self._schema, "")
        return integral, coerced


def _integers(value: Any, path: str) -> Iterator[tuple[str, int]]:
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _integers(part, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for i, part in enumerate(value):
            yield from _integers(part, f"{path}[{i}]")
    elif isinstance(value, int) and not isinstance(value, bool):
        yield path, value


def _options(schema: Any) -> list[dict[str, Any]]:
    """The schema itself, or the alternatives of its union."""
    if not isinstance(schema, dict):
        return []
    alternatives = [s for key in ("anyOf", "oneOf") for s in schema.get(key, ()) if isinstance(s, dict)]
    return alternatives or [schema]


def _kinds(schema: dict[str, Any]) -> list[Any]:
    kind = schema.get("type")
    return kind if isinstance(kind, list) else [kind]


def _integral(value: Any, schema: Any, path: str) -> Any:
    """`5.0` as `5` wherever the schema wants an integer."""
    if isinstance(value, float):
        wanted = {kind for option in _options(schema) for kind in _kinds(option)}
        if "integer" not in wanted or "number" in wanted or not value.is_integer():
            return value
        if int(value) not in _INTEGER_RANGE:
            raise InvalidArguments(f"{path or 'value'}: {value} is outside 64 bits")
        return int(value)
    for option in _options(schema):
        if isinstance(value, dict) and isinstance(properties := option.get("properties"), dict):
            return {k: _integral(v, properties.get(k), f"{path}.{k}" if path else k) for k, v in value.items()}
        if isinstance(value, list) and "items" in option:
            return [_integral(v, option["items"], f"{path}[{i}]") for i, v in enumerate(value)]
    return value


def _coerce(value: Any, schema: Any, path: str, done: list[str]) -> Any:
    for option in _options(schema):
        if isinstance(value, dict) and isinstance(properties := option.get("properties"), dict):
            return {k: _coerce(v, properties.get(k), f"{path}.{k}" if path else k, done) for k, v in value.items()}
        if isinstance(value, list) and "items" in option:
            return [_coerce(v, option["items"], f"{path}[{i}]", done) for i, v in enumerate(value)]
    wanted = {kind for option in _options(schema) for kind in _kinds(option)}
    changed = _coerced(value, wanted)
    if changed is not value:
        done.append(f"{path}: {value!r} to {changed!r}")
    return changed


def _coerced(value: Any, wanted: set[Any]) -> Any:
    """The value as one of the wanted types if it is only written as another; texts are never decoded for text."""
    if isinstance(value, str) and "string" not in wanted:
        for kind, convert in (("integer", int), ("number", float)):
            if kind in wanted:
                try:
                    return convert(value)
                except ValueError:
                    continue
        if "boolean" in wanted and value.lower() in ("true", "false"):
            return value.lower() == "true"
    if isinstance(value, int | float) and not isinstance(value, bool) and "string" in wanted and len(wanted) == 1:
        return str(value)
    return value

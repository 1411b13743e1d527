"""Annotations of a toolset: texts such as `Literal["a", "b"] | None`, as types and as JSON Schema.

A model writes them, so they are parsed and never evaluated. What they become is the type that the same annotation
would be in a module, so that the runtime's converter gives the schema which the code's own parameter must have.
"""

import ast
from functools import reduce
from operator import or_
from typing import Any, Literal

from awm_hub.sandbox import toolschema

_PLAIN: dict[str, type] = {"int": int, "str": str, "float": float, "bool": bool, "dict": dict}
_INSTEAD = {
    "Optional": "write X | None",
    "Union": "write X | Y",
    "List": "write list[…]",
    "Dict": "write dict",
    "date": "use str, and say YYYY-MM-DD in the description",
    "datetime": "use str, and say the form in the description",
    "time": "use str, and say HH:MM in the description",
    "Decimal": "use int in the smallest unit, or float",
    "UUID": "use str",
    "Any": "say what it is",
    "string": "use str",
    "integer": "use int",
    "number": "use float",
    "boolean": "use bool",
    "array": "use list[…]",
    "object": "use dict",
    "tuple": "use list[…]",
    "set": "use list[…]",
    "bytes": "use str",
    "null": "write None",
}
_ALLOWED = 'only int, str, float, bool, dict, list[…], Literal["a", "b"] and X | None are there'
_MAX_CHARS = 2_000
_MAX_DEPTH = 8


class AnnotationError(ValueError):
    """The text is no annotation that a tool may have; the message says what to write."""


def schema_of(text: str) -> dict[str, Any]:
    """The JSON Schema of an annotation, as the runtime would give it.

    Raises:
        AnnotationError: it is none that a tool may have.
    """
    try:
        return toolschema.type_schema(_type_of(_parsed(text)))
    except toolschema.SchemaError as error:
        raise AnnotationError(str(error)) from error


def _parsed(text: str) -> ast.expr:
    if not text.strip() or len(text) > _MAX_CHARS:
        raise AnnotationError(_ALLOWED)
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise AnnotationError(f"it is no Python annotation; {_ALLOWED}") from None


def _type_of(node: ast.expr, depth: int = 0) -> Any:
    if depth > _MAX_DEPTH:
        raise AnnotationError("it is nested too deeply")
    match node:
        case ast.Name(id=name) if name in _PLAIN:
            return _PLAIN[name]
        case ast.Name(id="list"):
            raise AnnotationError("say what the list holds: list[int], list[str] or list[dict]")
        case ast.BinOp(op=ast.BitOr()):
            return _union(node, depth)
        case ast.Subscript(value=ast.Name(id="list"), slice=item):
            return list[_type_of(item, depth + 1)]  # type: ignore[misc]
        case ast.Subscript(value=ast.Name(id="dict"), slice=ast.Tuple(elts=[ast.Name(id="str"), value])):
            return dict[str, _type_of(value, depth + 1)]  # type: ignore[misc]
        case ast.Subscript(value=ast.Name(id="Literal"), slice=values):
            return Literal[_literals(values)]
        case _:
            raise AnnotationError(_advice(node))


def _union(node: ast.expr, depth: int) -> Any:
    options: list[ast.expr] = []
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        options.insert(0, node.right)
        node = node.left
    types = [None if _is_none(option) else _type_of(option, depth + 1) for option in (node, *options)]
    if types == [None] * len(types):
        raise AnnotationError(_ALLOWED)
    found = [type_ for type_ in types if type_ is not None]
    return reduce(or_, found) | None if None in types else reduce(or_, found)


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _literals(values: ast.expr) -> tuple[str | int | bool, ...]:
    """The members of a Literal; a minus sign stands before its number."""
    listed = values.elts if isinstance(values, ast.Tuple) else [values]
    found = []
    for member in listed:
        try:
            value = ast.literal_eval(member)
        except ValueError:
            raise AnnotationError("members of Literal are quoted texts, or whole numbers") from None
        if not isinstance(value, str | int):
            raise AnnotationError("members of Literal are quoted texts, or whole numbers; None stands outside of it")
        found.append(value)
    if not found:
        raise AnnotationError("a Literal needs members")
    return tuple(found)


def _advice(node: ast.expr) -> str:
    name = node.value if isinstance(node, ast.Subscript) else node
    word = name.attr if isinstance(name, ast.Attribute) else name.id if isinstance(name, ast.Name) else ""
    return f"{_INSTEAD[word]}; {_ALLOWED}" if word in _INSTEAD else _ALLOWED

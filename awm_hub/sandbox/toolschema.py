"""From a tool function's signature and docstring to the JSON Schema that agents see.

For the `functions` interface: int, str, float, bool, list[...], dict, Literal, X | None and TypedDict, with defaults
and Google-style docstrings (the first paragraph describes the tool, `Args:` its parameters; a TypedDict's docstring
may have `Args:` for its keys). Schemas hold no `$ref` and no `title`, so that no client can lose a part of them;
unknown keys are refused at every level (`additionalProperties: false`). Runs inside the sandbox, on functions that
were just loaded.
"""

import inspect
import re
import types
import typing
from collections.abc import Callable
from typing import Any

_PLAIN = {int: "integer", str: "string", float: "number", bool: "boolean"}
_ENTRY = re.compile(r"^(\w+)(?: \([^)]*\))?:\s*(.*)$")
_SECTION = re.compile(r"^(Args|Arguments|Returns|Raises|Yields|Example|Examples|Note|Notes):$")
_MAX_DEPTH = 16


class SchemaError(Exception):
    """A function has no form that agents can see; `parameter` is the one that is to blame, if it is one."""

    def __init__(self, message: str, *, parameter: str | None = None) -> None:
        super().__init__(message)
        self.parameter = parameter


def described(function: Callable[..., Any]) -> str:
    """What a tool is for, once it is clear that it can be one.

    Raises:
        SchemaError: it is no plain function of the database, or has no docstring.
    """
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise SchemaError("tools are plain functions: write def instead of async def")
    if inspect.isgeneratorfunction(function):
        raise SchemaError("tools are plain functions that return their result: collect it in a list instead of yield")
    parameters = list(inspect.signature(function).parameters)
    if not parameters or parameters[0] != "db":
        raise SchemaError("the first parameter of a tool is `db`; names of private functions start with `_`")
    description = parse_docstring(function.__doc__)[0]
    if not description:
        raise SchemaError("a tool needs a docstring: its first paragraph tells an agent what the tool is for")
    return description


def input_schema(function: Callable[..., Any]) -> dict[str, Any]:
    """JSON Schema of a tool's arguments: every parameter but the first, which is the database.

    Raises:
        SchemaError: an annotation is missing or has no JSON form.
    """
    parameters = _parameters(function)[1:]
    described = parse_docstring(function.__doc__)[1]
    properties = {p.name: _property(p, described.get(p.name)) for p in parameters}
    required = [p.name for p in parameters if p.default is p.empty]
    schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**schema, "required": required} if required else schema


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """The parameters, annotations that are texts evaluated."""
    try:
        return list(inspect.signature(function, eval_str=True).parameters.values())
    except (NameError, AttributeError, SyntaxError, TypeError) as error:
        raise SchemaError(f"an annotation cannot be read: {error}") from error


def parse_docstring(text: str | None) -> tuple[str, dict[str, str]]:
    """First paragraph and the entries of `Args:` of a Google-style docstring."""
    lines = inspect.cleandoc(text or "").split("\n")
    paragraph = " ".join(" ".join(lines).split()) if "" not in lines else " ".join(lines[: lines.index("")])
    entries: dict[str, str] = {}
    section, name = "", ""
    for line in lines:
        if line and not line[0].isspace():
            found = _SECTION.match(line.rstrip())
            section, name = (found[1] if found else ""), ""
        elif section in ("Args", "Arguments") and line.strip():
            entry = _ENTRY.match(line.strip())
            if entry and _indent(line) <= 4:
                name = entry[1]
                entries[name] = entry[2]
            elif name:
                entries[name] = f"{entries[name]} {line.strip()}".strip()
    return paragraph.strip(), entries


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _property(parameter: inspect.Parameter, description: str | None) -> dict[str, Any]:
    name = parameter.name
    if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
        raise SchemaError("*args and **kwargs are no tool parameters", parameter=name)
    if parameter.annotation is parameter.empty:
        raise SchemaError("a parameter needs an annotation: int, str, float, bool, list[…], …", parameter=name)
    try:
        schema = type_schema(parameter.annotation)
    except SchemaError as error:
        raise SchemaError(str(error), parameter=name) from error
    if description:
        schema["description"] = description
    if parameter.default is not parameter.empty:
        schema["default"] = parameter.default
    return schema


def type_schema(annotation: Any, depth: int = 0) -> dict[str, Any]:
    """JSON Schema of one annotation.

    Raises:
        SchemaError: the annotation has no JSON form here.
    """
    if depth > _MAX_DEPTH:
        raise SchemaError("types are nested too deeply")
    if annotation in _PLAIN:
        return {"type": _PLAIN[annotation]}
    if annotation is None or annotation is types.NoneType:
        return {"type": "null"}
    if annotation is Any:
        return {}
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        return {"anyOf": [type_schema(a, depth + 1) for a in arguments]}
    if origin is typing.Literal:
        return _literal(arguments)
    if origin is typing.Annotated:
        return type_schema(arguments[0], depth + 1)
    if annotation is list or origin is list:
        return {"type": "array", "items": type_schema(arguments[0], depth + 1) if arguments else {}}
    if annotation is dict or origin is dict:
        return _mapping(arguments, depth)
    if typing.is_typeddict(annotation):
        return _typed_dict(annotation, depth)
    raise SchemaError(
        f"{_shown(annotation)} has no JSON form; use int, str, float, bool, list, dict, Literal or TypedDict"
    )


def _shown(annotation: Any) -> str:
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)


def _literal(values: tuple[Any, ...]) -> dict[str, Any]:
    kinds = {_PLAIN.get(type(value)) for value in values}
    if None in kinds:
        raise SchemaError(f"Literal{list(values)!r} holds something that is no JSON value")
    return {"type": kinds.pop(), "enum": list(values)} if len(kinds) == 1 else {"enum": list(values)}


def _mapping(arguments: tuple[Any, ...], depth: int) -> dict[str, Any]:
    if not arguments:
        return {"type": "object"}
    if arguments[0] is not str:
        raise SchemaError("JSON objects have string keys: use dict[str, ...]")
    return {"type": "object", "additionalProperties": type_schema(arguments[1], depth + 1)}


def _typed_dict(kind: Any, depth: int) -> dict[str, Any]:
    described = parse_docstring(kind.__doc__)[1]
    properties = {}
    for name, annotation in typing.get_type_hints(kind).items():
        properties[name] = type_schema(annotation, depth + 1)
        if name in described:
            properties[name]["description"] = described[name]
    schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    required = sorted(kind.__required_keys__, key=list(properties).index)
    return {**schema, "required": required} if required else schema

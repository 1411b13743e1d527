"""What `pack` advises without refusing: a row with these is valid, and yet probably not what its author meant.

Agents see a tool through its schema alone, so what a docstring forgets or misspells is missing for them; a task that
code cannot judge gives no reward; and a table that has used up its ids gives random ones.
"""

import ast
from collections.abc import Iterator, Mapping
from typing import Any

from awm_hub.environment import Environment, ToolSpec
from awm_hub.packing import analysis
from awm_hub.packing.sources import Source
from awm_hub.sandbox.toolschema import parse_docstring

_LARGEST_ID = 2**63 - 1
_TYPES: dict[str, type | tuple[type, ...]] = {
    "null": type(None), "boolean": bool, "integer": int, "number": (int, float), "string": str, "array": list,
    "object": dict,
}  # fmt: skip


def of_tools(source: Source, environment: Environment) -> Iterator[str]:
    """Advice on docstrings and defaults, in the order of the module."""
    module = analysis.parse(source.code)
    functions = {n.name: n for n in module.body if isinstance(n, ast.FunctionDef)}
    for tool in environment.tools:
        if tool.name in functions:
            place = f"{source.id}/tools.py, line {functions[tool.name].lineno}: {tool.name}"
            for what in _of_tool(tool, ast.get_docstring(functions[tool.name])):
                yield f"{place}{what}"


def of_tasks(source: Source) -> Iterator[str]:
    """Advice on tasks that only a person or a language model could judge."""
    for task in source.tasks:
        if task.solution is None and task.verifier("decision") is None:
            place = f"{source.id}/tasks.toml: [{task.slug}]"
            yield f"{place} cannot be judged by code: it has no solution and no decide_{task.slug} in verifiers.py"


def of_tables(source: Source, tables: Mapping[str, Any]) -> Iterator[str]:
    """Advice on tables whose next id would be a random one; `tables` are all rows, as dumped."""
    for name, table in tables.items():
        for at, column in enumerate(table["columns"]):
            if any(row[at] == _LARGEST_ID and not isinstance(row[at], float) for row in table["rows"]):
                what = f"{name}.{column} holds {_LARGEST_ID}, the largest there is"
                yield f"{source.id}/seed.sql: {what}: if it is the table's id, new rows get random ones"


def of_answer(source: Source, slug: str, answer: Any, given: Any) -> Iterator[str]:
    """Advice on answers that are integers where their `answer_sql` gives other numbers."""
    for one, other in _pairs(answer, given):
        is_integer = isinstance(one, int) and not isinstance(one, bool)
        if is_integer and isinstance(other, float):
            yield (
                f"{source.id}/tasks.toml: [{slug}] answer is the integer {one}, but answer_sql gives {other!r}: "
                f"agents are asked for an integer; write {float(one)!r}, or CAST(… AS INTEGER)"
            )


def _pairs(answer: Any, given: Any) -> list[tuple[Any, Any]]:
    if isinstance(answer, list) and isinstance(given, list):
        numbers = [g for g in given if isinstance(g, float)]
        return [(a, n) for a in answer for n in numbers if a == n]
    if isinstance(answer, dict) and isinstance(given, dict):
        return [(v, given.get(k)) for k, v in answer.items()]
    return [(answer, given)]


def _of_tool(tool: ToolSpec, docstring: str | None) -> Iterator[str]:
    properties = tool.input_schema.get("properties", {})
    entries = parse_docstring(docstring)[1]
    for name in entries:
        if name not in properties:
            yield f": Args names {name!r}, which is no parameter"
    for name, schema in properties.items():
        if name not in entries:
            yield f"({name}): the parameter has no description; add it to Args in the docstring"
        if "default" in schema and not fits(schema["default"], schema):
            kind = " | None" if schema["default"] is None else ""
            step = f"write the type as … {kind.strip()}" if kind else "mend the default or the type"
            yield f"({name}): the default {schema['default']!r} breaks the parameter's own type; {step}"


def fits(value: Any, schema: Mapping[str, Any]) -> bool:
    """Whether a value fits a schema that a signature was turned into."""
    if "anyOf" in schema:
        return any(fits(value, option) for option in schema["anyOf"])
    if "enum" in schema:
        return any(value == member and type(value) is type(member) for member in schema["enum"])
    kind = schema.get("type")
    if kind is None:
        return True
    if isinstance(value, bool) and kind != "boolean":
        return False
    if isinstance(value, list) and kind == "array":
        return all(fits(item, schema.get("items", {})) for item in value)
    return isinstance(value, _TYPES[kind])

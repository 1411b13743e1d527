"""Calls of every tool before the audit makes its thousands, to see that calling them is safe and ids are looked up.

A tool that runs until its deadline, or fills the memory, would hold the audit up for hours: it is reported at once. A
tool that answers is then asked about an id that nobody has, which must be refused as not found; the audit asks so too,
but holds only crashes against the tool.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from awm_hub import aio
from awm_hub.auditing import foundations
from awm_hub.auditing.asking import plain_type
from awm_hub.auditing.case import Case
from awm_hub.auditing.examples import ABSENT_NUMBER, example_calls, further_calls, properties_of, required_of
from awm_hub.canonical import to_json
from awm_hub.environment import Environment, ToolSpec
from awm_hub.synthesis.problems import Problem
from awm_hub.synthesis.stages.blaming import steady
from awm_hub.synthesis.stages.reading import problem
from awm_hub.trajectory import ToolResult

_SPENT = ("deadline", "memory_limit", "database_limit", "worker_died", "protocol")
"""Codes of faults that cost seconds, or a process."""
_MOST_SPENT = 4
"""Tools with such a fault; after them no other is called."""
_MAX_SHOWN = 160


@dataclass(kw_only=True)
class Called:
    """What the calls showed."""

    problems: list[Problem] = field(default_factory=list)
    spent: set[str] = field(default_factory=set)
    """Tools with a fault that the audit could not repeat in reasonable time."""
    refusals: dict[str, set[str]] = field(default_factory=dict)
    """Tool → codes of its refusals."""


async def call_all(environment: Environment) -> Called:
    """Call every tool with its examples, then with ids that do not exist.

    Raises:
        SandboxError: the processes that run the environment could not be kept going.
        ImageError: the database cannot be read.
    """
    called = Called()
    case = await foundations.open_case(environment, trust_remote_code=False)
    try:
        async with await case.launch() as instance:
            for tool in environment.tools:
                if len(called.spent) >= _MOST_SPENT:
                    break
                plain = await _call_one(case, instance, tool, called)
                for name in _ids(case, tool) if plain is not None else ():
                    arguments = {**(plain or {}), name: ABSENT_NUMBER}
                    result = await _call(case, instance, tool, arguments)
                    called.problems += _of_absent(tool, name, arguments, result)
    finally:
        case.workers.stop()
    return called


async def _call_one(case: Case, instance: aio.Instance, tool: ToolSpec, called: Called) -> Mapping[str, Any] | None:
    """Call a tool with examples; the first arguments to which it answered."""
    plain: Mapping[str, Any] | None = None
    examples = example_calls(case.environment, tool, case.seed)
    for arguments in (*examples, *further_calls(tool, case.seed)):
        if plain is not None and arguments not in examples:
            break
        result = await _call(case, instance, tool, arguments)
        if result.code in _SPENT:
            called.spent.add(tool.name)
            called.problems.append(problem("tool_fault", tool.name, _shown(tool, arguments, result)))
            return None
        if result.type == "refused":
            called.refusals.setdefault(tool.name, set()).add(str(result.code))
        if result.is_ok and plain is None:
            plain = arguments
    return plain


async def _call(case: Case, instance: aio.Instance, tool: ToolSpec, arguments: Mapping[str, Any]) -> ToolResult:
    await instance.reset()
    return await case.call(instance, tool.name, arguments)


def _ids(case: Case, tool: ToolSpec) -> Iterator[str]:
    """Parameters that take the id of a row."""
    for name, schema in properties_of(tool.input_schema).items():
        if name.endswith("_id") and plain_type(schema) == "integer":
            known: Sequence[Any] = next(iter(case.seed.values(name, tool.name)), ())
            if any(type(value) is int for value in known):
                yield name


def _of_absent(tool: ToolSpec, name: str, arguments: Mapping[str, Any], result: ToolResult) -> Iterator[Problem]:
    """An id that nobody has is not found; a filter by it, or a list, may find nothing."""
    is_filter = name not in required_of(tool.input_schema)
    if result.is_ok and tool.effect != "write" and _is_empty(result.value, is_filter):
        return
    is_wrong = result.code in ("invalid", "conflict") if result.type == "refused" else result.type != "invalid_call"
    if is_wrong:
        step = "find nothing, or refuse it as not found" if is_filter else "refuse it as not found"
        told = f"there is no row with this {name}: look it up before anything else, and {step}"
        yield problem("unknown_id", tool.name, f"{told}: {_shown(tool, arguments, result)}")


def _is_empty(value: Any, is_filter: bool) -> bool:
    """An empty list; where the id is only a filter, the list may be a part of an object."""
    if is_filter and isinstance(value, dict):
        return not any(part for part in value.values() if isinstance(part, list))
    return isinstance(value, list) and not value


def _shown(tool: ToolSpec, arguments: Mapping[str, Any], result: ToolResult) -> str:
    given = to_json(dict(arguments))
    given = given if len(given) <= _MAX_SHOWN else given[: _MAX_SHOWN - 1] + "…"
    if result.is_ok:
        value = to_json(result.value)
        return f"{tool.name}({given}) answers {value[:_MAX_SHOWN]}"
    return steady(f"{tool.name}({given}) is {result.type} {result.code}: {result.message}")

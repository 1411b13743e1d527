"""Attempts that do something else than the solution: no judge may accept them.

A mutant whose changes turn out to be the solution's (an idempotent repeat, a `free` column, a refused extra call) is
equivalent by construction and is not counted; `perform` finds that out.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from awm_hub.canonical import to_json
from awm_hub.environment import Call, Environment, Task, ToolSpec
from awm_hub.trajectory import Step
from awm_hub.variants.attempts import Attempt, right_answer, siblings, writes
from awm_hub.variants.values import perturbed, property_schema

_EXTRA_WRITES = 5
_SIBLINGS = 3
_UNDOING = ("cancel", "delete", "end", "release", "remove", "reopen", "return", "revert", "unassign", "undo", "void")


def mutants(environment: Environment, task: Task, solved: Sequence[Step] = ()) -> Iterator[Attempt]:
    """The solution with one thing wrong: a write dropped, an argument changed or added, an extra write, an undo.

    Args:
        environment: Where the task belongs.
        task: A task with a solution.
        solved: Steps of the solution as it ran; they name the ids of what it made, which undoing needs.
    """
    calls = task.solution or ()
    plain = Attempt(kind="mutant", name="", calls=calls, answer=right_answer(task), should_pass=False)
    seen = _seen_values(environment)
    for at, call in writes(environment, calls):
        step = f"step {at + 1} ({call.tool})"
        yield replace(plain, name=f"{step} dropped", calls=(*calls[:at], *calls[at + 1 :]))
        for name, other in _changed_calls(environment, call, seen):
            yield replace(plain, name=f"{step}: {name}", calls=(*calls[:at], other, *calls[at + 1 :]))
    for name, call in _extra_writes(environment, task):
        yield replace(plain, name=f"extra write: {name}", calls=(*calls, call))
    for call in _undoing(environment, calls, solved):
        yield replace(plain, name=f"undone by {call.tool}", calls=(*calls, call))


def noops(task: Task) -> Iterator[Attempt]:
    """Doing nothing: in silence, and with the right answer where the task asks for a change too."""
    yield Attempt(kind="noop", name="nothing", should_pass=False)
    yield Attempt(kind="noop", name="a claim", answer="Done. Everything is as you asked.", should_pass=False)
    if task.kind == "both":
        yield Attempt(kind="noop", name="nothing but the answer", answer=right_answer(task), should_pass=False)


def sibling_solutions(environment: Environment, task: Task) -> Iterator[Attempt]:
    """What solves another task of the environment."""
    for other in list(siblings(environment, task))[:_SIBLINGS]:
        calls, answer = other.solution or (), right_answer(other)
        yield Attempt(kind="sibling", name=f"solution of {other.slug}", calls=calls, answer=answer, should_pass=False)


def _seen_values(environment: Environment) -> dict[str, list[Any]]:
    """Values of arguments in all solutions, by parameter: plausible values for other calls."""
    seen: dict[str, list[Any]] = {}
    for task in environment.tasks:
        for call in task.solution or ():
            for name, value in call.arguments.items():
                known = seen.setdefault(name, [])
                if value is not None and all(to_json(value) != to_json(k) for k in known):
                    known.append(value)
    return seen


def _changed_calls(
    environment: Environment, call: Call, seen: Mapping[str, Sequence[Any]]
) -> Iterator[tuple[str, Call]]:
    """A call with one argument changed or added."""
    schema = environment.tool(call.tool).input_schema
    for name, value in call.arguments.items():
        for words, other in perturbed(value, property_schema(schema, name)):
            yield f"{name}, {words}", _with(call, name, other)
        elsewhere = [other for other in seen.get(name, ()) if to_json(other) != to_json(value)]
        if elsewhere:
            yield f"{name}, as elsewhere", _with(call, name, elsewhere[0])
    for name in sorted(_optional(schema) - call.arguments.keys()):
        for other in [*seen.get(name, ()), *(v for _, v in perturbed(None, property_schema(schema, name)))][:1]:
            yield f"{name} added", _with(call, name, other)


def _with(call: Call, name: str, value: Any) -> Call:
    return replace(call, arguments={**call.arguments, name: value})


def _optional(schema: Mapping[str, Any]) -> set[str]:
    properties, required = schema.get("properties"), schema.get("required")
    known = set(properties) if isinstance(properties, Mapping) else set()
    return known - set(required if isinstance(required, list) else ())


def _extra_writes(environment: Environment, task: Task) -> Iterator[tuple[str, Call]]:
    """The last write once more, and writes of other tasks, one per tool."""
    own = [call for _, call in writes(environment, task.solution or ())]
    if own:
        yield f"{own[-1].tool} again", own[-1]
    found: dict[str, Call] = {}
    for other in siblings(environment, task):
        for _, call in writes(environment, other.solution or ()):
            if call not in own:
                found.setdefault(call.tool, call)
    yield from list(found.items())[:_EXTRA_WRITES]


def _undoing(environment: Environment, calls: Sequence[Call], solved: Sequence[Step]) -> Iterator[Call]:
    """Calls of tools that take back something, with the ids that the solution used or made."""
    ids = _known_ids(calls, solved)
    for tool in environment.tools:
        needed = list(tool.input_schema.get("required") or ())
        if _is_undoing(tool) and needed and ids.keys() >= set(needed):
            yield Call(tool=tool.name, arguments={name: ids[name] for name in needed})


def _is_undoing(tool: ToolSpec) -> bool:
    return tool.effect != "read" and tool.name.partition("_")[0] in _UNDOING


def _known_ids(calls: Sequence[Call], solved: Sequence[Step]) -> dict[str, Any]:
    ids = {name: value for call in calls for name, value in call.arguments.items() if name.endswith("_id")}
    for step in solved:
        value = step.result.value
        noun = step.tool.partition("_")[2]
        if isinstance(value, dict) and "id" in value and noun:
            ids[f"{noun}_id"] = value["id"]
            ids[f"{noun.rpartition('_')[2]}_id"] = value["id"]
    return ids

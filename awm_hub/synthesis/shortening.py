"""From the calls of an attempt to a solution: what led to the ending, and no detours.

Calls that were turned down go, and reads that nothing later needs: a read stays where it shows an id or a text that a
later call names, or a part of the answer. The solution's arguments are literal. Where a call names what an earlier one
has made up by chance (a random code), that is no value of the next run, so it becomes a reference to the result.
"""

import dataclasses
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from awm_hub.auditing import grounding
from awm_hub.auditing.case import Case
from awm_hub.canonical import to_json
from awm_hub.environment import Call, Task
from awm_hub.packing import references
from awm_hub.trajectory import Step

_NUMBERED = re.compile(r"^step \d+, ")
_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def calls_of(steps: Sequence[Step]) -> tuple[Call, ...]:
    """The calls of steps."""
    return tuple(Call(tool=step.tool, arguments=step.arguments) for step in steps)


def answered(steps: Sequence[Step]) -> tuple[Step, ...]:
    """The steps whose calls did what they were to do."""
    return tuple(step for step in steps if step.result.is_ok)


def part_of(calls: Sequence[Call], answer: Any, *, is_literal: bool) -> Mapping[str, Any]:
    """The part of the stage's product that holds a task's solution."""
    steps = [{"tool": call.tool, "arguments": dict(call.arguments)} for call in calls]
    return {"solution": steps, "answer": answer, **({} if is_literal else {"references": True})}


def written(part: Mapping[str, Any]) -> str:
    """A part as its product holds it."""
    return json.dumps(part, ensure_ascii=False)


def shortened(case: Case, task: Task, steps: Sequence[Step]) -> tuple[Step, ...]:
    """The steps without reads that are repeated, find nothing, or are not needed.

    A query is nothing but reads, and which of them its answer rests on shows in no argument: of those, only the
    repeated and the empty go.

    Args:
        case: The environment, and what its sample data hold.
        task: With its answer.
        steps: Answered ones, in order.
    """
    kept = _without_repeated(case, answered(steps))
    shown = list(_leaves([step.result.value for step in kept]))
    is_worked_out = any(not _is_in(leaf, shown) for leaf in _leaves(task.answer))
    if task.kind == "query" or is_worked_out:
        return tuple(kept)
    noted = _noted(case, task, kept)
    for step in reversed([s for s in kept if _is_read(case, s)]):
        rest = [other for other in kept if other is not step]
        if not _is_needed(case, task, step, kept) and _noted(case, task, rest) <= noted:
            kept = rest
    return tuple(kept)


def referenced(case: Case, task: Task, steps: Sequence[Step]) -> tuple[Call, ...] | None:
    """The calls with references in place of what earlier results have made up; None where there is no such value."""
    calls = []
    for number, step in enumerate(steps):
        known = f"{case.environment.briefing}\n{task.instruction}\n{case.seed.text}".casefold()
        arguments = _referred(step.arguments, steps[:number], case, known)
        calls.append(Call(tool=step.tool, arguments={k: v for k, v in arguments.items() if v is not None}))
    if references.misspelt([call.arguments for call in calls]) is not None:
        return None
    literal = [step.arguments for step in steps]
    is_safe = not any(map(references.holds_reference, literal))
    return tuple(calls) if is_safe and any(references.holds_reference(c.arguments) for c in calls) else None


def _is_read(case: Case, step: Step) -> bool:
    return case.environment.tool(step.tool).effect == "read"


def _without_repeated(case: Case, steps: Sequence[Step]) -> list[Step]:
    """Without reads that give what the same read gave before, and without those that find nothing."""
    kept: list[Step] = []
    seen = set()
    for step in steps:
        key = to_json([step.tool, step.arguments, step.result.value])
        if _is_read(case, step) and (key in seen or step.result.value in ([], {}, None)):
            continue
        seen.add(key)
        kept.append(step)
    return kept if kept else list(steps)


def _is_needed(case: Case, task: Task, step: Step, steps: Sequence[Step]) -> bool:
    """Whether a step alone shows something that a later call names, or the answer holds."""
    told = f"{case.environment.briefing}\n{task.instruction}".casefold()
    at = next(position for position, other in enumerate(steps) if other is step)
    own = list(_leaves(step.result.value))
    before = list(_leaves([other.result.value for other in steps[:at]]))
    for later in steps[at + 1 :]:
        for value in _named(later.arguments):
            is_told = isinstance(value, str) and value.casefold() in told
            if _is_in(value, own) and not _is_in(value, before) and not is_told:
                return True
        before += _leaves(later.result.value)
    return any(_is_in(leaf, own) and not _is_in(leaf, before) for leaf in _leaves(task.answer))


def _noted(case: Case, task: Task, steps: Sequence[Step]) -> set[tuple[str, str]]:
    """What the audit's check of grounding would find, without the numbers of steps."""
    apart = dataclasses.replace(case, findings=[])
    grounding.check(apart, task, steps)
    return {(f.rule, _NUMBERED.sub("", f.message)) for f in apart.findings}


def _named(arguments: Any) -> Iterator[Any]:
    """The texts of arguments, and the integers that are ids."""
    for name, value in arguments.items() if isinstance(arguments, Mapping) else ():
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, Mapping):
                yield from _named(item)
            elif isinstance(item, str) or (type(item) is int and name.endswith("id")):
                yield item


def _is_in(value: Any, leaves: Sequence[Any]) -> bool:
    return any(type(leaf) is type(value) and leaf == value for leaf in leaves)


def _leaves(value: Any) -> Iterator[Any]:
    """The scalars of a JSON value."""
    return (leaf for _, leaf in _paths(value, ""))


def _paths(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """The scalars of a JSON value with the part of a reference that leads there; None where none can."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _paths(part, f"{path}.{key}" if _KEY.fullmatch(key) else "?")
    elif isinstance(value, list):
        for at, part in enumerate(value):
            yield from _paths(part, f"{path}[{at}]")
    elif value is not None:
        yield path, value


def _referred(value: Any, before: Sequence[Step], case: Case, known: str) -> Any:
    """A value with references to what earlier steps made up."""
    if isinstance(value, Mapping):
        return {key: _referred(part, before, case, known) for key, part in value.items()}
    if isinstance(value, list):
        return [_referred(part, before, case, known) for part in value]
    is_text = isinstance(value, str) and value != "" and value.casefold() not in known
    if not is_text and type(value) is not int:
        return value
    for number, step in enumerate(before, 1):
        if not is_text and _is_read(case, step):
            continue  # a number is made up only where something is written
        for path, leaf in _paths(step.result.value, ""):
            is_same = type(leaf) is type(value) and leaf == value and "?" not in path
            if is_same and (is_text or path.endswith("id")):
                return f"${number}{path}"
    return value

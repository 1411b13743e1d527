"""What an LLM judge's model reads about one attempt: four JSON values, apart from each other and cut to a size.

Nearly every text in it was written by somebody who may want another verdict: the agent, or whoever filled the database.
So each part is one line of JSON, in which no text can end the part, and the parts are marked by a boundary that is
drawn for each request. What is cut says so in place.
"""

import itertools
from collections.abc import Iterator
from typing import Any

from awm_hub.canonical import to_json, to_line
from awm_hub.environment import Task
from awm_hub.inference.replies import escaped
from awm_hub.judging.deciding import Examination
from awm_hub.trajectory import Step, Trajectory

_LEVELS = ((6000, 200), (2000, 60), (600, 24), (200, 12), (80, 6))
"""Characters of a text and items of a list that are kept: the first pair that makes the whole fit is taken."""

Parts = tuple[tuple[str, Any], ...]
"""Name and JSON value of each part."""


def parts_of(found: Examination, trajectory: Trajectory, *, max_chars: int, shows_thoughts: bool = False) -> Parts:
    """The parts that describe an attempt, episode and evidence cut to `max_chars` characters each.

    Raises:
        RecordError: a value in the trajectory has no JSON form.
    """
    return (
        ("task", _task(found)),
        ("criteria", _criteria(found.task)),
        ("episode", fitted(escaped(_episode(trajectory, shows_thoughts)), max_chars)),
        ("evidence", fitted(_evidence(found), max_chars)),
    )


def written(parts: Parts, boundary: str) -> str:
    """The parts as one message."""
    lines = itertools.chain.from_iterable((f"{boundary} {name}", to_line(value)) for name, value in parts)
    return "\n".join([*lines, f"{boundary} end"])


def fitted(value: Any, max_chars: int) -> Any:
    """A JSON value cut until it takes no more than so many characters."""
    if len(to_json(value)) <= max_chars:
        return value
    for text_chars, items in _LEVELS:
        cut = _cut(value, text_chars, items)
        if len(to_json(cut)) <= max_chars:
            return cut
    return _cut_text(to_json(cut), max_chars // 2 - 50)  # each quote in it takes two characters


def _cut(value: Any, text_chars: int, items: int) -> Any:
    if isinstance(value, str):
        return _cut_text(value, text_chars)
    if isinstance(value, dict):
        return {_cut_text(name, text_chars): _cut(part, text_chars, items) for name, part in value.items()}
    if isinstance(value, list):
        kept: list[Any] = value
        if left_out := max(0, len(value) - items):
            head = items - items // 2
            kept = [*value[:head], {"left_out": f"{left_out} items"}, *value[head + left_out :]]
        return [_cut(part, text_chars, items) for part in kept]
    return value


def _cut_text(text: str, max_chars: int) -> str:
    """Both ends of a text: an answer stands at the end of a message."""
    left_out = len(text) - max_chars
    if left_out <= 0:
        return text
    head = max_chars - max_chars // 2
    return f"{text[:head]} … [{left_out} characters left out] … {text[head + left_out :]}"


def _task(found: Examination) -> dict[str, Any]:
    environment = found.environment
    return {
        "environment": environment.title,
        "rules": environment.rules,
        "now": environment.clock.isoformat(),
        "instruction": found.task.prompt,
        "kind": found.task.kind,
    }


def _criteria(task: Task) -> dict[str, Any]:
    """The criteria of all verifiers, each once; an expected answer is told, since the model has no database."""
    return {
        "success": list(dict.fromkeys(v.success_criteria for v in task.verifiers if v.success_criteria)),
        "failure": list(dict.fromkeys(v.failure_criteria for v in task.verifiers if v.failure_criteria)),
        "expected_answer": task.answer,
    }


def _episode(trajectory: Trajectory, shows_thoughts: bool) -> dict[str, Any]:
    return {
        "steps": list(_steps(trajectory.steps, shows_thoughts)),
        "ended": trajectory.termination,
        "final_message": trajectory.answer,
    }


def _steps(steps: tuple[Step, ...], shows_thoughts: bool) -> Iterator[dict[str, Any]]:
    for number, step in enumerate(steps, 1):
        result = step.result
        said = {"result": result.value} if result.is_ok else {"code": result.code, "message": result.message}
        thought = {"thought": step.thought} if shows_thoughts and step.thought else {}
        yield {"number": number, **thought, "tool": step.tool, "arguments": step.arguments, "type": result.type, **said}


def _evidence(found: Examination) -> dict[str, Any]:
    evidence = found.evidence.to_dict()
    return {"changes": evidence.pop("diff"), **evidence}

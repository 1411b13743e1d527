"""Wrong final messages, made from the expected answer.

Each is wrong by its making: another value, two values where one is asked for, a denial of the right one. None is left
out for being accepted by `awm_hub.judging.answers`; that would hide what these are made to find.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from awm_hub.canonical import to_json
from awm_hub.environment import Environment, Task
from awm_hub.judging.answers import is_same_answer
from awm_hub.variants.attempts import Attempt, right_answer, siblings
from awm_hub.variants.values import perturbed


def wrong_answers(environment: Environment, task: Task) -> Iterator[Attempt]:
    """The solution's calls with each wrong answer; nothing where no answer is asked for."""
    if task.answer is None:
        return
    plain = Attempt(kind="wrong_answer", name="", calls=task.solution or (), should_pass=False)
    for name, text in _texts(task):
        yield replace(plain, name=f"answer: {name}", answer=text)
    for other in siblings(environment, task):
        if other.answer is not None and not is_same_answer(task.answer, other.answer, task.answer_order):
            yield replace(plain, name=f"answer of {other.slug}", answer=right_answer(other))
            break


def _texts(task: Task) -> Iterator[tuple[str, str | None]]:
    expected = task.answer
    right, wrong = to_json(expected), [(name, to_json(value)) for name, value in _wrong_values(task)]
    yield "none", None
    yield "empty", ""
    yield "negated", f"The answer is not {right}."
    yield "in a thought only", f"<think>{right}</think>"
    yield from wrong
    if wrong:
        other = wrong[0][1]
        yield "hedged", f"{right} or perhaps {other}"
        yield "taken back", f"{right}\n\nNo, wait: it must be\n{other}"
        yield "enumerated", "\n".join([right, *(text for _, text in wrong)])


def _wrong_values(task: Task) -> Iterator[tuple[str, Any]]:
    """Values that are another answer than the expected one, whatever the form."""
    expected = task.answer
    for name, value in (*perturbed(expected), *_rearranged(expected)):
        if not is_same_answer(expected, value, task.answer_order):
            yield name, value


def _rearranged(expected: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(expected, list) and expected:
        extra = next((value for _, value in perturbed(expected[0])), expected[0])
        yield "an item added", [*expected, extra]
        yield "an item twice", [*expected, expected[-1]]
        yield "the other way round", expected[::-1]
    elif isinstance(expected, dict) and expected:
        names, values = list(expected), list(expected.values())
        yield "fields swapped", dict(zip(names, [*values[1:], values[0]], strict=True))
        yield "a field added", {**expected, "note": values[0]}
    elif isinstance(expected, str | int | float):
        yield "in a list", [expected]

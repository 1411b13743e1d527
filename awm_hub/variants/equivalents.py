"""Attempts that end as the solution does: no judge may refuse them."""

from collections.abc import Iterator
from dataclasses import replace

from awm_hub.environment import Call, Environment, Task
from awm_hub.variants.attempts import Attempt, is_read, right_answer

_EXTRA_READS = 2
_NO_SUCH_ID = 987_654_321


def equivalents(environment: Environment, task: Task) -> Iterator[Attempt]:
    """The solution, and the solution with what makes no difference.

    Extra reads first; each read twice; neighbours swapped (at once where one of them only reads, subject to the ending
    where both write); a call first that is refused; the answer fenced and after prose.
    """
    calls, answer = task.solution or (), right_answer(task)
    solution = Attempt(kind="solution", name="solution", calls=calls, answer=answer, should_pass=True)
    yield solution
    plain = replace(solution, kind="equivalent")
    if extra := list(_open_reads(environment))[:_EXTRA_READS]:
        yield replace(plain, name="extra reads first", calls=(*extra, *calls))
    reads = tuple(call for call in calls if is_read(environment, call))
    if reads:
        yield replace(plain, name="its reads again at the end", calls=(*calls, *reads))
    yield from _swaps(environment, plain)
    if refused := next(_refused(environment, calls), None):
        yield replace(plain, name="a refused call first", calls=(refused, *calls), should_pass=None)
    if answer is not None:
        yield replace(plain, name="answer in a fence", answer=f"```json\n{answer}\n```")
        yield replace(plain, name="answer after prose", answer=f"I looked it up and checked it twice.\n\n{answer}")


def _open_reads(environment: Environment) -> Iterator[Call]:
    """Calls of read tools that need no argument."""
    for tool in environment.tools:
        if tool.effect == "read" and not tool.input_schema.get("required"):
            yield Call(tool=tool.name, arguments={})


def _swaps(environment: Environment, plain: Attempt) -> Iterator[Attempt]:
    for at, (one, other) in enumerate(zip(plain.calls, plain.calls[1:], strict=False)):
        if one == other:
            continue
        calls = (*plain.calls[:at], other, one, *plain.calls[at + 2 :])
        is_safe = is_read(environment, one) or is_read(environment, other)
        name = f"calls {at + 1} and {at + 2} swapped"
        yield replace(plain, name=name, calls=calls, should_pass=True if is_safe else None)


def _refused(environment: Environment, calls: tuple[Call, ...]) -> Iterator[Call]:
    """Calls of the solution about something that does not exist, writes first."""
    for call in sorted(calls, key=lambda call: is_read(environment, call)):
        for name, value in call.arguments.items():
            if name.endswith("_id") and type(value) is int:
                yield replace(call, arguments={**call.arguments, name: _NO_SUCH_ID})

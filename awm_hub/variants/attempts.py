"""An attempt at a task as plain data: calls, a final message, and whether it should pass.

The label follows from how an attempt was made, not from what any judge says of it. Where only the ending can tell
(two writes swapped may or may not depend on each other) the label is None until the attempt has been performed.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from awm_hub.canonical import to_json
from awm_hub.environment import Call, Environment, Task

KINDS = ("solution", "equivalent", "noop", "mutant", "wrong_answer", "sibling", "injection")
"""What an attempt was made as, in the order in which they are listed."""


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """What to do, and what should come of it."""

    kind: str
    """One of `KINDS`."""
    name: str
    """Unique among the attempts at one task."""
    calls: tuple[Call, ...] = ()
    answer: str | None = None
    """The final message."""
    thought: str | None = None
    """Recorded with the first call."""
    should_pass: bool | None
    """None: it passes if its ending is the solution's, and is not counted otherwise."""


def right_answer(task: Task) -> str | None:
    """The expected answer as a final message; None where none is asked for."""
    return None if task.answer is None else to_json(task.answer)


def is_read(environment: Environment, call: Call) -> bool:
    """Whether a call is of a tool that cannot change the database."""
    return any(tool.name == call.tool and tool.effect == "read" for tool in environment.tools)


def writes(environment: Environment, calls: Iterable[Call]) -> Iterator[tuple[int, Call]]:
    """The calls that may change the database, with their positions from 0."""
    return ((at, call) for at, call in enumerate(calls) if not is_read(environment, call))


def siblings(environment: Environment, task: Task) -> Iterator[Task]:
    """Other tasks of the environment that have a solution."""
    return (other for other in environment.tasks if other.id != task.id and other.solution is not None)

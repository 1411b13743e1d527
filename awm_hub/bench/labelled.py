"""Attempts with the outcomes that a judge may find: made from solutions, or labelled by hand in a file.

A made attempt is labelled by its making (`awm_hub.variants`): the solution and its equivalents are COMPLETED,
everything else is not, and doing nothing on a task that asks for a change is AGENT_ERROR. How much of a mutant counts
as a part is a matter of judgement, so both other outcomes are accepted for it. Hand-labelled attempts have one each.

A file of those is JSONL, one attempt a line, which is carried out before it is judged: `{"id", "environment", "task",
"calls": [{"tool", "arguments"}], "answer", "outcome", "thought"?}`.
"""

import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from awm_hub import aio
from awm_hub.environment import Call, Environment, Task
from awm_hub.errors import DataError, RecordError
from awm_hub.judging import judge_async
from awm_hub.trajectory import Outcome, Trajectory
from awm_hub.variants import KINDS, Attempt, Performed, attempts_at, perform
from awm_hub.variants.performing import carry_out

BY_HAND = "by_hand"
"""Kind of attempts that somebody has labelled."""
_FAILED = frozenset({Outcome.PARTIALLY_COMPLETED, Outcome.AGENT_ERROR})


@dataclass(frozen=True, kw_only=True)
class Labelled:
    """An attempt, carried out, and what a judge may find in it."""

    id: str
    """`<task id>: <name>`."""
    kind: str
    """One of `awm_hub.variants.KINDS`, or `by_hand`."""
    accepted: frozenset[Outcome]
    trajectory: Trajectory = field(repr=False)

    @property
    def should_pass(self) -> bool:
        """Whether COMPLETED is right."""
        return Outcome.COMPLETED in self.accepted


async def made_attempts(
    environment: Environment,
    task: Task,
    *,
    kinds: Collection[str] = KINDS,
    per_kind: int | None = None,
    trust_remote_code: bool = False,
) -> tuple[tuple[Labelled, ...], int]:
    """Labelled attempts at a task with a solution, and the number of those whose label their ending leaves open.

    Args:
        environment: Where the task belongs.
        task: The task.
        kinds: Which kinds to make.
        per_kind: At most so many of each kind, spread evenly over all.
        trust_remote_code: Run without a seal where this machine cannot seal.
    """
    solution = attempts_at(environment, task, kinds=("solution",))
    [solved] = await perform(environment, task, solution, trust_remote_code=trust_remote_code)
    attempts = attempts_at(environment, task, kinds=kinds, solved=solved.trajectory.steps)
    chosen = [a for kind in kinds for a in _spread([a for a in attempts if a.kind == kind], per_kind)]
    done = await perform(environment, task, chosen, trust_remote_code=trust_remote_code)
    settled = [found for one in done if (found := await _labelled(task, one)) is not None]
    return tuple(settled), len(done) - len(settled)


def _spread(attempts: list[Attempt], per_kind: int | None) -> list[Attempt]:
    if per_kind is None or len(attempts) <= per_kind:
        return attempts
    return [attempts[at * len(attempts) // per_kind] for at in range(per_kind)]


async def _labelled(task: Task, done: Performed) -> Labelled | None:
    """None where nobody can say without judging: a decision function may know of other right endings."""
    attempt, passes = done.attempt, done.should_pass
    if passes is None or (not passes and await _is_another_right_ending(task, done)):
        return None
    accepted = frozenset({Outcome.COMPLETED}) if passes else _FAILED
    if attempt.kind == "noop" and task.kind == "change":
        accepted = frozenset({Outcome.AGENT_ERROR})
    name = f"{task.id}: {attempt.name}"
    return Labelled(id=name, kind=attempt.kind, accepted=accepted, trajectory=done.trajectory)


async def _is_another_right_ending(task: Task, done: Performed) -> bool:
    if task.verifier("decision") is None or not done.attempt.calls:
        return False
    return (await judge_async(done.trajectory)).outcome is Outcome.COMPLETED


async def hand_labelled(
    path: str | os.PathLike[str], environments: Mapping[str, Environment], *, trust_remote_code: bool = False
) -> tuple[Labelled, ...]:
    """The attempts of a file, carried out.

    Raises:
        DataError: there is no such file.
        RecordError: a line breaks the form.
        UnknownNameError: a line names an environment or a task that is not there.
    """
    found = []
    for name, environment_id, task_name, attempt, outcome in _lines(Path(path)):
        environment = environments[environment_id]
        task = environment.task(task_name)
        async with aio.launch(environment, task=task.id, trust_remote_code=trust_remote_code) as instance:
            done = await carry_out(instance, attempt)
        accepted = frozenset({outcome})
        found.append(Labelled(id=f"{task.id}: {name}", kind=BY_HAND, accepted=accepted, trajectory=done))
    return tuple(found)


def _lines(path: Path) -> Iterator[tuple[str, str, str, Attempt, Outcome]]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise DataError(f"there is no file {path}", next_step="name a JSONL file of labelled attempts") from None
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            found = json.loads(line)
            outcome = Outcome(found["outcome"])
            attempt = _attempt(found, found["calls"])
            yield str(found["id"]), str(found["environment"]), str(found["task"]), attempt, outcome
        except (ValueError, KeyError, TypeError) as error:
            raise RecordError(f"{path}, line {number}, is no labelled attempt: {error!r}") from error


def _attempt(found: Mapping[str, Any], calls: Iterable[Mapping[str, Any]]) -> Attempt:
    return Attempt(
        kind=BY_HAND,
        name=str(found["id"]),
        calls=tuple(Call(tool=call["tool"], arguments=call["arguments"]) for call in calls),
        answer=found["answer"],
        thought=found.get("thought"),
        should_pass=found["outcome"] == Outcome.COMPLETED,
    )

"""Attempts carried out: one instance, reset before each, and a label that the ending has settled.

As in a strict rollout, an attempt ends at the first fault of the environment. An ending whose changes are the
solution's, by the rules of the derived decision, is no mutant's, whatever was done on the way.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from awm_hub import aio
from awm_hub.environment import Environment, Task
from awm_hub.errors import DataError, UsageError
from awm_hub.judging.answers import answer_matches
from awm_hub.runtime import jobs
from awm_hub.trajectory import Trajectory
from awm_hub.variants.attempts import Attempt

_CONTENT_KINDS = ("mutant", "sibling", "injection")
"""Kinds that are wrong by what they change, and so not wrong where that turns out to be the solution's."""


@dataclass(frozen=True, kw_only=True)
class Performed:
    """An attempt and what came of it."""

    attempt: Attempt
    trajectory: Trajectory
    is_same_ending: bool
    """Whether its changes are the solution's."""
    should_pass: bool | None
    """None: it is not to be counted, because the ending or a fault leaves the label open."""


async def perform(
    environment: Environment,
    task: Task,
    attempts: Iterable[Attempt],
    *,
    seed: int = 0,
    trust_remote_code: bool = False,
) -> tuple[Performed, ...]:
    """Carry attempts out, one after another.

    Raises:
        UsageError: the task has no solution.
        DataError: a step of the solution fails.
        SandboxError: the environment cannot be launched.
    """
    if task.solution is None:
        raise UsageError(f"task {task.id} has no solution to compare with", next_step="choose a task with one")
    solution = Attempt(kind="solution", name="solution", calls=task.solution, should_pass=True)
    launching = aio.launch(environment, task=task.id, seed=seed, trust_remote_code=trust_remote_code)
    async with launching as instance, jobs.forked(trust_remote_code=trust_remote_code) as fork:
        initial = await instance.image()
        _check(task, await carry_out(instance, solution))
        expected = await instance.image()
        done = []
        for attempt in attempts:
            trajectory = await carry_out(instance, attempt)
            comparison = await jobs.compare_endings(
                initial,
                expected,
                await instance.image(),
                volatile=environment.volatile_columns,
                free=task.free,
                kind=task.kind,
                fork=fork,
            )
            done.append(_performed(task, attempt, trajectory, comparison.equal))
    return tuple(done)


async def carry_out(instance: aio.Instance, attempt: Attempt) -> Trajectory:
    """Reset an instance and do what an attempt says."""
    await instance.reset()
    for at, call in enumerate(attempt.calls):
        thought = attempt.thought if at == 0 else None
        result = await instance.call_tool(call.tool, call.arguments, thought=thought)
        if result.type == "fault":
            return replace(await instance.trajectory(), termination="environment_fault")
    await instance.submit(attempt.answer)
    return await instance.trajectory()


def _check(task: Task, solved: Trajectory) -> None:
    failed = next((step for step in solved.steps if not step.result.is_ok), None)
    if failed is not None:
        message = f"the solution of {task.id} fails at {failed.tool}: {failed.result.message}"
        raise DataError(message, next_step="mend the solution: attempts are made from it")


def _performed(task: Task, attempt: Attempt, trajectory: Trajectory, is_same_ending: bool) -> Performed:
    label = attempt.should_pass
    if trajectory.termination == "environment_fault":
        label = None
    elif label is None:
        label = True if is_same_ending else None
    elif is_same_ending and attempt.kind in _CONTENT_KINDS and _is_answered(task, attempt):
        label = None
    return Performed(attempt=attempt, trajectory=trajectory, is_same_ending=is_same_ending, should_pass=label)


def _is_answered(task: Task, attempt: Attempt) -> bool:
    return task.answer is None or answer_matches(task.answer, task.answer_order, attempt.answer)

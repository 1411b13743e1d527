"""Which rows a rollout changed, and which of its calls changed them.

A trajectory holds the final database as pages against the initial one, so the rows that differ in the end are read from
there. Which call changed which row is found by replaying: the same calls with the same seed give the same databases,
and where they do not (a call that timed out on a slow machine), only the end is told.
"""

from dataclasses import dataclass

from awm_hub.environment import Environment
from awm_hub.errors import RecordError, SandboxError, UnknownNameError, UsageError
from awm_hub.runtime import Options, jobs, pages
from awm_hub.runtime.instance import Instance
from awm_hub.runtime.launching import launch
from awm_hub.trajectory import StateDiff, Trajectory

_TIMED = ("deadline", "worker_died")
"""Faults that a replay would wait for, and need not meet."""


@dataclass(frozen=True, kw_only=True)
class RowChanges:
    """The rows that a rollout changed."""

    whole: StateDiff
    """From the beginning to the end."""
    steps: tuple[StateDiff, ...] = ()
    """Per step; empty where a replay does not lead to the same database."""


async def row_changes(
    trajectory: Trajectory, environment: Environment, *, trust_remote_code: bool = False
) -> RowChanges | None:
    """The rows that a rollout changed; None where the environment is another one, or cannot be run here."""
    if environment.content_hash != trajectory.environment_hash:
        return None
    try:
        whole = await _whole(trajectory, environment, trust_remote_code)
        return RowChanges(whole=whole, steps=await _by_step(trajectory, environment, trust_remote_code))
    except (RecordError, SandboxError, UnknownNameError, UsageError):  # fields of untrusted files among them
        return None


async def _whole(trajectory: Trajectory, environment: Environment, trust: bool) -> StateDiff:
    setup = environment.task(trajectory.task_id).setup if trajectory.task_id is not None else ()
    initial = await jobs.prepare_image(environment.database, setup, environment.clock, trust_remote_code=trust)
    final = pages.apply(initial, trajectory.database_delta)
    return await jobs.state_diff(initial, final, trust_remote_code=trust)


async def _by_step(trajectory: Trajectory, environment: Environment, trust: bool) -> tuple[StateDiff, ...]:
    if any(step.result.code in _TIMED for step in trajectory.steps):
        return ()
    recorded = trajectory.options
    options = Options(
        null_as_omitted=recorded.get("null_as_omitted") is not False, lenient=recorded.get("lenient") is True
    )
    start = launch(environment, task=trajectory.task_id, seed=trajectory.seed, options=options, trust_remote_code=trust)
    async with start as instance:
        found = await _replayed(trajectory, instance, trust)
        is_same = (await instance.snapshot()).delta == trajectory.database_delta
    return found if is_same else ()


async def _replayed(trajectory: Trajectory, instance: Instance, trust: bool) -> tuple[StateDiff, ...]:
    found, version, image = [], 0, await instance.image()
    for step in trajectory.steps:
        await instance.call_tool(step.tool, step.arguments)
        if instance.steps[-1].state_version == version:
            found.append(StateDiff())
            continue
        before, image, version = image, await instance.image(), instance.steps[-1].state_version
        found.append(await jobs.state_diff(before, image, trust_remote_code=trust))
    return tuple(found)

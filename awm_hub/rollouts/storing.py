"""Trajectories that were made elsewhere, by anybody's agent loop, stored as a run like any other.

`rollout` makes attempts itself. Where a framework has a loop of its own, the loop works on live instances, and its
records are stored here: judged on request, counted by `measure`, shown by `awm-hub view`, judged again by
`awm-hub judge`. Such a run is complete; nothing goes on with it.
"""

import asyncio
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from awm_hub.environment import Environment
from awm_hub.errors import UsageError
from awm_hub.judging import Judge
from awm_hub.reward import turns_count
from awm_hub.rollouts import recording
from awm_hub.rollouts.dataset import write_trajectories
from awm_hub.rollouts.plans import Plan, PlannedEnvironment, as_mapping, place_of
from awm_hub.rollouts.store import Rollout, Run, alone, begin_run
from awm_hub.rollouts.verdicts import judge_name, with_verdict
from awm_hub.runtime.sync import run as run_sync
from awm_hub.trajectory import Trajectory

_CONCURRENCY = 8


def store_trajectories(
    trajectories: Iterable[Trajectory],
    out: str | os.PathLike[str],
    *,
    judge: str | Judge | None = None,
    policy: Mapping[str, Any] | None = None,
    environments: Environment | Mapping[str, Environment] | Iterable[Environment] | None = None,
) -> Run:
    """Store trajectories as a run, several of a task as several attempts at it.

    Args:
        trajectories: Records of attempts, such as `instance.trajectory()`.
        out: A new directory.
        judge: What `awm_hub.judge` takes; None adds no verdict to those that the trajectories have.
        policy: What made them, in words of JSON; default: what they say themselves.
        environments: Where they were made, if they do not hold their environments and these are not the bundled ones.
            What `awm_hub.load` returned is recorded, so that later commands find it.

    Raises:
        UsageError: there is no trajectory, one has no task, two are of different versions of an environment, or the
            directory holds something.
    """
    made = tuple(trajectories)
    plan = _plan(made, judge_name(judge), None if environments is None else as_mapping(environments))
    described = recording.plain(dict(policy) if policy is not None else _policy_of(made))
    with alone(out):
        run = begin_run(out, plan, described)
        if len(run):
            raise UsageError(f"{out} holds a run", next_step="name a new folder")
        run_sync(_store, run, made, judge, {} if environments is None else as_mapping(environments))
        write_trajectories(run.values(), run.directory / "dataset")
    return run


async def _store(
    run: Run, made: Sequence[Trajectory], judge: str | Judge | None, environments: Mapping[str, Environment]
) -> None:
    """Judge and store each."""
    room = asyncio.Semaphore(_CONCURRENCY)

    async def one(rollout: Rollout) -> None:
        async with room:
            name = rollout.trajectory.environment_id
            environment = environments[name] if name in environments else None  # noqa: SIM401 - no KeyError
            run.keep(await with_verdict(rollout, environment=environment, judge=judge))

    async with asyncio.TaskGroup() as group:
        for rollout in _numbered(made):
            group.create_task(one(rollout))


def _numbered(made: Iterable[Trajectory]) -> Iterator[Rollout]:
    """Rollouts with the ids that their places in the plan have."""
    counts: Counter[str] = Counter()
    for trajectory in made:
        task = _task(trajectory)
        number = counts[task]
        counts[task] += 1
        yield Rollout(id=f"{task.replace('/', '__')}__{number}", number=number, trajectory=trajectory)


def _plan(made: Sequence[Trajectory], judge: str | None, environments: Mapping[str, Environment] | None) -> Plan:
    """The plan that these trajectories carry out."""
    if not made:
        raise UsageError("there is no trajectory to store", next_step="make some first: `instance.trajectory()`")
    tasks: dict[str, dict[str, None]] = {}
    versions: dict[str, str] = {}
    for trajectory in made:
        name, version = trajectory.environment_id, trajectory.environment_hash
        if versions.setdefault(name, version) != version:
            message = f"the trajectories are of different versions of {name}"
            raise UsageError(message, next_step="store those of each version as a run of its own")
        tasks.setdefault(name, {})[_task(trajectory).partition("/")[2]] = None
    source, revision = (None, made[0].revision) if environments is None else place_of(environments)
    return Plan(
        environments=tuple(
            PlannedEnvironment(id=name, content_hash=versions[name], tasks=tuple(found))
            for name, found in tasks.items()
        ),
        rollouts_per_task=max(Counter(map(_task, made)).values()),
        max_turns=max(1, *map(turns_count, made)),
        judge=judge,
        source=source,
        revision=revision,
        options=dict(made[0].options),
    )


def _task(trajectory: Trajectory) -> str:
    if trajectory.task_id is None:
        message = f"a trajectory of {trajectory.environment_id} has no task"
        raise UsageError(message, next_step="launch the environment with task=…")
    return trajectory.task_id


def _policy_of(made: Sequence[Trajectory]) -> dict[str, Any]:
    """What all say of their policy; where they differ, that they are several."""
    first = made[0].policy
    if all(trajectory.policy == first for trajectory in made):
        return dict(first) or {"kind": "elsewhere"}
    return {"kind": "several", "kinds": sorted({str(t.policy.get("kind")) for t in made})}

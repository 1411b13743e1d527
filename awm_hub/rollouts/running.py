"""A run: many attempts at once, each judged and stored as soon as it is over.

Environments × tasks × attempts, a number of them at a time, over one pool of instances. What is stored is done: a run
that was interrupted, by Ctrl-C or by the power, is gone on with by starting it again, and only what is missing runs.
Attempts that the policy or its endpoint failed are made again then. When the endpoint fails for one attempt after
another, the run stops; when the policy itself failed in every attempt, that is an error in the end.
"""

import asyncio
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from awm_hub.environment import Environment
from awm_hub.errors import DataError, LoadError, RecordError, RemoteError, UsageError, WorkerError
from awm_hub.judging import Judge
from awm_hub.policy import ChatPolicy, Policy, ReplayPolicy, policy_from
from awm_hub.rollouts.attempts import MAX_TURNS, attempt_of, unlaunched
from awm_hub.rollouts.dataset import write_trajectories
from awm_hub.rollouts.plans import Plan, Slot, as_mapping, place_of, planned
from awm_hub.rollouts.policies import check_policy, described_error
from awm_hub.rollouts.store import Rollout, Run, alone, begin_run
from awm_hub.rollouts.verdicts import judge_name, with_verdict
from awm_hub.runtime.limits import Limits, Options
from awm_hub.runtime.pool import LocalPool
from awm_hub.runtime.sync import run
from awm_hub.runtime.tiers import choose_tier
from awm_hub.trajectory import Trajectory

Progress = Callable[[Mapping[str, Any]], None]
"""Called with one JSON object per event: `event` and what it is about."""
Environments = Environment | Mapping[str, Environment] | Iterable[Environment]
_WAIT_S = 24 * 3600.0
"""An attempt waits for room as long as it takes: others are using it."""
_LEAST_FAILURES = 10
"""Attempts that an endpoint must have failed, one after another, before the run gives up."""


def rollout(
    environments: Environments,
    policy: Policy | str,
    *,
    out: str | os.PathLike[str],
    tasks: Sequence[str] | None = None,
    rollouts_per_task: int = 1,
    concurrency: int = 8,
    seed: int = 0,
    max_turns: int = MAX_TURNS,
    judge: str | Judge | None = "decision",
    trust_remote_code: bool = False,
    limits: Limits | None = None,
    options: Options | None = None,
    progress: Progress | None = None,
) -> Run:
    """Let a policy attempt tasks, and store what it did.

    Started again with the same arguments, it goes on where it was interrupted; nothing that is stored runs again, but
    for attempts that the policy or its endpoint failed. A policy is known by what `describe` gives, and nothing else.

    Args:
        environments: One environment, several, or whatever `awm_hub.load` returns.
        policy: What attempts the tasks; a name is one that `awm_hub.policy.policy_from` knows.
        out: Directory of the run; a new one, or one to go on with.
        tasks: Ids, or last parts of them, or a single one; default: every task of every environment.
        rollouts_per_task: Attempts at each task.
        concurrency: Attempts at the same time; it changes no result.
        seed: The attempts' seeds follow from it and from their place in the plan.
        max_turns: Assistant messages of one attempt at most.
        judge: What `awm_hub.judge` takes; None: nothing is judged.
        trust_remote_code: Run without a seal where this machine cannot seal a process.
        limits: What calls may use.
        options: Deviations from strict behaviour, recorded in the trajectories; default: for a replay, those of what it
            replays.
        progress: Called with one object per attempt.

    Raises:
        UsageError: an argument is wrong, `out` holds a run of another plan or policy, or the policy itself failed in
            every attempt; these are stored, and the error is chained to the last of the policy's own.
        DataError: the policy failed in every attempt for something that is wrong with the data.
        UnknownNameError: there is no such task.
        RemoteError: the endpoint failed for one attempt after another; what is done is stored.
        SealError: this machine cannot seal, and the code is not trusted.
    """
    return run(
        rollout_async,
        environments,
        policy,
        out=out,
        tasks=tasks,
        rollouts_per_task=rollouts_per_task,
        concurrency=concurrency,
        seed=seed,
        max_turns=max_turns,
        judge=judge,
        trust_remote_code=trust_remote_code,
        limits=limits,
        options=options,
        progress=progress,
    )


async def rollout_async(
    environments: Environments,
    policy: Policy | str,
    *,
    out: str | os.PathLike[str],
    tasks: Sequence[str] | None = None,
    rollouts_per_task: int = 1,
    concurrency: int = 8,
    seed: int = 0,
    max_turns: int = MAX_TURNS,
    judge: str | Judge | None = "decision",
    trust_remote_code: bool = False,
    limits: Limits | None = None,
    options: Options | None = None,
    progress: Progress | None = None,
) -> Run:
    """`awm_hub.rollout` as a coroutine: the same arguments, the same errors."""
    for name, number in (
        ("rollouts_per_task", rollouts_per_task),
        ("concurrency", concurrency),
        ("max_turns", max_turns),
    ):
        if number < 1:
            raise UsageError(f"{name} is {number}", next_step="give a number from 1")
    found = as_mapping(environments)
    if isinstance(policy, str):
        policy = policy_from(policy, environments=found)
    check_policy(policy)
    if isinstance(policy, ChatPolicy):
        policy.endpoint.check_key()
    tasks = [tasks] if isinstance(tasks, str) else tasks
    replayed = policy.trajectory if isinstance(policy, ReplayPolicy) else None
    settings = options or _options_of(replayed)
    plan = _plan(found, tasks, replayed, rollouts_per_task=rollouts_per_task, seed=seed, max_turns=max_turns)
    plan = replace(plan, judge=judge_name(judge), options=settings.to_dict())
    pool = LocalPool(
        most_instances=concurrency,
        wait_s=_WAIT_S,
        limits=limits,
        options=settings,
        trust_remote_code=trust_remote_code,
        revision=plan.revision,
    )
    with alone(out):
        stored = begin_run(out, plan, policy.describe())
        running = _Running(
            run=stored,
            environments=_Recent(found, concurrency),
            policy=policy,
            judge=judge,
            pool=pool,
            is_trusted=trust_remote_code,
            concurrency=concurrency,
            progress=progress or _unheard,
        )
        async with pool:
            await running.go()
        await asyncio.to_thread(write_trajectories, stored.values(), stored.directory / "dataset")
    running.check_policy_worked()
    return stored


def _unheard(event: Mapping[str, Any]) -> None:
    """Progress that nobody wants to hear of."""


@dataclass(kw_only=True)
class _Running:
    """The work of one session at a run."""

    run: Run
    environments: "_Recent"
    policy: Policy
    judge: str | Judge | None
    pool: LocalPool
    is_trusted: bool
    concurrency: int
    progress: Progress
    position: int = 0
    failures: int = 0
    """Attempts in a row that the endpoint failed."""
    scored: int = 0
    """Attempts that count, earlier sessions included."""
    successes: int = 0
    has_worked: bool = False
    """Whether there is an attempt that the policy did not fail itself."""
    policy_error: Exception | None = None
    """The last that the policy raised."""
    _unjudged: dict[str, Rollout] = field(default_factory=dict)
    """Stored attempts that still want a verdict."""
    broken: dict[str, Path] = field(default_factory=dict)
    """Attempts whose files were damaged, and where these are kept."""

    async def go(self) -> None:
        """Make every attempt that is missing."""
        slots = list(self._to_do())
        self.position = len(self.run.plan) - len(slots)
        self.progress({"event": "begun", "total": len(self.run.plan), "stored": self.position})
        for name, kept in self.broken.items():
            self.progress({"event": "broken", "id": name, "kept": str(kept)})
        queue = iter(slots)
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(self.concurrency, len(slots))):
                    group.create_task(self._work(queue))
        except BaseExceptionGroup as errors:
            raise _first_of(errors) from None

    def _to_do(self) -> Iterator[Slot]:
        """Attempts that are not stored, those that the policy or its endpoint failed, and those without a verdict."""
        for slot in self.run.plan.slots():
            stored = self._stored(slot)
            if stored is None or stored.is_cut_short:
                yield slot
                continue
            self.has_worked = True
            if self.judge is not None and stored.verdict is None:
                self._unjudged[slot.id] = stored
                yield slot
            else:
                self._count(stored)

    def check_policy_worked(self) -> None:
        """See that the policy did not fail in every attempt.

        Raises:
            UsageError: it did.
            DataError: it did, and blames the data.
        """
        error = self.policy_error
        if self.has_worked or error is None:
            return
        told = described_error(error, self.policy)
        where = f" ({told['where']})" if "where" in told else ""
        kind = DataError if isinstance(error, DataError) else UsageError
        message = f"the policy failed in every attempt, lastly: {told['type']}: {told['message']}{where}"
        step = told.get("next", "mend it and start the run again, which makes these attempts again")
        raise kind(message, next_step=step) from error

    def _stored(self, slot: Slot) -> Rollout | None:
        """What is stored of an attempt; None also where its file was damaged, which is then put aside."""
        if slot.id not in self.run:
            return None
        try:
            return self.run[slot.id]
        except RecordError:
            self.broken[slot.id] = self.run.put_aside(slot.id)
            return None

    async def _work(self, queue: Iterator[Slot]) -> None:
        for slot in queue:
            environment = self.environments[slot.environment_id]
            done = self._unjudged.pop(slot.id, None)
            if done is None:
                trajectory = await self._attempted(slot, environment)
                done = Rollout(id=slot.id, number=slot.number, trajectory=trajectory)
                self.run.keep(done)  # a judge may take minutes, and fail
            done = await with_verdict(done, environment=environment, judge=self.judge)
            self.run.keep(done)
            self._tell(done)
            self._watch_endpoint(done)

    async def _attempted(self, slot: Slot, environment: Environment) -> Trajectory:
        try:
            instance = await self.pool.acquire(environment, task=slot.task, seed=slot.seed)
        except (LoadError, WorkerError) as error:
            tier = await choose_tier("auto", trust_remote_code=self.is_trusted, environment=environment)
            task = environment.task(slot.task)
            self.has_worked = True
            return await unlaunched(environment, task, self.policy, seed=slot.seed, tier=tier, error=error)
        try:
            trajectory, reason = await attempt_of(instance, self.policy, max_turns=self.run.plan.max_turns)
        finally:
            await self.pool.release([instance])
        if reason is not None and trajectory.termination == "stopped":
            self.policy_error = reason
        else:
            self.has_worked = True
        return trajectory

    def _count(self, done: Rollout) -> None:
        self.scored += done.is_scored
        self.successes += done.is_success

    def _tell(self, done: Rollout) -> None:
        self.position += 1
        self._count(done)
        self.progress(
            {
                "event": "rollout",
                "id": done.id,
                "termination": done.trajectory.termination,
                "outcome": None if done.verdict is None else str(done.verdict.outcome),
                "reward": done.reward.total,
                "successes": self.successes,
                "scored": self.scored,
                "position": self.position,
                "total": len(self.run.plan),
            }
        )

    def _watch_endpoint(self, done: Rollout) -> None:
        """Stop when the endpoint fails for one attempt after another."""
        self.failures = self.failures + 1 if done.trajectory.termination == "endpoint_error" else 0
        if self.failures >= max(_LEAST_FAILURES, 2 * self.concurrency):
            told = done.trajectory.usage["error"]
            message = f"the endpoint failed for {self.failures} attempts in a row, lastly: {told['message']}"
            step = told.get("next", "see that it works")
            raise RemoteError(message, next_step=f"{step}; started again, the run goes on from here")


class _Recent:
    """The environments of a dataset, the last ones used kept at hand."""

    def __init__(self, found: Mapping[str, Environment], most: int) -> None:
        self._found, self._most = found, most
        self._kept: dict[str, Environment] = {}

    def __getitem__(self, name: str) -> Environment:
        environment = self._kept.pop(name, None) or self._found[name]
        self._kept[name] = environment
        while len(self._kept) > self._most:
            del self._kept[next(iter(self._kept))]
        return environment


def _plan(
    environments: Mapping[str, Environment], tasks: Sequence[str] | None, replayed: Trajectory | None, **numbers: Any
) -> Plan:
    """What to do, read off the environments one after the other."""
    source, revision = place_of(environments)
    if replayed is not None:
        environments, tasks = _replayed_place(environments, tasks, replayed)
        numbers["max_turns"] = max(numbers["max_turns"], 2)
    chosen = planned(environments, tasks)
    return Plan(
        environments=chosen,
        replayed_seed=None if replayed is None else replayed.seed,
        judge=None,
        source=source,
        revision=revision,
        **numbers,
    )


def _replayed_place(
    environments: Mapping[str, Environment], tasks: Sequence[str] | None, replayed: Trajectory
) -> tuple[Mapping[str, Environment], Sequence[str]]:
    """Where a trajectory was made, which is the only place where it can be replayed."""
    if replayed.environment_id not in environments or replayed.task_id is None:
        message = f"the trajectory is of {replayed.task_id or 'no task'}, {replayed.environment_id}"
        raise DataError(message, next_step="replay it in the environment where it was made")
    environment = environments[replayed.environment_id]
    if environment.content_hash != replayed.environment_hash:
        message = f"the trajectory was made in another version of {environment.id}"
        raise DataError(message, next_step="load the dataset at the revision it was recorded with")
    task = environment.task(replayed.task_id)
    if tasks is not None and [environment.task(t).id for t in tasks] != [task.id]:
        raise DataError(f"the trajectory is of task {task.slug}", next_step=f"--task {task.slug}, or no --task at all")
    return {environment.id: environment}, [task.slug]


def _options_of(replayed: Trajectory | None) -> Options:
    """The options that a replayed trajectory was made with."""
    found = {} if replayed is None else replayed.options
    known = {f.name: found[f.name] for f in fields(Options) if f.name in found}
    return Options(**known)


def _first_of(errors: BaseExceptionGroup) -> BaseException:
    """The error that ended the work of all."""
    found: BaseException = errors
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found

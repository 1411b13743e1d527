"""Examples to learn from: rollouts that a judge found right, of tasks that an audit found sound.

A model that learns from rollouts learns their mistakes too, and those of the environments. So a rollout is kept where
its latest verdict is COMPLETED, it broke no rule that ended it, its environment is there in the same content, and its
task is one that `training_subset` would choose: audited, sound, of the train split. Of equal conversations one is kept.
"""

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from awm_hub.canonical import sha256_of
from awm_hub.errors import DataError
from awm_hub.hub import Subset
from awm_hub.rollouts.dataset import read_rollouts, write_trajectories
from awm_hub.rollouts.store import Rollout


@dataclass(frozen=True, kw_only=True)
class Selection:
    """What was kept of some rollouts, and why others were not."""

    kept: tuple[str, ...]
    """Ids, unique in the dataset that was written."""
    tasks_count: int
    """Tasks that have an example."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Reason → rollouts; the first reason counts."""


def write_examples(sources: Iterable[str | os.PathLike[str]], subset: Subset, out: str | os.PathLike[str]) -> Selection:
    """Write the rollouts that are examples to learn from as a dataset of trajectories.

    Args:
        sources: What `read_rollouts` takes.
        subset: The tasks that may be learnt from.
        out: Folder of the dataset; one that is there is replaced.

    Raises:
        DataError: a source holds no rollouts, or none of them is an example.
        UsageError: `out` holds something else.
    """
    hashes = {environment.id: environment.content_hash for environment in subset.environments}
    tasks, seen = set(subset.tasks), set[str]()
    kept: dict[str, Rollout] = {}
    left_out: Counter[str] = Counter()
    for source in sources:
        for rollout in read_rollouts(source):
            reason = _objection(rollout, hashes, tasks) or _repeated(rollout, seen)
            if reason:
                left_out[reason] += 1
            else:
                name = _free(rollout.id, kept)
                kept[name] = Rollout(id=name, number=rollout.number, trajectory=rollout.trajectory)
    if not kept:
        told = "; ".join(f"{reason}: {count}" for reason, count in left_out.most_common()) or "there are none"
        raise DataError(f"no rollout is an example ({told})", next_step="make more attempts, or audit the dataset")
    write_trajectories(kept.values(), Path(out))
    return Selection(
        kept=tuple(kept),
        tasks_count=len({rollout.trajectory.task_id for rollout in kept.values()}),
        left_out=dict(sorted(left_out.items())),
    )


def _objection(rollout: Rollout, hashes: Mapping[str, str], tasks: set[str]) -> str:
    told = rollout.trajectory
    if rollout.verdict is None:
        return "without a verdict"
    if not rollout.is_success:
        return "not completed"
    if told.environment_id not in hashes:
        return "environment not sound, of the test split or not in the dataset"
    if told.environment_hash != hashes[told.environment_id]:
        return "made on another version of the environment"
    return "" if told.task_id in tasks else "task not sound"


def _repeated(rollout: Rollout, seen: set[str]) -> str:
    told = rollout.trajectory
    calls = [[step.tool, step.arguments] for step in told.steps]
    content = sha256_of([told.task_id, list(told.messages) or calls, told.answer])
    if content in seen:
        return "the same as another one"
    seen.add(content)
    return ""


def _free(name: str, taken: Mapping[str, Rollout]) -> str:
    number = 2
    free = name
    while free in taken:
        free, number = f"{name}_{number}", number + 1
    return free

"""A training subset: sound tasks, chosen by what the audit says and by nothing that changes between two runs.

The paper trained on 526 environments and 3,315 tasks out of 1,000 and 10,000 (§5), and does not say which. This makes a
subset of that size, or of any other, in four steps:

1. Only environments of the `train` split that may be trained on (`usage` is `train`), audited in their present content.
2. Of these, tasks whose checks hold (`SOUND`): doing nothing fails, the seed does not satisfy them already, and their
   environment is deterministic and keeps no state outside its database. A reference solution that fails excludes too;
   upstream's tasks have none, which does not.
3. The first environments in the order of `sha256("<seed>:<environment id>")`.
4. Of their tasks, the first ones in the order of `sha256("<seed>:<task id>")`, one from each environment, then a second
   from each that has one, and so on: no environment is left without a task, and none fills the set alone.

The result names ids and content hashes. Saved as a file, it gives the same set again, or says what has changed.
"""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from awm_hub.canonical import from_json, sha256_of
from awm_hub.environment import Quality, TaskQuality
from awm_hub.errors import DataError, RecordError, UsageError
from awm_hub.hub.environments import Environments, IndexEntry
from awm_hub.hub.filters import TASK_CHECKS, check_filters, passes, task_holds

PAPER_ENVIRONMENTS = 526
PAPER_TASKS = 3315
"""Sizes of the paper's training set (arXiv 2602.10090, §5)."""

SOUND: Mapping[str, bool | int] = {
    "deterministic": True,
    "hidden_state": False,
    "noop_rejected": True,
    "seed_unsatisfied": True,
}
"""Checks of the audit that a task to train on passes, besides a solution that does not fail."""


@dataclass(frozen=True, kw_only=True)
class SubsetEnvironment:
    """One environment of a subset."""

    id: str
    content_hash: str
    tasks: tuple[str, ...]
    """Task ids, sorted."""


@dataclass(frozen=True, kw_only=True)
class Subset:
    """Which environments and tasks to train on, and why not others."""

    source: str
    revision: str | None
    seed: int
    requires: Mapping[str, bool | int]
    environments: tuple[SubsetEnvironment, ...]
    """Sorted by id."""
    sound_environments: int
    """Environments that had a sound task: what could be chosen from."""
    sound_tasks: int
    left_out: Mapping[str, int]
    """Reason → number of tasks that cannot be trained on for it; the first reason counts."""

    @property
    def tasks(self) -> tuple[str, ...]:
        """Ids of all tasks."""
        return tuple(task for environment in self.environments for task in environment.tasks)

    @property
    def fingerprint(self) -> str:
        """SHA-256 over environments, their content and the tasks: equal exactly where the training data is."""
        return sha256_of([asdict(e) | {"tasks": list(e.tasks)} for e in self.environments])

    def of(self, environments: Environments) -> Environments:
        """The subset's environments of a dataset.

        Raises:
            DataError: the dataset lacks one, or has it in another content.
        """
        known = {name: entry.content_hash for name, entry in environments.entries.items()}
        changed = [e.id for e in self.environments if known.get(e.id) != e.content_hash]
        if changed:
            found = f"{environments.source} lacks or has changed {len(changed)}"
            where = f" at revision {self.revision}" if self.revision else ""
            step = f"load {self.source}{where}, or make the subset again"
            raise DataError(f"{found} of the subset: {', '.join(changed[:5])}", next_step=step)
        return environments.where(ids={e.id for e in self.environments})

    def to_dict(self) -> dict[str, Any]:
        """JSON form, with the counts and the fingerprint for readers."""
        counts = {"environments_count": len(self.environments), "tasks_count": len(self.tasks)}
        return {**asdict(self), **counts, "fingerprint": self.fingerprint}

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Self:
        """From its JSON form.

        Raises:
            RecordError: it is no subset, or was changed by hand.
        """
        try:
            environments = [SubsetEnvironment(**{**e, "tasks": tuple(e["tasks"])}) for e in found["environments"]]
            fields = {name: found[name] for name in cls.__dataclass_fields__}
            subset = cls(**{**fields, "environments": tuple(environments)})
            is_whole = subset.fingerprint == found["fingerprint"]
        except (KeyError, TypeError, AttributeError) as error:
            raise RecordError(
                f"this is no subset: {type(error).__name__} {error}", next_step="make it again"
            ) from error
        if not is_whole:
            raise RecordError("the subset was changed: its fingerprint is another", next_step="make it again")
        return subset

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it as a JSON file."""
        Path(path).write_text(json.dumps(self.to_dict(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        """Read a saved subset.

        Raises:
            DataError: there is no such file, or it is no subset.
        """
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(
                f"{path} cannot be read: {error}", next_step="name a file that a subset was saved to"
            ) from error
        return cls.from_dict(from_json(text, str(path)))


@dataclass(frozen=True, kw_only=True)
class _Candidate:
    entry: IndexEntry
    tasks: tuple[str, ...]
    """Sound ones, in the order in which they are taken."""


def training_subset(
    environments: Environments,
    *,
    environments_count: int = PAPER_ENVIRONMENTS,
    tasks_count: int = PAPER_TASKS,
    seed: int = 0,
    requires: Mapping[str, bool | int] = SOUND,
) -> Subset:
    """Choose environments and tasks to train on; see the module for how.

    Args:
        environments: An audited dataset; filter it first to leave more out.
        environments_count: How many environments to take at most; default: the paper's.
        tasks_count: How many tasks to take at most; default: the paper's.
        seed: Another seed gives another, equally sound subset.
        requires: Checks that have to hold, as in the filter `quality`; a check of tasks is asked of each task.

    Returns:
        The subset; smaller than asked for where there are fewer sound tasks.

    Raises:
        UsageError: fewer tasks than environments are asked for, or there is no such check.
        DataError: no task is sound, for example because nothing was audited.
    """
    if not 0 < environments_count <= tasks_count:
        message = f"{environments_count} environments with {tasks_count} tasks: each needs one"
        raise UsageError(message, next_step="ask for at least one environment, and for a task of each")
    check_filters({"quality": requires})
    left_out: Counter[str] = Counter()
    candidates = sorted(_candidates(environments, requires, seed, left_out), key=lambda c: _rank(seed, c.entry.id))
    if not candidates:
        reasons = "; ".join(f"{reason}: {count}" for reason, count in (+left_out).most_common())
        raise DataError(f"{environments.source} has no sound task ({reasons})", next_step="`awm-hub audit` it first")
    chosen = candidates[:environments_count]
    tasks = _taken(chosen, tasks_count)
    return Subset(
        source=environments.source,
        revision=environments.revision,
        seed=seed,
        requires=dict(requires),
        environments=tuple(
            SubsetEnvironment(id=c.entry.id, content_hash=c.entry.content_hash, tasks=tuple(sorted(tasks[c.entry.id])))
            for c in sorted(chosen, key=lambda c: c.entry.id)
        ),
        sound_environments=len(candidates),
        sound_tasks=sum(len(c.tasks) for c in candidates),
        left_out=dict(sorted((+left_out).items())),
    )


def _candidates(
    environments: Environments, requires: Mapping[str, bool | int], seed: int, left_out: Counter[str]
) -> Iterator[_Candidate]:
    qualities = environments.qualities()
    of_tasks = {name: wanted for name, wanted in requires.items() if name in TASK_CHECKS}
    of_all = {name: wanted for name, wanted in requires.items() if name not in TASK_CHECKS}
    for entry in environments.entries.values():
        quality = qualities.get(entry.id)
        reason = _reason(entry, quality, of_all)
        if reason is not None or quality is None:
            left_out[reason or "not audited"] += entry.tasks_count
            continue
        failed = {t.id: _failed_check(t, of_tasks) for t in quality.tasks if str(t.id).startswith(f"{entry.id}/")}
        left_out["not audited"] += max(0, entry.tasks_count - len(failed))
        left_out.update(name for name in failed.values() if name is not None)
        sound = sorted((i for i, name in failed.items() if name is None), key=lambda i: _rank(seed, i))
        if sound:
            yield _Candidate(entry=entry, tasks=tuple(sound))


def _reason(entry: IndexEntry, quality: Quality | None, requires: Mapping[str, bool | int]) -> str | None:
    """Why no task of an environment can be trained on."""
    if entry.split != "train":
        return "of the test split"
    if entry.usage != "train":
        return "for evaluation only"
    if quality is None:
        return "not audited"
    return next((name for name, wanted in requires.items() if not passes(quality, {name: wanted})), None)


def _failed_check(task: TaskQuality, requires: Mapping[str, bool | int]) -> str | None:
    failed = next((name for name, wanted in requires.items() if not task_holds(task, name, wanted)), None)
    return failed or ("solution_passes" if task.solution_passes is False else None)


def _rank(seed: int, name: str) -> str:
    return hashlib.sha256(f"{seed}:{name}".encode()).hexdigest()


def _taken(chosen: Sequence[_Candidate], tasks_count: int) -> Mapping[str, Sequence[str]]:
    """Tasks by environment: first ones of all, then second ones, until there are enough."""
    rounds = max(len(c.tasks) for c in chosen)
    order = [(c.entry.id, c.tasks[n]) for n in range(rounds) for c in chosen if n < len(c.tasks)]
    taken: dict[str, list[str]] = {c.entry.id: [] for c in chosen}
    for environment_id, task in order[:tasks_count]:
        taken[environment_id].append(task)
    return taken

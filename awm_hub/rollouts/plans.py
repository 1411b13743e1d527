"""What a run is going to do: which tasks, how often, with which seeds.

A plan is written down before anything runs, so that an interrupted run can be gone on with and two runs can be told
apart. Every attempt has its place in it: an id that is a file name, and a seed that follows from the run's seed and
that place alone, so that the order in which attempts happen to run decides nothing.
"""

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NoReturn, Self

from awm_hub import schema
from awm_hub.environment import Environment
from awm_hub.errors import DataError, RecordError, UnknownNameError


@dataclass(frozen=True, kw_only=True)
class Slot:
    """One attempt of a plan."""

    environment_id: str
    task: str
    """Last part of the task's id."""
    number: int
    """Which of the task's attempts, from 0."""
    seed: int

    @property
    def id(self) -> str:
        """Names the attempt within its run, and its file."""
        return f"{self.environment_id}__{self.task}__{self.number}"


@dataclass(frozen=True, kw_only=True)
class PlannedEnvironment:
    """An environment of a plan, with the tasks to be attempted."""

    id: str
    content_hash: str
    tasks: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a run is going to do. A run is gone on with only by the same plan and policy."""

    environments: tuple[PlannedEnvironment, ...]
    rollouts_per_task: int = 1
    seed: int = 0
    replayed_seed: int | None = None
    """Seed of the trajectory that is replayed, which all attempts take."""
    max_turns: int
    judge: str | None
    """Name of the judge; None: nothing is judged."""
    source: str | None = None
    """The dataset, as `awm_hub.load` takes it; None: the bundled one, or environments from nowhere."""
    revision: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    """Deviations from strict behaviour of the instances."""

    def slots(self) -> Iterator[Slot]:
        """Every attempt, environment by environment."""
        for environment in self.environments:
            for task in environment.tasks:
                for number in range(self.rollouts_per_task):
                    seed = self.replayed_seed
                    if seed is None:
                        seed = derived_seed(self.seed, environment.id, task, number)
                    yield Slot(environment_id=environment.id, task=task, number=number, seed=seed)

    def __len__(self) -> int:
        return sum(len(e.tasks) for e in self.environments) * self.rollouts_per_task

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return asdict(self)

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Self:
        """From the JSON form.

        Raises:
            RecordError: it is no plan.
        """
        try:
            environments = tuple(
                PlannedEnvironment(id=e["id"], content_hash=e["content_hash"], tasks=tuple(e["tasks"]))
                for e in found["environments"]
            )
            plan = cls(**{**found, "environments": environments})
            names = [(e.id, schema.ID_PATTERN) for e in environments]
            names += [(t, schema.SLUG_PATTERN) for e in environments for t in e.tasks]
            is_sound = all(pattern.fullmatch(name) for name, pattern in names) and plan.rollouts_per_task > 0
        except (KeyError, TypeError, AttributeError) as error:
            raise RecordError(f"this is no plan of a run: {error}") from error
        if not is_sound:
            raise RecordError("this is no plan of a run: a name in it is none")
        return plan


def as_mapping(
    environments: Environment | Mapping[str, Environment] | Iterable[Environment],
) -> Mapping[str, Environment]:
    """Environments by their ids, from one, from several, or from a dataset as it is."""
    if isinstance(environments, Environment):
        return {environments.id: environments}
    if isinstance(environments, Mapping):
        return environments
    return {e.id: e for e in environments}


def place_of(environments: Mapping[str, Environment]) -> tuple[str | None, str | None]:
    """What `awm_hub.load` opens the same dataset with, from any folder; None for the bundled set."""
    source, revision = (getattr(environments, name, None) for name in ("source", "revision"))
    if source is not None and os.path.exists(source):
        return os.path.abspath(source), revision
    # addresses on the Hub have a slash, the bundled set's name has none
    return (source, revision) if source is not None and "/" in source else (None, None)


def derived_seed(seed: int, environment_id: str, task: str, number: int) -> int:
    """The seed of one attempt: 63 bits of SHA-256 over the run's seed and the attempt's place."""
    digest = hashlib.sha256(f"{seed}/{environment_id}/{task}/{number}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def planned(environments: Mapping[str, Environment], tasks: Sequence[str] | None) -> tuple[PlannedEnvironment, ...]:
    """The environments that have any of the named tasks, with those; without names, all with all their tasks.

    Raises:
        DataError: there is no task at all.
        UnknownNameError: no environment has such a task.
    """
    chosen: list[PlannedEnvironment] = []
    known: set[str] = set()
    for name in environments:
        environment = environments[name]
        found = [t for t in environment.tasks if tasks is None or t.id in tasks or t.slug in tasks]
        known.update(name for t in found for name in (t.id, t.slug))
        if found:
            slugs = tuple(t.slug for t in found)
            chosen.append(PlannedEnvironment(id=name, content_hash=environment.content_hash, tasks=slugs))
    for task in tasks or ():
        if task not in known:
            _refuse(task, environments)
    if not chosen:
        raise DataError("there is no task to attempt", next_step="`awm-hub list` shows which environments have tasks")
    return tuple(chosen)


def _refuse(task: str, environments: Mapping[str, Environment]) -> NoReturn:
    """Say that no environment has this task."""
    only = next(iter(environments), None)
    if only is not None and len(environments) == 1:
        environments[only].task(task)
    known = [t.slug for name in environments for t in environments[name].tasks]
    raise UnknownNameError("task", task, known, next_step="`awm-hub show ENV --tasks` lists an environment's tasks")

"""Episodes: what a trainer's rollouts work on, one live instance of an environment each.

TRL makes an object of `environment_factory` for each rollout of a batch, keeps it, and calls `reset(**row)` on it with
the row's columns before each generation. An `Episode` is such an object; its class has no public method, so that the
trainer takes none for a tool. `Episodes` is what all of them share: the environments and a pool of instances.

Starting instances was the paper's bottleneck, hidden by starting the next batch's during the gradient step (§5). Here
`coming` is told the rows of a batch as soon as the data loader has them, and once the batch under way has given its
instances back, the coming ones are launched in the background; `reset` then finds them ready.

TRL never says that it is done (there is neither a done signal nor a close), so an attempt frees its instance itself
when it ends, and whatever is left is freed by `Episodes.close`: at the end of training (`CloseCallback`), when training
fails or is interrupted (`HistoryAwareGRPOTrainer.train`, `TrainingSpec`), and at the latest when Python ends.
"""

import asyncio
import os
import threading
import weakref
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from awm_hub import hub
from awm_hub.environment import Environment, Task
from awm_hub.errors import DataError, SandboxError, UsageError
from awm_hub.policy.acting import View
from awm_hub.runtime import sync
from awm_hub.runtime.instance import Instance
from awm_hub.runtime.pool import InstancePool, LocalPool
from awm_hub.trajectory import Trajectory

_CLOSING: set["asyncio.Task[None]"] = set()
"""Work that nobody waits for has to be held until it is done."""


class Place(NamedTuple):
    """What an episode is of: enough to launch an instance."""

    environment_id: str
    task_id: str
    seed: int


class Episode:
    """One rollout of a batch: reset by the trainer, played by `WindowedRollout`, scored by `HybridReward`.

    Attributes:
        place: What it is of, once it was reset.
        view: What its policy knew at the end.
        trajectory: The record, once the attempt has ended.
        turns: Tokens of each turn.
        seen: For each turn, positions of the turns before it that it was shown.
        leader: The episode whose attempt this one shares; itself, except with `WindowedRollout(slots=…)`.
        mode: `train` or `eval`.
    """

    def __init__(self, episodes: "Episodes") -> None:
        self.episodes = episodes
        self._clear()

    def _clear(self) -> None:
        self.place: Place | None = None
        self.view: View | None = None
        self.trajectory: Trajectory | None = None
        self.turns: list[Any] = []
        self.seen: list[tuple[int, ...]] = []
        self.leader: Episode = self
        self.mode = "train"

    def reset(self, **row: Any) -> None:
        """Become a fresh episode of a row's task.

        Args:
            row: The row's columns: `environment_id`, `task_id`, and where they are there `environment_hash` and `seed`.

        Raises:
            UsageError: the row names no task.
            UnknownNameError: there is no such environment or task.
            DataError: the row is of another version of the environment.
        """
        self._clear()
        self.place = self.episodes.place_of(row)

    @property
    def termination(self) -> str | None:
        """What ended it."""
        return None if self.trajectory is None else self.trajectory.termination

    @property
    def violations(self) -> tuple[dict[str, Any], ...]:
        """Broken rules of the format."""
        return () if self.trajectory is None else self.trajectory.violations

    @property
    def environment(self) -> Environment:
        """The environment that it is of."""
        return self.episodes.environments[self._placed.environment_id]

    @property
    def task(self) -> Task:
        """The task that it is of."""
        return self.environment.task(self._placed.task_id)

    def _conclude(self, completion: Any) -> None:
        """Make the record of an episode that ended without saying so.

        Args:
            completion: What TRL takes for its completion.

        Raises:
            UsageError: nothing played it.
        """
        raise UsageError("an episode was not played", next_step="rollout_func=WindowedRollout(…)")

    @property
    def _placed(self) -> Place:
        if self.place is None:
            raise UsageError("this episode was not reset", next_step="call reset(environment_id=…, task_id=…)")
        return self.place


@dataclass(frozen=True, kw_only=True)
class EpisodeFactory:
    """What TRL takes as `environment_factory`: called without arguments, it makes an episode."""

    episodes: "Episodes"
    kind: Callable[["Episodes"], Any] = Episode

    def __call__(self) -> Any:
        """A new episode."""
        return self.kind(self.episodes)


@dataclass(kw_only=True)
class _Holdings:
    """What is to be freed. It lives on the background loop, and outlives the `Episodes` that hold it."""

    settings: dict[str, Any]
    environments: Mapping[str, Environment]
    own_pool: InstancePool | None
    """The caller's pool, which is never closed."""
    pid: int = field(default_factory=os.getpid)
    thread: threading.Thread | None = None
    """The background loop's, once something was launched."""
    pool: InstancePool | None = None
    live: set[Instance] = field(default_factory=set)
    ready: dict[Place, deque["asyncio.Task[Instance]"]] = field(default_factory=dict)
    """Instances that are launched for the coming batch, or being launched."""

    async def launch(self, place: Place) -> Instance:
        self.thread = threading.current_thread()
        if self.pool is None:
            self.pool = self.own_pool or LocalPool(self.environments, **self.settings)
        environment = self.environments[place.environment_id]
        instance = await self.pool.acquire(environment, task=place.task_id, seed=place.seed)
        self.live.add(instance)
        return instance

    async def begin(self, places: Iterable[Place]) -> None:
        """Launch in the background; what was launched ahead and not taken is freed first."""
        await self.drop_ready()
        for place in places:
            self.ready.setdefault(place, deque()).append(asyncio.ensure_future(self.launch(place)))

    async def drop_ready(self) -> None:
        tasks = [task for waiting in self.ready.values() for task in waiting]
        self.ready.clear()
        for task in tasks:
            task.cancel()
        found = await asyncio.gather(*tasks, return_exceptions=True)
        await self.free(instance for instance in found if isinstance(instance, Instance))

    async def free(self, instances: Iterable[Instance]) -> None:
        gone = list(instances)
        self.live.difference_update(gone)
        await asyncio.gather(*(instance.close() for instance in gone))

    async def close(self) -> None:
        await self.drop_ready()
        await self.free(list(self.live))
        if self.pool is not None and self.own_pool is None:
            await self.pool.close()
        self.pool = None

    def shut(self) -> None:
        """Close from any thread of the process that opened it; a forked child has nothing to close.

        Garbage may be collected on the background loop itself, which cannot wait for its own work.
        """
        if self.pid != os.getpid() or (self.pool is None and not self.ready and not self.live):
            return
        if threading.current_thread() is self.thread:
            task = asyncio.ensure_future(self.close())
            _CLOSING.add(task)
            task.add_done_callback(_CLOSING.discard)
        else:
            sync.run(self.close)


class Episodes:
    """Environments and a pool of instances, shared by the episodes of a trainer.

    Args:
        environments: Where rows find their environments by id; default: the bundled ones.
        pool: An `awm_hub.aio.LocalPool`, or another pool, to be used instead of an own one; it is not closed.
        settings: What an own `LocalPool` takes: `most_instances`, `memory_bytes`, `workers_per_environment`, `wait_s`,
            `limits`, `options`, `trust_remote_code`, `revision`.
    """

    def __init__(
        self,
        environments: Mapping[str, Environment] | None = None,
        *,
        pool: InstancePool | None = None,
        **settings: Any,
    ) -> None:
        self.environments: Mapping[str, Environment] = _Kept(hub.load() if environments is None else environments)
        if pool is None and getattr(environments, "revision", None) is not None:
            settings.setdefault("revision", getattr(environments, "revision", None))
        self.settings = settings
        self._holdings = _Holdings(settings=settings, environments=self.environments, own_pool=pool)
        self._finalizer = weakref.finalize(self, self._holdings.shut)
        self._coming: Counter[Place] = Counter()
        self._under_way: Counter[Place] = Counter()
        self._has_begun = self._is_prepared = False
        self.launched_ahead = 0
        """Instances that were taken from those launched in advance."""
        self.launched_on_demand = 0

    def factory(self, kind: Callable[["Episodes"], Any] = Episode) -> EpisodeFactory:
        """What to give a trainer as `environment_factory`."""
        return EpisodeFactory(episodes=self, kind=kind)

    def place_of(self, row: Mapping[str, Any]) -> Place:
        """What a row's episode is of.

        Raises:
            UsageError: the row names no task.
            UnknownNameError: there is no such environment or task.
            DataError: the row is of another version of the environment.
        """
        name, task, version = row.get("environment_id"), row.get("task_id"), row.get("environment_hash")
        if not isinstance(name, str) or not isinstance(task, str):
            step = "train on the rows of awm_hub.training.training_tasks()"
            raise UsageError("a row has no environment_id and task_id", next_step=step)
        environment = self.environments[name]
        if version is not None and version != environment.content_hash:
            step = "make the rows from the same dataset and revision as the environments"
            raise DataError(f"a row is of another version of {name}", next_step=step)
        return Place(name, environment.task(task).id, int(row.get("seed") or 0))

    @property
    def live_instances(self) -> int:
        """Instances at the moment: those under way and those launched ahead."""
        return len(self._holdings.live)

    def coming(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Be told the rows of a coming batch; its instances are launched once the batch under way has ended.

        Rows that come again, since a trainer goes through a batch in several steps, change nothing. Before the first
        batch nothing is launched: a resumed training skips the batches that it has seen.
        """
        if os.getpid() != self._holdings.pid:  # a worker process of the data loader
            return
        places = Counter(self.place_of(row) for row in rows)
        if places == self._coming or places == self._under_way:
            return
        self._coming, self._is_prepared = places, False
        if self._has_begun and not self._holdings.live:
            self.prepare_coming()

    def prepare(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Launch the instances of rows in the background; those launched before and not taken are freed."""
        sync.run(self._holdings.begin, [self.place_of(row) for row in rows])

    def prepare_coming(self) -> None:
        """Launch the instances of the batch that `coming` was told of, unless that is done or the batch has begun."""
        if self._coming and not self._is_prepared and self._coming != self._under_way:
            self._is_prepared = True
            sync.run(self._holdings.begin, list(self._coming.elements()))

    def begin(self, places: Iterable[Place]) -> None:
        """Note that a batch is under way."""
        self._under_way = Counter(places)
        self._has_begun = True

    async def take(self, place: Place) -> Instance:
        """An instance of a place, one that was launched ahead if there is one; on the background loop.

        Raises:
            SandboxError: it cannot be launched.
        """
        waiting = self._holdings.ready.get(place)
        if waiting:
            try:
                found = await waiting.popleft()
            except SandboxError:
                pass  # there may have been no room then
            else:
                self.launched_ahead += 1
                return found
        self.launched_on_demand += 1
        return await self._holdings.launch(place)

    async def give_back(self, instance: Instance) -> None:
        """Free an instance; on the background loop."""
        await self._holdings.free([instance])

    async def call(self, calls: Any) -> Any:
        """Many calls at once (`InstancePool.call`); on the background loop."""
        assert self._holdings.pool is not None, "the calls' instances come from it"
        return await self._holdings.pool.call(calls)

    def close(self) -> None:
        """Free every instance and end every worker. Closing twice is fine, and using it again opens it again."""
        self._coming, self._under_way = Counter(), Counter()
        self._has_begun = self._is_prepared = False
        self._holdings.shut()


class _Kept(Mapping[str, Environment]):
    """Environments, the last ones asked for kept in memory: a row of a dataset is read from its file each time."""

    _MOST = 256

    def __init__(self, environments: Mapping[str, Environment]) -> None:
        self._environments = environments
        self._kept: dict[str, Environment] = {}
        self._lock = threading.Lock()

    def __getitem__(self, name: str) -> Environment:
        with self._lock:
            if name not in self._kept:
                if len(self._kept) == self._MOST:
                    del self._kept[next(iter(self._kept))]
                self._kept[name] = self._environments[name]
            return self._kept[name]

    def __iter__(self) -> Any:
        return iter(self._environments)

    def __len__(self) -> int:
        return len(self._environments)

"""Workers of one event loop: which process hosts which environment's instances.

A worker hosts up to `instances_per_worker` instances of one environment; rows whose code keeps state outside the
database get one worker per instance. When a process dies, its worker starts another one on the next request, and each
instance rebuilds itself there. A few idle workers are kept, so that launching again costs nothing.
"""

import asyncio
import itertools
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any, NamedTuple

from awm_hub.canonical import to_json
from awm_hub.environment import Environment
from awm_hub.errors import CapacityError, LoadError, WorkerError
from awm_hub.runtime.limits import Limits, Options
from awm_hub.runtime.processes import OperationError, Pending, Process

_KEPT_IDLE = 8
_GRACE_S = 5.0
_STARTS = 5
_FULL = "release an instance, or raise the limit"


@dataclass(frozen=True, kw_only=True)
class Hosting:
    """What decides which worker an instance may share."""

    environment: Environment
    limits: Limits
    options: Options
    tier: str

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for instances that may share a worker."""
        e = self.environment
        return (e.content_hash, e.clock, e.image_sha256, self.limits, self.options, self.tier)

    @property
    def has_hidden_state(self) -> bool:
        """Whether the code keeps state outside its database."""
        quality = self.environment.quality
        return quality is not None and quality.hidden_state is True


class Worker:
    """The process, now or next, that hosts some instances of an environment."""

    def __init__(self, hosting: Hosting) -> None:
        self.hosting = hosting
        self.instances_count = 0
        self.last_used = 0
        self.generation = 0
        """Grows with every process: an instance created in an older one has to be rebuilt."""
        self._process: Process | None = None
        self._images: set[str] = set()
        self._lock = asyncio.Lock()
        self._is_retired = False

    async def ready(self) -> int:
        """See that a process runs and has the environment loaded; its generation.

        Raises:
            LoadError: the code does not load.
            WorkerError: the process died while loading, again and again, or the worker was retired.
        """
        async with self._lock:
            if self._process is None or self._process.is_dead:
                self._process = await self._start_at_last()
                self._images.clear()
                self.generation += 1
            return self.generation

    async def request(self, op: str, *, timeout_s: float | None = None, **fields: Any) -> Any:
        """One request to the current process; a cancelled caller does not disturb the other instances there.

        Raises:
            WorkerError: the process died or was stopped.
            OperationError: the operation failed inside.
        """
        return await self.send(op, timeout_s=timeout_s, **fields)

    def send(self, op: str, *, timeout_s: float | None = None, **fields: Any) -> Pending:
        """Send one request to the current process; it can be awaited.

        Raises:
            WorkerError: the process is dead.
        """
        assert self._process is not None, "ready() comes first"
        limit = self.hosting.limits.load_s if timeout_s is None else timeout_s
        return self._process.send(op, timeout_s=limit, **fields)

    async def keep_image(self, key: str, image: bytes) -> None:
        """See that the current process has an image to create instances from."""
        if key not in self._images:
            await self.request("image", key=key, image=image)
            self._images.add(key)

    @property
    def is_running(self) -> bool:
        """Whether there is a process at the moment."""
        return self._process is not None and not self._process.is_dead

    def memory_bytes(self) -> int:
        """Memory that the process holds for itself; 0 without a process."""
        return self._process.private_bytes() if self._process is not None else 0

    def stop(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()

    def retire(self) -> None:
        """End the process, and start no other one."""
        self._is_retired = True
        self.stop()

    async def _start_at_last(self) -> Process:
        """Start a process; one that dies meanwhile may have been killed from outside."""
        for _ in range(_STARTS - 1):
            if self._is_retired:
                break
            try:
                return await self._start()
            except WorkerError as error:
                if error.reason != "died":
                    raise
        if self._is_retired:
            raise WorkerError("the workers of this instance have been ended", next_step="launch another one")
        return await self._start()

    async def _start(self) -> Process:
        wanted = self.hosting
        environment = wanted.environment
        process = await Process.spawn(
            interface=environment.interface,
            sealed=wanted.tier == "sealed",
            memory_bytes=wanted.limits.worker_memory_bytes,
        )
        tools = [
            {"name": t.name, "input_schema": to_json(t.input_schema), "effect": t.effect} for t in environment.tools
        ]
        try:
            await process.request(
                "load",
                timeout_s=wanted.limits.load_s + _GRACE_S,
                interface=environment.interface,
                code=environment.code,
                tools=tools,
                image=environment.database,
                clock_us=int(environment.clock.timestamp() * 10**6),
                limits=wanted.limits.to_dict(),
                options=wanted.options.to_dict(),
            )
        except BaseException as error:
            process.kill()
            if not isinstance(error, OperationError):
                raise
            raise LoadError(
                f"the code of {environment.id} does not load: {error}",
                next_step=f"look at it with: awm-hub show {environment.id} --code",
            ) from error
        return process


class Workers:
    """A set of workers with room for so many instances and so much memory; without limits, the loop's own."""

    def __init__(
        self,
        *,
        most_instances: int | None = None,
        memory_bytes: int | None = None,
        per_environment: int = 1,
        kept_idle: int = _KEPT_IDLE,
    ) -> None:
        self._by_key: dict[tuple[Any, ...], list[Worker]] = {}
        self._most_instances, self._memory_bytes = most_instances, memory_bytes
        self._per_environment, self._kept_idle = per_environment, kept_idle
        self._clock = itertools.count()
        self.freed = asyncio.Event()
        """Set whenever an instance has been freed."""

    @property
    def instances_count(self) -> int:
        """Live instances."""
        return sum(w.instances_count for w in self._all())

    @property
    def memory_bytes(self) -> int:
        """Memory that the workers hold for themselves; what they share with the zygote is not counted."""
        return sum(w.memory_bytes() for w in self._all())

    def __len__(self) -> int:
        return sum(w.is_running for w in self._all())

    def take(self, hosting: Hosting) -> Worker:
        """A worker with room for one more instance.

        Raises:
            CapacityError: the limits leave no room, even without the idle workers.
        """
        self._make_room()
        workers = self._by_key.setdefault(hosting.key, [])
        most = _most_on_one(hosting)
        free = [w for w in workers if w.instances_count < most]
        if free and (most == 1 or len(workers) >= self._per_environment):
            worker = min(free, key=lambda w: w.instances_count)
        else:
            worker = Worker(hosting)
            workers.append(worker)
        if most == 1:
            worker.stop()
        worker.instances_count += 1
        worker.last_used = next(self._clock)
        return worker

    def give_back(self, worker: Worker) -> None:
        """One instance less; the longest unused of the idle workers end when there are many."""
        worker.instances_count -= 1
        worker.last_used = next(self._clock)
        self.freed.set()
        for old in self._idle()[: -self._kept_idle or None]:
            self._end(old)

    def stop(self) -> None:
        """End every worker."""
        for worker in self._all():
            worker.retire()
        self._by_key.clear()
        self.freed.set()

    def _make_room(self) -> None:
        if self._most_instances is not None and self.instances_count >= self._most_instances:
            raise CapacityError(f"{self._most_instances} instances are live, which is the limit", next_step=_FULL)
        if self._memory_bytes is None:
            return
        idle = self._idle()
        while (used := self.memory_bytes) > self._memory_bytes:
            if not idle:
                raise CapacityError(
                    f"the workers hold {used >> 20} MB, over the limit of {self._memory_bytes >> 20} MB",
                    next_step=_FULL,
                )
            self._end(idle.pop(0))

    def _idle(self) -> list[Worker]:
        """Workers without instances, the longest unused first."""
        return sorted((w for w in self._all() if w.instances_count == 0), key=lambda w: w.last_used)

    def _all(self) -> list[Worker]:
        return [w for workers in self._by_key.values() for w in workers]

    def _end(self, worker: Worker) -> None:
        worker.retire()
        workers = self._by_key[worker.hosting.key]
        workers.remove(worker)
        if not workers:
            del self._by_key[worker.hosting.key]


def _most_on_one(hosting: Hosting) -> int:
    """Instances that one worker may host; one where the code keeps state outside its database."""
    return 1 if hosting.has_hidden_state else hosting.limits.instances_per_worker


class _LoopWorkers(NamedTuple):
    """The workers of a loop, and what ends them with it."""

    workers: Workers
    ending: AsyncGenerator[None, None]
    start: asyncio.Task[None]


_by_loop: dict[asyncio.AbstractEventLoop, _LoopWorkers] = {}


def current_workers() -> Workers:
    """The workers of the running event loop; they end with it."""
    loop = asyncio.get_running_loop()
    if loop not in _by_loop:
        for closed in [other for other in _by_loop if other.is_closed()]:
            _by_loop.pop(closed).workers.stop()
        ending = _until_shutdown(loop)
        _by_loop[loop] = _LoopWorkers(Workers(), ending, loop.create_task(_begin(ending)))
    return _by_loop[loop].workers


async def _begin(ending: AsyncGenerator[None, None]) -> None:
    await anext(ending)


async def _until_shutdown(loop: asyncio.AbstractEventLoop) -> AsyncGenerator[None, None]:
    """A loop that is shut down closes the generators it has begun, which is the one moment to end something with it."""
    try:
        yield
    finally:
        if found := _by_loop.pop(loop, None):
            found.workers.stop()

"""Workers of one event loop: which process hosts which environment's instances.

A worker hosts up to `instances_per_worker` instances of one environment; rows whose code keeps state outside the
database get one worker per instance. When a process dies, its worker starts another one on the next request, and each
instance rebuilds itself there. A few idle workers are kept, so that launching again costs nothing.
"""

import asyncio
import weakref
from dataclasses import dataclass
from typing import Any

from awm_hub.canonical import to_json
from awm_hub.environment import Environment
from awm_hub.errors import LoadError
from awm_hub.runtime.limits import Limits, Options
from awm_hub.runtime.processes import OperationError, Process, unbroken

_KEPT_IDLE = 8
_GRACE_S = 5.0


@dataclass(frozen=True, kw_only=True)
class Launching:
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


class Worker:
    """The process, now or next, that hosts some instances of an environment."""

    def __init__(self, launching: Launching) -> None:
        self.launching = launching
        self.instances_count = 0
        self.generation = 0
        """Grows with every process: an instance created in an older one has to be rebuilt."""
        self._process: Process | None = None
        self._images: set[str] = set()
        self._lock = asyncio.Lock()

    async def ready(self) -> int:
        """See that a process runs and has the environment loaded; its generation.

        Raises:
            LoadError: the code does not load.
            WorkerError: the process died while loading.
        """
        async with self._lock:
            if self._process is None or self._process.is_dead:
                self._process = await self._start()
                self._images.clear()
                self.generation += 1
            return self.generation

    async def request(self, op: str, *, timeout_s: float | None = None, **fields: Any) -> Any:
        """One request to the current process; a cancelled caller does not disturb the other instances there.

        Raises:
            WorkerError: the process died or was stopped.
            OperationError: the operation failed inside.
        """
        assert self._process is not None, "ready() comes first"
        limit = self.launching.limits.load_s if timeout_s is None else timeout_s
        return await unbroken(self._process.request(op, timeout_s=limit, **fields))

    async def keep_image(self, key: str, image: bytes) -> None:
        """See that the current process has an image to create instances from."""
        if key not in self._images:
            await self.request("image", key=key, image=image)
            self._images.add(key)

    def stop(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()

    async def _start(self) -> Process:
        wanted = self.launching
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
        except OperationError as error:
            process.kill()
            raise LoadError(
                f"the code of {environment.id} does not load: {error}",
                next_step=f"look at it with: awm-hub show {environment.id} --code",
            ) from error
        return process


class Workers:
    """All workers of one event loop."""

    def __init__(self) -> None:
        self._by_key: dict[tuple[Any, ...], list[Worker]] = {}

    def take(self, launching: Launching) -> Worker:
        """A worker with room for one more instance."""
        quality = launching.environment.quality
        most = 1 if quality is not None and quality.hidden_state else launching.limits.instances_per_worker
        workers = self._by_key.setdefault(launching.key, [])
        worker = next((w for w in workers if w.instances_count < most), None)
        if worker is None:
            worker = Worker(launching)
            workers.append(worker)
        elif most == 1:
            worker.stop()
        worker.instances_count += 1
        return worker

    def give_back(self, worker: Worker) -> None:
        """One instance less; the oldest idle workers end when there are many."""
        worker.instances_count -= 1
        idle = [w for workers in self._by_key.values() for w in workers if w.instances_count == 0]
        for old in idle[: max(0, len(idle) - _KEPT_IDLE)]:
            old.stop()
            workers = self._by_key[old.launching.key]
            workers.remove(old)
            if not workers:
                del self._by_key[old.launching.key]


_by_loop: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Workers]" = weakref.WeakKeyDictionary()


def current_workers() -> Workers:
    """The workers of the running event loop."""
    return _by_loop.setdefault(asyncio.get_running_loop(), Workers())

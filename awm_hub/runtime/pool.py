"""A pool: many instances of many environments at once, within limits.

Training wants a thousand live instances and a thousand calls at a time. A pool loads environments on demand, spreads
their instances over workers, ends workers that have been idle longest when memory runs short, and makes callers wait
instead of collapsing when it is full. Calls go out in batches: one frame carries many calls to a worker, and workers
run side by side. `InstancePool` is the protocol that a pool over several machines can implement later; `LocalPool` is
this machine.
"""

import asyncio
import weakref
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Protocol, Self

from awm_hub.environment import Environment
from awm_hub.errors import CapacityError, UnknownNameError, UsageError
from awm_hub.runtime import batches
from awm_hub.runtime.instance import Instance
from awm_hub.runtime.launching import launch
from awm_hub.runtime.limits import Limits, Options
from awm_hub.runtime.workers import Workers
from awm_hub.trajectory import ToolResult


@dataclass(frozen=True, kw_only=True)
class PoolCall:
    """One call of a batch."""

    instance: Instance
    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    thought: str | None = None


@dataclass(frozen=True, kw_only=True)
class PoolUsage:
    """What a pool holds at the moment."""

    instances: int
    workers: int
    memory_bytes: int
    waiting: int


class InstancePool(Protocol):
    """What a trainer needs of a pool, on one machine or many."""

    async def acquire(self, environment: Environment | str, *, task: str | None = None, seed: int = 0) -> Instance:
        """A fresh instance; waits while the pool is full.

        Raises:
            CapacityError: none became free in time.
        """

    async def call(self, calls: Sequence[PoolCall]) -> list[ToolResult]:
        """Many calls at once; results in the order of the calls."""

    async def reset(self, instances: Iterable[Instance]) -> None:
        """Reset many instances at once."""

    async def release(self, instances: Iterable[Instance]) -> None:
        """Free many instances at once."""

    async def close(self) -> None:
        """Free everything."""


class LocalPool:
    """Instances on this machine, within a number and a memory budget.

    Args:
        environments: Where `acquire` finds environments by id; anything `awm_hub.load` returns.
        most_instances: Live instances at most.
        memory_bytes: Memory of all workers at most, beyond what they share.
        workers_per_environment: Processes over which an environment's instances are spread before one is filled.
        wait_s: How long `acquire` waits for room.
        limits: What calls may use.
        options: Deviations from strict behaviour.
        trust_remote_code: Run without a seal where this machine cannot seal.
        revision: Dataset revision to record in trajectories; default: the one of `environments`.
    """

    def __init__(
        self,
        environments: Mapping[str, Environment] | None = None,
        *,
        most_instances: int = 4096,
        memory_bytes: int = 4 * 2**30,
        workers_per_environment: int = 1,
        wait_s: float = 60.0,
        limits: Limits | None = None,
        options: Options | None = None,
        trust_remote_code: bool = False,
        revision: str | None = None,
    ) -> None:
        self._environments = environments or {}
        self._workers = Workers(
            most_instances=most_instances,
            memory_bytes=memory_bytes,
            per_environment=workers_per_environment,
            kept_idle=most_instances,
        )
        self._wait_s = wait_s
        self._limits, self._options, self._trust = limits, options, trust_remote_code
        self._revision = revision or getattr(environments, "revision", None)
        self._instances: weakref.WeakSet[Instance] = weakref.WeakSet()
        self._waiting = 0
        self._is_closed = False

    @property
    def usage(self) -> PoolUsage:
        """Instances, workers, memory and waiting callers."""
        workers = self._workers
        return PoolUsage(
            instances=workers.instances_count,
            workers=len(workers),
            memory_bytes=workers.memory_bytes,
            waiting=self._waiting,
        )

    async def acquire(self, environment: Environment | str, *, task: str | None = None, seed: int = 0) -> Instance:
        """A fresh instance; waits while the pool is full.

        Raises:
            CapacityError: none became free in time.
            UnknownNameError: there is no such environment or task.
            UsageError: the pool is closed.
        """
        found = self._found(environment) if isinstance(environment, str) else environment
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + self._wait_s
        while True:
            self._workers.freed.clear()
            try:
                return await self._launch(found, task, seed)
            except CapacityError:
                if loop.time() >= ends_at:
                    raise
                await self._wait_for_room(ends_at - loop.time())

    async def call(self, calls: Sequence[PoolCall]) -> list[ToolResult]:
        """Many calls at once; results in the order of the calls. Calls on one instance keep their order.

        Raises:
            EpisodeError: an instance is closed or its episode has ended; nothing was called then.
        """
        for call in calls:
            call.instance.check_running()
        by_worker: dict[int, list[int]] = defaultdict(list)
        for position, call in enumerate(calls):
            by_worker[call.instance.worker_id].append(position)
        results: list[ToolResult | None] = [None] * len(calls)

        async def run(positions: list[int]) -> None:
            batch = [batches.Item(c.instance, c.tool, c.arguments, c.thought) for c in (calls[p] for p in positions)]
            for position, result in zip(positions, await batches.call_many(batch), strict=True):
                results[position] = result

        await asyncio.gather(*(run(positions) for positions in by_worker.values()))
        return [result for result in results if result is not None]

    async def reset(self, instances: Iterable[Instance]) -> None:
        """Reset many instances at once."""
        await asyncio.gather(*(instance.reset() for instance in instances))

    async def release(self, instances: Iterable[Instance]) -> None:
        """Free many instances at once; a waiting `acquire` goes on."""
        await asyncio.gather(*(instance.close() for instance in instances))

    async def close(self) -> None:
        """Free every instance and end every worker."""
        self._is_closed = True
        await self.release(list(self._instances))
        self._workers.stop()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def _found(self, name: str) -> Environment:
        if name not in self._environments:
            raise UnknownNameError("environment", name, self._environments)
        return self._environments[name]

    async def _launch(self, environment: Environment, task: str | None, seed: int) -> Instance:
        if self._is_closed:
            raise UsageError("this pool is closed", next_step="make another LocalPool")
        instance = await launch(
            environment,
            task=task,
            seed=seed,
            trust_remote_code=self._trust,
            limits=self._limits,
            options=self._options,
            revision=self._revision,
            workers=self._workers,
        )
        self._instances.add(instance)
        return instance

    async def _wait_for_room(self, seconds: float) -> None:
        self._waiting += 1
        try:
            async with asyncio.timeout(seconds):
                await self._workers.freed.wait()
        except TimeoutError:
            pass
        finally:
            self._waiting -= 1

"""The synchronous facade of the pool: `awm_hub.aio.LocalPool` with the same verbs, blocking."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from awm_hub.environment import Environment
from awm_hub.runtime import pool as core
from awm_hub.runtime.pool import PoolUsage
from awm_hub.runtime.sync import Instance, run
from awm_hub.trajectory import ToolResult


@dataclass(frozen=True, kw_only=True)
class PoolCall:
    """One call of a batch."""

    instance: Instance
    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    thought: str | None = None


class LocalPool:
    """Many instances on this machine, within a number and a memory budget.

    Takes the arguments of `awm_hub.aio.LocalPool`.
    """

    def __init__(self, environments: Mapping[str, Environment] | None = None, **settings: Any) -> None:
        self._core = run(_make, environments, settings)

    @property
    def usage(self) -> PoolUsage:
        """Instances, workers, memory and waiting callers."""
        return self._core.usage

    def acquire(self, environment: Environment | str, *, task: str | None = None, seed: int = 0) -> Instance:
        """A fresh instance; waits while the pool is full.

        Raises:
            CapacityError: none became free in time.
            UnknownNameError: there is no such environment or task.
            UsageError: the pool is closed.
        """
        return Instance(run(self._core.acquire, environment, task=task, seed=seed))

    def call(self, calls: Sequence[PoolCall]) -> list[ToolResult]:
        """Many calls at once; results in the order of the calls. Calls on one instance keep their order.

        Raises:
            EpisodeError: an instance is closed or its episode has ended; nothing was called then.
        """
        batch = [
            core.PoolCall(instance=c.instance.core, tool=c.tool, arguments=c.arguments, thought=c.thought)
            for c in calls
        ]
        return run(self._core.call, batch)

    def reset(self, instances: Iterable[Instance]) -> None:
        """Reset many instances at once."""
        run(self._core.reset, [instance.core for instance in instances])

    def release(self, instances: Iterable[Instance]) -> None:
        """Free many instances at once; a waiting `acquire` goes on."""
        run(self._core.release, [instance.core for instance in instances])

    def close(self) -> None:
        """Free every instance and end every worker."""
        run(self._core.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


async def _make(environments: Mapping[str, Environment] | None, settings: dict[str, Any]) -> core.LocalPool:
    return core.LocalPool(environments, **settings)

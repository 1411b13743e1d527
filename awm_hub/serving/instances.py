"""The live instances of one server: opened, found, counted, and closed when nobody uses them any more.

A `Lease` is one served instance with what serving adds to it: the id that is its URL, who opened it, when it was last
used. Instances are opened by the controller, by an MCP session, under a key, or as the one shared instance of an
environment; however opened, the controller finds, judges and closes each by its id.
"""

import asyncio
import secrets
import time
import weakref
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Protocol

from awm_hub import schema
from awm_hub.environment import Environment, Task, ToolSpec
from awm_hub.errors import EpisodeError, UnknownNameError
from awm_hub.serving.ending import closed
from awm_hub.serving.refusals import Refusal, ServerFullError, logger
from awm_hub.trajectory import StateDiff, ToolResult, Trajectory

_RETRY_AFTER_MAX_S = 60


class LiveInstance(Protocol):
    """What serving needs of an instance; `awm_hub.aio.Instance` is one and says what each verb does."""

    @property
    def task(self) -> Task | None:
        """The task it was opened with."""

    @property
    def seed(self) -> int:
        """The seed of its randomness."""

    @property
    def tier(self) -> str:
        """`sealed` or `process`."""

    @property
    def is_ended(self) -> bool:
        """Whether an answer was submitted."""

    @property
    def answer(self) -> str | None:
        """The submitted answer."""

    def list_tools(self) -> tuple[ToolSpec, ...]:
        """The tools."""

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        """Call one; calls on one instance wait for each other."""

    async def diff(self) -> StateDiff:
        """What changed so far."""

    async def submit(self, answer: str | None) -> None:
        """End the episode."""

    async def trajectory(self) -> Trajectory:
        """The record of the episode."""

    async def close(self) -> None:
        """Free everything."""


class Launch(Protocol):
    """Makes a live instance of an environment."""

    def __call__(self, environment: Environment, *, task: str | None, seed: int) -> Awaitable[LiveInstance]:
        """Launch."""


@dataclass(eq=False, kw_only=True)
class Lease:
    """One served instance."""

    id: str
    """128 random bits. Whoever knows them may call the instance's tools."""
    environment: Environment
    instance: LiveInstance
    opened_by: str
    """`controller`, `session`, `key`, `single`, `stdio` or `visitor`."""
    now: Callable[[], float] = time.monotonic
    last_used: float = field(init=False)
    judging: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while the episode is being ended and judged."""
    _calls: set[asyncio.Task[ToolResult]] = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        self.touch()

    @property
    def is_busy(self) -> bool:
        """Whether a call is running."""
        return bool(self._calls)

    @property
    def idle_s(self) -> float:
        """Seconds since the last use; 0 while a call runs."""
        return 0.0 if self.is_busy else self.now() - self.last_used

    def touch(self) -> None:
        """Note a use."""
        self.last_used = self.now()

    async def call(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        """Call a tool. A caller that goes away abandons the call; the call itself ends on its own."""
        task = asyncio.ensure_future(self.instance.call_tool(name, arguments))
        self._calls.add(task)
        task.add_done_callback(self._forget)
        return await asyncio.shield(task)

    async def submit(self, answer: str | None) -> None:
        """End the episode with an answer; again with the same answer is no error.

        Raises:
            EpisodeError: the episode ended with another answer.
        """
        self.touch()
        if not self.instance.is_ended:
            await self.instance.submit(answer)
        elif self.instance.answer != answer:
            raise EpisodeError(
                "the episode has ended with another answer", next_step="POST /instances opens a new instance"
            )

    async def close(self) -> None:
        """Close the instance; calls that still run end with it."""
        await self.instance.close()
        await asyncio.gather(*self._calls, return_exceptions=True)

    def _forget(self, task: asyncio.Task[ToolResult]) -> None:
        self._calls.discard(task)
        self.touch()
        if not task.cancelled():
            task.exception()  # an abandoned call has nobody else to take its error


class Instances:
    """All leases of a server."""

    def __init__(
        self,
        environments: Mapping[str, Environment],
        *,
        launch: Launch,
        capacity: int,
        idle_timeout_s: float | None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.environments = environments
        self._launch, self._capacity, self._idle_timeout_s, self._now = launch, capacity, idle_timeout_s, now
        self._leases: dict[str, Lease] = {}
        self._shared: dict[tuple[str, str | None], asyncio.Task[Lease]] = {}
        self._opening = 0
        self._loaded: weakref.WeakValueDictionary[str, Environment] = weakref.WeakValueDictionary()
        self._loading = asyncio.Lock()

    def __len__(self) -> int:
        return len(self._leases)

    def __iter__(self) -> Iterator[Lease]:
        return iter(tuple(self._leases.values()))

    def __getitem__(self, instance_id: str) -> Lease:
        lease = self._leases.get(instance_id)
        if lease is None:
            raise Refusal(
                HTTPStatus.NOT_FOUND,
                f"no instance {instance_id[:64]!r}: it was closed, or never opened{self._swept}",
                next_step="POST /instances opens one and answers with its url",
                kind="UnknownNameError",
            )
        lease.touch()
        return lease

    async def open(self, environment_id: str, *, task: str | None = None, seed: int = 0, opened_by: str) -> Lease:
        """Launch an instance of an environment of the dataset.

        Raises:
            UnknownNameError: there is no such environment or task.
            ServerFullError: the server is full.
        """
        environment = await self.environment(environment_id)
        return await self.open_environment(environment, task=task, seed=seed, opened_by=opened_by)

    async def open_environment(
        self, environment: Environment, *, task: str | None = None, seed: int = 0, opened_by: str
    ) -> Lease:
        """Launch an instance of any environment.

        Raises:
            UnknownNameError: there is no such task.
            ServerFullError: the server is full.
        """
        if len(self._leases) + self._opening >= self._capacity:
            raise ServerFullError(self._capacity, self._retry_after_s())
        self._opening += 1
        try:
            instance = await self._launch(environment, task=task, seed=seed)
        finally:
            self._opening -= 1
        lease = Lease(
            id=secrets.token_hex(16), environment=environment, instance=instance, opened_by=opened_by, now=self._now
        )
        self._leases[lease.id] = lease
        return lease

    async def shared(self, environment_id: str, key: str | None) -> Lease:
        """The one instance of an environment under a key, opened by whoever comes first; key None is `--single`."""
        slot = (environment_id, key)
        task = self._shared.get(slot)
        if task is None:
            opened_by = "single" if key is None else "key"
            task = asyncio.ensure_future(self.open(environment_id, opened_by=opened_by))
            self._shared[slot] = task
            task.add_done_callback(lambda done: self._drop_failed(slot, done))
        lease = await asyncio.shield(task)
        lease.touch()
        return lease

    def session(self, environment_id: str, session_id: str) -> Lease:
        """The instance of an MCP session; the session's id is the instance's."""
        lease = self[session_id]
        if lease.environment.id != environment_id or lease.opened_by != "session":
            raise Refusal(
                HTTPStatus.NOT_FOUND,
                f"no session {session_id[:64]!r} at this URL",
                next_step="send initialize without mcp-session-id",
                kind="UnknownNameError",
            )
        return lease

    async def environment(self, environment_id: str) -> Environment:
        """The environment with this id, read outside the event loop unless an instance of it is live."""
        if not schema.ID_PATTERN.fullmatch(environment_id):
            shown = environment_id[:64]
            raise UnknownNameError("environment", shown, self.environments, next_step="awm-hub list")
        async with self._loading:
            found = self._loaded.get(environment_id)
            if found is None:
                found = await asyncio.to_thread(self._read, environment_id)
                self._loaded[environment_id] = found
        return found

    async def close(self, lease: Lease) -> None:
        """Close one instance; its id is forgotten at once."""
        if self._leases.pop(lease.id, None) is None:
            return
        for slot, task in tuple(self._shared.items()):
            if task.done() and task.result() is lease:
                del self._shared[slot]
        await lease.close()

    async def close_all(self) -> None:
        """Close every instance; one that is still in a call after a moment is left to close by itself."""
        opening = tuple(self._shared.values())
        for task in opening:
            task.cancel()
        await asyncio.gather(*opening, return_exceptions=True)
        await closed(self._close(tuple(self)))

    async def sweep(self) -> int:
        """Close what has been idle for too long, and count it. The instances of `--single` stay."""
        if self._idle_timeout_s is None:
            return 0
        idle = [x for x in self if x.opened_by != "single" and x.idle_s > self._idle_timeout_s]
        await self._close(idle)
        return len(idle)

    async def sweep_forever(self) -> None:
        """Sweep again and again, often enough that nothing stays much longer than it may."""
        while self._idle_timeout_s is not None:
            await asyncio.sleep(min(30.0, max(0.05, self._idle_timeout_s / 4)))
            await self.sweep()

    async def _close(self, leases: Sequence[Lease]) -> None:
        ends = await asyncio.gather(*(self.close(lease) for lease in leases), return_exceptions=True)
        for end in ends:
            if isinstance(end, Exception):
                logger.error("an instance did not close", exc_info=end)

    def _drop_failed(self, slot: tuple[str, str | None], task: asyncio.Task[Lease]) -> None:
        if (task.cancelled() or task.exception()) and self._shared.get(slot) is task:
            del self._shared[slot]

    @property
    def _swept(self) -> str:
        return f", or nobody used it for {self._idle_timeout_s:g} s" if self._idle_timeout_s is not None else ""

    def _retry_after_s(self) -> int:
        if self._idle_timeout_s is None or not self._leases:
            return _RETRY_AFTER_MAX_S
        soonest = self._idle_timeout_s - max(lease.idle_s for lease in self)
        return max(1, min(_RETRY_AFTER_MAX_S, round(soonest)))

    def _read(self, environment_id: str) -> Environment:
        try:
            return self.environments[environment_id]
        except KeyError:
            raise UnknownNameError("environment", environment_id, self.environments, next_step="awm-hub list") from None

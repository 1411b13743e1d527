"""The synchronous facade: the same verbs, driven by one background thread that owns an event loop.

It works inside a running loop (notebooks, Gradio, async rewards), and refuses to work in a forked child, whose thread
would not exist there.
"""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

from awm_hub.environment import Environment, Task, ToolSpec
from awm_hub.errors import UsageError
from awm_hub.runtime import instance as core
from awm_hub.runtime import launching
from awm_hub.runtime.limits import Limits, Options
from awm_hub.runtime.states import Snapshot
from awm_hub.trajectory import StateDiff, Step, ToolResult, Trajectory

T = TypeVar("T")


class _LoopThread:
    """A daemon thread that runs one event loop."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, name="awm-hub", daemon=True).start()


_lock = threading.Lock()
_thread: _LoopThread | None = None


def run(function: Callable[..., Coroutine[Any, Any, T]], *args: Any, **kwargs: Any) -> T:
    """Run a coroutine function on the background loop and wait for its result.

    Raises:
        UsageError: in a child that was forked after first use, or on the background loop itself.
    """
    loop = _running_loop()
    future = asyncio.run_coroutine_threadsafe(function(*args, **kwargs), loop)
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


def _running_loop() -> asyncio.AbstractEventLoop:
    global _thread
    with _lock:
        if _thread is None:
            _thread = _LoopThread()
    if _thread.pid != os.getpid():
        raise UsageError(
            "awm_hub was used before this process was forked",
            next_step="start processes with the `spawn` method, or use awm_hub only in the child",
        )
    if threading.current_thread().name == "awm-hub":
        raise UsageError("the synchronous verbs cannot run on their own loop", next_step="use awm_hub.aio there")
    return _thread.loop


class Instance:
    """A live, isolated, resettable copy of an environment; `awm_hub.aio.Instance` has the same verbs as coroutines."""

    def __init__(self, instance: core.Instance) -> None:
        self._core = instance

    def __repr__(self) -> str:
        return repr(self._core)

    @property
    def core(self) -> core.Instance:
        """The same instance with its verbs as coroutines, on the background loop."""
        return self._core

    @property
    def environment(self) -> Environment:
        """The environment."""
        return self._core.environment

    @property
    def task(self) -> Task | None:
        """The task, if it was launched with one."""
        return self._core.task

    @property
    def seed(self) -> int:
        """Seed of Python's and SQL's randomness."""
        return self._core.seed

    @property
    def tier(self) -> str:
        """Sandbox tier: `sealed` or `process`."""
        return self._core.tier

    @property
    def steps(self) -> tuple[Step, ...]:
        """What has been called since the last reset, with the results."""
        return self._core.steps

    @property
    def answer(self) -> str | None:
        """The submitted answer."""
        return self._core.answer

    @property
    def is_closed(self) -> bool:
        """Whether the instance has been freed."""
        return self._core.is_closed

    @property
    def is_ended(self) -> bool:
        """Whether an answer has been submitted."""
        return self._core.is_ended

    def list_tools(self) -> tuple[ToolSpec, ...]:
        """The toolset."""
        return self._core.list_tools()

    def call_tool(
        self, name: str, arguments: Mapping[str, Any] | None = None, *, thought: str | None = None
    ) -> ToolResult:
        """Call a tool. Whatever goes wrong with the call is in the result, never an exception.

        Raises:
            EpisodeError: the instance is closed or its episode has ended.
        """
        return run(self._core.call_tool, name, arguments, thought=thought)

    def reset(self) -> None:
        """Back to the task's initial state: database, clock, randomness and steps."""
        run(self._core.reset)

    def snapshot(self) -> Snapshot:
        """The whole state, to be restored later."""
        return run(self._core.snapshot)

    def restore(self, snapshot: Snapshot) -> None:
        """Go back to a snapshot of this environment and task.

        Raises:
            UsageError: the snapshot belongs to another environment or task.
        """
        run(self._core.restore, snapshot)

    def fork(self) -> "Instance":
        """A second instance in the same state; from here on the two are independent."""
        return Instance(run(self._core.fork))

    def image(self) -> bytes:
        """The current database, as an untrusted SQLite image."""
        return run(self._core.image)

    def diff(self) -> StateDiff:
        """Rows that differ from the initial state."""
        return run(self._core.diff)

    def submit(self, answer: str | None = None) -> None:
        """End the episode with the agent's final message.

        Raises:
            EpisodeError: the episode has ended already.
        """
        run(self._core.submit, answer)

    def trajectory(self) -> Trajectory:
        """The record of this episode so far."""
        return run(self._core.trajectory)

    def close(self) -> None:
        """Free the instance. Closing twice is fine."""
        run(self._core.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def launch(
    environment: Environment,
    *,
    task: str | None = None,
    seed: int = 0,
    trust_remote_code: bool = False,
    limits: Limits | None = None,
    options: Options | None = None,
    revision: str | None = None,
) -> Instance:
    """Make an environment live.

    Args:
        environment: The environment.
        task: Id or last part of the id of one of its tasks; its setup statements are applied.
        seed: Seeds Python's and SQL's randomness.
        trust_remote_code: Run without a seal where this machine cannot seal a process.
        limits: What calls may use.
        options: Deviations from strict behaviour, recorded in the trajectory.
        revision: Dataset revision to record in the trajectory; default: the one that the environment was read from.

    Raises:
        UsageError: an argument is not what it should be.
        UnknownNameError: there is no such task.
        SealError: this machine cannot seal, and the code is not trusted.
        LoadError: the code does not load, or a setup statement fails.
    """
    started = run(
        _launched,
        environment,
        task=task,
        seed=seed,
        trust_remote_code=trust_remote_code,
        limits=limits,
        options=options,
        revision=revision,
    )
    return Instance(started)


async def _launched(*arguments: Any, **settings: Any) -> core.Instance:
    return await launching.launch(*arguments, **settings)

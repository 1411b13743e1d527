"""A live environment: a private database and the environment's code, and the verbs to work with them.

This is the async core; `awm_hub.launch` gives the same verbs synchronously. An instance survives the death of the
process that hosts it: the failing call is a fault, and the instance is rebuilt from its last known state and the
calls since.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Any, Self, TypeVar

from awm_hub.canonical import from_json, to_json
from awm_hub.environment import Task, ToolSpec
from awm_hub.errors import EpisodeError, LimitError, RecordError, SandboxError, UsageError, WorkerError
from awm_hub.runtime import answers, jobs, pages
from awm_hub.runtime.processes import OperationError, Pending, unbroken
from awm_hub.runtime.residence import Residence
from awm_hub.runtime.states import Snapshot
from awm_hub.runtime.workers import Hosting, Workers
from awm_hub.trajectory import StateDiff, Step, ToolResult, Trajectory

T = TypeVar("T")


class Call:
    """A call under way."""

    def __init__(self, tool: str, arguments: Mapping[str, Any] | None, thought: str | None = None) -> None:
        self.tool, self.thought = tool, thought
        self.arguments: Mapping[str, Any] = {} if arguments is None else arguments
        self.text = as_text(self.arguments)
        self.started = time.perf_counter()
        self.pending: Pending | None = None


class Instance:
    """A live, isolated, resettable copy of an environment. Calls on one instance run one after another."""

    def __init__(
        self,
        hosting: Hosting,
        workers: Workers,
        *,
        task: Task | None,
        seed: int,
        image: bytes,
        revision: str | None,
    ) -> None:
        self.environment = hosting.environment
        self.task = task
        self.seed = seed
        self.tier = hosting.tier
        self.revision = revision
        self.is_ended = False
        self.answer: str | None = None
        self._residence = Residence(hosting, workers, seed=seed, image=image)

        self._lock = asyncio.Lock()

        self._steps: list[Step] = []
        self._state_version = 0
        self._coercions: list[dict[str, Any]] = []

    def __repr__(self) -> str:
        task = f", task {self.task.slug}" if self.task else ""
        state = "closed" if self.is_closed else "ended" if self.is_ended else f"{len(self._steps)} steps"
        return f"<Instance of {self.environment.id}{task}, {self.tier}, {state}>"

    @property
    def is_closed(self) -> bool:
        """Whether it has been freed, or could not be rebuilt."""
        return self._residence.is_closed

    @property
    def worker_id(self) -> int:
        """Equal for instances that share a worker."""
        return id(self._residence.worker)

    @property
    def steps(self) -> tuple[Step, ...]:
        """What has been called since the last reset, with the results."""
        return tuple(self._steps)

    def list_tools(self) -> tuple[ToolSpec, ...]:
        """The toolset."""
        return self.environment.tools

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any] | None = None, *, thought: str | None = None
    ) -> ToolResult:
        """Call a tool. Whatever goes wrong with the call is in the result, never an exception.

        A cancelled caller does not break the call: it ends in the background and is part of the episode.

        Raises:
            EpisodeError: the instance is closed or its episode has ended.
        """
        call = Call(name, arguments, thought)
        return await self._alone(lambda: self._carry_out(call))

    async def _alone(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Do some work while nothing else happens to the instance.

        When the caller is cancelled, the work is taken up again in the background: it has to go on from where it was.
        """
        if self._lock.locked():  # in a task of its own, a call keeps its place even when its caller is cancelled
            return await unbroken(self._rest(work, is_mine=False))
        is_mine = False
        try:
            is_mine = await self._lock.acquire()
            done = await work()
        except asyncio.CancelledError:
            asyncio.ensure_future(self._rest(work, is_mine)).add_done_callback(_heard)
            raise
        except BaseException:
            self._lock.release()
            raise
        self._lock.release()
        return done

    async def _rest(self, work: Callable[[], Coroutine[Any, Any, T]], is_mine: bool) -> T:
        """What is left of some work, in possession of the lock or not yet."""
        if not is_mine:
            await self._lock.acquire()
        try:
            return await work()
        finally:
            self._lock.release()

    def _record(self, name: str, arguments: Mapping[str, Any], thought: str | None, result: ToolResult) -> ToolResult:
        version = self._state_version
        step = Step(tool=name, arguments=arguments, result=result, state_version=version, thought=thought)
        self._steps.append(step)
        return result

    async def reset(self) -> None:
        """Back to the task's initial state: database, clock, randomness and steps."""
        async with self._lock:
            self._check_open()
            self._steps, self._state_version, self._coercions = [], 0, []
            self.answer, self.is_ended = None, False
            await self._residence.begin()

    async def snapshot(self) -> Snapshot:
        """The whole state, to be restored later."""
        async with self._lock:
            self._check_open()
            image = await self._residence.export()
            return Snapshot(
                environment_hash=self.environment.content_hash,
                task_id=self.task.id if self.task else None,
                delta=pages.delta(self._residence.initial, image),
                calls_count=self._residence.calls_count,
                state_version=self._state_version,
                steps=self.steps,
            )

    async def restore(self, snapshot: Snapshot) -> None:
        """Go back to a snapshot of this environment and task.

        Raises:
            UsageError: the snapshot belongs to another environment or task.
        """
        if not isinstance(snapshot, Snapshot):
            raise UsageError(f"restore takes a Snapshot, not {type(snapshot).__name__}", next_step="use snapshot()")
        async with self._lock:
            self._check_open()
            task_id = self.task.id if self.task else None
            if (snapshot.environment_hash, snapshot.task_id) != (self.environment.content_hash, task_id):
                raise UsageError(
                    "this snapshot belongs to another environment or task", next_step="restore it where it was taken"
                )
            image = pages.apply(self._residence.initial, snapshot.delta)
            self._steps, self._state_version = list(snapshot.steps), snapshot.state_version
            self.answer, self.is_ended = None, False
            await self._residence.begin(image, snapshot.calls_count)

    async def fork(self) -> "Instance":
        """A second instance in the same state; from here on the two are independent."""
        snapshot = await self.snapshot()
        home = self._residence
        twin = Instance(
            home.hosting, home.workers, task=self.task, seed=self.seed, image=home.initial, revision=self.revision
        )
        try:
            await twin.restore(snapshot)
        except BaseException:
            await twin.close()
            raise
        return twin

    async def image(self) -> bytes:
        """The current database, as an untrusted SQLite image."""
        async with self._lock:
            self._check_open()
            return await self._residence.export()

    async def diff(self) -> StateDiff:
        """Rows that differ from the initial state."""
        image = await self.image()
        return await jobs.state_diff(self._residence.initial, image, trust_remote_code=self.tier == "process")

    async def submit(self, answer: str | None = None) -> None:
        """End the episode with the agent's final message.

        Raises:
            EpisodeError: the episode has ended already.
        """
        if not isinstance(answer, str | None):
            raise UsageError(f"an answer is a text, not {type(answer).__name__}", next_step="submit(str(…))")
        async with self._lock:
            self._check_open()
            if self.is_ended:
                raise EpisodeError("this episode has ended already", next_step="reset() starts another one")
            # a lone surrogate has no UTF-8 form; what a model wrote is still judged
            self.answer = None if answer is None else answer.encode("utf-8", "replace").decode()
            self.is_ended = True

    async def trajectory(self) -> Trajectory:
        """The record of this episode so far."""
        async with self._lock:
            self._check_open()
            image = await self._residence.export()
            options = {**self._residence.hosting.options.to_dict(), "limits": self._residence.hosting.limits.to_dict()}
            if self._coercions:
                options["coercions"] = list(self._coercions)
            return Trajectory(
                environment_id=self.environment.id,
                environment_hash=self.environment.content_hash,
                revision=self.revision,
                task_id=self.task.id if self.task else None,
                seed=self.seed,
                tier=self.tier,
                options=options,
                clock=self.environment.clock.isoformat(),
                steps=self.steps,
                answer=self.answer,
                termination="answered" if self.is_ended else "stopped",
                database_delta=pages.delta(self._residence.initial, image),
                calls_count=self._residence.calls_count,
                environment=self.environment,
            )

    async def close(self) -> None:
        """Free the instance. Closing twice is fine."""
        async with self._lock:
            await self._residence.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def _check_open(self) -> None:
        if self.is_closed:
            raise EpisodeError(
                f"this instance is closed{self._residence.defect}", next_step="launch() makes another one"
            )

    def check_running(self) -> None:
        """See that a tool can be called.

        Raises:
            EpisodeError: the instance is closed or its episode has ended.
        """
        self._check_open()
        if self.is_ended:
            raise EpisodeError("this episode has ended", next_step="reset() starts another one")

    async def _carry_out(self, call: Call) -> ToolResult:
        """Make a call and record it; taken up again, it goes on waiting for the answer."""
        self.check_running()
        return self._record(call.tool, call.arguments, call.thought, await self._perform(call))

    async def _perform(self, call: Call) -> ToolResult:
        if isinstance(call.text, ToolResult):
            return call.text
        try:
            found = await self._answer_to(call, call.text)
        except LimitError as error:
            return ToolResult(type="invalid_call", code="invalid_arguments", message=error.message)
        except WorkerError as error:
            return replace(self._lost_call(error), seconds=time.perf_counter() - call.started)
        except OperationError as error:
            self._residence.abandon()
            return ToolResult(type="fault", code=error.kind, message=error.message)
        except SandboxError as error:
            return self._lost_call(self._residence.give_up(error))
        return self._take(found, call.tool, call.text)

    async def _answer_to(self, call: Call, text: str) -> Any:
        """The worker's answer, from whatever process holds the instance by then."""
        while True:
            try:
                if call.pending is None:
                    await self._residence.settle()
                    await self._residence.live()
                    call.pending = self._residence.send_call(call.tool, text)
                return await call.pending
            except WorkerError as error:
                call.pending = None
                if error.reason != "gone":
                    raise

    def _lost_call(self, error: WorkerError) -> ToolResult:
        """The fault that a call is whose process did not live to answer it."""
        self._residence.calls_count += 1
        self._state_version += 1
        code = "deadline" if error.reason == "deadline" else "worker_died"
        return ToolResult(type="fault", code=code, message=error.message)

    def _take(self, found: Any, name: str, text: str) -> ToolResult:
        """Turn a worker's untrusted answer into a result, and note what it did to the state."""
        if not answers.is_call_answer(found):
            self._residence.abandon()
            return ToolResult(type="fault", code="protocol", message="the worker gave no answer to a call")
        self._residence.remember(found, name, text)
        self._state_version += found["changed"]
        if found["coerced"]:
            self._coercions.append({"step": len(self._steps), "coerced": list(found["coerced"])})
        try:
            value = None if found["value"] is None else from_json(found["value"], "the result")
        except RecordError as error:
            return ToolResult(type="fault", code="output_limit", message=error.message)
        return ToolResult(
            type=found["type"],
            value=value,
            code=found["code"],
            message=found["message"],
            seconds=found["seconds"],
        )


def _heard(work: "asyncio.Future[Any]") -> None:
    """Nobody waits for this any more: nor will anybody ask how it failed."""
    if not work.cancelled():
        work.exception()


def as_text(arguments: Any) -> str | ToolResult:
    """The arguments as JSON, or why they have no such form."""
    try:
        text = to_json(arguments)
    except RecordError as error:
        return ToolResult(type="invalid_call", code="invalid_arguments", message=error.message)
    if not isinstance(arguments, Mapping):
        return ToolResult(type="invalid_call", code="invalid_arguments", message="arguments are an object")
    return text

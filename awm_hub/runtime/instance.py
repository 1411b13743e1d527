"""A live environment: a private database and the environment's code, behind ten verbs.

This is the async core; `awm_hub.launch` gives the same verbs synchronously. An instance survives the death of the
process that hosts it: the failing call is a fault, and the instance is rebuilt from its last known state and the
calls since.
"""

import asyncio
import contextlib
import hashlib
import time
import uuid
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Any, Self, TypeVar

from awm_hub.canonical import from_json, to_json
from awm_hub.environment import Task, ToolSpec
from awm_hub.errors import EpisodeError, RecordError, SandboxError, UsageError, WorkerError
from awm_hub.runtime import answers, builds, jobs, pages
from awm_hub.runtime.processes import OperationError, Pending
from awm_hub.runtime.states import LoggedCall, Snapshot
from awm_hub.runtime.workers import Hosting, Worker, Workers
from awm_hub.trajectory import StateDiff, Step, ToolResult, Trajectory

T = TypeVar("T")
_LOGGED_CALLS = 64
"""Calls to repeat at most when an instance is rebuilt; then its state is fetched and kept instead."""
_REBUILDS = 5
"""Attempts to rebuild an instance in one process after another."""


class _Call:
    """A call under way."""

    def __init__(self, tool: str, arguments: Mapping[str, Any] | None, thought: str | None = None) -> None:
        self.tool, self.thought = tool, thought
        self.arguments: Mapping[str, Any] = {} if arguments is None else arguments
        self.text = _as_text(self.arguments)
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
        self.is_closed = False
        self.is_ended = False
        self.answer: str | None = None
        self._hosting = hosting
        self._workers = workers
        self._worker: Worker = workers.take(hosting)
        self._name = uuid.uuid4().hex
        self._lock = asyncio.Lock()
        self._initial = image
        self._image_key = hashlib.sha256(image).hexdigest()
        self._base = (image, 0)
        self._log: list[LoggedCall] = []
        self._steps: list[Step] = []
        self._calls_count = self._state_version = 0
        self._generation = -1
        self._coercions: list[dict[str, Any]] = []
        self._defect = ""
        """Why it could not be rebuilt."""

    def __repr__(self) -> str:
        task = f", task {self.task.slug}" if self.task else ""
        state = "closed" if self.is_closed else "ended" if self.is_ended else f"{len(self._steps)} steps"
        return f"<Instance of {self.environment.id}{task}, {self.tier}, {state}>"

    @property
    def worker_id(self) -> int:
        """Equal for instances that share a worker."""
        return id(self._worker)

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
        call = _Call(name, arguments, thought)
        return await self._alone(lambda: self._carry_out(call))

    async def _alone(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Do some work while nothing else happens to the instance.

        When the caller is cancelled, the work is taken up again in the background: it has to go on from where it was.
        """
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

    async def _rest(self, work: Callable[[], Coroutine[Any, Any, Any]], is_mine: bool) -> None:
        """What is left of some work, in possession of the lock or not yet."""
        if not is_mine:
            await self._lock.acquire()
        try:
            await work()
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
            self._base, self._log, self._steps = (self._initial, 0), [], []
            self._calls_count = self._state_version = 0
            self._coercions, self.answer, self.is_ended = [], None, False
            await self._begin_anew()

    async def snapshot(self) -> Snapshot:
        """The whole state, to be restored later."""
        async with self._lock:
            self._check_open()
            image = await self._export()
            return Snapshot(
                environment_hash=self.environment.content_hash,
                task_id=self.task.id if self.task else None,
                delta=pages.delta(self._initial, image),
                calls_count=self._calls_count,
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
            self._base = (pages.apply(self._initial, snapshot.delta), snapshot.calls_count)
            self._log, self._steps = [], list(snapshot.steps)
            self._calls_count, self._state_version = snapshot.calls_count, snapshot.state_version
            self.answer, self.is_ended = None, False
            await self._begin_anew()

    async def fork(self) -> "Instance":
        """A second instance in the same state; from here on the two are independent."""
        snapshot = await self.snapshot()
        twin = Instance(
            self._hosting, self._workers, task=self.task, seed=self.seed, image=self._initial, revision=self.revision
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
            return await self._export()

    async def diff(self) -> StateDiff:
        """Rows that differ from the initial state."""
        image = await self.image()
        return await jobs.state_diff(self._initial, image, trust_remote_code=self.tier == "process")

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
            image = await self._export()
            options = {**self._hosting.options.to_dict(), "limits": self._hosting.limits.to_dict()}
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
                database_delta=pages.delta(self._initial, image),
                calls_count=self._calls_count,
                environment=self.environment,
            )

    async def close(self) -> None:
        """Free the instance. Closing twice is fine."""
        async with self._lock:
            if self.is_closed:
                return
            self.is_closed = True
            try:
                if self._generation == self._worker.generation:
                    await self._worker.request("close", instance=self._name)
            except (WorkerError, OperationError):
                pass
            finally:
                self._workers.give_back(self._worker)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def _check_open(self) -> None:
        if self.is_closed:
            raise EpisodeError(f"this instance is closed{self._defect}", next_step="launch() makes another one")

    def check_running(self) -> None:
        """See that a tool can be called.

        Raises:
            EpisodeError: the instance is closed or its episode has ended.
        """
        self._check_open()
        if self.is_ended:
            raise EpisodeError("this episode has ended", next_step="reset() starts another one")

    async def _carry_out(self, call: _Call) -> ToolResult:
        """Make a call and record it; taken up again, it goes on waiting for the answer."""
        self.check_running()
        return self._record(call.tool, call.arguments, call.thought, await self._call(call))

    async def _call(self, call: _Call) -> ToolResult:
        if isinstance(call.text, ToolResult):
            return call.text
        try:
            found = await self._answer_to(call, call.text)
        except WorkerError as error:
            return replace(self._lost_call(error), seconds=time.perf_counter() - call.started)
        except OperationError as error:
            self._generation = -1
            return ToolResult(type="fault", code=error.kind, message=error.message)
        except SandboxError as error:
            return self._lost_call(self._beyond_repair(error))
        return self._take(found, call.tool, call.text)

    async def _answer_to(self, call: _Call, text: str) -> Any:
        """The worker's answer, from whatever process holds the instance by then."""
        while True:
            try:
                if call.pending is None:
                    await self._settle()
                    await self._live()
                    call.pending = self._worker.send("call", **self._call_fields(call.tool, text))
                return await call.pending
            except WorkerError as error:
                call.pending = None
                if error.reason != "gone":
                    raise

    async def _settle(self) -> None:
        """Keep the state instead of the calls that led to it, when there are many."""
        if len(self._log) >= _LOGGED_CALLS:
            with contextlib.suppress(WorkerError):  # the log still leads there
                self._base, self._log = (await self._export(), self._calls_count), []

    def _call_fields(self, name: str, text: str) -> dict[str, Any]:
        return {
            "timeout_s": self._hosting.limits.call_hard_s,
            "instance": self._name,
            "tool": name,
            "arguments": text,
            "calls_count": self._calls_count + 1,
        }

    def _lost_call(self, error: WorkerError) -> ToolResult:
        """The fault that a call is whose process did not live to answer it."""
        self._calls_count += 1
        self._state_version += 1
        code = "deadline" if error.reason == "deadline" else "worker_died"
        return ToolResult(type="fault", code=code, message=error.message)

    def _take(self, found: Any, name: str, text: str) -> ToolResult:
        """Turn a worker's untrusted answer into a result, and note what it did to the state."""
        if not answers.is_call_answer(found):
            self._generation = -1
            return ToolResult(type="fault", code="protocol", message="the worker gave no answer to a call")
        if found["type"] != "invalid_call" or found["changed"]:
            self._calls_count += 1
        if found["changed"]:
            self._state_version += 1
            self._remember(found, name, text)
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

    def _remember(self, found: dict[str, Any], name: str, text: str) -> None:
        """Keep what rebuilds the state: the call, or the state itself where the call cannot be repeated."""
        if found["image"] is not None:
            self._base, self._log = (found["image"], self._calls_count), []
        else:
            ending = (found["type"], found["code"])
            self._log.append(LoggedCall(calls_count=self._calls_count, tool=name, arguments=text, ending=ending))

    async def _request(self, op: str, **fields: Any) -> Any:
        """One request about this instance, in whatever process holds it by then."""
        while True:
            await self._live()
            try:
                return await self._worker.request(op, **fields)
            except WorkerError as error:
                if error.reason != "gone":
                    raise

    async def _ask(self, op: str, **fields: Any) -> Any:
        """One request that changes nothing, and is made again when the process dies meanwhile."""
        for _ in range(_REBUILDS - 1):
            try:
                return await self._request(op, **fields)
            except WorkerError as error:
                if error.reason != "died" or self.is_closed:
                    raise
        return await self._request(op, **fields)

    async def _begin_anew(self) -> None:
        """Go on from the base state; what code keeps outside its database ends with its process."""
        if self._generation >= 0 and self._hosting.has_hidden_state:
            self._worker.stop()
        self._generation = -1
        await self._live()

    async def _live(self) -> None:
        """See that the current process holds this instance in its current state."""
        if self.is_closed:
            raise WorkerError(f"this instance is closed{self._defect}")
        attempts = 0
        while await self._worker.ready() != self._generation:
            try:
                await self._rebuild()
            except WorkerError as error:
                attempts += error.reason != "gone"
                if attempts >= _REBUILDS:
                    raise self._beyond_repair(error) from error
            except OperationError as error:
                raise self._beyond_repair(error) from error

    def _beyond_repair(self, error: Exception) -> WorkerError:
        if not self.is_closed:
            self.is_closed = True
            self._defect = f": it could not be rebuilt: {error}"
            self._workers.give_back(self._worker)
        return WorkerError(f"this instance is closed{self._defect}", next_step="launch another one")

    async def _rebuild(self) -> None:
        """Put the instance into the current process: from its base state, repeating the calls since."""
        image, calls_count = self._base
        generation = await self._worker.ready()
        await self._worker.keep_image(self._image_key, self._initial)
        await self._worker.request(
            "create",
            instance=self._name,
            key=self._image_key,
            image=None if image is self._initial else image,
            seed=self.seed,
            calls_count=calls_count,
        )
        for call in self._log:
            await self._repeat(call)
        self._generation = generation

    async def _repeat(self, call: LoggedCall) -> None:
        found = await self._worker.request(
            "call",
            instance=self._name,
            tool=call.tool,
            arguments=call.arguments,
            calls_count=call.calls_count,
            is_repeated=True,
        )
        if not answers.is_call_answer(found) or (found["type"], found["code"]) != call.ending:
            raise WorkerError(f"repeating {call.tool} ended in another way than before", reason="protocol")

    async def _export(self) -> bytes:
        try:
            found = await self._ask("export", instance=self._name)
        except OperationError as error:
            raise WorkerError(f"the database cannot be exported: {error}") from error
        try:
            return builds.image_of(found)
        except (KeyError, TypeError, ValueError) as error:
            raise WorkerError("the worker exported no database", reason="protocol") from error


def _heard(work: "asyncio.Future[Any]") -> None:
    """Nobody waits for this any more: nor will anybody ask how it failed."""
    if not work.cancelled():
        work.exception()


def _as_text(arguments: Any) -> str | ToolResult:
    """The arguments as JSON, or why they have no such form."""
    try:
        text = to_json(arguments)
    except RecordError as error:
        return ToolResult(type="invalid_call", code="invalid_arguments", message=error.message)
    if not isinstance(arguments, Mapping):
        return ToolResult(type="invalid_call", code="invalid_arguments", message="arguments are an object")
    return text

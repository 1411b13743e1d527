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
from collections.abc import Coroutine, Generator, Mapping
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Self

from awm_hub.canonical import from_json, to_json
from awm_hub.environment import Environment, Task, ToolSpec
from awm_hub.errors import EpisodeError, RecordError, SandboxError, UsageError, WorkerError
from awm_hub.runtime import builds, jobs, pages
from awm_hub.runtime.limits import Limits, Options
from awm_hub.runtime.processes import OperationError, unbroken
from awm_hub.runtime.tiers import choose_tier
from awm_hub.runtime.workers import Hosting, Worker, Workers, current_workers
from awm_hub.trajectory import RESULT_TYPES, StateDiff, Step, ToolResult, Trajectory

_LOGGED_CALLS = 64
"""Calls to repeat at most when an instance is rebuilt; then its state is fetched and kept instead."""
_REBUILDS = 5
"""Attempts to rebuild an instance in one process after another."""


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """An instance's whole state at one moment: database, clock and randomness, and the steps that led there."""

    environment_hash: str
    task_id: str | None
    delta: str = field(repr=False)
    """Database against the task's initial image: `awm_hub.runtime.pages`."""
    calls_count: int
    state_version: int
    steps: tuple[Step, ...] = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class _LoggedCall:
    """A call that changed the database, to be repeated when the instance is rebuilt."""

    calls_count: int
    tool: str
    arguments: str
    ending: tuple[str, str | None]
    """Type and code of the result, which repeating it must give again."""


class Launching:
    """A launch under way: `await` it for the instance, or use it in `async with`, which closes the instance."""

    def __init__(self, work: Coroutine[Any, Any, "Instance"]) -> None:
        self._work = work
        self._instance: Instance | None = None

    def __await__(self) -> Generator[Any, None, "Instance"]:
        return self._work.__await__()

    async def __aenter__(self) -> "Instance":
        self._instance = await self._work
        return self._instance

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._instance is not None:
            await self._instance.close()


def launch(
    environment: Environment,
    *,
    task: str | None = None,
    seed: int = 0,
    trust_remote_code: bool = False,
    limits: Limits | None = None,
    options: Options | None = None,
    revision: str | None = None,
    workers: Workers | None = None,
) -> Launching:
    """Make an environment live.

    Args:
        environment: The environment.
        task: Id or last part of the id of one of its tasks; its setup statements are applied.
        seed: Seeds Python's and SQL's randomness.
        trust_remote_code: Run without a seal where this machine cannot seal a process.
        limits: What calls may use.
        options: Deviations from strict behaviour, recorded in the trajectory.
        revision: Dataset revision to record in the trajectory.
        workers: Where to host it; default: the workers of the running loop.

    Raises:
        UsageError: an argument is not what it should be.
        UnknownNameError: there is no such task.
        CapacityError: the workers have no room.
        SealError: this machine cannot seal, and the code is not trusted.
        LoadError: the code does not load, or a setup statement fails.
    """
    _check_arguments(environment, task, seed)
    limits, options = limits or Limits(), options or Options()
    return Launching(_launch(environment, task, seed, trust_remote_code, limits, options, revision, workers))


def _check_arguments(environment: Any, task: Any, seed: Any) -> None:
    if not isinstance(environment, Environment):
        raise UsageError(
            f"launch takes an Environment, not {type(environment).__name__}", next_step="awm_hub.load()['an id']"
        )
    if not isinstance(task, str | None):
        raise UsageError(f"a task is named by its id, not by a {type(task).__name__}", next_step="task=task.id")
    if not isinstance(seed, int) or not -(2**63) <= seed < 2**63:
        raise UsageError(f"the seed {seed!r} is not an integer of 64 bits", next_step="choose a smaller one")


async def _launch(
    environment: Environment,
    task: str | None,
    seed: int,
    trust_remote_code: bool,
    limits: Limits,
    options: Options,
    revision: str | None,
    workers: Workers | None,
) -> "Instance":
    chosen = environment.task(task) if task is not None else None
    tier = await choose_tier(options.tier, trust_remote_code=trust_remote_code, environment=environment)
    image = environment.database
    if chosen is not None and chosen.setup:
        image = await jobs.prepare_image(image, chosen.setup, environment.clock, trust_remote_code=tier == "process")
    hosting = Hosting(environment=environment, limits=limits, options=options, tier=tier)
    hosts = workers if workers is not None else current_workers()
    instance = Instance(hosting, hosts, task=chosen, seed=seed, image=image, revision=revision)
    try:
        await instance.reset()
    except BaseException:
        await instance.close()
        raise
    return instance


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
        self._log: list[_LoggedCall] = []
        self._steps: tuple[Step, ...] = ()
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
        return self._steps

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
        return await unbroken(self._call_and_record(name, arguments or {}, thought))

    async def _call_and_record(self, name: str, arguments: Mapping[str, Any], thought: str | None) -> ToolResult:
        async with self._lock:
            self.check_running()
            return self._record(name, arguments, thought, await self._call(name, arguments))

    def _record(self, name: str, arguments: Mapping[str, Any], thought: str | None, result: ToolResult) -> ToolResult:
        version = self._state_version
        step = Step(tool=name, arguments=arguments, result=result, state_version=version, thought=thought)
        self._steps = (*self._steps, step)
        return result

    async def reset(self) -> None:
        """Back to the task's initial state: database, clock, randomness and steps."""
        async with self._lock:
            self._check_open()
            self._base, self._log, self._steps = (self._initial, 0), [], ()
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
                steps=self._steps,
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
            self._log, self._steps = [], snapshot.steps
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
                steps=self._steps,
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

    async def _call(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        text = _as_text(arguments)
        if isinstance(text, ToolResult):
            return text
        started = time.perf_counter()
        try:
            limit = self._hosting.limits.call_hard_s
            found = await self._request("call", timeout_s=limit, **self._call_fields(name, text))
        except WorkerError as error:
            return replace(self._lost_call(error), seconds=time.perf_counter() - started)
        except OperationError as error:
            self._generation = -1
            return ToolResult(type="fault", code=error.kind, message=error.message)
        except SandboxError as error:
            return self._lost_call(self._beyond_repair(error))
        result = self._take(found, name, text)
        await self._settle()
        return result

    async def _settle(self) -> None:
        """Keep the state instead of the calls that led to it, when there are many."""
        if len(self._log) >= _LOGGED_CALLS:
            with contextlib.suppress(WorkerError):  # the log still leads there
                self._base, self._log = (await self._export(), self._calls_count), []

    def _call_fields(self, name: str, text: str) -> dict[str, Any]:
        count = self._calls_count + 1
        return {"instance": self._name, "tool": name, "arguments": text, "calls_count": count}

    def _lost_call(self, error: WorkerError) -> ToolResult:
        """The fault that a call is whose process did not live to answer it."""
        self._calls_count += 1
        self._state_version += 1
        code = "deadline" if error.reason == "deadline" else "worker_died"
        return ToolResult(type="fault", code=code, message=error.message)

    def _take(self, found: Any, name: str, text: str) -> ToolResult:
        """Turn a worker's untrusted answer into a result, and note what it did to the state."""
        if not _is_answer(found):
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
            self._log.append(_LoggedCall(calls_count=self._calls_count, tool=name, arguments=text, ending=ending))

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

    async def _repeat(self, call: _LoggedCall) -> None:
        found = await self._worker.request(
            "call",
            instance=self._name,
            tool=call.tool,
            arguments=call.arguments,
            calls_count=call.calls_count,
            is_repeated=True,
        )
        if not _is_answer(found) or (found["type"], found["code"]) != call.ending:
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


def _is_answer(found: Any) -> bool:
    """Whether what a worker sent is an answer to a call at all: code of the row ran there."""
    return (
        isinstance(found, dict)
        and found.get("type") in RESULT_TYPES
        and isinstance(found.get("value"), str | None)
        and isinstance(found.get("code"), str | None)
        and isinstance(found.get("message"), str)
        and isinstance(found.get("changed"), bool)
        and isinstance(found.get("coerced"), list)
        and isinstance(found.get("seconds"), float)
        and (found.get("image") is None or builds.is_image(found["image"]))
    )


def _as_text(arguments: Any) -> str | ToolResult:
    """The arguments as JSON, or why they have no such form."""
    try:
        text = to_json(arguments)
    except RecordError as error:
        return ToolResult(type="invalid_call", code="invalid_arguments", message=error.message)
    if not isinstance(arguments, Mapping):
        return ToolResult(type="invalid_call", code="invalid_arguments", message="arguments are an object")
    return text

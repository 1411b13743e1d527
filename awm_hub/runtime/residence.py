"""Where an instance lives: in a process of its worker, and in the next one when that dies.

What the state can be rebuilt from is kept here: a base image with its number of calls, and the calls since that changed
something. A request that finds its process gone was never begun, and goes to the next one. What cannot be rebuilt is
given up, once and for all.
"""

import contextlib
import hashlib
import uuid
from typing import Any

from awm_hub.errors import WorkerError
from awm_hub.runtime import answers, builds
from awm_hub.runtime.processes import OperationError, Pending
from awm_hub.runtime.states import LoggedCall
from awm_hub.runtime.workers import Hosting, Worker, Workers

_LOGGED_CALLS = 64
"""Calls to repeat at most when an instance is rebuilt; then its state is fetched and kept instead."""
_REBUILDS = 5
"""Attempts to rebuild an instance in one process after another."""


class Residence:
    """One instance's place among the workers."""

    def __init__(self, hosting: Hosting, workers: Workers, *, seed: int, image: bytes) -> None:
        self.hosting = hosting
        self.workers = workers
        self.worker: Worker = workers.take(hosting)
        self.name = uuid.uuid4().hex
        self.initial = image
        self.calls_count = 0
        """Calls dispatched to code."""
        self.log: list[LoggedCall] = []
        """Calls since the base state that changed something."""
        self.is_closed = False
        self.defect = ""
        """Why it could not be rebuilt."""
        self._seed = seed
        self._image_key = hashlib.sha256(image).hexdigest()
        self._base = (image, 0)
        self._generation = -1

    async def begin(self, image: bytes | None = None, calls_count: int = 0) -> None:
        """Go on from a state, or from the initial one; what code keeps outside its database ends with its process."""
        self.keep(self.initial if image is None else image, calls_count)
        if self._generation >= 0 and self.hosting.has_hidden_state:
            self.worker.stop()
        self.abandon()
        await self.live()

    def keep(self, image: bytes, calls_count: int) -> None:
        """Take this for the state after so many calls."""
        self._base, self.log, self.calls_count = (image, calls_count), [], calls_count

    def abandon(self) -> None:
        """Believe nothing of the process any more: the instance is rebuilt on its next use."""
        self._generation = -1

    async def live(self) -> None:
        """See that the current process holds the instance in its current state.

        Raises:
            WorkerError: it is closed, cannot be rebuilt and is closed now, or no process could be started.
            LoadError: the code does not load.
        """
        if self.is_closed:
            raise WorkerError(f"this instance is closed{self.defect}")
        attempts = 0
        while await self.worker.ready() != self._generation:
            try:
                await self._rebuild()
            except WorkerError as error:
                attempts += error.reason != "gone"
                if attempts >= _REBUILDS:
                    raise self.give_up(error) from error
            except OperationError as error:
                raise self.give_up(error) from error

    def give_up(self, error: Exception) -> WorkerError:
        """Close what cannot be rebuilt; the error that says so."""
        if not self.is_closed:
            self.is_closed = True
            self.defect = f": it could not be rebuilt: {error}"
            self.workers.give_back(self.worker)
        return WorkerError(f"this instance is closed{self.defect}", next_step="launch another one")

    async def close(self) -> None:
        """Leave. Closing twice is fine."""
        if self.is_closed:
            return
        self.is_closed = True
        try:
            if self._generation == self.worker.generation:
                await self.worker.request("close", instance=self.name)
        except (WorkerError, OperationError):
            pass
        finally:
            self.workers.give_back(self.worker)

    def send_call(self, tool: str, arguments: str) -> Pending:
        """Send a call, `arguments` as JSON; `live` comes first.

        Raises:
            WorkerError: the process is gone.
        """
        return self.worker.send(
            "call",
            timeout_s=self.hosting.limits.call_hard_s,
            instance=self.name,
            tool=tool,
            arguments=arguments,
            calls_count=self.calls_count + 1,
        )

    def remember(self, found: dict[str, Any], tool: str, arguments: str) -> None:
        """Note what a call's answer says of the state, by which the state is rebuilt."""
        if found["type"] != "invalid_call" or found["changed"]:
            self.calls_count += 1
        if not found["changed"]:
            return
        if found["image"] is not None:
            self.keep(found["image"], self.calls_count)
        else:
            ending = (found["type"], found["code"])
            self.log.append(LoggedCall(calls_count=self.calls_count, tool=tool, arguments=arguments, ending=ending))

    async def settle(self) -> None:
        """Keep the state instead of the calls that led to it, when there are many."""
        if len(self.log) >= _LOGGED_CALLS:
            with contextlib.suppress(WorkerError):  # the log still leads there
                self.keep(await self.export(), self.calls_count)

    async def export(self) -> bytes:
        """The current database, as an untrusted SQLite image.

        Raises:
            WorkerError: there is none to be had.
        """
        try:
            found = await self._ask("export", instance=self.name)
        except OperationError as error:
            raise WorkerError(f"the database cannot be exported: {error}") from error
        try:
            return builds.image_of(found)
        except (KeyError, TypeError, ValueError) as error:
            raise WorkerError("the worker exported no database", reason="protocol") from error

    async def _ask(self, op: str, **fields: Any) -> Any:
        """One request that changes nothing, and is made again when the process dies meanwhile."""
        attempts = 0
        while True:
            await self.live()
            try:
                return await self.worker.request(op, **fields)
            except WorkerError as error:
                attempts += error.reason == "died"
                if error.reason not in ("died", "gone") or attempts >= _REBUILDS:
                    raise

    async def _rebuild(self) -> None:
        """Put the instance into the current process: from its base state, repeating the calls since."""
        image, calls_count = self._base
        generation = await self.worker.ready()
        await self.worker.keep_image(self._image_key, self.initial)
        await self.worker.request(
            "create",
            instance=self.name,
            key=self._image_key,
            image=None if image is self.initial else image,
            seed=self._seed,
            calls_count=calls_count,
        )
        for call in self.log:
            await self._repeat(call)
        self._generation = generation

    async def _repeat(self, call: LoggedCall) -> None:
        found = await self.worker.request(
            "call",
            instance=self.name,
            tool=call.tool,
            arguments=call.arguments,
            calls_count=call.calls_count,
            is_repeated=True,
        )
        if not answers.is_call_answer(found) or (found["type"], found["code"]) != call.ending:
            raise WorkerError(f"repeating {call.tool} ended in another way than before", reason="protocol")

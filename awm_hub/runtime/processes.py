"""Sandboxed processes as the host sees them: one zygote per host process, and the workers it forks.

The host talks to a worker over one socket pair, a request at a time. A worker that dies, answers nonsense or overruns
its deadline is killed and reported as a `WorkerError`; nothing ever waits without a limit. When the host ends, by
whatever signal, its sockets close: the zygote ends, and the kernel ends the workers with it.
"""

import asyncio
import atexit
import contextlib
import errno
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import awm_hub
from awm_hub.errors import LimitError, SandboxError, SealError, WorkerError
from awm_hub.runtime import answers
from awm_hub.sandbox import frames, seal

T = TypeVar("T")
_STARTUP_S = 60.0
_SPAWN_S = 20.0
_UNASKED_BYTES = 64 * 2**10
_BOOT = """
import sys
sys.path.insert(0, sys.argv[2])
import awm_hub
sys.path.append(sys.path.pop(0))
from awm_hub.sandbox.zygote import main
main(int(sys.argv[1]))
"""
_CLEAN_ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "PYTHONHASHSEED": "0", "TZ": "UTC"}


class Zygote:
    """The process that forks workers. Thread-safe; started on first use, restarted when it has died."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._pid = os.getpid()
        self.seals: bool | None = None
        """Whether a process can be sealed here; None before `can_seal` has tried."""

    def spawn(self, *, interface: str, sealed: bool, memory_bytes: int) -> tuple[socket.socket, int]:
        """Fork a worker; the host's end of its socket, and its pid.

        Raises:
            SandboxError: the system has no room for another process or descriptor.
        """
        order = {"interface": interface, "seal": sealed, "memory_bytes": memory_bytes}
        with self._lock:
            try:
                return self._fork(order)
            except (OSError, struct.error) as error:
                # want of descriptors is no reason to end the zygote, and with it every worker
                if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
                    raise _no_room(error) from error
                self._stop()
            try:
                return self._fork(order)
            except (OSError, struct.error) as error:
                self._stop()
                raise _no_room(error) from error

    def can_seal(self) -> bool:
        """Whether a process really could be sealed here; found out once, by doing it."""
        if self.seals is None:
            self.seals = seal.can_seal() and self._probe()
        return self.seals

    def stop(self) -> None:
        """End the zygote, and with it every worker."""
        with self._lock:
            self._stop()

    def _fork(self, order: dict[str, Any]) -> tuple[socket.socket, int]:
        control = self._started()
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                socket.send_fds(control, [json.dumps(order).encode()], [theirs.fileno()])
            (pid,) = struct.unpack("<I", control.recv(4))
        except BaseException:
            ours.close()
            raise
        return ours, pid

    def _started(self) -> socket.socket:
        if self._control is not None and self._process is not None and self._process.poll() is None:
            return self._control
        self._stop()
        ours, theirs = socket.socketpair()
        root = str(Path(awm_hub.__file__).parent.parent)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-sP", "-W", "ignore", "-c", _BOOT, str(theirs.fileno()), root],
                pass_fds=[theirs.fileno()],
                env=_CLEAN_ENVIRONMENT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=None if os.environ.get("AWM_HUB_DEBUG_ZYGOTE") else subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,
            )
        ours.settimeout(_STARTUP_S)
        if ours.recv(1) != b"R":
            raise SandboxError("the sandbox did not start", next_step="set AWM_HUB_DEBUG_ZYGOTE=1 and look at stderr")
        ours.settimeout(_SPAWN_S)
        self._control = ours
        return ours

    def _stop(self) -> None:
        if self._control is not None:
            self._control.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._control = self._process = None

    def _probe(self) -> bool:
        ours, _ = self.spawn(interface="functions", sealed=True, memory_bytes=2**31)
        with ours:
            ours.settimeout(_SPAWN_S)
            try:
                return "ok" in frames.receive(ours)
            except (EOFError, OSError):
                return False


_zygote = Zygote()


def zygote() -> Zygote:
    """The zygote of this process; a forked child gets one of its own."""
    global _zygote
    if _zygote._pid != os.getpid():
        _zygote = Zygote()
    return _zygote


atexit.register(lambda: zygote().stop())


class _Channel(asyncio.Protocol):
    """The host's end of a worker's socket: one frame at a time, and none that nobody has asked for."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._expected: asyncio.Future[dict[str, Any]] | None = None
        self._is_lost = self._has_begun = False
        self.on_flood: Callable[[], None] = lambda: None
        """Called when a worker goes on sending without being asked."""
        self.on_loss: Callable[[], None] = lambda: None
        """Called when a worker has closed its end, dead or not."""

    def expect(self) -> "asyncio.Future[dict[str, Any]]":
        """The next frame, once it is here; the first one comes of itself."""
        self._expected = asyncio.get_running_loop().create_future()
        if self._buffer and self._has_begun:
            self._fail(_breach("it sent what nobody had asked for"))
        elif self._is_lost:
            self._fail(WorkerError("the worker has died"))
        else:
            self._look()
        self._has_begun = True
        return self._expected

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._look()
        if len(self._buffer) > _UNASKED_BYTES and (self._expected is None or self._expected.done()):
            self.on_flood()

    def connection_lost(self, _error: Exception | None) -> None:
        self._is_lost = True
        self._fail(WorkerError("the worker has died"))
        self.on_loss()

    def _look(self) -> None:
        if self._expected is None or self._expected.done():
            return
        try:
            message = answers.take(self._buffer)
        except frames.FrameError as error:
            self._fail(_breach(error))
            return
        if message is not None:
            self._expected.set_result(message)

    def _fail(self, error: WorkerError) -> None:
        if self._expected is not None and not self._expected.done():
            self._expected.set_exception(error)


class Process:
    """One sandboxed process: requests go out one at a time."""

    def __init__(self, channel: _Channel, transport: asyncio.Transport, pid: int) -> None:
        self._channel, self._transport = channel, transport
        self._lock = asyncio.Lock()
        self._counter = 0
        self.pid = pid
        self._handle = _pidfd(pid)
        if self._handle is not None:
            self._close_handle = weakref.finalize(self, os.close, self._handle)
            self._close_handle.atexit = False
        self.is_dead = False
        channel.on_flood = channel.on_loss = self.kill
        self._shared_bytes = _anonymous_bytes(pid)

    @classmethod
    async def spawn(cls, *, interface: str, sealed: bool, memory_bytes: int) -> "Process":
        """Fork a worker and see it sealed.

        Raises:
            SealError: the process could not seal itself.
            WorkerError: it died.
        """
        source = zygote()
        ours, pid = await asyncio.to_thread(source.spawn, interface=interface, sealed=sealed, memory_bytes=memory_bytes)
        loop = asyncio.get_running_loop()
        transport, channel = await loop.create_unix_connection(_Channel, sock=ours)
        process = cls(channel, transport, pid)
        first = await process._receive(_SPAWN_S)
        if "error" in first:
            process.kill()
            raise SealError(f"the worker could not seal itself: {first.get('message')}")
        return process

    async def request(self, op: str, *, timeout_s: float, **fields: Any) -> Any:
        """Send one request and await its answer, at most `timeout_s` seconds.

        A caller that is cancelled meanwhile leaves a process that nobody could talk to, so it is killed.

        Raises:
            LimitError: the request is larger than a frame.
            WorkerError: the process died, answered nonsense or overran the time; it is dead now.
            OperationError: the operation itself failed.
        """
        async with self._lock:
            if self.is_dead:
                raise WorkerError("the worker has died", reason="gone")
            self._counter += 1
            try:
                self._transport.write(frames.encode({"op": op, "id": self._counter, **fields}))
            except frames.FrameError as error:
                raise LimitError(str(error)) from error
            answer = await self._receive(timeout_s)
            if answer.get("last"):
                self.kill()
            try:
                return self._outcome(op, answer)
            except ValueError as error:
                self.kill()
                raise _breach(error) from error

    def _outcome(self, op: str, answer: dict[str, Any]) -> Any:
        if type(answer.get("id")) is not int or answer["id"] != self._counter:
            raise ValueError("an answer to something else")
        if failure := answers.failure(answer):
            raise OperationError(*failure)
        return answers.checked(op, answer.get("ok"))

    async def _receive(self, timeout_s: float) -> dict[str, Any]:
        expected = self._channel.expect()
        timer = asyncio.get_running_loop().call_later(timeout_s, _expire, expected, timeout_s)
        try:
            return await expected
        except BaseException:
            self.kill()
            raise
        finally:
            timer.cancel()

    def private_bytes(self) -> int:
        """Memory held beyond what is shared with the zygote; 0 where the system does not tell."""
        return 0 if self.is_dead else max(0, _anonymous_bytes(self.pid) - self._shared_bytes)

    def kill(self) -> None:
        """End the process at once."""
        if self.is_dead:
            return
        self.is_dead = True
        with contextlib.suppress(ProcessLookupError):
            if self._handle is None:
                os.kill(self.pid, signal.SIGKILL)
            else:
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)
        if self._handle is not None:
            self._close_handle()
        with contextlib.suppress(RuntimeError):
            self._transport.abort()


def _no_room(error: Exception) -> SandboxError:
    return SandboxError(f"no process could be started: {error}", next_step="close instances, or raise `ulimit -n -u`")


def _breach(what: object) -> WorkerError:
    return WorkerError(f"the worker broke the protocol and was stopped: {what}", reason="protocol")


def _expire(expected: "asyncio.Future[dict[str, Any]]", timeout_s: float) -> None:
    if not expected.done():
        message = f"the worker gave no answer within {timeout_s:g} s and was stopped"
        expected.set_exception(WorkerError(message, reason="deadline"))


async def unbroken(work: Coroutine[Any, Any, T]) -> T:
    """Await some work that goes on when the caller is cancelled."""
    task = asyncio.ensure_future(work)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return await asyncio.shield(task)


class OperationError(Exception):
    """An operation failed inside the sandbox; `kind` is the exception's name there."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}" if message else kind)
        self.kind, self.message = kind, message


def _anonymous_bytes(pid: int) -> int:
    try:
        _, resident, shared, *_ = Path(f"/proc/{pid}/statm").read_text().split()
    except (OSError, ValueError):
        return 0
    return (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE")


def _pidfd(pid: int) -> int | None:
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None

"""Sandboxed processes as the host sees them: one zygote per host process, and the workers it forks.

The host talks to a worker over one socket pair; requests follow each other without waiting and are answered in
order. A worker that dies, answers nonsense or overruns its deadline is killed and reported as a `WorkerError`; nothing
ever waits without a limit. When the host ends, by whatever signal, its sockets close: the zygote ends, and the kernel
ends the workers with it.
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
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from pathlib import Path
from typing import Any, TypeVar

import awm_hub
from awm_hub.errors import LimitError, SandboxError, SealError, WorkerError
from awm_hub.runtime import answers
from awm_hub.sandbox import frames, seal

T = TypeVar("T")
_STARTS = 3
"""Zygotes that are started at most for one process: one may be killed while it starts."""
_STARTUP_S = 60.0
_SPAWN_S = 20.0
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
            for left in reversed(range(_STARTS)):
                try:
                    return self._fork(order)
                except (OSError, struct.error) as error:
                    # want of descriptors is no reason to end the zygote, and with it every worker
                    is_full = isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE)
                    if not is_full:
                        self._stop()
                    if is_full or not left:
                        raise _no_room(error) from error
        raise AssertionError("unreachable")

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
            (pid,) = struct.unpack("<i", control.recv(4))
            if pid < 0:
                raise _no_room(OSError(-pid, os.strerror(-pid)))
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
                return "ok" in frames.Reader(ours).receive()
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


class Pending:
    """A request under way. It may be awaited again: a caller that is cancelled leaves it as it is."""

    def __init__(self, op: str, number: int, timeout_s: float) -> None:
        self.op, self.number, self.timeout_s = op, number, timeout_s
        self._outcome: Any = None
        self._error: Exception | None = None
        self._is_done = False
        self._waiter: asyncio.Future[None] | None = None

    def end(self, outcome: Any = None, error: Exception | None = None) -> None:
        """Tell how the request ended."""
        self._outcome, self._error, self._is_done = outcome, error, True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def __await__(self) -> Generator[Any, None, Any]:
        if not self._is_done:
            self._waiter = asyncio.get_running_loop().create_future()
            yield from self._waiter
        if self._error is not None:
            raise self._error
        return self._outcome


class _Channel(asyncio.Protocol):
    """The host's end of a worker's socket: answers come in the order of the requests, and none that nobody asked for.

    Requests are sent without waiting for earlier ones; the worker takes them one at a time, and each has its time from
    the moment that it is the first.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._buffer = bytearray()
        self._waiting: deque[Pending] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self.end: WorkerError | None = None
        """Why there will be no more answers."""
        self.on_end: Callable[[], None] = lambda: None

    def expect(self, pending: Pending) -> None:
        """Wait for one more answer."""
        self._waiting.append(pending)
        if len(self._waiting) == 1:
            self._watch()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while self._buffer and self.end is None:
            if not self._waiting:
                self.fail(_breach("it sent what nobody had asked for"))
                return
            try:
                answer = answers.take(self._buffer)
                if answer is None:
                    return
                self._tell(answer)
            except (ValueError, frames.FrameError) as error:
                self.fail(_breach(error))

    def connection_lost(self, _error: Exception | None) -> None:
        self.fail(WorkerError("the worker has died"))

    def fail(self, error: WorkerError) -> None:
        """End the conversation; requests behind the first one were never begun."""
        if self.end is None:
            self.end = error
            self._unwatch()
            self.on_end()
            while self._waiting:
                self._waiting.popleft().end(error=error)
                error = _gone()

    def _tell(self, answer: dict[str, Any]) -> None:
        """Give an answer to the request that it belongs to."""
        pending = self._waiting[0]
        if type(answer.get("id")) is not int or answer["id"] != pending.number:
            raise ValueError("an answer to something else")
        failure = answers.failure(answer)
        outcome = None if failure else answers.checked(pending.op, answer.get("ok"))
        self._waiting.popleft()
        pending.end(outcome, OperationError(*failure) if failure else None)
        if answer.get("last"):
            self.fail(_gone())
        else:
            self._watch()

    def _watch(self) -> None:
        self._unwatch()
        if self._waiting:
            seconds = self._waiting[0].timeout_s
            self._timer = self._loop.call_later(seconds, self._expire, seconds)

    def _unwatch(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expire(self, seconds: float) -> None:
        message = f"the worker gave no answer within {seconds:g} s and was stopped"
        self.fail(WorkerError(message, reason="deadline"))


class Process:
    """One sandboxed process. It takes requests one at a time, in the order in which they are made."""

    def __init__(self, channel: _Channel, transport: asyncio.Transport, pid: int) -> None:
        self._channel, self._transport = channel, transport
        self._counter = 0
        self.pid = pid
        self._handle = _pidfd(pid)
        if self._handle is not None:
            self._close_handle = weakref.finalize(self, os.close, self._handle)
            self._close_handle.atexit = False
        self.is_dead = False
        self._shared_bytes = _anonymous_bytes(pid)
        channel.on_end = self.kill

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
        channel, first = _Channel(loop), Pending("seal", 0, _SPAWN_S)
        channel.expect(first)
        transport, _ = await loop.create_unix_connection(lambda: channel, sock=ours)
        process = cls(channel, transport, pid)
        try:
            await first
        except BaseException as error:
            process.kill()
            if isinstance(error, OperationError):
                raise SealError(f"the worker could not seal itself: {error.message}") from error
            raise
        return process

    def send(self, op: str, *, timeout_s: float, **fields: Any) -> Pending:
        """Send one request, which ends at most `timeout_s` seconds after those before it.

        Awaiting it raises `WorkerError` if the process died, answered nonsense or overran the time and is dead now,
        and `OperationError` if the operation itself failed.

        Raises:
            LimitError: the request is larger than a frame.
            WorkerError: the process is dead.
        """
        if self._channel.end is not None or self.is_dead:
            end = self._channel.end
            raise end if end is not None and end.reason == "protocol" else _gone()
        pending = Pending(op, self._counter + 1, timeout_s)
        try:
            frame = frames.encode({"op": op, "id": pending.number, **fields})
        except frames.FrameError as error:
            raise LimitError(str(error)) from error
        self._counter += 1
        self._channel.expect(pending)
        self._transport.write(frame)
        return pending

    async def request(self, op: str, *, timeout_s: float, **fields: Any) -> Any:
        """Send one request and await its answer; a caller that is cancelled meanwhile just does not hear it.

        Raises:
            LimitError: the request is larger than a frame.
            WorkerError: the process died, answered nonsense or overran the time; it is dead now.
            OperationError: the operation itself failed.
        """
        return await self.send(op, timeout_s=timeout_s, **fields)

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


def _gone() -> WorkerError:
    return WorkerError("the worker has died", reason="gone")


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

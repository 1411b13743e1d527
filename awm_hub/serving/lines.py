"""Lines in and out of two descriptors, by one thread each.

Threads, since an event loop can watch neither a plain file nor, without making it non-blocking for everybody who shares
it, somebody else's pipe. They are daemons: a client that sends nothing, or reads nothing, keeps no process alive.
Lines end at line feeds alone.
"""

import asyncio
import os
import queue
import threading
from collections.abc import AsyncIterator, Callable

_CHUNK_BYTES = 64 * 2**10
_QUEUED_LINES = 64


class LineReader:
    """Lines of a descriptor, as an asynchronous iterator; a line over the limit arrives as None."""

    def __init__(self, descriptor: int, *, max_bytes: int) -> None:
        self._descriptor, self._max_bytes = descriptor, max_bytes
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[bytes | EOFError | None] = asyncio.Queue(_QUEUED_LINES)
        threading.Thread(target=self._run, name="line reader", daemon=True).start()

    async def __aiter__(self) -> AsyncIterator[bytes | None]:
        while not isinstance(line := await self._lines.get(), EOFError):
            yield line

    def _run(self) -> None:
        try:
            split_lines(lambda: os.read(self._descriptor, _CHUNK_BYTES), self._put, self._max_bytes)
            self._put(EOFError())
        except (RuntimeError, asyncio.CancelledError):
            pass  # the event loop has gone, and with it whoever wanted lines

    def _put(self, line: bytes | EOFError | None) -> None:
        asyncio.run_coroutine_threadsafe(self._lines.put(line), self._loop).result()


class LineWriter:
    """Writes lines to a descriptor, each as a whole."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._lines: queue.SimpleQueue[tuple[bytes, asyncio.Future[None]] | None] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="line writer", daemon=True).start()

    async def write(self, line: str) -> None:
        """Write a line, and wait until it is out.

        Raises:
            OSError: nobody reads any more.
        """
        written: asyncio.Future[None] = self._loop.create_future()
        self._lines.put((line.encode() + b"\n", written))
        await written

    def close(self) -> None:
        """End the thread after what is queued."""
        self._lines.put(None)

    def _run(self) -> None:
        while (item := self._lines.get()) is not None:
            data, written = item
            error = self._write(data)
            try:
                self._loop.call_soon_threadsafe(_settle, written, error)
            except RuntimeError:
                return  # the event loop has gone

    def _write(self, data: bytes) -> OSError | None:
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
        except OSError as error:
            return error
        return None


def split_lines(read: Callable[[], bytes], put: Callable[[bytes | None], None], max_bytes: int) -> None:
    """Cut what is read into lines until there is no more; None stands for a line longer than `max_bytes`."""
    line, is_too_long = bytearray(), False
    while chunk := _read(read):
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            is_too_long = is_too_long or len(line) + len(end) > max_bytes
            put(None if is_too_long else bytes(line + end))
            line, is_too_long = bytearray(), False
        line += b"" if is_too_long else rest
        if len(line) > max_bytes:
            line, is_too_long = bytearray(), True
    if line or is_too_long:
        put(None if is_too_long else bytes(line))


def _read(read: Callable[[], bytes]) -> bytes:
    try:
        return read()
    except OSError:
        return b""  # a terminal that was closed


def _settle(written: asyncio.Future[None], error: OSError | None) -> None:
    if written.done():
        return
    if error is None:
        written.set_result(None)
    else:
        written.set_exception(error)

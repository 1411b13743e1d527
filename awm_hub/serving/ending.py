"""What ends a server: SIGINT and SIGTERM, taken so that everything is closed before the process leaves."""

import asyncio
import contextlib
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

_CLOSING_S = 2.0


@contextlib.contextmanager
def stopping_signals(stop: Callable[[int], None]) -> Iterator[None]:
    """Hand SIGINT and SIGTERM to `stop` while the block lasts; only the main thread gets any."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGINT, signal.SIGTERM)
    for number in numbers:
        loop.add_signal_handler(number, stop, number)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


async def closed(closing: Coroutine[Any, Any, Any]) -> None:
    """Wait a moment for instances to close. One in a call that nothing stops is left: the process takes it along."""
    await asyncio.wait((asyncio.ensure_future(closing),), timeout=_CLOSING_S)


async def first_of(coroutine: Coroutine[Any, Any, Any], task: asyncio.Task[Any]) -> None:
    """Wait for whichever ends first; the coroutine does not outlive the wait, the task may."""
    waiting = asyncio.create_task(coroutine)
    try:
        await asyncio.wait((waiting, task), return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)

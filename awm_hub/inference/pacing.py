"""How fast an endpoint is asked: so many requests at once, so many a minute, none while it wants to be left alone."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator


class Pace:
    """Turns to send a request, shared by everything that asks one endpoint in one event loop."""

    def __init__(self, *, concurrency: int, requests_per_minute: float | None) -> None:
        self._places = asyncio.Semaphore(concurrency)
        self._interval_s = 0.0 if requests_per_minute is None else 60 / requests_per_minute
        self._next_s = 0.0
        """When the next request may start, on the monotonic clock."""

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for a turn; it lasts until the block is left."""
        async with self._places:
            while (wait_s := self._next_s - time.monotonic()) > 0:
                await asyncio.sleep(wait_s)
            self._next_s = time.monotonic() + self._interval_s
            yield

    def hold(self, seconds: float) -> None:
        """Give no turn for a while."""
        self._next_s = max(self._next_s, time.monotonic() + seconds)

"""The soft deadline of whatever untrusted code is running: one alarm per process, re-armed until the code gives way.

It interrupts Python code by a `BaseException` and SQLite by its progress handler. Code that catches everything, or that
sits in one long call in C, is not stopped by it; the host's hard deadline kills the process.
"""

import contextlib
import signal
import time
from collections.abc import Iterator
from types import FrameType

_AGAIN_S = 0.05


class CallDeadline(BaseException):
    """The code ran longer than allowed."""


class Deadline:
    """The process's deadline; inactive unless `running` is entered."""

    def __init__(self) -> None:
        self._ends_at = float("inf")
        signal.signal(signal.SIGALRM, self._interrupt)

    def is_overdue(self) -> bool:
        """Whether the running code should have ended."""
        return time.monotonic() > self._ends_at

    @contextlib.contextmanager
    def running(self, seconds: float) -> Iterator[None]:
        """Interrupt the body after `seconds` by raising `CallDeadline` in it, again and again."""
        self._ends_at = time.monotonic() + seconds
        signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN_S)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            self._ends_at = float("inf")

    def _interrupt(self, _signal: int, _frame: FrameType | None) -> None:
        if self.is_overdue():
            raise CallDeadline

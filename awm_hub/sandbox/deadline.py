"""The soft limits of whatever untrusted code is running: time, and steps of SQLite's machine.

One alarm per process interrupts Python code by a `BaseException`, re-armed until the code gives way; SQLite is
interrupted by its progress handler, on every connection of the process. Code that catches everything, or that sits in
one long call in C, is not stopped by this; the host's hard deadline kills the process.
"""

import contextlib
import signal
import sqlite3
import time
from collections.abc import Iterator
from types import FrameType

STEPS_PER_LOOK = 20_000
"""Steps of SQLite's machine between two looks at the limits."""
_AGAIN_S = 0.05


class CallDeadline(BaseException):
    """The code ran longer than allowed."""


class Deadline:
    """The process's soft limits; inactive unless `running` is entered."""

    def __init__(self) -> None:
        self._ends_at = float("inf")
        self._steps_left = float("inf")
        signal.signal(signal.SIGALRM, self._interrupt)

    @property
    def is_out_of_steps(self) -> bool:
        """Whether the statements of the last body used up its steps."""
        return self._steps_left <= 0

    def is_overdue(self) -> bool:
        """Whether the running code should have ended."""
        return time.monotonic() > self._ends_at

    def watch(self, db: sqlite3.Connection) -> None:
        """Interrupt this connection's statements at the limits."""
        db.set_progress_handler(self._on_progress, STEPS_PER_LOOK)

    @contextlib.contextmanager
    def running(self, seconds: float, steps: float = float("inf")) -> Iterator[None]:
        """Interrupt the body after `seconds` by raising `CallDeadline` in it, again and again."""
        self._steps_left = steps
        self._ends_at = time.monotonic() + seconds
        signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN_S)
        try:
            yield
        finally:
            # the alarm may still strike on the first line; on the second it cannot
            try:
                self._ends_at = float("inf")
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
                self._ends_at = float("inf")

    def _on_progress(self) -> bool:
        self._steps_left -= STEPS_PER_LOOK
        return self._steps_left <= 0 or self.is_overdue()

    def _interrupt(self, _signal: int, _frame: FrameType | None) -> None:
        if self.is_overdue():
            raise CallDeadline

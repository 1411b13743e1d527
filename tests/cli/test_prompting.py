"""Sessions at a real terminal."""

import contextlib
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

_LEADER = """import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
"""Runs a program as a shell does, so that Ctrl-C at its terminal reaches it and its workers."""


class _Terminal:
    """The program at a terminal."""

    def __init__(self, command: list[str]) -> None:
        self._ours, theirs = pty.openpty()
        env = {**os.environ, "TERM": "dumb", "NO_COLOR": "1"}
        self.process = subprocess.Popen(
            [sys.executable, "-c", _LEADER, *command], stdin=theirs, stdout=theirs, stderr=theirs, env=env
        )
        os.close(theirs)
        self.seen = ""

    def wait_for(self, text: str) -> None:
        """Read until a text has appeared since the last time."""
        before = len(self.seen)
        deadline = time.monotonic() + 60
        while text not in self.seen[before:] and time.monotonic() < deadline:
            if select.select([self._ours], [], [], 1)[0]:
                self.seen += os.read(self._ours, 4096).decode(errors="replace")
        assert text in self.seen[before:], self.seen

    def close(self) -> None:
        """Hang up."""
        os.close(self._ours)
        self.process.kill()
        self.process.wait()

    def type(self, text: str) -> None:
        """Press keys, once the program is waiting for one.

        A Ctrl-C between two of Python's looks at the terminal is only heard with the next key.
        """
        while self._state() not in "SZ":
            os.sched_yield()
        os.write(self._ours, text.encode())

    def _state(self) -> str:
        """What the program's main thread is doing: S where it waits."""
        pid = self.process.pid
        try:
            return Path(f"/proc/{pid}/task/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:  # another system
            return "S"


@pytest.fixture
def terminal(notes_dataset: Path) -> Iterator[_Terminal]:
    """A session that has begun."""
    command = [sys.executable, "-m", "awm_hub", "play", "notes", "--dataset", str(notes_dataset)]
    with contextlib.closing(_Terminal(command)) as found:
        found.wait_for("lists the tools\r\n> ")
        yield found


def test_the_tab_key_completes_and_ctrl_d_leaves(terminal: _Terminal) -> None:
    pytest.importorskip("readline")
    terminal.type("fini\t")
    terminal.wait_for("finish_note ")
    terminal.type("no\t1\n")
    terminal.wait_for("\r\n> ")
    assert "1. finish_note  ok" in terminal.seen
    terminal.type("\x04")
    assert terminal.process.wait(timeout=60) == 0


def test_ctrl_c_drops_the_line_and_the_session_goes_on(terminal: _Terminal) -> None:
    terminal.type("submit no")
    terminal.wait_for("submit no")
    terminal.type("\x03")
    terminal.wait_for("Ctrl-C again, or Ctrl-D, leaves\r\n> ")
    terminal.type("get_note note_id=1\n")
    terminal.wait_for("\r\n> ")
    assert "1. get_note  ok" in terminal.seen
    terminal.type("\x03")
    terminal.wait_for("leaves\r\n> ")
    terminal.type("\x03")
    assert terminal.process.wait(timeout=60) == 130

"""The environment's clock: frozen at the row's `clock`, one second later with every call dispatched to code.

Python's clocks are patched by time-machine, kept open for the life of the process. SQLite's are replaced per
connection: the three keywords and the date functions, for 'now' in any position, in DDL defaults and in modifiers. The
replacements are deterministic functions, so that CHECK constraints and indexes may use them.
"""

import datetime as dt
import functools
import sqlite3
from collections.abc import Callable
from typing import Any

import time_machine

_FUNCTIONS = ("date", "time", "datetime", "julianday", "unixepoch", "strftime")
_KEYWORDS = {"current_timestamp": "%Y-%m-%d %H:%M:%S", "current_date": "%Y-%m-%d", "current_time": "%H:%M:%S"}


class FrozenClock:
    """The one clock of a sandboxed process."""

    def __init__(self, start: dt.datetime) -> None:
        self.start = start
        self.now = start
        self._traveller = time_machine.travel(start, tick=False).start()
        self._plain = sqlite3.connect(":memory:")
        self._pure = functools.lru_cache(maxsize=4096)(self._evaluate)
        self._available = tuple(name for name in _FUNCTIONS if self._knows(name))

    def set_calls(self, calls_count: int) -> None:
        """Set the clock to `calls_count` seconds after the start."""
        moment = self.start + dt.timedelta(seconds=calls_count)
        self._traveller.shift(moment - self.now)
        self.now = moment

    def bind(self, db: sqlite3.Connection) -> None:
        """Give a connection this clock."""
        for name, form in _KEYWORDS.items():
            db.create_function(name, 0, self._keyword(form), deterministic=True)
        for name in self._available:
            db.create_function(name, -1, functools.partial(self._call, name), deterministic=True)

    def _keyword(self, form: str) -> Callable[[], str]:
        return lambda: self.now.strftime(form)

    def _knows(self, name: str) -> bool:
        try:
            self._evaluate(name, ("%Y", "2000-01-01") if name == "strftime" else ("2000-01-01",))
        except sqlite3.OperationalError:
            return False
        return True

    def _call(self, name: str, *arguments: Any) -> Any:
        position = 1 if name == "strftime" else 0
        if len(arguments) <= position:
            arguments = (*arguments, "now")
        moment = arguments[position]
        if isinstance(moment, str) and moment.strip().lower() == "now":
            shown = self.now.strftime("%Y-%m-%d %H:%M:%S.") + f"{self.now.microsecond // 1000:03}"
            return self._evaluate(name, (*arguments[:position], shown, *arguments[position + 1 :]))
        return self._pure(name, arguments)

    def _evaluate(self, name: str, arguments: tuple[Any, ...]) -> Any:
        marks = ", ".join("?" * len(arguments))
        return self._plain.execute(f"SELECT {name}({marks})", arguments).fetchone()[0]

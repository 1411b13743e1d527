"""SQLAlchemy inside the sandbox: engines whose connections all lead to the database of the instance being called.

Upstream's modules make one engine for one file and a session per request. Here every checkout is a `Handle` on the
current instance's one connection. A handle behaves like a connection of its own where that can be seen: closing or
rolling back one session does not undo what another has written and not yet committed, and a second writer finds the
database locked. A handle that a module keeps leads to whichever instance is called next.
"""

import contextlib
import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import sqlalchemy
import sqlalchemy.engine
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import close_all_sessions
from sqlalchemy.pool import NullPool

from awm_hub.sandbox.database import InstanceConnection

_KEPT_OPTIONS = ("execution_options", "isolation_level", "json_deserializer", "json_serializer")
_WRITES = ("INSERT", "UPDATE", "DELETE", "REPLACE")
_SETTING = re.compile(r"PRAGMA(?!\s+(foreign_keys|(main\.)?(table|index|foreign_key)_\w+)\b)", re.IGNORECASE)
"""Settings that outlive a call: `foreign_keys` is set back, the others only read."""
_OF_SQLALCHEMY = ("regexp", "floor")
_create_engine = sqlalchemy.create_engine


class _Current:
    """The call that is running: its database, and who began the transaction there."""

    connection: InstanceConnection | None = None
    writer: "Handle | None" = None


@contextlib.contextmanager
def using(db: InstanceConnection) -> Iterator[None]:
    """Make a database the current one; in the end, sessions left open are closed and what they wrote is undone."""
    _Current.connection, _Current.writer = db, None
    try:
        yield
    finally:
        try:
            with contextlib.suppress(SQLAlchemyError):
                close_all_sessions()
        finally:
            if db.in_transaction:
                db.rollback()
            _Current.connection = _Current.writer = None


@contextlib.contextmanager
def replaced() -> Iterator[None]:
    """While a module is executed: `create_engine` makes engines on the current instance."""
    sqlalchemy.create_engine = sqlalchemy.engine.create_engine = _on_current_instance
    try:
        yield
    finally:
        sqlalchemy.create_engine = sqlalchemy.engine.create_engine = _create_engine


def _on_current_instance(*_: Any, **options: Any) -> sqlalchemy.Engine:
    kept = {name: value for name, value in options.items() if name in _KEPT_OPTIONS}
    handle: Any = Handle
    return _create_engine("sqlite://", creator=handle, poolclass=NullPool, **kept)


class Handle:
    """One checked-out connection, as SQLAlchemy and modules see it."""

    def cursor(self) -> sqlite3.Cursor:
        """A cursor on the current instance's database."""
        cursor: _Cursor = _connection().cursor(_Cursor)
        cursor.handle = self
        return cursor

    def execute(self, sql: str, parameters: Sequence[Any] | dict[str, Any] = ()) -> sqlite3.Cursor:
        """Run a statement."""
        return self.cursor().execute(sql, parameters)

    def commit(self) -> None:
        """Commit, unless another handle began the transaction."""
        self._end(sqlite3.Connection.commit)

    def rollback(self) -> None:
        """Roll back, unless another handle began the transaction."""
        self._end(sqlite3.Connection.rollback)

    def close(self) -> None:
        """Nothing: the database belongs to the runtime."""

    def create_function(self, name: str, narg: int, function: Any, **options: Any) -> None:
        """Add an SQL function, once per database: SQLite cannot replace one while a statement runs."""
        known: set[tuple[str, int]] = vars(_connection()).setdefault("functions", set())
        if (name, narg) not in known:
            known.add((name, narg))
            db = _connection()
            is_altered = db.is_altered or name not in _OF_SQLALCHEMY
            db.create_function(name, narg, function, **options)
            db.is_altered = is_altered

    @property
    def isolation_level(self) -> str | None:
        """The driver's isolation level."""
        return _connection().isolation_level

    @isolation_level.setter
    def isolation_level(self, value: Any) -> None:
        _connection().isolation_level = value

    def __getattr__(self, name: str) -> Any:
        return getattr(_connection(), name)

    def _end(self, how: Callable[[sqlite3.Connection], None]) -> None:
        if not self.is_kept_out():
            _Current.writer = None
            how(_connection())

    def is_kept_out(self) -> bool:
        """Whether another handle has uncommitted changes."""
        return _Current.writer not in (None, self) and _connection().in_transaction


class _Cursor(sqlite3.Cursor):
    """A cursor that notes which handle began the transaction."""

    handle: Handle

    def execute(self, sql: str, parameters: Any = (), /) -> "_Cursor":
        self._check(sql)
        try:
            super().execute(sql, parameters)
        finally:
            self._note()
        return self

    def executemany(self, sql: str, parameters: Any, /) -> "_Cursor":
        self._check(sql)
        try:
            super().executemany(sql, parameters)
        finally:
            self._note()
        return self

    def executescript(self, sql: str, /) -> "_Cursor":
        _connection().is_altered = True
        super().executescript(sql)
        return self

    def _check(self, sql: str) -> None:
        if _SETTING.search(sql):
            _connection().is_altered = True
        if self.handle.is_kept_out() and sql.lstrip().upper().startswith(_WRITES):
            raise sqlite3.OperationalError("database is locked")

    def _note(self) -> None:
        if self.connection.in_transaction and not self.handle.is_kept_out():
            _Current.writer = self.handle


def _connection() -> InstanceConnection:
    if _Current.connection is None:
        raise sqlite3.ProgrammingError("no instance is being called")
    return _Current.connection

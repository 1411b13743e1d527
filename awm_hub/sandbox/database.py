"""SQLite connections inside the sandbox: one private in-memory database per instance, with its guards.

Guards are re-applied whenever a database is opened, since deserialising resets some of them. They stop accidents; the
seal, the resource limits and the host's deadline stop attacks.
"""

import contextlib
import functools
import sqlite3
from collections.abc import Iterator
from typing import Any, Literal

from awm_hub.sandbox import randomness
from awm_hub.sandbox.clock import FrozenClock
from awm_hub.sandbox.deadline import Deadline

PAGE_BYTES = 1024
_MAX_CELL_BYTES = 64 * 2**20
_connect = sqlite3.connect
Isolation = Literal["DEFERRED"] | None
"""None: the runtime begins and commits; DEFERRED: the driver begins, as upstream's modules expect."""
_ALTERING = (
    "create_function", "create_aggregate", "create_window_function", "create_collation", "deserialize",
    "enable_load_extension", "executescript", "load_extension", "set_authorizer", "set_progress_handler",
    "set_trace_callback", "setconfig", "setlimit",
)  # fmt: skip
_OWN_ATTRIBUTES = {
    "functions", "has_lost_transaction", "is_altered", "is_bounded", "is_read_only", "is_trusted", "max_bytes",
}  # fmt: skip
_LEGACY = -1
_DENIED = {
    sqlite3.SQLITE_TRANSACTION, sqlite3.SQLITE_SAVEPOINT, sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH,
    sqlite3.SQLITE_PRAGMA,
}  # fmt: skip


class InstanceConnection(sqlite3.Connection):
    """A connection that code of the environment cannot close, and that can tell its own statements from the code's."""

    is_trusted = True
    is_read_only = False
    is_bounded = False
    is_altered = False
    """Whether code has changed something on the connection that no call takes back: a function, a limit, a hook."""
    has_lost_transaction = False
    """Whether the last call's transaction was ended by its own statement: what it wrote after that stayed."""
    max_bytes = 0

    def is_as_opened(self, image: bytes) -> bool:
        """Whether nothing tells this connection from a new one to the image: no write, even one that was taken back."""
        return (
            not (self.is_altered or self.in_transaction or self.total_changes or vars(self).keys() - _OWN_ATTRIBUTES)
            and getattr(self, "autocommit", _LEGACY) == _LEGACY
            and self.execute("PRAGMA temp.schema_version").fetchone()[0] == 0
            and self.serialize() == image
        )

    def close(self) -> None:
        """Nothing: the connection belongs to the runtime."""

    def really_close(self) -> None:
        """Close the connection."""
        sqlite3.Connection.close(self)

    def bound(self) -> None:
        """Bound the database's size.

        Raises:
            sqlite3.DatabaseError: it is no database.
        """
        (page_bytes,) = self.execute("PRAGMA page_size").fetchone()
        self.execute(f"PRAGMA max_page_count = {self.max_bytes // page_bytes}")
        self.is_bounded = True

    def abandon_call(self) -> None:
        """Take back whatever an interrupted call has left open."""
        self.is_trusted = True
        if self.in_transaction:
            sqlite3.Connection.rollback(self)

    @contextlib.contextmanager
    def untrusted(self) -> Iterator[None]:
        """While the environment's code runs."""
        self.is_trusted = False
        try:
            yield
        finally:
            self.is_trusted = True

    def set_read_only(self, read_only: bool) -> None:
        """Switch `query_only`, if it is not as wanted already; before the first write, bound the database's size."""
        if not read_only and not self.is_bounded:
            self.bound()
        if read_only != self.is_read_only:
            self.execute(f"PRAGMA query_only = {int(read_only)}")
            self.is_read_only = read_only


def _altering(name: str) -> Any:
    """A method of connections that notes when code of the environment calls it."""
    plain = getattr(sqlite3.Connection, name)

    @functools.wraps(plain)
    def method(db: InstanceConnection, *arguments: Any, **options: Any) -> Any:
        db.is_altered = db.is_altered or not db.is_trusted
        return plain(db, *arguments, **options)

    return method


for _name in _ALTERING:
    if hasattr(sqlite3.Connection, _name):
        setattr(InstanceConnection, _name, _altering(_name))


def open_image(
    image: bytes,
    *,
    clock: FrozenClock,
    deadline: Deadline,
    foreign_keys: bool,
    isolation_level: Isolation,
    max_bytes: int,
) -> InstanceConnection:
    """A private copy of a database image, with clock, randomness and guards.

    Nothing here makes SQLite read the schema, which is most of what a database costs: that is left to the first call.
    """
    db = _connect(":memory:", factory=InstanceConnection, check_same_thread=False, isolation_level=isolation_level)
    db.deserialize(image)
    db.max_bytes = max_bytes
    db.execute("PRAGMA temp_store = MEMORY")
    db.execute(f"PRAGMA foreign_keys = {int(foreign_keys)}")
    db.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, max_bytes)
    clock.bind(db)
    randomness.bind(db)
    deadline.watch(db)
    return db


def guard_new_connections(deadline: Deadline, clock: FrozenClock, max_bytes: int) -> None:
    """Give every connection that code of the environment opens itself the limits, the clock and the randomness too."""

    def connect(*arguments: Any, **options: Any) -> sqlite3.Connection:
        db: sqlite3.Connection = _connect(*arguments, **options)
        deadline.watch(db)
        clock.bind(db)
        randomness.bind(db)
        db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, max_bytes)
        return db

    module: Any = sqlite3
    module.connect = module.dbapi2.connect = connect


def deny_control(db: InstanceConnection) -> None:
    """Deny transaction statements, ATTACH and PRAGMA to the environment's code on this connection."""

    def authorize(action: int, *_: object) -> int:
        return sqlite3.SQLITE_DENY if action in _DENIED and not db.is_trusted else sqlite3.SQLITE_OK

    db.set_authorizer(authorize)


def open_read_only(image: bytes, clock: FrozenClock | None = None) -> sqlite3.Connection:
    """A read-only copy of a database image with named rows.

    Raises:
        sqlite3.DatabaseError: the image is no database.
    """
    db = _connect(":memory:", isolation_level=None)
    db.deserialize(image)
    db.row_factory = sqlite3.Row
    if clock is not None:
        clock.bind(db)
    db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_CELL_BYTES)
    db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    db.execute("PRAGMA query_only = ON")
    return db

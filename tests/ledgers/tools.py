"""Notes, as plain functions."""

import random
import secrets
import sqlite3
import time
import uuid
from datetime import datetime


def add(db: sqlite3.Connection, text: str) -> dict:
    """Add a note.

    Args:
        text: Its text.
    """
    if not text:
        raise ValueError("the text is empty")
    note_id = db.execute("INSERT INTO notes (text) VALUES (?)", (text,)).lastrowid
    made_at = db.execute("SELECT made_at FROM notes WHERE id = ?", (note_id,)).fetchone()["made_at"]
    return {"id": note_id, "made_at": made_at, "key": str(uuid.uuid4()), "at": datetime.now().isoformat()}


def edit(db: sqlite3.Connection, note_id: int, text: str) -> int:
    """Change a note.

    Args:
        note_id: Which.
        text: Its new text.
    """
    if not db.execute("UPDATE notes SET text = ? WHERE id = ?", (text, note_id)).rowcount:
        raise LookupError(f"no note {note_id}")
    return note_id


def upsert(db: sqlite3.Connection, note_id: int) -> list:
    """Add a note unless it is there; what the driver says about it.

    Args:
        note_id: Which.
    """
    cursor = db.execute("INSERT OR IGNORE INTO notes (id, text) VALUES (?, 'maybe')", (note_id,))
    return [cursor.rowcount, cursor.lastrowid, db.execute("SELECT last_insert_rowid()").fetchone()[0]]


def remove(db: sqlite3.Connection, note_id: int) -> int:
    """Delete a note.

    Args:
        note_id: Which.
    """
    if not db.execute("DELETE FROM notes WHERE id = ?", (note_id,)).rowcount:
        raise LookupError(f"no note {note_id}")
    return note_id


def list_notes(db: sqlite3.Connection) -> list:
    """All notes."""
    return [dict(row) for row in db.execute("SELECT id, text, made_at FROM notes ORDER BY id")]


def draw(db: sqlite3.Connection) -> dict:
    """Random values and moments of every kind."""
    sql = "SELECT random(), hex(randomblob(4)), datetime('now', '+1 day'), CURRENT_TIMESTAMP, unixepoch()"
    own = sqlite3.connect(":memory:").execute("SELECT random(), datetime()").fetchone()
    return {
        "random": random.random(),
        "token": secrets.token_hex(4),
        "key": str(uuid.uuid4()),
        "node": str(uuid.uuid1()),
        "system": random.SystemRandom().random(),
        "time": time.time(),
        "now": datetime.now().isoformat(),
        "sql": list(db.execute(sql).fetchone()),
        "other": list(own),
        "shuffled": random.sample(range(100), 5),
    }


def refuse(db: sqlite3.Connection, text: str) -> None:
    """Write, then refuse.

    Args:
        text: What to write.
    """
    db.execute("INSERT INTO notes (text) VALUES (?)", (text,))
    raise RuntimeError("not now")


def fail(db: sqlite3.Connection, text: str) -> None:
    """Write, then fail.

    Args:
        text: What to write.
    """
    db.execute("UPDATE notes SET text = ?", (text,))
    {}["missing"]


def make_table(db: sqlite3.Connection, name: str) -> list:
    """Make a table unless there is one; all tables.

    Args:
        name: Its name.
    """
    db.execute(f'CREATE TABLE IF NOT EXISTS "{name}" (id INTEGER PRIMARY KEY, made_at TEXT DEFAULT CURRENT_TIMESTAMP)')
    return [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]


def scratch(db: sqlite3.Connection, text: str) -> list:
    """Put a text into a temporary table; all texts there.

    Args:
        text: What to put there.
    """
    db.execute("CREATE TEMP TABLE IF NOT EXISTS scratch (text TEXT)")
    db.execute("INSERT INTO scratch VALUES (?)", (text,))
    return [row[0] for row in db.execute("SELECT text FROM scratch")]


def as_tuples(db: sqlite3.Connection) -> list:
    """All notes as tuples, by a setting of the connection."""
    db.row_factory = None
    return [row[1] for row in db.execute("SELECT id, text FROM notes ORDER BY id") if type(row) is tuple]


def spin(db: sqlite3.Connection) -> None:
    """Write, then never return."""
    db.execute("UPDATE notes SET text = 'spun'")
    while True:
        pass


def cling(db: sqlite3.Connection) -> None:
    """Write, then hold on in C, where no signal is heard."""
    db.execute("UPDATE notes SET text = 'held'")
    sum(range(10**13))


def spin_in_sql(db: sqlite3.Connection, expression: str) -> int:
    """A query without end.

    Args:
        expression: What it evaluates again and again.
    """
    sql = f"WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i FROM n WHERE {expression}) SELECT count(*) FROM n"
    return db.execute(sql).fetchone()[0]


def spin_elsewhere(db: sqlite3.Connection) -> int:
    """A query without end in a database of its own."""
    sql = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i FROM n) SELECT count(*) FROM n"
    return sqlite3.connect(":memory:").execute(sql).fetchone()[0]


def grow(db: sqlite3.Connection, size: int) -> int:
    """Add a large note.

    Args:
        size: Its size.
    """
    return db.execute("INSERT INTO notes (text) VALUES (zeroblob(?))", (size,)).lastrowid


def say(db: sqlite3.Connection, size: int) -> str:
    """Write, then say much.

    Args:
        size: How much.
    """
    db.execute("UPDATE notes SET text = 'said'")
    return "y" * size


def take(db: sqlite3.Connection, size: int) -> int:
    """Write, then take memory.

    Args:
        size: How much.
    """
    db.execute("UPDATE notes SET text = 'taken'")
    return len(bytearray(size))


def die(db: sqlite3.Connection) -> None:
    """Write, then end the process."""
    import os

    db.execute("UPDATE notes SET text = 'died'")
    os._exit(1)

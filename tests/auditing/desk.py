"""An environment with a fault for nearly every rule, and the same without them."""

from making import CLOCK, make_environment

from awm_hub.environment import Call, Environment, SeedTable, Table, Task, Verifier
from awm_hub.runtime import jobs

TABLES = (
    Table(name="owners", ddl="CREATE TABLE owners (id INTEGER PRIMARY KEY, name TEXT NOT NULL)"),
    Table(
        name="boxes",
        ddl="CREATE TABLE boxes (id INTEGER PRIMARY KEY, owner_id INTEGER NOT NULL REFERENCES owners (id),"
        " label TEXT NOT NULL, colour TEXT NOT NULL, stored_on TEXT NOT NULL)",
    ),
    Table(
        name="moves",
        ddl="CREATE TABLE moves (id INTEGER PRIMARY KEY, box_id INTEGER NOT NULL REFERENCES boxes (id),"
        " owner_id INTEGER NOT NULL REFERENCES owners (id), moved_on TEXT NOT NULL)",
    ),
)
SEED = (
    SeedTable(table="owners", inserts=("INSERT INTO owners (id, name) VALUES (1, 'Ada'), (2, 'Bo'), (3, 'Cy')",)),
    SeedTable(
        table="boxes",
        inserts=(
            "INSERT INTO boxes (id, owner_id, label, colour, stored_on) VALUES (1, 1, 'tools', 'red', '2026-01-05'),"
            " (2, 2, 'books', 'blue', '2026-01-09'), (3, 1, 'lamps', 'red', '2026-02-01'),"
            " (4, 3, 'toys', 'blue', '2026-02-11'), (5, 2, 'skis', 'grey', '2026-02-20')",
        ),
    ),
    SeedTable(
        table="moves",
        inserts=(
            "INSERT INTO moves (id, box_id, owner_id, moved_on) VALUES (1, 1, 1, '2026-02-01'),"
            " (2, 2, 2, '2026-02-02'), (3, 3, 1, '2026-02-03'), (4, 4, 3, '2026-02-04'), (5, 5, 2, '2026-02-05')",
        ),
    ),
)
GOOD = '''
import sqlite3
from datetime import date
from typing import Literal


def _rows(db, sql, *values):
    return [dict(row) for row in db.execute(sql, values)]


def search_boxes(
    db: sqlite3.Connection, colour: Literal["red", "blue", "grey"] | None = None, stored_by: str | None = None,
    limit: int = 10,
) -> list[dict]:
    """Find boxes.

    Args:
        colour: Only boxes of this colour.
        stored_by: Only boxes stored on or before this day, YYYY-MM-DD.
        limit: At most this many boxes, 1 to 20.
    """
    if not 1 <= limit <= 20:
        raise ValueError("limit must be between 1 and 20")
    sql = (
        "SELECT * FROM boxes WHERE (?1 IS NULL OR colour = ?1) AND (?2 IS NULL OR stored_on <= ?2) ORDER BY id LIMIT ?3"
    )
    return _rows(db, sql, colour, stored_by, limit)


def get_owner(db: sqlite3.Connection, owner_id: int) -> dict:
    """Show an owner and the boxes.

    Args:
        owner_id: Which owner.
    """
    found = _rows(db, "SELECT * FROM owners WHERE id = ?", owner_id)
    if not found:
        raise LookupError("no such owner")
    boxes = _rows(db, "SELECT id, label, stored_on FROM boxes WHERE owner_id = ? ORDER BY id", owner_id)
    return {**found[0], "boxes": boxes}


def move_box(db: sqlite3.Connection, box_id: int, owner_id: int) -> dict:
    """Note that an owner has moved a box of theirs.

    Args:
        box_id: Which box.
        owner_id: Whose box it is.
    """
    if not _rows(db, "SELECT 1 FROM boxes WHERE id = ? AND owner_id = ?", box_id, owner_id):
        raise LookupError("the owner has no such box")
    day = date.today().isoformat()
    move_id = db.execute(
        "INSERT INTO moves (box_id, owner_id, moved_on) VALUES (?, ?, ?)", (box_id, owner_id, day)
    ).lastrowid
    return {"id": move_id, "box_id": box_id, "owner_id": owner_id, "moved_on": day}


def paint_box(db: sqlite3.Connection, box_id: int, colour: Literal["red", "blue", "grey"]) -> dict:
    """Paint a box.

    Args:
        box_id: Which box.
        colour: The new colour.
    """
    if not db.execute("UPDATE boxes SET colour = ? WHERE id = ?", (colour, box_id)).rowcount:
        raise LookupError("no such box")
    return {"id": box_id, "colour": colour}
'''
FAULTS = {
    "filter_ignored": ("(?1 IS NULL OR colour = ?1)", "(?1 IS NULL OR 1)"),
    "filter_mismatch": ("colour = ?1", "colour <> ?1"),
    "bound_wrong": ("stored_on <= ?2", "stored_on < ?2"),
    "limit_wrong": ("LIMIT ?3", "LIMIT ?3 + 1"),
    "range_wrong": ("1 <= limit <= 20", "1 <= limit < 20"),
    "foreign_rows": ("FROM boxes WHERE owner_id = ?", "FROM boxes WHERE ? IS NOT NULL"),
    "row_contradicts": (
        "SELECT id, label, stored_on FROM",
        "SELECT id, label, date(stored_on, '+1 day') AS stored_on FROM",
    ),
    "broken_link": ("WHERE id = ? AND owner_id = ?", "WHERE id = ? AND ? IS NOT NULL"),
    "format_drift": ("date.today().isoformat()", "date.today().isoformat() + 'T00:00'"),
    "tool_never_answers": ('return {**found[0], "boxes": boxes}', 'return {**found[0], "boxes": boxes["all"]}'),
    "fuzz_fault": ("found = _rows(db,", "assert owner_id > 0\n    found = _rows(db,"),
    "instances_mix": (
        "found = _rows(db,",
        "vars(sqlite3)['seen'] = vars(sqlite3).get('seen', 0) + 1\n"
        "    owner_id += vars(sqlite3)['seen'] % 3 == 0\n    found = _rows(db,",
    ),
    "nondeterministic": (
        'return {"id": box_id, "colour": colour}',
        'import time\n    return {"id": box_id, "colour": str(time.perf_counter_ns())}',
    ),
}
"""What to change in `GOOD` so that the rule has something to find."""
TOGETHER = (
    ("filter_ignored", "bound_wrong", "foreign_rows", "broken_link", "format_drift", "nondeterministic"),
    ("filter_mismatch", "limit_wrong", "row_contradicts", "fuzz_fault"),
    ("range_wrong", "tool_never_answers"),
    ("instances_mix",),
)
"""Faults that do not hide each other."""


def faulty(rules: tuple[str, ...]) -> str:
    """The module with a fault for each of these rules."""
    code = GOOD
    for rule in rules:
        before, after = FAULTS[rule]
        assert before in code
        code = code.replace(before, after)
    return code


PAINT = Task(
    id="desk/paint",
    instruction="Paint the box with the tools, box 1, blue.",
    kind="change",
    solution=(Call(tool="paint_box", arguments={"box_id": 1, "colour": "blue"}),),
)
COUNT = Task(
    id="desk/count",
    instruction="How many red boxes are there?",
    kind="query",
    answer=2,
    answer_sql="SELECT count(*) FROM boxes WHERE colour = 'red'",
    solution=(Call(tool="search_boxes", arguments={"colour": "red"}),),
)


def deciding(task: Task, code: str) -> Task:
    """A task with a decision function of its own."""
    verifier = Verifier(kind="decision", function="decide", code=code)
    return Task(**{**vars(task), "verifiers": (verifier,)})


async def desk(
    code: str = GOOD,
    *,
    tasks: tuple[Task, ...] = (PAINT, COUNT),
    seed: tuple[SeedTable, ...] = SEED,
    writes: bool = True,
) -> Environment:
    """The environment, with effects stated as `pack` would measure them."""
    request = jobs.BuildRequest(interface="functions", code=code, clock=CLOCK, tables=TABLES, seed=seed, strict=False)
    made = await make_environment(code, request)
    writing = {"move_box", "paint_box"} if writes else set()
    tools = tuple(type(t)(**{**vars(t), "effect": "write" if t.name in writing else "read"}) for t in made.tools)
    changed = type(made)(**{**vars(made), "id": "desk", "tools": tools, "tasks": tasks})
    return changed.with_hash(await jobs.logical_hash(made.database))

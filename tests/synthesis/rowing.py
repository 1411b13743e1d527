"""A rowing club as a draft: small, complete, and right, to be spoilt by tests one thing at a time."""

import datetime as dt
import json
from typing import Any

from awm_hub.synthesis import products
from awm_hub.synthesis.drafts import Draft, Sizes

SCHEMA = """
CREATE TABLE members (
    id INTEGER PRIMARY KEY,
    full_name TEXT NOT NULL,
    level TEXT NOT NULL CHECK (level IN ('novice', 'racing'))
);
CREATE TABLE boats (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    seats INTEGER NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('ready', 'repair'))
);
CREATE TABLE bookings (
    id INTEGER PRIMARY KEY,
    boat_id INTEGER NOT NULL REFERENCES boats (id),
    member_id INTEGER NOT NULL REFERENCES members (id),
    day TEXT NOT NULL
);
"""
SEED = """
INSERT INTO members (id, full_name, level) VALUES (1, 'Ida Moen', 'racing'), (2, 'Ole Berg', 'novice'),
    (3, 'Kari Lie', 'racing'), (4, 'Per Dahl', 'novice'), (5, 'Mia Ness', 'racing'), (6, 'Tor Vik', 'novice');
INSERT INTO boats (id, name, seats, status) VALUES (1, 'Swift', 1, 'ready'), (2, 'Heron', 2, 'ready'),
    (3, 'Otter', 4, 'repair'), (4, 'Tern', 2, 'ready'), (5, 'Osprey', 8, 'ready');
INSERT INTO bookings (id, boat_id, member_id, day) VALUES (1, 1, 1, '2026-06-02'), (2, 2, 3, '2026-06-02'),
    (3, 1, 5, '2026-06-03'), (4, 4, 2, '2026-06-04');
"""
TOOLS: dict[str, Any] = {
    "search_members": {
        "effect": "read",
        "description": "Find members by name.",
        "parameters": {
            "query": {"type": "str", "description": "Part of the name; case does not matter.", "default": ""},
            "level": {
                "type": 'Literal["novice", "racing"] | None',
                "description": "Only members of this level.",
                "default": None,
            },
            "limit": {"type": "int", "description": "Most members to return, 1 to 50.", "default": 20},
        },
        "returns": "list of {id, full_name, level}",
        "refuses": ["limit outside its range: invalid"],
        "tables": ["members"],
        "tasks": ["book_for_ida"],
    },
    "get_boat": {
        "effect": "read",
        "description": "Show a boat and its bookings.",
        "parameters": {"boat_id": {"type": "int", "description": "Id of the boat."}},
        "returns": "{id, name, seats, status, bookings}",
        "refuses": ["no such boat: not found"],
        "tables": ["boats", "bookings"],
        "tasks": ["count_seats"],
    },
    "book_boat": {
        "effect": "write",
        "description": "Book a boat for a member for one day.",
        "parameters": {
            "boat_id": {"type": "int", "description": "Id of the boat."},
            "member_id": {"type": "int", "description": "Id of the member."},
            "day": {"type": "str", "description": "A day, YYYY-MM-DD, today or later."},
        },
        "returns": "{id, boat_id, member_id, day}",
        "refuses": ["no such boat or member: not found", "a day in the past: invalid", "in repair or booked"],
        "tables": ["boats", "members", "bookings"],
        "tasks": ["book_for_ida"],
    },
}
CODE = '''
"""Tools of a rowing club's boathouse."""

import sqlite3
from datetime import date
from typing import Literal


def _rows(db: sqlite3.Connection, sql: str, *values: object) -> list[dict]:
    return [dict(row) for row in db.execute(sql, values)]


def _one(db: sqlite3.Connection, what: str, sql: str, key: int) -> dict:
    found = _rows(db, sql, key)
    if not found:
        raise LookupError(f"there is no {what} {key}")
    return found[0]


def _day(text: str) -> str:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise ValueError("not a day, YYYY-MM-DD") from None
    if day.isoformat() != text or not 2000 <= day.year <= 2099:
        raise ValueError("not a day, YYYY-MM-DD, from 2000 to 2099")
    return text


def search_members(
    db: sqlite3.Connection, query: str = "", level: Literal["novice", "racing"] | None = None, limit: int = 20
) -> list[dict]:
    """Find members by name.

    Args:
        query: Part of the name; case does not matter.
        level: Only members of this level.
        limit: Most members to return, 1 to 50.
    """
    if not 1 <= limit <= 50:
        raise ValueError("limit must be between 1 and 50")
    sql = (
        "SELECT * FROM members WHERE (?1 = '' OR instr(lower(full_name), lower(?1)) > 0)"
        " AND (?2 IS NULL OR level = ?2) ORDER BY full_name, id LIMIT ?3"
    )
    return _rows(db, sql, query, level, limit)


def get_boat(db: sqlite3.Connection, boat_id: int) -> dict:
    """Show a boat and its bookings.

    Args:
        boat_id: Id of the boat.
    """
    boat = _one(db, "boat", "SELECT * FROM boats WHERE id = ?", boat_id)
    boat["bookings"] = _rows(db, "SELECT * FROM bookings WHERE boat_id = ? ORDER BY day, id", boat_id)
    return boat


def book_boat(db: sqlite3.Connection, boat_id: int, member_id: int, day: str) -> dict:
    """Book a boat for a member for one day.

    Args:
        boat_id: Id of the boat.
        member_id: Id of the member.
        day: A day, YYYY-MM-DD, today or later.
    """
    boat = _one(db, "boat", "SELECT * FROM boats WHERE id = ?", boat_id)
    _one(db, "member", "SELECT id FROM members WHERE id = ?", member_id)
    if _day(day) < date.today().isoformat():
        raise ValueError("the day is in the past")
    if boat["status"] != "ready":
        raise RuntimeError(f"boat {boat_id} is in repair")
    if _rows(db, "SELECT 1 FROM bookings WHERE boat_id = ? AND day = ?", boat_id, day):
        raise RuntimeError("the boat is booked on that day")
    sql = "INSERT INTO bookings (boat_id, member_id, day) VALUES (?, ?, ?)"
    new_id = db.execute(sql, (boat_id, member_id, day)).lastrowid
    return _one(db, "booking", "SELECT * FROM bookings WHERE id = ?", new_id)
'''
TASKS = {
    "book_for_ida": {"kind": "change", "instruction": "Book the Heron for Ida Moen on 10 June 2026."},
    "count_seats": {"kind": "query", "instruction": "How many seats has the Osprey?"},
}
SCENARIO = {"title": "Rowing club", "description": "A boathouse.", "categories": ["sports"], "rules": "- Be kind."}


def written(parts: dict[str, Any]) -> dict[str, str]:
    """Records as the parts of a product."""
    return {name: json.dumps(value) for name, value in parts.items()}


def rowing(code: str = CODE, tools: dict[str, Any] = TOOLS, **changes: Any) -> Draft:
    """The draft up to its code, with other tools or code where given."""
    made = Draft(
        id="rowing_1",
        name="Rowing club",
        clock=dt.datetime(2026, 6, 1, 8, tzinfo=dt.UTC),
        sizes=Sizes(tables=3, rows=15, tools=3, tasks=2),
        products={
            "scenario": written(SCENARIO),
            "task": written(TASKS),
            "database": products.read_sql(SCHEMA).parts,
            "sample_data": products.read_sql(SEED).parts,
            "toolset": written(tools),
        },
        **changes,
    )
    return made.having("code", products.python_parts(code))

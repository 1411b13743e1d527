"""Tools of a small plant book. Every public function is one tool; names that begin with _ are helpers.

The first parameter is the database. A business refusal is raised as LookupError (not found), ValueError (invalid),
PermissionError (forbidden) or RuntimeError (not now); anything else that is raised counts as a fault.
"""

import sqlite3
from datetime import date


def _plant(db: sqlite3.Connection, plant_id: int) -> sqlite3.Row:
    row: sqlite3.Row | None = db.execute("SELECT id, name, room FROM plants WHERE id = ?", (plant_id,)).fetchone()
    if row is None:
        raise LookupError(f"no plant {plant_id}")
    return row


def list_plants(db: sqlite3.Connection, room: str | None = None, only_due: bool = False) -> list[dict[str, object]]:
    """List plants with the day on which each needs water next, the most urgent first.

    Args:
        room: Only plants in this room.
        only_due: Only plants that need water today or are overdue.
    """
    rows = db.execute(
        "SELECT p.id, p.name, p.room, p.every_days, max(w.watered_on) AS watered_on,"
        " date(max(w.watered_on), '+' || p.every_days || ' days') AS due_on"
        " FROM plants p LEFT JOIN waterings w ON w.plant_id = p.id"
        " WHERE ? IS NULL OR p.room = ? GROUP BY p.id ORDER BY due_on, p.id",
        (room, room),
    )
    today = date.today().isoformat()
    return [dict(row) for row in rows if not only_due or row["due_on"] is None or row["due_on"] <= today]


def water_plant(db: sqlite3.Connection, plant_id: int) -> dict[str, object]:
    """Note that a plant was watered today.

    Args:
        plant_id: Which plant.
    """
    plant, today = _plant(db, plant_id), date.today().isoformat()
    done = db.execute("SELECT 1 FROM waterings WHERE plant_id = ? AND watered_on = ?", (plant_id, today)).fetchone()
    if done:
        raise RuntimeError(f"{plant['name']} was already watered today")
    added = db.execute("INSERT INTO waterings (plant_id, watered_on) VALUES (?, ?)", (plant_id, today))
    return {"id": added.lastrowid, "plant_id": plant_id, "watered_on": today}


def move_plant(db: sqlite3.Connection, plant_id: int, room: str) -> dict[str, object]:
    """Move a plant to another room.

    Args:
        plant_id: Which plant.
        room: The room it moves to.
    """
    if not room.strip():
        raise ValueError("the room has no name")
    _plant(db, plant_id)
    db.execute("UPDATE plants SET room = ? WHERE id = ?", (room, plant_id))
    return dict(_plant(db, plant_id))

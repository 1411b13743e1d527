"""Facts about an ending, for a judge: signals_<task>(initial, final, changes) returns JSON.

Whether an ending is right is decided by comparing it with the solution's. Write decide_<task> as well only where
several endings are right.
"""

import sqlite3
from typing import Any


def signals_due_today(initial: sqlite3.Connection, final: sqlite3.Connection, changes: Any) -> dict[str, Any]:
    """When each plant was watered last, and whether anything changed."""
    sql = (
        "SELECT name, every_days, max(watered_on) FROM plants JOIN waterings ON plant_id = plants.id GROUP BY plants.id"
    )
    return {"last_waterings": [list(row) for row in initial.execute(sql)], "changed_tables": sorted(changes.tables)}


def signals_move_and_water_the_fern(
    initial: sqlite3.Connection, final: sqlite3.Connection, changes: Any
) -> dict[str, Any]:
    """Where the fern stands, and what was watered."""
    return {
        "room_of_the_fern": final.execute("SELECT room FROM plants WHERE name = 'Fern'").fetchone()["room"],
        "new_waterings": [dict(row) for row in changes["waterings"].added],
        "moved_plants": [change.key for change in changes["plants"].changed],
    }

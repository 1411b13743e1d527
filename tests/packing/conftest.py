"""Source folders to change and pack."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

Source = Callable[..., Path]

SCENARIO = """
title = "Shelf"
categories = ["inventory"]
clock = 2026-03-02T09:00:00Z
interface = "functions"
"""
SCHEMA = "CREATE TABLE items (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, stock INTEGER NOT NULL);\n"
SEED = "INSERT INTO items (id, name, stock) VALUES (1, 'bolt', 10), (2, 'nut', 20);\n"
TOOLS = '''
import sqlite3


def list_items(db: sqlite3.Connection) -> list:
    """List all items."""
    return [dict(row) for row in db.execute("SELECT id, name, stock FROM items ORDER BY id")]


def set_stock(db: sqlite3.Connection, item_id: int, stock: int) -> int:
    """Set the stock of an item.

    Args:
        item_id: Which item.
        stock: New stock.
    """
    return db.execute("UPDATE items SET stock = ? WHERE id = ?", (stock, item_id)).rowcount
'''


@pytest.fixture
def notes_copy(tmp_path: Path, notes_source: Path) -> Path:
    """A copy of the sources of `notes`."""
    return Path(shutil.copytree(notes_source, tmp_path / "sources" / "notes"))


@pytest.fixture
def shelf(tmp_path: Path) -> Source:
    """Writes a small source folder, each file as given or the default."""

    def write(name: str = "shelf", **files: str) -> Path:
        folder = tmp_path / "sources" / name
        folder.mkdir(parents=True)
        texts = {"scenario_toml": SCENARIO, "schema_sql": SCHEMA, "seed_sql": SEED, "tools_py": TOOLS, "tasks_toml": ""}
        for file, text in {**texts, **files}.items():
            stem, _, extension = file.rpartition("_")
            (folder / f"{stem}.{extension}").write_text(text)
        return folder

    return write

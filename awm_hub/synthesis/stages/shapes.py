"""What a built database looks like: its tables, keys, references, views and triggers, as SQLite itself tells them.

It is read from the image, in a sealed fork. A statement's text says less: `REFERENCES t` leaves the column to the
parent's key, and a name may be written in any case.
"""

import datetime as dt
import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from awm_hub.errors import SandboxError, SealError
from awm_hub.runtime import jobs

_MOST_PROGRAMS = 60
"""Views and triggers that are tried."""
_TABLES = "(SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\')"
_COLUMNS_SQL = f"""
SELECT t.name AS "table", c.name AS "column", c.type, c.pk, c.dflt_value AS "default", c.hidden
FROM {_TABLES} t JOIN pragma_table_xinfo(t.name) c ORDER BY t.name, c.cid"""
_UNIQUE_SQL = f"""
SELECT t.name AS "table", i.name AS "index", c.name AS "column"
FROM {_TABLES} t JOIN pragma_index_list(t.name) i JOIN pragma_index_info(i.name) c
WHERE i."unique" AND NOT i.partial ORDER BY t.name, i.name, c.seqno"""
_REFERENCES_SQL = f"""
SELECT t.name AS child, f.id, f."table" AS parent, f."from" AS "column", f."to" AS target
FROM {_TABLES} t JOIN pragma_foreign_key_list(t.name) f ORDER BY t.name, f.id, f.seq"""
_PROGRAMS_SQL = "SELECT type, name, tbl_name FROM sqlite_master WHERE type IN ('view', 'trigger') ORDER BY type, name"
_GENERATED = (2, 3)


@dataclass(frozen=True, kw_only=True)
class TableShape:
    """One table."""

    name: str
    key: tuple[str, ...]
    types: Mapping[str, str]
    """Column → its type as declared."""
    defaults: Mapping[str, str | None]
    unique: frozenset[frozenset[str]]
    """Sets of columns that a reference may lead to, in lower case."""
    settable: tuple[str, ...]
    """Columns that are not generated."""


@dataclass(frozen=True, kw_only=True)
class Reference:
    """One foreign key."""

    child: str
    columns: tuple[str, ...]
    parent: str
    targets: tuple[str, ...]
    """Empty where the parent's key is meant."""


@dataclass(frozen=True, kw_only=True)
class Shapes:
    """A database without its rows."""

    tables: Mapping[str, TableShape]
    references: tuple[Reference, ...]
    views: tuple[str, ...]
    trials: tuple[tuple[str, str], ...]
    """Trigger, and a statement that it has to be compiled for."""

    @property
    def by_lower(self) -> dict[str, TableShape]:
        """The tables by their names in lower case."""
        return {name.lower(): table for name, table in self.tables.items()}

    def is_key(self, reference: Reference) -> bool:
        """Whether a reference leads to columns that tell rows of the parent apart."""
        parent = self.by_lower[reference.parent.lower()]
        if not reference.targets:
            return len(parent.key) == len(reference.columns)
        return frozenset(c.lower() for c in reference.targets) in parent.unique


async def read_shapes(image: bytes, clock: dt.datetime) -> Shapes:
    """The shapes of an image.

    Raises:
        ImageError: the image cannot be read.
        SandboxError: reading it takes too long.
    """
    columns, unique, references, programs = [
        await jobs.query(image, sql, clock=clock) for sql in (_COLUMNS_SQL, _UNIQUE_SQL, _REFERENCES_SQL, _PROGRAMS_SQL)
    ]
    names = dict.fromkeys(row["table"] for row in columns)
    tables = {name: _table(name, columns, unique) for name in names}
    triggers = [row for row in programs if row["type"] == "trigger"]
    trials = [(row["name"], sql) for row in triggers for sql in _trials(row["tbl_name"], tables)]
    return Shapes(
        tables=tables,
        references=_references(references),
        views=tuple(row["name"] for row in programs if row["type"] == "view")[:_MOST_PROGRAMS],
        trials=tuple({sql: (name, sql) for name, sql in trials}.values())[:_MOST_PROGRAMS],
    )


async def fault_of(image: bytes, sql: str, clock: dt.datetime) -> str | None:
    """Why a statement cannot be compiled; None where it can.

    Raises:
        SealError: this machine cannot seal a process.
    """
    try:
        await jobs.query(image, sql, clock=clock, max_rows=1)
    except SealError:
        raise
    except jobs.ImageError as error:
        return error.message.partition("Error: ")[2] or error.message
    except SandboxError:
        return "compiling it takes too much time or memory"
    return None


def quoted(name: str) -> str:
    """A name in SQL."""
    return '"' + name.replace('"', '""') + '"'


def near(name: str, known: Iterable[str]) -> str:
    """The end of a message: what may have been meant."""
    close = difflib.get_close_matches(name[:100], list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _table(name: str, columns: list[dict[str, Any]], unique: list[dict[str, Any]]) -> TableShape:
    own = [row for row in columns if row["table"] == name]
    key = tuple(row["column"] for row in sorted(own, key=lambda row: int(row["pk"])) if row["pk"])
    indexes: dict[str, list[str]] = {}
    for row in unique:
        if row["table"] == name:
            indexes.setdefault(row["index"], []).append(str(row["column"]).lower())
    return TableShape(
        name=name,
        key=key,
        types={row["column"]: str(row["type"]) for row in own},
        defaults={row["column"]: row["default"] for row in own},
        unique=frozenset(map(frozenset, indexes.values())) | {frozenset(c.lower() for c in key)},
        settable=tuple(row["column"] for row in own if row["hidden"] not in _GENERATED),
    )


def _references(rows: list[dict[str, Any]]) -> tuple[Reference, ...]:
    grouped: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for row in rows:
        grouped.setdefault((row["child"], row["id"]), []).append(row)
    return tuple(
        Reference(
            child=child,
            columns=tuple(row["column"] for row in group),
            parent=group[0]["parent"],
            targets=tuple(row["target"] for row in group if row["target"] is not None),
        )
        for (child, _), group in grouped.items()
    )


def _trials(name: str, tables: Mapping[str, TableShape]) -> list[str]:
    """Statements on a table that compile all its triggers."""
    found = [f"INSERT INTO {quoted(name)} DEFAULT VALUES", f"DELETE FROM {quoted(name)}"]
    if name in tables:
        changes = ", ".join(f"{quoted(column)} = {quoted(column)}" for column in tables[name].settable)
        found.append(f"UPDATE {quoted(name)} SET {changes}")
    return found

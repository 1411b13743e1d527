"""What differs between two databases, and the hash of what a database holds.

Everything here reads open `sqlite3` connections and returns JSON, so that it can run inside a sealed process. Only the
contents count, never the bytes of the image: two databases are equal here when their schema and their typed rows are.
A row is known by its declared primary key; rows without one, or with NULL in it, are compared as a multiset of whole
rows, so that of two equal rows one can be missing. Rowids are never looked at.

Tables are those of the user: no views, no internal `sqlite_` tables, no shadow tables of virtual tables (the virtual
table itself is read). Generated columns are columns like any other in diffs, dumps and the hash. Needs SQLite 3.37.
"""

import base64
import contextlib
import functools
import hashlib
import itertools
import marshal
import math
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from awm_hub.canonical import to_json
from awm_hub.errors import RecordError

Row = tuple[Any, ...]
_Signature = tuple[Row, tuple[type, ...]]

_ROWS_AT_ONCE = 500
_PARTS_KEPT = 4
_NO_ROWS = marshal.dumps([], 2)
_any_text = functools.partial(str, encoding="utf-8", errors="surrogateescape")
_HIDDEN, _GENERATED = 1, (2, 3)  # `hidden` in PRAGMA table_xinfo
_known_shapes: dict[tuple[Row, ...], tuple["TableShape", ...]] = {}
"""By schema: the databases of one job mostly have the same, and a process has few jobs."""
_unchanging: dict[int, list[Row]] = {}
"""Schema of the connections that are `unchanging`, by their identity."""
_known_order: dict[tuple[Row, ...], list[Row]] = {}
"""What `schema_rows` gives, by the rows as they are stored."""
_TYPE_ORDER = {"NoneType": 0, "int": 1, "float": 1, "str": 2, "BrokenText": 3, "bytes": 4}


@dataclass(frozen=True)
class BrokenText:
    """A value of type text whose bytes are no UTF-8."""

    raw: bytes


@dataclass(frozen=True, kw_only=True)
class TableShape:
    """One user table: its name and columns."""

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    """Columns of the declared primary key, in its order; empty where none is declared."""
    generated: frozenset[str]
    id_column: str | None
    """The primary key where it is a single INTEGER column, whose values SQLite hands out."""

    def key_of(self, row: Row) -> Row | None:
        """The key of a row, or None where it has none: no declared key, or NULL in it."""
        found = tuple(row[self.columns.index(name)] for name in self.key)
        return found if found and None not in found else None


@dataclass(frozen=True, kw_only=True)
class TableChanges:
    """Rows of one table that differ, as SQLite holds them."""

    shape: TableShape
    added: tuple[Row, ...] = ()
    removed: tuple[Row, ...] = ()
    changed: tuple[tuple[Row, Row], ...] = ()
    """Pairs (before, after) with the same key."""


@contextlib.contextmanager
def reading(*databases: sqlite3.Connection) -> Iterator[None]:
    """While text of these connections is read as str, or as `BrokenText` where it is no UTF-8."""
    before = [db.text_factory for db in databases]
    try:
        for db in databases:
            db.text_factory = _text
        yield
    finally:
        for db, factory in zip(databases, before, strict=True):
            db.text_factory = factory


@contextlib.contextmanager
def unchanging(*databases: sqlite3.Connection) -> Iterator[None]:
    """While the schema of these connections is only read, and is looked up once."""
    try:
        for db in databases:
            _unchanging[id(db)] = schema_rows(db)
        yield
    finally:
        for db in databases:
            _unchanging.pop(id(db), None)


def json_value(value: Any) -> Any:
    """JSON form of a cell.

    Bytes become `{"blob": base64}`, text that is no UTF-8 `{"text": base64}`, and an infinite number `{"real": "inf"}`;
    everything else is JSON already. The sign of a negative zero is dropped, since SQL cannot see it.
    """
    if isinstance(value, float):
        return value + 0.0 if math.isfinite(value) else {"real": str(value)}
    if isinstance(value, BrokenText):
        return {"text": base64.b64encode(value.raw).decode()}
    if isinstance(value, bytes):
        return {"blob": base64.b64encode(value).decode()}
    return value


def json_row(columns: Iterable[str], row: Row) -> dict[str, Any]:
    """A row as a JSON object."""
    return dict(zip(columns, map(json_value, row), strict=True))


def tables(db: sqlite3.Connection) -> tuple[TableShape, ...]:
    """The user's tables, by name.

    Raises:
        RecordError: a name in the schema is no UTF-8.
        sqlite3.DatabaseError: the database cannot be read.
    """
    schema = tuple(schema_rows(db))
    if schema not in _known_shapes:
        with reading(db):
            kinds = {row[1]: row[2] for row in select(db, "PRAGMA main.table_list")}
            names = sorted(_name(row[1]) for row in schema if row[0] == "table")
            _known_shapes[schema] = tuple(_table_shape(db, name) for name in names if kinds[name] != "shadow")
    return _known_shapes[schema]


def schema_rows(db: sqlite3.Connection) -> list[Row]:
    """Type, name, table and SQL of every schema object by type and name, without SQLite's internal ones."""
    if id(db) in _unchanging:
        return _unchanging[id(db)]
    sql = "SELECT type, name, tbl_name, sql FROM main.sqlite_master"
    before, db.text_factory = db.text_factory, _any_text
    try:
        stored = tuple(select(db, sql))
    finally:
        db.text_factory = before
    if stored not in _known_order:
        with reading(db):
            found = select(db, sql)
            _known_order[stored] = sorted(
                (row for row in found if not str(row[1]).lower().startswith("sqlite_")), key=_order
            )
    return _known_order[stored]


def rows(db: sqlite3.Connection, shape: TableShape, columns: tuple[str, ...] | None = None) -> Iterator[Row]:
    """All rows of a table in stored order; call it within `reading`."""
    names = ", ".join(map(quoted, columns or shape.columns))
    return select(db, f"SELECT {names} FROM main.{quoted(shape.name)} NOT INDEXED")


def select(db: sqlite3.Connection, sql: str) -> Iterator[Row]:
    """Rows of a statement as plain tuples, whatever row factory the connection has."""
    cursor = db.cursor()
    cursor.row_factory = None
    return iter(cursor.execute(sql))


def quoted(name: str) -> str:
    """A name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def diff(
    initial: sqlite3.Connection,
    final: sqlite3.Connection,
    *,
    volatile: Iterable[str] = (),
    among: Collection[str] | None = None,
) -> dict[str, Any]:
    """Rows added, removed and changed, in the JSON form of `StateDiff`; only tables that differ.

    A changed row is shown whole, before and after. A table that was created, dropped or given other columns is shown
    as all its rows added or removed. `volatile` names columns (`table.column`) to leave out, unless they are keys;
    `among` are the `differing_tables`, where they are known already.

    Raises:
        RecordError: a name in the schema is no UTF-8.
        sqlite3.DatabaseError: a database cannot be read.
    """
    found: dict[str, Any] = {}
    for changes in table_changes(initial, final, leave_out=volatile, among=among):
        shape = changes.shape
        table = found.setdefault(shape.name, {"added": [], "removed": [], "changed": []})
        table["added"] += [json_row(shape.columns, row) for row in changes.added]
        table["removed"] += [json_row(shape.columns, row) for row in changes.removed]
        table["changed"] += [_json_change(shape, *pair) for pair in changes.changed]
    return found


def table_changes(
    initial: sqlite3.Connection,
    final: sqlite3.Connection,
    *,
    leave_out: Iterable[str] = (),
    among: Collection[str] | None = None,
) -> Iterator[TableChanges]:
    """The tables that differ, by name, with their rows in the order of their keys.

    Args:
        initial: One database.
        final: The other one.
        leave_out: Columns (`table.column`) that do not count, unless they are keys.
        among: The `differing_tables`, where they are known already.

    Raises:
        RecordError: a name in the schema is no UTF-8.
        sqlite3.DatabaseError: a database cannot be read.
    """
    absent = names_of(leave_out)
    if among is None:
        among = differing_tables(initial, final)
    before = {shape.name: _without(shape, absent) for shape in tables(initial)}
    after = {shape.name: _without(shape, absent) for shape in tables(final)}
    with reading(initial, final):
        for name in sorted(among):
            yield from _changes_of(initial, final, before.get(name), after.get(name))


def differing_tables(
    initial: sqlite3.Connection, final: sqlite3.Connection, *, read: dict[str, list[bytes]] | None = None
) -> frozenset[str]:
    """Names of the tables that are not the same in both: in their columns, their rows, or the order of their rows.

    Args:
        initial: One database.
        final: The other one.
        read: What has been read of `initial`, where it is compared with many; small tables are added.

    Raises:
        RecordError: a name in the schema is no UTF-8.
        sqlite3.DatabaseError: a database cannot be read.
    """
    before, after = ({shape.name: shape for shape in tables(db)} for db in (initial, final))
    found = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    with reading(initial, final):
        same = [before[name] for name in before if name not in found]
        return frozenset(found) | {shape.name for shape in same if not _are_rows_equal(initial, final, shape, read)}


def names_of(columns: Iterable[str]) -> frozenset[str]:
    """`table.column` names in the form in which they are compared: SQL names know no case."""
    return frozenset(name.lower() for name in columns)


def logical_hash(db: sqlite3.Connection) -> str:
    """SHA-256 of the schema and the typed rows.

    Hashed are lines of canonical JSON: each object of sqlite_master as `["schema", type, name, table, sql]`, by type
    and name; then for each table `["table", name, [column, …], rows]`, followed by the SHA-256 digests of its rows
    (each a JSON list) in ascending order. The order of insertion, rowids and VACUUM leave no trace in it.

    Raises:
        RecordError: a name in the schema is no UTF-8.
        sqlite3.DatabaseError: the database cannot be read.
    """
    total = hashlib.sha256()
    with reading(db):
        for row in schema_rows(db):
            total.update(_line(["schema", *map(json_value, row)]))
        for shape in tables(db):
            digests = sorted(hashlib.sha256(_line([*map(json_value, row)])).digest() for row in rows(db, shape))
            total.update(_line(["table", shape.name, list(shape.columns), len(digests)]))
            for digest in digests:
                total.update(digest)
    return total.hexdigest()


def dump(db: sqlite3.Connection, max_rows: int) -> dict[str, Any]:
    """The first rows of every table as JSON: `{table: {columns, rows, total}}`.

    Raises:
        RecordError: a name in the schema is no UTF-8.
        sqlite3.DatabaseError: the database cannot be read.
    """
    found: dict[str, Any] = {}
    with reading(db):
        for shape in tables(db):
            shown = itertools.islice(rows(db, shape), max_rows)
            found[shape.name] = {
                "columns": list(shape.columns),
                "rows": [[*map(json_value, row)] for row in shown],
                "total": next(select(db, f"SELECT count(*) FROM main.{quoted(shape.name)} NOT INDEXED"))[0],
            }
    return found


def _text(raw: bytes) -> str | BrokenText:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return BrokenText(raw)


def _name(value: Any) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise RecordError(f"the database schema holds a broken name: {value!r}")
    return value


def _table_shape(db: sqlite3.Connection, name: str) -> TableShape:
    found = [row for row in select(db, f"PRAGMA main.table_xinfo({quoted(name)})") if row[6] != _HIDDEN]
    key = [row for row in sorted(found, key=lambda row: int(row[5])) if row[5]]
    has_id = len(key) == 1 and str(key[0][2]).upper() == "INTEGER"
    return TableShape(
        name=name,
        columns=tuple(_name(row[1]) for row in found),
        key=tuple(_name(row[1]) for row in key),
        generated=frozenset(row[1] for row in found if row[6] in _GENERATED),
        id_column=key[0][1] if has_id else None,
    )


def _without(shape: TableShape, absent: frozenset[str]) -> TableShape:
    if not absent:
        return shape
    kept = tuple(c for c in shape.columns if c in shape.key or f"{shape.name}.{c}".lower() not in absent)
    return TableShape(
        name=shape.name, columns=kept, key=shape.key, generated=shape.generated, id_column=shape.id_column
    )


def _changes_of(
    initial: sqlite3.Connection, final: sqlite3.Connection, before: TableShape | None, after: TableShape | None
) -> Iterator[TableChanges]:
    if before is not None and before == after:
        removed, added = _unmatched(rows(initial, before), rows(final, before))
        if removed or added:
            yield _paired(before, removed, added)
        return
    if before is not None and (gone := sorted(rows(initial, before), key=_order)):
        yield TableChanges(shape=before, removed=tuple(gone))
    if after is not None and (new := sorted(rows(final, after), key=_order)):
        yield TableChanges(shape=after, added=tuple(new))


def _are_rows_equal(
    one: sqlite3.Connection, other: sqlite3.Connection, shape: TableShape, read: dict[str, list[bytes]] | None
) -> bool:
    """Whether two tables hold the same rows in the same order: most do, and this is quick to see."""
    factories = one.text_factory, other.text_factory
    one.text_factory = other.text_factory = _any_text
    try:
        if read is not None and shape.name not in read:
            first = list(itertools.islice(_parts(one, shape), _PARTS_KEPT))
            if not first or first[-1] == _NO_ROWS:
                read[shape.name] = first
        left = iter(read[shape.name]) if read is not None and shape.name in read else _parts(one, shape)
        return all(one == other for one, other in zip(left, _parts(other, shape), strict=False))
    finally:
        one.text_factory, other.text_factory = factories


def _parts(db: sqlite3.Connection, shape: TableShape) -> Iterator[bytes]:
    """The rows of a table, some at a time, as bytes that are equal where they are; the last part has none."""
    found = rows(db, shape)
    while True:
        # marshal tells 1 from 1.0, and without references (version 2) equal values have equal bytes
        part = marshal.dumps(list(itertools.islice(found, _ROWS_AT_ONCE)), 2)
        yield part
        if part == _NO_ROWS:
            return


def _unmatched(old: Iterator[Row], new: Iterator[Row]) -> tuple[list[Row], list[Row]]:
    """The multiset difference of two streams; holds only what is displaced, not the tables."""
    removed: Counter[_Signature] = Counter()
    added: Counter[_Signature] = Counter()
    for one, other in itertools.zip_longest(map(_signature, old), map(_signature, new)):
        if one != other:
            _settle(one, removed, added)
            _settle(other, added, removed)
    return [row for row, _ in removed.elements()], [row for row, _ in added.elements()]


def _signature(row: Row) -> _Signature:
    """A row with its types: the integer 1 and the real 1.0 are equal in Python, but not in a database."""
    return row, tuple(map(type, row))


def _settle(row: _Signature | None, own: Counter[_Signature], other: Counter[_Signature]) -> None:
    if row is None:
        return
    if row not in other:
        own[row] += 1
    elif other[row] == 1:
        del other[row]
    else:
        other[row] -= 1


def _paired(shape: TableShape, removed: list[Row], added: list[Row]) -> TableChanges:
    """Join what was removed and added under the same key into changes."""
    old, old_others = _by_key(shape, removed)
    new, new_others = _by_key(shape, added)
    common = old.keys() & new.keys()

    def key_order(row: Row) -> tuple[Any, ...]:
        return _order(shape.key_of(row) or ()), _order(row)

    return TableChanges(
        shape=shape,
        added=tuple(sorted([*(r for k, r in new.items() if k not in common), *new_others], key=key_order)),
        removed=tuple(sorted([*(r for k, r in old.items() if k not in common), *old_others], key=key_order)),
        changed=tuple(sorted(((old[k], new[k]) for k in common), key=lambda pair: key_order(pair[0]))),
    )


def _by_key(shape: TableShape, found: list[Row]) -> tuple[dict[Row, Row], list[Row]]:
    """Rows by key, and those that have none; a damaged database may hold a key twice."""
    keyed: dict[Row, Row] = {}
    others = []
    for row in found:
        key = shape.key_of(row)
        if key is None or key in keyed:
            others.append(row)
        else:
            keyed[key] = row
    return keyed, others


def _order(row: Row) -> tuple[Any, ...]:
    """Sort key of typed values: NULL, numbers, text, text that is no UTF-8, blobs."""
    return tuple((_TYPE_ORDER[type(v).__name__], _comparable(v), type(v).__name__) for v in row)


def _comparable(value: Any) -> Any:
    if isinstance(value, BrokenText):
        return value.raw
    return 0 if value is None else value


def _json_change(shape: TableShape, before: Row, after: Row) -> dict[str, Any]:
    return {
        "key": json_row(shape.key, shape.key_of(before) or ()),
        "before": json_row(shape.columns, before),
        "after": json_row(shape.columns, after),
    }


def _line(value: Any) -> bytes:
    return to_json(value).encode() + b"\n"

"""The decision derived from a solution: whether two endings of one task are the same.

An ending is compared by its changes against the seed, as a multiset: an ending is right when it makes the changes that
the reference solution makes, in any order. What may differ between right endings is left out:

- **ids of new rows**: a primary key that is a single INTEGER column counts as no content, unless it is a foreign key
  itself. A foreign key to a new row stands for that row's content, however deep, and a new row is also told apart by
  the rows that refer to it. A link that the schema does not declare is compared as a plain value.
- **volatile and free columns**, and generated columns, which follow from the others. A row that differs in nothing else
  does not differ: writing only the time stamp of a further row is no difference.
- **REAL values** within 1e-6, relative or absolute, of each other; integers and text are exact.

Rows without a key count by how many equal ones there are. Changes of the schema count. An id that is freed and used
again for a new row looks like a changed row (AUTOINCREMENT prevents that).
"""

import bisect
import math
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from awm_hub.canonical import to_json
from awm_hub.sandbox import statediff
from awm_hub.sandbox.statediff import Row, TableChanges, TableShape

REAL_TOLERANCE = 1e-6
MAX_DIFFERENCES = 20
MAX_ROUNDS = 40
"""Chains of new rows that are equal but for what they link to are told apart up to this length."""
_SHOWN_LENGTH = 300


@dataclass(frozen=True, kw_only=True)
class Change:
    """One change against the seed, in a form that two endings can share."""

    table: str
    kind: str
    """`added`, `removed` or `changed` for rows with a key, `row` for rows without one, `schema` for DDL."""
    weight: int = 1
    """-1 where a row without a key, or a schema object, is gone."""
    key: Row = ()
    """Of a removed or changed row."""
    cells: tuple[tuple[str, Any], ...] = ()
    """Compared columns and their values after the change, without those in `links`."""
    links: tuple[tuple[str, int], ...] = ()
    """Columns that refer to a new row, with the position of its change."""
    row: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """The whole row, as SQLite holds it."""


def same_ending(
    initial: sqlite3.Connection,
    expected: sqlite3.Connection,
    actual: sqlite3.Connection,
    *,
    volatile: Collection[str] = (),
    free: Collection[str] = (),
    kind: str | None = "change",
) -> tuple[bool, list[str]]:
    """Whether `actual` is as right an ending as `expected`, and at most 20 differences in words.

    For kind `query` nothing may have changed, whatever the solution did; only `volatile` columns are left out then.

    Raises:
        RecordError: a name in a schema is no UTF-8.
        sqlite3.DatabaseError: a database cannot be read.
    """
    wanted = wanted_changes(initial, expected, volatile=volatile, free=free, kind=kind)
    return same_changes(wanted, initial, actual, volatile=volatile, free=free, kind=kind)


def wanted_changes(
    initial: sqlite3.Connection,
    expected: sqlite3.Connection,
    *,
    volatile: Collection[str],
    free: Collection[str],
    kind: str | None,
) -> tuple[Change, ...]:
    """What `same_changes` compares with: the changes of the solution, none for kind `query`."""
    return () if kind == "query" else seed_changes(initial, expected, volatile=volatile, free=free)


def same_changes(
    wanted: Sequence[Change],
    initial: sqlite3.Connection,
    actual: sqlite3.Connection,
    *,
    volatile: Collection[str],
    free: Collection[str],
    kind: str | None,
    among: Collection[str] | None = None,
) -> tuple[bool, list[str]]:
    """`same_ending` for many endings of one task, whose `wanted_changes` are looked up once.

    `among` are the tables in which `actual` differs from `initial`, where they are known already.

    Raises:
        RecordError: a name in a schema is no UTF-8.
        sqlite3.DatabaseError: a database cannot be read.
    """
    ignored = () if kind == "query" else free
    found = differences(wanted, seed_changes(initial, actual, volatile=volatile, free=ignored, among=among))
    return not found, found


def seed_changes(
    initial: sqlite3.Connection,
    final: sqlite3.Connection,
    *,
    volatile: Collection[str] = (),
    free: Collection[str] = (),
    among: Collection[str] | None = None,
) -> tuple[Change, ...]:
    """The changes that lead from the seed to an ending.

    Raises:
        RecordError: a name in a schema is no UTF-8.
        sqlite3.DatabaseError: a database cannot be read.
    """
    ignored = statediff.names_of([*volatile, *free])
    plain: list[Change] = []
    with statediff.reading(initial, final):
        shapes = statediff.tables(final)
        links = _links(final, shapes)
        for changes in statediff.table_changes(initial, final, among=among):
            plain += _plain_changes(changes, ignored, _linking(links.get(changes.shape.name, ())))
        plain += _schema_changes(initial, final)
    targets = _NewRows(plain)
    return tuple(_linked(change, at, links.get(change.table, ()), targets) for at, change in enumerate(plain))


def differences(expected: Sequence[Change], actual: Sequence[Change]) -> list[str]:
    """At most 20 things that distinguish two endings, in words; empty when they are the same."""
    every = [*expected, *_shifted(actual, len(expected))]
    weights = [c.weight for c in expected] + [-c.weight for c in actual]
    own = _own_classes(every)
    found = [_difference(every[first], net) for first, net in _unbalanced(own, weights)[:MAX_DIFFERENCES]]
    if not found:
        deep = _unbalanced(_deep_classes(every, own), weights)
        found = [_misplaced(every[first]) for first, net in deep if net < 0][:MAX_DIFFERENCES]
    return found


def is_same_value(one: Any, other: Any) -> bool:
    """Whether two cells are equal: numbers within the tolerance if one is REAL, everything else exactly."""
    if isinstance(one, int | float) and isinstance(other, int | float) and (type(one), type(other)) != (int, int):
        return math.isclose(one, other, rel_tol=REAL_TOLERANCE, abs_tol=REAL_TOLERANCE)
    return type(one) is type(other) and bool(one == other)


@dataclass(frozen=True, kw_only=True)
class _ForeignKey:
    columns: tuple[str, ...]
    parent: str
    parent_columns: tuple[str, ...]


_known_links: dict[tuple[Row, ...], dict[str, tuple[_ForeignKey, ...]]] = {}
"""Foreign keys of each table, by schema; a process has few schemas."""


def _links(db: sqlite3.Connection, shapes: tuple[TableShape, ...]) -> dict[str, tuple[_ForeignKey, ...]]:
    schema = tuple(statediff.schema_rows(db))
    if schema not in _known_links:
        _known_links[schema] = {shape.name: _foreign_keys(db, shape, shapes) for shape in shapes}
    return _known_links[schema]


def _foreign_keys(db: sqlite3.Connection, shape: TableShape, shapes: Iterable[TableShape]) -> tuple[_ForeignKey, ...]:
    parents = {parent.name.lower(): parent for parent in shapes}
    parts: dict[int, list[Row]] = defaultdict(list)
    for row in statediff.select(db, f"PRAGMA main.foreign_key_list({statediff.quoted(shape.name)})"):
        parts[row[0]].append(row)
    found = []
    for _, group in sorted(parts.items()):
        parent = parents.get(str(group[0][2]).lower())
        group = sorted(group, key=lambda row: int(row[1]))
        targets = tuple(row[4] for row in group)
        if parent is not None:
            targets = parent.key if None in targets else _spelled(parent, targets)
            found.append(
                _ForeignKey(columns=_spelled(shape, [r[3] for r in group]), parent=parent.name, parent_columns=targets)
            )
    return tuple(found)


def _spelled(shape: TableShape, names: Iterable[Any]) -> tuple[str, ...]:
    """Column names as the table spells them."""
    spelling = {name.lower(): name for name in shape.columns}
    return tuple(spelling.get(str(name).lower(), str(name)) for name in names)


def _linking(keys: Iterable[_ForeignKey]) -> frozenset[str]:
    return frozenset(name for key in keys for name in key.columns)


def _plain_changes(changes: TableChanges, ignored: frozenset[str], linking: frozenset[str]) -> Iterator[Change]:
    """Changes of one table, with links to new rows still as values."""
    shape = changes.shape
    compared = [c for c in shape.columns if c not in shape.generated and f"{shape.name}.{c}".lower() not in ignored]
    content = [c for c in compared if c != shape.id_column or c in linking]
    for row in changes.removed:
        key = shape.key_of(row)
        yield _change(shape, row, "removed", (), key=key) if key else _change(shape, row, "row", content, weight=-1)
    for row in changes.added:
        yield _change(shape, row, "added" if shape.key_of(row) else "row", content)
    for before, after in changes.changed:
        pairs = zip(shape.columns, before, after, strict=True)
        moved = [name for name, old, new in pairs if name in compared and not is_same_value(old, new)]
        if moved:
            yield _change(shape, after, "changed", moved, key=shape.key_of(after))


def _change(
    shape: TableShape, row: Row, kind: str, columns: Collection[str], *, weight: int = 1, key: Row | None = None
) -> Change:
    values = dict(zip(shape.columns, row, strict=True))
    cells = tuple((name, value) for name, value in values.items() if name in columns)
    return Change(table=shape.name, kind=kind, weight=weight, key=key or (), cells=cells, row=values)


def _schema_changes(initial: sqlite3.Connection, final: sqlite3.Connection) -> Iterator[Change]:
    before, after = (Counter(statediff.schema_rows(db)) for db in (initial, final))
    for rows, weight in ((before - after, -1), (after - before, 1)):
        for row in rows:
            cells = tuple(zip(("type", "name", "table", "sql"), row, strict=True))
            yield Change(table=str(row[1]), kind="schema", weight=weight, cells=cells, row=dict(cells))


class _NewRows:
    """Finds the change that added a row, by the values a foreign key holds."""

    def __init__(self, changes: Sequence[Change]) -> None:
        self._changes = changes
        self._known: dict[tuple[str, tuple[str, ...]], dict[Row, int]] = {}

    def find(self, key: _ForeignKey, values: Row) -> int | None:
        """The position of the change, or None where the values name no new row."""
        at = (key.parent, key.parent_columns)
        if at not in self._known:
            self._known[at] = dict(self._entries(*at))
        return None if None in values else self._known[at].get(values)

    def _entries(self, parent: str, columns: tuple[str, ...]) -> Iterator[tuple[Row, int]]:
        for at, change in enumerate(self._changes):
            if change.table == parent and _is_new_row(change):
                yield tuple(change.row.get(name) for name in columns), at


def _is_new_row(change: Change) -> bool:
    return change.kind == "added" or (change.kind == "row" and change.weight > 0)


def _linked(change: Change, at: int, keys: Iterable[_ForeignKey], new_rows: _NewRows) -> Change:
    """A change with the foreign keys to new rows replaced by links."""
    if change.kind != "changed" and not _is_new_row(change):
        return change
    compared = {name for name, _ in change.cells}
    links = []
    for key in keys:
        target = new_rows.find(key, tuple(change.row.get(name) for name in key.columns))
        if target is not None:
            links += [(name, target) for name in key.columns if name in compared]
    replaced = {name for name, _ in links}
    return replace(change, cells=tuple(c for c in change.cells if c[0] not in replaced), links=tuple(links))


def _shifted(changes: Iterable[Change], offset: int) -> Iterator[Change]:
    for change in changes:
        yield replace(change, links=tuple((name, target + offset) for name, target in change.links))


def _own_classes(changes: Sequence[Change]) -> list[int]:
    """A number per change; equal where two changes are equal but for the rows they link to."""
    inexact = {(c.table, name) for c in changes for name, value in c.cells if _is_finite_real(value)}
    known = _Classes()
    found = []
    for at, change in enumerate(changes):
        cells: list[Hashable] = []
        numbers = []
        for name, value in change.cells:
            is_number = isinstance(value, int | float) and math.isfinite(value)
            if is_number and (change.table, name) in inexact:
                numbers.append(value)
                cells.append(name)
            else:
                cells.append((name, type(value), value))
        links = tuple((name, None if target == at else changes[target].table) for name, target in change.links)
        found.append(known.find((change.table, change.kind, change.key, tuple(cells), links), tuple(numbers)))
    return found


def _is_finite_real(value: Any) -> bool:
    return isinstance(value, float) and math.isfinite(value)


class _Classes:
    """Numbers what is equal: the exact part by hash, the inexact numbers by tolerance to the first of their class."""

    def __init__(self) -> None:
        self._known: dict[Hashable, list[tuple[Row, int]]] = defaultdict(list)
        self._count = 0

    def find(self, exact: Hashable, numbers: Row) -> int:
        """The number of the class, a new one if there is none yet."""
        known = self._known[exact]
        first = numbers[0] if numbers else 0
        slack = 2 * REAL_TOLERANCE * max(1.0, abs(first))
        start = bisect.bisect_left(known, first - slack, key=_first_number)
        for at in range(start, len(known)):
            if numbers and known[at][0][0] > first + slack:
                break
            if all(map(is_same_value, known[at][0], numbers)):
                return known[at][1]
        self._count += 1
        bisect.insort(known, (numbers, self._count), key=_first_number)
        return self._count


def _first_number(entry: tuple[Row, int]) -> Any:
    return entry[0][0] if entry[0] else 0


def _deep_classes(changes: Sequence[Change], own: Sequence[int]) -> list[int]:
    """Refine the classes by those of linked rows, in both directions, until that tells no more changes apart."""
    referrers: list[list[tuple[str, str, int]]] = [[] for _ in changes]
    for at, change in enumerate(changes):
        for name, target in change.links:
            referrers[target].append((change.table, name, at))
    linked = [at for at, change in enumerate(changes) if change.links or referrers[at]]
    classes = list(own)
    for _ in range(MAX_ROUNDS):
        numbers: dict[Hashable, int] = {}
        refined = []
        for at in linked:
            targets = tuple(classes[target] for _, target in changes[at].links)
            sources = tuple(sorted((table, name, classes[source]) for table, name, source in referrers[at]))
            refined.append(numbers.setdefault((classes[at], targets, sources), -1 - len(numbers)))
        if len(numbers) == len({classes[at] for at in linked}):
            break
        for at, number in zip(linked, refined, strict=True):
            classes[at] = number
    return classes


def _unbalanced(classes: Sequence[int], weights: Sequence[int]) -> list[tuple[int, int]]:
    """Classes whose weights do not cancel out: (position of the first change, net weight)."""
    net: Counter[int] = Counter()
    first: dict[int, int] = {}
    for at, (number, weight) in enumerate(zip(classes, weights, strict=True)):
        net[number] += weight
        first.setdefault(number, at)
    return [(first[number], weight) for number, weight in net.items() if weight]


def _difference(change: Change, net: int) -> str:
    """One difference in words; `net` is positive where the solution has more of the change."""
    row = _shown(change.row)
    moved = _shown({name: change.row[name] for name in _moved(change)})
    too_few = {
        "added": f"missing row {row}",
        "removed": f"row {row} is still there",
        "changed": f"row {_shown_key(change)} lacks the change {moved}",
        "row": f"{abs(net)} too few of row {row}",
        "schema": f"the schema lacks {row}",
    }
    too_many = {
        "added": f"extra row {row}",
        "removed": f"row {row} is gone",
        "changed": f"row {_shown_key(change)} has the change {moved}",
        "row": f"{abs(net)} too many of row {row}",
        "schema": f"the schema has {row}",
    }
    return f"{change.table}: {(too_few if net > 0 else too_many)[change.kind]}"


def _misplaced(change: Change) -> str:
    return f"{change.table}: row {_shown(change.row)} is linked to other new rows than in the solution"


def _moved(change: Change) -> list[str]:
    return [name for name, _ in change.cells] + [name for name, _ in change.links]


def _shown_key(change: Change) -> str:
    return to_json([statediff.json_value(value) for value in change.key])


def _shown(row: Mapping[str, Any]) -> str:
    text = to_json({name: statediff.json_value(value) for name, value in row.items()})
    return text if len(text) <= _SHOWN_LENGTH else text[:_SHOWN_LENGTH] + "…"

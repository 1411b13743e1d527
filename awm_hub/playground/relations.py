"""What tables hold and how they refer to each other, read from their DDL; and the rows of their sample data.

Both are read as text: no SQL is run, so that a page can show them before any process is started. A statement that is
written in another way than usual gives less (a table without columns, a cell that holds an expression), never an error.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from awm_hub.environment import Environment, SeedTable, Table
from awm_hub.packing.statements import Token, tokens

_MAX_COLUMNS = 400
_CONSTRAINTS = ("CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "FOREIGN")
_AFTER_TYPE = (
    "CONSTRAINT", "PRIMARY", "NOT", "NULL", "UNIQUE", "CHECK", "DEFAULT", "COLLATE", "REFERENCES", "GENERATED", "AS",
)  # fmt: skip

Cell = str | int | float | None
"""What a grid shows of a value; a value that is no literal is shown as its SQL."""


@dataclass(frozen=True, kw_only=True)
class TableColumn:
    """One column."""

    name: str
    type: str
    is_key: bool = False
    """Part of the primary key."""
    is_required: bool = False


@dataclass(frozen=True, kw_only=True)
class Reference:
    """A foreign key."""

    columns: tuple[str, ...]
    target: str
    """The table that is referred to, as its own DDL spells it where it is there."""


@dataclass(frozen=True, kw_only=True)
class Relation:
    """A table's columns and foreign keys."""

    name: str
    columns: tuple[TableColumn, ...]
    references: tuple[Reference, ...]

    @property
    def shown_columns(self) -> tuple[TableColumn, ...]:
        """Columns of the primary and the foreign keys, which a diagram shows."""
        referring = {name for reference in self.references for name in reference.columns}
        return tuple(c for c in self.columns if c.is_key or c.name in referring)


def relations(environment: Environment) -> tuple[Relation, ...]:
    """The tables of an environment, in the order of creation."""
    found = [_relation(table) for table in environment.tables]
    names = {r.name.lower(): r.name for r in found}
    return tuple(
        Relation(
            name=r.name,
            columns=r.columns,
            references=tuple(
                Reference(columns=f.columns, target=names.get(f.target.lower(), f.target)) for f in r.references
            ),
        )
        for r in found
    )


def _relation(table: Table) -> Relation:
    columns: dict[str, TableColumn] = {}
    keys: list[str] = []
    references: list[Reference] = []
    for words in _definitions(table.ddl):
        if words[0].is_word(*_CONSTRAINTS):
            at = next((i for i, w in enumerate(words) if w.is_word("PRIMARY", "FOREIGN", "UNIQUE", "CHECK")), 0)
            named = _names(words[at + 2 :])
            if words[at].is_word("PRIMARY"):
                keys += named
            elif words[at].is_word("FOREIGN"):
                references += _referred(words, tuple(named))
        elif words[0].is_name:
            column = _column(words)
            columns.setdefault(column.name, column)
            references += _referred(words, (column.name,))
    return Relation(name=table.name, columns=tuple(_keyed(columns.values(), keys)), references=tuple(references))


def _keyed(columns: Iterable[TableColumn], keys: Sequence[str]) -> Iterator[TableColumn]:
    lowered = {k.lower() for k in keys}
    for c in columns:
        is_key = c.is_key or c.name.lower() in lowered
        yield TableColumn(name=c.name, type=c.type, is_key=is_key, is_required=c.is_required or is_key)


def _column(words: Sequence[Token]) -> TableColumn:
    end = next((i for i, w in enumerate(words) if i and w.is_word(*_AFTER_TYPE)), len(words))
    type_ = "".join(f" {w.value}" if w.kind == "word" else w.value for w in words[1:end]).strip()
    is_key = _has(words, "PRIMARY", "KEY")
    return TableColumn(name=words[0].name, type=type_, is_key=is_key, is_required=is_key or _has(words, "NOT", "NULL"))


def _has(words: Sequence[Token], first: str, second: str) -> bool:
    """Whether two keywords follow each other outside of all parentheses."""
    depth = 0
    for word, after in pairwise(words):
        depth += (word.value == "(") - (word.value == ")")
        if depth == 0 and word.is_word(first) and after.is_word(second):
            return True
    return False


def _referred(words: Sequence[Token], columns: tuple[str, ...]) -> Iterator[Reference]:
    for word, target in pairwise(words):
        if word.is_word("REFERENCES") and target.is_name:
            yield Reference(columns=columns, target=target.name)
            return


def _names(words: Sequence[Token]) -> list[str]:
    """Names in the first parentheses, without sort orders and collations."""
    found, is_open, is_next = [], False, False
    for word in words:
        if word.value == ")":
            break
        if word.value in ("(", ","):
            is_open = is_next = True
        elif is_open and is_next and word.is_name:
            found.append(word.name)
            is_next = False
    return found


def _definitions(ddl: str) -> Iterator[list[Token]]:
    """What stands between the commas of the outer parentheses."""
    found: list[Token] = []
    depth = count = 0
    for word in tokens(ddl):
        if word.value == "(":
            depth += 1
            if depth == 1:
                continue
        elif word.value == ")":
            depth -= 1
            if depth == 0:
                break
        if depth == 1 and word.value == ",":
            if found:
                yield found
            found, count = [], count + 1
            if count > _MAX_COLUMNS:
                return
        elif depth:
            found.append(word)
    if found:
        yield found


@dataclass(frozen=True, kw_only=True)
class SeedRows:
    """Sample data of one table."""

    table: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    is_cut: bool = False
    """Whether there are more rows than these."""


def seed_rows(environment: Environment, table: str, *, most: int = 500) -> SeedRows:
    """The first rows of a table's sample data.

    Args:
        environment: Whose.
        table: Its name.
        most: Rows.
    """
    known = next((t for t in environment.tables if t.name == table), None)
    columns = [c.name for c in _relation(known).columns] if known else []
    found: list[dict[str, Cell]] = []
    for seed in environment.seed:
        if seed.table.lower() == table.lower():
            for row in _rows(seed, columns):
                if len(found) == most:
                    return _grid(table, columns, found, is_cut=True)
                found.append(row)
    return _grid(table, columns, found, is_cut=False)


def _grid(table: str, columns: Sequence[str], found: Sequence[dict[str, Cell]], *, is_cut: bool) -> SeedRows:
    names = list(dict.fromkeys([*columns, *(name for row in found for name in row)]))
    cells = tuple(tuple(row.get(name) for name in names) for row in found)
    return SeedRows(table=table, columns=tuple(names), rows=cells, is_cut=is_cut)


def _rows(seed: SeedTable, columns: Sequence[str]) -> Iterator[dict[str, Cell]]:
    """Rows as the statements name them; one whose values are not written out is left out."""
    for statement in seed.inserts:
        words = tokens(statement)
        head = []
        for word in words:
            if word.is_word("VALUES"):
                break
            head.append(word)
        names = _names(head[2:]) or list(columns)
        for values in _tuples(words, statement):
            named = names if len(names) >= len(values) else [*names, *(f"?{i}" for i in range(len(values)))]
            yield dict(zip(named, values, strict=False))


def _tuples(words: Iterator[Token], statement: str) -> Iterator[list[Cell]]:
    depth = 0
    values: list[Cell] = []
    item: list[Token] = []
    for word in words:
        if word.value == "(":
            depth += 1
            if depth == 1:
                values, item = [], []
                continue
        elif word.value == ")":
            depth -= 1
            if depth == 0:
                yield [*values, _value(item, statement)]
                continue
        if depth == 0:
            if word.value != ",":
                return
        elif depth == 1 and word.value == ",":
            values.append(_value(item, statement))
            item = []
        else:
            item.append(word)


def _value(item: Sequence[Token], statement: str) -> Cell:
    if not item:
        return None
    written = statement[item[0].start : item[-1].end]
    if len(item) > 1:
        sign = {"-": "-", "+": ""}.get(item[0].value)
        return written if sign is None or len(item) > 2 else _number(sign + item[1].value, written)
    if item[0].kind == "text" and item[0].value.startswith("'"):
        return item[0].name
    return None if item[0].is_word("NULL") else _number(written, written)


def _number(digits: str, written: str) -> Cell:
    try:
        return int(digits) if digits.lstrip("-").isdecimal() and len(digits) < 20 else float(digits)
    except ValueError:
        return written

"""SQL text as statements: where one ends, and what it creates.

`schema.sql` and `seed.sql` are read without running them. A semicolon ends a statement only where SQLite itself says so
(`sqlite3.complete_statement`, which is a function of the text alone), so that triggers, comments and texts that hold
one stay whole. A statement keeps the comments before it and loses its semicolon. The record has three places for DDL: a
table, an index (kept with its table), and everything else in creation order (triggers, views, virtual tables).
"""

import re
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from awm_hub.environment import SeedTable, Table

_TOKEN = re.compile(
    r"""(?P<space>\s+|--[^\n]*|/\*.*?(?:\*/|\Z))
    |(?P<text>[xX]?'(?:[^']|'')*(?:'|\Z))
    |(?P<quoted>"(?:[^"]|"")*(?:"|\Z)|`(?:[^`]|``)*(?:`|\Z)|\[[^\]]*(?:\]|\Z))
    |(?P<word>[^\W\d][\w$]*)
    |(?P<other>\d[\w.]*|.)""",
    re.VERBOSE | re.DOTALL,
)


class StatementError(ValueError):
    """A statement that this form of source cannot hold; `statement` is its text."""

    def __init__(self, message: str, statement: str) -> None:
        super().__init__(message)
        self.statement = statement


@dataclass(frozen=True, kw_only=True)
class Token:
    """One token of SQL that is neither space nor comment."""

    kind: str
    """`text`, `quoted`, `word` or `other`."""
    value: str
    start: int
    end: int

    @property
    def is_name(self) -> bool:
        """Whether it can name a table; SQLite also takes a text in quotes for one."""
        return self.kind in ("word", "quoted") or (self.kind == "text" and self.value.startswith("'"))

    @property
    def name(self) -> str:
        """The name it stands for, without quotes."""
        if self.kind == "word":
            return self.value
        inner = self.value[1:-1]
        return inner if self.value[0] == "[" else inner.replace(self.value[0] * 2, self.value[0])

    def is_word(self, *words: str) -> bool:
        """Whether it is one of these keywords, in any case."""
        return self.kind == "word" and self.value.upper() in words


def tokens(sql: str) -> Iterator[Token]:
    """The tokens of a text, without spaces and comments."""
    for found in _TOKEN.finditer(sql):
        kind = str(found.lastgroup)
        if kind != "space":
            yield Token(kind=kind, value=found[0], start=found.start(), end=found.end())


def split(sql: str) -> list[str]:
    """The statements of a text, each without its semicolon and with the comments before it.

    Raises:
        StatementError: the last statement has no end.
    """
    if "\0" in sql:
        raise StatementError("a NUL character stands in the SQL", sql[: sql.index("\0")][-80:])
    found, start = [], 0
    for token in tokens(sql):
        if token.value == ";" and sqlite3.complete_statement(sql[start : token.end]):
            if statement := sql[start : token.start].strip():
                found.append(statement)
            start = token.end
    rest = sql[start:].strip()
    if next(tokens(rest), None) is not None:
        raise StatementError("this statement has no end: a semicolon, a quote or the END of a trigger is missing", rest)
    return [s for s in found if next(tokens(s), None) is not None]


def join(statements: Sequence[str]) -> str:
    """A text that `split` takes apart into the same statements, where they end as SQLite says."""
    return "".join(f"{s}{_gap(s)};\n" for s in statements)


def _gap(statement: str) -> str:
    """A line end where the statement ends in a comment, which would swallow the semicolon."""
    last = statement.rpartition("\n")[2]
    return "\n" if "--" in last else ""


def shown(statement: str, length: int = 100) -> str:
    """A statement in one line and without the comments before it, for a message."""
    first = next(tokens(statement), None)
    text = " ".join(statement[first.start if first else 0 :][: 4 * length].split())
    return text if len(text) <= length else text[: length - 1] + "…"


def schema(statements: Sequence[str]) -> tuple[tuple[Table, ...], tuple[str, ...]]:
    """Tables with their indexes, and further DDL, from the statements of `schema.sql`.

    Raises:
        StatementError: a statement creates none of these, or an index stands before its table.
    """
    tables: dict[str, tuple[str, str, list[str]]] = {}
    further = []
    for statement in statements:
        kind, name = _created(statement)
        if kind == "table":
            if name.lower() in tables:
                raise StatementError(f"table {name!r} is created twice", statement)
            tables[name.lower()] = (name, statement, [])
        elif kind == "index":
            if name.lower() not in tables:
                raise StatementError(f"the index is on {name!r}, which no statement before it creates", statement)
            tables[name.lower()][2].append(statement)
        else:
            further.append(statement)
    found = tuple(Table(name=name, ddl=ddl, indexes=tuple(indexes)) for name, ddl, indexes in tables.values())
    return found, tuple(further)


def _created(statement: str) -> tuple[str, str]:
    """(`table`, its name), (`index`, its table's name) or (`further`, "")."""
    words = list(tokens(statement))
    refused = StatementError("only CREATE TABLE, INDEX, TRIGGER, VIEW and VIRTUAL TABLE belong here", statement)
    if len(words) < 3 or not words[0].is_word("CREATE"):
        raise refused
    if words[1].is_word("TEMP", "TEMPORARY"):
        raise StatementError("temporary tables, views and triggers are not stored", statement)
    if words[1].is_word("TRIGGER", "VIEW", "VIRTUAL"):
        return "further", ""
    rest = words[2:] if words[1].is_word("UNIQUE") else words[1:]
    if rest[0].is_word("TABLE"):
        return "table", _name(rest[1:], statement)
    if rest[0].is_word("INDEX"):
        on = next((i for i, t in enumerate(rest) if t.is_word("ON")), len(rest))
        return "index", _name(rest[on + 1 :], statement)
    raise refused


def _name(words: Sequence[Token], statement: str) -> str:
    """The name at the start of `words`, after IF NOT EXISTS and `main.`."""
    if [w.value.upper() for w in words[:3]] == ["IF", "NOT", "EXISTS"]:
        words = words[3:]
    if len(words) >= 3 and words[0].name.lower() == "main" and words[1].value == ".":
        words = words[2:]
    if not words or not words[0].is_name or (len(words) > 1 and words[1].value == "."):
        raise StatementError("no name of a table is found here", statement)
    return words[0].name


def seed(statements: Sequence[str]) -> tuple[SeedTable, ...]:
    """Sample data from the statements of `seed.sql`, runs of one table's inserts together.

    Raises:
        StatementError: a statement is no `INSERT INTO table (columns) VALUES rows`.
    """
    groups: list[tuple[str, list[str]]] = []
    for statement in statements:
        table = _filled(statement)
        if not groups or groups[-1][0] != table:
            groups.append((table, []))
        groups[-1][1].append(statement)
    return tuple(SeedTable(table=table, inserts=tuple(inserts)) for table, inserts in groups)


def _filled(statement: str) -> str:
    """The table that an INSERT statement fills."""
    words = list(tokens(statement))
    refused = StatementError("only INSERT INTO table (columns) VALUES rows belongs here", statement)
    if len(words) < 4 or not (words[0].is_word("INSERT") and words[1].is_word("INTO")):
        raise refused
    name = _name(words[2:], statement)
    opened = next((i for i, t in enumerate(words) if t.value == "("), len(words))
    closed = next((i for i, t in enumerate(words) if t.value == ")"), len(words))
    is_named = opened in (3, 5)
    if not is_named or closed + 1 >= len(words) or not words[closed + 1].is_word("VALUES"):
        raise refused
    return name

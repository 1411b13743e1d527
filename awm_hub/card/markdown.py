"""Texts of rows as Markdown that shows them and does nothing else.

Every ASCII character that means something to Markdown, HTML, a table or a reader of links is written as a numeric
character reference: CommonMark reads those as text, wherever they stand. What could act on a terminal is escaped
before, line feeds too, so that a text stays in its cell.
"""

import re
from collections.abc import Iterable, Sequence

from awm_hub import schema
from awm_hub.safetext import clean_line

_ACTIVE = re.compile(r"[^\w \-(),;\u0080-\U0010ffff]|_")
MAX_CELL = 80


def text(value: object, width: int = MAX_CELL) -> str:
    """A text of a row, on one line."""
    return _ACTIVE.sub(lambda m: f"&#{ord(m[0])};", clean_line(str(value), width))


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, texts: int = 1) -> str:
    """A table of cells that are Markdown already; the first `texts` columns to the left, figures to the right."""
    lines = [_line(head), _line([*["---"] * texts, *["--:"] * (len(head) - texts)]), *map(_line, rows)]
    return "\n".join(lines)


def column_table(config: str) -> str:
    """The columns of a config; types in code spans, since `<string>` is a tag to Markdown, fields of structs apart."""
    return table(("column", "type", "meaning"), map(_column, schema.CONFIGS[config]), texts=3)


def _column(column: schema.Column) -> tuple[str, str, str]:
    kind, _, fields = schema.type_name(column.type).partition("struct<")
    named = f" Fields: {fields.rstrip('>')}." if fields else ""
    shown = f"{kind}struct{'>' * kind.count('<')}" if fields else kind
    nullable = " or null" if column.nullable else ""
    return f"`{column.name}`", f"`{shown}{nullable}`", f"{column.meaning}{named}"


def number(value: float | None) -> str:
    """A figure for reading: `1,985`, `18.5`, a dash for none."""
    if value is None:
        return "–"
    return f"{round(value):,}" if value == round(value) or value >= 1000 else f"{value:.1f}"


def counted(count: int, what: str) -> str:
    """`1 task` or `1,200 tasks`."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"

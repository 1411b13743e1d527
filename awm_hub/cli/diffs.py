"""A state difference as text: one line per row, as `call` and `demo` show it."""

from collections.abc import Iterator, Mapping
from typing import Any

from awm_hub.cli.terminal import Console, clean_line, json_text

_VALUE_WIDTH = 40
_ROW_LIMIT = 20


def diff_lines(diff: Mapping[str, Any], console: Console) -> Iterator[str]:
    """Lines for the JSON form of a `StateDiff`: `+` added, `-` removed, `~` changed rows."""
    if not diff:
        yield console.style("no row changed", "dim")
    for table, changes in diff.items():
        rows = list(_rows(changes, console))
        yield console.style(clean_line(table), "bold")
        yield from rows[:_ROW_LIMIT]
        if len(rows) > _ROW_LIMIT:
            yield f"  … {len(rows) - _ROW_LIMIT} more rows (--json shows all)"


def _rows(changes: Mapping[str, Any], console: Console) -> Iterator[str]:
    for row in changes["added"]:
        yield console.style(f"  + {_fields(row)}", "green")
    for row in changes["removed"]:
        yield console.style(f"  - {_fields(row)}", "red")
    for change in changes["changed"]:
        before, after = change["before"], change["after"]
        moves = [f"{clean_line(k)}: {_short(v)} → {_short(after[k])}" for k, v in before.items() if v != after[k]]
        yield console.style(f"  ~ {_fields(change['key'])}  {', '.join(moves)}", "yellow")


def _fields(row: Mapping[str, Any]) -> str:
    return ", ".join(f"{clean_line(k)}={_short(v)}" for k, v in row.items())


def _short(value: Any) -> str:
    return clean_line(json_text(value), _VALUE_WIDTH)

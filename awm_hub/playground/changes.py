"""The tables of a live instance as escaped HTML, with the rows that a call changed; and the call's result.

Marks say what happened besides colours: `+` added, `−` removed, `~` changed, with what a cell held before. What changed
comes first: tables with changes, open, and in them the rows that changed; the other rows keep their order.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from awm_hub.canonical import to_json
from awm_hub.playground.markup import Markup, counted, element, joined, line
from awm_hub.trajectory import RowChange, StateDiff, Step, TableDiff
from awm_hub.viewing.document import Section
from awm_hub.viewing.page import html_fragment
from awm_hub.viewing.rollout import result_blocks, result_labels

_CELL_WIDTH, _TITLE_WIDTH, _NAME_WIDTH = 90, 1_000, 80
_MARKED_ROWS, _OTHER_ROWS = 100, 60
"""Rows of one table that are shown: those that changed, and the others."""
_FOLDED_ROWS = 25
"""Of a table that nothing changed in."""
_KEPT_CHARACTERS = 65_536
"""Of a table whose HTML is kept: cells are as long as a row makes them, and what is kept has to have a bound."""
_MARKS = {"added": "+", "removed": "−", "changed": "~"}
CSS = """
.awm-tables { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(12rem, 48%), 1fr)); gap: .4rem; }
.awm-tables > p, .awm-tables > details[open] { grid-column: 1 / -1; }
.awm-tables details {
  border: 1px solid var(--awm-line); border-radius: .4rem; background: var(--awm-raised); overflow: hidden;
  min-width: 0;
}
.awm-tables p { margin: .25rem 0; }
.awm-tables .awm-tables-told { color: var(--awm-ink); font-weight: 600; }
.awm-tables .awm-cut { color: var(--awm-soft); font-size: .8rem; padding: .2rem .6rem; }
.awm-tables summary { cursor: pointer; padding: .4rem .6rem; overflow-wrap: anywhere; color: var(--awm-ink); }
.awm-tables summary b { font-weight: 600; }
.awm-tables summary small { color: var(--awm-soft); font-size: .8rem; margin-left: .35rem; white-space: nowrap; }
@media (max-width: 40rem) { .awm-tables summary { font-size: .82rem; padding: .4rem .45rem; } }
.awm-tables summary:focus-visible, .awm-live:focus-visible { outline: 2px solid var(--awm-accent); }
.awm-count { font-weight: 700; font-size: .8rem; margin-left: .35rem; font-variant-numeric: tabular-nums; }
.awm-count-added { color: var(--awm-good); } .awm-count-removed { color: var(--awm-bad); }
.awm-count-changed { color: var(--awm-doubtful); }
.awm-live { overflow: auto; max-height: 24rem; background: var(--awm-paper); position: relative; }
.awm-live table {
  border: 0; border-collapse: collapse; font-size: .8rem; color: var(--awm-ink); width: max-content; min-width: 100%;
  margin: 0;
}
.awm-live table, .awm-live thead, .awm-live tbody, .awm-live tr { border: 0 !important; }
.awm-live th, .awm-live td {
  text-align: left; padding: .2rem .5rem; border: 0 !important; box-shadow: inset 0 -1px var(--awm-line);
  vertical-align: top;
}
.awm-live thead th {
  position: sticky; top: 0; background: var(--awm-raised); color: var(--awm-soft); white-space: nowrap;
  font-weight: 600;
}
.awm-live tbody th { font-weight: 700; width: 1.25rem; text-align: center; }
.awm-live tbody tr { background: var(--awm-paper); }
.awm-live tr > :first-child { position: sticky; left: 0; min-width: 1.6rem; background: inherit; }
.awm-live thead tr > :first-child { background: var(--awm-raised); z-index: 1; }
.awm-live td { max-width: 18rem; min-width: 2.5rem; overflow-wrap: break-word; font-variant-numeric: tabular-nums; }
.awm-live .awm-null { color: var(--awm-soft); font-style: italic; }
.awm-live tbody tr.awm-row-added { background: var(--awm-good-soft); } .awm-row-added th { color: var(--awm-good); }
.awm-live tbody tr.awm-row-removed { background: var(--awm-bad-soft); } .awm-row-removed th { color: var(--awm-bad); }
.awm-row-removed td { text-decoration: line-through; }
.awm-row-changed th { color: var(--awm-doubtful); }
.awm-row-changed td.awm-changed { background: var(--awm-doubtful-soft); }
.awm-changed del { color: var(--awm-bad); } .awm-changed ins { text-decoration: none; font-weight: 700; }
.awm-moved { color: var(--awm-soft); }
.awm-result pre, .awm-result dd {
  white-space: pre-wrap; overflow-wrap: anywhere; font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace;
  font-size: .8rem; margin: 0; background: none; color: var(--awm-ink);
}
.awm-result dl { display: flex; flex-wrap: wrap; gap: .3rem 1.5rem; margin: 0; }
.awm-result dt { font-size: .75rem; color: var(--awm-soft); }
.awm-result p { margin: 0 0 .25rem; } .awm-result h3 { font-size: 1rem; margin: 0 0 .25rem; overflow-wrap: anywhere; }
.awm-result .awm-name { font-size: .75rem; color: var(--awm-soft); }
.awm-result summary { cursor: pointer; overflow-wrap: anywhere; font-size: .8rem; }
.awm-result section { border: 0; padding: 0; }
"""

Row = Mapping[str, Any]


def tables_html(dump: Mapping[str, Any], changes: StateDiff) -> Markup:
    """All tables, those with changes first and open; what did not change is of the class `awm-still`.

    Args:
        dump: As `awm_hub.runtime.jobs.dump` gives it.
        changes: The rows to highlight.
    """
    gone = {name: {"columns": [], "rows": [], "total": 0} for name in changes if name not in dump}
    known = {**dump, **gone}
    names = sorted(known, key=lambda name: (name not in changes, name))
    parts = [_table(name, known[name], changes[name]) for name in names]
    told = element("p", *_told(changes), class_="awm-tables-told", role="status")
    return element("div", told, *parts, class_="awm-tables")


def result_html(step: Step) -> Markup:
    """What a call came to: its type, and the value as JSON or the message."""
    section = Section(title=step.tool, labels=result_labels(step.result), blocks=result_blocks(step.result))
    return element("div", Markup(html_fragment(section, level=3)), class_="awm-card awm-result", role="status")


def _told(changes: StateDiff) -> Iterator[str]:
    if not changes:
        yield "No row changed."
        return
    yield f"{counted(changes.rows_count, 'row')} changed in {counted(len(changes), 'table')}"
    yield _counts([changes[name] for name in changes])


def _counts(diffs: Sequence[TableDiff]) -> Markup:
    """How many rows were added, removed and changed; a mark, a number and, for who cannot see them, the word."""
    found = {
        "added": sum(len(diff.added) for diff in diffs),
        "removed": sum(len(diff.removed) for diff in diffs),
        "changed": sum(len(diff.changed) for diff in diffs),
    }
    return joined(
        element("span", f"{_MARKS[kind]}{number}", class_=f"awm-count awm-count-{kind}", title=f"{number} {kind}")
        for kind, number in found.items()
        if number
    )


@lru_cache(maxsize=512)
def _still(name: str, found: str) -> Markup:
    """A table that nothing changed in, from its JSON; most tables are the same after most calls."""
    return _drawn(name, json.loads(found), TableDiff())


def _table(name: str, found: Mapping[str, Any], diff: TableDiff) -> Markup:
    if diff == TableDiff() and len(known := to_json(found)) <= _KEPT_CHARACTERS:
        return _still(name, known)
    return _drawn(name, found, diff)


def _drawn(name: str, found: Mapping[str, Any], diff: TableDiff) -> Markup:
    columns = [str(column) for column in found["columns"]] or _columns_of(diff)
    rows = [dict(zip(columns, row, strict=False)) for row in found["rows"]]
    marked, others = _sorted(rows, columns, diff)
    most = _OTHER_ROWS if marked else _FOLDED_ROWS
    plain = (_whole(row, columns, "") for row in others[:most])
    head = element("tr", element("td", title="change"), *(_heading(column) for column in columns))
    body = element("tbody", *marked[:_MARKED_ROWS], *plain)
    region = element(
        "div",
        element("table", element("thead", head), body),
        class_="awm-live",
        tabindex="0",
        role="region",
        aria_label=line(name, _NAME_WIDTH),
    )
    total = int(found["total"])
    summary = [element("b", line(name, _NAME_WIDTH)), element("small", counted(total, "row")), _counts([diff])]
    notes = _notes(len(marked), len(rows), len(others), total, most)
    kind = None if marked else "awm-still"
    return element("details", element("summary", *summary), region, *notes, open=bool(marked), class_=kind)


def _columns_of(diff: TableDiff) -> list[str]:
    rows: list[Row] = [*diff.removed, *diff.added, *(change.after for change in diff.changed)]
    return list(dict.fromkeys(str(column) for row in rows for column in row))


def _heading(column: str) -> Markup:
    return element("th", line(column, _NAME_WIDTH), scope="col")


def _notes(marked: int, known: int, others: int, total: int, most: int) -> Iterator[Markup]:
    if marked > _MARKED_ROWS:
        yield element("p", f"… {counted(marked - _MARKED_ROWS, 'more changed row')}.", class_="awm-cut")
    left = max(0, others - most) + max(0, total - known)
    if left:
        yield element("p", f"… {counted(left, 'more row')} without a change.", class_="awm-cut awm-still")


def _sorted(rows: Sequence[Row], columns: Sequence[str], diff: TableDiff) -> tuple[list[Markup], list[Row]]:
    """Rows that were changed, added and removed, as they are shown; and the other ones as they are."""
    changed = {_key(change.key, tuple(change.key)): change for change in diff.changed}
    keys = tuple(diff.changed[0].key) if diff.changed else ()
    added = Counter(to_json(row) for row in diff.added)
    others = []
    now: dict[str, Row] = {}
    for row in rows:
        key, whole = _key(row, keys), to_json(row)
        if key in changed:
            now[key] = row
        elif added[whole] > 0:
            added[whole] -= 1
        else:
            others.append(row)
    marked = [_changed(now.get(key, {**c.key, **c.after}), columns, c) for key, c in changed.items()]
    marked += [_whole(row, columns, kind) for kind in ("added", "removed") for row in getattr(diff, kind)]
    return marked, others


def _key(row: Row, names: Sequence[str]) -> str:
    """What tells the row from others; nothing where the table has no key."""
    return to_json([row.get(name) for name in names]) if names else ""


def _whole(row: Row, columns: Sequence[str], kind: str) -> Markup:
    cells = (_cell(row.get(column)) for column in columns)
    if not kind:
        return element("tr", element("td"), *cells, class_="awm-still")
    return element("tr", _mark(kind), *cells, class_=f"awm-row-{kind}")


def _changed(row: Row, columns: Sequence[str], change: RowChange) -> Markup:
    cells = [
        _moved(change.before.get(column), change.after[column])
        if column in change.after and change.before.get(column) != change.after[column]
        else _cell(row.get(column))
        for column in columns
    ]
    return element("tr", _mark("changed"), *cells, class_="awm-row-changed")


def _mark(kind: str) -> Markup:
    return element("th", _MARKS[kind], scope="row", title=kind, aria_label=kind)


def _moved(before: Any, after: Any) -> Markup:
    """A cell that holds something else now."""
    old, new = element("del", _short(before)), element("ins", _short(after))
    return element("td", old, element("span", " → ", class_="awm-moved"), new, class_="awm-changed")


def _cell(value: Any) -> Markup:
    if value is None:
        return element("td", "NULL", class_="awm-null")
    shown = _text(value)
    short = line(shown, _CELL_WIDTH)
    return element("td", short, title=line(shown, _TITLE_WIDTH) if len(shown) > _CELL_WIDTH else None)


def _short(value: Any) -> str:
    return "NULL" if value is None else line(_text(value), _CELL_WIDTH)


def _text(value: Any) -> str:
    """A text as it is, a number in digits, bytes by their size, and anything else as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping) and isinstance(blob := value.get("blob"), str):
        return f"{counted(len(blob) * 3 // 4 - blob.count('='), 'byte')}"
    return to_json(value)

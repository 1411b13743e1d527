"""A document as one HTML page that needs nothing else: no script, no request, one style that its policy names by hash.

Safety is by construction: an element takes strings and elements, and every string is escaped. Nothing untrusted becomes
the name of a tag or an attribute; links lead to pages of the same folder only. The policy in the page's head (CSP)
holds even if all that failed: it allows no script, no image, no form and no other style, so a page may be put into a
frame of the Space as it is.
"""

import base64
import hashlib
import html
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from awm_hub.safetext import clean, clean_line, json_text
from awm_hub.trajectory import StateDiff, TableDiff
from awm_hub.viewing.document import (
    Block,
    Cell,
    Data,
    Document,
    Facts,
    Grid,
    Label,
    Prose,
    Rows,
    Section,
    as_text,
    counted,
    shown_json,
)

_TEXT_LIMIT = 20_000
"""Characters of one text or value; a page of a long run stays one that a phone opens."""
_LINES_OPEN = 14
"""A longer value is folded."""
_ROW_LIMIT = 200
_TITLE_WIDTH, _SUMMARY_WIDTH = 160, 70
_VOID = ("meta", "br")
_HEADINGS = 6
_MARKS = {"good": "✓", "bad": "✗", "doubtful": "!"}


class _Element(str):
    """HTML that this module made."""

    __slots__ = ()


def html_page(document: Document, *, up: str = "", before: str = "", after: str = "") -> str:
    """The page of a document.

    Args:
        document: What it shows.
        up: Path of the page that lists it, from the page itself.
        before: Path of the page before it in that list.
        after: Path of the page after it.
    """
    style = _style()
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    title = clean_line(document.title, _TITLE_WIDTH)
    head = _element(
        "head",
        _element("meta", charset="utf-8"),
        _generator(),
        _element("meta", http_equiv="Content-Security-Policy", content=policy),
        _element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        _element("meta", name="referrer", content="no-referrer"),
        _element("meta", name="color-scheme", content="light dark"),
        _element("title", title),
        _element("style", _Element(style)),
    )
    main = _element(
        "main",
        _element("h1", title, *_labels(document.labels)),
        *(part for block in document.blocks for part in _block(block, 2)),
    )
    places = (("all rollouts", up), ("← previous", before), ("next →", after))
    links = [_link(text, path) for text, path in places if path]
    body = _element("body", *([_element("nav", *links, aria_label="Run")] if links else []), main)
    return "<!doctype html>\n" + _element("html", head, body, lang="en") + "\n"


def html_fragment(shown: Document | Block, *, level: int = 2) -> str:
    """A document or a part of one, as escaped HTML for a page of somebody else; its classes begin with `awm-`.

    Args:
        shown: What it shows.
        level: Of its headings, from 1.
    """
    if isinstance(shown, Document):
        shown = Section(title=shown.title, labels=shown.labels, blocks=shown.blocks)
    found = _element("div", *_block(shown, level), class_="document")
    # a quote in a text or a value is escaped: these are attributes that `_element` wrote
    return re.sub(r' class="([^"]*)"', lambda match: f' class="awm-{match[1].replace(" ", " awm-")}"', found)


def is_own_page(start: str) -> bool:
    """Whether a file that begins so is a page of this program; untrusted text comes later in it."""
    return start.startswith(
        '<!doctype html>\n<html lang="en"><head>' + _element("meta", charset="utf-8") + _generator()
    )


def _generator() -> _Element:
    return _element("meta", name="generator", content="awm-hub view")


@cache
def _style() -> str:
    return Path(__file__).with_name("style.css").read_text(encoding="utf-8")


def _element(tag: str, *children: str, **attributes: str) -> _Element:
    """An element. Children that are no elements are text, and attribute values always are; both are escaped."""
    pairs = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{html.escape(clean(value))}"'
        for name, value in attributes.items()
        if value
    )
    inner = "".join(c if isinstance(c, _Element) else html.escape(clean(c)) for c in children)
    return _Element(f"<{tag}{pairs}>" if tag in _VOID else f"<{tag}{pairs}>{inner}</{tag}>")


def _link(text: str, path: str) -> _Element:
    """A link to another page of the same folder: a path without a scheme, whatever it holds."""
    return _element("a", text, href="./" + quote(clean(path)))


def _block(block: Block, level: int) -> Iterator[_Element]:
    if isinstance(block, Section):
        yield _section(block, level)
    elif isinstance(block, Facts):
        yield _facts(block.pairs)
    elif isinstance(block, Grid):
        yield _grid(block)
    elif isinstance(block, Rows):
        yield _labelled(block.label, *_rows(block.diff))
    elif isinstance(block, Prose):
        yield _labelled(block.label, _folded(clean(block.text), "prose"))
    else:
        yield _labelled(block.label, _value(block))


def _section(section: Section, level: int) -> _Element:
    heading = f"h{min(level, _HEADINGS)}"
    title = _element(heading, clean_line(section.title, _TITLE_WIDTH), *_labels(section.labels))
    blocks = [part for block in section.blocks for part in _block(block, level + 1)]
    if section.is_folded:
        return _element("details", _element("summary", title), *blocks, class_="section")
    return _element("section", title, *blocks)


def _labels(labels: Iterable[Label]) -> Iterator[_Element]:
    for found in labels:
        mark = f"{_MARKS[found.tone]} " if found.tone else ""
        yield _Element(" " + _element("span", mark + clean_line(found.text), class_=f"label {found.tone}".strip()))


def _labelled(name: str, *parts: _Element) -> _Element:
    title = [_element("p", name, class_="name")] if name else []
    return _element("div", *title, *parts, class_="block")


def _facts(pairs: Iterable[tuple[str, str]]) -> _Element:
    """Names and values, side by side."""
    parts = (_element("div", _element("dt", name), _element("dd", clean_line(value))) for name, value in pairs)
    return _element("dl", *parts)


def _value(block: Data) -> _Element:
    """A flat object as a list of its fields, anything else as indented JSON."""
    value = block.value
    is_flat = isinstance(value, Mapping) and value and not any(isinstance(v, Mapping | list) for v in value.values())
    if is_flat and sum(len(as_text(v)) for v in value.values()) < _TEXT_LIMIT:
        return _facts((as_text(name), _quoted(v)) for name, v in value.items())
    return _folded(shown_json(value), "json")


def _quoted(value: Any) -> str:
    """A plain value as JSON: `"5"` and `5` are two arguments."""
    return json_text(value) if isinstance(value, str) else as_text(value)


def _folded(text: str, kind: str) -> _Element:
    """Preformatted text; what is long is folded, and what is too long is cut and says so."""
    left = len(text) - _TEXT_LIMIT
    cut = [_element("p", f"… {counted(left, 'more character')} in the file", class_="cut")] if left > 0 else []
    shown = _element("pre", text[:_TEXT_LIMIT], class_=kind, dir="auto")
    lines = text.count("\n") + 1
    if lines <= _LINES_OPEN:
        return _element("div", shown, *cut)
    start = clean_line(" ".join(text[:_SUMMARY_WIDTH].split()), _SUMMARY_WIDTH - 1)
    summary = _element("summary", start, "… ", _element("span", f"{lines} lines"))
    return _element("details", summary, shown, *cut)


def _grid(grid: Grid) -> _Element:
    head = _element("tr", *(_element("th", name, scope="col") for name in grid.columns))
    body = (_element("tr", *map(_cell, row)) for row in grid.rows)
    return _scrolling(grid.label, _element("thead", head), _element("tbody", *body), is_titled=grid.is_titled)


def _cell(cell: Cell) -> _Element:
    text = clean_line(cell.text)
    return _element("td", _link(text, cell.link) if cell.link else text, class_=cell.tone)


def _scrolling(label: str, *parts: _Element, is_titled: bool = True) -> _Element:
    """A table that scrolls by itself on a narrow screen, with the keyboard as well."""
    name = clean_line(label)
    table = _element("table", _element("caption", name, class_="" if is_titled else "unseen"), *parts)
    return _element("div", table, class_="wide", tabindex="0", role="region", aria_label=name)


def _rows(diff: StateDiff) -> Iterator[_Element]:
    if not diff:
        yield _element("p", "no row changed", class_="none")
    for table in diff:
        yield _table_diff(as_text(table), diff[table])


def _table_diff(name: str, diff: TableDiff) -> _Element:
    """One table's rows: added and removed ones whole, changed ones with what was before and after."""
    found = [*_whole_rows(diff), *_changed_rows(diff)]
    columns = list(dict.fromkeys(column for _, cells in found for column in cells))
    head = _element(
        "tr", _element("th", "change", scope="col"), *(_element("th", clean_line(c), scope="col") for c in columns)
    )
    body = [
        _element("tr", _element("th", kind, scope="row"), *(cells.get(c, _element("td")) for c in columns), class_=kind)
        for kind, cells in found[:_ROW_LIMIT]
    ]
    left = len(found) - _ROW_LIMIT
    more = [_element("p", f"… {counted(left, 'more row')} in the file", class_="cut")] if left > 0 else []
    return _element("div", _scrolling(name, _element("thead", head), _element("tbody", *body)), *more)


_Cells = dict[str, _Element]


def _whole_rows(diff: TableDiff) -> Iterator[tuple[str, _Cells]]:
    for kind, rows in (("added", diff.added), ("removed", diff.removed)):
        for row in rows:
            yield kind, {name: _element("td", _short(value)) for name, value in row.items()}


def _changed_rows(diff: TableDiff) -> Iterator[tuple[str, _Cells]]:
    for change in diff.changed:
        cells = {name: _element("td", _short(value)) for name, value in change.key.items()}
        for name, before in change.before.items():
            if before != change.after.get(name):
                moved = (_element("del", _short(before)), " → ", _element("ins", _short(change.after.get(name))))
                cells[name] = _element("td", *moved)
        yield "changed", cells


def _short(value: Any) -> str:
    return clean_line(as_text(value), 300)

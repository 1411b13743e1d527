"""The form between a trajectory and its writers: a title, labels, and blocks of text, JSON, facts, rows and tables.

Blocks hold untrusted text as it was found. A `tone` says what a colour would say: `good`, `bad`, `doubtful`, or nothing
in particular; it never stands alone, the text beside it says the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from awm_hub.safetext import clean, json_text, readable_json
from awm_hub.trajectory import StateDiff

TONES = {
    "ok": "good",
    "refused": "doubtful",
    "invalid_call": "doubtful",
    "fault": "bad",
    "COMPLETED": "good",
    "PARTIALLY_COMPLETED": "doubtful",
    "AGENT_ERROR": "bad",
    "ENVIRONMENT_ERROR": "bad",
}
"""Tones of result types and outcomes."""


@dataclass(frozen=True, kw_only=True)
class Label:
    """A word or two beside a title."""

    text: str
    tone: str = ""


@dataclass(frozen=True, kw_only=True)
class Prose:
    """Text as somebody wrote it, line feeds included."""

    text: str
    label: str = ""


@dataclass(frozen=True, kw_only=True)
class Data:
    """A JSON value."""

    value: Any
    label: str = ""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Names with short values."""

    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Rows that were added, removed or changed."""

    diff: StateDiff
    label: str = ""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One cell of a table; `link` is the path of another page of this program."""

    text: str
    tone: str = ""
    link: str = ""


@dataclass(frozen=True, kw_only=True)
class Grid:
    """A table. Its label is what a screen reader announces."""

    label: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    is_titled: bool = True
    """Whether the label shows; it does not under a title that says the same."""


@dataclass(frozen=True, kw_only=True)
class Section:
    """Blocks under a title."""

    title: str
    labels: tuple[Label, ...] = ()
    blocks: "tuple[Block, ...]" = ()
    is_folded: bool = False
    """Whether it is shown on demand only: a page folds it, a terminal leaves it out."""


Block = Prose | Data | Facts | Rows | Grid | Section


@dataclass(frozen=True, kw_only=True)
class Document:
    """What one page shows."""

    title: str
    labels: tuple[Label, ...] = ()
    blocks: tuple[Block, ...] = ()


def label(text: Any) -> Label:
    """A result type or an outcome, with its tone."""
    word = as_text(text)
    return Label(text=word, tone=TONES.get(word, ""))


def as_text(value: Any) -> str:
    """A text as it is, anything else as JSON: files of others may hold any value anywhere."""
    if isinstance(value, str):
        return value
    try:
        return json_text(value)
    except (TypeError, ValueError):  # made in memory, and no JSON
        return repr(value)


def shown_json(value: Any) -> str:
    """A value as JSON that is safe to show, taken apart where it is long; a text as it is, made safe."""
    if isinstance(value, str):
        return clean(value)
    try:
        return readable_json(value)
    except (TypeError, ValueError):
        return clean(repr(value))


def rounded(value: Any) -> Any:
    """A number as people read it: a handful of digits, thousands apart; anything else as it is."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    if isinstance(value, int) or abs(value) >= 1_000:
        return f"{value:,.0f}"
    return f"{value:.6f}".rstrip("0").rstrip(".") if abs(value) < 0.01 else f"{value:.4g}"


def facts(found: Mapping[str, Any]) -> Facts:
    """The facts that are known: None and empty text are left out."""
    return Facts(pairs=tuple((name, as_text(value)) for name, value in found.items() if value not in (None, "")))


def counted(number: int, noun: str) -> str:
    """A number and its noun, `1 row` or `2 rows`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"

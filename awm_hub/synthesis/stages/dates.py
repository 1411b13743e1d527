"""Days and moments in sample data: whether they are real, of one form, and on the right side of the clock.

A world's clock stands still, so a payment of next week is a mistake that an agent would meet. Which columns tell of the
past is read from their names: those that end with a past participle and `_on` or `_at`, of what can only have happened.
"""

import datetime as dt
import re
from collections.abc import Iterator, Sequence
from typing import Any

Fault = tuple[str, str, str]
"""Rule, message and severity."""

_MOMENT = re.compile(
    r"(?P<day>\d{4}-\d{2}-\d{2})(?:[T ](?P<time>\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?)(?:Z|[+-]\d{2}:\d{2})?)?"
)
_TIME = re.compile(r"\d{2}:\d{2}(?::\d{2})?")
_OTHER_FORM = re.compile(r"\d{1,4}[./-]\d{1,2}[./-]\d{1,4}(?!\d)")
_NAMED_AS_DAY = ("_on", "_at", "_date")
_PAST = re.compile(
    r"(?:^|_)(?:(?:accepted|added|approved|archived|completed|created|declined|deleted|enrolled|filed|finished|hired"
    r"|installed|joined|loaded|logged|modified|ordered|paid|placed|posted|received|recorded|refunded|registered"
    r"|rejected|reported|requested|resolved|returned|sent|shipped|signed|submitted|updated|uploaded)_(?:on|at|date)"
    r"|(?:cancell?ed|changed|checked_in|checked_out|closed|opened)_at)$"
)
"""Contracts are cancelled, and shops closed, on days to come as well."""
_LONG_AGO = re.compile(r"birth|born|dob|found|built|construct|establish|publish|releas|made|since|vintage|historic")
_YEARS = 20
_SHOWN = 3


def faults(columns: Sequence[str], rows: Sequence[Sequence[Any]], clock: dt.datetime) -> Iterator[Fault]:
    """What is wrong with the days of a table, column by column."""
    for at, column in enumerate(columns):
        cells = [(_label(columns, row), row[at]) for row in rows if isinstance(row[at], str)]
        if cells and _holds_days(column, [text for _, text in cells]):
            yield from _of_column(column, cells, clock)


def _holds_days(column: str, texts: Sequence[str]) -> bool:
    if any(_MOMENT.fullmatch(text) for text in texts):
        return column.lower().endswith(_NAMED_AS_DAY) or all(_MOMENT.fullmatch(text) for text in texts)
    return column.lower().endswith(_NAMED_AS_DAY) and any(_OTHER_FORM.match(text) for text in texts)


def _of_column(column: str, cells: Sequence[tuple[str, str]], clock: dt.datetime) -> Iterator[Fault]:
    read = [(label, text, _read(text)) for label, text in cells]
    broken = [(label, text) for label, text, moment in read if moment is None]
    if broken:
        yield "date_malformed", f"{column} holds no day of the calendar in {_listed(broken)}; write YYYY-MM-DD", "error"
    known = [(label, text, moment) for label, text, moment in read if isinstance(moment, dt.datetime)]
    now = clock.astimezone(dt.UTC).replace(tzinfo=None)
    later = [(label, text) for label, text, moment in known if moment > now]
    if later and _PAST.search(column.lower()):
        yield "date_after_clock", f"{column} is later than now ({now:%Y-%m-%d %H:%M}) in {_listed(later)}", "error"
    far = [(label, text) for label, text, moment in known if abs(moment.year - now.year) > _YEARS]
    if far and not _LONG_AGO.search(column.lower()):
        yield "date_far", f"{column} is more than {_YEARS} years off in {_listed(far)}", "warning"
    forms = sorted({re.sub(r"\d", "0", text) for _, text, _ in known})
    if len(forms) > 1:
        yield "date_forms", f"{column} holds several forms, which do not compare: {', '.join(forms[:4])}", "warning"


def _read(text: str) -> dt.datetime | dt.time | None:
    """The moment that a text names; None where there is no such day."""
    found = _MOMENT.fullmatch(text)
    try:
        if found is None:
            return dt.time.fromisoformat(text) if _TIME.fullmatch(text) else None
        return dt.datetime.fromisoformat(f"{found['day']}T{found['time'] or '00:00'}")
    except ValueError:
        return None


def _label(columns: Sequence[str], row: Sequence[Any]) -> str:
    """A row, by its id or its first two columns."""
    shown = 1 if columns[0].lower() == "id" else 2
    named = zip(columns[:shown], row[:shown], strict=False)
    return ", ".join(f"{column} {str(value)[:40]}" for column, value in named)


def _listed(cells: Sequence[tuple[str, str]]) -> str:
    shown = ", ".join(f"{label} ({text[:40]})" for label, text in cells[:_SHOWN])
    return shown + (f" and {len(cells) - _SHOWN} more" if len(cells) > _SHOWN else "")

"""Where a statement stands in the file it was read from, for messages that name a line.

SQLite reports the statement and not its place, and a row of a failing INSERT is retried as a statement of its own: its
place is where its values stand.
"""

from collections.abc import Iterator, Sequence

from awm_hub.packing import statements


def line_of(text: str, statement: str, *, within: Sequence[str] = (), is_repeated: bool = False) -> int | None:
    """The line in which a statement begins, or its row of values; None where it is not found.

    Args:
        text: The whole file.
        statement: As it was run.
        within: Statements of the file in which to look for a row of values.
        is_repeated: The row repeats an earlier one, so the second place is meant.
    """
    at = text.find(statement)
    if at >= 0 and statement:
        first = next(statements.tokens(statement), None)
        return _line(text, at + (first.start if first else 0))
    row = _row(statement)
    places = list(_places(text, row, within)) if row else []
    if not places:
        return None
    return _line(text, places[1] if is_repeated and len(places) > 1 else places[0])


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def _row(statement: str) -> str:
    """What follows VALUES."""
    values = next((t for t in statements.tokens(statement) if t.is_word("VALUES")), None)
    return statement[values.end :].strip() if values else ""


def _places(text: str, row: str, within: Sequence[str]) -> Iterator[int]:
    for statement in within:
        start = text.find(statement)
        at = statement.find(row)
        while start >= 0 and at >= 0:
            yield start + at
            at = statement.find(row, at + 1)

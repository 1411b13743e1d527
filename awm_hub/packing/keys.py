"""TOML tables read key by key, with the type of every value checked.

A misspelt key would otherwise be a silent loss: a table of a source file says which keys it knows, and any other key is
refused with the nearest known one. Every error names file, table and key, and what to write instead.
"""

import datetime as dt
import difflib
import math
import tomllib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from awm_hub.errors import SourceError

_KINDS = {bool: "true or false", int: "an integer", float: "a number", str: "a text", list: "a list", dict: "a table"}
_INT64 = range(-(2**63), 2**63)


def read_text(path: Path) -> str:
    """The text of a source file, line ends as they are, without a byte order mark.

    Raises:
        SourceError: the file is missing, or no UTF-8.
    """
    try:
        return path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise SourceError(f"{_place(path)} is missing", next_step="`awm-hub new NAME` writes an example") from None
    except UnicodeDecodeError as error:
        raise SourceError(f"{_place(path)} is no UTF-8: {error}", next_step="save it as UTF-8") from error
    except OSError as error:
        message = f"{_place(path)} cannot be read: {error.strerror}"
        raise SourceError(message, next_step="check that it is a file, and its permissions") from error


def read_source_text(path: Path) -> str:
    """The text of a file that people edit: line ends of any system are read as a line feed.

    Raises:
        SourceError: the file is missing, or no UTF-8.
    """
    return with_plain_line_ends(read_text(path))


def with_plain_line_ends(text: str) -> str:
    """The text with a line feed at every line end."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file.

    Raises:
        SourceError: the file is missing or no TOML.
    """
    try:
        return tomllib.loads(read_text(path))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise SourceError(f"{_place(path)} is no TOML: {error}", next_step="mend that line") from error


def _place(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


class Keys:
    """One TOML table of a source file; `table` is its name, empty for the top of the file."""

    def __init__(self, path: Path, table: str, values: Any, known: Collection[str]) -> None:
        self.place = f"{_place(path)}, [{table}]" if table else _place(path)
        if not isinstance(values, Mapping):
            raise SourceError(
                f"{self.place}: a table of keys is expected, not {kind_of(values)}",
                next_step="write a head like [name] and keys below it",
            )
        self._values = values
        for key in values:
            if key not in known:
                close = difflib.get_close_matches(key, known, n=1)
                step = f"did you mean {close[0]!r}?" if close else f"known keys: {', '.join(sorted(known))}"
                raise SourceError(f"{self.place}: unknown key {key!r}", next_step=step)

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def error(self, key: str, message: str, next_step: str) -> SourceError:
        """A `SourceError` that names this table and the key."""
        return SourceError(f"{self.place}: {key} {message}", next_step=next_step)

    def value(self, key: str) -> Any:
        """The raw value, None where the key is absent."""
        return self._values.get(key)

    def text(self, key: str, default: str | None = None) -> str:
        """A text; without a default the key must be there and not be empty."""
        found = self._values.get(key, default)
        if found is None:
            raise self.error(key, "is missing", f'add {key} = "…"')
        if not isinstance(found, str):
            raise self.error(key, f"must be a text, not {kind_of(found)}", "put it in quotes")
        if default is None and not found.strip():
            raise self.error(key, "is empty", "write a text")
        return found

    def optional_text(self, key: str) -> str | None:
        """A text, or None where the key is absent."""
        return self.text(key) if key in self else None

    def choice(self, key: str, allowed: Sequence[str], default: str) -> str:
        """One of the allowed texts."""
        found = self.text(key, default)
        if found not in allowed:
            close = difflib.get_close_matches(found, allowed, n=1)
            step = f"did you mean {close[0]!r}?" if close else f"one of {', '.join(allowed)}"
            raise self.error(key, f"is {found!r}", step)
        return found

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts, empty where the key is absent."""
        found = self._values.get(key, [])
        if not isinstance(found, list) or not all(isinstance(t, str) for t in found):
            raise self.error(key, "must be a list of texts", f'{key} = ["…", "…"]')
        return tuple(found)

    def moment(self, key: str) -> dt.datetime | None:
        """A moment with its offset from UTC, or None where the key is absent."""
        found = self._values.get(key)
        if found is None:
            return None
        if not isinstance(found, dt.datetime) or found.tzinfo is None:
            raise self.error(key, "must be a date and time with an offset", f"{key} = 2026-03-02T09:00:00Z, unquoted")
        return found.astimezone(dt.UTC)

    def json(self, key: str) -> Any:
        """A value that JSON has a form for, or None where the key is absent."""
        self.check_json(key, self._values.get(key))
        return self._values.get(key)

    def check_json(self, key: str, value: Any) -> None:
        """Raise where a value, or a part of it, is no JSON or an integer beyond 64 bits."""
        if isinstance(value, dict):
            value = list(value.values())
        if isinstance(value, list):
            for item in value:
                self.check_json(key, item)
        elif isinstance(value, dt.date | dt.time):
            raise self.error(key, f"holds the date or time {value}", f'put it in quotes: "{value}"')
        elif isinstance(value, int) and value not in _INT64:
            raise self.error(key, f"holds {value}, beyond 64 bits", "SQLite and tools take 64-bit integers only")
        elif isinstance(value, float) and not math.isfinite(value):
            raise self.error(key, f"holds {value}, which is no JSON value", "write a finite number")


def kind_of(value: Any) -> str:
    """What a TOML value is, in words."""
    return _KINDS.get(type(value), "a date or time")

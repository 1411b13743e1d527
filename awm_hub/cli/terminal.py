"""What reaches the terminal: text that is safe to print, tables, colours, and progress on stderr.

Everything an environment holds or returns is hostile text: an escape sequence could repaint the screen, a bidi override
could show another command than the one that is copied. Such characters are shown by their escapes, as `clean` writes
them. With `--json` nothing but one object goes to stdout, and progress becomes JSON lines on stderr.
"""

import io
import os
import shlex
import shutil
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any, TextIO

from awm_hub.safetext import clean, clean_line, json_text

__all__ = [
    "Console",
    "OutputClosedError",
    "clean",
    "clean_line",
    "counted",
    "json_text",
    "own_name",
    "summary",
    "table",
]

_PROSE_WIDTH, _NARROWEST = 100, 20
_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


class OutputClosedError(Exception):
    """Whoever read the output has gone, as `head` does."""


def summary(text: str, width: int) -> str:
    """The first line of a text, as `clean_line`."""
    return clean_line(text.strip().partition("\n")[0], width)


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of aligned columns; the last column is as long as it is."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)] if rows else []
    return ["  ".join([*(c.ljust(w) for c, w in zip(row, widths, strict=False)), row[-1]]) for row in rows]


def counted(number: int, noun: str) -> str:
    """A number and its noun, `1 row` or `2 rows`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def own_name() -> str:
    """How this program is called here: its name where the shell finds it, else the path it was run by."""
    if shutil.which("awm-hub"):
        return "awm-hub"
    script = sys.argv[0]
    is_script = PurePath(script).name == "awm-hub" and os.access(script, os.X_OK)
    return shlex.quote(script) if is_script else f"{shlex.quote(sys.executable)} -m awm_hub"


class Console:
    """Where a verb's output goes: text, or with `is_json` one object at the end."""

    def __init__(self, *, is_json: bool, out: TextIO | None = None, err: TextIO | None = None) -> None:
        self.is_json = is_json
        self._out = out or sys.stdout
        self._err = err or sys.stderr
        _reconfigure(self._out, errors="backslashreplace")  # a locale without `→` must not fail a command
        self._has_colour = self._out.isatty() and "NO_COLOR" not in os.environ

    def say(self, text: str = "") -> None:
        """Print text; nothing with `--json`. The caller has cleaned what is not its own."""
        if not self.is_json:
            _write(self._out, text)

    def emit(self, value: Any) -> None:
        """Print the one JSON object, as UTF-8 whatever the locale."""
        _reconfigure(self._out, encoding="utf-8")
        _write(self._out, json_text(value))

    def complain(self, text: str) -> None:
        """Print an error on stderr."""
        _write(self._err, text)

    def progress(self, event: str, **facts: Any) -> None:
        """Report progress on stderr: a JSON line with `--json`, else a line of text."""
        if self.is_json:
            _write(self._err, json_text({"event": event, **facts}))
        else:
            _write(self._err, clean_line(f"{event} {_facts(facts)}", 120))

    def pass_on(self, event: Mapping[str, Any]) -> None:
        """`progress` for a library function that reports events as objects."""
        self.progress(**event)

    def wrapped(self, text: str, indent: int = 0) -> str:
        """Prose, cleaned, its further lines indented; wrapped where the output is a terminal."""
        lines = clean(text).split("\n")
        if self._out.isatty():
            width = max(min(shutil.get_terminal_size().columns, _PROSE_WIDTH) - indent, _NARROWEST)
            wrap = textwrap.TextWrapper(width, break_long_words=False, break_on_hyphens=False).wrap
            lines = [part for line in lines for part in wrap(line) or [""]]
        return ("\n" + " " * indent).join(lines)

    def style(self, text: str, *names: str) -> str:
        """Text in a style, where the terminal has any."""
        if not self._has_colour:
            return text
        return f"\x1b[{';'.join(_STYLES[n] for n in names)}m{text}\x1b[0m"


def _reconfigure(stream: TextIO, *, encoding: str | None = None, errors: str | None = None) -> None:
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(encoding=encoding, errors=errors)


def _facts(facts: Mapping[str, Any]) -> str:
    shown = [str(value) for name, value in facts.items() if name not in ("position", "total")]
    if "position" in facts:
        shown.append(f"({facts['position']} of {facts.get('total')})")
    return " ".join(shown)


def _write(stream: TextIO, text: str) -> None:
    try:
        print(text, file=stream, flush=True)
    except BrokenPipeError as error:
        raise OutputClosedError from error

"""The lines that somebody types at a session, at a terminal or into a pipe.

At a terminal the tab key completes, Ctrl-C drops the line as in a shell, and leaves when it is pressed again; Ctrl-D
leaves as well. Lines from a pipe are echoed, so that the output reads like the session.
"""

import contextlib
import io
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from awm_hub.cli.playing import completer
from awm_hub.cli.terminal import Console, clean_line

if TYPE_CHECKING:
    from awm_hub.environment import Environment

_PROMPT = "> "


def lines(environment: "Environment", console: Console) -> Iterator[str]:
    """The lines of a session, without the blanks around them.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed twice in a row.
    """
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="surrogateescape")  # bytes that are no UTF-8 are refused as arguments
    if sys.stdin.isatty() and not console.is_json:
        with _completing(environment):
            yield from _typed(console)
    else:
        for line in iter(sys.stdin.readline, ""):
            console.say(_PROMPT + clean_line(line.rstrip("\r\n")))
            yield line.strip()


def _typed(console: Console) -> Iterator[str]:
    """Lines from a terminal."""
    is_leaving = False
    while True:
        try:
            line = input(_PROMPT)
        except EOFError:
            console.say()
            return
        except KeyboardInterrupt:
            console.say()
            if is_leaving:
                raise
            is_leaving = True
            console.say(console.style("Ctrl-C again, or Ctrl-D, leaves", "dim"))
            continue
        is_leaving = False
        yield line.strip()


@contextlib.contextmanager
def _completing(environment: "Environment") -> Iterator[None]:
    """Completion of the prompt, where Python has it."""
    try:
        import readline
    except ImportError:
        yield
        return
    find = completer(environment)

    def complete(_: str, state: int) -> str | None:
        found = find(readline.get_line_buffer()[: readline.get_endidx()])
        return found[state] if state < len(found) else None

    is_libedit = "libedit" in (readline.__doc__ or "")
    before = readline.get_completer(), readline.get_completer_delims()
    readline.set_completer_delims(" \t")
    readline.set_completer(complete)
    readline.parse_and_bind("bind ^I rl_complete" if is_libedit else "tab: complete")
    try:
        yield
    finally:
        readline.set_completer(before[0])
        readline.set_completer_delims(before[1])

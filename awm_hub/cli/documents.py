"""A document of `awm_hub.viewing` as lines for a terminal.

What is long is cut in its middle, since beginnings and ends tell most, and the cut says how the rest is seen. Folded
sections are left out and named. `FULL` shows everything.
"""

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from awm_hub.cli.diffs import diff_lines
from awm_hub.cli.terminal import Console, clean, clean_line, counted, table
from awm_hub.viewing.document import Block, Data, Document, Facts, Grid, Label, Prose, Rows, Section, shown_json

_NAME_WIDTH = 17
_COLOURS = {"good": "green", "bad": "red", "doubtful": "yellow", "": "dim"}
_SHORT_LINES, _SHORT_CHARACTERS = 10, 600
"""What is no longer than this is not worth a cut."""


@dataclass(frozen=True, kw_only=True)
class Extent:
    """How much is shown: so many lines and characters of a text, about a quarter of them from its end."""

    lines: int = sys.maxsize
    characters: int = sys.maxsize
    rest: str = ""
    """How one sees the rest, for the line that says what is left out."""
    has_folded: bool = False
    """Whether folded sections are shown."""


BRIEF = Extent(lines=20, characters=2_000, rest="--full shows all")
FULL = Extent(has_folded=True)


def document_lines(document: Document, console: Console, extent: Extent = BRIEF) -> Iterator[str]:
    """All that a terminal shows of a document."""
    yield _titled(document.title, document.labels, console)
    yield from block_lines(document.blocks, console, extent)
    folded = dict.fromkeys(_folded(document.blocks))
    if folded and not extent.has_folded:
        yield ""
        yield console.style(f"not shown: {clean_line(', '.join(folded))} (--full, --html and --json show all)", "dim")


def block_lines(blocks: Iterable[Block], console: Console, extent: Extent = BRIEF, indent: str = "") -> Iterator[str]:
    """The lines of some blocks."""
    for block in blocks:
        if isinstance(block, Section):
            yield from _section(block, console, extent, indent)
        else:
            yield from ((indent + line).rstrip() for line in _block(block, console, extent))


def _folded(blocks: Iterable[Block]) -> Iterator[str]:
    for block in blocks:
        if isinstance(block, Section):
            yield from [block.title] if block.is_folded else _folded(block.blocks)


def _section(section: Section, console: Console, extent: Extent, indent: str) -> Iterator[str]:
    if section.is_folded and not extent.has_folded:
        return
    yield ""
    yield indent + _titled(section.title, section.labels, console)
    yield from block_lines(section.blocks, console, extent, indent + "   ")


def _titled(title: str, labels: Iterable[Label], console: Console) -> str:
    words = (console.style(clean_line(found.text), _COLOURS[found.tone]) for found in labels)
    return "  ".join([console.style(clean_line(title), "bold"), *words])


def _block(block: Block, console: Console, extent: Extent) -> Iterator[str]:
    if isinstance(block, Facts):
        for name, value in block.pairs:
            yield f"{clean_line(name):{_NAME_WIDTH}} {clean_line(value)}"
    elif isinstance(block, Grid):
        yield from _grid(block, console)
    elif isinstance(block, Rows):
        yield from diff_lines(block.diff.to_dict(), console)
    elif isinstance(block, Prose):
        yield from _text(block.label, clean(block.text), console, extent)
    elif isinstance(block, Data):
        yield from _text(block.label, shown_json(block.value), console, extent)


def _grid(grid: Grid, console: Console) -> Iterator[str]:
    head, *rows = table([grid.columns, *([clean_line(cell.text) for cell in row] for row in grid.rows)])
    yield console.style(head, "dim")
    yield from rows


def _text(name: str, text: str, console: Console, extent: Extent) -> Iterator[str]:
    """Text beside its name, or below it where it has several lines."""
    lines = list(_cut(text, extent, console))
    label = console.style(name, "dim")
    if name and len(lines) == 1:
        yield f"{label} {lines[0]}"
        return
    if name:
        yield label
    yield from (f"  {line}" if name else line for line in lines)


def _cut(text: str, extent: Extent, console: Console) -> Iterator[str]:
    """The lines of a text, without its middle where that is long."""
    ending_lines, ending_characters = extent.lines // 4, extent.characters // 4
    head = "\n".join(text[: extent.characters - ending_characters].split("\n")[: extent.lines - ending_lines])
    rest = text[len(head) :]
    tail = "\n".join(rest[-ending_characters:].split("\n")[-ending_lines:])
    left = rest[: len(rest) - len(tail)]
    if len(left) <= _SHORT_CHARACTERS and left.count("\n") - 1 <= _SHORT_LINES:
        yield from text.split("\n")
        return
    is_whole_lines = left.startswith("\n") and left.endswith("\n")
    what = counted(left.count("\n") - 1, "more line") if is_whole_lines else counted(len(left), "more character")
    yield from head.split("\n")
    yield console.style(f"… {what} ({extent.rest})", "dim")
    yield from tail.split("\n")

"""A document of `awm_hub.viewing` as lines for a terminal; folded sections are left out and counted."""

from collections.abc import Iterable, Iterator

from awm_hub.cli.diffs import diff_lines
from awm_hub.cli.terminal import Console, clean, clean_line, counted, table
from awm_hub.viewing.document import Block, Data, Document, Facts, Grid, Label, Prose, Rows, Section, shown_json

_LINE_LIMIT, _CHARACTER_LIMIT = 14, 2_000
_NAME_WIDTH = 17
_COLOURS = {"good": "green", "bad": "red", "doubtful": "yellow", "": "dim"}


def document_lines(document: Document, console: Console) -> Iterator[str]:
    """All that a terminal shows of a document."""
    yield _titled(document.title, document.labels, console)
    yield from block_lines(document.blocks, console)
    folded = dict.fromkeys(_folded(document.blocks))
    if folded:
        yield ""
        yield console.style(f"not shown: {clean_line(', '.join(folded))} (--html and --json show all)", "dim")


def block_lines(blocks: Iterable[Block], console: Console, indent: str = "") -> Iterator[str]:
    """The lines of some blocks."""
    for block in blocks:
        if isinstance(block, Section):
            yield from _section(block, console, indent)
        else:
            yield from ((indent + line).rstrip() for line in _block(block, console))


def _folded(blocks: Iterable[Block]) -> Iterator[str]:
    for block in blocks:
        if isinstance(block, Section):
            yield from [block.title] if block.is_folded else _folded(block.blocks)


def _section(section: Section, console: Console, indent: str) -> Iterator[str]:
    if section.is_folded:
        return
    yield ""
    yield indent + _titled(section.title, section.labels, console)
    yield from block_lines(section.blocks, console, indent + "   ")


def _titled(title: str, labels: Iterable[Label], console: Console) -> str:
    words = (console.style(clean_line(found.text), _COLOURS[found.tone]) for found in labels)
    return "  ".join([console.style(clean_line(title), "bold"), *words])


def _block(block: Block, console: Console) -> Iterator[str]:
    if isinstance(block, Facts):
        for name, value in block.pairs:
            yield f"{clean_line(name):{_NAME_WIDTH}} {clean_line(value)}"
    elif isinstance(block, Grid):
        yield from _grid(block, console)
    elif isinstance(block, Rows):
        yield from diff_lines(block.diff.to_dict(), console)
    elif isinstance(block, Prose):
        yield from _text(block.label, clean(block.text), console)
    elif isinstance(block, Data):
        yield from _text(block.label, shown_json(block.value), console)


def _grid(grid: Grid, console: Console) -> Iterator[str]:
    head, *rows = table([grid.columns, *([clean_line(cell.text) for cell in row] for row in grid.rows)])
    yield console.style(head, "dim")
    yield from rows


def _text(name: str, text: str, console: Console) -> Iterator[str]:
    """Text beside its name, or below it where it has several lines; what is long is cut and says so."""
    cut = text[:_CHARACTER_LIMIT].split("\n")[:_LINE_LIMIT]
    left = len(text) - len("\n".join(cut))
    lines = [*cut, *([console.style(f"… {counted(left, 'more character')}", "dim")] if left else [])]
    label = console.style(name, "dim")
    if name and len(lines) == 1:
        yield f"{label} {lines[0]}"
        return
    if name:
        yield label
    yield from (f"  {line}" if name else line for line in lines)

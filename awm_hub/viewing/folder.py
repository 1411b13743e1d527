"""A run as a folder of pages: an index and one page per rollout, which link to each other.

    OUT/index.html
    OUT/rollouts/ID.html

Pages of an earlier run are replaced as a whole, so that a folder never shows two runs at once. A folder that holds
anything else is left alone.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from awm_hub.errors import UsageError
from awm_hub.viewing.document import Document
from awm_hub.viewing.listing import Survey, run_document
from awm_hub.viewing.page import html_page, is_own_page

_INDEX, _ROLLOUTS = "index.html", "rollouts"
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,150}")
_START_CHARACTERS = 500


class PagesFolder:
    """The pages of one run."""

    def __init__(self, out: Path, title: str, found: Survey) -> None:
        """Make the folder, without what an earlier run left there, and write its index.

        Raises:
            UsageError: `out` is a file, or holds something other than pages of this program.
        """
        _clear(out)
        (out / _ROLLOUTS).mkdir(parents=True, exist_ok=True)
        self._out = out
        self._positions: Mapping[str, int] = {line.id: n for n, line in enumerate(found.rollouts)}
        self._files = [_file_name(name, n) for name, n in self._positions.items()]
        links = {name: f"{_ROLLOUTS}/{self._files[n]}" for name, n in self._positions.items()}
        self.index = write_page(out / _INDEX, html_page(run_document(title, replace(found, links=links))))

    def add(self, name: str, document: Document) -> str:
        """Write the page of one rollout; the path."""
        files, position = self._files, self._positions[name]
        before = files[position - 1] if position else ""
        after = files[position + 1] if position + 1 < len(files) else ""
        page = html_page(document, up=f"../{_INDEX}", before=before, after=after)
        return write_page(self._out / _ROLLOUTS / files[position], page)


def write_page(path: Path, page: str) -> str:
    """Write a page; its path.

    Raises:
        UsageError: the path is a folder's.
    """
    if path.is_dir():
        raise UsageError(f"{path} is a folder, and one rollout becomes a file", next_step="--html rollout.html")
    path.write_text(page, encoding="utf-8", newline="\n")
    return str(path)


def _clear(out: Path) -> None:
    """Remove the pages of an earlier run."""
    if not out.is_dir():
        if out.exists() or out.suffix == ".html":
            step = "name a folder, or choose one rollout with --rollout"
            raise UsageError("the pages of a run take a folder", next_step=step)
        return
    pages = list(_pages_in(out))
    for page in pages:
        page.unlink()


def _pages_in(out: Path) -> Iterator[Path]:
    """The pages of a folder.

    Raises:
        UsageError: there is something else in it.
    """
    for path in [*out.iterdir(), *(out / _ROLLOUTS).glob("*")]:
        if path == out / _ROLLOUTS and path.is_dir() and not path.is_symlink():
            continue
        if not _is_own(path):
            step = "name a new folder, or remove this one"
            raise UsageError(f"{out} holds something other than pages of a run: {path.name}", next_step=step)
        yield path


def _is_own(path: Path) -> bool:
    if path.suffix != ".html" or path.is_symlink() or not path.is_file():
        return False
    with open(path, encoding="utf-8", errors="replace") as file:
        return is_own_page(file.read(_START_CHARACTERS))


def _file_name(name: str, number: int) -> str:
    """A rollout's id as a file name; ids of others may hold anything."""
    return f"{name}.html" if _FILE_NAME.fullmatch(name) else f"rollout-{number}.html"

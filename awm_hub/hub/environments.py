"""A dataset as a lazy mapping from ids to environments."""

import os
import re
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from awm_hub import schema
from awm_hub.environment import Environment
from awm_hub.errors import RecordError, UnknownNameError, UsageError
from awm_hub.hub.locations import Folder, Location, locate, refuse_revision
from awm_hub.hub.reading import ParquetFile

BUNDLED = Path(__file__).parent.parent / "bundled"
"""The dataset that comes with the package."""

_OPEN_FILES = 4
_FILE = re.compile(r"[\w-][\w.-]*(?:/[\w-][\w.-]*)?\.parquet")
_LIGHT = ("id", "split", "content_hash", "title", "categories", "interface", "usage", "format_version")
_COUNTED = {"tables": "name", "tools": "name", "tasks": "id"}
"""Columns whose items are counted, with the smallest field of an item."""


@dataclass(frozen=True, kw_only=True)
class IndexEntry:
    """What lists show of an environment, and where its row lies."""

    id: str
    split: str
    file: str
    row_group: int
    content_hash: str
    title: str
    categories: tuple[str, ...]
    interface: str
    usage: str
    tables_count: int
    tools_count: int
    tasks_count: int
    image_bytes: int | None
    """None where the dataset has no index."""
    format_version: int


class Environments(Mapping[str, Environment]):
    """The environments of a dataset by id; a row is read when it is asked for."""

    def __init__(self, location: Location, entries: Mapping[str, IndexEntry]) -> None:
        self._location = location
        self.entries: Mapping[str, IndexEntry] = entries
        """Light metadata of every environment."""
        self._lock = threading.Lock()
        self._open: dict[str, ParquetFile] = {}

    @property
    def source(self) -> str:
        """Where the dataset was found, as it was asked for."""
        return self._location.source

    @property
    def revision(self) -> str | None:
        """The commit on the Hub; None for a local dataset."""
        return self._location.revision

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __contains__(self, name: object) -> bool:
        return name in self.entries

    def __repr__(self) -> str:
        return f"<{len(self)} environment{'' if len(self) == 1 else 's'} of {self.source}>"

    def __getitem__(self, name: str) -> Environment:
        """Read one environment.

        Raises:
            UnknownNameError: there is no such environment.
            RecordError: its row, or the file that holds it, breaks the format.
            RemoteError: its file cannot be fetched.
        """
        entry = self.entries.get(name)
        if entry is None:
            step = "`awm-hub list` shows all" if self.entries else f"{self.source} holds no environment"
            raise UnknownNameError("environment", name, self.entries, next_step=step)
        with self._lock:
            row = self._file(entry.file).row(entry.row_group, name)
        if row is None:
            message = f"row {name!r} is not in {entry.file}, row group {entry.row_group}"
            raise RecordError(message, next_step="the index is of other files: fetch or pack the dataset again")
        environment = Environment.from_row(row)
        if environment.content_hash != entry.content_hash:
            message = f"row {name!r} has another content_hash than the index says"
            raise RecordError(message, next_step="the index is of other files: fetch or pack the dataset again")
        return environment

    def _file(self, name: str) -> ParquetFile:
        """The file; the last ones asked for are kept open, since the splits' rows alternate."""
        if name not in self._open:
            if len(self._open) == _OPEN_FILES:
                del self._open[next(iter(self._open))]
            self._open[name] = ParquetFile(self._location.path(name), name)
        return self._open[name]


def load(
    source: str | os.PathLike[str] | None = None, *, revision: str | None = None, split: str | None = None
) -> Environments:
    """Open a dataset of environments.

    Args:
        source: A local folder or Parquet file, a Hub dataset (`owner/name` or `hf://datasets/owner/name`), or None for
            the dataset that comes with the package. A local folder wins over a Hub dataset of the same name.
        revision: Branch, tag or commit on the Hub.
        split: Only `train` or only `test`.

    Raises:
        DataError: there is no such dataset, or it breaks the format.
        RemoteError: the Hub does not have it, or cannot be reached.
        UsageError: there is no such split, or a local dataset is asked for at a revision.
    """
    if split not in (None, *schema.SPLITS):
        raise UsageError(f"there is no split {split!r}", next_step=f"one of {', '.join(schema.SPLITS)}")
    location = _bundled(revision) if source is None else locate(source, revision)
    index = location.index()
    rows = _index_rows(index) if index else [r for f in location.files() for r in _light_rows(location, f)]
    entries: dict[str, IndexEntry] = {}
    for row in rows:
        entry = _entry(row, location.source)
        if entry.id in entries:
            raise RecordError(f"{location.source} holds {entry.id!r} twice", next_step="pack the dataset again")
        if split in (None, entry.split):
            entries[entry.id] = entry
    return Environments(location, entries)


def _bundled(revision: str | None) -> Folder:
    refuse_revision("the bundled set", revision)
    return Folder(BUNDLED, "the bundled set")


def _index_rows(path: Path) -> Iterator[dict[str, Any]]:
    file = ParquetFile(path, "index.parquet")
    file.check_columns(schema.INDEX, schema.INDEX.names)
    for group in file.groups:
        yield from file.rows(group, schema.INDEX.names)


def _light_rows(location: Location, name: str) -> Iterator[dict[str, Any]]:
    """Rows as an index would hold them, from the light columns of a file."""
    file = ParquetFile(location.path(name), name)
    file.check_columns(schema.ENVIRONMENTS, (*_LIGHT, *_COUNTED))
    leaves = [file.leaf(column, field) for column, field in _COUNTED.items()]
    for group in file.groups:
        for row in file.rows(group, (*_LIGHT, *leaves)):
            counts = {f"{column}_count": len(row[column] or ()) for column in _COUNTED}
            light = {column: row[column] for column in _LIGHT}
            yield {**light, **counts, "image_bytes": None, "file": name, "row_group": group}


def _entry(row: Mapping[str, Any], source: str) -> IndexEntry:
    values = {f.name: row[f.name] for f in fields(IndexEntry)}
    texts = ("id", "split", "file", "content_hash", "title", "interface", "usage")
    numbers = ("row_group", "tables_count", "tools_count", "tasks_count", "format_version")
    is_typed = all(isinstance(values[t], str) for t in texts) and all(isinstance(values[n], int) for n in numbers)
    if not is_typed or not schema.ID_PATTERN.fullmatch(values["id"]) or not _FILE.fullmatch(values["file"]):
        message = f"{source}: bad entry for {values['id']!r} in {values['file']!r}"
        raise RecordError(message, next_step="fetch or pack the dataset again")
    return IndexEntry(**{**values, "categories": tuple(values["categories"] or ())})

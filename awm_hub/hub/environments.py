"""A dataset as a lazy mapping from ids to environments."""

import os
import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Unpack

from awm_hub import schema
from awm_hub.environment import Environment, Quality
from awm_hub.errors import RecordError, UnknownNameError
from awm_hub.hub.filters import Filters, check_filters, fits, passes
from awm_hub.hub.locations import Access, Folder, Location, locate, refuse_revision
from awm_hub.hub.origins import remember_revision
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


_ENTRY_FIELDS = tuple(f.name for f in fields(IndexEntry))


class Environments(Mapping[str, Environment]):
    """The environments of a dataset by id; a row is read when it is asked for.

    Iterating goes by id, which is the order of the rows in their files, so that a pass reads each row group once.
    """

    def __init__(self, location: Location, entries: Mapping[str, IndexEntry]) -> None:
        self._location = location
        self.entries: Mapping[str, IndexEntry] = entries
        """Light metadata of every environment."""
        self._lock = threading.Lock()
        self._open: dict[str, ParquetFile] = {}
        self._qualities: dict[str, Quality] | None = None

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
        if self.revision is not None:
            remember_revision(environment, self.revision)
        return environment

    def where(self, **filters: Unpack[Filters]) -> "Environments":
        """Only the environments that pass; see `awm_hub.hub.Filters`.

        Raises:
            UsageError: a filter, or a value of it, does not exist.
            RecordError: `quality` is filtered by, and that column breaks the format.
            RemoteError: `quality` is filtered by, and cannot be fetched.
        """
        check_filters(filters)
        found = Environments(self._location, {n: e for n, e in self.entries.items() if fits(e, filters)})
        wanted = filters.get("quality")
        if wanted is None:
            return found
        qualities = found.qualities()
        kept = {n: e for n, e in found.entries.items() if passes(qualities.get(n), wanted)}
        return Environments(self._location, kept)

    def qualities(self) -> Mapping[str, Quality]:
        """Audit results by id, of the environments that were audited in their present content.

        Only that column is read, which is little: the images and the code stay where they are.

        Raises:
            RecordError: a file breaks the format.
            RemoteError: a file cannot be fetched.
        """
        if self._qualities is None:
            self._qualities = dict(self._read_qualities())
        return self._qualities

    def _read_qualities(self) -> Iterator[tuple[str, Quality]]:
        for row in self.columns(["quality"]):
            quality = Quality.from_dict(row["quality"]) if row["quality"] is not None else None
            if quality is not None and quality.audited_hash == self.entries[row["id"]].content_hash:
                yield row["id"], quality

    def columns(self, names: Iterable[str]) -> Iterator[dict[str, Any]]:
        """Some light columns of every environment, beside its id; the rest of the rows is not read.

        Rows come as they lie in their files, one row group in memory at a time, and a value of a column as in
        `awm_hub.schema`.

        Args:
            names: Columns (`description`), or single fields of columns of structs (`tools.name`).

        Raises:
            RecordError: a file breaks the format.
            RemoteError: a file cannot be fetched.
        """
        wanted = tuple(names)
        for name, group in dict.fromkeys((e.file, e.row_group) for e in self.entries.values()):
            with self._lock:
                file = self._file(name)
                file.check_columns(schema.ENVIRONMENTS, ["id", *dict.fromkeys(w.partition(".")[0] for w in wanted)])
                rows = file.rows(group, ["id", *(file.leaf(*w.split(".")) if "." in w else w for w in wanted)])
            yield from (row for row in rows if row["id"] in self.entries)

    def _file(self, name: str) -> ParquetFile:
        """The file; the last ones asked for are kept open, since the splits' rows alternate."""
        if name not in self._open:
            if len(self._open) == _OPEN_FILES:
                del self._open[next(iter(self._open))]
            self._open[name] = ParquetFile(self._location.open(name), name)
        return self._open[name]


def load(
    source: str | os.PathLike[str] | None = None,
    *,
    revision: str | None = None,
    token: str | bool | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    **filters: Unpack[Filters],
) -> Environments:
    """Open a dataset of environments.

    Of a dataset on the Hub, the index is downloaded; asking for an environment then fetches the row group that holds it
    (about a megabyte), which is kept in the Hub's cache and works offline from there.

    Args:
        source: A local folder or Parquet file, a Hub dataset (`owner/name` or `hf://datasets/owner/name`), or None for
            the dataset that comes with the package. A local folder wins over a Hub dataset of the same name.
        revision: Branch, tag or commit on the Hub.
        token: As whom the Hub is asked. None: the login of this machine, if there is one; False: nobody's.
        cache_dir: Where the Hub's files are kept, in place of the Hub's own cache. A cache gives what it has to whoever
            asks: a program that loads for several people needs a folder for each.
        filters: Which environments: `split`, `category`, `interface`, `usage`, `min_tools`, `max_tools`, `min_tables`,
            `max_tables`, `quality`, `ids`; see `awm_hub.hub.Filters`.

    Raises:
        DataError: there is no such dataset, or it breaks the format.
        RemoteError: the Hub does not have it, or cannot be reached.
        UsageError: there is no such filter or value of one, or a local dataset is asked for at a revision.
    """
    check_filters(filters)
    access = Access(token=token, cache_dir=None if cache_dir is None else Path(cache_dir))
    found = environments_at(_bundled(revision) if source is None else locate(source, revision, access))
    return found.where(**filters) if filters else found


def environments_at(location: Location) -> Environments:
    """All environments of a location, by its index or by the light columns of its files.

    Raises:
        RecordError: it breaks the format.
        RemoteError: a file cannot be fetched.
    """
    index = location.index()
    rows = _index_rows(index) if index else [r for f in location.files() for r in _light_rows(location, f)]
    entries: dict[str, IndexEntry] = {}
    for row in rows:
        entry = _entry(row, location.source)
        if entry.id in entries:
            raise RecordError(f"{location.source} holds {entry.id!r} twice", next_step="pack the dataset again")
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
    file = ParquetFile(location.open(name), name)
    file.check_columns(schema.ENVIRONMENTS, (*_LIGHT, *_COUNTED))
    leaves = [file.leaf(column, field) for column, field in _COUNTED.items()]
    for group in file.groups:
        for row in file.rows(group, (*_LIGHT, *leaves)):
            counts = {f"{column}_count": len(row[column] or ()) for column in _COUNTED}
            light = {column: row[column] for column in _LIGHT}
            yield {**light, **counts, "image_bytes": None, "file": name, "row_group": group}


def _entry(row: Mapping[str, Any], source: str) -> IndexEntry:
    values = {name: row[name] for name in _ENTRY_FIELDS}
    texts = ("id", "split", "file", "content_hash", "title", "interface", "usage")
    numbers = ("row_group", "tables_count", "tools_count", "tasks_count", "format_version")
    is_typed = all(isinstance(values[t], str) for t in texts) and all(isinstance(values[n], int) for n in numbers)
    if not is_typed or not schema.ID_PATTERN.fullmatch(values["id"]) or not _FILE.fullmatch(values["file"]):
        message = f"{source}: bad entry for {values['id']!r} in {values['file']!r}"
        raise RecordError(message, next_step="fetch or pack the dataset again")
    return IndexEntry(**{**values, "categories": tuple(values["categories"] or ())})

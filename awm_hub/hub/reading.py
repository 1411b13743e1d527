"""Reading untrusted Parquet: limits and types first, values after.

A footer says how much a row group holds; a group that holds more than a reader accepts is refused unread. Texts are
decoded as dictionaries, so that a file in which one large text stands a million times takes no more memory than that
text; how much a row unfolds to is known, and limited, before it becomes Python objects. Columns are checked against
`awm_hub.schema`: more columns, and more fields in a struct, are left alone, but none may be missing or of another kind.
"""

import contextlib
import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from awm_hub import schema
from awm_hub.environment import check_format_version
from awm_hub.errors import LimitError, RecordError
from awm_hub.hub.ranges import RangeFile

MAX_GROUP_ROWS = 2**16
MAX_GROUP_VALUES = 5_000_000
"""Values in all columns of a row group, items of lists counted one by one."""

_WIDE = 2 * schema.MAX_CODE_BYTES
_CELL_BYTES = {"database": schema.MAX_IMAGE_BYTES + 2**10, "code": _WIDE, "verifier_module": _WIDE}
_OTHER_CELL_BYTES = 64 * 2**20
_LAZY_BYTES = 2**12
_FOOTER_BYTES = 2**18
"""Fetched at first of a file on the Hub: a shard of 20 MB has a footer of about 150 KB. A longer one is fetched too."""
_VALUE_BYTES = 64
"""What a value costs as a Python object, beside its content."""


@dataclass(kw_only=True)
class _Group:
    """The row group that was read last: rows are often asked for in order."""

    number: int
    versions: dict[Any, Any]
    """Format version by id, in the order of the rows."""
    table: pa.Table | None = None
    large: tuple[str, ...] = ()
    """Columns that, over all rows, hold more than one cell may: only their cells have to be measured."""


class ParquetFile:
    """One Parquet file; messages call it by its name."""

    def __init__(self, source: Path | RangeFile, name: str) -> None:
        self.name = name
        self._recent: _Group | None = None
        self._ranges = source if isinstance(source, RangeFile) else None
        if self._ranges is not None:
            self._ranges.hold(self._ranges.size - _FOOTER_BYTES, self._ranges.size)
        with self.decoding():
            metadata = pq.read_metadata(source)
            columns = [metadata.schema.column(i) for i in range(metadata.num_columns)]
            self._paths: list[str] = [c.path for c in columns]
            texts = [c.path for c in columns if c.physical_type == "BYTE_ARRAY"]
            # What is asked for is fetched at once; the second reader is for looks at metadata, and fetches nothing.
            self._file = pq.ParquetFile(
                source, metadata=metadata, read_dictionary=texts, page_checksum_verification=True, pre_buffer=True
            )
            self._lazy = pq.ParquetFile(source, metadata=metadata, pre_buffer=False, buffer_size=_LAZY_BYTES)

    @contextlib.contextmanager
    def decoding(self) -> Iterator[None]:
        """Turn what Arrow says about a broken file into `RecordError`."""
        step = "fetch or pack the dataset again"
        try:
            yield
        except FileNotFoundError:
            raise RecordError(f"{self.name} is missing", next_step=step) from None
        except (pa.ArrowException, OSError, UnicodeDecodeError, OverflowError) as error:
            reason = str(error).splitlines()[0][:300] if str(error) else type(error).__name__
            raise RecordError(f"{self.name} is not a readable Parquet file: {reason}", next_step=step) from error

    @property
    def groups(self) -> range:
        """Numbers of the row groups."""
        return range(self._file.metadata.num_row_groups)

    def check_columns(self, expected: pa.Schema, columns: Sequence[str]) -> None:
        """Raise RecordError where one of these columns is missing or of another kind."""
        with self.decoding():
            found = self._file.metadata.schema.to_arrow_schema()
        for name in columns:
            at = found.get_all_field_indices(name)
            if len(at) != 1:
                what = "has no column" if not at else "repeats the column"
                raise RecordError(f"{self.name} {what} {name!r}", next_step="is this an awm-hub dataset?")
            if not _fits(expected.field(name).type, found.field(at[0]).type):
                message = f"{self.name}: column {name!r} is {schema.type_name(found.field(at[0]).type)}"
                raise RecordError(message, next_step=f"expected {schema.type_name(expected.field(name).type)}")

    def leaf(self, column: str, field: str) -> str:
        """The path of one field of a column of structs; how lists are called in between depends on the writer.

        Raises:
            RecordError: the column has no such field.
        """
        for path in self._paths:
            if path.startswith(f"{column}.") and path.endswith(f".{field}"):
                return path
        raise RecordError(f"{self.name}: column {column!r} has no field {field!r}", next_step="pack the dataset again")

    def rows(self, group: int, columns: Sequence[str]) -> list[dict[str, Any]]:
        """All rows of a group, of light columns only."""
        self._check_group(group)
        with self.decoding():
            table = self._file.read_row_group(group, columns=list(columns))
            size = sum(_unfolded(column) for column in table.columns)
            if size > schema.MAX_ROW_GROUP_BYTES:
                raise LimitError(f"{self.name}: the light columns of row group {group} unfold to {size} bytes")
            return _as_python(table)

    def row(self, group: int, row_id: str) -> dict[str, Any] | None:
        """The row of `environments` with this id, or None where the group has no such row."""
        if self._recent is None or self._recent.number != group:
            self._recent = self._open_group(group)
        if row_id not in self._recent.versions:
            return None
        check_format_version(row_id, self._recent.versions[row_id])
        if self._recent.table is None:
            self.check_columns(schema.ENVIRONMENTS, schema.ENVIRONMENTS.names)
            with self.decoding():
                self._recent.table = self._file.read_row_group(group, columns=schema.ENVIRONMENTS.names)
                self._recent.large = tuple(_beyond_limits(self._recent.table, schema.ENVIRONMENTS.names))
        position = list(self._recent.versions).index(row_id)
        with self.decoding():
            table = self._recent.table.slice(position, 1)
            for name in _beyond_limits(table, self._recent.large):
                size, limit = _unfolded(table.column(name)), _cell_limit(name)
                raise LimitError(f"row {row_id!r}: {name} holds {size} bytes, at most {limit} are read")
            return _as_python(table)[0]

    def _open_group(self, group: int) -> "_Group":
        """Versions first: the columns of a newer format may be others."""
        self.check_columns(schema.ENVIRONMENTS, ("id", "format_version"))
        self._check_group(group)
        self._hold(group)
        heads = self.rows(group, ("id", "format_version"))
        versions = {head["id"]: head["format_version"] for head in heads}
        if len(versions) != len(heads):
            raise RecordError(f"{self.name}: an id stands twice in row group {group}", next_step="pack it again")
        return _Group(number=group, versions=versions)

    def _hold(self, group: int) -> None:
        """Fetch a row group of a file on the Hub in one request, not column by column."""
        if self._ranges is None:
            return
        found = self._file.metadata.row_group(group)
        chunks = [found.column(i) for i in range(found.num_columns)]
        starts = [c.data_page_offset if c.dictionary_page_offset is None else c.dictionary_page_offset for c in chunks]
        start, size = min(starts), sum(c.total_compressed_size for c in chunks)
        if 0 < start < start + size <= self._ranges.size:
            self._ranges.hold(start, start + size)

    def _check_group(self, group: int) -> None:
        if group not in self.groups:
            raise RecordError(f"{self.name} has no row group {group}", next_step="fetch or pack the dataset again")
        found = self._file.metadata.row_group(group)
        columns = list(range(found.num_columns))
        with self.decoding():
            # Reads no row, but every column's metadata. Broken metadata is an error here; `column(i)` aborts on it.
            next(self._lazy.reader.iter_batches(0, [group], column_indices=columns, use_threads=False), None)
        chunks = [found.column(i) for i in columns]
        size = max(found.total_byte_size, sum(c.total_uncompressed_size for c in chunks))
        if size > schema.MAX_ROW_GROUP_BYTES:
            limit = schema.MAX_ROW_GROUP_BYTES
            raise LimitError(f"{self.name}: row group {group} holds {size} bytes, at most {limit} are read")
        values = sum(c.num_values for c in chunks)
        if found.num_rows > MAX_GROUP_ROWS or values > MAX_GROUP_VALUES:
            raise LimitError(
                f"{self.name}: row group {group} holds {found.num_rows} rows with {values} values, too many"
            )


def _beyond_limits(table: pa.Table, columns: Sequence[str]) -> Iterator[str]:
    """Those of these columns that hold more than one cell may."""
    return (name for name in columns if _unfolded(table.column(name)) > _cell_limit(name))


def _cell_limit(column: str) -> int:
    return _CELL_BYTES.get(column, _OTHER_CELL_BYTES)


def _as_python(table: pa.Table) -> list[dict[str, Any]]:
    """Rows as dictionaries, moments in UTC.

    Arrow imports pandas, where there is one, to make a moment with an offset: half a second, and 50 MB.
    """
    timed = [f.name for f in table.schema if _naive(f.type) != f.type]
    for name in timed:
        column = table.column(name)
        naive = column.cast(_naive(column.type, "UTC"), safe=False).cast(_naive(column.type), safe=False)
        table = table.set_column(table.schema.get_field_index(name), name, naive)
    rows: list[dict[str, Any]] = table.to_pylist()
    return [{**row, **{name: _in_utc(row[name]) for name in timed}} for row in rows]


def _naive(type_: pa.DataType, zone: str | None = None) -> pa.DataType:
    """The type with moments of this zone; lists of moments are in no column of ours."""
    if pa.types.is_timestamp(type_):
        return pa.timestamp("us", zone)
    if pa.types.is_struct(type_):
        return pa.struct([pa.field(f.name, _naive(f.type, zone)) for f in type_])
    return type_


def _in_utc(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _in_utc(v) if isinstance(v, dt.datetime) else v for k, v in value.items()}
    return value.replace(tzinfo=dt.UTC) if isinstance(value, dt.datetime) else value


def _unfolded(array: Any) -> int:
    """Bytes that a column takes as Python objects, every repeated text counted."""
    if isinstance(array, pa.ChunkedArray):
        return sum(_unfolded(chunk) for chunk in array.chunks)
    own = _VALUE_BYTES * len(array)
    if pa.types.is_dictionary(array.type):
        return own + (pc.sum(pc.binary_length(array.dictionary).take(array.indices)).as_py() or 0)
    if pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
        return own + _unfolded(array.flatten())
    if pa.types.is_struct(array.type):
        return own + sum(_unfolded(child) for child in array.flatten())
    return own + int(array.nbytes)


def _fits(expected: pa.DataType, found: pa.DataType) -> bool:
    """Whether a column can be read as what is expected."""
    types = pa.types
    if types.is_dictionary(found):
        return _fits(expected, found.value_type)
    if types.is_list(expected):
        return (types.is_list(found) or types.is_large_list(found)) and _fits(expected.value_type, found.value_type)
    if types.is_struct(expected):
        names = {f.name for f in found} if types.is_struct(found) else set()
        return all(f.name in names and _fits(f.type, found.field(f.name).type) for f in expected)
    if types.is_timestamp(expected):
        return bool(types.is_timestamp(found) and found.tz is not None)
    return bool(expected == found) or any(kind(expected) and other(found) for kind, other in _READ_AS)


_READ_AS = (
    (pa.types.is_string, pa.types.is_large_string),
    (pa.types.is_string, pa.types.is_string_view),
    (pa.types.is_binary, pa.types.is_large_binary),
    (pa.types.is_binary, pa.types.is_binary_view),
    (pa.types.is_integer, pa.types.is_integer),
)
"""What other writers may have made of a type."""

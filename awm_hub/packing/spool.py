"""Rows on disk until all of a dataset have come: they are sorted before they are written, and may be many.

A thousand real environments are half a gigabyte; a spool holds one row in memory at a time, and a row group when they
are read back.
"""

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, overload

import pyarrow as pa


class Spool:
    """A file of tables with one row each, numbered as they came; use it as a context manager."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._path, self._count = path, 0
        self._writer = pa.ipc.new_file(pa.OSFile(str(path), "wb"), schema)
        self._reader: pa.ipc.RecordBatchFileReader | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._writer.close()
        self._reader = None
        self._path.unlink(missing_ok=True)

    def add(self, table: pa.Table) -> int:
        """Keep a row; its number."""
        self._writer.write_table(table)
        self._count += 1
        return self._count - 1

    def rows(self, numbers: Sequence[int]) -> "SpooledRows":
        """Rows in this order; nothing can be added afterwards."""
        if self._reader is None:
            self._writer.close()
            # Read, not mapped: pages of a map would count as this process's memory.
            self._reader = pa.ipc.open_file(pa.OSFile(str(self._path), "rb"))
        return SpooledRows(self._reader, numbers)


class SpooledRows(Sequence[pa.Table]):
    """Tables of one row each, read when they are asked for."""

    def __init__(self, reader: pa.ipc.RecordBatchFileReader, numbers: Sequence[int]) -> None:
        self._reader, self._numbers = reader, numbers

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, at: int) -> pa.Table: ...

    @overload
    def __getitem__(self, at: slice) -> list[pa.Table]: ...

    def __getitem__(self, at: int | slice) -> pa.Table | list[pa.Table]:
        if isinstance(at, slice):
            return [self._table(n) for n in self._numbers[at]]
        return self._table(self._numbers[at])

    def _table(self, number: int) -> pa.Table:
        return pa.Table.from_batches([self._reader.get_batch(number)])

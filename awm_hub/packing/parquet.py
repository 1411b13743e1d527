"""Parquet as a dataset repo wants it: small row groups for random access, small shards for streaming.

Environments are cut into row groups of up to 32 rows (fewer where they are large, so that a group stays below 64 MB),
since one is opened by fetching its group; tasks into groups of up to 1,024, since they are streamed. Row groups go into
shards of at most 20 MB. Compression is zstd, the page index is on for the Hub's viewer, and every page
carries a checksum. Equal rows give equal bytes for one version of pyarrow: nothing depends on time, on the machine or
on the way the rows came in.
"""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

GROUP_ROWS = {"environments": 32, "tasks": 1024}
GROUP_BYTES = 64 * 2**20
SHARD_BYTES = 20 * 2**20


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a row was written."""

    file: str
    """Relative to the dataset's root."""
    row_group: int


@dataclass(frozen=True, kw_only=True)
class _Group:
    table: pa.Table
    size: int
    """Compressed, as a file of its own."""


def write_split(root: Path, config: str, split: str, rows: Sequence[pa.Table]) -> list[Place]:
    """Write one split of a config as shards; `rows` are tables of one row each, in order, read a group at a time.

    Returns:
        The place of each row.
    """
    (root / config).mkdir(exist_ok=True)
    shards = _write_shards(root / config, split, _groups(rows, GROUP_ROWS[config]))
    places = []
    for number, (part, counts) in enumerate(shards):
        file = f"{config}/{split}-{number:05}-of-{len(shards):05}.parquet"
        part.rename(root / file)
        places += [Place(file=file, row_group=i) for i, count in enumerate(counts) for _ in range(count)]
    return places


def write_file(target: Any, groups: Sequence[pa.Table]) -> None:
    """Write tables as the row groups of one file; `target` is a path or an Arrow stream."""
    with _writer(target, groups[0].schema) as writer:
        for table in groups:
            _write_group(writer, table)


def _writer(target: Any, schema: pa.Schema) -> pq.ParquetWriter:
    return pq.ParquetWriter(target, schema, compression="zstd", write_page_index=True, write_page_checksum=True)


def _write_group(writer: pq.ParquetWriter, table: pa.Table) -> None:
    writer.write_table(table, row_group_size=max(1, len(table)))


def _write_shards(folder: Path, split: str, groups: Iterator[_Group]) -> list[tuple[Path, list[int]]]:
    """Write each group as it comes, since a split may be larger than the memory.

    Returns:
        The files, not yet with their names, which tell their number; and of each the rows of its groups.
    """
    shards: list[tuple[Path, list[int]]] = []
    size = 0
    with contextlib.ExitStack() as file:
        for group in groups:
            if not shards or size + group.size > SHARD_BYTES:
                file.close()
                shards.append((folder / f".{split}-{len(shards)}", []))
                writer, size = file.enter_context(_writer(shards[-1][0], group.table.schema)), 0
            _write_group(writer, group.table)
            shards[-1][1].append(len(group.table))
            size += group.size
    return shards


def _groups(rows: Sequence[pa.Table], most: int) -> Iterator[_Group]:
    count = -(-len(rows) // most)
    for i in range(count):
        yield from _fitting(rows[len(rows) * i // count : len(rows) * (i + 1) // count])


def _fitting(rows: Sequence[pa.Table]) -> Iterator[_Group]:
    """One row group, or several where it would be too large."""
    if len(rows) == 1 or sum(r.nbytes for r in rows) <= GROUP_BYTES:
        group = _group(rows)
        if len(rows) == 1 or group.size <= SHARD_BYTES:
            yield group
            return
    half = len(rows) // 2
    yield from _fitting(rows[:half])
    yield from _fitting(rows[half:])


def _group(rows: Sequence[pa.Table]) -> _Group:
    table = pa.concat_tables(rows).combine_chunks()
    sink = pa.BufferOutputStream()
    write_file(sink, [table])
    return _Group(table=table, size=sink.getvalue().size)

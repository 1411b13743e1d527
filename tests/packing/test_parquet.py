import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from awm_hub.packing import parquet

SCHEMA = pa.schema([("id", pa.string()), ("database", pa.binary())])


def rows(count, size, seed=0):
    """Rows that zstd cannot compress."""
    source = random.Random(seed)
    return [
        pa.Table.from_pylist([{"id": f"{i:05}", "database": source.randbytes(size)}], schema=SCHEMA)
        for i in range(count)
    ]


def groups(folder, split="train"):
    found = {}
    for file in sorted((folder / "environments").glob(f"{split}-*.parquet")):
        metadata = pq.ParquetFile(file).metadata
        found[file.name] = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
    return found


@pytest.mark.parametrize(
    ("count", "expected"), [(1, [1]), (32, [32]), (33, [16, 17]), (50, [25, 25]), (100, [25, 25, 25, 25])]
)
def test_row_groups_of_environments_hold_up_to_32_rows(tmp_path, count, expected):
    places = parquet.write_split(tmp_path, "environments", "train", rows(count, 10))
    assert groups(tmp_path) == {"train-00000-of-00001.parquet": expected}
    assert [p.row_group for p in places] == [n for n, size in enumerate(expected) for _ in range(size)]


def test_row_groups_of_tasks_hold_up_to_1024_rows(tmp_path):
    places = parquet.write_split(tmp_path, "tasks", "train", rows(1_025, 1))
    assert [p.row_group for p in places] == [0] * 512 + [1] * 513


def test_shards_stay_below_their_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "SHARD_BYTES", 300_000)
    places = parquet.write_split(tmp_path, "environments", "train", rows(128, 3_000))
    found = groups(tmp_path)
    assert found == {f"train-{i:05}-of-00002.parquet": [32, 32] for i in range(2)}
    assert all(f.stat().st_size <= 300_000 for f in (tmp_path / "environments").iterdir())
    for i, place in enumerate(places):
        table = pq.ParquetFile(tmp_path / place.file).read_row_group(place.row_group)
        assert f"{i:05}" in table.column("id").to_pylist()


def test_large_rows_get_smaller_row_groups(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "GROUP_BYTES", 50_000)
    parquet.write_split(tmp_path, "environments", "test", rows(40, 16_000))
    assert groups(tmp_path, "test") == {"test-00000-of-00001.parquet": [2, 3] * 8}


def test_one_row_beyond_every_limit_is_written_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "SHARD_BYTES", 50_000)
    parquet.write_split(tmp_path, "environments", "train", [*rows(3, 100), *rows(1, 200_000), *rows(3, 100)])
    sizes = [sum(g) for g in groups(tmp_path).values()]
    assert sum(sizes) == 7
    assert 1 in sizes


def test_files_are_zstd_with_page_index_and_checksums(tmp_path):
    parquet.write_split(tmp_path, "environments", "train", rows(3, 100))
    column = pq.ParquetFile(tmp_path / "environments/train-00000-of-00001.parquet").metadata.row_group(0).column(0)
    assert column.compression == "ZSTD"
    assert column.has_column_index
    assert column.has_offset_index


def test_equal_rows_give_equal_bytes_however_they_came(tmp_path):
    one = rows(70, 100)
    two = [pa.concat_tables(one).slice(i, 1) for i in range(70)]
    for name, found in (("one", one), ("two", two)):
        (tmp_path / name).mkdir()
        parquet.write_split(tmp_path / name, "environments", "train", found)
    file = "environments/train-00000-of-00001.parquet"
    assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()

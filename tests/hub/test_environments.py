import dataclasses
import threading

import pyarrow.parquet as pq
import pytest

import awm_hub
from awm_hub import hub, packing
from awm_hub.errors import DataError, RecordError, UnknownNameError, UsageError

TRAIN_IDS = ["a_1", "b_2", "c_3"]
TEST_ID = "garden_1"
SHARD = "environments/train-00000-of-00001.parquet"


def test_environments_are_read_when_asked_for(written, renamed):
    environments = awm_hub.load(written(*TRAIN_IDS, TEST_ID))
    assert list(environments) == [*TRAIN_IDS, TEST_ID]
    assert len(environments) == 4
    assert "b_2" in environments
    assert "nope" not in environments
    assert environments["b_2"] == renamed("b_2")
    assert [e.id for e in environments.values()] == [*TRAIN_IDS, TEST_ID]
    assert environments.revision is None


def test_the_index_gives_light_metadata(written, renamed):
    folder = written("a_1")
    environments = awm_hub.load(folder)
    environment = renamed("a_1")
    assert environments.source == str(folder)
    assert dict(environments.entries) == {
        "a_1": hub.IndexEntry(
            id="a_1",
            split="train",
            file=SHARD,
            row_group=0,
            content_hash=environment.content_hash,
            title="Notes",
            categories=("productivity",),
            interface="functions",
            usage="train",
            tables_count=3,
            tools_count=6,
            tasks_count=4,
            image_bytes=len(environment.database),
            format_version=1,
        )
    }


def test_without_an_index_the_same_is_read_from_the_light_columns(written):
    folder = written(*TRAIN_IDS, TEST_ID)
    indexed = awm_hub.load(folder)
    (folder / "index.parquet").unlink()
    plain = awm_hub.load(folder)
    assert list(plain) == [TEST_ID, *TRAIN_IDS]
    assert dict(plain.entries) == {n: dataclasses.replace(e, image_bytes=None) for n, e in indexed.entries.items()}
    assert plain["c_3"] == indexed["c_3"]


def test_a_single_file_is_a_dataset(written):
    environments = awm_hub.load(written(*TRAIN_IDS) / SHARD)
    assert list(environments) == TRAIN_IDS
    assert environments["a_1"].id == "a_1"


def test_parquet_files_in_the_root_are_a_dataset(written, tmp_path):
    shard = written(*TRAIN_IDS) / SHARD
    (tmp_path / "flat").mkdir()
    shard.rename(tmp_path / "flat" / "anything.parquet")
    assert list(awm_hub.load(tmp_path / "flat")) == TRAIN_IDS


def test_a_split_leaves_the_other_out(written):
    folder = written(*TRAIN_IDS, TEST_ID)
    assert list(awm_hub.load(folder, split="test")) == [TEST_ID]
    assert list(awm_hub.load(folder, split="train")) == TRAIN_IDS
    with pytest.raises(UsageError, match="there is no split 'dev'\n  next: one of train, test"):
        awm_hub.load(folder, split="dev")


def test_an_unknown_id_names_the_nearest(notes_dataset):
    with pytest.raises(UnknownNameError, match=r"no environment named 'note'. Did you mean 'notes'\?") as caught:
        awm_hub.load(notes_dataset)["note"]
    assert caught.value.exit_code == 3
    assert caught.value.close == ("notes",)


def test_asking_for_one_environment_reads_one_row_group(renamed, tmp_path):
    packing.write_dataset([renamed(f"n_{i:03}") for i in range(150)], tmp_path / "many")
    environments = awm_hub.load(tmp_path / "many", split="train")
    entries = list(environments.entries.values())
    assert {(e.file, e.row_group) for e in entries} == {(SHARD, n) for n in range(4)}
    group = pq.ParquetFile(tmp_path / "many" / SHARD).metadata.row_group(0)
    chunks = [group.column(i) for i in range(group.num_columns)]
    start = min(c.dictionary_page_offset or c.data_page_offset for c in chunks)
    end = start + sum(c.total_compressed_size for c in chunks)
    data = (tmp_path / "many" / SHARD).read_bytes()
    (tmp_path / "many" / SHARD).write_bytes(data[:start] + b"\0" * (end - start) + data[end:])
    assert environments[entries[-1].id].id == entries[-1].id
    with pytest.raises(RecordError):
        environments[entries[0].id]


def test_light_columns_of_all_are_read_by_column_and_by_field(written, renamed):
    environments = awm_hub.load(written(*TRAIN_IDS, TEST_ID))
    found = list(environments.columns(["title", "tools.name"]))
    names = [tool.name for tool in renamed("a_1").tools]
    expected = [{"id": i, "title": "Notes", "tools": [{"name": n} for n in names]} for i in (*TRAIN_IDS, TEST_ID)]
    assert found == expected
    assert list(environments.where(split="test").columns([])) == [{"id": TEST_ID}]


def test_a_light_column_that_a_file_does_not_have_is_named(one_file):
    environments = awm_hub.load(one_file(lambda table: table.drop_columns(["description"])))
    assert [row["id"] for row in environments.columns(["title"])] == ["notes"]
    with pytest.raises(RecordError, match=r"one.parquet has no column 'description'"):
        list(environments.columns(["description"]))


def test_rows_can_be_read_while_light_columns_are(written):
    environments = awm_hub.load(written(*TRAIN_IDS, TEST_ID))
    assert [environments[row["id"]].id for row in environments.columns(["title"])] == [*TRAIN_IDS, TEST_ID]


def test_environments_can_be_read_from_several_threads(written):
    environments = awm_hub.load(written(*TRAIN_IDS, TEST_ID))
    found = []
    threads = [threading.Thread(target=lambda: found.extend(e.id for e in environments.values())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == sorted([*TRAIN_IDS, TEST_ID] * 8)


def test_an_index_of_other_files_is_noticed(written, tmp_path, renamed):
    folder = written("a_1", "b_2")
    packing.write_dataset([renamed("a_1", rules="Other."), renamed("c_3")], tmp_path / "other")
    (tmp_path / "other" / SHARD).replace(folder / SHARD)
    environments = awm_hub.load(folder)
    with pytest.raises(RecordError, match="row 'a_1' has another content_hash than the index says"):
        environments["a_1"]
    with pytest.raises(RecordError, match=r"row 'b_2' is not in environments/train.*, row group 0"):
        environments["b_2"]


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("file", "../../etc/secrets.parquet"),
        ("file", "/etc/secrets.parquet"),
        ("file", "environments/../../x.parquet"),
        ("file", "environments/passwd"),
        ("file", None),
        ("id", "../x"),
        ("id", "X"),
        ("row_group", None),
        ("title", None),
    ],
)
def test_a_hostile_index_is_refused(dataset, column, value):
    path = dataset / "index.parquet"
    table = pq.read_table(path)
    rows = [{**table.to_pylist()[0], column: value}]
    pq.write_table(table.from_pylist(rows, schema=table.schema), path)
    with pytest.raises(RecordError, match="bad entry"):
        awm_hub.load(dataset)


def test_a_row_group_that_does_not_exist_is_refused(dataset):
    path = dataset / "index.parquet"
    table = pq.read_table(path)
    pq.write_table(table.from_pylist([{**table.to_pylist()[0], "row_group": 7}], schema=table.schema), path)
    with pytest.raises(RecordError, match="has no row group 7"):
        awm_hub.load(dataset)["notes"]


def test_an_id_that_stands_twice_is_refused(dataset):
    (dataset / "index.parquet").unlink()
    shard = dataset / SHARD
    (dataset / "environments" / "test-00000-of-00001.parquet").write_bytes(shard.read_bytes())
    with pytest.raises(RecordError, match="holds 'notes' twice"):
        awm_hub.load(dataset)


def test_a_missing_shard_is_named_and_the_others_still_work(written):
    folder = written(*TRAIN_IDS, TEST_ID)
    (folder / SHARD).unlink()
    environments = awm_hub.load(folder)
    with pytest.raises(RecordError, match=f"{SHARD} is missing"):
        environments["a_1"]
    assert environments[TEST_ID].id == TEST_ID


def test_the_bundled_set_is_what_load_opens_by_default():
    environments = awm_hub.load()
    assert environments.source == "the bundled set"
    assert all(isinstance(e, hub.IndexEntry) for e in environments.entries.values())


def test_an_unknown_path_says_what_can_be_named(tmp_path):
    with pytest.raises(DataError, match=r"absent: no such file or folder\n  next: name a folder, a Parquet file or"):
        awm_hub.load(tmp_path / "absent")

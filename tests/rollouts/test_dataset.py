"""Trajectories as Parquet: what plain readers see, and the way back."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rollouts.records import DONE, rollout

from awm_hub import schema
from awm_hub.errors import DataError, RecordError, UsageError
from awm_hub.rollouts import dataset, read_trajectories, write_trajectories

MESSAGES = ({"role": "user", "content": "Hello"}, {"role": "assistant", "content": "é", "tool_calls": []})
# by the hash of their ids, the first two are in `train`, the last in `test`
ROLLOUTS = [
    rollout("a_1/t0", 0, DONE, messages=MESSAGES, policy={"kind": "script"}),
    rollout("a_1/t0", 1, None),
    rollout("b_1/t0", 0, None, termination="endpoint_error"),
]


def test_every_column_is_there_with_its_type_and_meaning(tmp_path: Path) -> None:
    out = write_trajectories(ROLLOUTS[:1], tmp_path / "out")
    (file,) = (out / "trajectories").iterdir()
    table = pq.read_table(file)
    assert table.schema.equals(schema.TRAJECTORIES)
    (row,) = table.to_pylist()
    assert json.loads(row.pop("trajectory"))["task_id"] == "a_1/t0"
    assert json.loads(row.pop("messages")) == list(MESSAGES)
    assert row == {
        "id": "a_1__t0__0",
        "environment_id": "a_1",
        "environment_hash": "0" * 64,
        "task_id": "a_1/t0",
        "split": row["split"],
        "policy": '{"kind":"script"}',
        "outcome": "COMPLETED",
        "reward": 1.0,
        "termination": "answered",
        "steps_count": 0,
    }


def test_the_way_there_and_back_loses_nothing(tmp_path: Path) -> None:
    out = write_trajectories(ROLLOUTS, tmp_path / "out")
    read = sorted(read_trajectories(out), key=lambda t: (t.environment_id, t.seed))
    assert read == [r.trajectory for r in ROLLOUTS]
    (tmp_path / "one.json").write_text(json.dumps(ROLLOUTS[0].to_dict()))
    assert list(read_trajectories(tmp_path / "one.json")) == [ROLLOUTS[0].trajectory]
    for file in (out / "trajectories").iterdir():
        assert list(read_trajectories(file))


def test_plain_load_dataset_reads_it_with_its_splits(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    out = write_trajectories(ROLLOUTS, tmp_path / "out")
    found = datasets.load_dataset(str(out), cache_dir=str(tmp_path / "cache"))
    rows = {split: [row["id"] for row in found[split]] for split in found}
    assert rows == {"train": ["a_1__t0__0", "a_1__t0__1"], "test": ["b_1__t0__0"]}
    named = datasets.load_dataset(str(out), "trajectories", split="train", cache_dir=str(tmp_path / "cache"))
    assert named[0]["outcome"] == "COMPLETED"
    assert named[1]["reward"] is None


def test_groups_and_files_stay_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataset, "_SHARD_BYTES", 1)
    many = [rollout("a_1/t0", number) for number in range(130)]
    out = write_trajectories(many, tmp_path / "out")
    files = sorted((out / "trajectories").iterdir())
    assert [pq.ParquetFile(f).metadata.num_rows for f in files] == [64, 64, 2]
    assert [t.seed for t in read_trajectories(out)] == list(range(130))


def test_a_dataset_of_trajectories_is_replaced_and_nothing_else_is(tmp_path: Path) -> None:
    out = write_trajectories(ROLLOUTS, tmp_path / "out")
    write_trajectories(ROLLOUTS[:1], out)
    assert list(read_trajectories(out)) == [ROLLOUTS[0].trajectory]
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
    (out / "mine.txt").write_text("")
    with pytest.raises(UsageError, match="something other than trajectories"):
        write_trajectories(ROLLOUTS, out)
    with pytest.raises(DataError, match="no rollout"):
        write_trajectories([], tmp_path / "empty")
    assert not (tmp_path / "empty").exists()


def test_what_holds_no_trajectories_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no trajectories"):
        read_trajectories(tmp_path)
    (tmp_path / "x.parquet").write_text("no Parquet")
    with pytest.raises(RecordError, match="no Parquet of trajectories"):
        list(read_trajectories(tmp_path / "x.parquet"))
    pq.write_table(pa.table({"trajectory": ["{}"]}), tmp_path / "y.parquet")
    with pytest.raises(RecordError, match="no trajectory"):
        list(read_trajectories(tmp_path / "y.parquet"))
    pq.write_table(pa.table({"trajectory": [3]}), tmp_path / "z.parquet")
    with pytest.raises(RecordError):
        list(read_trajectories(tmp_path / "z.parquet"))

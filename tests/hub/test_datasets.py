"""A dataset on the Hub is read by `datasets` with no library of ours, and by `awm_hub`, online and from the caches."""

import json
import shutil
import time
from pathlib import Path

import datasets
import pyarrow.parquet as pq
import pytest

import awm_hub
from awm_hub import packing, schema
from awm_hub.environment import Call, Task

REPO = "awm/envs-1k"
PLAIN = """
import json, datasets
def show(found):
    print(json.dumps({split: [row["id"] for row in rows] for split, rows in found.items()}))
show(datasets.load_dataset("awm/envs-1k"))
tasks = datasets.load_dataset("awm/envs-1k", "tasks", split="test")
print(json.dumps([len(tasks), tasks[0]["prompt"][0]["role"]]))
"""
NAMED = PLAIN.replace('load_dataset("awm/envs-1k")', 'load_dataset("awm/envs-1k", "environments")')
STREAMED = """
import json, datasets
for config, split in (("environments", "train"), ("tasks", "test")):
    rows = datasets.load_dataset("awm/envs-1k", config, split=split, streaming=True)
    print(json.dumps([len(list(rows)), rows.features is not None]))
"""
OURS = """
import json, awm_hub
found = awm_hub.load("awm/envs-1k")
print(json.dumps([list(found), found["a_1"].id, found["garden_1"].id]))
"""
LOADED = [{"train": ["a_1"], "test": ["garden_1"]}, [4, "user"]]


def test_both_configs_and_our_load_work_online_and_then_from_the_cache(hub, run_program):
    """Offline, `datasets` 5.2 finds a default config only while no other one is cached: it has to be named."""
    assert run_program(PLAIN, url=hub.url) == LOADED
    assert run_program(OURS, url=hub.url) == [[["a_1", "garden_1"], "a_1", "garden_1"]]
    nowhere = "http://127.0.0.1:9"
    assert run_program(NAMED, url=nowhere, is_offline=True) == LOADED
    assert run_program(OURS, url=nowhere, is_offline=True) == [[["a_1", "garden_1"], "a_1", "garden_1"]]


def test_both_configs_are_streamed(hub, run_program):
    assert run_program(STREAMED, url=hub.url) == [[1, True], [4, True]]


def test_offline_with_an_empty_cache_is_one_sentence_in_under_three_seconds(run_program):
    program = """
import json, time, awm_hub
from awm_hub.errors import AwmHubError
started = time.process_time()
try:
    awm_hub.load("awm/envs-1k")
except AwmHubError as error:
    print(json.dumps([error.exit_code, error.message, time.process_time() - started]))
"""
    started = time.monotonic()
    ((code, message, seconds),) = run_program(program, url="http://127.0.0.1:9", is_offline=True)
    assert (code, message) == (5, f"offline, and {REPO}: index.parquet is not in the cache")
    assert seconds < 3
    assert time.monotonic() - started < 20


def shop(renamed, name, *tasks):
    """An environment whose tasks have these answers and solutions."""
    made = tuple(Task(id=f"{name}/{slug}", instruction="Do it.", **values) for slug, values in tasks)
    return renamed(name, tasks=made, quality=None)


SOLUTION = (Call(tool="x", arguments={"b": 1}), Call(tool="y", arguments={"a": None, "n": 12345678901234567890123}))
EMPTY = ("a", {"answer": None, "solution": None})
ANSWER, FREE, SETUP = {"zeta": 1, "alpha": " "}, ("t.note",), ("DELETE FROM t",)
FULL = ("a", {"answer": ANSWER, "free": FREE, "solution": SOLUTION, "setup": SETUP})


@pytest.fixture
def two_shards(renamed, tmp_path):
    """Two shards of one split: in the first, answers and solutions are null everywhere."""
    out = tmp_path / "both"
    for number, (name, tasks) in enumerate({"shop_1": [EMPTY], "shop_2": [FULL, ("b", {"answer": 3})]}.items()):
        packing.write_dataset([shop(renamed, name, *tasks)], tmp_path / name)
        for config in ("environments", "tasks"):
            (out / config).mkdir(parents=True, exist_ok=True)
            (shard,) = (tmp_path / name / config).glob("*.parquet")
            shutil.copy(shard, out / config / f"train-0000{number}-of-00002.parquet")
    return out


def shards(folder: Path, config: str) -> list[str]:
    return [str(p) for p in sorted((folder / config).glob("*.parquet"))]


def test_shards_of_nulls_and_of_values_have_the_schema_of_the_format(two_shards):
    for config, expected in (("environments", schema.ENVIRONMENTS), ("tasks", schema.TASKS)):
        assert [pq.read_schema(s).remove_metadata() for s in shards(two_shards, config)] == [expected] * 2


@pytest.mark.parametrize("is_streaming", [False, True])
@pytest.mark.parametrize("config", ["environments", "tasks"])
def test_shards_of_nulls_and_of_values_load_together_and_alone(two_shards, tmp_path, config, is_streaming):
    def ids(files):
        rows = datasets.load_dataset(
            "parquet", data_files=files, split="train", streaming=is_streaming, cache_dir=str(tmp_path / "cache")
        )
        return [row["id"] for row in rows]

    files = shards(two_shards, config)
    expected = {"environments": ["shop_1", "shop_2"], "tasks": ["shop_1/a", "shop_2/a", "shop_2/b"]}[config]
    assert ids(files) == expected
    assert ids(files[:1]) == expected[:1]


def test_answers_and_solutions_come_back_exactly_from_canonical_json(two_shards):
    environments = awm_hub.load(two_shards)
    assert environments["shop_1"].tasks[0].solution is None
    task = environments["shop_2"].task("a")
    assert (task.solution, task.answer, task.free, task.setup) == (SOLUTION, ANSWER, FREE, SETUP)
    (row,) = pq.read_table(shards(two_shards, "environments")[1]).to_pylist()
    assert row["tasks"][0]["answer"] == '{"alpha":" ","zeta":1}'
    assert json.loads(row["tasks"][0]["solution"])[1]["arguments"] == {"a": None, "n": 12345678901234567890123}
    assert [t["solution"] for t in row["tasks"]] == [row["tasks"][0]["solution"], None]

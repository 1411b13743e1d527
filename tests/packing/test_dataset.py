import functools
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import load_dataset

from awm_hub import packing, schema
from awm_hub.environment import Call, Environment, Quality, Task, TaskQuality, split_of

TRAIN, TEST = "bakery_1", "garden_1"


@pytest.fixture
def two_splits(renamed, tmp_path):
    """A dataset with one environment in each split; the first has nothing but nulls where nulls are allowed."""
    bare = (Task(id=f"{TRAIN}/a", instruction="Do."), Task(id=f"{TRAIN}/b", instruction="Do more."))
    full = (
        Task(
            id=f"{TEST}/a",
            instruction="Ask.",
            answer={"zeta": 1, "alpha": "\u2028"},
            answer_sql="SELECT 1",
            free=("notes.body",),
            setup=("DELETE FROM notes",),
            solution=(
                Call(tool="x", arguments={"b": 1}),
                Call(tool="y", arguments={"a": None, "n": 12345678901234567890123}),
            ),
        ),
        Task(id=f"{TEST}/b", instruction="Count.", answer=3, solution=()),
    )
    assert (split_of(TRAIN), split_of(TEST)) == ("train", "test")
    environments = [renamed(TEST, tasks=full), renamed(TRAIN, tasks=bare, verifier_module=None)]
    packing.write_dataset(environments, tmp_path / "out")
    return tmp_path / "out"


def test_every_shard_has_the_schema_of_the_format(two_splits):
    for config, expected in (("environments", schema.ENVIRONMENTS), ("tasks", schema.TASKS)):
        files = sorted((two_splits / config).iterdir())
        assert [f.name for f in files] == ["test-00000-of-00001.parquet", "train-00000-of-00001.parquet"]
        assert all(pq.read_schema(f).remove_metadata().equals(expected) for f in files)
    assert pq.read_schema(two_splits / "index.parquet").equals(schema.INDEX)


@pytest.fixture
def read(tmp_path):
    """Plain `load_dataset` with a cache of its own."""
    return functools.partial(load_dataset, cache_dir=str(tmp_path / "cache"))


def test_plain_datasets_reads_both_configs(two_splits, read):
    environments = read(str(two_splits))
    tasks = read(str(two_splits), "tasks")
    assert {s: d["id"] for s, d in environments.items()} == {"train": [TRAIN], "test": [TEST]}
    assert {s: d["id"] for s, d in tasks.items()} == {
        "train": [f"{TRAIN}/a", f"{TRAIN}/b"],
        "test": [f"{TEST}/a", f"{TEST}/b"],
    }
    assert tasks["train"][0]["prompt"] == [{"role": "user", "content": "Do."}]
    assert tasks["train"].features == tasks["test"].features


def test_plain_datasets_streams_both_configs(two_splits):
    for config in ("environments", "tasks"):
        for split, name in (("train", TRAIN), ("test", TEST)):
            rows = list(load_dataset(str(two_splits), config, split=split, streaming=True))
            assert {r["id"].partition("/")[0] for r in rows} == {name}


def test_a_row_of_plain_datasets_is_an_environment(notes_dataset, notes_environment, read):
    assert Environment.from_row(read(str(notes_dataset))["train"][0]) == notes_environment


def test_json_columns_are_canonical_and_gain_no_keys(two_splits):
    tasks = pq.read_table(two_splits / "environments" / "test-00000-of-00001.parquet").to_pylist()[0]["tasks"]
    assert tasks[0]["answer"] == '{"alpha":"\u2028","zeta":1}'
    assert tasks[0]["solution"] == (
        '[{"arguments":{"b":1},"tool":"x"},{"arguments":{"a":null,"n":12345678901234567890123},"tool":"y"}]'
    )
    assert (tasks[1]["answer"], tasks[1]["solution"]) == ("3", "[]")


def test_an_empty_split_is_not_declared(notes_dataset, read):
    assert "split: test" not in (notes_dataset / "README.md").read_text()
    assert list(read(str(notes_dataset))) == ["train"]


def test_a_dataset_without_tasks_has_no_tasks_config(renamed, tmp_path, read):
    report = packing.write_dataset([renamed(TRAIN, tasks=())], tmp_path / "out")
    assert report.tasks == 0
    assert "tasks" not in [p.name for p in (tmp_path / "out").iterdir()]
    assert read(str(tmp_path / "out"))["train"]["id"] == [TRAIN]


def test_a_task_row_is_light_and_carries_the_audit_flags(notes_environment, renamed):
    quality = Quality(
        deterministic=True,
        hidden_state=False,
        tasks=(TaskQuality(id=f"{TRAIN}/overdue", noop_rejected=True, seed_unsatisfied=True, solution_passes=False),),
    )
    environment = renamed(TRAIN, quality=quality)
    assert packing.task_row(environment, environment.task("overdue")) == {
        "id": f"{TRAIN}/overdue",
        "environment_id": TRAIN,
        "environment_hash": environment.content_hash,
        "split": "train",
        "instruction": "How many of my open notes were due before today?",
        "prompt": [
            {
                "role": "user",
                "content": "How many of my open notes were due before today?\n\nEnd with JSON: <integer>",
            }
        ],
        "kind": "query",
        "usage": "train",
        "difficulty": 1,
        "tools_count": 6,
        "has_solution": True,
        "verifier_kinds": ["signals"],
        "noop_rejected": True,
        "seed_unsatisfied": True,
        "solution_passes": False,
        "deterministic": True,
        "hidden_state": False,
    }
    unaudited = packing.task_row(notes_environment, notes_environment.task("one_bulb_note"))
    assert unaudited["verifier_kinds"] == ["decision", "signals"]
    assert unaudited["noop_rejected"] is None
    assert unaudited.keys() == set(schema.TASKS.names)


def test_the_order_of_environments_does_not_matter(renamed, tmp_path):
    names = ["b_2", "a_1", "c_3"]
    packing.write_dataset([renamed(n) for n in names], tmp_path / "one")
    packing.write_dataset((renamed(n) for n in sorted(names)), tmp_path / "two")
    one, two = ((tmp_path / n / "index.parquet").read_bytes() for n in ("one", "two"))
    assert one == two


def test_the_environment_declaration_is_valid_yaml(notes_dataset):
    import yaml

    found = yaml.safe_load((notes_dataset / "environment.yaml").read_text())
    assert found["spec_version"] == "hf-env-0.1"
    assert found["environments"][0]["config_name"] == "environments"
    assert found["environments"][0]["splits"] == ["train"]
    card = (notes_dataset / "README.md").read_text()
    configs = yaml.safe_load(card.split("---")[1])["configs"]
    assert [(c["config_name"], c.get("default", False)) for c in configs] == [("environments", True), ("tasks", False)]


def test_hostile_text_does_not_reach_the_card(renamed, tmp_path):
    hostile = "x\n---\nconfigs: []\n{{7*7}}<script>"
    packing.write_dataset([renamed(TRAIN, title=hostile, description=hostile)], tmp_path / "out")
    card = (tmp_path / "out" / "README.md").read_text()
    assert "script" not in card
    assert card.count("\n---\n") == 1


def test_the_index_says_where_each_row_lies(two_splits):
    rows = pq.read_table(two_splits / "index.parquet").to_pylist()
    assert [(r["id"], r["split"], r["file"], r["row_group"]) for r in rows] == [
        (TRAIN, "train", "environments/train-00000-of-00001.parquet", 0),
        (TEST, "test", "environments/test-00000-of-00001.parquet", 0),
    ]
    assert json.dumps(rows[0]["categories"]) == '["productivity"]'
    assert pa.types.is_int32(pq.read_schema(two_splits / "index.parquet").field("row_group").type)

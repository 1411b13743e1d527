import dataclasses
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("datasets")

import awm_hub as awm
from awm_hub import hub, packing
from awm_hub.environment import Environment, Quality, TaskQuality, split_of
from awm_hub.errors import DataError, UsageError
from awm_hub.inference import Reply, Sampling
from awm_hub.packing import parquet
from awm_hub.policy import ChatPolicy
from awm_hub.rollouts.attempts import first_view
from awm_hub.training import tasks
from awm_hub.training.tasks import training_tasks

NAMES = [f"n_{i:02}" for i in range(40)]
TRAIN = [n for n in NAMES if split_of(n) == "train"][:8]
TEST = next(n for n in NAMES if split_of(n) == "test")
TASKS = ("jars_for_jam", "one_bulb_note", "overdue", "postpone_plumber")


def audited(environment: Environment, failing: str = "") -> Environment:
    """The environment, audited; the first task fails the named check, every other passes all."""
    checks = {"noop_rejected": True, "seed_unsatisfied": True, "solution_passes": True}
    found = tuple(
        TaskQuality(id=task.id, **{**checks, **({failing: False} if failing and n == 0 else {})})
        for n, task in enumerate(environment.tasks)
    )
    quality = Quality(tasks=found, audited_hash=environment.content_hash, deterministic=True, hidden_state=False)
    return dataclasses.replace(environment, quality=quality)


@pytest.fixture
def dataset(renamed: Callable[..., Environment], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Eight environments of four tasks in row groups of two, and one of the test split."""
    monkeypatch.setitem(parquet.GROUP_ROWS, "environments", 2)
    packing.write_dataset([audited(renamed(n)) for n in [*TRAIN, TEST]], tmp_path / "data")
    return tmp_path / "data"


def ids(rows: Any) -> list[str]:
    return [row["task_id"] for row in rows]


class Asked:
    """An endpoint that keeps what it is asked."""

    sampling = Sampling()
    seen: tuple[Any, ...] = ()

    def describe(self) -> dict[str, Any]:
        return {}

    def check_key(self) -> None: ...

    async def chat(self, messages: Any, **_: Any) -> Reply:
        self.seen = tuple(messages)
        return Reply(content="<think>So.</think>Done.")


async def test_a_row_begins_as_the_policy_begins_that_is_evaluated() -> None:
    row = next(iter(training_tasks()))
    assert list(row) == ["prompt", "environment_id", "environment_hash", "task_id", "seed"]
    environment = awm.load()[row["environment_id"]]
    assert row["environment_hash"] == environment.content_hash
    asked = Asked()
    await ChatPolicy(asked, protocol="text").act(first_view(environment, environment.task(row["task_id"]), 0))
    assert tuple(row["prompt"]) == asked.seen


def test_a_stream_gives_every_sound_task_of_the_train_split_once_and_in_the_same_order_again(dataset: Path) -> None:
    stream = training_tasks(dataset)
    found = ids(stream)
    assert sorted(found) == sorted(f"{n}/{t}" for n in TRAIN for t in TASKS)
    assert ids(stream) == ids(training_tasks(dataset)) == found
    assert ids(training_tasks(dataset, seed=1)) != found


def test_rows_read_at_once_are_the_rows_of_the_stream(dataset: Path) -> None:
    whole = training_tasks(dataset, streaming=False)
    assert len(whole) == 32
    by_id: Callable[[Any], str] = lambda row: row["task_id"]  # noqa: E731
    assert sorted(whole, key=by_id) == sorted(training_tasks(dataset), key=by_id)


def test_a_block_of_a_stream_is_whole_row_groups_and_each_environment_is_read_once(
    dataset: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = awm.load(dataset)
    groups = {name: (entry.file, entry.row_group) for name, entry in opened.entries.items()}
    read: list[str] = []
    original = hub.Environments.__getitem__

    def counting(self: hub.Environments, name: str) -> Environment:
        read.append(name)
        return original(self, name)

    monkeypatch.setattr(hub.Environments, "__getitem__", counting)
    blocks = tasks.blocks(opened, tasks.chosen_tasks(opened), seed=0, epoch=0, least=3)
    names = [[name for name, _ in block["environments"]] for block in blocks]
    assert sorted(itertools.chain(*names)) == sorted(TRAIN)
    homes = [{groups[name] for name in block} for block in names]
    assert all(a.isdisjoint(b) for a, b in itertools.combinations(homes, 2))
    order = ids(training_tasks(dataset, block_environments=3))
    assert sorted(read) == sorted(TRAIN)
    drawn = [order[: 4 * len(names[0])], order[4 * len(names[0]) :]]
    assert {t.partition("/")[0] for t in drawn[0]} == set(names[0])


def test_each_epoch_has_an_order_and_seeds_of_its_own(dataset: Path) -> None:
    rows = list(training_tasks(dataset, repeat=2))
    first, second = rows[:32], rows[32:]
    assert sorted(ids(first)) == sorted(ids(second))
    assert ids(first) != ids(second)
    assert len({row["seed"] for row in rows}) == 64
    assert all(0 <= row["seed"] < 2**63 for row in rows)


def test_a_stream_goes_on_where_its_state_was_taken(dataset: Path) -> None:
    stream = training_tasks(dataset, repeat=2, block_environments=2)
    reader: Iterator[Any] = iter(stream)
    before = ids(itertools.islice(reader, 37))
    state = stream.state_dict()
    after = ids(reader)
    again = training_tasks(dataset, repeat=2, block_environments=2)
    again.load_state_dict(state)
    assert ids(again) == after
    assert len(before) + len(after) == 64


def test_what_is_for_evaluation_or_not_sound_is_never_in_it(
    renamed: Callable[..., Environment], tmp_path: Path
) -> None:
    a, b, c, d, *_ = (renamed(n) for n in TRAIN)
    barred = dataclasses.replace(audited(c), usage="eval_only")
    packing.write_dataset([audited(a, "solution_passes"), audited(b, "noop_rejected"), barred, d], tmp_path / "out")
    sound = ids(training_tasks(tmp_path / "out"))
    assert {t.partition("/")[0] for t in sound} == {a.id, b.id}
    assert len(sound) == 6
    assert {a.tasks[0].id, b.tasks[0].id}.isdisjoint(sound)
    unaudited = ids(training_tasks(tmp_path / "out", requires=None))
    assert {t.partition("/")[0] for t in unaudited} == {a.id, b.id, d.id}
    assert len(unaudited) == 12


def test_a_subset_gives_exactly_its_tasks(dataset: Path, tmp_path: Path) -> None:
    subset = hub.training_subset(awm.load(dataset), environments_count=3, tasks_count=5)
    subset.save(tmp_path / "subset.json")
    assert sorted(ids(training_tasks(dataset, subset=subset))) == sorted(subset.tasks)
    assert ids(training_tasks(dataset, subset=tmp_path / "subset.json")) == ids(training_tasks(dataset, subset=subset))
    with pytest.raises(DataError, match="not of the split test"):
        training_tasks(dataset, subset=subset, split="test")


def test_the_test_split_is_given_only_where_it_is_asked_for(dataset: Path) -> None:
    assert sorted(ids(training_tasks(dataset, split="test"))) == [f"{TEST}/{t}" for t in TASKS]
    with pytest.raises(DataError, match="no sound task to train on in the split test"):
        training_tasks(awm.load(ids=["public_library_1"]), split="test")


def test_an_open_dataset_is_taken_as_it_is_filtered(dataset: Path) -> None:
    opened = awm.load(dataset, ids=TRAIN[:1])
    assert sorted(ids(training_tasks(opened))) == [f"{TRAIN[0]}/{t}" for t in TASKS]
    with pytest.raises(UsageError, match="at a revision already"):
        training_tasks(opened, revision="main")
    with pytest.raises(UsageError, match="repeat is 0"):
        training_tasks(opened, repeat=0)

"""The trajectory log: what was done, what it was worth, and what each turn was shown."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest

from awm_hub.history import Window
from awm_hub.rollouts import read_trajectories
from awm_hub.rollouts.dataset import read_rollouts
from awm_hub.training.log import TrajectoryLog
from awm_hub.training.rewards import HybridReward
from training import tiny

LONG = (*tiny.SOLVED[:3], tiny.using("get_member", member_id=2), tiny.answering("8.55"))


def logged(reward: HybridReward, played: Any, step: int) -> None:
    """Score a batch at a step."""
    asyncio.run(reward(environments=played.trainer.environments, trainer_state=SimpleNamespace(global_step=step)))


def rows_of(folder: Path) -> list[dict[str, Any]]:
    return [row for path in sorted(folder.glob("trajectories/*.parquet")) for row in pq.read_table(path).to_pylist()]


def test_each_batch_is_a_file_with_rewards_and_what_was_seen(play: Callable[..., Any], tmp_path: Path) -> None:
    played = play(LONG, tiny.BROKEN, window=Window(turns=1))
    logged(HybridReward(log=TrajectoryLog(tmp_path), completed=3.0), played, 12)
    assert [path.name for path in tmp_path.glob("trajectories/*")] == ["train-000012-000-000.parquet"]
    solved, broken = rows_of(tmp_path)
    assert (solved["id"], solved["step"], solved["rank"], solved["mode"]) == (
        "train-000012-000-000-0000",
        12,
        0,
        "train",
    )
    assert (solved["reward"], solved["outcome"], solved["termination"]) == (3.0, "COMPLETED", "answered")
    assert (broken["reward"], broken["outcome"], broken["termination"]) == (-1.0, None, "format_error")
    seen = json.loads(solved["seen"])
    assert seen == [[], [0], [0, 1], [0, 2], [0, 3]]
    assert "advantage" not in solved


def test_what_it_says_was_seen_is_what_the_model_was_shown(
    play: Callable[..., Any], tmp_path: Path, tokenizer: Any
) -> None:
    """From the record alone, the prompt of every turn: the opening, then the messages of the turns that were seen."""
    played = play(LONG, window=Window(turns=1))
    logged(HybridReward(log=TrajectoryLog(tmp_path)), played, 0)
    (row,) = rows_of(tmp_path)
    messages = json.loads(row["messages"])
    turns = [messages[at : at + 2] for at in range(2, len(messages), 2)]
    (episode,) = played.trainer.environments
    for tokens, shown in zip(episode.turns, json.loads(row["seen"]), strict=True):
        chat = messages[:2] + [message for turn in shown for message in turns[turn]]
        expected = tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=True, return_dict=False)
        assert tokens.prompt == expected


def test_the_log_is_read_as_any_dataset_of_trajectories(play: Callable[..., Any], tmp_path: Path) -> None:
    played = play(LONG, tiny.FAILED, window=Window())
    log = TrajectoryLog(tmp_path / "log")
    logged(HybridReward(log=log), played, 0)
    logged(HybridReward(log=log), played, 0)
    logged(HybridReward(log=log), played, 1)
    rollouts = list(read_rollouts(tmp_path / "log"))
    assert [rollout.id for rollout in rollouts] == [
        f"train-{step:06}-000-{batch:03}-{place:04}" for step, batch in ((0, 0), (0, 1), (1, 0)) for place in (0, 1)
    ]
    assert [rollout.is_success for rollout in rollouts[:2]] == [True, False]
    trajectory = next(read_trajectories(tmp_path / "log"))
    assert trajectory.steps == played.trainer.environments[0].trajectory.steps


def test_the_hub_s_library_reads_it_from_its_card(play: Callable[..., Any], tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    played = play(LONG, window=Window())
    log = TrajectoryLog(tmp_path / "log")
    logged(HybridReward(log=log), played, 0)
    played.trainer.environments[0].mode = "eval"
    logged(HybridReward(log=log), played, 0)
    found = datasets.load_dataset(str(tmp_path / "log"), cache_dir=str(tmp_path / "cache"))
    assert {split: rows.num_rows for split, rows in found.items()} == {"train": 1, "eval": 1}


def test_a_resumed_training_replaces_what_it_wrote_of_the_same_steps(play: Callable[..., Any], tmp_path: Path) -> None:
    played = play(LONG, window=Window())
    for _ in range(2):
        logged(HybridReward(log=TrajectoryLog(tmp_path)), played, 5)
    assert len(rows_of(tmp_path)) == 1


def test_steps_in_between_are_left_out(play: Callable[..., Any], tmp_path: Path) -> None:
    played = play(LONG, window=Window())
    log = TrajectoryLog(tmp_path, every=2)
    for step in range(4):
        logged(HybridReward(log=log), played, step)
    assert [row["step"] for row in rows_of(tmp_path)] == [0, 2]


def test_each_process_writes_files_of_its_own(
    play: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "3")
    logged(HybridReward(log=TrajectoryLog(tmp_path)), play(LONG, window=Window()), 0)
    assert [path.name for path in tmp_path.glob("trajectories/*")] == ["train-000000-003-000.parquet"]
    assert rows_of(tmp_path)[0]["rank"] == 3

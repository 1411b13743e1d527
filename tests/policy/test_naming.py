"""Policies by their names."""

import json
from pathlib import Path
from typing import Any

import pytest
from episodes import view_of

from awm_hub.errors import DataError, RecordError, UsageError
from awm_hub.inference import Endpoint
from awm_hub.policy import ChatPolicy, NoopPolicy, RandomPolicy, ReplayPolicy, SolutionPolicy, policy_from
from awm_hub.policy.naming import read_trajectory
from awm_hub.trajectory import Trajectory

TRAJECTORY = Trajectory(
    environment_id="notes",
    environment_hash="0" * 64,
    task_id="notes/t0",
    seed=0,
    tier="sealed",
    clock="2026-03-02T09:00:00+00:00",
    steps=(),
    answer="4",
    database_delta="",
)


@pytest.fixture
def trajectory_file(tmp_path: Path) -> Path:
    path = tmp_path / "a rollout: 1.json"
    path.write_text(json.dumps(TRAJECTORY.to_dict()), encoding="utf-8")
    return path


def test_every_name_gives_its_policy(trajectory_file: Path) -> None:
    endpoint = Endpoint("m", base_url="http://127.0.0.1:9/v1")
    assert isinstance(policy_from("solution", environments={}), SolutionPolicy)
    assert isinstance(policy_from("noop", environments={}), NoopPolicy)
    assert isinstance(policy_from("random", environments={}), RandomPolicy)
    assert isinstance(policy_from(f"replay:{trajectory_file}", environments={}), ReplayPolicy)
    chat = policy_from("chat", environments={}, endpoint=endpoint, protocol="text")
    assert isinstance(chat, ChatPolicy)
    assert chat.uses_meta_tools


def test_settings_reach_the_policy() -> None:
    assert policy_from("random", environments={}, calls=3).describe() == {"kind": "random", "calls": 3}


async def test_a_file_is_replayed(trajectory_file: Path) -> None:
    action = await policy_from(f"replay:{trajectory_file}", environments={}).act(view_of())
    assert (action.calls, action.answer) == ((), "4")


@pytest.mark.parametrize(
    ("name", "settings"),
    [("solutions", {}), ("", {}), ("replay", {}), ("replay:", {}), ("chat", {}), ("noop", {"calls": 3})],
)
def test_a_name_or_setting_that_does_not_exist_is_a_usage_error(name: str, settings: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as found:
        policy_from(name, environments={}, **settings)
    assert found.value.next_step


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"steps": 3}', '{"steps": [{}]}', "\ufffd{"])
def test_a_file_that_is_no_trajectory_is_a_record_error(text: str, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(RecordError, match=r"t\.json"):
        policy_from(f"replay:{path}", environments={})


def test_a_file_that_is_not_there_is_a_data_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        policy_from(f"replay:{tmp_path / 'none.json'}", environments={})


def test_a_stored_trajectory_is_read_back_within_its_own_limits(tmp_path: Path) -> None:
    path = tmp_path / "long.json"
    stored = {**TRAJECTORY.to_dict(), "answer": "x" * 9_000_000}
    path.write_text(json.dumps(stored), encoding="utf-8")
    assert len(read_trajectory(path).answer or "") == 9_000_000

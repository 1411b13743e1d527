"""Rewards are Eq. 1 of the paper, for rollouts as a whole and for each of their turns."""

from typing import Any

import pytest

from awm_hub.reward import Reward, format_reward, hybrid_reward, outcome_reward, turns_count
from awm_hub.trajectory import Evidence, Outcome, StateDiff, Step, ToolResult, Trajectory, Verdict


def rolled(termination: str, *, turns: int = 3, **changes: Any) -> Trajectory:
    values = {
        "environment_id": "e",
        "environment_hash": "0" * 64,
        "task_id": "e/t",
        "seed": 0,
        "tier": "sealed",
        "clock": "2026-03-02T09:00:00+00:00",
        "steps": (),
        "termination": termination,
        "database_delta": "",
        "usage": {"turns": turns},
    }
    return Trajectory(**{**values, **changes})


def found(outcome: Outcome) -> Verdict:
    return Verdict(outcome=outcome, judge="decision", reasoning="", evidence=Evidence(diff=StateDiff()))


@pytest.mark.parametrize(
    ("outcome", "total"),
    [
        (Outcome.COMPLETED, 1.0),
        (Outcome.PARTIALLY_COMPLETED, 0.1),
        (Outcome.AGENT_ERROR, 0.0),
        (Outcome.ENVIRONMENT_ERROR, 0.0),
    ],
)
def test_every_turn_of_a_rollout_that_ends_normally_gets_the_outcome_s_worth(outcome: Outcome, total: float) -> None:
    for termination in ("answered", "max_turns", "context_full"):
        reward = hybrid_reward(rolled(termination), found(outcome))
        assert reward == Reward(total=total, steps=(total,) * 3, parts={"format": 0.0, "outcome": total})


def test_the_turn_that_breaks_the_format_gets_minus_one_and_those_before_it_nothing() -> None:
    reward = hybrid_reward(rolled("format_error"), found(Outcome.COMPLETED))
    assert reward == Reward(total=-1.0, steps=(0.0, 0.0, -1.0), parts={"format": -1.0, "outcome": 1.0})


def test_a_format_error_needs_no_verdict() -> None:
    assert hybrid_reward(rolled("format_error", turns=1), None).steps == (-1.0,)


def test_a_failure_of_the_environment_is_worth_nothing_whatever_the_judge_says() -> None:
    assert hybrid_reward(rolled("environment_fault"), found(Outcome.COMPLETED)).steps == (0.0, 0.0, 0.0)
    assert hybrid_reward(rolled("environment_fault"), None).total == 0.0


def test_a_failure_of_the_environment_is_unscorable_on_request() -> None:
    for trajectory in (rolled("environment_fault"), rolled("answered")):
        reward = hybrid_reward(trajectory, found(Outcome.ENVIRONMENT_ERROR), environment_error=None)
        assert (reward.total, reward.steps) == (None, (None, None, None))


def test_a_rollout_that_the_endpoint_ended_is_unscorable_even_with_a_verdict() -> None:
    assert hybrid_reward(rolled("endpoint_error"), found(Outcome.COMPLETED)).total is None


def test_without_a_verdict_there_is_no_reward() -> None:
    for termination in ("answered", "max_turns", "stopped"):
        assert hybrid_reward(rolled(termination), None).total is None


def test_broken_rules_of_a_lenient_rollout_cost_nothing() -> None:
    broken = {"rule": 3, "name": "invalid_arguments", "turn": 0, "message": ""}
    trajectory = rolled("answered", violations=(broken,))
    assert hybrid_reward(trajectory, found(Outcome.COMPLETED)).total == 1.0


def test_every_number_is_an_argument() -> None:
    numbers = {"completed": 2.0, "partial": 0.5, "other": -0.1, "format_error": -3.0, "environment_error": -0.2}
    totals = [hybrid_reward(rolled("answered"), found(outcome), **numbers).total for outcome in Outcome]
    assert totals == [2.0, 0.5, -0.1, -0.2]
    assert hybrid_reward(rolled("format_error"), None, **numbers).steps == (0.0, 0.0, -3.0)


def test_the_format_reward_looks_at_nothing_but_the_format() -> None:
    assert format_reward(rolled("answered")) == Reward(total=0.0, steps=(0.0,) * 3, parts={"format": 0.0})
    assert format_reward(rolled("format_error", turns=2), format_error=-0.5).steps == (0.0, -0.5)


def test_the_outcome_reward_looks_at_nothing_but_the_outcome() -> None:
    reward = outcome_reward(rolled("format_error"), found(Outcome.COMPLETED))
    assert reward == Reward(total=1.0, steps=(1.0,) * 3, parts={"outcome": 1.0})


def test_turns_are_counted_by_the_loop_or_by_messages_or_by_calls() -> None:
    step = Step(tool="t", arguments={}, result=ToolResult(type="ok"), state_version=0)
    written = ({"role": "user"}, {"role": "assistant"}, {"role": "tool"}, {"role": "assistant"})
    assert turns_count(rolled("answered", turns=7, messages=written)) == 7
    assert turns_count(rolled("answered", usage={}, messages=written)) == 2
    assert turns_count(rolled("answered", usage={}, steps=(step, step))) == 3
    assert turns_count(rolled("stopped", usage={}, steps=(step, step))) == 2


def test_a_reward_has_a_json_form() -> None:
    assert hybrid_reward(rolled("answered", turns=1), None).to_dict() == {
        "total": None,
        "steps": [None],
        "parts": {"format": 0.0, "outcome": None},
    }

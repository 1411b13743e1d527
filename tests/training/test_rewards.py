"""The hybrid reward over episodes: Eq. 1, judged together, and None where nothing can be said."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from training.scripted import Script, Trainer, row_of

import awm_hub
from awm_hub.errors import JudgeError, UsageError
from awm_hub.history import Window
from awm_hub.policy import opening
from awm_hub.runtime import sync
from awm_hub.training.episodes import Episodes
from awm_hub.training.rewards import HybridReward
from awm_hub.training.rollout import WindowedRollout
from awm_hub.trajectory import Evidence, Outcome, StateDiff, Trajectory, Verdict
from training import tiny

ALL = Window()


class Judging:
    """A judge that finds what it is told to find, or fails; it notes how many it judges at the same time."""

    name = "told"

    def __init__(self, *found: Outcome | None) -> None:
        self.found, self.at_once, self.most = list(found), 0, 0

    def describe(self) -> dict[str, Any]:
        return {"kind": "told"}

    async def judge(self, trajectory: Trajectory, *, environment: Any = None) -> Verdict:
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        outcome = self.found.pop(0)
        await asyncio.sleep(0.05)
        self.at_once -= 1
        if outcome is None:
            raise JudgeError("the judge's model is down")
        return Verdict(outcome=outcome, judge="told", reasoning="", evidence=Evidence(diff=StateDiff()))


def score(reward: HybridReward, environments: Any, **columns: Any) -> tuple[list[float | None], dict[str, float]]:
    """What TRL gets of a reward function, and the metrics that it logs."""
    logged: dict[str, float] = {}
    found = asyncio.run(
        reward(environments=environments, log_metric=logged.__setitem__, prompts=[], completion_ids=[], **columns)
    )
    return found, logged


def test_the_paper_s_numbers_are_given_for_what_the_code_finds(play: Callable[..., Any]) -> None:
    played = play(tiny.SOLVED, tiny.FAILED, tiny.BROKEN, window=ALL)
    rewards, logged = score(HybridReward(), played.trainer.environments)
    assert rewards == [1.0, 0.0, -1.0]
    tokens = sum(len(turn.output) for episode in played.trainer.environments for turn in episode.turns)
    assert logged == {
        "rollout/success": pytest.approx(1 / 3),
        "rollout/partial": 0.0,
        "rollout/format_errors": pytest.approx(1 / 3),
        "rollout/environment_errors": 0.0,
        "rollout/judge_errors": 0.0,
        "rollout/turns": pytest.approx(9 / 3),
        "rollout/tokens": pytest.approx(tokens / 3),
    }


@pytest.mark.parametrize("name", ["public_library_1", "field_service_1"])
def test_every_reference_solution_played_as_text_under_the_window_earns_the_whole_reward(
    name: str, tokenizer: Any
) -> None:
    environment = awm_hub.load()[name]
    shared = Episodes()
    made, scripts = [], []
    for task in environment.tasks:
        episode = shared.factory()()
        episode.reset(environment_id=name, task_id=task.id, environment_hash=environment.content_hash)
        made.append(episode)
        calls = [tiny.using(call.tool, **call.arguments) for call in task.solution or ()]
        answer = "Done." if task.answer is None else json.dumps(task.answer, ensure_ascii=False)
        scripts.append([tiny.listing_tools(), *calls, tiny.answering(answer)])
    prompts = [opening("text", environment.briefing, task.prompt) for task in environment.tasks]
    rollout = WindowedRollout(generate=Script(tokenizer, *scripts), context_tokens=10**6)
    rollout(prompts, Trainer(tokenizer, made))
    assert [episode.termination for episode in made] == ["answered"] * len(made)
    scored = sync.run(HybridReward().score, made)
    assert [(one.reward, one.judge_error) for one in scored] == [(1.0, None)] * len(made)
    shared.close()


def test_other_numbers_are_arguments(play: Callable[..., Any]) -> None:
    played = play(tiny.SOLVED, tiny.FAILED, tiny.BROKEN, window=ALL)
    judge = Judging(Outcome.COMPLETED, Outcome.PARTIALLY_COMPLETED)
    reward = HybridReward(judge=judge, completed=2.0, partial=0.5, format_error=-0.25)
    assert score(reward, played.trainer.environments)[0] == [2.0, 0.5, -0.25]


def test_all_are_judged_at_the_same_time_and_a_broken_format_needs_no_judge(play: Callable[..., Any]) -> None:
    played = play(tiny.SOLVED, tiny.BROKEN, tiny.SOLVED, tiny.FAILED, window=ALL)
    judge = Judging(Outcome.COMPLETED, Outcome.AGENT_ERROR, Outcome.PARTIALLY_COMPLETED)
    rewards, logged = score(HybridReward(judge=judge), played.trainer.environments)
    assert rewards == [1.0, -1.0, 0.0, 0.1]
    assert judge.most == 3
    assert logged["rollout/partial"] == 0.25


def test_what_cannot_be_scored_is_none(play: Callable[..., Any]) -> None:
    played = play(*[tiny.SOLVED] * 5, window=ALL)
    judged, failed, environment, fault, stopped = played.trainer.environments
    fault.trajectory = replace(fault.trajectory, termination="environment_fault")
    stopped.trajectory = replace(stopped.trajectory, termination="stopped")
    judge = Judging(Outcome.COMPLETED, None, Outcome.ENVIRONMENT_ERROR)
    rewards, logged = score(HybridReward(judge=judge), played.trainer.environments)
    assert rewards == [1.0, None, None, None, None]
    assert (logged["rollout/environment_errors"], logged["rollout/judge_errors"]) == (0.4, 0.2)
    assert [e.leader for e in (judged, failed, environment)] == [judged, failed, environment]


def test_the_paper_s_zero_for_a_failure_of_the_environment_is_an_argument(play: Callable[..., Any]) -> None:
    (episode,) = play(tiny.SOLVED, window=ALL).trainer.environments
    episode.trajectory = replace(episode.trajectory, termination="environment_fault")
    assert score(HybridReward(environment_error=0.0), [episode])[0] == [0.0]


def test_episodes_that_share_an_attempt_share_its_reward_and_are_judged_once(play: Callable[..., Any]) -> None:
    played = play(tiny.SOLVED, tiny.BROKEN, window=ALL, slots=2)
    judge = Judging(Outcome.COMPLETED)
    rewards, logged = score(HybridReward(judge=judge), played.trainer.environments)
    assert rewards == [1.0, 1.0, -1.0, -1.0]
    assert logged["rollout/success"] == 0.5


def test_an_episode_that_nobody_played_is_an_error(episodes: Episodes) -> None:
    episode = episodes.factory()()
    episode.reset(**row_of())
    with pytest.raises(UsageError, match="was not played"):
        score(HybridReward(), [episode])


def test_environments_that_are_no_episodes_are_refused() -> None:
    with pytest.raises(UsageError, match="no episodes"):
        score(HybridReward(), [object()])


def test_an_unknown_judge_is_refused_before_training() -> None:
    with pytest.raises(UsageError, match="no judge named 'decison'"):
        HybridReward(judge="decison")


def test_a_trainer_sees_an_asynchronous_function_with_a_name() -> None:
    utils = pytest.importorskip("trl.trainer.utils")
    assert utils.is_async_callable(HybridReward())
    assert utils.get_callable_name(HybridReward()) == "hybrid_reward"

"""The hybrid reward (paper §4, Eq. 1) as a reward function for TRL.

TRL calls tools and environments one after the other, even where they are coroutines; only a reward function that
gathers itself works on several rollouts at once. So judging, which may ask a model, is done here for all together.

None means that a rollout cannot be scored: the environment failed, or the judge did. TRL leaves such a rollout out of
its group's baseline and gives it an advantage of 0. In the paper an environment error is worth 0 (§4), which teaches
that the attempts beside it were better; `environment_error=0.0` does that. A broken rule needs no judge.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from awm_hub.errors import JudgeError, RemoteError, SandboxError, UsageError
from awm_hub.judging import JUDGES, Judge, judge_async
from awm_hub.reward import COMPLETED, FORMAT_ERROR, OTHER, PARTIAL, hybrid_reward, turns_count
from awm_hub.runtime import sync
from awm_hub.training.episodes import Episode
from awm_hub.training.log import TrajectoryLog
from awm_hub.trajectory import Outcome, Trajectory

UNJUDGED = ("format_error", "environment_fault", "endpoint_error", "stopped")
"""Terminations whose reward needs no verdict."""


@dataclass(frozen=True, kw_only=True)
class Scored:
    """A trajectory with its verdict and reward."""

    episode: Episode
    trajectory: Trajectory
    reward: float | None
    judge_error: str | None = None

    @property
    def outcome(self) -> Outcome | None:
        """What the judge found."""
        return self.trajectory.verdicts[-1].outcome if self.trajectory.verdicts else None


class HybridReward:
    """A reward function for TRL: one number, or None, for each of the trainer's episodes.

    Args:
        judge: What `awm_hub.judge` takes; None: `decision`.
        log: Where trajectories are written, with their rewards.
        concurrency: Trajectories judged at the same time.
        completed: For COMPLETED.
        partial: For PARTIALLY_COMPLETED.
        other: For AGENT_ERROR.
        format_error: For a broken rule of the format.
        environment_error: For a failure of the environment; None: left out of the group's baseline. The paper's is 0.

    Raises:
        UsageError: there is no such judge.
    """

    def __init__(
        self,
        *,
        judge: str | Judge | None = None,
        log: TrajectoryLog | None = None,
        concurrency: int = 16,
        completed: float = COMPLETED,
        partial: float = PARTIAL,
        other: float = OTHER,
        format_error: float = FORMAT_ERROR,
        environment_error: float | None = None,
    ) -> None:
        if isinstance(judge, str) and judge not in JUDGES:
            raise UsageError(f"no judge named {judge!r}", next_step=f"one of {', '.join(JUDGES)}, or an LlmJudge")
        self.judge: str | Judge = "decision" if judge is None else judge
        self.log, self._concurrency = log, concurrency
        self._numbers = {"completed": completed, "partial": partial, "other": other, "format_error": format_error}
        self._environment_error = environment_error
        self.__name__ = "hybrid_reward"

    async def __call__(
        self,
        *,
        environments: Sequence[Any] | None = None,
        completions: Sequence[Any] = (),
        log_metric: Callable[[str, float], None] | None = None,
        trainer_state: Any = None,
        **columns: Any,
    ) -> list[float | None]:
        """Rewards of the episodes, in their order; TRL calls it.

        Raises:
            UsageError: the trainer's environments are no episodes, or one was not played.
        """
        episodes = _checked(environments)
        leaders = list(dict.fromkeys(episode.leader for episode in episodes))
        for position, episode in enumerate(episodes):
            if episode.trajectory is None and episode.leader is episode:
                await asyncio.to_thread(episode._conclude, completions[position] if completions else None)
        scored = await asyncio.to_thread(sync.run, self.score, leaders)
        if log_metric is not None:
            for name, value in metrics(scored).items():
                log_metric(name, value)
        if self.log is not None:
            step = int(getattr(trainer_state, "global_step", 0) or 0)
            await asyncio.to_thread(self.log.add, scored, step=step)
        rewards = {one.episode: one.reward for one in scored}
        return [rewards[episode.leader] for episode in episodes]

    async def score(self, episodes: Sequence[Episode]) -> list[Scored]:
        """Judge and score episodes, many at once; on the background loop."""
        room = asyncio.Semaphore(self._concurrency)

        async def one(episode: Episode) -> Scored:
            async with room:
                return await self._scored(episode)

        return list(await asyncio.gather(*(one(episode) for episode in episodes)))

    async def _scored(self, episode: Episode) -> Scored:
        trajectory, error = episode.trajectory, None
        if trajectory is None:
            raise UsageError("an episode was not played", next_step="rollout_func=WindowedRollout(…)")
        if trajectory.termination not in UNJUDGED:
            try:
                verdict = await judge_async(trajectory, environment=episode.environment, judge=self.judge)
                trajectory = replace(trajectory, verdicts=(*trajectory.verdicts, verdict))
            except (JudgeError, RemoteError, SandboxError) as failure:
                error = f"{type(failure).__name__}: {failure.message}"
        latest = trajectory.verdicts[-1] if trajectory.verdicts else None
        reward = hybrid_reward(trajectory, latest, **self._numbers, environment_error=self._environment_error)
        total = None if trajectory.termination == "stopped" else reward.total
        return Scored(episode=episode, trajectory=trajectory, reward=total, judge_error=error)


def metrics(scored: Sequence[Scored]) -> dict[str, float]:
    """What a trainer logs of a batch: shares of the rollouts, and means over them.

    `success`, `partial`, `format_errors`, `environment_errors` and `judge_errors` are shares of all rollouts; `turns`
    are assistant messages and `tokens` the tokens written, of each rollout on average.
    """
    count = max(len(scored), 1)
    found: dict[str, float] = {
        "success": sum(one.outcome is Outcome.COMPLETED for one in scored),
        "partial": sum(one.outcome is Outcome.PARTIALLY_COMPLETED for one in scored),
        "format_errors": sum(one.trajectory.termination == "format_error" for one in scored),
        "environment_errors": sum(_is_fault(one) for one in scored),
        "judge_errors": sum(one.judge_error is not None for one in scored),
        "turns": sum(turns_count(one.trajectory) for one in scored),
        "tokens": sum(one.trajectory.usage.get("completion_tokens") or 0 for one in scored),
    }
    return {f"rollout/{name}": value / count for name, value in found.items()}


def _is_fault(one: Scored) -> bool:
    return one.trajectory.termination == "environment_fault" or one.outcome is Outcome.ENVIRONMENT_ERROR


def _checked(environments: Sequence[Any] | None) -> list[Episode]:
    found = list(environments or ())
    if not found or not all(isinstance(episode, Episode) for episode in found):
        step = "give the trainer environment_factory=Episodes(…).factory()"
        raise UsageError("the trainer's environments are no episodes", next_step=step)
    return found

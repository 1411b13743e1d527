"""Rewards: a number for a trajectory, from its format and from a judge's verdict.

The format reward punishes broken format, the outcome reward pays for what was achieved, and the hybrid reward is the
paper's Eq. 1 (arXiv 2602.10090 §4), which joins them. Every number is an argument; the paper's is the default. A reward
of None means unscorable: the endpoint failed, nobody judged, or the caller asked that failures of the environment be
left out. A trainer drops such rollouts from the group's baseline instead of learning from them.

Rewards are also given per turn, an assistant message each: a turn that breaks the format gets the penalty itself,
while the reward of a rollout that ended normally goes to all of its turns.
"""

from dataclasses import dataclass, field
from typing import Any

from awm_hub.trajectory import Outcome, Trajectory, Verdict

COMPLETED, PARTIAL, OTHER = 1.0, 0.1, 0.0
"""Eq. 1: what the three outcomes of an agent are worth."""
FORMAT_ERROR = -1.0
"""§4: the reward of a turn that breaks the format."""
ENVIRONMENT_ERROR = 0.0
"""§4: the reward where the environment failed."""
UNFINISHED = ("endpoint_error", "stopped")
"""Terminations that are not the agent's doing: nothing can be concluded from such a rollout."""


@dataclass(frozen=True, kw_only=True)
class Reward:
    """What a rollout is worth."""

    total: float | None
    """None where it cannot be scored."""
    steps: tuple[float | None, ...]
    """One per turn, that is per assistant message."""
    parts: dict[str, float | None] = field(default_factory=dict)
    """`format` and `outcome`, where they were part of it."""

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {"total": self.total, "steps": list(self.steps), "parts": dict(self.parts)}


def turns_count(trajectory: Trajectory) -> int:
    """Assistant messages of a rollout; for a record without any, its calls and its answer."""
    counted = trajectory.usage.get("turns")
    if isinstance(counted, int):
        return counted
    written = sum(m.get("role") == "assistant" for m in trajectory.messages)
    return written or len(trajectory.steps) + (trajectory.termination == "answered")


def format_reward(trajectory: Trajectory, *, format_error: float = FORMAT_ERROR) -> Reward:
    """The penalty of a rollout that ended with a broken format rule (paper §4, rules 1 to 5), else nothing.

    In lenient rollouts broken rules are recorded and end nothing; they cost nothing here either.
    """
    turns, is_broken = turns_count(trajectory), trajectory.termination == "format_error"
    total = format_error if is_broken else 0.0
    return Reward(total=total, steps=_last(turns, total) if is_broken else (0.0,) * turns, parts={"format": total})


def outcome_reward(
    trajectory: Trajectory,
    verdict: Verdict | None,
    *,
    completed: float = COMPLETED,
    partial: float = PARTIAL,
    other: float = OTHER,
    environment_error: float | None = ENVIRONMENT_ERROR,
) -> Reward:
    """What a verdict is worth, for every turn alike, whatever became of the format.

    Args:
        trajectory: The rollout.
        verdict: What a judge found; None where nobody judged.
        completed: For COMPLETED.
        partial: For PARTIALLY_COMPLETED.
        other: For AGENT_ERROR.
        environment_error: For a failure of the environment; None: it is not scored.
    """
    values = {
        Outcome.COMPLETED: completed,
        Outcome.PARTIALLY_COMPLETED: partial,
        Outcome.AGENT_ERROR: other,
        Outcome.ENVIRONMENT_ERROR: environment_error,
    }
    if trajectory.termination == "environment_fault":
        total = environment_error
    elif trajectory.termination == "endpoint_error" or verdict is None:
        total = None
    else:
        total = values[verdict.outcome]
    return Reward(total=total, steps=(total,) * turns_count(trajectory), parts={"outcome": total})


def hybrid_reward(
    trajectory: Trajectory,
    verdict: Verdict | None,
    *,
    completed: float = COMPLETED,
    partial: float = PARTIAL,
    other: float = OTHER,
    format_error: float = FORMAT_ERROR,
    environment_error: float | None = ENVIRONMENT_ERROR,
) -> Reward:
    """The paper's reward, Eq. 1: the format's penalty where a rule was broken, else the outcome's worth.

    A broken rule gives `format_error` to the turn that broke it and 0 to those before (§4: the rollout ends there).
    Otherwise the outcome's worth is the reward of every turn. A failure of the environment gives `environment_error`.

    Args:
        trajectory: The rollout.
        verdict: What a judge found; None where nobody judged.
        completed: For COMPLETED.
        partial: For PARTIALLY_COMPLETED.
        other: For AGENT_ERROR.
        format_error: For a turn that breaks the format.
        environment_error: For a failure of the environment; None: it is not scored, which keeps it out of training.
    """
    form = format_reward(trajectory, format_error=format_error)
    outcome = outcome_reward(
        trajectory,
        verdict,
        completed=completed,
        partial=partial,
        other=other,
        environment_error=environment_error,
    )
    chosen = form if trajectory.termination == "format_error" else outcome
    return Reward(total=chosen.total, steps=chosen.steps, parts={**form.parts, **outcome.parts})


def _last(turns: int, value: float) -> tuple[float, ...]:
    return (*(0.0,) * (turns - 1), value) if turns else ()

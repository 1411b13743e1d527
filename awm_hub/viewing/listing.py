"""A run as a list: one line per rollout, outcomes first."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from awm_hub.trajectory import Outcome, Trajectory
from awm_hub.viewing.document import Block, Cell, Document, Facts, Grid, Label, as_text, counted, facts, label
from awm_hub.viewing.rollout import latest_reward, policy_name

NOT_JUDGED = "not judged"
_COLUMNS = ("rollout", "outcome", "reward", "termination", "steps", "broken rules", "tokens", "seconds")


@dataclass(frozen=True, kw_only=True)
class Listed:
    """One rollout of a run, in a line."""

    id: str
    environment_id: str
    task_id: str | None
    policy: str
    outcomes: tuple[str, ...]
    """Of its verdicts, each once; several where judges disagree, none where nobody judged."""
    reward: float | None
    """Eq. 1 with the paper's numbers over the latest verdict."""
    termination: str
    steps_count: int
    violations_count: int
    tokens: int | None
    seconds: float | None


def listed(name: str, trajectory: Trajectory) -> Listed:
    """The line of one rollout."""
    return Listed(
        id=name,
        environment_id=as_text(trajectory.environment_id),
        task_id=None if trajectory.task_id is None else as_text(trajectory.task_id),
        policy=policy_name(trajectory.policy),
        outcomes=tuple(dict.fromkeys(v.outcome.value for v in trajectory.verdicts)),
        reward=latest_reward(trajectory),
        termination=as_text(trajectory.termination),
        steps_count=len(trajectory.steps),
        violations_count=len(trajectory.violations),
        tokens=_tokens(trajectory),
        seconds=_seconds(trajectory),
    )


def run_document(title: str, rollouts: Sequence[Listed], *, links: Sequence[str] = ()) -> Document:
    """The list of a run's rollouts; `links` are the paths of their pages."""
    rows = tuple(_row(r, link) for r, link in zip(rollouts, links or [""] * len(rollouts), strict=True))
    grid = Grid(label="Rollouts", columns=_COLUMNS, rows=rows)
    blocks: tuple[Block, ...] = (_overview(rollouts), grid)
    return Document(title=title, labels=_outcome_counts(rollouts), blocks=blocks if rows else blocks[:1])


def _outcome_counts(rollouts: Iterable[Listed]) -> tuple[Label, ...]:
    """How many rollouts have each outcome, in the order of `Outcome`."""
    found = Counter(outcome for r in rollouts for outcome in r.outcomes or (NOT_JUDGED,))
    known = [name for name in (*(o.value for o in Outcome), NOT_JUDGED) if found[name]]
    return tuple(Label(text=f"{name} {found[name]:,}", tone=label(name).tone) for name in known)


def _overview(rollouts: Sequence[Listed]) -> Facts:
    tasks = {(r.environment_id, r.task_id) for r in rollouts}
    return facts(
        {
            "rollouts": counted(len(rollouts), "rollout"),
            "tasks": counted(len(tasks), "task"),
            "policies": ", ".join(sorted({r.policy for r in rollouts if r.policy})),
            "tokens": sum(r.tokens or 0 for r in rollouts) or None,
        }
    )


def _row(rollout: Listed, link: str) -> tuple[Cell, ...]:
    outcome = " / ".join(rollout.outcomes) or NOT_JUDGED
    tone = label(rollout.outcomes[0]).tone if len(rollout.outcomes) == 1 else ""
    return (
        Cell(text=rollout.id, link=link),
        Cell(text=outcome, tone=tone),
        Cell(text="" if rollout.reward is None else f"{rollout.reward:g}"),
        Cell(text=rollout.termination),
        Cell(text=str(rollout.steps_count)),
        Cell(text=str(rollout.violations_count or ""), tone="bad"),
        Cell(text="" if rollout.tokens is None else f"{rollout.tokens:,}"),
        Cell(text="" if rollout.seconds is None else f"{rollout.seconds:.1f}"),
    )


def _tokens(trajectory: Trajectory) -> int | None:
    found = [trajectory.usage.get(name) for name in ("prompt_tokens", "completion_tokens")]
    numbers = [n for n in found if isinstance(n, int)]
    return sum(numbers) if numbers else None


def _seconds(trajectory: Trajectory) -> float | None:
    found = trajectory.usage.get("seconds")
    return float(found) if isinstance(found, int | float) else None

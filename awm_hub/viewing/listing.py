"""A run as a list: outcomes first, then its figures, one line per rollout, and the files that nobody can read."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from awm_hub.errors import AwmHubError, RecordError
from awm_hub.rollouts import Metrics, Rollout, measure, measures
from awm_hub.trajectory import Outcome, Trajectory
from awm_hub.viewing.document import (
    Block,
    Cell,
    Document,
    Facts,
    Grid,
    Label,
    Prose,
    Section,
    as_text,
    counted,
    facts,
    label,
    rounded,
)
from awm_hub.viewing.rollout import latest_reward, policy_name

NOT_JUDGED = "not judged"
_COLUMNS = ("rollout", "outcome", "reward", "termination", "steps", "broken rules", "tokens", "seconds")
_LEVELS_SHOWN = 40
"""Figures of more tasks than these are left to `awm_hub.rollouts.measure`."""


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


@dataclass(frozen=True, kw_only=True)
class Unreadable:
    """A stored rollout that cannot be read."""

    id: str
    path: str
    """Its file; empty where it has none of its own."""
    reason: str


@dataclass(frozen=True, kw_only=True)
class Survey:
    """What a run holds."""

    rollouts: tuple[Listed, ...]
    metrics: Metrics
    """Figures of the rollouts that can be read."""
    unreadable: tuple[Unreadable, ...] = ()
    planned: int | None = None
    """Rollouts of the plan; None where there is no plan."""
    remedy: str = ""
    """What to do about those that cannot be read."""
    links: Mapping[str, str] = field(default_factory=dict)
    """Paths of the rollouts' pages, by id."""


def survey(
    rollouts: Mapping[str, Rollout], *, folder: Path | None = None, planned: int | None = None, remedy: str = ""
) -> Survey:
    """Read all rollouts of a run, one after the other; a damaged file hides no other.

    Args:
        rollouts: By id; each is read when asked for.
        folder: Where the file of each is.
        planned: How many there are to be.
        remedy: What to do about those that cannot be read.
    """
    lines: list[Listed] = []
    unreadable: list[Unreadable] = []

    def readable() -> Iterable[Rollout]:
        for name in rollouts:
            try:
                rollout = _checked(rollouts[name])
                lines.append(listed(name, rollout.trajectory))
            except (AwmHubError, OSError, AttributeError, KeyError, TypeError, ValueError) as error:
                path = "" if folder is None else str(folder / f"{name}.json")
                unreadable.append(Unreadable(id=name, path=path, reason=_reason(error).removeprefix(f"{path}: ")))
            else:
                yield rollout

    metrics = measure(readable())
    return Survey(rollouts=tuple(lines), metrics=metrics, unreadable=tuple(unreadable), planned=planned, remedy=remedy)


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


def run_document(title: str, found: Survey) -> Document:
    """What there is to see of a run."""
    blocks: list[Block] = [_overview(found)]
    if found.rollouts:
        rows = tuple(_row(r, found.links.get(r.id, "")) for r in found.rollouts)
        rollouts = Grid(label="Rollouts", columns=_COLUMNS, rows=rows, is_titled=False)
        blocks += [_figures(found.metrics), Section(title="Rollouts", blocks=(rollouts,))]
    if found.unreadable:
        blocks.append(_damaged(found))
    return Document(title=title, labels=_labels(found), blocks=tuple(blocks))


def _checked(rollout: Rollout) -> Rollout:
    """A rollout with figures: a stored one may hold anything anywhere.

    Raises:
        RecordError: a name in it is none.
    """
    trajectory = rollout.trajectory
    if not isinstance(trajectory.environment_id, str) or not isinstance(trajectory.termination, str):
        raise RecordError("a name in it is none")
    measure([rollout])
    return rollout


def _reason(error: Exception) -> str:
    return error.message if isinstance(error, AwmHubError) else f"{type(error).__name__}: {error}"


def _labels(found: Survey) -> tuple[Label, ...]:
    """How many rollouts have each outcome, in the order of `Outcome`."""
    counts = Counter(outcome for r in found.rollouts for outcome in r.outcomes or (NOT_JUDGED,))
    known = [name for name in (*(o.value for o in Outcome), NOT_JUDGED) if counts[name]]
    damaged = (Label(text=f"unreadable {len(found.unreadable):,}", tone="bad"),) if found.unreadable else ()
    return (*(Label(text=f"{name} {counts[name]:,}", tone=label(name).tone) for name in known), *damaged)


def _overview(found: Survey) -> Facts:
    stored = len(found.rollouts) + len(found.unreadable)
    overall = found.metrics.overall
    spent = overall.ledger
    return facts(
        {
            "rollouts": f"{stored:,}" if found.planned is None else f"{stored:,} stored of {found.planned:,} planned",
            "tasks": f"{overall.tasks:,}",
            "policies": ", ".join(sorted({r.policy for r in found.rollouts if r.policy})),
            "tokens": f"{spent.prompt_tokens:,} prompt, {spent.completion_tokens:,} completion"
            if _asked(spent)
            else "",
            "cost in USD": rounded(spent.cost_usd) if spent.cost_usd else "",
        }
    )


def _asked(spent: measures.Ledger) -> bool:
    return bool(spent.prompt_tokens or spent.completion_tokens)


def _figures(metrics: Metrics) -> Section:
    """Success, effort and errors: of each task where they are few, of each environment, and overall."""
    levels = [*metrics.tasks] if len(metrics.tasks) <= _LEVELS_SHOWN else []
    levels += [*metrics.environments] if 1 < len(metrics.environments) <= _LEVELS_SHOWN else []
    columns, *rows = measures.table([*levels, metrics.overall])
    cells = tuple(tuple(Cell(text=text) for text in row) for row in rows)
    return Section(title="Metrics", blocks=(Grid(label="Metrics", columns=columns, rows=cells, is_titled=False),))


def _damaged(found: Survey) -> Section:
    rows = tuple((Cell(text=u.path or u.id), Cell(text=u.reason, tone="bad")) for u in found.unreadable)
    grid = Grid(label="Cannot be read", columns=("file", "reason"), rows=rows, is_titled=False)
    remedy = (Prose(text=found.remedy),) if found.remedy else ()
    labels = (Label(text=counted(len(rows), "file"), tone="bad"),)
    return Section(title="Cannot be read", labels=labels, blocks=(grid, *remedy))


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

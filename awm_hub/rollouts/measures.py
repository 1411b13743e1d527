"""What a run comes to: success, effort, errors and cost, per task, per environment and overall.

Success rates are means over tasks, so that a task with more attempts weighs no more. `pass_at[k]` is the chance that
at least one of k attempts succeeds (Chen et al. 2021, arXiv 2107.03374, §2.1), `pass_hat[k]` that all k do (tau-bench,
Yao et al. 2024, arXiv 2406.12045: pass^k): both are the unbiased estimates from n ≥ k attempts of which c succeeded.
Attempts that nobody could score, since endpoint or judge failed, are counted apart and are neither successes nor
failures.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from math import comb
from statistics import fmean
from typing import Any

from awm_hub.reward import turns_count
from awm_hub.rollouts.store import Rollout

_LONGEST_LADDER = 16
"""pass^k is given for k up to this (the paper's group size)."""


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """What attempts and their judging used. Tokens and cost count what is known; no cost is known without a price."""

    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = None
    seconds: float = 0.0
    """Wall-clock time of the attempts, one after the other."""
    policy_seconds: float = 0.0
    """Of that, waiting for the policy."""
    calls_seconds: float = 0.0
    """Of that, tool calls in their workers."""
    judge_requests: int = 0
    judge_prompt_tokens: int = 0
    judge_completion_tokens: int = 0
    judge_cost_usd: float | None = None


@dataclass(frozen=True, kw_only=True)
class Measure:
    """Figures of one task, of one environment, or of the whole run."""

    name: str
    """Id of the task or environment; `overall`."""
    tasks: int
    rollouts: int
    scored: int
    """Rollouts that count."""
    successes: int
    pass_at: dict[int, float]
    pass_hat: dict[int, float]
    mean_reward: float | None
    mean_turns: float
    mean_calls: float
    outcomes: dict[str, int]
    terminations: dict[str, int]
    tool_errors: dict[str, int]
    """Calls that failed, by type and code, `refused not_found`."""
    format_errors: dict[str, int]
    """Broken rules by name."""
    ledger: Ledger

    @property
    def pass_at_1(self) -> float | None:
        """Share of successes, averaged over tasks; None where nothing is scored."""
        return self.pass_at.get(1)


@dataclass(frozen=True, kw_only=True)
class Metrics:
    """Figures of a run at three levels."""

    overall: Measure
    environments: tuple[Measure, ...]
    tasks: tuple[Measure, ...]

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class _Seen:
    """What the figures need of one rollout; its trajectory is let go."""

    environment: str
    task: str
    reward: float | None
    is_success: bool
    outcome: str
    termination: str
    turns: int
    calls: int
    tool_errors: Counter[str] = field(default_factory=Counter)
    format_errors: Counter[str] = field(default_factory=Counter)
    spent: dict[str, Any] = field(default_factory=dict)


def measure(rollouts: Iterable[Rollout]) -> Metrics:
    """The figures of some rollouts, such as `run.values()`; they are read one after the other."""
    seen = [_seen(r) for r in rollouts]
    return Metrics(
        overall=_measured("overall", seen),
        environments=tuple(_grouped(seen, lambda s: s.environment)),
        tasks=tuple(_grouped(seen, lambda s: s.task)),
    )


def pass_hat(successes: int, attempts: int, k: int) -> float:
    """Unbiased estimate of the chance that k attempts all succeed: C(c, k) / C(n, k)."""
    return comb(successes, k) / comb(attempts, k)


def pass_at(successes: int, attempts: int, k: int) -> float:
    """Unbiased estimate of the chance that any of k attempts succeeds: 1 − C(n−c, k) / C(n, k)."""
    return 1 - comb(attempts - successes, k) / comb(attempts, k)


def table(measures: Sequence[Measure]) -> list[tuple[str, ...]]:
    """Figures as rows of text, a row of heads first. From the reward on, they are means over attempts."""
    ladder = max((max(m.pass_hat, default=1) for m in measures), default=1)
    heads = ("name", "attempts", "pass@1", *([f"pass^{ladder}"] if ladder > 1 else []), "per attempt: reward", "turns")
    rows = [(*heads, "calls", "tool errors", "format errors", "tokens", "seconds")]
    for m in measures:
        hat = [_share(m.pass_hat.get(ladder))] if ladder > 1 else []
        reward = "–" if m.mean_reward is None else f"{m.mean_reward:.2f}"
        effort = (f"{m.mean_turns:.1f}", f"{m.mean_calls:.1f}")
        errors = [f"{sum(counts.values()) / (m.rollouts or 1):.2f}" for counts in (m.tool_errors, m.format_errors)]
        tokens = (m.ledger.prompt_tokens + m.ledger.completion_tokens) / (m.rollouts or 1)
        row = (m.name, str(m.rollouts), _share(m.pass_at_1), *hat, reward, *effort, *errors)
        rows.append((*row, f"{tokens:.0f}", f"{m.ledger.seconds / (m.rollouts or 1):.1f}"))
    return rows


def _share(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f} %"


def _seen(rollout: Rollout) -> _Seen:
    t = rollout.trajectory
    return _Seen(
        environment=t.environment_id,
        task=t.task_id or t.environment_id,
        reward=rollout.reward.total,
        is_success=rollout.is_success,
        outcome=_outcome(rollout),
        termination=t.termination,
        turns=turns_count(t),
        calls=len(t.steps),
        tool_errors=Counter(f"{s.result.type} {s.result.code or ''}".strip() for s in t.steps if not s.result.is_ok),
        format_errors=Counter(str(v.get("name")) for v in t.violations),
        spent=_spent(rollout),
    )


def _outcome(rollout: Rollout) -> str:
    if rollout.verdict is not None:
        return str(rollout.verdict.outcome)
    return "judge failed" if rollout.judge_error else "not judged"


def _spent(rollout: Rollout) -> dict[str, Any]:
    t = rollout.trajectory
    own = ("requests", "prompt_tokens", "completion_tokens", "cost_usd", "seconds", "policy_seconds")
    judges = ("requests", "prompt_tokens", "completion_tokens", "cost_usd")
    return {
        **{name: _number(t.usage, name) for name in own},
        "calls_seconds": sum(s.result.seconds for s in t.steps),
        **{f"judge_{name}": _sum(_number(v.usage, name) for v in t.verdicts) for name in judges},
    }


def _number(usage: Mapping[str, Any], name: str) -> Any:
    value = usage.get(name)
    return value if isinstance(value, int | float) else None


def _sum(values: Iterable[Any]) -> Any:
    """The sum of what is known; None where nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _ledger(seen: Sequence[_Seen]) -> Ledger:
    sums = {f.name: _sum(s.spent[f.name] for s in seen) for f in fields(Ledger)}
    return Ledger(**{name: value for name, value in sums.items() if value is not None})


def _grouped(seen: Sequence[_Seen], key: Callable[[_Seen], str]) -> list[Measure]:
    groups: dict[str, list[_Seen]] = {}
    for one in seen:
        groups.setdefault(key(one), []).append(one)
    return [_measured(name, members) for name, members in groups.items()]


def _measured(name: str, seen: Sequence[_Seen]) -> Measure:
    rewards = [s.reward for s in seen if s.reward is not None]
    counts = _counts_by_task(seen)
    ladder = range(1, min([_LONGEST_LADDER, *(n for _, n in counts)]) + 1) if counts else range(0)
    return Measure(
        name=name,
        tasks=len({s.task for s in seen}),
        rollouts=len(seen),
        scored=len(rewards),
        successes=sum(c for c, _ in counts),
        pass_at={k: fmean(pass_at(c, n, k) for c, n in counts) for k in ladder},
        pass_hat={k: fmean(pass_hat(c, n, k) for c, n in counts) for k in ladder},
        mean_reward=fmean(rewards) if rewards else None,
        mean_turns=fmean(s.turns for s in seen) if seen else 0.0,
        mean_calls=fmean(s.calls for s in seen) if seen else 0.0,
        outcomes=dict(sorted(Counter(s.outcome for s in seen).items())),
        terminations=dict(sorted(Counter(s.termination for s in seen).items())),
        tool_errors=dict(sorted(sum((s.tool_errors for s in seen), Counter()).items())),
        format_errors=dict(sorted(sum((s.format_errors for s in seen), Counter()).items())),
        ledger=_ledger(seen),
    )


def _counts_by_task(seen: Sequence[_Seen]) -> list[tuple[int, int]]:
    """Successes and attempts of each task, of what is scored."""
    attempts: Counter[str] = Counter(s.task for s in seen if s.reward is not None)
    successes: Counter[str] = Counter(s.task for s in seen if s.reward is not None and s.is_success)
    return [(successes[task], n) for task, n in attempts.items()]

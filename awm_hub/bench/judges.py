"""How good a judge is, measured on attempts whose right outcomes are known.

| figure | what it is |
|---|---|
| accuracy | share of attempts whose outcome is an accepted one; per outcome: of those with that one right outcome |
| false-pass rate | share of the attempts that should not pass that are COMPLETED: reward for nothing |
| false-fail rate | share of the attempts that should pass that are not COMPLETED |
| self-consistency, pairwise agreement, Fleiss' κ | agreement of the votes on one attempt: `judging.agreement` |
| reward flip rate | share of pairs of votes on one attempt that lead to different rewards (paper, Eq. 1) |

The paper reports 90.8 % self-consistency and κ = 0.891 for its judge, on attempts of its own (§4).
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from awm_hub.bench.labelled import Labelled
from awm_hub.errors import JudgeError, UsageError
from awm_hub.inference import Usage
from awm_hub.judging import Judge, judge_async
from awm_hub.judging.agreement import fleiss_kappa, pairwise_agreement, self_consistency
from awm_hub.reward import outcome_reward
from awm_hub.trajectory import Outcome, Verdict


@dataclass(frozen=True, kw_only=True)
class Score:
    """How many of how many."""

    right: int
    total: int

    @property
    def share(self) -> float | None:
        """None where there are none."""
        return self.right / self.total if self.total else None


@dataclass(frozen=True, kw_only=True)
class Rate:
    """How often something went wrong, of how many times."""

    count: int
    total: int

    @property
    def share(self) -> float | None:
        """None where it could not go wrong."""
        return self.count / self.total if self.total else None


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """An attempt whose outcome is not an accepted one."""

    id: str
    kind: str
    accepted: tuple[str, ...]
    found: str
    reasoning: str


@dataclass(frozen=True, kw_only=True)
class JudgeQuality:
    """What was measured; the module says what each figure is."""

    judge: dict[str, Any]
    attempts: int
    accuracy: Score
    by_outcome: dict[str, Score]
    by_kind: dict[str, Score]
    false_pass: Rate
    """Wrong attempts that passed."""
    false_fail: Rate
    """Right attempts that did not pass."""
    self_consistency: float | None
    pairwise_agreement: float | None
    fleiss_kappa: float | None
    reward_flip_rate: float | None
    mistakes: tuple[Mistake, ...]
    unjudged: tuple[tuple[str, str], ...]
    """Attempts that the judge could not judge, and why; not counted above."""
    unsettled: int = 0
    """Made attempts that were left out, since only judging could label them."""
    usage: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """JSON form, each score with its share."""
        scores = {name: _score(getattr(self, name)) for name in ("accuracy", "false_pass", "false_fail")}
        groups = {
            name: {key: _score(score) for key, score in getattr(self, name).items()}
            for name in ("by_outcome", "by_kind")
        }
        return {**asdict(self), **scores, **groups}


async def measure_judge(
    judge: str | Judge,
    attempts: Sequence[Labelled],
    *,
    repeats: int = 1,
    concurrency: int = 8,
    unsettled: int = 0,
    on_judged: Callable[[Labelled, Verdict | None], None] | None = None,
) -> JudgeQuality:
    """Let a judge judge labelled attempts.

    Args:
        judge: What `awm_hub.judge` takes.
        attempts: What to judge.
        repeats: Judgements of each attempt by a judge of code. A model's are its votes: a repeated question would be
            answered by what it said before.
        concurrency: Attempts judged at a time.
        unsettled: To be reported: attempts that were left out.
        on_judged: Called after each attempt, with None where it could not be judged.

    Raises:
        UsageError: there is nothing to judge, `repeats` or `concurrency` is below one, or a model is to repeat itself.
    """
    if not attempts or repeats < 1 or concurrency < 1:
        raise UsageError("there is nothing to judge", next_step="choose tasks with solutions, and one repeat at least")
    if repeats > 1 and not isinstance(judge, str):
        raise UsageError(f"{judge.name} keeps its opinions, and would repeat them", next_step="give it more votes")
    room = asyncio.Semaphore(concurrency)

    async def judged(attempt: Labelled) -> list[Verdict] | str:
        async with room:
            try:
                verdicts = [await judge_async(attempt.trajectory, judge=judge) for _ in range(repeats)]
            except JudgeError as error:
                verdicts, problem = [], error.message
        if on_judged is not None:
            on_judged(attempt, verdicts[0] if verdicts else None)
        return verdicts or problem

    found = await asyncio.gather(*map(judged, attempts))
    unjudged = tuple((a.id, f) for a, f in zip(attempts, found, strict=True) if isinstance(f, str))
    pairs = [(a, f) for a, f in zip(attempts, found, strict=True) if not isinstance(f, str)]
    described = {"kind": judge} if isinstance(judge, str) else judge.describe()
    return _report(described, pairs, unjudged, unsettled)


def _report(
    judge: dict[str, Any],
    pairs: Sequence[tuple[Labelled, list[Verdict]]],
    unjudged: tuple[tuple[str, str], ...],
    unsettled: int,
) -> JudgeQuality:
    firsts = [(attempt, verdicts[0]) for attempt, verdicts in pairs]
    # nobody votes on an attempt whose environment failed
    voted = [(a, verdicts) for a, verdicts in pairs if len(_votes(verdicts)) > 1]
    ratings = [_votes(verdicts) for _, verdicts in voted]
    same_reward = pairwise_agreement([_rewards(a, verdicts) for a, verdicts in voted])
    return JudgeQuality(
        judge=judge,
        attempts=len(pairs),
        accuracy=_accuracy(firsts),
        by_outcome=_grouped(firsts, _only_outcome),
        by_kind=_grouped(firsts, lambda a: a.kind),
        false_pass=_rate(v.outcome is Outcome.COMPLETED for a, v in firsts if not a.should_pass),
        false_fail=_rate(v.outcome is not Outcome.COMPLETED for a, v in firsts if a.should_pass),
        self_consistency=self_consistency(ratings),
        pairwise_agreement=pairwise_agreement(ratings),
        fleiss_kappa=fleiss_kappa(ratings),
        reward_flip_rate=None if same_reward is None else 1 - same_reward,
        mistakes=tuple(_mistake(a, v) for a, v in firsts if v.outcome not in a.accepted),
        unjudged=unjudged,
        unsettled=unsettled,
        usage=_usage(v for _, verdicts in pairs for v in verdicts),
    )


def _only_outcome(attempt: Labelled) -> str | None:
    """The one right outcome of an attempt; None where several are."""
    return str(next(iter(attempt.accepted))) if len(attempt.accepted) == 1 else None


def _accuracy(pairs: Iterable[tuple[Labelled, Verdict]]) -> Score:
    counts = Counter(verdict.outcome in attempt.accepted for attempt, verdict in pairs)
    return Score(right=counts[True], total=counts.total())


def _rate(holds: Iterable[bool]) -> Rate:
    counts = Counter(holds)
    return Rate(count=counts[True], total=counts.total())


def _grouped(pairs: Sequence[tuple[Labelled, Verdict]], key: Callable[[Labelled], str | None]) -> dict[str, Score]:
    names = sorted({name for attempt, _ in pairs if (name := key(attempt)) is not None})
    return {name: _accuracy((a, v) for a, v in pairs if key(a) == name) for name in names}


def _votes(verdicts: Sequence[Verdict]) -> list[str]:
    """Outcomes of all votes on one attempt."""
    return [str(o) for v in verdicts for o in ([vote["outcome"] for vote in v.usage.get("votes", ())] or [v.outcome])]


def _rewards(attempt: Labelled, verdicts: Sequence[Verdict]) -> list[str]:
    """What each vote would have paid."""
    would = [replace(verdicts[0], outcome=Outcome(outcome)) for outcome in _votes(verdicts)]
    return [str(outcome_reward(attempt.trajectory, verdict).total) for verdict in would]


def _mistake(attempt: Labelled, verdict: Verdict) -> Mistake:
    accepted = tuple(sorted(map(str, attempt.accepted)))
    return Mistake(
        id=attempt.id, kind=attempt.kind, accepted=accepted, found=str(verdict.outcome), reasoning=verdict.reasoning
    )


def _usage(verdicts: Iterable[Verdict]) -> dict[str, Any]:
    names = Usage().to_dict()
    spent = [Usage.from_dict({name: v.usage[name] for name in names}) for v in verdicts if "requests" in v.usage]
    return sum(spent, Usage()).to_dict() if spent else {}


def _score(score: Score | Rate) -> dict[str, Any]:
    return {**asdict(score), "share": score.share}

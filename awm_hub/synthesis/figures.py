"""The records of a run's figures, and the paper's figures beside them.

The table of stages has the shape of the paper's Table 1 (§1). A stage succeeds at its first attempt where its own gate
sent nothing back, a warning neither; the share without an error is what compares with the paper's, whose gates know
no warnings. Later gates are counted apart: they send products back that the paper would have kept.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from awm_hub.synthesis.diversity import Diversity
from awm_hub.synthesis.ledger import Cost
from awm_hub.synthesis.problems import Problem, errors
from awm_hub.synthesis.report_page import page
from awm_hub.synthesis.scenarios import Pool

ACCEPTED, REJECTED, UNFINISHED = "accepted", "rejected", "unfinished"


@dataclass(frozen=True, kw_only=True)
class PaperFigures:
    """The paper's line for a stage; None where it has no figure."""

    success: float | None = None
    attempts: float | None = None
    cost_per_100_usd: float | None = None


PAPER = {
    "scenario": PaperFigures(cost_per_100_usd=0.43),
    "task": PaperFigures(cost_per_100_usd=0.56),
    "database": PaperFigures(success=0.883, attempts=1.13, cost_per_100_usd=3.59),
    "sample_data": PaperFigures(success=0.882, attempts=1.12, cost_per_100_usd=13.75),
    "toolset": PaperFigures(cost_per_100_usd=23.74),
    "code": PaperFigures(success=0.868, attempts=1.13, cost_per_100_usd=12.81),
    "verification": PaperFigures(cost_per_100_usd=2.21),
    "solution": PaperFigures(),
}
"""Table 1 (§1); a stage of attempts at the tasks the paper does not have."""
PAPER_TOTAL = PaperFigures(cost_per_100_usd=57.09)


@dataclass(frozen=True, kw_only=True)
class StageFigures:
    """How a stage fared; `solution` by task, all others by environment."""

    stage: str
    reached: int
    """Environments that it was asked for."""
    first_success: float | None
    """Share whose own gate sent nothing back after the first attempt; at tasks, that agreed with the verifier."""
    first_without_error: float | None
    """Share that it sent back for warnings at most, as the paper counts."""
    final_success: float | None
    """Share that was not given up; at tasks, whose last attempt agreed."""
    attempts: float | None
    """Mean of answers, corrections among them."""
    asked_by_later: int
    """Corrections that a later gate asked for; at tasks, attempts after one that had agreed."""
    prompt_tokens: int
    completion_tokens: int
    cost_per_100_usd: float | None
    """For 100 accepted environments; None where no price is known or nothing is accepted."""
    paper: PaperFigures


@dataclass(frozen=True, kw_only=True)
class SolvingFigures:
    """The solver's attempts at the tasks."""

    tasks: int
    """Attempted."""
    attempts: int
    agreed_first: int
    """Tasks whose first attempt the verifier agreed with."""
    agreed: int
    """Tasks whose last one it agreed with."""
    open: int
    """Attempts that wait for an answer."""
    arbiter_requests: int
    at_fault: Mapping[str, int]
    """Stage → how often an arbiter blamed it."""


@dataclass(frozen=True, kw_only=True)
class Answers:
    """Who answered, and how that is known."""

    models: Mapping[str, int]
    sources: Mapping[str, int]
    """`live` or `batch` → answers."""
    counted: int
    """Answers with the endpoint's own count of tokens."""
    estimated: int
    unpriced: int
    """Answers that no cost is known of."""
    open: int
    """Requests without an answer."""
    reworded: tuple[str, ...]
    """Positions whose answer was given to an earlier wording."""
    unreadable: Mapping[str, str]
    """Position → why its answer could not be read."""


@dataclass(frozen=True, kw_only=True)
class EnvironmentFigures:
    """What became of one environment."""

    id: str
    state: str
    """`accepted`, `rejected` or `unfinished`."""
    requests: int
    attempts: Mapping[str, int]
    """Stage → answers; `solution`: attempts at all tasks."""
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float | None
    exhausted: str
    """The stage that had no attempt left; empty unless it was rejected."""
    problems: tuple[Problem, ...]
    """Warnings that are left, or what kept it from being accepted."""


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A rule that kept environments from being accepted."""

    rule: str
    stage: str
    environments: tuple[str, ...]
    problems: int
    example: str


@dataclass(frozen=True, kw_only=True)
class Figures:
    """The figures of a run."""

    stages: tuple[StageFigures, ...]
    total: Cost
    cost_per_100_usd: float | None
    solving: SolvingFigures
    answers: Answers
    environments: tuple[EnvironmentFigures, ...]
    pool: Pool | None = None
    diversity: Diversity | None = None
    paper: PaperFigures = field(default=PAPER_TOTAL)

    def count(self, state: str) -> int:
        """Environments that are `accepted`, `rejected` or `unfinished`."""
        return sum(e.state == state for e in self.environments)

    @property
    def failures(self) -> tuple[Failure, ...]:
        """Why environments were rejected, by rule, the most frequent first; warnings where there is nothing else."""
        found: dict[tuple[str, str], list[tuple[str, Problem]]] = {}
        for environment in self.environments:
            if environment.state == REJECTED:
                for problem in errors(environment.problems) or environment.problems:
                    found.setdefault((problem.stage, problem.rule), []).append((environment.id, problem))
        failures = [_failure(stage, rule, cases) for (stage, rule), cases in found.items()]
        return tuple(sorted(failures, key=lambda f: (-len(f.environments), -f.problems, f.stage, f.rule)))

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "environments": {
                **{state: self.count(state) for state in (ACCEPTED, REJECTED, UNFINISHED)},
                "each": [asdict(e) for e in self.environments],
            },
            "stages": [asdict(s) for s in self.stages],
            "total": {**self.total.to_dict(), "cost_per_100_usd": self.cost_per_100_usd, "paper": asdict(self.paper)},
            "solving": asdict(self.solving),
            "answers": asdict(self.answers),
            "failures": [asdict(f) for f in self.failures],
            "pool": None if self.pool is None else self.pool.to_dict(),
            "diversity": None if self.diversity is None else self.diversity.to_dict(),
        }

    def markdown(self) -> str:
        """The report as a page."""
        return page(self)


def _failure(stage: str, rule: str, cases: Sequence[tuple[str, Problem]]) -> Failure:
    names = tuple(dict.fromkeys(environment for environment, _ in cases))
    return Failure(stage=stage, rule=rule, environments=names, problems=len(cases), example=cases[0][1].message)

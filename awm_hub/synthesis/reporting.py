"""The figures of a run, computed from its store: how each stage fared, what it cost, and why environments failed.

`awm_hub.synthesis.figures` says what each of them is. They need nothing but the store, so that a run has them at any
point, and after it. All that was spent counts in the cost of accepted environments, what the rejected ones cost too.
"""

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from awm_hub.inference import Price
from awm_hub.synthesis.diversity import Diversity
from awm_hub.synthesis.figures import (
    ACCEPTED,
    PAPER,
    REJECTED,
    UNFINISHED,
    Answers,
    EnvironmentFigures,
    Figures,
    SolvingFigures,
    StageFigures,
)
from awm_hub.synthesis.ledger import Cost, Ledger
from awm_hub.synthesis.loop import ATTEMPTS
from awm_hub.synthesis.problems import STAGES, Problem, earliest_stage, errors
from awm_hub.synthesis.report_page import stage_lines
from awm_hub.synthesis.scenarios import Pool
from awm_hub.synthesis.solver_attempts import AGREED, OPEN, SOLUTION, TaskAttempt, task_attempts
from awm_hub.synthesis.store import Record, Records, read_store

__all__ = ["Figures", "figures_of", "stage_lines"]

_PER = 100
"""Environments that a cost is for, as in the paper."""


def figures_of(
    store: Records | str | os.PathLike[str],
    *,
    price: Price | None = None,
    pool: Pool | None = None,
    diversity: Diversity | None = None,
) -> Figures:
    """The figures of a run.

    Args:
        store: Its store, or its output folder.
        price: Of tokens whose answer brought no cost, as those of batches.
        pool: Its scenarios, where they are known.
        diversity: Of these.

    Raises:
        DataError: the folder holds no store, or it is damaged.
    """
    if isinstance(store, Records):
        return _Reading(store, price).figures(pool, diversity)
    with read_store(store) as records:
        return _Reading(records, price).figures(pool, diversity)


@dataclass(frozen=True, kw_only=True)
class _Fared:
    """How the environments, or the tasks, of a stage fared."""

    fell: Sequence[str]
    """For what each was sent back after its first attempt: `error`, `warning`, or nothing."""
    stood: Sequence[bool]
    attempts: Sequence[int]
    asked_by_later: int


class _Reading:
    """A store while its figures are computed."""

    def __init__(self, records: Records, price: Price | None) -> None:
        self.records = records
        self.ledger = Ledger.of(records, price)
        self.tried = task_attempts(records, price=price)
        self.tried_in = Counter(one.environment for one in self.tried)
        self.outcomes = {record["environment"]: record for record in records.records("outcome")}
        self.attempts: dict[tuple[str, str], list[Record]] = {}
        """Environment and stage → its attempts by number."""
        for record in sorted(records.records("attempt"), key=lambda r: int(r["number"])):
            self.attempts.setdefault((record["environment"], record["stage"]), []).append(record)
        self.asked = _asked(records.keys("request"))
        self.accepted = sum(bool(outcome["accepted"]) for outcome in self.outcomes.values())

    def figures(self, pool: Pool | None, diversity: Diversity | None) -> Figures:
        return Figures(
            stages=tuple(self._stage(stage) for stage in STAGES),
            total=self.ledger.total,
            cost_per_100_usd=self._per_100(self.ledger.total),
            solving=self._solving(),
            answers=self._answers(),
            environments=tuple(self._environment(name) for name in self._names()),
            pool=pool,
            diversity=diversity,
        )

    def _names(self) -> list[str]:
        """Of environments that something was asked for."""
        asked = {environment for environment, _ in self.asked}
        return sorted({*asked, *self.outcomes})

    def _stage(self, stage: str) -> StageFigures:
        cost = self.ledger.by_stage.get(stage, Cost())
        reached = [environment for environment, asked in self.asked if asked == stage]
        fared = self._tasks() if stage == SOLUTION else self._written(stage, reached)
        return StageFigures(
            stage=stage,
            reached=len(reached),
            first_success=_mean([not fell for fell in fared.fell]),
            first_without_error=_mean([fell != "error" for fell in fared.fell]),
            final_success=_mean(fared.stood),
            attempts=_mean(fared.attempts),
            asked_by_later=fared.asked_by_later,
            prompt_tokens=cost.prompt_tokens,
            completion_tokens=cost.completion_tokens,
            cost_per_100_usd=self._per_100(cost),
            paper=PAPER[stage],
        )

    def _written(self, stage: str, reached: Sequence[str]) -> "_Fared":
        tried = {e: self.attempts[e, stage] for e in reached if (e, stage) in self.attempts}
        # where the second attempt waits for its answer, it is not known yet who asked for it
        known = [found for e, found in tried.items() if len(found) > 1 or self.asked[e, stage] == 1]
        again = (attempt for found in tried.values() for attempt in found if attempt["number"] > 1)
        return _Fared(
            fell=[_fell_at_first(found, stage) for found in known],
            stood=[self._exhausted(environment) != stage for environment in reached],
            attempts=[len(found) for found in tried.values()],
            asked_by_later=sum(attempt["found_by"] != stage for attempt in again),
        )

    def _tasks(self) -> "_Fared":
        by_task = self._by_task()
        firsts = (found[0].state for found in by_task)
        return _Fared(
            fell=["" if state == AGREED else "error" for state in firsts if state != OPEN],
            stood=[found[-1].state == AGREED for found in by_task],
            attempts=[len(found) for found in by_task],
            asked_by_later=sum(one.state == AGREED for found in by_task for one in found[:-1]),
        )

    def _by_task(self) -> list[list[TaskAttempt]]:
        found: dict[tuple[str, str], list[TaskAttempt]] = {}
        for attempt in self.tried:
            found.setdefault((attempt.environment, attempt.slug), []).append(attempt)
        return list(found.values())

    def _solving(self) -> SolvingFigures:
        by_task = self._by_task()
        return SolvingFigures(
            tasks=len(by_task),
            attempts=len(self.tried),
            agreed_first=sum(found[0].state == AGREED for found in by_task),
            agreed=sum(found[-1].state == AGREED for found in by_task),
            open=sum(one.state == OPEN for one in self.tried),
            arbiter_requests=sum(key.endswith("/arbiter") for key in self.records.keys("request")),
            at_fault=dict(Counter(one.at_fault for one in self.tried if one.has_arbiter).most_common()),
        )

    def _answers(self) -> Answers:
        total, sources, reworded = self.ledger.total, Counter[str](), []
        for answer in self.records.records("answer"):
            sources[answer["source"]] += 1
            request = self.records.request(answer["key"])
            if request is not None and answer["sha256"] not in (None, request["sha256"]):
                reworded.append(answer["key"])
        attempts = (attempt for found in self.attempts.values() for attempt in found)
        return Answers(
            models=self.ledger.models,
            sources=dict(sorted(sources.items())),
            counted=total.answers - total.estimated_answers,
            estimated=total.estimated_answers,
            unpriced=total.unpriced_answers,
            open=total.requests - total.answers,
            reworded=tuple(reworded),
            unreadable={a["key"]: a["unreadable"] for a in attempts if a.get("unreadable") is not None},
        )

    def _environment(self, name: str) -> EnvironmentFigures:
        cost, outcome = self.ledger.by_environment.get(name, Cost()), self.outcomes.get(name)
        attempts = {stage: len(self.attempts[name, stage]) for stage in STAGES if (name, stage) in self.attempts}
        if tried := self.tried_in[name]:
            attempts[SOLUTION] = tried
        return EnvironmentFigures(
            id=name,
            state=UNFINISHED if outcome is None else ACCEPTED if outcome["accepted"] else REJECTED,
            requests=cost.requests,
            attempts=attempts,
            prompt_tokens=cost.prompt_tokens,
            completion_tokens=cost.completion_tokens,
            cost_usd=cost.known_usd,
            exhausted=self._exhausted(name),
            problems=() if outcome is None else _problems(outcome["problems"]),
        )

    def _exhausted(self, name: str) -> str:
        """The stage that a rejected environment was given up at: of those without attempts left, the one to blame."""
        outcome = self.outcomes.get(name)
        if outcome is None or outcome["accepted"]:
            return ""
        problems = _problems(outcome["problems"])
        blamed = {p.stage for p in errors(problems) or problems}
        used = [stage for stage in STAGES if len(self.attempts.get((name, stage), ())) >= ATTEMPTS]
        if used:
            return next((stage for stage in used if stage in blamed), used[0])
        return earliest_stage(errors(problems) or problems) if problems else ""

    def _per_100(self, cost: Cost) -> float | None:
        paid = cost.known_usd
        return None if paid is None or not self.accepted else paid / self.accepted * _PER


def _asked(keys: Iterable[str]) -> Counter[tuple[str, str]]:
    """Environment and stage → requests, of those at positions of environments."""
    parts = (key.split("/") for key in keys)
    return Counter((found[0], found[1]) for found in parts if len(found) >= 3 and found[1] in STAGES)


def _fell_at_first(attempts: Sequence[Record], stage: str) -> str:
    """For what the stage's own gate, or who read it, sent the first attempt back: `error`, `warning`, or nothing."""
    if attempts[0].get("unreadable") is not None:
        return "error"
    second = next((attempt for attempt in attempts if attempt["number"] == 2), None)
    if second is None or second["found_by"] != stage:
        return ""
    return "error" if errors(_problems(second["because"])) else "warning"


def _problems(found: Iterable[Mapping[str, Any]]) -> tuple[Problem, ...]:
    return tuple(map(Problem.from_dict, found))


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None

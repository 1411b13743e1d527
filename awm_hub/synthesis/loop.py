"""The loop that makes one environment: write, run, say what is wrong, ask again.

The gates run in the order of the stages. The first that finds something decides what is asked next: the earliest stage
that its problems name gets them with the request for a correction, and then the gates run again. So a fault that shows
only at the end (the audit finds that a verifier accepts a mistake) goes back to the stage that can mend it, and what
stands on a mended product is checked anew. There is one loop for all stages (the paper has one for each, §1).

Everything that is asked, answered and found is in the store, and nothing else decides what happens next: the same
answers give the same environment, whenever and however often the loop is started.
"""

import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import awm_hub
from awm_hub.auditing import AUDIT_VERSION, AuditedEnvironment
from awm_hub.canonical import sha256_of
from awm_hub.inference import Reply
from awm_hub.inference.replies import escaped
from awm_hub.synthesis import products, requests
from awm_hub.synthesis.asking import Desk
from awm_hub.synthesis.drafts import Draft
from awm_hub.synthesis.final import audit_draft
from awm_hub.synthesis.problems import AnswerError, Problem, earliest_stage, errors
from awm_hub.synthesis.solving import SolverState, solve_tasks
from awm_hub.synthesis.stages import STAGES_BY_NAME, WRITTEN, Stage
from awm_hub.synthesis.store import Store

ATTEMPTS = 5
"""Of a stage at an environment, and of the solver at a task (paper §1)."""
ATTEMPTS_FOR_WARNINGS = 3
"""Warnings are sent back while the stage has had fewer."""
MAX_ANSWER_CHARS = 400_000
"""Ten times what an environment's code takes; what is longer is a model that repeats itself."""
GATES_VERSION = 1
"""Rises when gates find something else in the same products, so that kept verdicts are not used any more."""

Progress = Callable[[Mapping[str, Any]], None]


class _ExhaustedError(Exception):
    """A stage has no attempt left, and its problems keep the environment from being accepted."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__()
        self.problems = tuple(problems)


@dataclass(frozen=True, kw_only=True)
class Audited:
    """A draft that the audit found no error in."""

    content_hash: str
    quality: Mapping[str, Any]
    """`awm_hub.environment.Quality` in its JSON form."""


@dataclass(frozen=True, kw_only=True)
class Made:
    """What became of one environment."""

    draft: Draft
    audited: Audited | None
    """What the audit says of it; None where it was not accepted."""
    problems: tuple[Problem, ...]
    """Warnings that are left, or what kept it from being accepted."""
    attempts: Mapping[str, int]
    """Stage → requests for its product."""
    solver: SolverState

    @property
    def is_accepted(self) -> bool:
        """Whether it passed every gate."""
        return self.audited is not None


@dataclass(kw_only=True)
class _Best:
    """The best draft so far: the furthest gate, then the fewest errors, then the fewest warnings."""

    rank: tuple[int, int, int] = (-1, 0, 0)
    draft: Draft | None = None
    audited: Audited | None = None
    problems: tuple[Problem, ...] = ()
    solver: SolverState = field(default_factory=SolverState)
    """As it was with this draft: its attempts are the ones that the solutions are from."""


@dataclass(kw_only=True)
class Maker:
    """Makes one environment of a draft that has a name and an outline."""

    draft: Draft
    desk: Desk
    store: Store
    progress: Progress
    attempts: Counter[str] = field(default_factory=Counter)
    solver: SolverState = field(default_factory=SolverState)
    best: _Best = field(default_factory=_Best)

    async def make(self) -> Made:
        """Go on until every gate passes, or a stage has used up its attempts.

        Raises:
            Waiting: in batch mode, an answer is missing.
            BudgetError: the budget is used up.
            RemoteError: the endpoint failed for good.
        """
        last: tuple[Problem, ...] = ()
        try:
            while asked := await self._found():
                await self._mend(*asked)
        except _ExhaustedError as error:
            last = error.problems
        best = self.best
        return Made(
            draft=best.draft or self.draft,
            audited=best.audited,
            problems=self._left(last),
            attempts=dict(self.attempts),
            solver=best.solver,
        )

    def _left(self, last: Sequence[Problem]) -> tuple[Problem, ...]:
        """What stands against the best draft; where nothing does and it is not finished, what it ended with as well."""
        best = self.best
        if best.audited is not None or errors(best.problems):
            return best.problems
        return tuple(dict.fromkeys((*best.problems, *last)))

    async def _found(self) -> tuple[str, tuple[Problem, ...]] | None:
        """The first gate that has something to send back, and what it found; None when all have passed."""
        for position, stage in enumerate(WRITTEN):
            if not self.draft.parts(stage.name):
                await self._ask(stage, (), stage.name)
            found = await self._gate(stage)
            if self._is_to_mend(position, found):
                return stage.name, found
        found = await self._solve()
        if self._is_to_mend(len(WRITTEN), found):
            return "solution", found
        audited, found = await self._audit()
        is_to_mend = self._is_to_mend(len(WRITTEN) + 1, found, audited)
        return ("audit", found) if is_to_mend else None

    def _is_to_mend(self, position: int, found: Sequence[Problem], audited: Audited | None = None) -> bool:
        """Whether something of it is sent back.

        Raises:
            _ExhaustedError: it would have to be, and the stage has no attempt left.
        """
        self._keep_better(position, found, audited)
        wrong = errors(found)
        if wrong:
            stage = earliest_stage(wrong)
            if not any(self._can_mend(p, ATTEMPTS) for p in wrong if p.stage == stage):
                raise _ExhaustedError(found)
        return bool(wrong or self._worth_mending(found))

    def _worth_mending(self, found: Sequence[Problem]) -> list[Problem]:
        return [p for p in found if self._can_mend(p, ATTEMPTS_FOR_WARNINGS)]

    def _can_mend(self, problem: Problem, attempts: int) -> bool:
        """Whether the stage that a problem names, or the solver at its task, has had fewer attempts."""
        if problem.stage != "solution":
            return self.attempts[problem.stage] < attempts
        failed = len(self.solver.reasons.get(problem.subject, ()))
        return problem.subject in self.draft.solutions and failed < attempts - 1

    def _keep_better(self, position: int, found: Sequence[Problem], audited: Audited | None = None) -> None:
        wrong = len(errors(found))
        rank = (position, -wrong, wrong - len(found))
        if rank > self.best.rank:
            solver = SolverState.from_dict(self.solver.to_dict())
            self.best = _Best(rank=rank, draft=self.draft, problems=tuple(found), audited=audited, solver=solver)

    async def _mend(self, gate: str, found: Sequence[Problem]) -> None:
        """Ask the earliest stage that is to blame for a correction."""
        wrong = errors(found)
        name = earliest_stage(wrong or self._worth_mending(found))
        blamed = [p for p in found if p.stage == name]
        if name == "solution":
            self.draft = self.solver.reopened(self.draft, blamed)
        else:
            await self._ask(STAGES_BY_NAME[name], blamed, gate)

    async def _ask(self, stage: Stage, because: Sequence[Problem], gate: str) -> None:
        """Ask for a product or its correction until the answer can be read.

        Raises:
            _ExhaustedError: no attempt is left.
        """
        problems, unreadable = tuple(because), None
        while self.attempts[stage.name] < ATTEMPTS:
            self.attempts[stage.name] += 1
            number = self.attempts[stage.name]
            key = f"{self.draft.id}/{stage.name}/{number}"
            is_first = not (problems or self.draft.parts(stage.name))
            messages = (
                requests.request(stage, self.draft)
                if is_first
                else requests.correction(stage, self.draft, problems, unreadable)
            )
            reply = await self.desk.ask(key, messages, environment=self.draft.id, stage=stage.name)
            failure = self._take(stage, reply)
            self._record(key, stage.name, number, gate, problems, failure)
            if failure is None:
                return
            problems = (*because, failure)
            unreadable = reply.content or ""
            gate = stage.name
        raise _ExhaustedError(problems)

    def _take(self, stage: Stage, reply: Reply) -> Problem | None:
        """Put an answer into the draft; the problem where it cannot be read."""
        try:
            if reply.finish_reason == "length":
                raise AnswerError("the answer was cut off at the length limit: write more compactly")
            if len(reply.content or "") > MAX_ANSWER_CHARS:
                raise AnswerError(f"the answer has more than {MAX_ANSWER_CHARS:,} characters: write more compactly")
            answer = stage.read(reply.content or "")
            parts = products.merged(self.draft.parts(stage.name), answer)
            parts = products.parents_first(parts) if stage.name == "database" else parts
            _check_text(parts)
        except AnswerError as error:
            return Problem(stage=stage.name, rule="unreadable_answer", subject="", message=str(error))
        self.draft = self.draft.having(stage.name, parts)
        return None

    def _record(
        self, key: str, stage: str, number: int, gate: str, because: Sequence[Problem], failure: Problem | None
    ) -> None:
        is_new = self.store.add_attempt(
            key,
            environment=self.draft.id,
            stage=stage,
            number=number,
            found_by=gate,
            because=[p.to_dict() for p in because],
            unreadable=None if failure is None else failure.message,
        )
        if is_new:
            event = {"event": "attempt", "environment": self.draft.id, "stage": stage, "number": number}
            self.progress({**event, "problems": len(because), "is_readable": failure is None})

    async def _gate(self, stage: Stage) -> tuple[Problem, ...]:
        """What a stage's gate finds, kept by the products that it looks at."""
        names = [s.name for s in WRITTEN[: WRITTEN.index(stage) + 1]]
        key = _verdict_key(stage.name, self.draft.hash(*names))
        kept = self.store.verdict(key)
        if kept is None:
            found = await stage.check(self.draft)
            self.store.add_verdict(
                key, gate=stage.name, environment=self.draft.id, problems=[p.to_dict() for p in found]
            )
            self._tell(stage.name, found)
            return found
        return tuple(map(Problem.from_dict, kept["problems"]))

    async def _solve(self) -> tuple[Problem, ...]:
        """Attempts at all tasks that have no solution yet, or one that no longer holds."""
        key = _verdict_key("solution", sha256_of(escaped([self.draft.hash(), self.solver.to_dict()])))
        kept = self.store.verdict(key)
        if kept is None:
            draft, found = await solve_tasks(self.draft, self.desk, self.solver)
            result = {"parts": dict(draft.parts("solution")), "state": self.solver.to_dict()}
            problems = [p.to_dict() for p in found]
            self.store.add_verdict(key, gate="solution", environment=self.draft.id, problems=problems, result=result)
            self._tell("solution", found)
        else:
            result, problems = kept["result"], kept["problems"]
        self.draft = self.draft.having("solution", result["parts"])
        self.solver = SolverState.from_dict(result["state"])
        return tuple(map(Problem.from_dict, problems))

    async def _audit(self) -> tuple[Audited | None, tuple[Problem, ...]]:
        """The audit of the whole, as for any environment that is published."""
        key = _verdict_key("audit", self.draft.hash())
        kept = self.store.verdict(key)
        if kept is None:
            with tempfile.TemporaryDirectory() as place:
                _, audited, found = await audit_draft(self.draft, Path(place))
            result = None if audited is None else _result(audited)
            problems = [p.to_dict() for p in found]
            self.store.add_verdict(key, gate="audit", environment=self.draft.id, problems=problems, result=result)
            self._tell("audit", found)
        else:
            result, problems = kept["result"], kept["problems"]
        told = tuple(map(Problem.from_dict, problems))
        return (None if result is None or errors(told) else Audited(**result)), told

    def _tell(self, gate: str, found: Sequence[Problem]) -> None:
        self.progress({"event": "gate", "environment": self.draft.id, "gate": gate, "problems": len(errors(found))})


def _check_text(parts: products.Parts) -> None:
    """See that files can hold the parts.

    Raises:
        AnswerError: one has half of a surrogate pair, which JSON can name by its escape.
    """
    for name, text in parts.items():
        try:
            f"{name}{text}".encode()
        except UnicodeEncodeError:
            told = f"{name[:80]!a} holds half of a surrogate pair, which no file can: write the character itself"
            raise AnswerError(told) from None


def _result(audited: AuditedEnvironment) -> dict[str, Any]:
    return {"content_hash": audited.content_hash, "quality": audited.quality.to_dict()}


def _verdict_key(gate: str, products_hash: str) -> str:
    return sha256_of([gate, products_hash, GATES_VERSION, AUDIT_VERSION, awm_hub.__version__])

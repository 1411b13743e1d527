"""The attempts at the tasks: an agent solves each, and code and verifier judge how it ended.

The solver sees what any agent sees of the environment. Its ending and the verification, which was written without
knowing it, are two independent opinions on what is right: where they agree, the calls become the task's reference
solution, and the conversation is kept as an example. Where they do not, an arbiter says what has to be mended. If that
is the attempt itself, another one is made and told why; its conversation is no example then, since no agent is told
such things.
"""

import asyncio
import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self, cast

from awm_hub import aio
from awm_hub.auditing.case import Case
from awm_hub.auditing.foundations import open_case
from awm_hub.environment import Call, Environment
from awm_hub.errors import ContextFullError, LoadError, WorkerError
from awm_hub.history import Window
from awm_hub.inference import Endpoint
from awm_hub.policy import ChatPolicy
from awm_hub.policy.acting import Action, Message, View
from awm_hub.rollouts.attempts import attempt_of
from awm_hub.synthesis import arbiter, shortening
from awm_hub.synthesis.asking import Desk, DeskEndpoint, Waiting
from awm_hub.synthesis.building import build_unsolved, steady
from awm_hub.synthesis.drafts import Draft
from awm_hub.synthesis.problems import Problem
from awm_hub.synthesis.settling import Given, Settled, settle
from awm_hub.trajectory import Trajectory

ATTEMPTS = 5
"""Of the solver at a task, until something else than the attempts is found to be at fault."""
MAX_TURNS = 30
_NOTE = "Note: an earlier attempt at this was not accepted. {reason} Start from the beginning and do it right."
_STAGE = "solution"


@dataclass(frozen=True, kw_only=True)
class Solved:
    """An attempt that was found right."""

    slug: str
    attempt: int
    """Its number, from 1."""
    is_noted: bool
    """The solver was told why an earlier attempt had failed."""
    trajectory: Trajectory | None = field(default=None, repr=False, compare=False)
    """Where the attempt was made just now; no part of the JSON form, as its answers are in the store."""


@dataclass(kw_only=True)
class SolverState:
    """What the solver has done for one environment; it only grows, by what the answers say."""

    attempts: dict[str, int] = field(default_factory=dict)
    """Slug → attempts made."""
    reasons: dict[str, list[str]] = field(default_factory=dict)
    """Slug → why the attempts failed since something else was at fault."""
    solved: dict[str, Solved] = field(default_factory=dict)
    """Slug → the attempt that the task's solution is from."""

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "attempts": dict(self.attempts),
            "reasons": {slug: list(told) for slug, told in self.reasons.items()},
            "solved": {s: {"attempt": one.attempt, "is_noted": one.is_noted} for s, one in self.solved.items()},
        }

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Self:
        """From the JSON form."""
        return cls(
            attempts=dict(found["attempts"]),
            reasons={slug: list(told) for slug, told in found["reasons"].items()},
            solved={slug: Solved(slug=slug, **told) for slug, told in found["solved"].items()},
        )

    def is_exhausted(self, slug: str) -> bool:
        """Whether no attempt at a task is left."""
        return len(self.reasons.get(slug, ())) >= ATTEMPTS

    def reopened(self, draft: Draft, problems: Sequence[Problem]) -> Draft:
        """The draft without the solutions that problems are about, each to be attempted again and told why."""
        named = {p.subject: p.message for p in problems if p.stage == _STAGE and p.subject in draft.solutions}
        for slug, message in named.items():
            self.reasons.setdefault(slug, []).append(message)
            self.solved.pop(slug, None)
        kept = {slug: part for slug, part in draft.parts(_STAGE).items() if slug not in named}
        return draft.having(_STAGE, kept)


async def solve_tasks(
    draft: Draft, desk: Desk, state: SolverState, *, trust_remote_code: bool = False
) -> tuple[Draft, tuple[Problem, ...]]:
    """Have every task solved.

    Solutions that still end right are kept. The tasks are attempted at the same time, so that one round of a batch
    holds the next request of each.

    Args:
        draft: With the products of all stages that are written.
        desk: Answers the solver and the arbiter.
        state: Of this environment's solver; attempts that are judged are added.
        trust_remote_code: Run the draft's code without a seal where this machine has none.

    Returns:
        The draft with its solutions, and what keeps tasks from being solved.

    Raises:
        Waiting: in batch mode, answers are missing.
        BudgetError: the budget is used up.
        RemoteError: the endpoint failed for good.
        SandboxError: the sandbox itself failed.
    """
    environment, problems = await build_unsolved(draft, trust_remote_code=trust_remote_code)
    if environment is None:
        return draft, problems
    case = await open_case(environment, trust_remote_code=trust_remote_code)
    solver = _Solver(draft=draft, environment=environment, case=case, desk=desk, state=state)
    found = await asyncio.gather(*map(solver.outcome, draft.tasks), return_exceptions=True)
    raised = [error for error in found if isinstance(error, BaseException)]
    if raised:
        raise next((error for error in raised if not isinstance(error, Waiting)), raised[0])
    outcomes = [one for one in found if not isinstance(one, BaseException)]
    parts = {one.slug: shortening.written(one.part) for one in outcomes if one.part is not None}
    return draft.having(_STAGE, parts), tuple(problem for one in outcomes for problem in one.problems)


@dataclass(frozen=True, kw_only=True)
class _Outcome:
    """What became of one task."""

    slug: str
    part: Mapping[str, Any] | None = None
    """Its solution."""
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, kw_only=True)
class _Solver:
    """One round of attempts."""

    draft: Draft
    environment: Environment
    case: Case
    desk: Desk
    state: SolverState

    async def outcome(self, slug: str) -> _Outcome:
        """Keep the solution that there is, or attempt the task until it is solved or somebody else has to mend."""
        kept = self.draft.solutions.get(slug)
        if kept is not None and (again := await self._kept(slug, kept)) is not None:
            return again
        while not self.state.is_exhausted(slug):
            number = self.state.attempts.get(slug, 0) + 1
            found, at_fault = await self._attempted(slug, number)
            self.state.attempts[slug] = number
            if found.part is not None:
                return found
            if at_fault.at_fault != _STAGE:
                self.state.reasons.pop(slug, None)
                return found
            self.state.reasons.setdefault(slug, []).append(at_fault.reason)
        return _Outcome(slug=slug, problems=(self._unsolved(slug),))

    async def _kept(self, slug: str, part: Mapping[str, Any]) -> _Outcome | None:
        """The solution that there is, where it still ends right."""
        calls = [Call(tool=step["tool"], arguments=step["arguments"]) for step in part["solution"]]
        is_literal = not part.get("references", False)
        settled = await self._settled(slug, calls, Given(value=part.get("answer")), is_literal=is_literal)
        return None if settled.objections else _Outcome(slug=slug, part=part, problems=settled.flaws)

    async def _attempted(self, slug: str, number: int) -> tuple[_Outcome, arbiter.Decision]:
        """One attempt: the solution it gives, or the problem that it shows, and who is at fault."""
        prefix = f"{self.draft.id}/{_STAGE}/{slug}/{number}"
        reasons = self.state.reasons.get(slug, ())
        trajectory = await self._trajectory(slug, prefix, reasons[-1] if reasons else "")
        part, settled = await self._judged(slug, trajectory)
        if part is not None:
            solved = Solved(slug=slug, trajectory=trajectory, attempt=number, is_noted=bool(reasons))
            self.state.solved[slug] = solved
            problems = (*settled.flaws, *_faults(trajectory))
            return _Outcome(slug=slug, part=part, problems=problems), arbiter.Decision(at_fault="", reason="")
        decision = await self._decided(slug, prefix, trajectory, settled)
        facts = "; ".join(settled.objections)
        problem = Problem(
            stage=decision.at_fault,
            rule="attempt_disagrees",
            subject=decision.tool or slug,
            message=f"task {slug}: {decision.reason} (An attempt at the task showed: {facts[:1_500]})",
        )
        return _Outcome(slug=slug, problems=(problem,)), decision

    async def _trajectory(self, slug: str, prefix: str, reason: str) -> Trajectory:
        """Let the solver work.

        Raises:
            Waiting: its next answer is missing.
            RemoteError: the endpoint failed for good.
        """
        endpoint = DeskEndpoint(self.desk, prefix, environment=self.draft.id, stage=_STAGE)
        note = _NOTE.format(reason=reason) if reason else ""
        policy = _NotedPolicy(cast(Endpoint, endpoint), note=note)
        async with await self._launched(slug) as instance:
            trajectory, error = await attempt_of(instance, policy, max_turns=MAX_TURNS)
        if error is not None and not isinstance(error, ContextFullError | LoadError | WorkerError):
            raise error
        return trajectory

    async def _launched(self, slug: str) -> aio.Instance:
        return await aio.launch(self.environment, task=slug, seed=0, trust_remote_code=self.case.is_trusted)

    async def _judged(self, slug: str, trajectory: Trajectory) -> tuple[Mapping[str, Any] | None, Settled]:
        """The solution that an attempt gives, shortened where that ends right too; or what stands against it."""
        given = Given(message=trajectory.answer or "")
        if trajectory.termination != "answered":
            settled = await self._settled(slug, shortening.calls_of(shortening.answered(trajectory.steps)), given)
            told = f"the attempt ended before it was done: {trajectory.termination}"
            return None, dataclasses.replace(settled, objections=(told, *settled.objections))
        steps = shortening.answered(trajectory.steps)
        settled, calls, is_literal = await self._run(slug, steps, given)
        if settled.objections:
            return None, settled
        task = dataclasses.replace(self.environment.task(slug), answer=settled.answer)
        fewer = shortening.shortened(self.case, task, steps)
        if len(fewer) < len(steps):
            short, short_calls, is_short_literal = await self._run(slug, fewer, given)
            if not short.objections and short.answer == settled.answer:
                settled, calls, is_literal = short, short_calls, is_short_literal
        return shortening.part_of(calls, settled.answer, is_literal=is_literal), settled

    async def _run(self, slug: str, steps: Sequence[Any], given: Given) -> tuple[Settled, Sequence[Call], bool]:
        """Judge steps as literal calls, or with references where they depend on chance."""
        calls: Sequence[Call] = shortening.calls_of(steps)
        settled = await self._settled(slug, calls, given)
        if settled.needs_references:
            linked = shortening.referenced(self.case, self.environment.task(slug), steps)
            if linked is not None:
                return await self._settled(slug, linked, given, is_literal=False), linked, False
        return settled, calls, True

    async def _settled(self, slug: str, calls: Sequence[Call], given: Given, *, is_literal: bool = True) -> Settled:
        return await settle(
            self.draft,
            self.environment,
            slug,
            calls,
            given,
            is_literal=is_literal,
            trust_remote_code=self.case.is_trusted,
        )

    async def _decided(self, slug: str, prefix: str, trajectory: Trajectory, settled: Settled) -> arbiter.Decision:
        """What the arbiter says of an attempt that is not agreed on."""
        messages = arbiter.question(
            self.draft, self.environment.task(slug), trajectory, settled.changes, settled.objections
        )
        reply = await self.desk.ask(f"{prefix}/arbiter", messages, environment=self.draft.id, stage=_STAGE)
        return arbiter.decision_of(reply, self.environment)

    def _unsolved(self, slug: str) -> Problem:
        reasons = self.state.reasons[slug]
        told = f"{len(reasons)} attempts at task {slug} failed, the last because: {reasons[-1]}"
        return Problem(stage=_STAGE, rule="unsolved", subject=slug, message=told)


class _NotedPolicy(ChatPolicy):
    """A model as the solver, who may be told something after the task's prompt."""

    def __init__(self, endpoint: Endpoint, *, note: str) -> None:
        super().__init__(endpoint, protocol="native", is_strict=False, window=Window())
        self._note = note

    async def act(self, view: View) -> Action:
        """The next action."""
        return await super().act(self._noted(view))

    def transcript(self, view: View) -> tuple[Message, ...]:
        """The whole conversation."""
        return super().transcript(self._noted(view))

    def _noted(self, view: View) -> View:
        return dataclasses.replace(view, prompt=f"{view.prompt}\n\n{self._note}") if self._note else view


def _faults(trajectory: Trajectory) -> tuple[Problem, ...]:
    """Calls that the environment failed at, though the task was solved."""
    found = [step for step in trajectory.steps if step.result.type == "fault"]
    return tuple(
        Problem(
            stage="code",
            rule="tool_fault",
            subject=step.tool,
            message=steady(f"{step.tool}({step.arguments!r}) is a fault: {step.result.code} {step.result.message}")[
                :600
            ],
        )
        for step in found
    )

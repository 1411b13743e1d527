"""From a trajectory to a verdict, by code alone.

The ending's database is rebuilt from the trajectory; the task's `signals` verifier and the state difference become
Evidence; the decision is the task's `decision` function or, without one, derived from the reference solution: the
changes must equal the solution's. A verdict is COMPLETED only if database and answer both are right. Whatever cannot
be judged raises `JudgeError` and is never a reward.
"""

import asyncio
import contextlib
import functools
import weakref
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from awm_hub import hub
from awm_hub.environment import Environment, Task
from awm_hub.errors import JudgeError, RecordError, SandboxError, UnknownNameError, UsageError
from awm_hub.judging.answers import NoAnswer, answer_matches, given_answer
from awm_hub.runtime import jobs, pages
from awm_hub.runtime.launching import launch
from awm_hub.runtime.sync import run
from awm_hub.trajectory import Evidence, Outcome, StateDiff, Trajectory, Verdict

JUDGES = ("decision", "reference")
_OUTCOMES = {
    "complete": Outcome.COMPLETED,
    "partial": Outcome.PARTIALLY_COMPLETED,
    "others": Outcome.AGENT_ERROR,
}
_MAX_KEPT_ENDINGS = 256


class Judge(Protocol):
    """A judge that is more than a name: `awm_hub.judging.LlmJudge`, or one of your own."""

    @property
    def name(self) -> str:
        """What its verdicts name as their judge."""

    def describe(self) -> dict[str, Any]:
        """What is recorded of it; never a key."""

    async def judge(self, trajectory: Trajectory, *, environment: Environment | None = None) -> Verdict:
        """Judge one trajectory.

        Raises:
            JudgeError: it cannot be judged.
        """


def judge(
    trajectory: Trajectory, *, environment: Environment | None = None, judge: str | Judge = "decision"
) -> Verdict:
    """Judge one trajectory.

    Args:
        trajectory: What was done.
        environment: Where it was done; default: the one the trajectory holds, else the bundled one of that id.
        judge: `decision` (the task's decision function, else derived), `reference` (always derived) or an `LlmJudge`.

    Raises:
        JudgeError: it cannot be judged: no task, no decision and no solution, or a verifier that fails.
    """
    return run(judge_async, trajectory, environment=environment, judge=judge)


async def judge_async(
    trajectory: Trajectory, *, environment: Environment | None = None, judge: str | Judge = "decision"
) -> Verdict:
    """Judge one trajectory; `awm_hub.judge` as a coroutine.

    Raises:
        JudgeError: it cannot be judged: no task, no decision and no solution, or a verifier that fails.
    """
    if not isinstance(trajectory, Trajectory):
        raise UsageError(
            f"judge takes a Trajectory, not {type(trajectory).__name__}", next_step="instance.trajectory()"
        )
    if not isinstance(judge, str):
        return await judge.judge(trajectory, environment=environment)
    if judge not in JUDGES:
        raise UsageError(f"no judge named {judge!r}", next_step=f"choose one of {', '.join(JUDGES)}")
    async with _opened(trajectory, environment, judge) as case:
        if trajectory.termination != "environment_fault":
            return await _decide(case, judge)
    evidence = Evidence(diff=case.changes)
    return Verdict(
        outcome=Outcome.ENVIRONMENT_ERROR, judge=judge, reasoning="the environment failed", evidence=evidence
    )


@dataclass(frozen=True, kw_only=True)
class Examination:
    """What code finds out about a trajectory, for a judge that is no code."""

    environment: Environment
    task: Task
    evidence: Evidence
    by_code: Verdict | None
    """The decision's verdict, where there is a decision."""
    ruled_out: dict[Outcome, str]
    """Outcomes that contradict the evidence, and why."""


async def examine(
    trajectory: Trajectory, *, environment: Environment | None = None, with_decision: bool = True
) -> Examination:
    """Gather the evidence on a trajectory, and what it rules out.

    Args:
        trajectory: What was done.
        environment: As `judge` takes it.
        with_decision: Decide too, where the task has a decision function or a solution.

    Raises:
        JudgeError: the ending cannot be read, or a verifier fails.
    """
    verdict = None
    async with _opened(trajectory, environment, "decision") as case:
        if trajectory.termination == "environment_fault":
            evidence = Evidence(diff=case.changes)
        elif with_decision and (case.task.verifier("decision") or case.comparison is not None):
            verdict = await _decide(case, "decision")
            evidence = verdict.evidence
        else:
            evidence = Evidence(diff=case.changes, signals=await _signals(case), answer_matches=_answer_matches(case))
    return Examination(
        environment=case.environment,
        task=case.task,
        evidence=evidence,
        by_code=verdict,
        ruled_out=dict(_ruled_out(case, evidence)),
    )


@dataclass(frozen=True, kw_only=True)
class _Case:
    """A trajectory with everything a decision needs."""

    environment: Environment
    task: Task
    trajectory: Trajectory
    initial: bytes = field(repr=False)
    final: bytes = field(repr=False)
    fork: jobs.Fork = field(repr=False)
    """Where everything about this ending is found out."""
    changes: StateDiff = field(default_factory=StateDiff)
    comparison: jobs.Comparison | None = None
    """With the solution's ending, where the decision is derived from it."""

    @property
    def is_trusted(self) -> bool:
        """Whether the episode ran without a seal, by the user's wish."""
        return self.trajectory.tier == "process"


def _judged(trajectory: Trajectory, given: Environment | None) -> tuple[Environment, Task]:
    """Where the trajectory was made, in the same version, and its task."""
    environment = given or trajectory.environment or _bundled(trajectory.environment_id)
    if environment.content_hash != trajectory.environment_hash:
        raise JudgeError(
            f"the trajectory was made in another version of {environment.id}",
            next_step=f"load the dataset at revision {trajectory.revision or 'the one it was recorded with'}",
        )
    if trajectory.task_id is None:
        raise JudgeError("the trajectory has no task", next_step="launch the environment with task=…")
    try:
        return environment, environment.task(trajectory.task_id)
    except UnknownNameError as error:
        raise JudgeError(f"the ending cannot be read: {error.message}") from error


@contextlib.asynccontextmanager
async def _opened(trajectory: Trajectory, given: Environment | None, judge: str) -> AsyncIterator[_Case]:
    """A trajectory's case, with a fork for as long as the block lasts.

    Raises:
        JudgeError: the ending cannot be read.
    """
    environment, task = _judged(trajectory, given)
    try:
        async with jobs.forked(trust_remote_code=trajectory.tier == "process") as fork:
            yield await _open_case(trajectory, environment, task, judge, fork)
    except (RecordError, SandboxError) as error:
        raise JudgeError(f"the ending cannot be read: {error.message}") from error


async def _open_case(
    trajectory: Trajectory, environment: Environment, task: Task, judge: str, fork: jobs.Fork
) -> _Case:
    trusted = trajectory.tier == "process"
    initial = await jobs.prepare_image(environment.database, task.setup, environment.clock, trust_remote_code=trusted)
    case = _Case(
        environment=environment,
        task=task,
        trajectory=trajectory,
        initial=initial,
        final=pages.apply(initial, trajectory.database_delta),
        fork=fork,
    )
    return await _compared(case, judge)


async def _compared(case: _Case, judge: str) -> _Case:
    """With the changes, and compared with the solution's ending where the decision is derived from it."""
    volatile, task = case.environment.volatile_columns, case.task
    by_function = judge == "decision" and task.verifier("decision") is not None
    if by_function or task.solution is None or case.trajectory.termination == "environment_fault":
        changes = await jobs.state_diff(case.initial, case.final, volatile=volatile, fork=case.fork)
        return replace(case, changes=changes)
    comparison = await jobs.compare_endings(
        case.initial,
        await _solution_ending(case),
        case.final,
        volatile=volatile,
        free=task.free,
        kind=task.kind,
        fork=case.fork,
    )
    return replace(case, changes=comparison.changes, comparison=comparison)


def _bundled(environment_id: str) -> Environment:
    try:
        return hub.load()[environment_id]
    except UnknownNameError as error:
        raise JudgeError(
            f"the trajectory's environment {environment_id!r} is not at hand", next_step="pass environment=…"
        ) from error


async def _decide(case: _Case, judge: str) -> Verdict:
    task = case.task
    signals = await _signals(case)
    by_function = judge == "decision" and task.verifier("decision") is not None
    decision = await _by_function(case) if by_function else _derived(case)
    matches = _answer_matches(case)
    outcome, reasoning = _outcome(case, decision, matches)
    evidence = Evidence(diff=case.changes, signals=signals, decision=decision, answer_matches=matches)
    return Verdict(outcome=outcome, judge=judge, reasoning=reasoning, evidence=evidence)


def _answer_matches(case: _Case) -> bool | None:
    """Whether the answer is right; None where none is asked for."""
    task = case.task
    return None if task.answer is None else answer_matches(task.answer, task.answer_order, case.trajectory.answer)


async def _signals(case: _Case) -> Any:
    return await _verify(case, "signals") if case.task.verifier("signals") else None


async def _verify(case: _Case, kind: str) -> Any:
    verifier = case.task.verifier(kind)
    assert verifier is not None
    code = verifier.code if verifier.code is not None else case.environment.verifier_module
    if code is None:
        raise JudgeError(f"task {case.task.id} names verifier {verifier.function}, but the row has no code for it")
    try:
        return await jobs.verify(
            code=code,
            function=verifier.function,
            initial=case.initial,
            final=case.final,
            changes=case.changes,
            answer=case.trajectory.answer,
            clock=case.environment.clock,
            calls_count=case.trajectory.calls_count,
            fork=case.fork,
        )
    except jobs.VerifierError as error:
        raise JudgeError(error.message, next_step="mend the verifier, or judge with judge='reference'") from error


async def _by_function(case: _Case) -> dict[str, Any]:
    found = await _verify(case, "decision")
    if not isinstance(found, dict) or found.get("result") not in _OUTCOMES:
        raise JudgeError(f"the decision of task {case.task.id} is none of {', '.join(_OUTCOMES)}: {str(found)[:200]}")
    return {**found, "by": "function"}


def _derived(case: _Case) -> dict[str, Any]:
    if case.comparison is None:
        raise JudgeError(
            f"task {case.task.id} has no decision function and no solution", next_step="judge it with an LLM judge"
        )
    result = "complete" if case.comparison.equal else "others"
    return {"result": result, "reasons": list(case.comparison.differences), "by": "solution"}


_endings: OrderedDict[tuple[str, str], bytes] = OrderedDict()
_turns: weakref.WeakValueDictionary[tuple[int, str, str], asyncio.Lock] = weakref.WeakValueDictionary()
"""Of judgements that need the same ending, in each event loop: the rollouts of a group end together."""


async def _solution_ending(case: _Case) -> bytes:
    """The database after the reference solution; kept, since every attempt at the task is compared with it."""
    key = (case.environment.content_hash, case.task.id)
    async with _turns.setdefault((id(asyncio.get_running_loop()), *key), asyncio.Lock()):
        if key not in _endings:
            _endings[key] = await _run_solution(case)
            while len(_endings) > _MAX_KEPT_ENDINGS:
                _endings.popitem(last=False)
        _endings.move_to_end(key)
        return _endings[key]


async def _run_solution(case: _Case) -> bytes:
    start = functools.partial(launch, case.environment, task=case.task.id, trust_remote_code=case.is_trusted)
    try:
        async with await start() as instance:
            for call in case.task.solution or ():
                result = await instance.call_tool(call.tool, call.arguments)
                if not result.is_ok:
                    raise JudgeError(f"the solution of {case.task.id} fails at {call.tool}: {result.message}")
            return await instance.image()
    except SandboxError as error:
        raise JudgeError(f"the solution of {case.task.id} cannot be run: {error.message}") from error


def _outcome(case: _Case, decision: dict[str, Any], matches: bool | None) -> tuple[Outcome, str]:
    outcome = _OUTCOMES[decision["result"]]
    reasons = [str(r) for r in decision.get("reasons", ())] if isinstance(decision.get("reasons"), list) else []
    if outcome is Outcome.COMPLETED and matches is False:
        given = given_answer(case.trajectory.answer, case.task.answer)
        why = (
            f"no answer was found: {given.reason}"
            if isinstance(given, NoAnswer)
            else "the answer is not the expected one"
        )
        return Outcome.AGENT_ERROR, f"the database is right, but {why}"
    if barred := _barred(case, outcome):
        return Outcome.AGENT_ERROR, barred
    if outcome is Outcome.COMPLETED:
        return outcome, "database and answer are right" if matches else "the database is right"
    return outcome, "; ".join(reasons) or f"the decision is {decision['result']}"


def _barred(case: _Case, outcome: Outcome) -> str | None:
    """Why an attempt that changed nothing, or something in a query, cannot have this outcome."""
    kind = case.task.kind
    if case.changes:
        is_right = outcome is Outcome.COMPLETED and kind == "query"
        return "something was changed, though the task only asks" if is_right else None
    if outcome is Outcome.COMPLETED and kind in ("change", "both"):
        return "nothing was changed, though the task asks for a change"
    if outcome is Outcome.PARTIALLY_COMPLETED and kind == "change":
        return "nothing was changed, though the task asks for a change"
    if kind is None and outcome is not Outcome.AGENT_ERROR and _passes_undone(case):
        return "nothing was changed, and the audit found that doing nothing passes this task"
    return None


def _ruled_out(case: _Case, evidence: Evidence) -> Iterator[tuple[Outcome, str]]:
    """A derived decision knows right from wrong, but no part of right; a decision function knows all three."""
    if not any(step.result.type == "fault" for step in case.trajectory.steps):
        yield Outcome.ENVIRONMENT_ERROR, "no call failed by a fault of the environment"
    decision = evidence.decision or {"result": "complete"}
    found = _OUTCOMES[decision["result"]]
    if found is Outcome.AGENT_ERROR and decision.get("by") == "function":
        yield Outcome.PARTIALLY_COMPLETED, "the decision function finds nothing that counts"
    elif barred := _barred(case, Outcome.PARTIALLY_COMPLETED):
        yield Outcome.PARTIALLY_COMPLETED, barred
    if found is not Outcome.COMPLETED:
        yield Outcome.COMPLETED, "the database is not as it should be"
    elif evidence.answer_matches is False:
        yield Outcome.COMPLETED, "the answer is not the expected one"
    elif barred := _barred(case, Outcome.COMPLETED):
        yield Outcome.COMPLETED, barred


def _passes_undone(case: _Case) -> bool:
    quality = case.environment.quality
    return quality is not None and any(t.id == case.task.id and t.noop_rejected is False for t in quality.tasks)

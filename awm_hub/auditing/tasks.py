"""One task: doing nothing fails, the solution passes, and so do its equivalents, but not its mutants.

Where a task has no solution (upstream's have none), what can be known without one is checked: that a verifier works on
the untouched database, and that it does not find the task done there.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from awm_hub.auditing import grounding
from awm_hub.auditing.attempting import Bench, Decided, Ending, crossed, open_bench
from awm_hub.auditing.case import Case
from awm_hub.auditing.findings import Attempted, Counts
from awm_hub.environment import Task, TaskQuality
from awm_hub.errors import LoadError, SourceError
from awm_hub.packing import solving
from awm_hub.trajectory import StateDiff
from awm_hub.variants import Attempt, attempts_at
from awm_hub.variants.attempts import right_answer

GOAL = 0.95
"""Share of mutants that decisions have to reject (design: at least 95 %)."""
_KINDS = ("equivalent", "noop", "mutant", "wrong_answer", "sibling")
_CLAIM = "Done. Everything is as you asked."


@dataclass(frozen=True, kw_only=True)
class AuditedTask:
    """The results of one task."""

    quality: TaskQuality
    survivors: tuple[Attempted, ...] = ()
    rejected: tuple[Attempted, ...] = ()
    held_out: Counts = field(default_factory=Counts)


async def audit_task(case: Case, task: Task, *, has_attempts: bool = True) -> AuditedTask:
    """Check one task, with findings; without attempts, only the solution and doing nothing."""
    grounding.check_literals(case, task)
    if task.solution is None and not task.verifiers:
        case.note("no_verifier", task.slug, "it has no solution, no decision and no signals")
        return AuditedTask(quality=TaskQuality(id=task.id))
    try:
        async with open_bench(case, task) as bench:
            return await _audit(case, task, bench, has_attempts)
    except LoadError as error:
        case.note("solution_fails", task.slug, error.message)
        return AuditedTask(quality=TaskQuality(id=task.id, solution_passes=False))


async def _audit(case: Case, task: Task, bench: Bench, has_attempts: bool) -> AuditedTask:
    if task.solution is not None and not await _runs_through(case, task, bench):
        quality = await _without_solution(case, replace(task, solution=None), bench)
        return AuditedTask(quality=replace(quality, solution_passes=False))
    if task.solution is None:
        return AuditedTask(quality=await _without_solution(case, task, bench))
    assert bench.expected is not None
    quality = await _check_seed(case, task, bench)
    passes = await _check_solution(case, task, bench, bench.expected)
    grounding.check(case, task, bench.expected.steps)
    quality = replace(quality, solution_passes=passes)
    return await _check_attempts(case, task, bench, quality) if has_attempts else AuditedTask(quality=quality)


async def _runs_through(case: Case, task: Task, bench: Bench) -> bool:
    """Run the solution; its ending is what endings are compared with."""
    ending = await bench.run(task.solution or ())
    for number, step in enumerate(ending.steps, 1):
        if not step.result.is_ok:
            told = f"step {number}, {step.tool}, is {step.result.type} {step.result.code}: {step.result.message}"
            case.note("solution_fails", task.slug, told)
            return False
    bench.expected = ending
    return True


async def _without_solution(case: Case, task: Task, bench: Bench) -> TaskQuality:
    """What a decision, or signals alone, say of the untouched database."""
    untouched = await bench.run(())
    if task.verifier("decision") is None:
        if task.verifier("signals") is not None:
            await bench.look_at(untouched)
        return TaskQuality(id=task.id)
    silent = await bench.decide(untouched, None)
    claimed = await bench.decide(untouched, _CLAIM)
    _note_noop(case, task, silent, claimed)
    is_satisfied = silent.is_complete and not await bench.is_vacuous(None)
    if is_satisfied:
        case.note("seed_satisfies", task.slug, "before anything is done, the decision finds the goal reached")
    return TaskQuality(
        id=task.id,
        noop_rejected=not (silent.is_complete or claimed.is_complete),
        seed_unsatisfied=not is_satisfied,
    )


def _note_noop(case: Case, task: Task, silent: Decided, claimed: Decided) -> None:
    if silent.is_complete:
        case.note("noop_passes", task.slug, f"the decision finds the untouched database complete: {silent.reason}")
    elif claimed.is_complete:
        case.note("noop_passes", task.slug, f"saying {_CLAIM!r} is enough")


async def _check_seed(case: Case, task: Task, bench: Bench) -> TaskQuality:
    """Doing nothing: in silence, with a claim, and with the right answer where a change is asked for too."""
    untouched = await bench.run(())
    silent, claimed = [await bench.decide(untouched, answer) for answer in (None, _CLAIM)]
    _note_noop(case, task, silent, claimed)
    answered = await bench.decide(untouched, right_answer(task))
    satisfied: bool | None = answered.is_complete if task.kind != "query" else None
    if satisfied:
        case.note("seed_satisfies", task.slug, "with the right answer, the untouched database is complete")
    is_rejected = not (silent.is_complete or claimed.is_complete)
    return TaskQuality(
        id=task.id,
        noop_rejected=is_rejected,
        # a query needs an answer and nothing else, so that only doing nothing tells
        seed_unsatisfied=is_rejected if satisfied is None else not satisfied,
    )


async def _check_solution(case: Case, task: Task, bench: Bench, ending: Ending) -> bool:
    decided = await bench.decide(ending, right_answer(task))
    if not decided.is_complete:
        case.note("solution_fails", task.slug, f"it runs, and the decision says: {decided.reason}")
    return await _check_answer_sql(case, task, ending) and decided.is_complete


async def _check_answer_sql(case: Case, task: Task, ending: Ending) -> bool:
    if task.answer_sql is None:
        return True
    run = solving.Run(
        task_id=task.id,
        calls=task.solution or (),
        image=ending.image,
        changes=StateDiff(),
        writing_tools=frozenset(),
    )
    try:
        await solving.check_answer(case.environment, task, run, trust_remote_code=case.is_trusted)
    except SourceError as error:
        case.note("answer_differs", task.slug, error.message)
        return False
    return True


async def _check_attempts(case: Case, task: Task, bench: Bench, quality: TaskQuality) -> AuditedTask:
    assert bench.expected is not None
    solved = bench.expected.steps
    shown = attempts_at(case.environment, task, kinds=_KINDS, solved=solved)
    equivalents = [a for a in shown if a.kind == "equivalent"]
    mutants = [a for a in shown if a.kind not in ("equivalent", "noop")]
    accepted, rejected = await _try_equivalents(case, task, bench, equivalents)
    counts, survivors = await _try_mutants(case, task, bench, mutants)
    hidden, _ = await _try_mutants(case, task, bench, crossed(task, task.solution or (), right_answer(task)))
    for attempt in survivors:
        case.note("mutant_survives", task.slug, f"{attempt.name}: {attempt.reason}")
    both = counts + hidden
    return AuditedTask(
        quality=replace(
            quality,
            equivalents_accepted=accepted.right,
            equivalents_tried=accepted.tried,
            mutants_rejected=both.right,
            mutants_tried=both.tried,
        ),
        survivors=survivors,
        rejected=rejected,
        held_out=hidden,
    )


async def _try_equivalents(
    case: Case, task: Task, bench: Bench, attempts: Sequence[Attempt]
) -> tuple[Counts, tuple[Attempted, ...]]:
    """Equivalents with their counts; one that only may be equivalent counts if its ending is the solution's."""
    tried, rejected = 0, []
    for attempt in attempts:
        ending = await bench.run(attempt.calls)
        decided = await bench.decide(ending, attempt.answer)
        if ending.is_cut or (attempt.should_pass is None and not decided.is_same_ending):
            continue
        tried += 1
        if not decided.is_complete:
            case.note("equivalent_rejected", task.slug, f"{attempt.name}: {decided.reason}")
            rejected.append(Attempted(task=task.slug, name=attempt.name, reason=decided.reason))
    return Counts(right=tried - len(rejected), tried=tried), tuple(rejected)


async def _try_mutants(
    case: Case, task: Task, bench: Bench, attempts: Sequence[Attempt]
) -> tuple[Counts, tuple[Attempted, ...]]:
    """Mutants with their counts; those that end as the solution does, with its answer, are no mutants."""
    assert bench.expected is not None
    solution = await bench.decide(bench.expected, right_answer(task))
    tried, survivors = 0, []
    for attempt in attempts:
        ending = await bench.run(attempt.calls)
        if ending.is_cut:
            continue
        decided = await bench.decide(ending, attempt.answer)
        if attempt.kind != "wrong_answer" and decided.is_same_ending and bench.is_answered(attempt.answer):
            continue
        tried += 1
        if decided.is_complete:
            survivors.append(Attempted(task=task.slug, name=attempt.name, reason=decided.reason))
        is_blind = decided.signals is not None and decided.signals == solution.signals
        if is_blind and not decided.is_same_ending:
            case.note("signals_blind", task.slug, f"they are those of the solution after: {attempt.name}")
    return Counts(right=tried - len(survivors), tried=tried), tuple(survivors)

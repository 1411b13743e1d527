"""Signals against attempts that are known to be right or wrong.

The audit judges such attempts by comparing their endings with the solution's. The problems that `signals_<slug>` names
were written without the solution, so each attempt on which the two differ is telling: signals that accept a mistake
overlook something, or the task has more right endings than one; and signals that reject what ends like the solution ask
for too much. The held-out kind of mutants is not among these attempts.
"""

from collections.abc import Sequence

from awm_hub.auditing.attempting import Bench, open_bench
from awm_hub.auditing.foundations import open_case
from awm_hub.auditing.tasks import GOAL
from awm_hub.canonical import from_json
from awm_hub.environment import Environment, Task
from awm_hub.synthesis.building import steady
from awm_hub.synthesis.problems import Problem
from awm_hub.variants import attempts_at

_KINDS = ("equivalent", "mutant", "sibling")
_MOST_NAMED = 8


async def doubted(environment: Environment, *, trust_remote_code: bool = False) -> tuple[Problem, ...]:
    """Where signals and solutions differ on attempts, in an environment whose solutions run.

    Args:
        environment: With solutions.
        trust_remote_code: Run its code without a seal where this machine has none.

    Raises:
        SandboxError: the sandbox itself failed.
    """
    case = await open_case(environment, trust_remote_code=trust_remote_code)
    found: list[Problem] = []
    try:
        for task in environment.tasks:
            if task.solution is not None and task.verifier("signals") is not None:
                async with open_bench(case, task) as bench:
                    found += await _of_task(environment, task, bench)
    finally:
        case.workers.stop()
    return tuple(found)


async def _of_task(environment: Environment, task: Task, bench: Bench) -> list[Problem]:
    bench.expected = await bench.run(task.solution or ())
    accepted, rejected, wrong = [], [], 0
    for attempt in attempts_at(environment, task, kinds=_KINDS, solved=bench.expected.steps):
        ending = await bench.run(attempt.calls)
        if ending.is_cut:
            continue
        seen = await bench.look_at(ending)
        problems = _problems(seen.signals)
        wrong += not seen.is_equal
        if problems is None:
            continue
        if seen.is_equal and problems:
            rejected.append(f"{attempt.name} ({'; '.join(problems)[:200]})")
        elif not seen.is_equal and not problems:
            accepted.append(f"{attempt.name} ({'; '.join(seen.differences)[:200]})")
    return [*_accepted(task, accepted, wrong), *_rejected(task, rejected)]


def _problems(signals: str | None) -> list[str] | None:
    """The problems that signals name; None where they failed."""
    found = None if signals is None else from_json(signals)
    listed = found.get("problems") if isinstance(found, dict) else None
    return [str(problem) for problem in listed] if isinstance(listed, list) else None


def _accepted(task: Task, accepted: Sequence[str], wrong: int) -> list[Problem]:
    if not accepted:
        return []
    told = (
        f"signals_{task.slug} finds nothing wrong with {len(accepted)} of {wrong} attempts that end otherwise than the "
        f"solution: {_listed(accepted)}. Let it see what is wrong there; if an ending is as right as the solution's, "
        "the instruction has to be made clearer"
    )
    severity = "error" if len(accepted) > (1 - GOAL) * wrong else "warning"
    return [_problem("signals_accept_mistake", task, told, severity)]


def _rejected(task: Task, rejected: Sequence[str]) -> list[Problem]:
    if not rejected:
        return []
    told = (
        f"signals_{task.slug} objects to attempts that end as the solution does but for columns that are free: "
        f"{_listed(rejected)}. Compare no free texts there, and no column that depends on the moment"
    )
    return [_problem("signals_reject_right", task, told, "error")]


def _listed(names: Sequence[str]) -> str:
    distinct = list(dict.fromkeys(names))
    rest = f"; and {len(distinct) - _MOST_NAMED} more" if len(distinct) > _MOST_NAMED else ""
    return "; ".join(distinct[:_MOST_NAMED]) + rest


def _problem(rule: str, task: Task, message: str, severity: str) -> Problem:
    return Problem(stage="verification", rule=rule, subject=task.slug, message=steady(message), severity=severity)

"""The last gate: the draft as a source folder, packed and audited like any other environment.

What the audit finds goes back to the stage that can mend it, and so does what signals get wrong about attempts that the
solution decides (`awm_hub.synthesis.doubting`). Errors keep the environment from being accepted. The mutants that a
verifier accepted are named, so that it can be mended; of those of the held-out kind only the number is told, since
their share is to say how good verification is against mistakes that nobody showed its author.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from awm_hub.auditing.findings import Attempted, AuditedEnvironment, Finding
from awm_hub.auditing.one import audit_one
from awm_hub.environment import Environment, Provenance
from awm_hub.errors import RecordError
from awm_hub.synthesis.building import blamed, build, steady
from awm_hub.synthesis.doubting import doubted
from awm_hub.synthesis.drafts import Draft
from awm_hub.synthesis.problems import Problem
from awm_hub.synthesis.stages.blaming import problem_of
from awm_hub.synthesis.stages.reporting import reported

_MOST_NAMED = 12
_LISTED = ("mutants_below_goal", "mutant_survives", "equivalent_rejected")


async def audit_draft(
    draft: Draft, folder: Path, provenance: Provenance | None = None, *, trust_remote_code: bool = False
) -> tuple[Environment | None, AuditedEnvironment | None, tuple[Problem, ...]]:
    """Pack and audit a draft.

    Args:
        draft: With all its products.
        folder: Gets the source folder, by the draft's id.
        provenance: What `scenario.toml` says of its origin.
        trust_remote_code: Run its code without a seal where this machine has none.

    Returns:
        The environment with its audit, and what they find; neither where it cannot be built.

    Raises:
        SandboxError: the sandbox itself failed.
    """
    built, problems = await build(draft, folder, provenance, trust_remote_code=trust_remote_code)
    if built is None:
        return None, None, problems
    try:
        audited = await audit_one(built.environment, trust_remote_code=trust_remote_code)
        is_solvable = not any(f.rule in ("does_not_load", "solution_fails") for f in audited.findings)
        doubts = await doubted(built.environment, trust_remote_code=trust_remote_code) if is_solvable else ()
    except RecordError as error:
        told = Problem(stage="database", rule="unreadable_database", subject="", message=error.message)
        return None, None, (told,)
    found = [*_advised(built.warnings, draft), *problems_of(audited), *doubts]
    return built.environment, audited, reported(found)


def problems_of(audited: AuditedEnvironment) -> Iterator[Problem]:
    """What the audit finds, but for what is only worth a look."""
    for finding in audited.findings:
        if finding.severity == "info" or finding.rule in _LISTED:
            continue
        yield problem_of(finding)
    yield from _attempts(audited, "mutant_survives", audited.survivors, "these attempts with a mistake are accepted")
    yield from _attempts(audited, "equivalent_rejected", audited.rejected, "these right attempts are rejected")
    for finding in audited.findings:
        if finding.rule == "mutants_below_goal":
            yield _below_goal(audited, finding)


def _advised(warnings: Iterable[str], draft: Draft) -> Iterator[Problem]:
    """What packing advises."""
    for warning in warnings:
        stage, subject = blamed(warning, draft)
        yield Problem(stage=stage, rule="advice", subject=subject, message=steady(warning), severity="warning")


def _attempts(audited: AuditedEnvironment, rule: str, attempts: tuple[Attempted, ...], what: str) -> Iterator[Problem]:
    """One problem for each task with attempts that were judged wrongly."""
    for slug in dict.fromkeys(attempt.task for attempt in attempts):
        own = [a for a in attempts if a.task == slug]
        known = next(f for f in audited.findings if (f.rule, f.subject) == (rule, slug))
        listed = "; ".join(f"{a.name} ({a.reason})" for a in own[:_MOST_NAMED])
        rest = f"; and {len(own) - _MOST_NAMED} more" if len(own) > _MOST_NAMED else ""
        problem = problem_of(known)
        yield Problem(
            stage=problem.stage,
            rule=rule,
            subject=slug,
            message=steady(f"in task {slug} {what}: {listed}{rest}; {known.next_step}"),
            severity=problem.severity,
        )


def _below_goal(audited: AuditedEnvironment, finding: Finding) -> Problem:
    """The share of mutants that are rejected, with where the others are."""
    by_task = {slug: sum(a.task == slug for a in audited.survivors) for slug in (a.task for a in audited.survivors)}
    named = ", ".join(f"{count} in {slug}" for slug, count in sorted(by_task.items())) or "none"
    held = audited.held_out
    told = (
        f"of the attempts with a mistake, {finding.message}. Accepted: {named}; of a kind that is not shown, "
        f"{held.tried - held.right} of {held.tried}. {finding.next_step}"
    )
    problem = problem_of(finding)
    return Problem(stage=problem.stage, rule=finding.rule, subject="", message=told, severity=problem.severity)

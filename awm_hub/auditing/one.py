"""The audit of one environment, from its row to its findings and its `quality`."""

import datetime as dt
import time
from collections.abc import Sequence

import awm_hub
from awm_hub.auditing import chaining, covering, exactness, filtering, foundations, lasting, owning, probing, ranging
from awm_hub.auditing.case import Case, Probe
from awm_hub.auditing.findings import AuditedEnvironment, Counts
from awm_hub.auditing.rules import AUDIT_VERSION, SEVERITIES
from awm_hub.auditing.tasks import GOAL, AuditedTask, audit_task
from awm_hub.canonical import sha256_of
from awm_hub.environment import Environment, Quality, TaskQuality
from awm_hub.errors import LoadError, WorkerError
from awm_hub.runtime import jobs

_MAX_NOTES = 300


async def audit_one(environment: Environment, *, trust_remote_code: bool = False) -> AuditedEnvironment:
    """Audit one environment.

    Raises:
        SealError: this machine cannot seal, and the code is not trusted.
        ImageError: the database cannot be read.
        SandboxError: a process could not be started.
    """
    started = time.perf_counter()
    async with jobs.forked(trust_remote_code=trust_remote_code) as fork:
        case = await foundations.open_case(environment, trust_remote_code=trust_remote_code, fork=fork)
        try:
            built = await foundations.check_foundations(case)
            tasks: list[AuditedTask] = []
            found, coverage = built, Counts()
            if not case.has("does_not_load"):
                found, tasks, coverage = await _live(case, built)
        finally:
            case.workers.stop()
    return _result(case, found, tasks, coverage, time.perf_counter() - started)


async def _live(case: Case, built: Quality) -> tuple[Quality, list[AuditedTask], Counts]:
    """Everything that needs live instances."""
    try:
        probes = await probing.probe_tools(case)
        odd = await probing.probe_oddly(case, probes)
        await ranging.check_ranges(case, probes, odd)
        await filtering.check_answers(case)
        owning.check_rows(case, probes)
        await lasting.check_links(case, probes)
        exact = await exactness.check_exactness(case, probes)
        await lasting.check_ending(case, exact.final)
        tasks = [await audit_task(case, task) for task in case.environment.tasks]
        await chaining.probe_after_others(case, probes)
        probing.note_untried(case, probes)
        coverage = await covering.measure_coverage(case)
    except (LoadError, WorkerError) as error:
        case.note("does_not_load", "", error.message)
        return built, [], Counts()
    return _measured(case, built, probes, exact), tasks, coverage


def _measured(case: Case, built: Quality, probes: Sequence[Probe], exact: exactness.Exactness) -> Quality:
    faulty = {p.tool for p in probes if p.result.type == "fault" and not probing.is_write_attempt(p.result)}
    is_hidden = case.has("hidden_state") or exact.has_hidden_state is True
    return Quality(
        schema_errors=built.schema_errors,
        seed_errors=built.seed_errors,
        foreign_key_violations=built.foreign_key_violations,
        dropped_tools=built.dropped_tools,
        tool_faults=len(faulty),
        tools_tried=len({p.tool for p in probes}),
        false_effects=tuple(sorted({f.subject for f in case.findings if f.rule == "false_effect"})),
        hidden_state=is_hidden,
        deterministic=exact.is_deterministic,
    )


def _result(
    case: Case, found: Quality, tasks: Sequence[AuditedTask], coverage: Counts, seconds: float
) -> AuditedEnvironment:
    mutants = sum((_counts(t.quality) for t in tasks), Counts())
    if mutants.share is not None and mutants.share < GOAL:
        case.note("mutants_below_goal", "", f"{mutants.right} of {mutants.tried} are rejected")
    quality = Quality(
        **{
            **vars(found),
            "errors": tuple(sorted({f.rule for f in case.findings if f.severity == "error"})),
            "tasks": tuple(_noted(case, t.quality) for t in tasks),
            "audited_hash": case.environment.content_hash,
            "audited_by": f"awm-hub {awm_hub.__version__}, audit {AUDIT_VERSION}",
            "audited_at": dt.datetime.now(dt.UTC).replace(microsecond=0),
        }
    )
    return AuditedEnvironment(
        id=case.environment.id,
        content_hash=case.environment.content_hash,
        findings=tuple(sorted(case.findings, key=lambda f: SEVERITIES.index(f.severity))),
        survivors=tuple(a for t in tasks for a in t.survivors),
        rejected=tuple(a for t in tasks for a in t.rejected),
        held_out=sum((t.held_out for t in tasks), Counts()),
        coverage=coverage,
        fingerprints=case.fingerprints(),
        setting=_setting(case.environment),
        calls_count=case.tally["calls"],
        seconds=round(seconds, 3),
        quality=quality,
    )


def _setting(environment: Environment) -> str:
    e = environment
    tools = [[t.name, t.input_schema, t.effect] for t in e.tools]
    tasks = [[t.id, list(t.setup), t.answer, [[c.tool, c.arguments] for c in t.solution or ()]] for t in e.tasks]
    return sha256_of([AUDIT_VERSION, e.id, e.interface, e.image_sha256, e.clock.isoformat(), tools, tasks])


def _counts(task: TaskQuality) -> Counts:
    return Counts(right=task.mutants_rejected or 0, tried=task.mutants_tried or 0)


def _noted(case: Case, task: TaskQuality) -> TaskQuality:
    """A task's results with its findings as a note."""
    slug = task.id.rpartition("/")[2]
    found = [f"{f.rule}: {f.message}" for f in case.findings if f.subject == slug and f.severity != "info"]
    notes = "; ".join(found)[:_MAX_NOTES] or None
    return TaskQuality(**{**vars(task), "notes": notes})

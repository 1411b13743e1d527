"""One scenario's lines become one environment.

Tables and code are needed to run; whatever else is missing is noted and done without. The database is built, and the
code loaded, in a sealed process (`awm_hub.runtime.jobs`): nothing of a row runs here. Statements that fail stay in the
row as they are, the image goes without them.
"""

import datetime as dt
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from awm_hub import schema
from awm_hub.environment import Environment, Provenance, Quality, Task, ToolSpec
from awm_hub.errors import LoadError, RecordError, SourceError
from awm_hub.importers import verifiers
from awm_hub.importers.catalogue import Candidate, Place
from awm_hub.importers.origin import Origin
from awm_hub.importers.records import (
    NEEDED,
    PARTS,
    CodeRecord,
    ScenarioRecord,
    SeedRecord,
    SpecificationRecord,
    TablesRecord,
    TasksRecord,
    VerifierRecord,
)
from awm_hub.importers.report import Finding, Imported, clip
from awm_hub.runtime import jobs

CLOCK = dt.datetime(2026, 2, 10, tzinfo=dt.UTC)
"""The release day of the paper and its data; "now" in every imported environment."""
MAX_FINDINGS = 200
"""More findings on one environment are counted, not listed."""
_NUMBER = re.compile(r"_\d+$")
_MAX_STATEMENT = 300


@dataclass(frozen=True, kw_only=True)
class Assembled:
    """An environment, its entry in the report, and the lines that found no place in it."""

    environment: Environment
    entry: Imported
    misfits: tuple[verifiers.Misfit, ...]


@dataclass(frozen=True, kw_only=True)
class _Parts:
    """The records of one candidate; None where there is none."""

    tables: TablesRecord
    code: CodeRecord
    scenario: ScenarioRecord | None = None
    tasks: TasksRecord | None = None
    seed: SeedRecord | None = None
    specification: SpecificationRecord | None = None
    verifiers: tuple[tuple[Place, VerifierRecord], ...] = ()


async def assemble(candidate: Candidate, origin: Origin) -> Assembled:
    """Build the environment of a candidate.

    Raises:
        SourceError: it has no tables or no code, its code names no tool, or its lines changed since they were read.
        LoadError: its code does not load.
        RecordError: what comes out breaks the record format.
        WorkerError: the sealed process died or overran its deadline.
        SealError: this machine cannot run untrusted code sealed.
    """
    parts = _read(candidate)
    build = await _build(parts)
    instructions = _instructions(parts)
    attached = await verifiers.attach(instructions, parts.verifiers, build.image, CLOCK)
    tasks = tuple(
        Task(id=f"{candidate.id}/t{number}", instruction=text, verifiers=attached.verifiers[number])
        for number, text in instructions.items()
    )
    environment = _environment(candidate, parts, build, tasks, origin).with_hash(build.logical_hash)
    if Environment.from_row(environment.to_row()) != environment:
        raise RecordError("it is not the same when read back", next_step="please report this")
    findings = [*candidate.findings, *_findings(candidate, parts, build, tasks), *attached.findings]
    entry = _entry(environment, build, findings)
    return Assembled(environment=environment, entry=entry, misfits=attached.misfits)


def _read(candidate: Candidate) -> _Parts:
    lacking = [part for part in NEEDED if part not in candidate.has]
    if lacking:
        raise SourceError(f"it has no {' and no '.join(lacking)}")
    found: list[tuple[Place, VerifierRecord]] = []
    others: dict[str, Any] = {}
    for place in candidate.places:
        record = place.read()
        if isinstance(record, VerifierRecord):
            found.append((place, record))
        else:
            others[place.part] = record
    return _checked(_Parts(verifiers=tuple(found), **others))


def _checked(parts: _Parts) -> _Parts:
    if not parts.tables.tables:
        raise SourceError("its schema holds no table")
    if not parts.code.code.strip():
        raise SourceError("its code is empty")
    if len(parts.code.code.encode()) > schema.MAX_CODE_BYTES:
        raise SourceError(f"its code is longer than {schema.MAX_CODE_BYTES} bytes")
    return parts


async def _build(parts: _Parts) -> jobs.BuildReport:
    build = await jobs.build(
        jobs.BuildRequest(
            interface="fastapi",
            code=parts.code.code,
            clock=CLOCK,
            tables=parts.tables.tables,
            further_ddl=(),
            seed=parts.seed.seed if parts.seed else (),
            strict=False,
        )
    )
    if build.load_error is not None:
        raise LoadError(clip(f"its code does not load: {build.load_error}"))
    if not build.tools:
        raise SourceError("its code offers no tool")
    return build


def _instructions(parts: _Parts) -> dict[int, str]:
    """Tasks by number: from their own line, else as the verifiers quote them."""
    if parts.tasks is not None:
        return {number: text for number, text in enumerate(parts.tasks.tasks) if text is not None}
    quoted: dict[int, str] = {}
    for _, verifier in parts.verifiers:
        if verifier.instruction is not None:
            quoted.setdefault(verifier.task_index, verifier.instruction)
    return dict(sorted(quoted.items()))


def _environment(
    candidate: Candidate, parts: _Parts, build: jobs.BuildReport, tasks: tuple[Task, ...], origin: Origin
) -> Environment:
    return Environment(
        id=candidate.id,
        title=parts.scenario.scenario if parts.scenario else candidate.title,
        description=parts.scenario.description if parts.scenario else "",
        categories=(_NUMBER.sub("", candidate.id),),
        interface="fastapi",
        code=parts.code.code,
        tables=parts.tables.tables,
        seed=parts.seed.seed if parts.seed else (),
        database=build.image,
        image_sha256=build.image_sha256,
        clock=CLOCK,
        tools=tuple(_described(tool, parts.specification) for tool in build.tools),
        tasks=tasks,
        quality=Quality(
            schema_errors=build.schema_errors,
            seed_errors=build.seed_errors,
            foreign_key_violations=build.foreign_key_violations,
            dropped_tools=build.dropped_tools,
            hidden_state=build.hidden_state,
        ),
        provenance=Provenance(source=origin.source, source_revision=origin.revision, license=origin.license),
        content_hash="",
    )


def _described(tool: ToolSpec, specification: SpecificationRecord | None) -> ToolSpec:
    """The tool, described as the specification plans it where the code says nothing."""
    if tool.description or specification is None:
        return tool
    return replace(tool, description=specification.operations.get(tool.name, ""))


def _findings(
    candidate: Candidate, parts: _Parts, build: jobs.BuildReport, tasks: tuple[Task, ...]
) -> Iterator[Finding]:
    for part in PARTS:
        if part not in candidate.has:
            yield Finding(kind="missing", subject=part, message=_MISSING[part])
    for problem in build.problems:
        statement = problem.statement[:_MAX_STATEMENT]
        yield Finding(kind=problem.stage, subject=problem.subject, message=clip(problem.message), statement=statement)
    yield from _tool_findings(build)
    yield from _task_findings(parts, tasks)
    yield from _specification_findings(parts.specification, build)
    yield from _seed_findings(parts.seed)


_MISSING = {
    "scenario": "the title is the scenario's name, there is no description",
    "tasks": "there are no tasks but those that verifiers quote",
    "seed": "the tables are empty but for what the code itself inserts",
    "specification": "tools are described by the code alone",
    "verifiers": "no task has a verifier",
}


def _tool_findings(build: jobs.BuildReport) -> Iterator[Finding]:
    told = {problem.subject for problem in build.problems if problem.stage == "tools"}
    for name in build.dropped_tools:
        if name not in told:
            yield Finding(kind="tools", subject=name, message="dropped: a later operation has its method and path")
    for name in build.shadowed_tools:
        if name not in told:
            yield Finding(kind="tools", subject=name, message="shadowed: its calls reach an earlier operation")
    if build.hidden_state:
        yield Finding(kind="hidden_state", subject="code", message="the code keeps state outside its database")


def _task_findings(parts: _Parts, tasks: tuple[Task, ...]) -> Iterator[Finding]:
    for number, text in enumerate(parts.tasks.tasks if parts.tasks else ()):
        if text is None:
            yield Finding(kind="tasks", subject=f"t{number}", message="left out: the entry is no text or empty")
    if parts.verifiers:
        for task in tasks:
            if not task.verifiers:
                yield Finding(kind="verifier", subject=task.slug, message="the task has no verifier")


def _specification_findings(record: SpecificationRecord | None, build: jobs.BuildReport) -> Iterator[Finding]:
    if record is None:
        return
    built = {tool.name for tool in build.tools}
    differences = (
        ("planned and not in the code", record.operations.keys() - built - set(build.dropped_tools)),
        ("in the code and not planned", built - record.operations.keys()),
        ("planned more than once", set(record.repeated)),
    )
    for message, names in differences:
        for name in sorted(names):
            yield Finding(kind="specification", subject=name, message=message)


def _seed_findings(record: SeedRecord | None) -> Iterator[Finding]:
    if record is None or record.declared_inserts is None:
        return
    found = sum(len(table.inserts) for table in record.seed)
    if found != record.declared_inserts:
        message = f"the line announces {record.declared_inserts} statements and holds {found}"
        yield Finding(kind="seed", subject="inserts_count", message=message)


def _entry(environment: Environment, build: jobs.BuildReport, findings: Iterable[Finding]) -> Imported:
    tasks = environment.tasks
    return Imported(
        id=environment.id,
        title=environment.title,
        tools_count=len(environment.tools),
        tasks_count=len(tasks),
        tables_count=len(build.row_counts),
        rows_count=sum(build.row_counts.values()),
        signals=sum(task.verifier("signals") is not None for task in tasks),
        decisions=sum(task.verifier("decision") is not None for task in tasks),
        schema_errors=build.schema_errors,
        seed_errors=build.seed_errors,
        foreign_key_violations=build.foreign_key_violations,
        dropped_tools=build.dropped_tools,
        shadowed_tools=build.shadowed_tools,
        hidden_state=build.hidden_state,
        findings=_capped(list(findings)),
    )


def _capped(findings: list[Finding]) -> tuple[Finding, ...]:
    if len(findings) <= MAX_FINDINGS:
        return tuple(findings)
    message = f"{len(findings) - MAX_FINDINGS} more findings are not listed"
    return (*findings[:MAX_FINDINGS], Finding(kind="more", subject="findings", message=message))

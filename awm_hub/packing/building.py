"""From a source to an environment: the image is built, the tools are read and every solution is run, in the sandbox.

What the record states beyond the source is measured here: literal arguments of solutions, effects of tools, volatile
columns. What it claims is checked: solutions work, kinds and answers agree with what they do. Our own sources may not
hold any error; rows of the `fastapi` interface, which come from imports, keep theirs and have them counted in
`quality`.
"""

import dataclasses
import difflib
import hashlib
from collections.abc import Iterable, Mapping, Sequence

from awm_hub import schema
from awm_hub.environment import Environment, Quality, Task, ToolSpec
from awm_hub.errors import SourceError
from awm_hub.packing import analysis, solving
from awm_hub.packing.sources import Source
from awm_hub.runtime import jobs


async def build_environment(source: Source, *, trust_remote_code: bool = False) -> Environment:
    """Build the environment that a source describes.

    Args:
        source: From `read_source`.
        trust_remote_code: Run its code without a seal where this machine has none.

    Raises:
        SourceError: something in the source does not load, does not run, or is not as claimed.
        SandboxError: the sandbox failed.
    """
    report = await _build(source, trust_remote_code)
    provisional = _provisional(source, report)
    volatile = await _check_columns(source, provisional, trust_remote_code)
    runs = await _run_solutions(source, provisional, report.logical_hash, trust_remote_code)
    for first, later in runs.values():
        volatile |= await solving.volatile_columns(first, later, trust_remote_code=trust_remote_code)
    for task in provisional.tasks:
        if task.id in runs:
            run = runs[task.id][0]
            solving.check_kind(task, solving.effective_changes(run.changes, volatile))
            await solving.check_answer(provisional, task, run, trust_remote_code=trust_remote_code)
    environment = dataclasses.replace(
        provisional,
        volatile_columns=tuple(sorted(volatile)),
        tools=_with_effects(source, provisional.tools, [r for pair in runs.values() for r in pair]),
        tasks=tuple(_with_literals(t, runs.get(t.id)) for t in provisional.tasks),
    ).with_hash(report.logical_hash)
    for task in environment.tasks if source.interface == "functions" else ():
        if task.id in runs:
            await solving.check_verifiers(environment, task, runs[task.id][0], trust_remote_code=trust_remote_code)
    return dataclasses.replace(environment, quality=_quality(source, report, environment.content_hash))


async def _build(source: Source, trust_remote_code: bool) -> jobs.BuildReport:
    request = jobs.BuildRequest(
        interface=source.interface,
        code=source.code,
        clock=source.clock,
        tables=source.tables,
        further_ddl=source.further_ddl,
        seed=source.seed,
        strict=source.interface == "functions",
    )
    try:
        report = await jobs.build(request, trust_remote_code=trust_remote_code)
    except SourceError as error:
        raise SourceError(f"{source.id}: {error.message}", next_step=error.next_step) from error
    if not report.tools:
        why = report.load_error or "it defines no public function"
        raise SourceError(f"{source.id}/tools.py has no tools: {why}", next_step="mend tools.py")
    if report.hidden_state and source.interface == "functions":
        message = f"{source.id}/tools.py changes a variable of the module, which no reset takes back"
        raise SourceError(message, next_step="keep all state in the database")
    if len(report.image) > schema.MAX_IMAGE_BYTES:
        raise SourceError(f"{source.id}: the database is larger than {schema.MAX_IMAGE_BYTES} bytes")
    return report


def _provisional(source: Source, report: jobs.BuildReport) -> Environment:
    """The environment before its solutions have run."""
    return Environment(
        id=source.id,
        title=source.title,
        description=source.description,
        categories=source.categories,
        rules=source.rules,
        usage=source.usage,
        interface=source.interface,
        code=source.code,
        requires=source.requires,
        tables=source.tables,
        further_ddl=source.further_ddl,
        seed=source.seed,
        volatile_columns=source.volatile_columns,
        database=report.image,
        image_sha256=hashlib.sha256(report.image).hexdigest(),
        clock=source.clock,
        tools=report.tools,
        tasks=source.tasks,
        verifier_module=source.verifier_module,
        provenance=source.provenance,
        content_hash="",
    ).with_hash(report.logical_hash)


async def _check_columns(source: Source, environment: Environment, trust_remote_code: bool) -> set[str]:
    """Check that columns named in the source exist, and that texts in the database are texts.

    Returns:
        The declared volatile columns, spelled as in the schema.
    """
    tables = await jobs.dump(environment.database, max_rows=solving.ALL_ROWS, trust_remote_code=trust_remote_code)
    spelled = {f"{name}.{c}".lower(): f"{name}.{c}" for name, table in tables.items() for c in table["columns"]}
    for task in source.tasks:
        _check_known(f"{source.id}/tasks.toml, [{task.slug}]: free", task.free, spelled)
    _check_known(f"{source.id}/scenario.toml: volatile_columns", source.volatile_columns, spelled)
    for name, table in tables.items() if source.interface == "functions" else ():
        for column, cell in ((c, v) for row in table["rows"] for c, v in zip(table["columns"], row, strict=True)):
            if isinstance(cell, dict) and "text" in cell:
                message = f"{source.id}/seed.sql: {name}.{column} holds text that is no UTF-8"
                raise SourceError(message, next_step="store bytes as a blob")
    return {spelled[name.lower()] for name in source.volatile_columns}


def _check_known(where: str, names: Iterable[str], spelled: Mapping[str, str]) -> None:
    for name in names:
        if name.lower() not in spelled:
            close = difflib.get_close_matches(name, spelled.values(), n=1)
            step = f"did you mean {close[0]!r}?" if close else "write table.column"
            raise SourceError(f"{where} holds {name!r}, which is no column", next_step=step)


async def _run_solutions(
    source: Source, environment: Environment, logical_hash: str, trust_remote_code: bool
) -> dict[str, tuple[solving.Run, solving.Run]]:
    """Both runs of every solution, by task id."""
    later = dataclasses.replace(environment, clock=environment.clock + solving.LATER).with_hash(logical_hash)
    runs = {}
    for task in source.tasks:
        if task.solution is not None:
            is_literal = task.slug in source.literal_tasks
            first = await solving.solve(environment, task, is_literal=is_literal, trust_remote_code=trust_remote_code)
            second = await solving.solve_later(later, task, is_literal=is_literal, trust_remote_code=trust_remote_code)
            runs[task.id] = first, second
    return runs


def _with_effects(source: Source, tools: Sequence[ToolSpec], runs: Iterable[solving.Run]) -> tuple[ToolSpec, ...]:
    """Tools with their effect: `write` where a call wrote, or the code can reach a statement that does."""
    if source.interface != "functions":
        return tuple(tools)
    writing = analysis.writing_functions(source.code).union(*(r.writing_tools for r in runs))
    return tuple(dataclasses.replace(t, effect="write" if t.name in writing else "read") for t in tools)


def _with_literals(task: Task, runs: tuple[solving.Run, solving.Run] | None) -> Task:
    return task if runs is None else dataclasses.replace(task, solution=runs[0].calls)


def _quality(source: Source, report: jobs.BuildReport, content_hash: str) -> Quality | None:
    """Stored audit results if they are of this very content; else what the build of an imported row shows."""
    if source.quality is not None and source.quality.audited_hash == content_hash:
        return source.quality
    if source.interface == "functions":
        return None
    return Quality(
        schema_errors=report.schema_errors,
        seed_errors=report.seed_errors,
        foreign_key_violations=report.foreign_key_violations,
        dropped_tools=report.dropped_tools,
        hidden_state=report.hidden_state,
    )

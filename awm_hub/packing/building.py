"""From a source to an environment: the image is built, the tools are read and every solution is run, in the sandbox.

What the record states beyond the source is measured here: literal arguments of solutions, effects of tools, volatile
columns. What it claims is checked: solutions work, kinds and answers agree with what they do. Our own sources may not
hold any error; rows of the `fastapi` interface, which come from imports, keep theirs and have them counted in
`quality`.
"""

import dataclasses
import difflib
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from awm_hub import schema
from awm_hub.environment import Environment, Quality, Task, ToolSpec
from awm_hub.errors import SourceError
from awm_hub.packing import advice, analysis, modules, places, solving, statements
from awm_hub.packing.keys import read_source_text
from awm_hub.packing.sources import Source
from awm_hub.runtime import jobs


@dataclass(frozen=True, kw_only=True)
class Built:
    """An environment, and what its author should know about it."""

    environment: Environment
    warnings: tuple[str, ...]


async def build_environment(source: Source, *, trust_remote_code: bool = False) -> Environment:
    """Build the environment that a source describes.

    Args:
        source: From `read_source`.
        trust_remote_code: Run its code without a seal where this machine has none.

    Raises:
        SourceError: something in the source does not load, does not run, or is not as claimed.
        SandboxError: the sandbox failed.
    """
    return (await build_with_advice(source, trust_remote_code=trust_remote_code)).environment


async def build_with_advice(source: Source, *, trust_remote_code: bool = False) -> Built:
    """Build the environment that a source describes, and collect what is valid but hardly meant.

    Args:
        source: From `read_source`.
        trust_remote_code: Run its code without a seal where this machine has none.

    Raises:
        SourceError: something in the source does not load, does not run, or is not as claimed.
        SandboxError: the sandbox failed.
    """
    is_own = source.interface == "functions"
    if is_own:
        modules.check_tools(source)
        modules.check_verifiers(source)
    report = await _build(source, trust_remote_code)
    provisional = _provisional(source, report)
    tables = await jobs.dump(provisional.database, max_rows=solving.ALL_ROWS, trust_remote_code=trust_remote_code)
    volatile = _check_columns(source, tables)
    warnings = [*_advice(source, provisional, tables)] if is_own else []
    runs = await _run_solutions(source, provisional, report.logical_hash, trust_remote_code, warnings)
    for first, later in runs.values():
        volatile |= await solving.volatile_columns(first, later, trust_remote_code=trust_remote_code)
    for task in provisional.tasks:
        if task.id in runs:
            run = runs[task.id][0]
            solving.check_kind(task, solving.effective_changes(run.changes, volatile))
            given = await solving.check_answer(provisional, task, run, trust_remote_code=trust_remote_code)
            warnings += advice.of_answer(source, task.slug, task.answer, given)
    environment = dataclasses.replace(
        provisional,
        volatile_columns=tuple(sorted(volatile)),
        tools=_with_effects(source, provisional.tools, [r for pair in runs.values() for r in pair]),
        tasks=tuple(_with_literals(t, runs.get(t.id)) for t in provisional.tasks),
    ).with_hash(report.logical_hash)
    for task in environment.tasks if is_own else ():
        if task.id in runs:
            await solving.check_verifiers(environment, task, runs[task.id][0], trust_remote_code=trust_remote_code)
    environment = dataclasses.replace(environment, quality=_quality(source, report, environment.content_hash))
    return Built(environment=environment, warnings=tuple(dict.fromkeys(warnings)))


def _advice(source: Source, environment: Environment, tables: Mapping[str, Any]) -> Iterator[str]:
    yield from advice.of_tools(source, environment)
    yield from advice.of_tables(source, tables)
    yield from advice.of_tasks(source)


async def _build(source: Source, trust_remote_code: bool) -> jobs.BuildReport:
    request = jobs.BuildRequest(
        interface=source.interface,
        code=source.code,
        clock=source.clock,
        tables=source.tables,
        further_ddl=source.further_ddl,
        seed=source.seed,
        strict=False,
    )
    report = await jobs.build(request, trust_remote_code=trust_remote_code)
    for problem in report.problems if source.interface == "functions" else ():
        raise _failed(source, problem)
    if not report.tools:
        does_load = report.load_error is None
        what = "has no tools: it defines no public function" if does_load else f"does not load: {report.load_error}"
        step = "write a function whose first parameter is `db`" if does_load else "mend tools.py"
        if "ModuleNotFoundError" in what:
            step = "tools use the standard library only"
        raise SourceError(f"{source.id}/tools.py {what}", next_step=step)
    if len(report.image) > schema.MAX_IMAGE_BYTES:
        message = f"{source.id}: the database is larger than {schema.MAX_IMAGE_BYTES} bytes"
        raise SourceError(message, next_step="put fewer or smaller rows into seed.sql")
    return report


def _failed(source: Source, problem: jobs.Problem) -> SourceError:
    """The error for a statement that failed, with its place."""
    place = _place(source, problem)
    subject = problem.subject or "the database"
    what = f"{place}: {subject}: {problem.message}"
    if problem.statement and problem.stage != "foreign_keys":
        what += f"\n  in: {statements.shown(problem.statement, 300)}"
    if problem.stage != "schema" and _BROKEN_REFERENCE.search(problem.message):
        message = f"{source.id}/schema.sql: a REFERENCES or a trigger of {subject} leads nowhere: {problem.message}"
        step = "name a table of schema.sql, and columns of it that are its PRIMARY KEY or UNIQUE"
        return SourceError(f"{message} (found at {place})" if problem.stage == "seed" else message, next_step=step)
    if problem.stage == "schema":
        return SourceError(what, next_step="mend this statement in schema.sql")
    if "FOREIGN KEY" in problem.message or problem.stage == "foreign_keys":
        return SourceError(what, next_step="the row that it refers to must stand in seed.sql, and before it")
    return SourceError(what, next_step="mend this row in seed.sql")


_BROKEN_REFERENCE = re.compile(r"no such table: main\.|foreign key mismatch")


def _place(source: Source, problem: jobs.Problem) -> str:
    file = source.folder / ("schema.sql" if problem.stage == "schema" else "seed.sql")
    inserts = [sql for seed in source.seed if seed.table == problem.subject for sql in seed.inserts]
    line = None
    if file.is_file() and problem.statement:
        is_repeated = problem.message.startswith("UNIQUE")
        line = places.line_of(read_source_text(file), problem.statement, within=inserts, is_repeated=is_repeated)
    return f"{source.id}/{file.name}" + ("" if line is None else f", line {line}")


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


def _check_columns(source: Source, tables: Mapping[str, Any]) -> set[str]:
    """Check that columns named in the source exist, and that texts in the database are texts.

    Returns:
        The declared volatile columns, spelled as in the schema.
    """
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
    source: Source, environment: Environment, logical_hash: str, trust_remote_code: bool, warnings: list[str]
) -> dict[str, tuple[solving.Run, solving.Run]]:
    """Both runs of every solution, by task id."""
    later = dataclasses.replace(environment, clock=environment.clock + solving.LATER).with_hash(logical_hash)
    runs = {}
    for task in source.tasks:
        if task.solution is not None:
            options = {"is_literal": task.slug in source.literal_tasks, "trust_remote_code": trust_remote_code}
            first = await solving.solve(environment, task, **options)
            try:
                second = await solving.solve_later(later, task, **options)
            except SourceError:
                if not source.volatile_columns:
                    raise
                # unpacked solutions name the ids of their first run, and the columns that hold them are declared
                second = await solving.solve_later(later, task, **options, seed=0)
                what = "the solution names a value that another seed does not give; a reference such as $1.id does"
                warnings.append(f"{source.id}/tasks.toml: [{task.slug}] {what}")
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

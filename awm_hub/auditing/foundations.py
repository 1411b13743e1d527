"""Whether an environment is what its row says: it is built again, and image, hash and toolset are compared."""

from typing import Any

from awm_hub.auditing.case import Case
from awm_hub.auditing.examples import Seed, choices_in
from awm_hub.environment import Environment, Quality, content_hash
from awm_hub.errors import AwmHubError, SealError
from awm_hub.runtime import jobs

_LARGEST_ID = 2**63 - 1
_ALL_ROWS = 2**31
_STAGES = {"schema": "schema_error", "seed": "seed_error", "foreign_keys": "foreign_key"}


async def open_case(environment: Environment, *, trust_remote_code: bool, fork: jobs.Fork | None = None) -> Case:
    """A case for an environment; its image is read in a sealed fork, in the given one if there is one.

    Raises:
        ImageError: the image cannot be read.
        SealError: this machine cannot seal, and the code is not trusted.
    """
    tables = await jobs.dump(environment.database, max_rows=_ALL_ROWS, trust_remote_code=trust_remote_code, fork=fork)
    ddl = [table.ddl for table in environment.tables]
    seed = Seed(tables, environment.clock.date(), choices_in(ddl))
    return Case(environment=environment, seed=seed, is_trusted=trust_remote_code, fork=fork)


async def check_foundations(case: Case) -> Quality:
    """Build the environment again and compare.

    Returns:
        What the build shows; the other results are not in it.

    Raises:
        SealError: this machine cannot seal, and the code is not trusted.
    """
    e = case.environment
    request = jobs.BuildRequest(
        interface=e.interface,
        code=e.code,
        clock=e.clock,
        tables=e.tables,
        further_ddl=e.further_ddl,
        seed=e.seed,
        strict=False,
    )
    try:
        report = await jobs.build(request, trust_remote_code=case.is_trusted, reading=case.reading)
    except SealError:
        raise
    except AwmHubError as error:
        case.note("does_not_load", "", f"it cannot be built: {error.message}")
        return Quality()
    _note_problems(case, report)
    stored = await jobs.logical_hash(e.database, trust_remote_code=case.is_trusted, fork=case.reading)
    if stored != report.logical_hash:
        case.note("image_differs", "", "schema and sample data, loaded again, give other content than the stored image")
    if content_hash(e, stored) != e.content_hash:
        case.note("hash_differs", "", f"the row says {e.content_hash[:16]}, its content has another hash")
    _compare_tools(case, report)
    _note_largest_ids(case)
    return Quality(
        schema_errors=report.schema_errors,
        seed_errors=report.seed_errors,
        foreign_key_violations=report.foreign_key_violations,
        dropped_tools=report.dropped_tools,
        hidden_state=report.hidden_state,
    )


def _note_problems(case: Case, report: jobs.BuildReport) -> None:
    if report.load_error is not None:
        case.note("does_not_load", "", report.load_error)
    grouped: dict[tuple[str, str], list[jobs.Problem]] = {}
    for problem in report.problems:
        if rule := _STAGES.get(problem.stage):
            grouped.setdefault((rule, problem.subject), []).append(problem)
    for (rule, subject), problems in grouped.items():
        count, first = len(problems), problems[0]
        told = f"{count} times, first: " if count > 1 else ""
        case.note(rule, subject, f"{told}{first.message} in: {first.statement[:200]}")
    for name in report.dropped_tools:
        case.note("dropped_tool", name, "another operation has its method and path, or its name")
    for name in report.shadowed_tools:
        case.note("shadowed_tool", name, "its calls reach a route that was declared before")
    if report.hidden_state:
        case.note("hidden_state", "", "functions change what the module holds")


def _compare_tools(case: Case, report: jobs.BuildReport) -> None:
    """Names and schemas; descriptions and effects are stated by the row."""
    stated: dict[str, Any] = {t.name: t.input_schema for t in case.environment.tools}
    built: dict[str, Any] = {t.name: t.input_schema for t in report.tools}
    for name in sorted(stated.keys() | built.keys()) if report.load_error is None else ():
        if name not in built:
            case.note("toolset_differs", name, "the row states it, and the code does not have it")
        elif name not in stated:
            case.note("toolset_differs", name, "the code has it, and the row does not state it")
        elif stated[name] != built[name]:
            case.note("toolset_differs", name, "the stated schema is not that of the code")


def _note_largest_ids(case: Case) -> None:
    for name, table in case.seed.tables.items():
        for at, column in enumerate(table["columns"]):
            if any(type(row[at]) is int and row[at] == _LARGEST_ID for row in table["rows"]):
                case.note(
                    "largest_rowid", name, f"{column} holds {_LARGEST_ID}: if it is the id, SQLite draws new ones"
                )

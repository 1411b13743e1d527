"""Environments made on the spot for tests, from a module, a schema and a seed."""

import datetime as dt

from awm_hub.environment import Environment, SeedTable, Table, Task
from awm_hub.runtime import jobs

CLOCK = dt.datetime(2026, 3, 2, 9, tzinfo=dt.UTC)
NOTES_DDL = "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT NOT NULL, made_at TEXT DEFAULT CURRENT_TIMESTAMP)"
NOTES_SEED = "INSERT INTO notes (id, text) VALUES (1, 'first'), (2, 'second')"


def notes_request(code: str | None, *, interface: str = "functions", strict: bool = True) -> jobs.BuildRequest:
    """A build of one table `notes` with two rows."""
    return jobs.BuildRequest(
        interface=interface,
        code=code,
        clock=CLOCK,
        tables=(Table(name="notes", ddl=NOTES_DDL),),
        seed=(SeedTable(table="notes", inserts=(NOTES_SEED,)),),
        strict=strict,
    )


async def make_environment(
    code: str, request: jobs.BuildRequest | None = None, *, tasks: tuple[Task, ...] = (), **changes: object
) -> Environment:
    """An environment of a module; by default over the table `notes`."""
    request = request or notes_request(code)
    report = await jobs.build(request)
    environment = Environment(
        id="made",
        title="Made",
        interface=request.interface,
        code=code,
        tables=request.tables,
        further_ddl=request.further_ddl,
        seed=request.seed,
        database=report.image,
        image_sha256=report.image_sha256,
        clock=request.clock,
        tools=report.tools,
        tasks=tasks,
        content_hash="",
        **changes,  # type: ignore[arg-type]
    )
    return environment.with_hash(report.logical_hash)

"""One table of notes behind both interfaces, with every way in which a call can end and leave traces.

Both modules write, refuse and fail at every point of a transaction, change the schema, and draw from every clock and
every source of randomness; `awm_hub` is expected to reproduce all of it exactly.
"""

import datetime as dt
from pathlib import Path

from making import CLOCK, NOTES_DDL, NOTES_SEED, make_environment

from awm_hub.environment import Environment, SeedTable, Table
from awm_hub.runtime import jobs

INTERFACES = ("functions", "fastapi")


def at(calls_count: int) -> dt.datetime:
    """The clock of the n-th call."""
    return CLOCK.replace(tzinfo=None) + dt.timedelta(seconds=calls_count)


async def make_ledger(interface: str) -> Environment:
    """The environment of one interface."""
    name = {"functions": "tools.py", "fastapi": "endpoints.py"}[interface]
    code = (Path(__file__).parent / name).read_text(encoding="utf-8")
    request = jobs.BuildRequest(
        interface=interface,
        code=code,
        clock=CLOCK,
        tables=(Table(name="notes", ddl=NOTES_DDL),),
        seed=(SeedTable(table="notes", inserts=(NOTES_SEED,)),),
    )
    return await make_environment(code, request)

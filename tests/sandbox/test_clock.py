"""One clock for Python and SQL, frozen and moved by calls alone."""

from making import CLOCK, make_environment

from awm_hub import aio
from awm_hub.environment import Table
from awm_hub.runtime import jobs

CODE = '''
import datetime
import sqlite3
import time


def every_clock(db: sqlite3.Connection) -> dict:
    """All clocks, in seconds since 1970."""
    sql = """SELECT CAST(strftime('%s', 'now') AS INTEGER), unixepoch(), strftime('%s'),
        CAST(round((julianday('NOW') - 2440587.5) * 86400) AS INTEGER), strftime('%s', CURRENT_TIMESTAMP),
        strftime('%s', datetime()), strftime('%s', CURRENT_DATE || ' ' || CURRENT_TIME),
        strftime('%s', datetime('now', 'localtime')), strftime('%s', date('now') || ' ' || time('now')),
        strftime('%s', 'now', '+2 days') - 172800"""
    utc = datetime.timezone.utc
    return {
        "sql": [int(value) for value in db.execute(sql).fetchone()],
        "python": [
            int(time.time()), time.time_ns() // 10**9, int(datetime.datetime.now(utc).timestamp()),
            int(datetime.datetime.utcnow().replace(tzinfo=utc).timestamp()), int(time.mktime(time.localtime())),
        ],
        "today": datetime.date.today().isoformat(),
    }


def add(db: sqlite3.Connection, due_on: str) -> dict:
    """Add a row with a default from the clock.

    Args:
        due_on: A date.
    """
    row_id = db.execute("INSERT INTO loans (due_on) VALUES (?)", (due_on,)).lastrowid
    return dict(db.execute("SELECT * FROM loans WHERE id = ?", (row_id,)).fetchone())
'''
DDL = """CREATE TABLE loans (id INTEGER PRIMARY KEY, due_on TEXT CHECK (due_on IS date(due_on)),
    made_at TEXT DEFAULT (datetime('now', '-1 day')), day TEXT DEFAULT CURRENT_DATE)"""


async def test_every_clock_shows_the_environments_time() -> None:
    environment = await make_environment(CODE)
    async with await aio.launch(environment) as instance:
        for seconds in (1, 2):
            found = (await instance.call_tool("every_clock")).value
            expected = int(CLOCK.timestamp()) + seconds
            assert set(found["sql"]) | set(found["python"]) == {expected}
            assert found["today"] == "2026-03-02"


async def test_defaults_and_checks_of_the_schema_use_the_clock() -> None:
    request = jobs.BuildRequest(
        interface="functions", code=CODE, clock=CLOCK, tables=(Table(name="loans", ddl=DDL),), strict=True
    )
    environment = await make_environment(CODE, request)
    async with await aio.launch(environment) as instance:
        assert (await instance.call_tool("add", {"due_on": "2026-03-09"})).value == {
            "id": 1, "due_on": "2026-03-09", "made_at": "2026-03-01 09:00:01", "day": "2026-03-02",
        }  # fmt: skip
        refused = await instance.call_tool("add", {"due_on": "2026-13-01"})
        assert (refused.type, refused.code) == ("refused", "conflict")


async def test_two_builds_at_different_times_give_the_same_image() -> None:
    request = jobs.BuildRequest(interface="functions", code=None, clock=CLOCK, tables=(Table(name="loans", ddl=DDL),))
    one, two = await jobs.build(request), await jobs.build(request)
    assert one.image == two.image
    assert one.logical_hash == two.logical_hash

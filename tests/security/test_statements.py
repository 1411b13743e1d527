"""DDL, seed and setup of a row that reach out or never end are errors; they never touch anything but their database."""

import contextlib

import pytest
from making import CLOCK, NOTES_DDL, make_environment, notes_request

from awm_hub import aio
from awm_hub.environment import SeedTable, Table, Task
from awm_hub.errors import AwmHubError, LoadError, SourceError
from awm_hub.runtime import Limits, jobs

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"
REACHING = {
    "attach a file": "ATTACH DATABASE '/tmp/awm-hub-escape' AS other",
    "attach by a URI": "ATTACH DATABASE 'file:/tmp/awm-hub-escape?vfs=unix-none' AS other",
    "copy into a file": "VACUUM INTO '/tmp/awm-hub-escape'",
    "load an extension": "CREATE TABLE loaded AS SELECT load_extension('/lib/libm.so.6')",
    "read a file": "CREATE TABLE got AS SELECT readfile('/etc/passwd')",
    "write a file": "CREATE TABLE got AS SELECT writefile('/tmp/awm-hub-escape', 'x')",
    "list a folder": "CREATE TABLE got AS SELECT * FROM fsdir('/')",
    "edit in a program": "CREATE TABLE got AS SELECT edit('x', 'vi')",
    "a table from a file": "CREATE VIRTUAL TABLE got USING csv(filename = '/etc/passwd')",
    "a table from a library": "CREATE VIRTUAL TABLE got USING vsv(filename = '/etc/passwd')",
}
"""Statement that would leave the database."""
ENDLESS_ONES = {
    "a recursive query": f"CREATE TABLE got AS {ENDLESS}",
    "a cartesian product": "CREATE TABLE got AS WITH RECURSIVE n(i) AS "
    "(SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 5000) "
    "SELECT count(*) FROM n a, n b, n c, n d",
    "a large value": "CREATE TABLE got AS SELECT hex(zeroblob(900000000))",
    "one long step": "CREATE TABLE got AS SELECT instr(hex(zeroblob(4000000)), hex(zeroblob(2000000)) || 'x')",
    "a trigger that feeds itself": "CREATE TRIGGER grow AFTER INSERT ON notes BEGIN INSERT INTO notes (text) "
    f"SELECT i FROM ({ENDLESS}); END",
}  # fmt: skip
"""Statement that would never end, or never fit."""
STOPPED = "stopped after|deadline|gave no answer within|too big|full|interrupted|memory|MemoryError|has died"


@pytest.fixture
def in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deadlines that a test can wait for."""
    monkeypatch.setattr(jobs, "Limits", lambda: Limits(load_s=0.7, database_bytes=4 * 2**20))
    monkeypatch.setattr(jobs, "_GRACE_S", 0.6)


def _request(ddl: tuple[str, ...] = (), inserts: tuple[str, ...] = ()) -> jobs.BuildRequest:
    return jobs.BuildRequest(
        interface="functions", code=None, clock=CLOCK, tables=(Table(name="notes", ddl=NOTES_DDL),), further_ddl=ddl,
        seed=(SeedTable(table="notes", inserts=inserts),),
    )  # fmt: skip


@pytest.mark.parametrize("name", REACHING)
async def test_ddl_seed_and_setup_that_reach_out_are_errors(name: str) -> None:
    with pytest.raises(SourceError):
        await jobs.build(_request(ddl=(REACHING[name],)))
    with pytest.raises(SourceError):
        await jobs.build(_request(inserts=(REACHING[name],)))
    image = (await jobs.build(notes_request(None))).image
    with pytest.raises(LoadError):
        await jobs.prepare_image(image, [REACHING[name]], CLOCK)


QUICK = ["a recursive query", "a large value"]
SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ENDLESS_ONES if name not in QUICK]


@pytest.mark.parametrize("name", [*QUICK, *SLOW])
async def test_ddl_seed_and_setup_without_end_are_stopped(name: str, in_time: None) -> None:
    row = "INSERT INTO notes (text) VALUES ('x')"
    with pytest.raises(AwmHubError, match=STOPPED):
        await jobs.build(_request(ddl=(ENDLESS_ONES[name],), inserts=(row,)))
    image = (await jobs.build(notes_request(None))).image
    with pytest.raises(AwmHubError, match=STOPPED):
        await jobs.prepare_image(image, [ENDLESS_ONES[name], row], CLOCK)


async def test_machine_code_reached_through_sql_stays_in_the_sealed_process() -> None:
    # some builds of SQLite take a tokenizer's address from SQL: a jump to anywhere, in a process that can do nothing
    jump = ("CREATE TABLE got AS SELECT fts3_tokenizer('evil', x'4141414141414141')",
            "CREATE VIRTUAL TABLE f USING fts3 (x, tokenize = evil)")  # fmt: skip
    with pytest.raises(AwmHubError, match=r"has died|fts3tokenize|no such function|unknown tokenizer"):
        await jobs.build(_request(ddl=jump))
    assert (await jobs.build(_request())).row_counts == {"notes": 0}


@pytest.mark.parametrize("pragma", ["temp_store_directory = '/tmp'", "data_store_directory = '/tmp'",
                                    "mmap_size = 10000000", "journal_mode = WAL", "writable_schema = ON",
                                    "max_page_count = 1000000000",
                                    "hard_heap_limit = 1", "soft_heap_limit = 1"])  # fmt: skip
async def test_a_pragma_in_ddl_changes_nothing_outside_its_process(pragma: str) -> None:
    with contextlib.suppress(AwmHubError):
        await jobs.build(_request(ddl=(f"PRAGMA {pragma}",)))
    assert (await jobs.build(_request(inserts=("INSERT INTO notes (text) VALUES ('x')",)))).row_counts == {"notes": 1}


async def test_a_setup_that_reaches_out_keeps_the_task_from_being_launched() -> None:
    code = (
        'def count(db) -> int:\n    """Count."""\n    return db.execute("SELECT count(*) FROM notes").fetchone()[0]\n'
    )
    task = Task(id="made/reach", instruction="Reach.", setup=(REACHING["attach a file"],))
    environment = await make_environment(code, tasks=(task,))
    with pytest.raises(LoadError, match="setup statement"):
        await aio.launch(environment, task="reach")

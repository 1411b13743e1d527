"""Images are built statement by statement, and what fails is left out and named."""

import sqlite3
import time
from collections.abc import Sequence

import pytest
from making import CLOCK, NOTES_DDL

from awm_hub.environment import SeedTable, Table
from awm_hub.errors import LoadError, SourceError
from awm_hub.runtime import Limits, jobs
from awm_hub.runtime.processes import OperationError, Process
from awm_hub.sandbox.building import single_rows
from awm_hub.sandbox.modulestate import module_state

NOTES = Table(name="notes", ddl=NOTES_DDL)
LINES = Table(name="lines", ddl="CREATE TABLE lines (id INTEGER PRIMARY KEY, note_id INTEGER REFERENCES notes(id))")
ENDLESS = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT {} FROM n"


def request(
    *inserts: str, tables: Sequence[Table] = (NOTES,), further_ddl: Sequence[str] = (), code: str | None = None,
    interface: str = "functions", strict: bool = False,
) -> jobs.BuildRequest:  # fmt: skip
    return jobs.BuildRequest(
        interface=interface, code=code, clock=CLOCK, tables=tuple(tables), further_ddl=tuple(further_ddl),
        seed=(SeedTable(table="notes", inserts=inserts),), strict=strict,
    )  # fmt: skip


def rows(report: jobs.BuildReport, sql: str = "SELECT id, text FROM notes ORDER BY id") -> list[tuple[object, ...]]:
    db = sqlite3.connect(":memory:")
    db.deserialize(report.image)
    return db.execute(sql).fetchall()


async def test_only_the_wrong_rows_of_a_failing_insert_are_missing() -> None:
    statement = "INSERT INTO notes (id, text) VALUES (1, 'it''s (1), fine'), (2, NULL),\n (3, 'three'), (1, 'again');"
    report = await jobs.build(request(statement))
    assert rows(report) == [(1, "it's (1), fine"), (3, "three")]
    assert report.seed_errors == 2
    assert report.problems == (
        jobs.Problem(
            stage="seed",
            subject="notes",
            statement="INSERT INTO notes (id, text) VALUES (2, NULL)",
            message="NOT NULL constraint failed: notes.text",
        ),
        jobs.Problem(
            stage="seed",
            subject="notes",
            statement="INSERT INTO notes (id, text) VALUES (1, 'again')",
            message="UNIQUE constraint failed: notes.id",
        ),
    )


async def test_a_failing_statement_of_another_form_counts_once_and_leaves_nothing() -> None:
    report = await jobs.build(
        request(
            "INSERT INTO notes (id, text) VALUES (1, 'one')",
            "INSERT INTO notes (id, text) SELECT id + column1, text FROM notes, (VALUES (7), (0))",
            "INSERT INTO notes (id, text) VALUES (8, 'It\\'s broken'), (9, 'gone with it')",
            "INSERT INTO notes (id, text) VALUES (4, 'two'); INSERT INTO notes (id, text) VALUES (5, 'in one')",
            "DELETE FROM missing",
        )
    )
    assert rows(report) == [(1, "one")]
    assert (report.seed_errors, len(report.problems)) == (4, 4)


async def test_the_first_problem_of_our_own_sources_is_an_error_that_names_it() -> None:
    with pytest.raises(
        SourceError, match=r"seed of notes: NOT NULL constraint failed: notes\.text\n  in: INSERT"
    ) as told:
        await jobs.build(request("INSERT INTO notes (id, text) VALUES (1, NULL)", strict=True))
    assert told.value.next_step == "mend this statement in seed.sql"


async def test_tables_indexes_and_further_ddl_that_fail_are_counted_apart() -> None:
    broken = Table(name="broken", ddl="CREATE TABLE broken (id", indexes=("CREATE INDEX on_broken ON broken (id)",))
    ddl = ("CREATE VIEW two AS SELECT * FROM notes LIMIT 2", "CREATE TRIGGER x AFTER INSERT ON missing BEGIN END")
    report = await jobs.build(request("INSERT INTO notes (text) VALUES ('a')", tables=(NOTES, broken), further_ddl=ddl))
    assert (report.schema_errors, report.seed_errors) == (3, 0)
    assert [(p.stage, p.subject) for p in report.problems] == [
        ("schema", "broken"),
        ("schema", "broken"),
        ("schema", ""),
    ]
    assert rows(report, "SELECT text FROM two") == [("a",)]


async def test_rows_without_their_parent_are_left_out() -> None:
    report = await jobs.build(
        request(
            "INSERT INTO notes (id, text) VALUES (1, 'one')",
            "INSERT INTO lines (id, note_id) VALUES (1, 1), (2, 7), (3, NULL)",
            tables=(NOTES, LINES),
        )
    )
    assert (report.seed_errors, report.foreign_key_violations) == (1, 0)
    assert rows(report, "SELECT id FROM lines") == [(1,), (3,)]


async def test_violations_that_a_seed_forces_in_are_counted() -> None:
    report = await jobs.build(
        request("PRAGMA foreign_keys = OFF", "INSERT INTO lines VALUES (1, 7), (2, 8)", tables=(NOTES, LINES))
    )
    assert (report.seed_errors, report.foreign_key_violations) == (0, 2)
    assert [(p.stage, p.subject, p.message) for p in report.problems] == [
        ("foreign_keys", "lines", "row 1 names a row that notes does not have"),
        ("foreign_keys", "lines", "row 2 names a row that notes does not have"),
    ]


async def test_a_transaction_that_statements_leave_open_is_committed() -> None:
    report = await jobs.build(request("BEGIN", "INSERT INTO notes (id, text) VALUES (1, 'one')"))
    assert (rows(report), report.seed_errors) == ([(1, "one")], 0)


async def test_a_transaction_that_cannot_be_committed_is_an_error_of_the_seed() -> None:
    deferred = Table(
        name="lines",
        ddl="CREATE TABLE lines (note_id INTEGER REFERENCES notes(id) DEFERRABLE INITIALLY DEFERRED)",
    )
    report = await jobs.build(request("BEGIN", "INSERT INTO lines VALUES (7)", tables=(NOTES, deferred)))
    assert (rows(report, "SELECT * FROM lines"), report.seed_errors) == ([], 1)
    assert [(p.stage, p.message) for p in report.problems] == [("seed", "FOREIGN KEY constraint failed")]


async def test_an_insert_larger_than_a_database_may_be_is_left_out() -> None:
    bomb = "INSERT INTO notes (text) " + ENDLESS.format("printf('%1000d', i)")
    report = await jobs.build(request(bomb, "INSERT INTO notes (id, text) VALUES (1, 'one')"))
    assert rows(report) == [(1, "one")]
    assert [(p.stage, p.message) for p in report.problems] == [("seed", "database or disk is full")]
    with pytest.raises(SourceError, match="seed of notes: database or disk is full"):
        await jobs.build(request(bomb, strict=True))


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"seed": [{"table": "notes", "inserts": [f"INSERT INTO notes (text) {ENDLESS.format('i')} WHERE i < 0"]}]},
         "the seed of notes: INSERT INTO notes"),
        ({"further_ddl": [f"CREATE TABLE a AS {ENDLESS.format('count(*)')}"]}, "the schema of the database: CREATE"),
        ({"code": "while True: pass"}, "the code"),
    ],
)  # fmt: skip
async def test_what_never_ends_is_stopped_and_named(fields: dict[str, object], place: str) -> None:
    process = await Process.spawn(interface="functions", sealed=True, memory_bytes=2**31)
    wanted = {
        "interface": "functions", "code": None, "clock_us": 0, "database_bytes": 2**20, "further_ddl": [], "seed": [],
        "tables": [{"name": "notes", "ddl": NOTES_DDL, "indexes": []}],
    }  # fmt: skip
    started = time.monotonic()
    try:
        with pytest.raises(OperationError, match=f"^deadline: stopped after 0.3 s at {place}"):
            await process.request("build", timeout_s=10, seconds=0.3, **{**wanted, **fields})
    finally:
        process.kill()
    assert time.monotonic() - started < 5


async def test_code_that_does_not_load_leaves_the_image_and_says_why() -> None:
    report = await jobs.build(request("INSERT INTO notes (id, text) VALUES (1, 'one')", code="x = 1\ny = x.missing\n"))
    assert report.load_error == "AttributeError: 'int' object has no attribute 'missing' (line 2)"
    assert (rows(report), report.tools) == ([(1, "one")], ())


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("INSERT INTO t VALUES (1), (2)", ["INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (2)"]),
        (
            "insert into t(a, b) values ('a,(b', \"c)\"), (f(1, (2)), 'it''s') ;",
            ["insert into t(a, b) values ('a,(b', \"c)\")", "insert into t(a, b) values (f(1, (2)), 'it''s')"],
        ),
        (
            "INSERT INTO t (a) VALUES (1),(2) ON CONFLICT (a) DO UPDATE SET b = (3), c = 4;",
            [
                "INSERT INTO t (a) VALUES (1) ON CONFLICT (a) DO UPDATE SET b = (3), c = 4",
                "INSERT INTO t (a) VALUES (2) ON CONFLICT (a) DO UPDATE SET b = (3), c = 4",
            ],
        ),
        (
            "REPLACE INTO [odd ) table] VALUES (1), (2) RETURNING a, (b)",
            [
                "REPLACE INTO [odd ) table] VALUES (1) RETURNING a, (b)",
                "REPLACE INTO [odd ) table] VALUES (2) RETURNING a, (b)",
            ],
        ),
        (
            "INSERT/* VALUES (9) */INTO t -- VALUES (8)\nVALUES (1), -- one, (1)\n ('--', '/*'), ('*/')",
            ["INSERT INTO t  \nVALUES (1)", "INSERT INTO t  \nVALUES ('--', '/*')", "INSERT INTO t  \nVALUES ('*/')"],
        ),
        ("INSERT INTO t VALUES (datetime('now', '-1 day'))", ["INSERT INTO t VALUES (datetime('now', '-1 day'))"]),
        ("INSERT INTO t DEFAULT VALUES", []),
        ("INSERT INTO t SELECT a FROM (VALUES (1), (2))", []),
        ("INSERT INTO t WITH v AS (VALUES (1), (2)) SELECT * FROM v", []),
        ("WITH v (a) AS (VALUES (1), (2)) INSERT INTO t SELECT a FROM v", []),
        ("INSERT INTO t VALUES (1), (2); DELETE FROM t", []),
        ("UPDATE t SET a = 'VALUES (1), (2)'", []),
        ("", []),
    ],
)  # fmt: skip
def test_an_insert_is_split_into_its_rows(sql: str, expected: list[str]) -> None:
    assert list(single_rows(sql)) == expected


STATEFUL = {
    "a global name": "n = 0\ndef f():\n    global n\n    n += 1",
    "a dict entry": "seen = {}\ndef f(k):\n    seen[k] = 1",
    "a nested container": "seen = {'a': []}\ndef f(k):\n    seen['a'].append(k)",
    "a set": "seen: set = set()\nasync def f(k):\n    seen.add(k)",
    "a default dict": "import collections\nseen = collections.defaultdict(list)\ndef f(k):\n    seen[k].append(1)",
    "a deleted entry": "seen = {}\ndef f(k):\n    del seen[k]",
    "a class attribute": "class Store:\n    items = []\ndef f(k):\n    Store.items.append(k)",
    "an object's attribute": "app = FastAPI()\ndef f():\n    app.state.count = 1",
    "a counter": "import itertools\nids = itertools.count(1)\ndef f():\n    return next(ids)",
    "a generator of random numbers": "import random\nrng = random.Random(1)\ndef f():\n    return rng.random()",
    "a cache": "import functools\n@functools.lru_cache(maxsize=9)\ndef f(k):\n    return k",
    "a function's attribute": "def f():\n    f.count = 1",
    "a changed default": "def f(tags=[]):\n    tags.append(1)\n    return tags",
    "a changed keyword default": "def f(*, tags={}):\n    tags['a'] = 1",
    "a wrapped cache": "import functools\ndef _f(k):\n    return k\nf = functools.lru_cache(maxsize=9)(_f)",
    "setattr": "class C:\n    pass\ndef f():\n    setattr(C, 'n', 1)",
    "globals": "def f():\n    globals()['n'] = 1",
    "inside a class": "seen = []\nclass C:\n    def f(self):\n        seen.extend([1])",
}
STATELESS = {
    "constants": "LIMITS = {'a': 1}\ndef f(k):\n    return LIMITS[k]",
    "local names of the same name": "items = []\ndef f():\n    items = []\n    items.append(1)\n    return items",
    "parameters of the same name": "items = []\ndef f(items):\n    items.append(1)",
    "filled while loading": "seen = {}\nseen['a'] = 1\nfor i in range(3):\n    seen[i] = i",
    "a default that is only read": "def f(tags=[]):\n    return [t for t in tags]",
    "a default that is copied first": "def f(tags=[]):\n    tags = list(tags)\n    tags.append(1)",
    "sessions": "SessionLocal = sessionmaker()\ndef f():\n    s = SessionLocal()\n    s.add(1)\n    s.commit()",
    "statements": "t = Table('t', m)\ndef f(db):\n    db.execute(t.update())\n    db.execute(t.insert())",
    "model attributes": "class M(Base):\n    x = Column()\ndef f(s, v):\n    row = M()\n    row.x = v\n    s.query(M)",
    "documents": "app = FastAPI()\ndef f():\n    app.openapi_schema = {}",
}


@pytest.mark.parametrize("name", STATEFUL)
def test_state_outside_the_database_is_found(name: str) -> None:
    assert module_state(STATEFUL[name])


@pytest.mark.parametrize("name", STATELESS)
def test_modules_that_only_read_what_they_hold_keep_no_state(name: str) -> None:
    assert module_state(STATELESS[name]) == ()


def test_state_is_named_with_its_line_and_what_happens_to_it() -> None:
    code = (
        "import functools\n_SEEN = {}\n\n\n@functools.cache\ndef f(k):\n    _SEEN[k] = 1\n\n\n"
        "def g(tags=[]):\n    global _calls\n    g.count = 1\n    tags.append(1)\n\n\nh = functools.lru_cache(9)(f)\n"
    )
    assert [(s.name, s.line, s.what) for s in module_state(code)] == [
        ("f", 5, "f caches results (cache)"),
        ("_SEEN", 7, "f changes _SEEN"),
        ("_calls", 11, "g rebinds _calls (global)"),
        ("g", 12, "g changes g"),
        ("tags", 13, "g changes the default of its parameter tags"),
        ("h", 16, "h caches results"),
    ]


async def test_a_build_that_cannot_end_is_an_error_for_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "Limits", lambda: Limits(load_s=0.3))
    with pytest.raises(LoadError, match=r"could not be built: deadline: stopped after 0\.3 s at the seed of notes"):
        await jobs.build(request(f"INSERT INTO notes (text) {ENDLESS.format('i')} WHERE i < 0"))

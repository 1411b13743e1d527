import pytest
from climbing import climbing, with_sizes, with_sql

from awm_hub.runtime import jobs
from awm_hub.runtime.limits import Limits
from awm_hub.synthesis.products import read_sql
from awm_hub.synthesis.stages.database import check, prompt, render


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Builds that stop after a second."""
    monkeypatch.setattr(jobs, "Limits", lambda: Limits(load_s=1.0))


async def told(sql: str) -> list[str]:
    return [str(p) for p in await check(with_sql(climbing(), "database", sql))]


async def test_a_good_schema_passes() -> None:
    assert await check(climbing()) == ()


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("CREATE TABLE rooms (name TEXT);", "[no_primary_key: table rooms] the table has no PRIMARY KEY"),
        (
            "CREATE TABLE rooms (id TEXT PRIMARY KEY);",
            "[id_type: table rooms] id must be INTEGER PRIMARY KEY, so that SQLite numbers new rows",
        ),
        (
            "CREATE TABLE rooms (id INTEGER PRIMARY KEY, id TEXT);",
            "[schema_error: table rooms] duplicate column name: id in: CREATE TABLE rooms (id INTEGER PRIMARY KEY, "
            "id TEXT)",
        ),
        (
            "CREATE INDEX by_mood ON members (mood);",
            "[schema_error: index by_mood] no such column: mood in: CREATE INDEX by_mood ON members (mood)",
        ),
        (
            "CREATE INDEX by_mood ON moods (mood);",
            "[schema_form: index by_mood] the index is on 'moods', which no statement before it creates: CREATE INDEX "
            "by_mood ON moods (mood)",
        ),
        (
            "CREATE TABLE rooms (id INTEGER PRIMARY KEY, member_id INTEGER REFERENCES member (id));",
            "[foreign_key: table rooms] rooms.member_id refers to member, which does not exist; did you mean "
            "'members'?",
        ),
        (
            "CREATE TABLE rooms (id INTEGER PRIMARY KEY, who TEXT REFERENCES members (full_name));",
            "[foreign_key: table rooms] rooms.who refers to members (full_name), which is neither its PRIMARY KEY nor "
            "UNIQUE",
        ),
        (
            "CREATE TABLE rooms (id INTEGER PRIMARY KEY, token TEXT DEFAULT (hex(randomblob(4))));",
            "[nothing_random: table rooms] random() and randomblob() give other values each time: leave them out",
        ),
        (
            "CREATE TABLE rooms (id INTEGER PRIMARY KEY, day TEXT CHECK (day <= date('now')));",
            "[nothing_random: table rooms] a CHECK looks at the present time, which SQLite refuses when rows arrive: "
            "leave it to the tools",
        ),
        (
            "CREATE TABLE rooms (id INTEGER PRIMARY KEY, opens_at TEXT, closed_on TEXT, "
            "based_on TEXT CHECK (based_on > ''));",
            "[date_unchecked: table rooms] opens_at, closed_on: no CHECK says the form; for a day: CHECK (x IS date(x, "
            "'+0 days'))",
        ),
        ("CREATE VIEW broken AS SELECT mood FROM members;", "[schema_error: view broken] no such column: mood"),
        (
            "CREATE TRIGGER broken AFTER UPDATE OF note ON bookings BEGIN UPDATE members SET mood = 1; END;",
            "[schema_error: trigger broken] no such column: mood",
        ),
        (
            "CREATE VIRTUAL TABLE texts USING fts5(body);",
            "[schema_form: table texts] virtual tables are not wanted: write a plain table",
        ),
        (
            "CREATE TABLE copies AS SELECT * FROM members;",
            "[schema_form: table copies] CREATE TABLE … AS SELECT gives a table without constraints: write its columns",
        ),
        (
            "INSERT INTO members (id) VALUES (1);",
            "[no_schema: members] only CREATE statements belong to the database: remove this part",
        ),
    ],
)  # fmt: skip
async def test_each_slip_is_one_problem(sql: str, expected: str) -> None:
    assert await told(sql) == [expected]


async def test_a_table_that_fails_is_not_reported_again_by_what_refers_to_it() -> None:
    found = await told(
        "CREATE TABLE rooms (id INTEGER PRIMARY KEY, id TEXT); CREATE INDEX by_id ON rooms (id);"
        "CREATE TABLE doors (id INTEGER PRIMARY KEY, room_id INTEGER REFERENCES rooms (id));"
    )
    assert [line.partition("]")[0] for line in found] == ["[schema_error: table rooms"]


async def test_a_parent_that_stands_after_its_child_is_reported() -> None:
    draft = climbing()
    parts = {**draft.parts("database")}
    parts["table members"] = parts.pop("table members")
    (problem,) = await check(draft.having("database", parts))
    assert (problem.rule, problem.subject) == ("foreign_key_order", "table bookings")


async def test_too_few_tables_are_counted() -> None:
    (problem,) = await check(with_sizes(climbing(), tables=4))
    assert str(problem) == "[too_few_tables] there are 3 tables; at least 4 are wanted"


async def test_columns_without_a_stated_form_are_a_warning() -> None:
    draft = with_sql(climbing(), "database", "CREATE TABLE rooms (id INTEGER PRIMARY KEY, opens_on TEXT);")
    assert [p.severity for p in await check(draft)] == ["warning"]


@pytest.mark.parametrize(
    "text",
    [
        "ATTACH 'other.db' AS other;",
        "PRAGMA foreign_keys = OFF;",
        "CREATE TABLE members (id INTEGER PRIMARY KEY); DROP TABLE courses;",
        "CREATE TEMP TABLE members (id INTEGER PRIMARY KEY);",
        "CREATE TABLE members (id INTEGER PRIMARY KEY",
        "",
    ],
)
async def test_other_statements_are_problems(text: str) -> None:
    draft = climbing()
    found = await check(draft.having("database", {**draft.parts("database"), "table members": text}))
    assert {p.severity for p in found} == {"error"}


@pytest.mark.usefixtures("hurried")
async def test_a_schema_that_never_ends_is_stopped() -> None:
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
    draft = with_sql(climbing(), "database", f"CREATE VIEW endless AS {endless};")
    assert await check(draft) == ()
    defaulted = f"CREATE TABLE slow (id INTEGER PRIMARY KEY, x INTEGER DEFAULT (({endless})));"
    assert {p.rule for p in await check(with_sql(climbing(), "database", defaulted))} <= {
        "schema_error",
        "build_stopped",
    }


async def test_a_text_that_no_file_can_hold_is_a_problem() -> None:
    draft = climbing()
    (problem,) = await check(draft.having("database", {"table members": "CREATE TABLE members (id '\ud800');"}))
    assert (problem.rule, problem.subject) == ("broken_text", "table members")


async def test_nothing_at_all_has_too_few_tables() -> None:
    assert [p.rule for p in await check(climbing().having("database", {}))] == ["too_few_tables"]


def test_the_product_is_shown_in_the_form_of_an_answer() -> None:
    parts = climbing().parts("database")
    assert read_sql(render(parts)).parts == parts


def test_the_prompt_says_how_many_tables() -> None:
    assert "at least 3 tables" in prompt(climbing())

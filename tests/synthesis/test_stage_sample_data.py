import pytest
from climbing import climbing, with_sizes, with_sql, with_values

from awm_hub.runtime import jobs
from awm_hub.runtime.limits import Limits
from awm_hub.synthesis.products import read_sql
from awm_hub.synthesis.stages.sample_data import check, prompt, render

BOOKING = (
    "INSERT INTO bookings (id, member_id, course_id, note, created_at) VALUES (1, 3, 1, '', '2026-05-20 10:15:00'), "
)
MEMBER = (
    "INSERT INTO members (id, full_name, email, joined_on) VALUES "
    "(1, 'A', 'a', '2021-03-15'), (2, 'B', 'b', '2022-01-01'), "
)
ROOMS = "CREATE TABLE rooms (id INTEGER PRIMARY KEY, built_on TEXT, paid_on TEXT, ends_on TEXT, label TEXT);"


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Builds that stop after a second."""
    monkeypatch.setattr(jobs, "Limits", lambda: Limits(load_s=1.0))


async def told(sql: str) -> list[str]:
    return [str(p) for p in await check(with_sql(with_sizes(climbing(), rows=5), "sample_data", sql))]


async def test_good_sample_data_passes() -> None:
    assert await check(climbing()) == ()


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (
            f"{BOOKING} (2, 33, 3, 'x', '2026-05-20 10:15:00'), (3, 34, 99, '', '2026-05-20 10:15:00');",
            "[seed_error: bookings] 2 rows do not load: FOREIGN KEY constraint failed; the first is (2, 33, 3, 'x', "
            "'2026-05-20 10:15:00'): members has no id 33",
        ),
        (
            f"{BOOKING} (1, 3, 1, '', '2026-05-20 10:15:00');",
            "[seed_error: bookings] a row does not load: UNIQUE constraint failed: bookings.id; it is (1, 3, 1, '', "
            "'2026-05-20 10:15:00')",
        ),
        (
            "INSERT INTO bookings (id, member, course_id) VALUES (1, 3, 1);",
            "[seed_error: bookings] a row does not load: table bookings has no column named member; it is (1, 3, 1): "
            "it has id, member_id, course_id, note, created_at",
        ),
        (
            f"{MEMBER} (3, 'C', 'c', '2026-02-30');",
            "[seed_error: members] a row does not load: CHECK constraint failed: joined_on IS date(joined_on, '+0 "
            "days'); it is (3, 'C', 'c', '2026-02-30')",
        ),
        (f"{BOOKING} (2, 3, 3, '', CURRENT_TIMESTAMP);", "CURRENT_TIMESTAMP"),
        (f"{BOOKING} (2, 3, 3, '', datetime('2026-01-01'));", "datetime"),
        (f"{BOOKING} (2, 3, abs(random() % 3) + 1, '', '2026-05-20 10:15:00');", "abs, random"),
        (f"{BOOKING} (2, (SELECT max(id) FROM members), 3, '', '2026-05-20 10:15:00');", "SELECT, max, id, FROM"),
        (
            f"{BOOKING} (2, 3, 3, '', '2026-06-01 08:00:01');",
            "[date_after_clock: bookings] created_at is later than now (2026-06-01 08:00) in id 2 "
            "(2026-06-01 08:00:01)",
        ),
        (
            f"{BOOKING} (2, 3, 3, '', '2026-05-32 08:00:00');",
            "[date_malformed: bookings] created_at holds no day of the calendar in id 2 (2026-05-32 08:00:00); write "
            "YYYY-MM-DD",
        ),
        (
            f"{BOOKING} (2, 3, 3, '', '2026-05-30');",
            "[date_forms: bookings] created_at holds several forms, which do not compare: 0000-00-00, "
            "0000-00-00 00:00:00",
        ),
        (
            f"{BOOKING} (2, 3, 3, '', '2004-05-30 08:00:00');",
            "[date_far: bookings] created_at is more than 20 years off in id 2 (2004-05-30 08:00:00)",
        ),
        (
            "INSERT INTO course (id, title, starts_on, price_cents) VALUES (4, 'x', '2026-06-09', 1);",
            "[unknown_table: course] the schema has no such table; did you mean 'courses'?",
        ),
        (
            "INSERT INTO bookings VALUES (2, 3, 3, '', '2026-05-20 10:15:00');",
            "[seed_form: bookings] only INSERT INTO table (columns) VALUES rows belongs here: INSERT INTO bookings "
            "VALUES (2, 3, 3, '', '2026-05-20 10:15:00')",
        ),
    ],
)  # fmt: skip
async def test_each_slip_is_one_problem(sql: str, expected: str) -> None:
    if not expected.startswith("["):
        expected = f"[seed_not_literal: bookings] rows hold {expected}: write numbers, 'texts' and NULL only"
    found = [line for line in await told(sql) if not line.startswith("[empty_tables")]
    assert [line for line in found if line.startswith(expected.partition("]")[0])] == [expected]
    assert {line.partition(":")[0] for line in found} <= {expected.partition(":")[0]}


async def test_rows_of_a_parent_that_fail_are_named_with_the_children_that_miss_them() -> None:
    found = await told(f"{MEMBER} (3, 'C', 'a', '2024-01-01');")
    assert found == [
        "[seed_error: bookings] 2 rows do not load: FOREIGN KEY constraint failed; the first is (1, 3, 1, '', "
        "'2026-05-20 10:15:00'): members has no id 3 (rows of members do not load either)",
        "[seed_error: members] a row does not load: UNIQUE constraint failed: members.email; it is (3, 'C', 'a', "
        "'2024-01-01')",
        "[empty_tables: bookings] the table has no rows",
    ]


async def test_too_few_rows_are_counted() -> None:
    (problem,) = await check(with_sizes(climbing(), rows=9))
    assert str(problem) == "[too_few_rows] 8 rows are there; at least 9 are wanted"


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["notes"], [("empty_tables", "notes", "warning")]),
        (["audit_entries", "status_history"], []),
        (["a", "b", "audit_entries"], [("empty_tables", "", "error")]),
    ],
)
async def test_at_most_two_tables_stay_empty(names: list[str], expected: list[tuple[str, str, str]]) -> None:
    ddl = "".join(f"CREATE TABLE {name} (id INTEGER PRIMARY KEY);" for name in names)
    found = await check(with_sql(climbing(), "database", ddl))
    assert [(p.rule, p.subject, p.severity) for p in found] == expected


@pytest.mark.parametrize(
    ("values", "rules"),
    [
        ("'1950-01-01', '2026-05-31', '2026-12-31', '2026-02-31x'", []),
        ("NULL, '2026-06-02', NULL, ''", ["date_after_clock"]),
        ("NULL, NULL, '12/31/2026', ''", ["date_malformed"]),
        ("NULL, NULL, '2099-12-31', ''", ["date_far"]),
        ("NULL, NULL, 'never', ''", []),
    ],
)
async def test_days_are_judged_by_the_names_of_their_columns(values: str, rules: list[str]) -> None:
    draft = with_sql(climbing(), "database", ROOMS)
    sql = f"INSERT INTO rooms (id, built_on, paid_on, ends_on, label) VALUES (1, {values});"
    assert [p.rule for p in await check(with_sql(draft, "sample_data", sql))] == rules


async def test_a_text_that_a_query_quotes_has_to_be_there() -> None:
    instruction = (
        'What does "Lead Basic Two" cost on the 4th of June? Answer with a number, or "none" if it is not held.'
    )
    asked = {"kind": "query", "instruction": instruction}
    (problem,) = await check(with_values(climbing(), "task", price_of_lead_basics=asked))
    assert (
        str(problem) == "[literal_unknown: price_of_lead_basics] the task quotes 'Lead Basic Two', which no row holds"
    )
    assert problem.severity == "warning"


async def test_a_quote_that_is_not_doubled_is_explained() -> None:
    draft = climbing()
    text = "INSERT INTO bookings (id, member_id, course_id, note) VALUES (1, 3, 1, 'x' y 'z');"
    found = await check(draft.having("sample_data", {**draft.parts("sample_data"), "bookings": text}))
    assert "a quote inside a text is doubled" in "\n".join(p.message for p in found if p.rule == "seed_error")


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize(
    "value",
    [
        "(WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n)",
        "zeroblob(1000000000)",
        "hex(zeroblob(500000000))",
        "load_extension('x')",
        "readfile('/etc/passwd')",
    ],
)
async def test_hostile_values_are_problems(value: str) -> None:
    found = await told(f"{BOOKING} (2, 3, 3, {value}, '2026-05-20 10:15:00');")
    assert any(line.startswith("[seed_not_literal: bookings]") for line in found)
    assert any(line.startswith(("[seed_error: bookings]", "[build_stopped: bookings]")) for line in found)


@pytest.mark.parametrize(
    "text", ["ATTACH 'x' AS y;", "PRAGMA foreign_keys = OFF;", "DELETE FROM members;", "INSERT", ""]
)
async def test_other_statements_are_problems(text: str) -> None:
    draft = climbing()
    found = await check(draft.having("sample_data", {**draft.parts("sample_data"), "bookings": text}))
    assert "error" in {p.severity for p in found}


async def test_the_same_product_gives_the_same_problems() -> None:
    draft = with_sql(climbing(), "sample_data", f"{BOOKING} (2, 33, 3, 'x', datetime('now')), (3, 34, 99, '', '');")
    assert await check(draft) == await check(draft)


def test_the_product_is_shown_in_the_form_of_an_answer() -> None:
    parts = climbing().parts("sample_data")
    assert read_sql(render(parts)).parts == parts


def test_the_prompt_says_how_many_rows() -> None:
    assert "at least 8 rows" in prompt(climbing())


@pytest.mark.parametrize("number", ["1e999", "9" * 400])
async def test_a_number_that_sqlite_turns_into_infinity_is_told(number: str) -> None:
    draft = with_sql(climbing(), "database", "CREATE TABLE fees (id INTEGER PRIMARY KEY, amount REAL);")
    draft = with_sizes(with_sql(draft, "sample_data", f"INSERT INTO fees (id, amount) VALUES (1, {number});"), rows=5)
    expected = "[seed_not_finite: fees] amount holds a number that is too large to be stored"
    assert expected in map(str, await check(draft))

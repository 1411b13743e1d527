"""Tables as HTML: what a call changed is marked, comes first, and is told in words as well."""

import re
from typing import Any

import awm_hub
from awm_hub.playground import changes
from awm_hub.playground.changes import result_html, tables_html
from awm_hub.runtime import jobs, pages
from awm_hub.trajectory import RowChange, StateDiff, Step, TableDiff, ToolResult


def table(columns: str, *rows: list[Any], total: int | None = None) -> dict[str, Any]:
    return {"columns": columns.split(), "rows": [*rows], "total": len(rows) if total is None else total}


DUMP = {
    "authors": table("id name", [1, "Ada"]),
    "books": table("id title note", [1, "Emma", None], [2, "Persuasion", "new"], [4, "Ulysses", None]),
}
DIFF = StateDiff(
    {
        "books": TableDiff(
            added=({"id": 4, "title": "Ulysses", "note": None},),
            removed=({"id": 3, "title": "Lost", "note": None},),
            changed=(
                RowChange(
                    key={"id": 2},
                    before={"id": 2, "title": "Persuasion", "note": None},
                    after={"id": 2, "title": "Persuasion", "note": "new"},
                ),
            ),
        )
    }
)


def rows_of(found: str) -> list[str]:
    """The text of each row of the tables' bodies."""
    bodies = re.findall("<tbody>(.*?)</tbody>", found, re.DOTALL)
    return [
        " | ".join(re.sub("<.*?>", "", cell) for cell in re.findall("<t[hd].*?</t[hd]>", row))
        for body in bodies
        for row in re.findall("<tr.*?</tr>", body)
    ]


def test_what_changed_comes_first_with_marks_and_what_was_there_before() -> None:
    found = tables_html(DUMP, DIFF)
    assert rows_of(found) == [
        "~ | 2 | Persuasion | NULL → new",
        "+ | 4 | Ulysses | NULL",
        "− | 3 | Lost | NULL",
        " | 1 | Emma | NULL",
        " | 1 | Ada",
    ]
    assert "<del>NULL</del>" in found
    assert "<ins>new</ins>" in found
    assert re.sub("<.*?>", "", found[: found.index("<details")]) == "3 rows changed in 1 table+1−1~1"


def test_tables_that_changed_are_open_and_the_others_are_folded() -> None:
    found = tables_html(DUMP, DIFF)
    opened = re.findall("<details( open)?.*?><summary><b>(.*?)</b>", found)
    assert opened == [(" open", "books"), ("", "authors")]


def test_what_did_not_change_is_marked_so_that_the_page_can_leave_it_out() -> None:
    found = tables_html(DUMP, DIFF)
    assert re.findall('<details class="awm-still"><summary><b>(.*?)</b>', found) == ["authors"]
    still = re.findall('<tr class="awm-still">(.*?)</tr>', found)
    assert [re.sub("<.*?>", " ", row).split() for row in still] == [["1", "Emma", "NULL"], ["1", "Ada"]]


def test_nothing_changed_is_told() -> None:
    found = tables_html(DUMP, StateDiff())
    assert "No row changed." in found
    assert " open" not in found
    assert len(rows_of(found)) == 4


def test_a_table_that_is_gone_still_shows_what_it_lost() -> None:
    found = tables_html({}, StateDiff({"old": TableDiff(removed=({"id": 1},))}))
    assert rows_of(found) == ["− | 1"]
    assert "0 rows" in found


def test_equal_rows_are_marked_as_often_as_they_were_added() -> None:
    dump = {"log": table("word", ["a"], ["a"], ["a"])}
    found = tables_html(dump, StateDiff({"log": TableDiff(added=({"word": "a"}, {"word": "a"}))}))
    assert rows_of(found) == ["+ | a", "+ | a", " | a"]


def test_a_changed_row_beyond_those_that_were_read_is_shown() -> None:
    dump = {"books": table("id title", [1, "Emma"], total=500)}
    change = RowChange(key={"id": 400}, before={"id": 400, "title": "x"}, after={"id": 400, "title": "y"})
    found = tables_html(dump, StateDiff({"books": TableDiff(changed=(change,))}))
    assert rows_of(found)[0] == "~ | 400 | x → y"
    assert "more rows without a change" in found


def test_large_tables_and_long_cells_are_cut_and_say_so() -> None:
    dump = {"big": table("id text", *([i, "x" * 5000] for i in range(200)), total=12_345)}
    found = tables_html(dump, StateDiff())
    assert len(rows_of(found)) == 25
    assert "… 12,320 more rows without a change." in found
    assert "x" * 90 not in re.sub(' title=".*?"', "", found)
    many = StateDiff({"big": TableDiff(added=tuple({"id": i, "text": "n"} for i in range(1000, 1300)))})
    found = tables_html(dump, many)
    assert "… 200 more changed rows." in found
    assert len(found) < 200_000


def test_values_that_are_no_text_are_told_from_texts() -> None:
    dump = {"t": table("a b c d", [1.5, {"blob": "AAAA"}, {"real": "inf"}, "NULL"])}
    found = tables_html(dump, StateDiff())
    assert rows_of(found) == [" | 1.5 | 3 bytes | {&quot;real&quot;:&quot;inf&quot;} | NULL"]
    assert "awm-null" not in found


def test_hostile_names_and_cells_are_shown_as_text() -> None:
    evil = '"><script>alert(1)</script>\x1b[2J\u202e'
    dump = {evil: {"columns": [evil], "rows": [[evil]], "total": 1}}
    change = RowChange(key={evil: evil}, before={evil: "a"}, after={evil: evil})
    step = Step(tool=evil, arguments={}, result=ToolResult(type="ok", value={evil: [evil]}), state_version=1)
    refused = Step(tool="t", arguments={}, result=ToolResult(type=evil, code=evil, message=evil), state_version=1)
    diff = StateDiff({evil: TableDiff(added=({evil: evil},), changed=(change,))})
    for found in (tables_html(dump, diff), result_html(step), result_html(refused)):
        assert "<script" not in found
        assert "\x1b" not in found
        assert "\u202e" not in found
        assert "&lt;script&gt;" in found


def test_a_result_tells_its_type_and_its_value_or_message() -> None:
    ok = result_html(Step(tool="get", arguments={}, result=ToolResult(type="ok", value={"a": [1]}), state_version=1))
    assert "✓ ok" in ok
    assert "[1]" in ok
    answer = ToolResult(type="refused", code="not_found", message="No such loan.")
    refused = result_html(Step(tool="get", arguments={}, result=answer, state_version=1))
    assert "refused" in refused
    assert "not_found" in refused
    assert "No such loan." in refused


async def test_the_changes_of_a_real_call_are_marked_in_the_real_tables() -> None:
    environment = awm_hub.load()["field_service_1"]
    async with awm_hub.aio.launch(environment) as instance:
        result = await instance.call_tool("update_customer_contact", {"customer_id": 1, "phone": "12345"})
        assert result.is_ok
        diff, trajectory = await instance.diff(), await instance.trajectory()
    final = pages.apply(environment.database, trajectory.database_delta)
    found = tables_html(await jobs.dump(final, max_rows=50, trust_remote_code=True), diff)
    assert rows_of(found)[0].startswith("~ | 1 | ")
    assert " → 12345 | " in rows_of(found)[0]
    assert found.count("<details") == len(environment.tables)


def test_what_is_kept_of_tables_has_a_bound() -> None:
    changes._still.cache_clear()
    small, huge = ({"columns": ["a"], "rows": [["x" * size]], "total": 1} for size in (10, 10**6))
    for _ in range(2):
        shown = tables_html({"small": small, "huge": huge}, StateDiff())
    assert "small" in shown
    assert "huge" in shown
    assert (changes._still.cache_info().currsize, changes._still.cache_info().hits) == (1, 1)

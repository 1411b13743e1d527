import copy
from pathlib import Path
from typing import Any

import pytest
from synthesis.rowing import CODE, TOOLS, rowing

from awm_hub.auditing import RULES
from awm_hub.auditing.findings import finding
from awm_hub.synthesis import prompting
from awm_hub.synthesis.drafts import Draft
from awm_hub.synthesis.problems import STAGES, Problem
from awm_hub.synthesis.stages import code
from awm_hub.synthesis.stages.reading import definition_at, read

MARK = '''class _Mark(TypedDict):
    """A mark.

    Args:
        at: Where it is.
    """

    at: int


'''


def spoilt(*changes: tuple[str, str]) -> Draft:
    """The draft with parts of its code replaced."""
    text = CODE
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    return rowing(text)


def with_tool(name: str, **changes: Any) -> Draft:
    """The draft with one tool of its toolset changed, and the code left as it is."""
    return rowing(tools={**TOOLS, name: {**copy.deepcopy(TOOLS[name]), **changes}})


async def found_in(draft: Draft) -> list[tuple[str, str]]:
    return [(p.rule, p.subject) for p in await code.check(draft)]


def messages(problems: tuple[Problem, ...], rule: str) -> list[str]:
    return [p.message for p in problems if p.rule == rule]


async def test_right_code_passes() -> None:
    assert await code.check(rowing()) == ()


# What the text shows


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("import sqlite3\n", "import sqlite3\nimport os, subprocess\n", [("import", ""), ("import", "")]),
        (
            "    if not 1 <= limit",
            "    from socket import socket\n    if not 1 <= limit",
            [("import", "search_members")],
        ),
        ("    boat = _one", "    open('/etc/passwd')\n    boat = _one", [("call", "book_boat"), ("call", "get_boat")]),
        ("import sqlite3\n", "import sqlite3\n_X = __import__('os')\n", [("call", "")]),
        ("import sqlite3\n", "import sqlite3\n_X = ().__class__.__mro__\n", [("call", "")] * 2),
        ("import sqlite3\n", "import sqlite3\nraise SystemExit(1)\n", [("no_refusal", ""), ("top_level", "")]),
        ("import sqlite3\n", "import sqlite3\nwhile True:\n    pass\n", [("top_level", "")]),
        ("import sqlite3\n", "import sqlite3\nexit(3)\n", [("call", ""), ("top_level", "")]),
    ],
)
async def test_code_that_reaches_out_is_not_run(before: str, after: str, expected: list[tuple[str, str]]) -> None:
    assert await found_in(spoilt((before, after))) == expected


def test_exceptions_that_are_no_refusals_are_named() -> None:
    [problem] = read(spoilt(("raise RuntimeError(f", "raise KeyError(f")).code)
    assert (problem.rule, problem.subject) == ("no_refusal", "book_boat")
    assert "KeyError is a crash for the agent; refuse with one of LookupError" in problem.message


@pytest.mark.parametrize("caught", ["", "Exception", "sqlite3.IntegrityError", "(ValueError, sqlite3.Error)"])
def test_a_handler_that_hides_faults_of_the_database_is_refused(caught: str) -> None:
    draft = spoilt(("    except ValueError:", f"    except {caught}:".replace(" :", ":")))
    assert [(p.rule, p.subject) for p in read(draft.code)] == [("broad_except", "_day")]


async def test_state_of_the_module_is_refused_once() -> None:
    draft = spoilt(
        ("import sqlite3\n", "import sqlite3\n\n_SEEN = []\n"),
        ('    boat["bookings"]', '    _SEEN.append(boat_id)\n    boat["bookings"]'),
    )
    assert [rule for rule in await found_in(draft) if rule[0] == "hidden_state"] == [("hidden_state", "get_boat")]


async def test_a_tool_that_is_defined_twice_is_refused() -> None:
    twice = CODE + '\n\ndef get_boat(db: sqlite3.Connection, boat_id: int) -> dict:\n    """Other."""\n    return {}\n'
    [problem] = await code.check(rowing(twice))
    assert (problem.rule, problem.stage) == ("does_not_build", "code")
    assert "get_boat is defined in line" in problem.message


# What the build shows


async def test_code_that_does_not_load_is_told_with_its_definition() -> None:
    draft = spoilt(("def get_boat(db: sqlite3.Connection, boat_id: int)", "def get_boat(boats, boat_id)"))
    [problem] = await code.check(draft)
    assert (problem.rule, problem.subject) == ("does_not_build", "get_boat")
    assert "/tmp" not in problem.message


async def test_a_module_that_fails_while_it_loads_is_a_problem() -> None:
    [problem] = await code.check(spoilt(("import sqlite3\n", "import sqlite3\n_X = 1 // 0\n")))
    assert problem.rule == "does_not_build"
    assert "ZeroDivisionError" in problem.message


@pytest.mark.slow
async def test_a_module_that_never_ends_loading_is_a_problem() -> None:
    [problem] = await code.check(spoilt(("import sqlite3\n", "import sqlite3\n_X = sum(1 for _ in iter(int, 1))\n")))
    assert problem.rule == "does_not_load"
    assert "at the code" in problem.message


async def test_a_schema_that_fails_after_all_belongs_to_the_database() -> None:
    draft = rowing().having("database", {"table members": "CREATE TABLE members (id INTEGER PRIMARY KEY, full_name)"})
    assert [(p.stage, p.rule) for p in await code.check(draft)] == [("database", "does_not_build")]


# Code and toolset


async def test_tools_that_are_missing_or_extra_are_named() -> None:
    assert await found_in(spoilt(("def get_boat(", "def show_boat("))) == [
        ("tool_extra", "show_boat"),
        ("tool_missing", "get_boat"),
    ]


async def test_parameters_that_differ_are_told_before_anything_is_built() -> None:
    draft = spoilt(
        ("boat_id: int, member_id: int, day: str", "boat_id, member_id, day, seats"), ('query: str = "", ', "")
    )
    assert messages(await code.check(draft), "parameter_differs") == [
        "it has the parameter seats, which the toolset does not have",
        "it lacks the parameter query, which the toolset has",
    ]


async def test_types_defaults_and_documentation_are_those_of_the_toolset() -> None:
    draft = spoilt(
        ("boat_id: int, member_id: int, day: str", "boat_id: str, member_id: int = 1, day: str = ''"),
        ('Literal["novice", "racing"]', 'Literal["novice", "master"]'),
        ("limit: int = 20", "limit: int = 10"),
        ("        member_id: Id of the member.\n", ""),
    )
    assert await code.check(draft) == ()


async def test_an_effect_that_the_code_does_not_have_is_told() -> None:
    problems = await code.check(with_tool("get_boat", effect="write"))
    assert [(p.rule, p.subject) for p in problems] == [("effect_differs", "get_boat")]
    [told] = messages(await code.check(with_tool("book_boat", effect="read")), "effect_differs")
    assert told.startswith("the toolset says read, and its code reaches a statement that writes")


async def test_optional_and_typed_dicts_are_other_words_for_the_same() -> None:
    marks = {"type": "list[dict] | None", "description": "Marks.", "default": None}
    parameters = {**TOOLS["get_boat"]["parameters"], "marks": marks}
    draft = rowing(
        CODE.replace("import Literal", "import Literal, Optional, TypedDict")
        .replace("boat_id: int) -> dict:", "boat_id: int, marks: Optional[list[_Mark]] = None) -> dict:")
        .replace("        boat_id: Id of the boat.\n", "        boat_id: Id of the boat.\n        marks: Marks.\n", 1)
        .replace("def get_boat", f"{MARK}def get_boat"),
        {**TOOLS, "get_boat": {**TOOLS["get_boat"], "parameters": parameters}},
    )
    assert await code.check(draft) == ()


# What calls show


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("level = ?2)", "1)", ("filter_ignored", "search_members")),
        ("LIMIT ?3", "LIMIT ?3 + 1", ("limit_wrong", "search_members")),
        ("1 <= limit <= 50", "1 <= limit < 50", ("range_wrong", "search_members")),
        ("1 <= limit <= 50", "limit <= 50", ("range_wrong", "search_members")),
        ("FROM bookings WHERE boat_id = ? ORDER", "FROM bookings WHERE ? > 0 ORDER", ("foreign_rows", "get_boat")),
        ("if _day(day) <", "if date.fromisoformat(day).isoformat() <", ("fuzz_fault", "book_boat")),
        ('    boat["bookings"] =', '    boat["bookings"] = boat["booked"] or', ("tool_never_answers", "get_boat")),
        ('    _one(db, "member"', '    0 and _one(db, "member"', ("unknown_id", "book_boat")),
        (
            '        raise LookupError(f"there',
            '        return {}\n        raise LookupError(f"there',
            ("unknown_id", "get_boat"),
        ),
    ],
)
async def test_what_a_tool_answers_wrongly_is_a_problem_of_the_code(
    before: str, after: str, expected: tuple[str, str]
) -> None:
    problems = await code.check(spoilt((before, after)))
    assert expected in [(p.rule, p.subject) for p in problems]
    assert {p.stage for p in problems} <= {"code"}


@pytest.mark.parametrize(
    ("line", "code_of_fault"),
    [
        ("while True:\n        pass", "deadline"),
        (
            '_rows(db, "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n")',
            "deadline",
        ),
        ('boat["name"] = "x" * 10**11', "memory_limit"),
    ],
)
async def test_a_tool_that_never_ends_or_takes_all_memory_is_reported_and_the_audit_left_out(
    line: str, code_of_fault: str
) -> None:
    [problem] = await code.check(spoilt(('    boat["bookings"]', f'    {line}\n    boat["bookings"]')))
    assert (problem.rule, problem.subject) == ("tool_fault", "get_boat")
    assert f'get_boat({{"boat_id":1}}) is fault {code_of_fault}' in problem.message


async def test_problems_are_the_same_each_time() -> None:
    draft = spoilt(('    boat["bookings"]', '    [].index(db.cursor())\n    boat["bookings"]'))
    first, second = await code.check(draft), await code.check(draft)
    assert first == second
    assert [(p.rule, p.subject) for p in first] == [
        ("nondeterministic", "get_boat"),
        ("tool_never_answers", "get_boat"),
    ]
    assert "Cursor object at 0x…" in first[1].message


async def test_a_refusal_of_every_made_up_call_is_no_problem_unless_nothing_is_found() -> None:
    refusing = spoilt(('    if boat["status"] !=', '    if boat["seats"] < 99 or boat["status"] !='))
    assert await found_in(refusing) == []
    finding_none = spoilt(
        (
            'SELECT * FROM boats WHERE id = ?", boat_id)\n    _one',
            'SELECT * FROM boats WHERE -id = ?", boat_id)\n    _one',
        )
    )
    assert await found_in(finding_none) == [("tool_untried", "book_boat")]


# Findings of the audit


def test_every_rule_of_the_audit_belongs_to_a_stage() -> None:
    assert code.STAGE_OF_RULE.keys() == RULES.keys()
    assert set(code.STAGE_OF_RULE.values()) <= set(STAGES)


def test_a_finding_becomes_a_problem_that_says_what_to_do() -> None:
    found = code.problem_of(finding("filter_ignored", "search_members", "level is ignored"))
    assert found == Problem(
        stage="code",
        rule="filter_ignored",
        subject="search_members",
        message="a filter changes nothing; apply the parameter in the query: level is ignored",
    )


def test_steps_of_packing_are_left_out_and_infos_are_warnings() -> None:
    assert code.problem_of(finding("false_effect", "x", "told")).message == (
        "a tool that is said to read tries to write: told"
    )
    assert code.problem_of(finding("literal_unknown", "x", "told")).severity == "warning"


@pytest.mark.parametrize(
    ("message", "stage"),
    [("row 3 names a row that boats does not have", "sample_data"), ('foreign key mismatch - "a"', "database")],
)
def test_a_broken_foreign_key_belongs_to_the_rows_or_to_the_schema(message: str, stage: str) -> None:
    assert code.problem_of(finding("foreign_key", "bookings", message)).stage == stage


def test_a_line_belongs_to_a_definition_with_its_decorators() -> None:
    text = "import x\n\n@deco\ndef one():\n    pass\n\nY = 1\n"
    assert [definition_at(text, line) for line in (1, 3, 4, 5, 7, 99)] == ["", "one", "one", "one", "", ""]
    assert definition_at("def (", 1) == ""


# Prompts


@pytest.mark.parametrize("name", ["code", "code_fastapi", "fastapi"])
def test_prompts_are_short(name: str) -> None:
    assert 0 < len(prompting.fill(name).split()) <= 900


def test_the_example_of_the_prompt_is_without_fault() -> None:
    text = code.STAGE.prompt(rowing())
    module = code.products.write_python(code.STAGE.read(text).parts)
    assert read(module) == []


# The `fastapi` interface

API = (Path(__file__).parent / "rowing_api.txt").read_text(encoding="utf-8")


def api(*changes: tuple[str, str]) -> Draft:
    text = API
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    return rowing(text, interface="fastapi")


async def test_a_right_fastapi_module_passes_without_a_check_of_effects() -> None:
    assert await code.check(api()) == ()


async def test_operations_that_differ_from_the_toolset_are_told() -> None:
    draft = api(
        ('operation_id="get_boat"', 'operation_id="show_boat"'), ("member_id: int = Field", "member_id: str = Field")
    )
    assert [f for f in await found_in(draft) if f[0] != "tool_untried"] == [
        ("parameter_differs", "book_boat"),
        ("tool_extra", "show_boat"),
        ("tool_missing", "get_boat"),
    ]


async def test_a_fastapi_module_that_ends_the_process_is_a_problem() -> None:
    [problem] = await code.check(api(("import os\n", "import os\n\nos._exit(3)\n")))
    assert (problem.stage, problem.rule) == ("code", "does_not_load")


@pytest.mark.parametrize(
    "line", ["os._exit(3)", "open('/etc/passwd')", "__import__('socket').create_connection(('1.1.1.1', 80))"]
)
async def test_an_operation_that_reaches_out_is_a_problem(line: str) -> None:
    problems = await code.check(
        api(
            (
                "        boat = session.get(Boat, boat_id)\n",
                f"        {line}\n        boat = session.get(Boat, boat_id)\n",
            )
        )
    )
    assert {p.subject for p in problems} == {"get_boat"}

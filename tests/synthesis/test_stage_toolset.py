import copy
import json
from typing import Any

import pytest
from synthesis.rowing import TOOLS, rowing, written

from awm_hub.synthesis.products import AnswerError
from awm_hub.synthesis.stages import toolset
from awm_hub.synthesis.stages.annotations import AnnotationError, schema_of


async def found_in(**changes: Any) -> list[tuple[str, str, str]]:
    """Rule, subject and message of the problems with these tools changed; None takes a tool out."""
    tools = {name: tool for name, tool in {**TOOLS, **changes}.items() if tool is not None}
    problems = await toolset.check(rowing(tools=tools))
    assert all(p.stage == "toolset" for p in problems)
    return [(p.rule, p.subject, p.message) for p in problems]


def but(name: str, **changes: Any) -> dict[str, Any]:
    return {**copy.deepcopy(TOOLS[name]), **changes}


def with_parameter(told: Any, name: str = "seats") -> dict[str, Any]:
    return but("get_boat", parameters={**TOOLS["get_boat"]["parameters"], name: told})


async def test_a_complete_toolset_passes() -> None:
    assert await found_in() == []


async def test_too_few_tools_are_counted() -> None:
    assert ("too_few_tools", "", "there are 2 tools; at least 3 are needed") in await found_in(search_members=None)


async def test_both_effects_are_needed() -> None:
    assert ("effects", "", 'no tool has the effect "write"; both kinds are needed') in await found_in(
        book_boat=but("book_boat", effect="read")
    )


@pytest.mark.parametrize("name", ["BookBoat", "_book", "book-boat", "2_boats", "list", "import", "b" * 65, "ré_boat"])
async def test_a_name_that_no_function_can_have_is_refused(name: str) -> None:
    assert [
        (rule, subject) for rule, subject, _ in await found_in(**{name: but("get_boat", description="Other.")})
    ] == [("tool_name", name)]


async def test_two_tools_with_one_description_are_told_apart() -> None:
    problems = await found_in(show_boat=but("get_boat", description="show a boat  and its bookings."))
    assert problems == [("same_description", "show_boat", "get_boat has the same description; say what is different")]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("a text", "its value must be an object with the keys effect"),
        ({}, 'effect must be "read" or "write"'),
        (but("get_boat", effect="both"), 'effect must be "read" or "write"'),
        (but("get_boat", description=" "), "description must be a text that is not empty"),
        (but("get_boat", returns=None), "returns must be a text that is not empty"),
        (but("get_boat", refuses="no such boat"), "refuses must be a list of texts"),
        (but("get_boat", parameters=[]), "parameters must be an object"),
        (but("get_boat", tables=["ships"]), "tables names 'ships', which is no table or view"),
    ],
)
async def test_a_tool_that_breaks_the_form_is_told_which_key(value: Any, message: str) -> None:
    assert any(subject == "get_boat" and message in told for _, subject, told in await found_in(get_boat=value))


@pytest.mark.parametrize(
    ("type_", "message"),
    [
        ("Optional[int]", "write X | None"),
        ("datetime.date", "use str, and say YYYY-MM-DD"),
        ("Decimal", "use int in the smallest unit"),
        ("typing.List[int]", "write list[…]"),
        ("list", "say what the list holds"),
        ("Any", "say what it is"),
        ("integer", "use int"),
        ("None", "only int, str"),
        ("None | None", "only int, str"),
        ("", "only int, str"),
        ("int or None", "only int, str"),
        ("int |", "no Python annotation"),
        ("dict[int, str]", "only int, str"),
        ("Literal[1.5]", "quoted texts, or whole numbers"),
        ("Literal[red]", "quoted texts, or whole numbers"),
        ("Literal['a', None]", "None stands outside"),
        ("Literal[()]", "a Literal needs members"),
        ("list[" * 20 + "int" + "]" * 20, "nested too deeply"),
        ("(" * 900 + "int" + ")" * 900, "no Python annotation"),
        ("__import__('os').system('x')", "only int, str"),
        ("int\0", "no Python annotation"),
    ],
)
async def test_a_type_that_has_no_form_is_told_what_to_write(type_: str, message: str) -> None:
    if "\0" in type_:
        with pytest.raises(AnnotationError):
            schema_of(type_)
        return
    told = with_parameter({"type": type_, "description": "Seats."})
    [(rule, subject, found)] = await found_in(get_boat=told)
    assert (rule, subject) == ("parameter", "get_boat")
    assert found.startswith("seats: ")
    assert message in found


@pytest.mark.parametrize(
    ("text", "schema"),
    [
        ("int", {"type": "integer"}),
        ("str | None", {"anyOf": [{"type": "string"}, {"type": "null"}]}),
        ("None | float", {"anyOf": [{"type": "number"}, {"type": "null"}]}),
        ("list[dict]", {"type": "array", "items": {"type": "object"}}),
        ("dict[str, int]", {"type": "object", "additionalProperties": {"type": "integer"}}),
        ("Literal[1, -2]", {"type": "integer", "enum": [1, -2]}),
        ("list[Literal['a']]", {"type": "array", "items": {"type": "string", "enum": ["a"]}}),
        ("int | str | None", {"anyOf": [{"type": "integer"}, {"type": "string"}, {"type": "null"}]}),
    ],
)
def test_an_annotation_becomes_the_schema_that_the_runtime_gives(text: str, schema: dict[str, Any]) -> None:
    assert schema_of(text) == schema


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"type": "int", "description": "Seats.", "default": None}, "write the type as … | None"),
        ({"type": "int", "description": "Seats.", "default": True}, "the default true is not of the type int"),
        ({"type": "Literal['a']", "description": "Kind.", "default": "b"}, 'the default "b" is not of the type'),
        ({"type": "int", "description": ""}, "it needs a description"),
        ({"type": "int"}, "it needs a description"),
        ({"type": ["int"], "description": "Seats."}, 'its value must be {"type"'),
        ("int", 'its value must be {"type"'),
    ],
)
async def test_a_parameter_needs_description_and_a_default_of_its_type(told: Any, message: str) -> None:
    [(rule, _, found)] = await found_in(get_boat=with_parameter(told))
    assert rule == "parameter"
    assert message in found


@pytest.mark.parametrize("name", ["db", "class", "Seats", "from-day", "self"])
async def test_a_parameter_that_no_function_can_have_is_refused(name: str) -> None:
    problems = await found_in(get_boat=with_parameter({"type": "int", "description": "Seats."}, name))
    assert [rule for rule, _, _ in problems] == ["parameter"]


async def test_an_id_needs_a_tool_that_reads_its_table() -> None:
    problems = await found_in(get_boat=but("get_boat", tables=["bookings"]))
    assert ("id_not_found", "book_boat") in [(rule, subject) for rule, subject, _ in problems]


async def test_a_view_reads_the_tables_behind_it() -> None:
    view = {"view afloat": "CREATE VIEW afloat AS SELECT id, name FROM boats WHERE status = 'ready';"}
    draft = rowing().having("database", {**rowing().parts("database"), **view})
    tools = {**TOOLS, "get_boat": but("get_boat", tables=["afloat"])}
    assert await toolset.check(draft.having("toolset", written(tools))) == ()


async def test_the_first_twelve_problems_are_listed_and_the_rest_counted() -> None:
    problems = await found_in(**{f"Tool{n}": but("get_boat", description=f"Tool {n}.") for n in range(30)})
    assert len(problems) == 13
    assert problems[-1][2].startswith("18 more")


async def test_text_that_cannot_be_stored_is_a_problem() -> None:
    draft = rowing().having("toolset", {**written(TOOLS), "get_boat": json.dumps(but("get_boat", returns="a\0b"))})
    assert [p.rule for p in await toolset.check(draft)] == ["broken_text"]


def test_an_answer_is_one_object_of_tools() -> None:
    answer = toolset.STAGE.read(f"Here it is:\n```json\n{json.dumps(TOOLS)}\n```")
    assert list(answer.parts) == list(TOOLS)
    with pytest.raises(AnswerError):
        toolset.STAGE.read("I would rather not.")


def test_the_prompt_names_the_number_of_tools_and_stays_short() -> None:
    text = toolset.STAGE.prompt(rowing())
    assert "at least 3" in text
    assert len(text.split()) <= 900


async def test_the_example_of_the_prompt_passes_the_gate() -> None:
    answer = toolset.STAGE.read(toolset.STAGE.prompt(rowing()))
    assert list(answer.parts) == ["search_members", "book_boat"]
    draft = rowing().having("toolset", {**answer.parts, **written({"get_boat": TOOLS["get_boat"]})})
    assert await toolset.check(draft) == ()

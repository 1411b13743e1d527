"""Arguments for tools that nobody wrote examples for."""

import datetime as dt

from awm_hub.auditing.examples import ABSENT_NUMBER, Filling, Seed, choices_in, example_calls, odd_calls
from awm_hub.environment import Environment, ToolSpec

SEED = Seed(
    {
        "users": {"columns": ["id", "email"], "rows": [[7, "a@x.example"], [8, "b@x.example"]]},
        "categories": {"columns": ["id", "code", "name"], "rows": [[1, "toys", "Toys"], [2, None, "Books"]]},
    },
    dt.date(2026, 3, 2),
    {"status": ("new", "sent"), "cancellation_reason_code": ("illness",)},
)


def tool(**properties: dict[str, object]) -> ToolSpec:
    schema = {"type": "object", "properties": properties, "required": list(properties)[:1]}
    return ToolSpec(name="create_order", description="", input_schema=schema)


def test_a_parameter_takes_its_value_from_its_column_or_from_the_table_that_it_names() -> None:
    asked = tool(
        owner_user_id={"type": "integer"},
        category_id={"type": "integer"},
        category={"type": "string"},
        email={"anyOf": [{"type": "string"}, {"type": "null"}]},
    )
    found = Filling(SEED, row=1).arguments(asked)
    assert found == {"owner_user_id": 8, "category_id": 2, "category": "toys", "email": "b@x.example"}


def test_what_no_column_holds_is_made_from_type_description_and_checks() -> None:
    asked = tool(
        starts_on={"type": "string", "description": "First day, YYYY-MM-DD."},
        at={"type": "string", "description": "YYYY-MM-DDTHH:MM"},
        status={"type": "string"},
        reason_code={"type": "string"},
        colour={"type": "string", "enum": ["red", "blue"]},
        note={"type": "string", "maxLength": 4},
    )
    assert Filling(SEED).arguments(asked) == {
        "starts_on": "2026-03-03",
        "at": "2026-03-03T10:00",
        "status": "new",
        "reason_code": "illness",
        "colour": "red",
        "note": "text",
    }


def test_checks_of_the_schema_name_the_texts_that_columns_may_hold() -> None:
    checks = """a TEXT CHECK (a IN ('x', 'y z')), b INTEGER CHECK (b IN (1, 2)), "c" TEXT CHECK("c" IN ('k'))"""
    ddl = f"CREATE TABLE t ({checks})"
    assert choices_in([ddl]) == {"a": ("x", "y z"), "c": ("k",)}


def test_solutions_come_first_and_no_two_calls_are_alike(notes_environment: Environment) -> None:
    edit = notes_environment.tool("edit_note")
    seed = Seed({"notes": {"columns": ["id"], "rows": [[1], [2]]}})
    calls = example_calls(notes_environment, edit, seed)
    assert calls[0] == {"note_id": 1, "fields": {"due_on": "2026-03-06"}}
    assert all(call not in calls[:at] for at, call in enumerate(calls))


def test_one_argument_at_a_time_is_odd() -> None:
    asked = tool(count={"type": "integer"}, colour={"enum": ["red"]}, tags={"type": "array"})
    made = list(odd_calls(asked, {"count": 1, "colour": "red", "tags": ["a"]}))
    assert {name for name, _ in made} == {"count", "tags"}
    assert {2**63 - 1, -(2**63), 2**63} <= {arguments["count"] for _, arguments in made}
    assert ABSENT_NUMBER not in {arguments["count"] for _, arguments in made}


def test_hostile_schemas_give_something_quickly() -> None:
    loop: dict[str, object] = {"type": "array"}
    loop["items"] = {"anyOf": [loop]}
    for schema in (
        {"properties": 3},
        {"required": 5},
        {"properties": {"a": loop}},
        {"properties": {"a": {"enum": {}}}},
    ):
        assert isinstance(Filling(SEED).arguments(ToolSpec(name="t", description="", input_schema=schema)), dict)

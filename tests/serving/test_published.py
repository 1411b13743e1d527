"""What a client sees of an environment."""

import pytest
from jsonschema import Draft202012Validator

from awm_hub.environment import Environment, ToolSpec
from awm_hub.serving import published

NULL = {"type": "null"}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"anyOf": [{"type": "integer"}, NULL], "default": None}, {"type": "integer"}),
        ({"anyOf": [{"type": "string"}, NULL], "default": "x"}, {"type": "string", "default": "x"}),
        (
            {"description": "d", "anyOf": [{"type": "string", "enum": ["a"]}, NULL]},
            {"description": "d", "type": "string", "enum": ["a"]},
        ),
        (
            {"oneOf": [{"type": "string"}, {"type": "integer"}, {"type": "null", "title": "none"}]},
            {"oneOf": [{"type": "string"}, {"type": "integer"}]},
        ),
        ({"type": ["integer", "null"], "enum": [1, None]}, {"type": "integer", "enum": [1]}),
        ({"type": ["integer", "string", "null"]}, {"type": ["integer", "string"]}),
        (NULL, NULL),
        ({"anyOf": [NULL]}, {"anyOf": [NULL]}),
        ({"type": "string", "default": None}, {"type": "string", "default": None}),
        (
            {
                "type": "array",
                "items": {"anyOf": [{"type": "object", "properties": {"x": {"type": ["integer", "null"]}}}, NULL]},
            },
            {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "integer"}}}},
        ),
        ({"properties": {"anyOf": {"type": "string"}}}, {"properties": {"anyOf": {"type": "string"}}}),
        (True, True),
    ],
)
def test_a_plain_schema_has_no_null_in_its_unions(schema: object, expected: object) -> None:
    assert published.plain(schema) == expected


def test_plain_schemas_leave_every_parameter_of_one_type_and_change_nothing_else(made: Environment) -> None:
    spec = made.tool("add_note")
    before = repr(spec)
    plain = published.tool(spec, plain_schemas=True, publish_output_schemas=False)["inputSchema"]
    Draft202012Validator.check_schema(plain)
    assert {name: part["type"] for name, part in plain["properties"].items()} == {"text": "string", "mood": "string"}
    assert plain["properties"]["mood"]["enum"] == ["good", "bad"]
    assert plain["required"] == ["text"]
    assert repr(spec) == before


def test_a_tools_known_effect_is_published_and_an_unknown_one_is_not() -> None:
    def annotations(effect: str) -> object:
        spec = ToolSpec(name="t", description="d", input_schema={"type": "object"}, effect=effect)
        return published.tool(spec, plain_schemas=False, publish_output_schemas=False).get("annotations")

    assert annotations("read") == {"readOnlyHint": True, "openWorldHint": False}
    assert annotations("write") == {"readOnlyHint": False, "openWorldHint": False}
    assert annotations("unknown") is None


@pytest.mark.parametrize(
    ("schema", "is_published"), [({"type": "object"}, True), ({"type": "array"}, False), ({}, False), (None, False)]
)
def test_an_output_schema_is_published_on_request_where_it_is_an_object(
    schema: dict[str, object] | None, is_published: bool
) -> None:
    spec = ToolSpec(name="t", description="d", input_schema={"type": "object"}, output_schema=schema)
    assert "outputSchema" not in published.tool(spec, plain_schemas=False, publish_output_schemas=False)
    found = published.tool(spec, plain_schemas=False, publish_output_schemas=True)
    assert ("outputSchema" in found) is is_published


def test_the_instructions_hold_the_rules_and_the_task_only_where_there_is_one(made: Environment) -> None:
    briefing = "Notes\n\nA notebook.\n\nRules:\nBe brief.\n\nIt is Monday, 2 March 2026, 09:00 (UTC)."
    assert published.instructions(made, None) == made.briefing == briefing
    assert published.instructions(made, made.task("add_third")) == (f"{briefing}\n\nTask:\nAdd the note 'third'.")

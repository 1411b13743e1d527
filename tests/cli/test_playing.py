from typing import Any

import pytest

from awm_hub.cli.playing import COMMANDS, choices, completer, kind_of, tool_lines
from awm_hub.cli.terminal import Console
from awm_hub.environment import Environment, ToolSpec


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("fin", ["finish_note "]),
        ("su", ["submit "]),
        ("help get", ["get_note "]),
        ("call get", ["get_note "]),
        ("task jars", ["jars_for_jam"]),
        ("get_note ", ["note_id="]),
        ("call get_note n", ["note_id="]),
        ("search_notes status=open l", ["limit="]),
        ("search_notes status=", ["status=open ", "status=done "]),
        ("search_notes status=d", ["status=done "]),
        ("search_notes query=d", []),
        ("no_such x", []),
        ("submit get", []),
    ],
)
def test_the_tab_key_completes_what_can_come_next(line: str, found: list[str], notes_environment: Environment) -> None:
    assert completer(notes_environment)(line) == found


def test_an_empty_line_may_become_any_tool_or_command(notes_environment: Environment) -> None:
    found = completer(notes_environment)("")
    assert found == [f"{name} " for name in (*(t.name for t in notes_environment.tools), *COMMANDS)]


@pytest.mark.parametrize(
    ("schema", "kind", "values"),
    [
        ({"type": "integer"}, "integer", ()),
        ({"type": "boolean"}, "true|false", ("true", "false")),
        ({"enum": ["a", 1, None]}, "a|1|null", ("a", "1", "null")),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "string|null", ()),
        ({"anyOf": [{"enum": ["x"]}, {"type": "null"}]}, "x", ("x",)),
        ({"type": ["string", "null"]}, "any", ()),
        ({"enum": "x", "anyOf": 3, "type": 5}, "any", ()),
        ({}, "any", ()),
        (True, "any", ()),
        ({"enum": ["\x1b[2J"]}, "\\x1b[2J", ("\\x1b[2J",)),
    ],
)
def test_a_parameter_is_described_whatever_its_schema(schema: Any, kind: str, values: tuple[str, ...]) -> None:
    assert kind_of(schema) == kind
    assert choices(schema) == values


def test_a_tool_is_shown_with_its_parameters(notes_environment: Environment) -> None:
    assert list(tool_lines(notes_environment.tool("get_note"), Console(is_json=False))) == [
        "get_note  read",
        "Get one note with its tags.",
        "  note_id  integer  required  Which note.",
    ]


def test_a_tool_with_an_odd_schema_is_shown_as_well() -> None:
    schema = {"properties": ["x"], "required": "y"}
    tool = ToolSpec(name="odd", description="Odd.", input_schema=schema)
    assert list(tool_lines(tool, Console(is_json=False)))[-1] == "  it takes no arguments"

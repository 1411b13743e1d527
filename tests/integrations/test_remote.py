"""The tools behind an MCP URL work like those of an instance."""

import asyncio

import pytest

from awm_hub import errors
from awm_hub.environment import Environment
from awm_hub.integrations.remote import ServedTools, result_of, spec_of
from awm_hub.serving import ServerSettings, running_server
from awm_hub.trajectory import ToolResult


def text(value: str) -> dict[str, str]:
    """A part of a result."""
    return {"type": "text", "text": value}


def test_an_error_of_another_server_keeps_its_text() -> None:
    found = result_of({"content": [text("no such loan")], "isError": True})
    assert found == ToolResult(type="refused", message="no such loan")


def test_an_error_of_our_server_keeps_type_and_code() -> None:
    said = '{"error":{"code":"not_found","message":"no note 99","type":"refused"}}'
    found = result_of({"content": [text(said)], "isError": True})
    assert found == ToolResult(type="refused", code="not_found", message="no note 99")


def test_a_result_without_content_is_empty_and_one_of_several_parts_has_them_all() -> None:
    assert result_of({"content": [], "isError": False}).value == ""
    assert result_of({"content": [text("[1, 2]"), text("tail")], "isError": False}).value == "[1, 2]\ntail"
    assert result_of({"content": [{"type": "image", "data": ""}]}).value == "[image]"


def test_a_tool_without_description_and_schema_is_one() -> None:
    found = spec_of({"name": "no_args", "description": None})
    assert (found.description, found.input_schema, found.effect) == ("", {"type": "object"}, "unknown")


async def test_served_tools_answer_like_the_instance(notes_environment: Environment) -> None:

    def visit(url: str) -> tuple[list[str], list[ToolResult], str]:
        with ServedTools(url) as served:
            calls = [("get_note", {"note_id": 1}), ("get_note", {"note_id": 99}), ("get_note", {})]
            results = [served.call_tool(name, arguments) for name, arguments in calls]
            return [tool.name for tool in served.list_tools()], results, served.instructions

    environments = {"notes": notes_environment}
    async with running_server(environments, settings=ServerSettings(port=0)) as address:
        names, results, instructions = await asyncio.to_thread(visit, f"{address.url}/notes/mcp?key=mine")
    assert names == [tool.name for tool in notes_environment.tools]
    assert instructions == notes_environment.briefing
    assert [(r.type, r.code) for r in results] == [
        ("ok", None),
        ("refused", "not_found"),
        ("invalid_call", "invalid_arguments"),
    ]
    assert results[0].value.startswith('{"body":"The tap in the kitchen drips')


def test_where_no_server_is_there_is_no_connection() -> None:
    with pytest.raises(errors.RemoteError, match="no MCP server answers there"), ServedTools("http://127.0.0.1:9/mcp"):
        pass
    with pytest.raises(errors.RemoteError, match="there is no connection"):
        ServedTools("http://127.0.0.1:9/mcp").call_tool("x")

"""Tools over MCP: what an agent reads, and that instances stay apart."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest
from jsonschema import Draft202012Validator

from awm_hub.environment import Environment
from awm_hub.runtime import Limits
from awm_hub.serving import ServerSettings

Opened = Callable[..., Awaitable[dict[str, Any]]]


def wire(result: Any) -> dict[str, Any]:
    """A result as it was on the wire, whatever the major calls its fields."""
    found: dict[str, Any] = result.model_dump(by_alias=True, exclude_none=True)
    return found


def error(result: Any) -> dict[str, Any]:
    found = wire(result)
    assert found["isError"]
    assert "structuredContent" not in found
    details: dict[str, Any] = json.loads(found["content"][0]["text"])["error"]
    return details


async def test_the_toolset_is_published_as_it_is(opened: Opened, connect: Any, made: Environment) -> None:
    async with connect((await opened())["url"]) as client:
        tools = [wire(tool) for tool in (await client.list_tools()).tools]
    assert [t["name"] for t in tools] == [t.name for t in made.tools]
    assert [t["inputSchema"] for t in tools] == [t.input_schema for t in made.tools]
    assert not any("outputSchema" in t for t in tools)
    for tool in tools:
        Draft202012Validator.check_schema(tool["inputSchema"])


async def test_the_client_is_told_what_the_environment_is(
    opened: Opened, stranger: httpx.AsyncClient, briefing: str
) -> None:
    initialize = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": initialize}
    plain, with_task = await opened(), await opened(task="add_third")
    told = [(await stranger.post(i["url"], json=message)).json()["result"] for i in (plain, with_task)]
    assert told[0]["serverInfo"]["name"] == "awm-hub"
    assert told[0]["instructions"] == briefing
    assert told[1]["instructions"].endswith("\n\nTask:\nAdd the note 'third'.")


async def test_a_value_is_content_and_a_text_is_sent_as_it_is(opened: Opened, connect: Any) -> None:
    async with connect((await opened())["url"]) as client:
        text = 'it\'s "00123"\u2028\x00é'
        added = wire(await client.call_tool("add_note", {"text": text, "mood": "good"}))
        assert added["content"] == [{"type": "text", "text": '{"id":3,"mood":"good"}'}]
        assert added["isError"] is False
        assert "structuredContent" not in added
        read = wire(await client.call_tool("read_note", {"note_id": 3}))
        assert read["content"] == [{"type": "text", "text": text}]


async def test_what_went_wrong_is_told_by_type_and_code(opened: Opened, connect: Any) -> None:
    async with connect((await opened())["url"]) as client:
        refused = error(await client.call_tool("read_note", {"note_id": 99}))
        assert refused == {"type": "refused", "code": "not_found", "message": "no such note"}
        for name, arguments in (
            ("nope", {}),
            ("read_note", {}),
            ("read_note", {"note_id": "1"}),
            ("add_note", {"x": 1}),
        ):
            assert error(await client.call_tool(name, arguments))["type"] == "invalid_call"
        fault = error(await client.call_tool("fail", {}))
        assert (fault["type"], fault["code"]) == ("fault", "KeyError")


async def test_two_clients_on_two_instances_never_see_each_others_rows(opened: Opened, connect: Any) -> None:
    urls = [(await opened(name))["url"] for name in ("made", "made", "other")]

    async def work(number: int, url: str) -> list[str]:
        async with connect(url) as client:
            for step in range(15):
                await client.call_tool("add_note", {"text": f"{number}.{step}"})
                listed = wire(await client.call_tool("list_notes", {}))
                assert {t.split(".")[0] for t in json.loads(listed["content"][0]["text"])[2:]} == {str(number)}
            notes: list[str] = json.loads(listed["content"][0]["text"])
            return notes

    found = await asyncio.gather(*(work(n, url) for n, url in enumerate(urls)))
    assert found == [["first", "second", *(f"{n}.{s}" for s in range(15))] for n in range(3)]


async def test_calls_on_one_instance_take_effect_one_after_another(opened: Opened, connect: Any) -> None:
    async with connect((await opened())["url"]) as client:
        added = await asyncio.gather(*(client.call_tool("add_note", {"text": str(n)}) for n in range(20)))
    ids = sorted(json.loads(wire(a)["content"][0]["text"])["id"] for a in added)
    assert ids == list(range(3, 23))


async def test_a_worker_that_dies_is_a_fault_and_every_instance_lives_on(opened: Opened, connect: Any) -> None:
    async with connect((await opened())["url"]) as one, connect((await opened())["url"]) as two:
        await one.call_tool("add_note", {"text": "mine"})
        await two.call_tool("add_note", {"text": "yours"})
        assert error(await one.call_tool("die", {}))["type"] == "fault"
        ones, twos = [wire(await c.call_tool("list_notes", {}))["content"][0]["text"] for c in (one, two)]
        assert json.loads(ones) == ["first", "second", "mine"]
        assert json.loads(twos) == ["first", "second", "yours"]


class TestShortDeadlines:
    @pytest.fixture
    def settings(self) -> ServerSettings:
        return ServerSettings(port=0, token="the token", limits=Limits(call_soft_s=0.4, call_hard_s=2.0))

    async def test_an_endless_call_stops_nobody_else_and_leaves_the_database_as_it_was(
        self, opened: Opened, connect: Any
    ) -> None:
        async with connect((await opened())["url"]) as one, connect((await opened("other"))["url"]) as other:
            endless = asyncio.create_task(one.call_tool("add_then_spin", {}))
            quick = await asyncio.wait_for(other.call_tool("list_notes", {}), 5)
            assert not wire(quick)["isError"]
            assert not endless.done()
            assert error(await endless)["type"] == "fault"
            listed = wire(await one.call_tool("list_notes", {}))
            assert json.loads(listed["content"][0]["text"]) == ["first", "second"]

    async def test_a_client_that_leaves_in_the_middle_of_a_call_harms_nothing(
        self, opened: Opened, connect: Any, stranger: httpx.AsyncClient
    ) -> None:
        instance = await opened()
        call = {"name": "add_then_spin", "arguments": {}}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
        with pytest.raises(httpx.ReadTimeout):
            await stranger.post(instance["url"], json=message, timeout=httpx.Timeout(10, read=0.1))
        async with connect(instance["url"]) as client:
            listed = wire(await client.call_tool("list_notes", {}))
            assert json.loads(listed["content"][0]["text"]) == ["first", "second"]
        assert (await stranger.get("/health")).json()["status"] == "ok"


class TestPlainSchemas:
    @pytest.fixture
    def settings(self) -> ServerSettings:
        return ServerSettings(port=0, token="the token", plain_schemas=True)

    async def test_null_is_not_published_and_still_accepted(self, opened: Opened, connect: Any) -> None:
        async with connect((await opened())["url"]) as client:
            tools = {t["name"]: t for t in (wire(tool) for tool in (await client.list_tools()).tools)}
            properties = tools["add_note"]["inputSchema"]["properties"]
            assert all(isinstance(part["type"], str) for part in properties.values())
            for arguments in ({"text": "a", "mood": None}, {"text": "b"}):
                assert not wire(await client.call_tool("add_note", arguments))["isError"]
            assert error(await client.call_tool("add_note", {"text": "c", "mood": "null"}))["type"] == "invalid_call"


class TestOutputSchemas:
    @pytest.fixture
    def settings(self) -> ServerSettings:
        return ServerSettings(port=0, token="the token", publish_output_schemas=True)

    async def test_come_with_structured_content_where_the_result_is_an_object(
        self, opened: Opened, connect: Any
    ) -> None:
        async with connect((await opened())["url"]) as client:
            tools = {t["name"]: t for t in (wire(tool) for tool in (await client.list_tools()).tools)}
            assert {name for name, tool in tools.items() if "outputSchema" in tool} == {"add_note"}
            added = wire(await client.call_tool("add_note", {"text": "a"}))
            assert added["structuredContent"] == {"id": 3, "mood": None}
            assert "structuredContent" not in wire(await client.call_tool("list_notes", {}))
            assert error(await client.call_tool("add_note", {}))["type"] == "invalid_call"

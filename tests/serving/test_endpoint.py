"""What is checked on an MCP URL before the SDK sees a request, and which instance a request belongs to."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from awm_hub.serving import Address, ServerSettings
from awm_hub.serving.protocol import HANDSHAKE_VERSIONS, IS_V2, SUPPORTED_VERSIONS

Opened = Callable[..., Awaitable[dict[str, Any]]]
CLIENT = {"capabilities": {}, "clientInfo": {"name": "test", "version": "0"}}
LIST = {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}


def initialize(version: Any = "2025-06-18") -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": version, **CLIENT}}


def texts(session_result: Any) -> list[str]:
    found: list[str] = json.loads(session_result.content[0].text)
    return found


@pytest.mark.parametrize(("asked", "answered"), [*((v, v) for v in HANDSHAKE_VERSIONS), ("2031-01-01", "2025-11-25")])
async def test_initialize_negotiates_in_its_body(
    opened: Opened, stranger: httpx.AsyncClient, asked: str, answered: str
) -> None:
    instance = await opened()
    for headers in ({}, {"MCP-Protocol-Version": asked}):
        response = await stranger.post(instance["url"], json=initialize(asked), headers=headers)
        assert response.status_code == 200
        assert response.json()["result"]["protocolVersion"] == answered


async def test_a_request_without_a_version_is_served(opened: Opened, stranger: httpx.AsyncClient) -> None:
    instance = await opened()
    for headers in ({}, {"Accept": "text/event-stream"}, {"MCP-Protocol-Version": "2025-03-26"}):
        response = await stranger.post(instance["url"], json=LIST, headers=headers)
        assert response.status_code == 200
        assert len(response.json()["result"]["tools"]) == 8


@pytest.mark.parametrize("version", ["1999-01-01", "latest; drop", "2031-01-01", ""])
async def test_an_unsupported_version_is_refused_with_those_that_are(
    opened: Opened, stranger: httpx.AsyncClient, version: str
) -> None:
    instance = await opened()
    response = await stranger.post(instance["url"], json=LIST, headers={"MCP-Protocol-Version": version})
    assert response.status_code == 400
    assert response.json()["id"] == 2
    assert response.json()["error"]["code"] == -32022
    assert response.json()["error"]["data"] == {"supported": list(SUPPORTED_VERSIONS), "requested": version}


async def test_the_session_less_version_is_served_by_the_newer_major_alone(
    opened: Opened, stranger: httpx.AsyncClient
) -> None:
    instance = await opened()
    response = await stranger.post(instance["url"], json=LIST, headers={"MCP-Protocol-Version": "2026-07-28"})
    assert response.status_code == 400  # as the body says nothing about the client
    assert response.json()["error"]["code"] == (-32602 if IS_V2 else -32022)


@pytest.mark.parametrize("version", [20250618, None, ["2025-06-18"]])
async def test_a_version_that_is_no_text_is_refused(opened: Opened, stranger: httpx.AsyncClient, version: Any) -> None:
    instance = await opened()
    response = await stranger.post(instance["url"], json=initialize(version))
    assert response.status_code == 400
    assert response.json()["error"]["code"] == -32602
    assert response.json()["error"]["data"]["supported"] == list(SUPPORTED_VERSIONS)


@pytest.mark.parametrize("body", [[LIST, LIST], [], "tools/list", None])
async def test_a_body_that_is_not_one_message_is_refused(
    opened: Opened, stranger: httpx.AsyncClient, body: Any
) -> None:
    instance = await opened()
    response = await stranger.post(
        instance["url"], content=json.dumps(body), headers={"Content-Type": "application/json"}
    )
    assert response.status_code == 400
    assert response.json()["error"]["code"] == -32600
    assert response.json()["error"]["data"]["supported"] == list(SUPPORTED_VERSIONS)


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"])
async def test_there_is_no_stream_and_no_other_method(opened: Opened, stranger: httpx.AsyncClient, method: str) -> None:
    instance = await opened()
    response = await stranger.request(method, instance["url"], headers={"Accept": "text/event-stream"}, timeout=2)
    assert (response.status_code, response.headers["allow"]) == (405, "POST")
    assert method == "HEAD" or response.json()["error"]["next"] == "POST JSON-RPC messages to this URL"


async def test_each_session_has_an_instance_of_its_own_until_it_ends(
    controller: httpx.AsyncClient, address: Address, connect: Any
) -> None:
    url = f"{address.url}/made/mcp"
    async with connect(url) as one, connect(url) as two:
        await one.call_tool("add_note", {"text": "mine"})
        assert texts(await one.call_tool("list_notes", {})) == ["first", "second", "mine"]
        assert texts(await two.call_tool("list_notes", {})) == ["first", "second"]
        assert [i["opened_by"] for i in (await controller.get("/instances")).json()["instances"]] == ["session"] * 2
    assert (await controller.get("/instances")).json() == {"instances": []}


async def test_a_session_is_known_at_its_own_url_alone(opened: Opened, stranger: httpx.AsyncClient) -> None:
    response = await stranger.post("/made/mcp", json=initialize())
    session = {"mcp-session-id": response.headers["mcp-session-id"]}
    assert (await stranger.post("/made/mcp", json=LIST, headers=session)).status_code == 200
    assert (await stranger.post("/other/mcp", json=LIST, headers=session)).status_code == 404
    assert (await stranger.delete("/other/mcp", headers=session)).status_code == 404
    controllers = {"mcp-session-id": (await opened())["id"]}
    assert (await stranger.post("/made/mcp", json=LIST, headers=controllers)).status_code == 404
    assert (await stranger.delete("/made/mcp", headers=controllers)).status_code == 404
    assert (await stranger.delete("/made/mcp", headers=session)).status_code == 200
    ended = await stranger.post("/made/mcp", json=LIST, headers=session)
    assert (ended.status_code, ended.json()["error"]["type"]) == (404, "UnknownNameError")


async def test_a_request_without_session_or_key_is_told_of_the_ways(stranger: httpx.AsyncClient) -> None:
    response = await stranger.post("/made/mcp", json=LIST)
    assert response.status_code == 400
    assert response.json()["error"]["next"] == (
        "POST /instances and use the url it answers, or add ?key=NAME to this URL, or send initialize"
    )
    assert response.json()["error"]["data"]["supported"] == list(HANDSHAKE_VERSIONS)
    unknown = await stranger.post("/mad/mcp", json=LIST)
    assert unknown.status_code == 404
    assert unknown.json()["error"]["message"].startswith("no environment named 'mad'. Did you mean 'made'?")


async def test_an_initialize_that_fails_leaves_no_instance(
    controller: httpx.AsyncClient, stranger: httpx.AsyncClient
) -> None:
    broken = initialize()
    del broken["params"]["clientInfo"]
    response = await stranger.post("/made/mcp", json=broken)
    assert "mcp-session-id" not in response.headers
    assert response.json()["error"]["code"] == -32602
    assert (await controller.get("/instances")).json() == {"instances": []}


async def test_a_key_names_one_instance_per_environment(address: Address, connect: Any) -> None:
    async with connect(f"{address.url}/made/mcp?key=a") as one, connect(f"{address.url}/made/mcp?key=a") as same:
        await one.call_tool("add_note", {"text": "mine"})
        assert texts(await same.call_tool("list_notes", {})) == ["first", "second", "mine"]
    async with connect(f"{address.url}/made/mcp?key=a") as later:
        assert texts(await later.call_tool("list_notes", {})) == ["first", "second", "mine"]
    async with (
        connect(f"{address.url}/made/mcp?key=b") as other_key,
        connect(f"{address.url}/other/mcp?key=a") as other_environment,
    ):
        assert texts(await other_key.call_tool("list_notes", {})) == ["first", "second"]
        assert texts(await other_environment.call_tool("list_notes", {})) == ["first", "second"]


@pytest.mark.parametrize("key", ["", "a" * 129, "a%0Ab"])
async def test_a_key_is_short_and_printable(stranger: httpx.AsyncClient, key: str) -> None:
    response = await stranger.post(f"/made/mcp?key={key}", json=LIST)
    assert response.status_code == 400
    assert response.json()["error"]["message"].startswith("a key has 1 to 128 printable characters.")


@pytest.mark.skipif(not IS_V2, reason="mcp 1.x has no session-less client")
class TestASessionLessClient:
    async def test_works_on_an_instance_and_under_a_key(self, opened: Opened, address: Address, briefing: str) -> None:
        from mcp import Client

        for url in ((await opened())["url"], f"{address.url}/made/mcp?key=a"):
            async with Client(url) as client:
                assert client.protocol_version == "2026-07-28"
                assert client.instructions == briefing
                await client.call_tool("add_note", {"text": "mine"})
                assert texts(await client.call_tool("list_notes", {})) == ["first", "second", "mine"]

    async def test_falls_back_to_a_session_where_the_url_needs_one(self, address: Address) -> None:
        from mcp import Client

        async with Client(f"{address.url}/made/mcp") as client:
            assert client.protocol_version == "2025-11-25"
            assert texts(await client.call_tool("list_notes", {})) == ["first", "second"]


class TestASingleServer:
    @pytest.fixture
    def settings(self) -> ServerSettings:
        return ServerSettings(port=0, token="the token", single=True)

    async def test_shares_one_instance_per_environment(
        self, controller: httpx.AsyncClient, address: Address, connect: Any
    ) -> None:
        url = f"{address.url}/made/mcp"
        async with connect(url) as one, connect(url) as two, connect(f"{address.url}/other/mcp") as other:
            await one.call_tool("add_note", {"text": "ours"})
            assert texts(await two.call_tool("list_notes", {})) == ["first", "second", "ours"]
            assert texts(await other.call_tool("list_notes", {})) == ["first", "second"]
        found = (await controller.get("/instances")).json()["instances"]
        assert [(i["environment"], i["opened_by"]) for i in found] == [("made", "single"), ("other", "single")]

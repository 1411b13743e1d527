"""The controller's routes."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from awm_hub import __version__
from awm_hub.serving import ServerSettings

Opened = Callable[..., Awaitable[dict[str, Any]]]


async def call(client: httpx.AsyncClient, instance: dict[str, Any], tool: str, **arguments: Any) -> dict[str, Any]:
    params = {"name": tool, "arguments": arguments}
    response = await client.post(
        instance["url"], json={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    )
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()["result"]
    return found


async def test_an_instance_is_opened_with_all_a_controller_needs(controller: httpx.AsyncClient) -> None:
    response = await controller.post("/instances", json={"environment": "made", "task": "add_third", "seed": 7})
    found = response.json()
    assert response.status_code == 201
    assert response.headers["location"] == f"/instances/{found['id']}"
    assert len(bytes.fromhex(found["id"])) * 8 == 128
    assert {k: v for k, v in found.items() if k not in ("id", "url", "tier")} == {
        "environment": "made",
        "task": "made/add_third",
        "prompt": "Add the note 'third'.",
        "seed": 7,
        "tools_count": 8,
    }


async def test_what_was_done_is_seen_in_the_diff_and_judged_by_the_database(
    opened: Opened, controller: httpx.AsyncClient, stranger: httpx.AsyncClient
) -> None:
    instance = await opened(task="add_third")
    path = f"/instances/{instance['id']}"
    assert (await controller.get(f"{path}/diff")).json() == {"id": instance["id"], "diff": {}, "rows_count": 0}
    await call(stranger, instance, "add_note", text="third")
    diff = (await controller.get(f"{path}/diff")).json()
    assert diff["rows_count"] == 1
    assert [row["text"] for row in diff["diff"]["notes"]["added"]] == ["third"]
    verdict = await controller.post(f"{path}/judge", json={"answer": "Added."})
    assert verdict.status_code == 200
    assert verdict.json()["outcome"] == "COMPLETED"
    assert verdict.json()["judge"] == "decision"


async def test_judging_ends_the_episode_and_may_be_repeated_with_the_same_answer(
    opened: Opened, controller: httpx.AsyncClient, stranger: httpx.AsyncClient
) -> None:
    instance = await opened(task="add_third")
    path = f"/instances/{instance['id']}/judge"
    first = await controller.post(path, json={"answer": "Nothing to do."})
    assert first.json()["outcome"] == "AGENT_ERROR"
    assert (await controller.post(path, json={"answer": "Nothing to do."})).json() == first.json()
    other = await controller.post(path, json={"answer": None})
    assert (other.status_code, other.json()["error"]["type"]) == (409, "EpisodeError")
    late = await call(stranger, instance, "add_note", text="third")
    assert late["isError"]
    assert json.loads(late["content"][0]["text"])["error"] == {
        "type": "fault",
        "code": "EpisodeError",
        "message": "this episode has ended",
    }


async def test_an_instance_without_a_task_is_not_judged_and_stays_open(
    opened: Opened, controller: httpx.AsyncClient, stranger: httpx.AsyncClient
) -> None:
    instance = await opened()
    response = await controller.post(f"/instances/{instance['id']}/judge", json={})
    assert response.status_code == 400
    assert response.json()["error"] == {
        "type": "UsageError",
        "message": "this instance has no task to judge",
        "next": "POST /instances with a task",
    }
    assert not (await call(stranger, instance, "list_notes"))["isError"]


async def test_a_request_without_a_body_says_what_to_send(opened: Opened, controller: httpx.AsyncClient) -> None:
    instance = await opened(task="add_third")
    for path, fields in (("/instances", '{"environment":"…","seed":"…","task":"…"}'), ("judge", '{"answer":"…"}')):
        url = path if path.startswith("/") else f"/instances/{instance['id']}/{path}"
        response = await controller.post(url)
        assert response.status_code == 400
        assert response.json()["error"] == {
            "type": "UsageError",
            "message": "the request has no body",
            "next": f"send a JSON object, {fields}, with Content-Type: application/json",
        }
    assert (await controller.post(f"/instances/{instance['id']}/judge", json={})).status_code == 200


async def test_a_closed_instance_is_unknown_to_agent_and_controller(
    opened: Opened, controller: httpx.AsyncClient, stranger: httpx.AsyncClient
) -> None:
    instance = await opened()
    closed = await controller.delete(f"/instances/{instance['id']}")
    assert closed.json() == {"id": instance["id"], "closed": True}
    assert (await controller.delete(f"/instances/{instance['id']}")).status_code == 404
    agent = await stranger.post(instance["url"], json={"jsonrpc": "2.0", "id": 5, "method": "tools/list"})
    assert agent.status_code == 404
    assert agent.json()["id"] == 5
    assert agent.json()["error"]["next"] == "POST /instances opens one and answers with its url"


async def test_the_listing_names_what_is_open_and_by_whom(opened: Opened, controller: httpx.AsyncClient) -> None:
    await opened(task="add_third")
    await controller.post("/other/mcp?key=a", json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    found = (await controller.get("/instances")).json()["instances"]
    assert [(i["environment"], i["task"], i["opened_by"]) for i in found] == [
        ("made", "made/add_third", "controller"),
        ("other", None, "key"),
    ]
    assert all(0 <= i["idle_s"] < 30 for i in found)


async def test_health_needs_no_token_and_counts(opened: Opened, stranger: httpx.AsyncClient) -> None:
    await opened()
    assert (await stranger.get("/health")).json() == {
        "status": "ok",
        "version": __version__,
        "environments": 2,
        "instances": 1,
    }


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({"environment": "mad"}, 404, "no environment named 'mad'. Did you mean 'made'?"),
        ({"environment": "../made"}, 404, "no environment named '../made'. Did you mean 'made'?"),
        ({"environment": "made", "task": "add_thrd"}, 404, "no task named 'add_thrd'. Did you mean 'add_third'?"),
        ({}, 400, "'environment' is missing"),
        ({"environment": 3}, 400, "'environment' is not text"),
        ({"environment": "made", "seed": "1"}, 400, "'seed' is not an integer"),
        ({"environment": "made", "seed": True}, 400, "'seed' is not an integer"),
        ({"environment": "made", "seed": 2**63}, 400, "'seed' is outside 64 bits"),
        ({"environment": "\ud800"}, 400, "'environment' holds half a character (a lone surrogate)"),
        ({"environment": "made", "tsak": "x"}, 400, "unknown field 'tsak'"),
        ({"environment": "m" * 201}, 400, "'environment' is too long"),
        (["made"], 400, "the body is not a JSON object"),
    ],
)
async def test_a_wrong_request_says_what_is_wrong(
    controller: httpx.AsyncClient, body: Any, status: int, message: str
) -> None:
    headers = {"Content-Type": "application/json"}
    response = await controller.post("/instances", content=json.dumps(body), headers=headers)
    assert response.status_code == status
    assert response.json()["error"]["message"] == message
    assert response.json()["error"]["next"]
    assert (await controller.get("/instances")).json() == {"instances": []}


@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [
        (b"{", "application/json", 400),
        (b"\xff{}", "application/json", 400),
        (b"[" * 100_000, "application/json", 400),
        (b'{"environment": NaN}', "application/json", 400),
        (b'{"environment": "made"}', "text/plain", 415),
        (b'{"environment": "made"}', "", 415),
        (b" " * (4 * 2**20 + 1), "application/json", 413),
    ],
)
async def test_a_body_that_cannot_be_read_is_refused_as_json(
    controller: httpx.AsyncClient, content: bytes, kind: str, status: int
) -> None:
    for path in ("/instances", "/made/mcp"):
        response = await controller.post(path, content=content, headers={"Content-Type": kind})
        assert response.status_code == status
        assert set(response.json()["error"]) >= {"type", "message", "next"}


async def test_an_unknown_path_and_a_wrong_method_are_refused_as_json(controller: httpx.AsyncClient) -> None:
    unknown = await controller.get("/nothing/here")
    assert (unknown.status_code, unknown.json()["error"]["type"]) == (404, "UnknownNameError")
    method = await controller.put("/instances", json={})
    assert (method.status_code, method.headers["allow"]) == (405, "GET, POST")
    assert method.json()["error"] == {
        "type": "UsageError",
        "message": "PUT is not served here",
        "next": "use GET, POST",
    }


async def test_nothing_redirects(opened: Opened, controller: httpx.AsyncClient) -> None:
    instance = await opened()
    listing = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    assert (await controller.get("/instances/")).status_code == 200
    assert (await controller.get("/health/")).status_code == 200
    assert (await controller.get(f"/instances/{instance['id']}/diff/")).status_code == 200
    assert (await controller.post(f"{instance['url']}/", json=listing)).status_code == 200
    assert (await controller.post("/made/mcp/?key=a", json=listing)).status_code == 200


class TestAFullServer:
    @pytest.fixture
    def settings(self) -> ServerSettings:
        return ServerSettings(port=0, token="the token", capacity=1, idle_timeout_s=20)

    async def test_says_when_to_come_back_and_has_room_again_after_a_close(
        self, opened: Opened, controller: httpx.AsyncClient
    ) -> None:
        instance = await opened()
        full = await controller.post("/instances", json={"environment": "made"})
        assert full.status_code == 503
        assert 1 <= int(full.headers["retry-after"]) <= 20
        assert full.json()["error"]["type"] == "ServerFullError"
        assert full.json()["error"]["message"] == "all 1 instances are in use"
        initialize = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}
        session = await controller.post(
            "/made/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": initialize}
        )
        assert (session.status_code, session.json()["error"]["type"]) == (503, "ServerFullError")
        await controller.delete(f"/instances/{instance['id']}")
        await opened()

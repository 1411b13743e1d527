"""`awm-hub serve` as a program: over HTTP and over stdio, from start to end."""

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from mcp import ClientSession, StdioServerParameters, stdio_client

SERVE = [sys.executable, "-m", "awm_hub", "serve"]
TOKEN = "token-of-the-test"


@contextlib.contextmanager
def serving(*words: str, token: str | None = TOKEN) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """A running server and what it said when it was ready."""
    env = {k: v for k, v in os.environ.items() if k != "AWM_HUB_CONTROLLER_TOKEN"}
    if token is not None:
        env["AWM_HUB_CONTROLLER_TOKEN"] = token
    command = [*SERVE, "--port", "0", "--json", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env) as process:
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            assert line.startswith("{"), line + process.stderr.read()
            yield process, json.loads(line)
        finally:
            if process.poll() is None:
                process.kill()


def ask(url: str, method: str, path: str, body: Any = None, token: str = TOKEN) -> tuple[int, Any]:
    """Status and JSON of one request of the controller."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    connection.request(method, path, None if body is None else json.dumps(body), headers)
    response = connection.getresponse()
    found = json.loads(response.read())
    connection.close()
    return response.status, found


def test_the_server_says_where_it_listens_and_opens_instances(notes_dataset: Path) -> None:
    with serving("--dataset", str(notes_dataset)) as (_, ready):
        assert ready == {"event": "listening", "url": ready["url"], "environments": 1}
        status, opened = ask(ready["url"], "POST", "/instances", {"environment": "notes", "task": "overdue"})
        assert status == 201, opened
        assert opened["tools_count"] == 6
        assert ask(ready["url"], "GET", "/instances", token="another")[0] == 401


def test_a_random_token_is_told_once(notes_dataset: Path) -> None:
    with serving("--dataset", str(notes_dataset), token=None) as (_, ready):
        assert ask(ready["url"], "GET", "/instances", token=ready["token"])[0] == 200


@pytest.mark.parametrize(("number", "code", "ok"), [(signal.SIGTERM, 0, True), (signal.SIGINT, 130, False)])
def test_a_signal_ends_the_server_with_its_exit_code(number: int, code: int, ok: bool, notes_dataset: Path) -> None:
    with serving("--dataset", str(notes_dataset)) as (process, ready):
        ask(ready["url"], "POST", "/instances", {"environment": "notes"})
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
    assert process.returncode == code
    found = json.loads(out)
    assert found["ok"] is ok
    assert not ok or found["data"] == {"url": ready["url"]}
    assert "Traceback" not in err


def test_a_port_in_use_is_2_with_the_next_step(cli: Any, notes_dataset: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        code, found, _ = cli("serve", "--port", port, "--json", "--dataset", str(notes_dataset))
    assert code == 2
    assert found["error"]["message"] == f"cannot listen on 127.0.0.1:{port}: the port is in use"
    assert found["error"]["next"] == "--port 0 picks a free port"


def test_task_without_stdio_is_refused(cli: Any) -> None:
    code, _, err = cli("serve", "--task", "overdue")
    assert code == 2
    assert err == "awm-hub: --task needs --stdio\n  next: over HTTP, POST /instances names the task\n"


def test_stdio_and_json_cannot_share_stdout(cli: Any) -> None:
    code, found, _ = cli("serve", "--stdio", "notes", "--json")
    assert (code, found["error"]["type"]) == (2, "UsageError")


async def test_a_desktop_client_works_over_stdio(notes_dataset: Path) -> None:
    words = ["--stdio", "notes", "--task", "overdue", "--dataset", str(notes_dataset)]
    parameters = StdioServerParameters(command=SERVE[0], args=[*SERVE[1:], *words], env=dict(os.environ))
    async with stdio_client(parameters) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        tools = (await session.list_tools()).tools
        answered = await session.call_tool("get_note", {"note_id": 2})
        found = answered.model_dump(by_alias=True, exclude_none=True)
    assert len(tools) == 6
    assert not found.get("isError")
    assert json.loads(found["content"][0]["text"])["title"] == "Plum jam"

"""`awm-hub serve` as a program: over HTTP and over stdio, from start to end."""

import contextlib
import http.client
import itertools
import json
import os
import shlex
import shutil
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


def test_the_server_says_where_it_listens_opens_instances_and_ends_with_0_at_a_signal(notes_dataset: Path) -> None:
    with serving("--dataset", str(notes_dataset)) as (process, ready):
        assert ready == {"event": "listening", "url": ready["url"], "environments": 1}
        status, opened = ask(ready["url"], "POST", "/instances", {"environment": "notes", "task": "overdue"})
        assert status == 201, opened
        assert opened["tools_count"] == 6
        assert ask(ready["url"], "GET", "/instances", token="another")[0] == 401
        assert ended(process, signal.SIGTERM) == {"url": ready["url"]}


def test_a_random_token_is_told_once(notes_dataset: Path) -> None:
    with serving("--dataset", str(notes_dataset), token=None) as (process, ready):
        status, _ = ask(ready["url"], "POST", "/instances", {"environment": "notes"}, token=ready["token"])
        assert status == 201
        assert ended(process, signal.SIGINT) == {"url": ready["url"]}


def ended(process: "subprocess.Popen[str]", number: int) -> Any:
    """The data of a server's last line, once a signal has ended it, without a word and with exit code 0."""
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (0, "")
    return json.loads(out)["data"]


def test_without_json_the_server_shows_a_request_that_opens_an_instance(notes_dataset: Path) -> None:
    env = {k: v for k, v in os.environ.items() if k != "AWM_HUB_CONTROLLER_TOKEN"}
    command = [*SERVE, "--port", "0", "--dataset", str(notes_dataset)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(6)]
        url = lines[0].removeprefix(f"1 environment of {notes_dataset} at ").strip()
        words = shlex.split("".join(lines[3:5]))
        options = list(itertools.pairwise(words))
        headers = dict(value.split(": ") for option, value in options if option == "-H")
        (body,) = (json.loads(value) for option, value in options if option == "-d")
        assert (words[:2], headers["Content-Type"]) == (["curl", f"{url}/instances"], "application/json")
        assert ask(url, "POST", "/instances", body, headers["Authorization"].removeprefix("Bearer "))[0] == 201
        assert lines[5] == "Ctrl-C stops the server\n"
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=30) == ("stopped\n", "")
    assert process.returncode == 0


def test_a_port_in_use_is_2_with_the_next_step(cli: Any, notes_dataset: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        code, found, _ = cli("serve", "--port", port, "--json", "--dataset", str(notes_dataset))
    assert code == 2
    assert found["error"]["message"] == f"cannot listen on 127.0.0.1:{port}: the port is in use"
    assert found["error"]["next"] == "--port 0 picks a free port"


@pytest.mark.parametrize(("name", "value"), [("task", "overdue"), ("seed", "0")])
def test_task_and_seed_without_stdio_are_refused(name: str, value: str, cli: Any) -> None:
    code, _, err = cli("serve", f"--{name}", value)
    assert code == 2
    assert err == f"awm-hub: --{name} needs --stdio\n  next: over HTTP, POST /instances names the {name}\n"


@pytest.mark.parametrize(
    "words",
    ["--port 0", "--host ::1", "--single", "--capacity 1", "--idle-timeout 0", "--allowed-host a", "--port 1 --single"],
)
def test_options_that_stdio_would_ignore_are_refused(words: str, cli: Any) -> None:
    options = " and ".join(word for word in words.split() if word.startswith("--"))
    code, out, err = cli("serve", "--stdio", "notes", *words.split())
    assert (code, out) == (2, "")
    assert err == f"awm-hub: --stdio would ignore {options}\n  next: leave out {options}\n"


def test_an_environment_without_stdio_is_answered_with_the_option(cli: Any, notes_dataset: Path) -> None:
    code, _, err = cli("serve", "notes", "--dataset", str(notes_dataset))
    assert code == 2
    assert f"next: `awm-hub serve --stdio notes --dataset {notes_dataset}` serves one over stdio;" in err


def test_a_damaged_dataset_is_noticed_before_anybody_is_served(cli: Any, notes_dataset: Path, tmp_path: Path) -> None:
    broken = Path(shutil.copytree(notes_dataset, tmp_path / "broken"))
    shard = next((broken / "environments").glob("*.parquet"))
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 255
    shard.write_bytes(data)
    code, out, err = cli("serve", "--port", "0", "--dataset", str(broken))
    assert (code, out) == (3, "")
    assert err.startswith("awm-hub: environments/")


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

"""The server as a process: its socket, its signals, and that it leaves nothing behind."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from processes import gone_afterwards

from awm_hub.environment import Environment
from awm_hub.errors import UsageError
from awm_hub.serving import ServerSettings, running_server, serve_http
from awm_hub.serving.server import listening_socket
from awm_hub.serving.settings import TOKEN_VARIABLE


@dataclass
class Served:
    process: subprocess.Popen[str]
    url: str
    token: str | None
    temporary: Path

    def open(self, token: str | None = None) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {token or self.token}"}
        response = httpx.post(f"{self.url}/instances", json={"environment": "made"}, headers=headers, timeout=30)
        assert response.status_code == 201, response.text
        found: dict[str, Any] = response.json()
        return found


Serve = Callable[..., contextlib.AbstractContextManager[Served]]


@pytest.fixture
def serve(dataset: Path, tmp_path: Path) -> Serve:
    """`awm-hub serve` on a free port."""

    @contextlib.contextmanager
    def serve(**variables: str) -> Iterator[Served]:
        temporary = tmp_path / "tmp"
        temporary.mkdir()
        command = [sys.executable, "-m", "awm_hub", "serve", "--port", "0", "--json", "--dataset", str(dataset)]
        environment = {**os.environ, "TMPDIR": str(temporary), **variables}
        with subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            try:
                assert process.stderr is not None
                ready = json.loads(process.stderr.readline())
                yield Served(process=process, url=ready["url"], token=ready.get("token"), temporary=temporary)
            finally:
                process.kill()

    return serve


@pytest.mark.parametrize(
    ("number", "code", "answer"),
    [(signal.SIGTERM, 0, {"ok": True}), (signal.SIGINT, 0, {"ok": True}), (signal.SIGKILL, -9, None)],
)
def test_however_it_ends_the_server_leaves_no_process_socket_or_file(
    serve: Serve, number: signal.Signals, code: int, answer: dict[str, Any] | None
) -> None:
    with serve() as served:
        for _ in range(3):
            served.open()
        with gone_afterwards(served.process.pid) as children:
            assert children
            served.process.send_signal(number)
            stdout, stderr = served.process.communicate(timeout=20)
        assert served.process.returncode == code
        assert "Traceback" not in stderr
        if answer is not None:
            assert json.loads(stdout)["ok"] is answer["ok"]
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{served.url}/health")
        assert list(served.temporary.iterdir()) == []


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGKILL, -9)])
def test_a_call_that_nothing_stops_ends_with_the_server(serve: Serve, number: signal.Signals, code: int) -> None:
    with serve() as served:
        url = served.open()["url"]
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "swallow", "arguments": {}}}
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(url, json=call, timeout=httpx.Timeout(10, read=0.1))
        with gone_afterwards(served.process.pid, within_s=10):
            served.process.send_signal(number)
            served.process.communicate(timeout=20)
        assert served.process.returncode == code


def test_a_given_token_is_used_and_never_shown(serve: Serve) -> None:
    with serve(**{TOKEN_VARIABLE: "planted-token"}) as served:
        assert served.token is None
        served.open("planted-token")
        served.process.terminate()
        stdout, stderr = served.process.communicate(timeout=20)
        assert "planted-token" not in stdout + stderr


def test_a_random_token_is_long_and_another_each_time() -> None:
    tokens = {ServerSettings().token for _ in range(10)}
    assert len(tokens) == 10
    assert all(len(token) >= 32 for token in tokens)
    assert "token" not in repr(ServerSettings())


def test_a_port_in_use_is_a_usage_error_that_names_the_way_out(environments: dict[str, Environment]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError) as refused:
            serve_http(environments, settings=ServerSettings(port=port))
    assert refused.value.message == f"cannot listen on 127.0.0.1:{port}: the port is in use"
    assert refused.value.next_step == "--port 0 picks a free port"


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"host": "192.0.2.1"}, "this machine has no such address"),
        ({"host": "no such host"}, "Name or service not known"),
        ({"port": 70000}, "no such port"),
        ({"port": -1}, "no such port"),
    ],
)
def test_an_address_that_cannot_be_bound_is_a_usage_error(settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(UsageError, match=rf"cannot listen on .*: {reason}"):
        listening_socket(ServerSettings(**settings))


def test_an_idle_timeout_below_zero_is_told_apart_from_none() -> None:
    with pytest.raises(UsageError, match="an idle timeout of -1 seconds is too short"):
        ServerSettings(idle_timeout_s=-1)


def test_the_socket_is_one_that_gets_no_delay() -> None:
    with listening_socket(ServerSettings(port=0)) as listener:
        assert listener.proto == socket.IPPROTO_TCP


async def test_an_error_in_the_block_leaves_the_server_as_it_is(environments: dict[str, Environment]) -> None:
    with pytest.raises(ZeroDivisionError):
        async with running_server(environments, settings=ServerSettings(port=0)):
            raise ZeroDivisionError

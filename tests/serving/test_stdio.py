"""One instance on stdin and stdout."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mcp import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client
from processes import gone_afterwards

from awm_hub.serving.protocol import IS_V2

CLIENT = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}
INITIALIZE = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": CLIENT}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}
Frame = dict[str, Any]


def call(request_id: int, tool: str, **arguments: Any) -> Frame:
    params = {"name": tool, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params}


@pytest.fixture
def command(dataset: Path) -> list[str]:
    return [sys.executable, "-m", "awm_hub", "serve", "--stdio", "made", "--dataset", str(dataset)]


@pytest.fixture
def exchange(command: list[str]) -> Callable[..., dict[Any, Any]]:
    """Send lines, close stdin; the answers by id, those without one as a list. All of stdout must be JSON-RPC."""

    def exchange(*lines: Frame | bytes, options: tuple[str, ...] = ()) -> dict[Any, Any]:
        sent = b"".join((x if isinstance(x, bytes) else json.dumps(x).encode()) + b"\n" for x in lines)
        done = subprocess.run([*command, *options], input=sent, capture_output=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        assert b"Traceback" not in done.stderr
        answers = [json.loads(line) for line in done.stdout.decode().splitlines()]
        assert all(answer["jsonrpc"] == "2.0" for answer in answers)
        found: dict[Any, Any] = {a["id"]: a for a in answers if a["id"] is not None}
        refusals = [a for a in answers if a["id"] is None]
        assert len(found) + len(refusals) == len(answers)
        return found | {None: refusals} if refusals else found

    return exchange


def text(answer: Frame) -> str:
    found: str = answer["result"]["content"][0]["text"]
    return found


def test_everything_asked_before_the_end_of_input_is_answered_once(
    exchange: Callable[..., dict[Any, Any]], briefing: str
) -> None:
    answers = exchange(
        INITIALIZE,
        INITIALIZED,
        {"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
        *(call(10 + n, "add_note", text=str(n)) for n in range(10)),
        call(20, "list_notes"),
    )
    assert set(answers) == {0, 1, *range(10, 21)}
    assert answers[0]["result"]["instructions"] == briefing
    assert len(answers[1]["result"]["tools"]) == 8
    assert json.loads(text(answers[20])) == ["first", "second", *map(str, range(10))]


def test_characters_that_look_like_line_ends_are_escaped_and_arrive_whole(
    exchange: Callable[..., dict[Any, Any]],
) -> None:
    hostile = "left\u2028mid\u2029dle\u0085right\r\nlast\u0000end\v\f\x1c"
    raw = json.dumps(call(11, "add_note", text=hostile), ensure_ascii=False).encode()
    answers = exchange(INITIALIZE, raw, call(12, "read_note", note_id=3), call(13, "list_notes"))
    assert text(answers[12]) == hostile
    assert json.loads(text(answers[13]))[2] == hostile


def test_what_tools_print_or_forge_never_reaches_stdout(exchange: Callable[..., dict[Any, Any]]) -> None:
    answers = exchange(INITIALIZE, call(10, "list_notes"), call(11, "forge"), call(12, "list_notes"))
    assert set(answers) == {0, 10, 11, 12}
    assert "forged" not in text(answers[11])
    assert text(answers[12]) == text(answers[10])


def test_a_cancelled_call_breaks_neither_the_session_nor_the_database(
    exchange: Callable[..., dict[Any, Any]],
) -> None:
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 20, "reason": "timeout"}}
    answers = exchange(INITIALIZE, INITIALIZED, call(20, "add_then_spin"), cancel, call(21, "list_notes"))
    assert json.loads(text(answers[21])) == ["first", "second"]
    assert set(answers) - {20} == {0, 21}


def test_lines_that_are_no_message_are_refused_and_the_session_goes_on(
    exchange: Callable[..., dict[Any, Any]],
) -> None:
    too_long = b'["' + b"x" * (4 * 2**20) + b'"]'
    broken = (b"nonsense", b"\xff", b'{"id": NaN}', too_long, b"[" * 10**5)
    wrong = (b"[]", b'{"jsonrpc": "1.0"}', json.dumps([INITIALIZED]).encode())
    answers = exchange(INITIALIZE, *broken, b"", *wrong, call(1, "list_notes"))
    assert [a["error"]["code"] for a in answers[None]] == [-32700] * 5 + [-32600] * 3
    assert json.loads(text(answers[1])) == ["first", "second"]


def test_a_client_that_forgets_to_initialize_is_told_so(exchange: Callable[..., dict[Any, Any]]) -> None:
    answers = exchange({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, INITIALIZE, call(2, "list_notes"))
    assert answers[1]["error"] == {"code": -32600, "message": "send initialize before tools/list"}
    assert json.loads(text(answers[2])) == ["first", "second"]


def test_a_task_and_a_seed_can_be_chosen(exchange: Callable[..., dict[Any, Any]]) -> None:
    answers = exchange(INITIALIZE, options=("--task", "add_third", "--seed", "3"))
    assert answers[0]["result"]["instructions"].endswith("Task:\nAdd the note 'third'.")


@pytest.mark.parametrize(
    ("options", "message"), [(("--task", "add_thrd"), "Did you mean 'add_third'?"), (("--dataset", "/nowhere"), "")]
)
def test_what_cannot_be_served_is_said_on_stderr_alone(
    command: list[str], options: tuple[str, ...], message: str
) -> None:
    done = subprocess.run([*command, *options], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (3, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 0), (signal.SIGKILL, -9), (None, 0)])
def test_however_it_ends_nothing_is_left(command: list[str], number: signal.Signals | None, code: int) -> None:
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(INITIALIZE).encode() + b"\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["id"] == 0
        with gone_afterwards(process.pid) as children:
            assert children
            if number is None:
                process.stdin.close()
            else:
                process.send_signal(number)
            assert process.wait(20) == code


def test_a_client_that_stops_reading_ends_the_server(command: list[str]) -> None:
    source, sink = os.pipe()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=sink, stderr=subprocess.PIPE) as process:
        os.close(sink)
        os.close(source)
        assert process.stdin is not None
        process.stdin.write(json.dumps(INITIALIZE).encode() + b"\n")
        process.stdin.flush()
        assert process.wait(20) == 0
        assert process.stderr is not None
        assert process.stderr.read() == b""


async def test_a_real_client_lists_and_calls(command: list[str]) -> None:
    parameters = StdioServerParameters(command=command[0], args=command[1:])
    async with stdio_client(parameters) as streams, ClientSession(*streams) as client:
        await client.initialize()
        assert len((await client.list_tools()).tools) == 8
        result = (await client.call_tool("add_note", {"text": "third"})).model_dump(by_alias=True)
        assert result["content"][0]["text"] == '{"id":3,"mood":null}'


@pytest.mark.skipif(not IS_V2, reason="mcp 1.x has no session-less client")
async def test_a_session_less_client_lists_and_calls(command: list[str]) -> None:
    from mcp import Client

    async with Client(stdio_client(StdioServerParameters(command=command[0], args=command[1:]))) as client:
        assert client.protocol_version == "2026-07-28"
        assert len((await client.list_tools()).tools) == 8
        result = (await client.call_tool("list_notes", {})).model_dump(by_alias=True)
        assert json.loads(result["content"][0]["text"]) == ["first", "second"]

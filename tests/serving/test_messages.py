"""JSON-RPC messages as they arrive."""

import json
from typing import Any

import pytest

from awm_hub.serving.messages import read_call
from awm_hub.serving.refusals import Refusal

CALL = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "t", "arguments": {"a": 1}}}


def read(message: Any) -> Any:
    return read_call(message if isinstance(message, bytes) else json.dumps(message).encode())


def test_a_request_and_a_notification_are_told_apart_by_their_id() -> None:
    request = read(CALL)
    assert (request.method, request.id, request.params["name"]) == ("tools/call", 7, "t")
    notification = read({"jsonrpc": "2.0", "method": "notifications/initialized", "params": None})
    assert (notification.id, notification.params) == (None, {})
    assert read({"jsonrpc": "2.0", "id": "a", "method": "initialize"}).is_initialize
    assert not read({"jsonrpc": "2.0", "method": "initialize"}).is_initialize


@pytest.mark.parametrize(
    ("message", "code", "request_id"),
    [
        (b"", -32700, None),
        (b"{", -32700, None),
        (b"\xff", -32700, None),
        (b'{"jsonrpc": "2.0", "jsonrpc": "2.0", "id": 1, "method": "ping"}', -32700, None),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"x": NaN}}', -32700, None),
        (b'{"jsonrpc": "2.0", "id": "\\ud800", "method": "ping"}', -32700, None),
        (b'{"jsonrpc": "2.0", "id": ' + b"9" * 5000 + b', "method": "ping"}', -32700, None),
        (b"[" * 100_000, -32700, None),
        ([CALL], -32600, None),
        ("ping", -32600, None),
        ({**CALL, "id": None}, -32600, None),
        ({**CALL, "id": 1.5}, -32600, None),
        ({**CALL, "id": True}, -32600, None),
        ({**CALL, "id": [1]}, -32600, None),
        ({**CALL, "jsonrpc": "1.0"}, -32600, 7),
        ({"id": 7}, -32600, 7),
        ({"jsonrpc": "2.0", "id": 7, "result": {}}, -32600, 7),
        ({**CALL, "method": 3}, -32600, 7),
        ({**CALL, "params": []}, -32602, 7),
        ({**CALL, "params": {}}, -32602, 7),
        ({**CALL, "params": {"name": "t", "arguments": [1]}}, -32602, 7),
        ({**CALL, "params": {"name": ["t"]}}, -32602, 7),
    ],
)
def test_what_is_not_one_message_is_refused_with_its_code_and_id(message: Any, code: int, request_id: Any) -> None:
    with pytest.raises(Refusal) as refused:
        read(message)
    assert (refused.value.code, refused.value.request_id, refused.value.status) == (code, request_id, 400)

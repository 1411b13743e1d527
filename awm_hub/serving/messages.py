"""JSON-RPC messages as they arrive, over HTTP or stdio: checked before the SDK sees them.

The majors of the SDK disagree on what they make of a malformed message (an error, silence, a crash while answering).
Here each is refused in one way, and what is passed on is one request or notification that can be answered.
"""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from awm_hub.canonical import from_json, to_json
from awm_hub.errors import RecordError
from awm_hub.serving.refusals import INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR, Refusal


@dataclass(frozen=True, kw_only=True)
class Call:
    """One request or notification."""

    body: bytes
    method: str
    params: dict[str, Any]
    id: str | int | None
    """None for a notification."""

    @property
    def is_initialize(self) -> bool:
        """Whether it opens a session."""
        return self.method == "initialize" and self.id is not None


def read_call(body: bytes) -> Call:
    """Read one message.

    Raises:
        Refusal: it is not JSON, or not one request or notification; `request_id` is its id where it has one.
    """
    message = _parsed(body)
    if not isinstance(message, dict):
        what = "a batch" if isinstance(message, list) else "not a JSON-RPC message"
        raise _refusal(f"this is {what}; MCP takes one message at a time")
    request_id = message.get("id")
    has_id = isinstance(request_id, str | int) and not isinstance(request_id, bool)
    try:
        if "id" in message and not has_id:
            raise _refusal("the id is neither text nor integer")
        if message.get("jsonrpc") != "2.0" or not isinstance(message.get("method"), str):
            raise _refusal("this is not a JSON-RPC 2.0 request or notification")
        params = message.get("params")
        params = {} if params is None else params
        if not isinstance(params, dict):
            raise _refusal("params are not an object", INVALID_PARAMS)
        if message["method"] == "tools/call":
            _check_tool_call(params)
    except Refusal as refusal:
        refusal.request_id = request_id if has_id else None
        raise
    return Call(body=body, method=message["method"], params=params, id=request_id)


def _parsed(body: bytes) -> Any:
    try:
        message = from_json(body.decode(), "the message")
        if b"\\u" in body:
            to_json(message)  # lone surrogates can only come in as escapes, and cannot go out
    except UnicodeDecodeError as error:
        raise _refusal("the message is not UTF-8", PARSE_ERROR) from error
    except RecordError as error:
        raise _refusal(error.message, PARSE_ERROR) from error
    return message


def _check_tool_call(params: dict[str, Any]) -> None:
    if not isinstance(params.get("name"), str):
        raise _refusal("params.name is not text", INVALID_PARAMS)
    if not isinstance(params.get("arguments") or {}, dict):
        raise _refusal("params.arguments are not an object", INVALID_PARAMS)


def _refusal(message: str, code: int = INVALID_REQUEST) -> Refusal:
    return Refusal(HTTPStatus.BAD_REQUEST, message, next_step="send one JSON-RPC request or notification", code=code)

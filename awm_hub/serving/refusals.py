"""Refusals: every request that is not served gets JSON that says what is wrong and what to do next.

The body is `{"error": {"type", "message", "next"}}`. On an MCP URL the same object is a JSON-RPC error besides, with
`code` and `data`, since the SDKs show their users nothing else; `data.supported` always names the protocol versions.
"""

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from starlette.responses import Response

from awm_hub.canonical import to_json
from awm_hub.errors import (
    AwmHubError,
    CapacityError,
    DataError,
    EpisodeError,
    JudgeError,
    RemoteError,
    SandboxError,
    UnknownNameError,
    UsageError,
)

logger = logging.getLogger("awm_hub.serving")

PARSE_ERROR, INVALID_REQUEST, INVALID_PARAMS, INTERNAL_ERROR = -32700, -32600, -32602, -32603
UNSUPPORTED_VERSION = -32022
"""JSON-RPC code of an unsupported protocol version since MCP 2026-07-28; clients read `data.supported` and retry."""

_HEADERS = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
_STATUSES: tuple[tuple[type[AwmHubError], HTTPStatus], ...] = (
    (UnknownNameError, HTTPStatus.NOT_FOUND),
    (UsageError, HTTPStatus.BAD_REQUEST),
    (DataError, HTTPStatus.UNPROCESSABLE_ENTITY),
    (JudgeError, HTTPStatus.UNPROCESSABLE_ENTITY),
    (EpisodeError, HTTPStatus.CONFLICT),
    (SandboxError, HTTPStatus.INTERNAL_SERVER_ERROR),
    (RemoteError, HTTPStatus.BAD_GATEWAY),
)


class Refusal(AwmHubError):
    """A request that is not served, with the HTTP status that says so."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        next_step: str,
        kind: str = "UsageError",
        headers: Mapping[str, str] | None = None,
        code: int = INVALID_REQUEST,
        data: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message, next_step=next_step)
        self.status, self.kind, self.code = status, kind, code
        self.headers, self.data = dict(headers or {}), dict(data or {})
        self.request_id: str | int | None = None


class ServerFullError(CapacityError):
    """The server holds as many instances as it may; `retry_after_s` says when to ask again."""

    def __init__(self, capacity: int, retry_after_s: int) -> None:
        super().__init__(
            f"all {capacity} instances are in use",
            next_step="DELETE /instances/{id} of one that is done, ask again later, or raise the server's capacity",
        )
        self.retry_after_s = retry_after_s


def as_refusal(error: Exception) -> Refusal:
    """The refusal for an error; one that is not ours is logged and its text kept from the client."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, ServerFullError):
        headers = {"retry-after": str(error.retry_after_s)}
        return _refusal(error, HTTPStatus.SERVICE_UNAVAILABLE, headers)
    if isinstance(error, AwmHubError):
        status = next((s for t, s in _STATUSES if isinstance(error, t)), HTTPStatus.INTERNAL_SERVER_ERROR)
        return _refusal(error, status)
    logger.error("request failed", exc_info=error)
    return Refusal(
        HTTPStatus.INTERNAL_SERVER_ERROR,
        "the server failed",
        next_step="see the server's log",
        kind="InternalError",
        code=INTERNAL_ERROR,
    )


def answer(value: Any, status: int = HTTPStatus.OK, headers: Mapping[str, str] | None = None) -> Response:
    """A JSON response."""
    return Response(
        to_json(value), status_code=status, headers={**_HEADERS, **(headers or {})}, media_type="application/json"
    )


def refuse(error: Exception) -> Response:
    """The response to a request of the controller."""
    refusal = as_refusal(error)
    return answer({"error": _error(refusal)}, refusal.status, refusal.headers)


def refuse_mcp(error: Exception, request_id: str | int | None, supported: tuple[str, ...]) -> Response:
    """The response to a request on an MCP URL."""
    refusal = as_refusal(error)
    body = {
        "jsonrpc": "2.0",
        "id": request_id,
        "error": {
            **_error(refusal),
            "code": refusal.code,
            "message": _with_next(refusal),
            "data": {"supported": list(supported), **refusal.data},
        },
    }
    return answer(body, refusal.status, refusal.headers)


def _refusal(error: AwmHubError, status: int, headers: Mapping[str, str] | None = None) -> Refusal:
    return Refusal(
        status,
        error.message,
        next_step=error.next_step,
        kind=type(error).__name__,
        headers=headers,
        code=INTERNAL_ERROR if status >= HTTPStatus.INTERNAL_SERVER_ERROR else INVALID_REQUEST,
    )


def _error(refusal: Refusal) -> dict[str, Any]:
    return {
        "type": refusal.kind,
        "message": _encodable(refusal.message),
        "next": _encodable(refusal.next_step),
    }


def _with_next(refusal: Refusal) -> str:
    stop = "" if refusal.message.endswith((".", "?", "…")) else "."
    return _encodable(f"{refusal.message}{stop} Next: {refusal.next_step}" if refusal.next_step else refusal.message)


def _encodable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()

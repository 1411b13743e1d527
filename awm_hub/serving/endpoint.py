"""The MCP URLs: what is checked before the SDK sees a request, and which instance the request belongs to.

The SDK's session manager runs stateless, so that one manager serves every instance; what is left of sessions is decided
here. `/i/{id}/mcp` is one instance. `/{environment}/mcp` opens an instance for each client that says `initialize`, and
hands out its id as `mcp-session-id`; session-less clients name theirs with `?key=`. Where the majors of the SDK answer
differently (protocol versions, GET, batches, bodies that are no JSON), the answer is given here, the same for both.
"""

from http import HTTPStatus

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from awm_hub.canonical import from_json
from awm_hub.serving.instances import Instances, Lease
from awm_hub.serving.messages import Call, read_call
from awm_hub.serving.protocol import HANDSHAKE_VERSIONS, MODERN_VERSIONS, SUPPORTED_VERSIONS, current
from awm_hub.serving.refusals import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    UNSUPPORTED_VERSION,
    Refusal,
    answer,
    refuse_mcp,
)
from awm_hub.serving.settings import MAX_BODY_BYTES

SESSION_HEADER = "mcp-session-id"
VERSION_HEADER = "mcp-protocol-version"
_MAX_KEY = 128
_DRAINED_BYTES = 16 * MAX_BODY_BYTES
"""A body that is too large is read so far and dropped, since a client that is still sending hears no refusal."""
_REPLACED_HEADERS = {b"accept", SESSION_HEADER.encode()}


class McpEndpoint:
    """Serves `/i/{id}/mcp` and `/{environment}/mcp`."""

    def __init__(self, instances: Instances, manager: ASGIApp, *, is_single: bool) -> None:
        self._instances, self._manager, self._is_single = instances, manager, is_single

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        request = Request(scope, receive)
        call: Call | None = None
        try:
            if request.method == "POST":
                call = read_call(await read_body(request))
                check_version(request, call)
                response = await self._post(request, call)
            else:
                response = await self._other(request)
        except ClientDisconnect:
            return
        except Exception as error:
            request_id = getattr(error, "request_id", None) if call is None else call.id
            response = refuse_mcp(error, request_id, SUPPORTED_VERSIONS)
        await response(scope, receive, send)

    async def _post(self, request: Request, call: Call) -> ASGIApp:
        lease = await self._lease(request, call)
        if lease is not None:
            return self._forward(lease, call)
        lease = await self._instances.open(request.path_params["environment"], opened_by="session")
        return await self._open_session(lease, request, call)

    async def _lease(self, request: Request, call: Call) -> Lease | None:
        """The instance a request belongs to; None where it opens a session."""
        if "id" in request.path_params:
            return self._instances[request.path_params["id"]]
        environment = request.path_params["environment"]
        if self._is_single:
            return await self._instances.shared(environment, None)
        key = request.query_params.get("key")
        if key is not None:
            return await self._instances.shared(environment, _checked_key(key))
        if SESSION_HEADER in request.headers:
            return self._instances.session(environment, request.headers[SESSION_HEADER])
        if call.is_initialize:
            return None
        await self._instances.environment(environment)  # an unknown environment is the better thing to say
        raise _no_session(request)

    def _forward(self, lease: Lease, call: Call) -> ASGIApp:
        async def forward(scope: Scope, receive: Receive, send: Send) -> None:
            token = current.set(lease)
            try:
                await self._manager(_forwarded(scope, call), _replayed(call.body, receive), send)
            finally:
                current.reset(token)

        return forward

    async def _open_session(self, lease: Lease, request: Request, call: Call) -> Response:
        """Let the SDK answer `initialize`, and name the session; nothing stays open where it answers an error."""
        try:
            status, body = await _captured(self._forward(lease, call), request.scope, request.receive)
            result = from_json(body.decode())
        except BaseException:
            await self._instances.close(lease)
            raise
        if "result" not in result:
            await self._instances.close(lease)
            return answer(result, status)
        return answer(result, status, {SESSION_HEADER: lease.id})

    async def _other(self, request: Request) -> Response:
        if request.method == "DELETE" and SESSION_HEADER in request.headers and "environment" in request.path_params:
            lease = self._instances.session(request.path_params["environment"], request.headers[SESSION_HEADER])
            await self._instances.close(lease)
            return answer({"id": lease.id, "closed": True})
        raise Refusal(
            HTTPStatus.METHOD_NOT_ALLOWED,
            f"{request.method} is not served here: there is no stream to listen to",
            next_step="POST JSON-RPC messages to this URL",
            headers={"allow": "POST, DELETE" if "environment" in request.path_params else "POST"},
        )


async def read_body(request: Request) -> bytes:
    """Read a JSON body.

    Raises:
        Refusal: it is larger than a server accepts, or of another type.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Refusal(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            f"the body is {kind[:100] or 'of no type'!r}",
            next_step="send Content-Type: application/json",
        )
    found, size = bytearray(), 0
    async for chunk in request.stream():
        size += len(chunk)
        if size <= MAX_BODY_BYTES:
            found += chunk
        elif size > _DRAINED_BYTES:
            break
    if size > MAX_BODY_BYTES:
        raise _too_large()
    return bytes(found)


def check_version(request: Request, call: Call) -> None:
    """Check the protocol version of a message.

    `initialize` negotiates in its body, whatever the header says; every other message must name a version that is
    served, or none.

    Raises:
        Refusal: the version is not served, or is no version.
    """
    if call.is_initialize:
        if isinstance(call.params.get("protocolVersion"), str):
            return
        raise Refusal(
            HTTPStatus.BAD_REQUEST,
            "params.protocolVersion is not text",
            next_step=f"ask for {HANDSHAKE_VERSIONS[-1]!r}",
            code=INVALID_PARAMS,
        )
    given = request.headers.getlist(VERSION_HEADER)
    if not given or (len(given) == 1 and given[0] in SUPPORTED_VERSIONS):
        return
    asked = ", ".join(given)[:100]
    raise Refusal(
        HTTPStatus.BAD_REQUEST,
        f"protocol version {asked!r} is not served",
        next_step=f"use one of {', '.join(SUPPORTED_VERSIONS)}",
        code=UNSUPPORTED_VERSION,
        data={"requested": asked},
    )


def _no_session(request: Request) -> Refusal:
    """Clients of the session-less protocol understand the code and fall back to `initialize`."""
    is_modern = request.headers.get(VERSION_HEADER) in MODERN_VERSIONS
    return Refusal(
        HTTPStatus.BAD_REQUEST,
        "this URL keeps one instance per MCP session, and the request names no session",
        next_step="POST /instances and use the url it answers, or add ?key=NAME to this URL, or send initialize",
        code=UNSUPPORTED_VERSION if is_modern else INVALID_REQUEST,
        data={"supported": list(HANDSHAKE_VERSIONS), "requested": request.headers.get(VERSION_HEADER, "")},
    )


def _too_large() -> Refusal:
    return Refusal(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        f"the body is larger than {MAX_BODY_BYTES} bytes",
        next_step="send less in one request",
        headers={"connection": "close"},
    )


def _checked_key(key: str) -> str:
    if 0 < len(key) <= _MAX_KEY and key.isprintable():
        return key
    raise Refusal(
        HTTPStatus.BAD_REQUEST,
        f"a key has 1 to {_MAX_KEY} printable characters",
        next_step="add ?key=NAME, with a name of your own",
    )


def _forwarded(scope: Scope, call: Call) -> Scope:
    """The request for the SDK: what it answers is always JSON, and sessions and versions are settled."""
    dropped = _REPLACED_HEADERS | ({VERSION_HEADER.encode()} if call.is_initialize else set())
    headers = [(name, value) for name, value in scope["headers"] if name not in dropped]
    return {**scope, "headers": [*headers, (b"accept", b"application/json, text/event-stream")]}


def _replayed(body: bytes, receive: Receive) -> Receive:
    """A channel that delivers the body once more, then whatever comes."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return messages.pop() if messages else await receive()

    return replay


async def _captured(app: ASGIApp, scope: Scope, receive: Receive) -> tuple[int, bytes]:
    status, body = 0, b""

    async def capture(message: Message) -> None:
        nonlocal status, body
        if message["type"] == "http.response.start":
            status = message["status"]
        else:
            body += message.get("body", b"")

    await app(scope, receive, capture)
    return status, body

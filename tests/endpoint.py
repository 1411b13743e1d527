"""A model endpoint on a loopback port that says what a test tells it to.

It speaks OpenAI's chat completions: plain or streamed, with tool calls and usage, and with everything that goes wrong
at real ones: errors, rate limits, garbage, replies cut in half, dropped and stalled connections. What it was asked is
in `requests`. A script is a list of replies, given in the order of the requests, or a function from a request's body to
a reply, which is what concurrent callers need::

    with running_endpoint([fails(429, headers={"Retry-After": "0"}), says("4")]) as fake:
        Endpoint("m", base_url=fake.base_url)

    with running_endpoint(playing(calls(("add_note", {"text": "a"})), says("done"))) as fake:
        ...  # the same dialogue for any number of episodes at once
"""

import contextlib
import json
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, ClassVar

Body = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What the endpoint does about one request."""

    status: int = 200
    message: Body | None = None
    """The assistant message of a completion."""
    finish_reason: str = "stop"
    usage: Body | None = field(default_factory=lambda: {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10})
    raw: bytes | None = None
    """The body as it is, in place of a completion."""
    headers: dict[str, str] = field(default_factory=dict)
    is_streamed: bool = False
    """Streamed although nobody asked for it."""
    is_dropped: bool = False
    """The connection is closed without an answer, or after the first half of `raw`."""
    is_stalled: bool = False
    """Nothing is answered until the endpoint closes."""
    waits_for: threading.Event | None = None
    """Answered once this is set."""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """One request as it arrived."""

    path: str
    headers: dict[str, str]
    """Names in lower case."""
    body: Body
    at_s: float
    """On the monotonic clock."""


Script = Callable[[Body], Reply] | Iterable[Reply]


def says(content: str | None, *, reasoning: str | None = None, **more: Any) -> Reply:
    """A text, with thoughts in `reasoning_content` where given."""
    message = {"role": "assistant", "content": content}
    return Reply(message=message if reasoning is None else {**message, "reasoning_content": reasoning}, **more)


def calls(*made: tuple[str, Any], content: str | None = None, reasoning: str | None = None, **more: Any) -> Reply:
    """Native tool calls: pairs of a name and arguments, which are sent as they are if they are a text."""
    reply = says(content, reasoning=reasoning, **{"finish_reason": "tool_calls", **more})
    listed = [
        {
            "id": f"call_{i}",
            "type": "function",
            "function": {"name": name, "arguments": found if isinstance(found, str) else json.dumps(found)},
        }
        for i, (name, found) in enumerate(made)
    ]
    return replace(reply, message={**(reply.message or {}), "tool_calls": listed})


def fails(status: int, message: str = "no", *, code: str | None = None, headers: dict[str, str] | None = None) -> Reply:
    """An error as OpenAI's API words it."""
    error = {"error": {"message": message, "type": "error", "code": code}}
    return Reply(status=status, raw=json.dumps(error).encode(), headers=headers or {})


def garbage(raw: bytes = b"<html>oops</html>", *, status: int = 200) -> Reply:
    """A body that is no completion."""
    return Reply(status=status, raw=raw)


def drops(after: bytes | None = None) -> Reply:
    """A connection that closes unanswered, or after some bytes of the body."""
    return Reply(is_dropped=True, raw=after)


def stalls() -> Reply:
    """A request that is never answered."""
    return Reply(is_stalled=True)


def streamed(reply: Reply) -> Reply:
    """The same completion as server-sent events although nobody asked for them."""
    return replace(reply, is_streamed=True)


def playing(*replies: Reply) -> Callable[[Body], Reply]:
    """A script by the number of assistant messages in a request; the last reply stands for all that follow."""
    return lambda body: replies[min(sum(m["role"] == "assistant" for m in body["messages"]), len(replies) - 1)]


class FakeEndpoint:
    """A running endpoint."""

    def __init__(self, script: Script, *, model: str) -> None:
        self.model = model
        self.requests: list[Seen] = []
        self.most_at_once = 0
        """The largest number of requests that were being answered at the same time."""
        self.closing = threading.Event()
        self._lock = threading.Lock()
        self._now = 0
        self._script = script if callable(script) else iter(script)
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.005}, daemon=True)
        self._thread.start()

    @property
    def base_url(self) -> str:
        """What clients are given; it ends with `/v1`."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    @property
    def bodies(self) -> list[Body]:
        """The bodies of all requests."""
        return [seen.body for seen in self.requests]

    @contextlib.contextmanager
    def answering(self, seen: Seen) -> Iterator[Reply]:
        """The reply to a request, which is counted while it is given."""
        with self._lock:
            self.requests.append(seen)
            self._now += 1
            self.most_at_once = max(self.most_at_once, self._now)
            script = self._script
            reply = None if callable(script) else next(script, fails(400, "the script of the test has ended"))
        try:
            yield reply or script(seen.body)  # type: ignore[operator]
        finally:
            with self._lock:
                self._now -= 1

    def close(self) -> None:
        """Stop; requests that wait are dropped."""
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextlib.contextmanager
def running_endpoint(script: Script, *, model: str = "m") -> Iterator[FakeEndpoint]:
    """Run an endpoint until the block is left."""
    fake = FakeEndpoint(script, model=model)
    try:
        yield fake
    finally:
        fake.close()


def completion(reply: Reply, model: str) -> Body:
    """A chat completion object."""
    choice = {"index": 0, "message": reply.message, "finish_reason": reply.finish_reason}
    found = {"id": "c1", "object": "chat.completion", "created": 1, "model": model, "choices": [choice]}
    return found if reply.usage is None else {**found, "usage": reply.usage}


def events(reply: Reply, model: str) -> bytes:
    """The same completion as server-sent events, texts and arguments in pieces of a few characters."""
    head = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": model}
    chunks = [{**head, "choices": [{"index": 0, "delta": d, "finish_reason": None}]} for d in _deltas(reply)]
    chunks.append({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": reply.finish_reason}]})
    if reply.usage is not None:
        chunks.append({**head, "choices": [], "usage": reply.usage})
    return b"".join(b"data: %s\n\n" % json.dumps(c).encode() for c in chunks) + b"data: [DONE]\n\n"


def _deltas(reply: Reply) -> Iterator[Body]:
    message = reply.message or {}
    yield {"role": "assistant", "content": ""}
    for name in ("reasoning_content", "content"):
        for piece in _pieces(message.get(name) or ""):
            yield {name: piece}
    for i, call in enumerate(message.get("tool_calls", ())):
        function = call["function"]
        yield {"tool_calls": [{**call, "index": i, "function": {"name": function["name"], "arguments": ""}}]}
        for piece in _pieces(function["arguments"]):
            yield {"tool_calls": [{"index": i, "function": {"arguments": piece}}]}


def _pieces(text: str) -> Iterator[str]:
    return (text[i : i + 5] for i in range(0, len(text), 5))


class _Server(socketserver.ThreadingMixIn, HTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 1024

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is no news."""


def _handler(fake: FakeEndpoint) -> type[BaseHTTPRequestHandler]:
    class Handler(_Handler):
        endpoint = fake

    return Handler


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    endpoint: ClassVar[FakeEndpoint]

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def do_GET(self) -> None:
        listed = {"object": "list", "data": [{"id": self.endpoint.model, "object": "model"}]}
        self._send(200, json.dumps(listed).encode())

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        headers = {name.lower(): value for name, value in self.headers.items()}
        seen = Seen(path=self.path, headers=headers, body=body, at_s=time.monotonic())
        with self.endpoint.answering(seen) as reply:
            self._give(reply, is_streamed=reply.is_streamed or bool(body.get("stream")))

    def _give(self, reply: Reply, *, is_streamed: bool) -> None:
        if reply.waits_for is not None:
            reply.waits_for.wait(60)
        if reply.is_stalled:
            self.endpoint.closing.wait(60)
        if reply.is_stalled or reply.is_dropped:
            if reply.raw is not None:
                self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (2 * len(reply.raw)) + reply.raw)
            self.close_connection = True
        elif reply.raw is not None:
            self._send(reply.status, reply.raw, reply.headers)
        elif is_streamed:
            stream = {**reply.headers, "Content-Type": "text/event-stream"}
            self._send(reply.status, events(reply, self.endpoint.model), stream)
        else:
            self._send(reply.status, json.dumps(completion(reply, self.endpoint.model)).encode(), reply.headers)

    def _send(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self._headers_buffer.append(b"\r\n")  # type: ignore[attr-defined]
        self.wfile.write(b"".join(self._headers_buffer) + body)  # type: ignore[attr-defined]
        self._headers_buffer: list[bytes] = []

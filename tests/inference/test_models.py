"""A server is asked for its models briefly, without following it elsewhere; silence is an answer."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from endpoint import running_endpoint

from awm_hub.inference.models import served_models


@pytest.fixture
def listing(request: pytest.FixtureRequest) -> Iterator[tuple[str, list[Any]]]:
    """A server with one answer to all requests: its base URL, and the requests."""
    status, body, headers = request.param
    seen: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

        def do_GET(self) -> None:
            seen.append((self.path, self.headers.get("Authorization")))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.005})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1", seen
    server.shutdown()
    thread.join()
    server.server_close()


MANY = json.dumps({"data": [{"id": f"m{n}"} for n in range(20)] + [{"id": 7}, "x"]}).encode()


@pytest.mark.parametrize("listing", [(200, MANY, {})], indirect=True)
async def test_some_names_are_told_and_the_key_and_query_go_along(listing: tuple[str, list[Any]]) -> None:
    base_url, seen = listing
    assert await served_models(f"{base_url}?t=1", "sk-1") == tuple(f"m{n}" for n in range(8))
    assert seen == [("/v1/models?t=1", "Bearer sk-1")]


@pytest.mark.parametrize(
    "listing",
    [
        (404, b"{}", {}),
        (200, b"<html>", {}),
        (200, b'{"data": 1}', {}),
        (200, b"[" * 100_000, {}),
        (302, b"", {"Location": "/v1/elsewhere"}),
    ],
    indirect=True,
    ids=str,
)
async def test_what_is_no_list_is_none_and_no_redirect_is_followed(listing: tuple[str, list[Any]]) -> None:
    base_url, seen = listing
    assert await served_models(base_url, None) == ()
    assert seen == [("/v1/models", None)]


async def test_a_server_that_is_gone_has_no_names() -> None:
    with running_endpoint([]) as fake:
        base_url = fake.base_url
    assert await served_models(base_url, None) == ()

"""Signing in, as on a Space: with an OpenID provider, over https, and what it opens for the visitor and nobody else."""

import asyncio
import contextlib
import datetime as dt
import ipaddress
import json
import secrets
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlencode

import pytest
import uvicorn
from loopback_hub import TOKEN, USER, LoopbackHub
from playground.served import free_port, running_playground
from playground.visitor import Visitor, browser
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

__all__ = ["browser"]
pytestmark = pytest.mark.slow
PRIVATE = "awm/private-envs"
CLIENT, SECRET, SCOPES = "the-space", "its-secret", "openid profile read-repos gated-repos"


class Provider:
    """An OpenID provider that knows one client and one person, as huggingface.co does it: code flow, RS256, `nonce`."""

    def __init__(self, port: int) -> None:
        jwk = pytest.importorskip("joserfc.jwk", reason="needs joserfc: gradio[oauth] brings it")
        self.url, self.port, self.faults = f"http://127.0.0.1:{port}", port, list[str]()
        self._key = jwk.RSAKey.generate_key(2048, {"kid": "k"})
        self._asked: dict[str, dict[str, str]] = {}

    @contextlib.contextmanager
    def serving(self) -> Iterator[None]:
        settings = uvicorn.Config(self, host="127.0.0.1", port=self.port, log_level="error", lifespan="off")
        server = uvicorn.Server(settings)
        thread = threading.Thread(target=lambda: asyncio.run(server.serve()), daemon=True)
        thread.start()
        yield
        server.should_exit = True
        thread.join()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        request = Request(scope, receive)
        await (await self._answer(request))(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        match request.url.path:
            case "/.well-known/openid-configuration":
                return JSONResponse(self._about())
            case "/authorize":
                return self._consent(dict(request.query_params))
            case "/token":
                return self._token(request, parse_qs((await request.body()).decode()))
            case "/jwks":
                return JSONResponse({"keys": [self._key.as_dict(private=False)]})
        return Response(status_code=404)

    def _about(self) -> dict[str, Any]:
        found = {f"{name}_endpoint": f"{self.url}/{path}" for name, path in _PATHS.items()}
        algorithms = {"id_token_signing_alg_values_supported": ["RS256"]}
        return {"issuer": self.url, "jwks_uri": f"{self.url}/jwks", **found, **algorithms}

    def _consent(self, asked: dict[str, str]) -> Response:
        code = secrets.token_hex(8)
        self._asked[code] = asked
        if (asked["client_id"], asked["scope"]) != (CLIENT, SCOPES):
            self.faults.append(f"asked by {asked['client_id']} for {asked['scope']}")
        back = f"{asked['redirect_uri']}&{urlencode({'code': code, 'state': asked['state']})}"
        return HTMLResponse(f'<link rel="icon" href="data:,"><a href="{back.replace("&", "&amp;")}">Authorize</a>')

    def _token(self, request: Request, sent: dict[str, list[str]]) -> Response:
        from joserfc import jwt

        asked = self._asked.pop(sent["code"][0], None)
        if asked is None or sent["redirect_uri"] != [asked["redirect_uri"]]:
            self.faults.append("a code that was not given for this address")
            return JSONResponse({"error": "invalid_grant"}, 400)
        if not request.headers.get("authorization", "").startswith("Basic "):
            self.faults.append("the client did not say who it is")
        now = int(time.time())
        claims = {"iss": self.url, "aud": CLIENT, "sub": "1", "iat": now, "exp": now + 600, "nonce": asked["nonce"]}
        person = {"name": "Ann", "preferred_username": USER, "profile": f"{self.url}/{USER}", "picture": ""}
        token = jwt.encode({"alg": "RS256", "kid": "k"}, {**claims, **person}, self._key)
        given = {"access_token": TOKEN, "token_type": "bearer", "expires_in": 600, "scope": SCOPES}
        return JSONResponse({**given, "id_token": token})


_PATHS = {"authorization": "authorize", "token": "token", "userinfo": "userinfo"}


def certificate(folder: Path) -> dict[str, str]:
    """A certificate for 127.0.0.1, as options of `uvicorn.run`."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    now, day = dt.datetime.now(dt.UTC), dt.timedelta(days=1)
    host = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now - day, now + day)
        .add_extension(host, critical=True)
        .sign(key, hashes.SHA256())
    )
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    (folder / "key.pem").write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))
    (folder / "certificate.pem").write_bytes(made.public_bytes(pem))
    return {"ssl_keyfile": str(folder / "key.pem"), "ssl_certfile": str(folder / "certificate.pem")}


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    found = Provider(free_port())
    with found.serving():
        yield found
    assert found.faults == []


@pytest.fixture(scope="module")
def hub(notes_dataset: Path) -> Iterator[LoopbackHub]:
    found = LoopbackHub()
    found.commit_folder(notes_dataset, PRIVATE)
    found.repo(PRIVATE).private = True
    with found.serving():
        yield found


@pytest.fixture(scope="module")
def address(hub: LoopbackHub, provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A playground as on a Space, which has no token of its own."""
    folder, port = tmp_path_factory.mktemp("space"), free_port()
    # in place of the package that every Space has: gradio gives it each handler, for GPUs
    (folder / "spaces.py").write_text("def gradio_auto_wrap(handler):\n    return handler\n")
    own = {
        **{name: value for name, value in hub.environ(folder).items() if name != "HF_TOKEN"},
        "HF_HUB_OFFLINE": "0",
        "PYTHONPATH": str(folder),
        "SYSTEM": "spaces",
        "SPACE_ID": "awm/playground",
        "SPACE_HOST": f"127.0.0.1:{port}",
        "OPENID_PROVIDER_URL": provider.url,
        "OAUTH_CLIENT_ID": CLIENT,
        "OAUTH_CLIENT_SECRET": SECRET,
        "OAUTH_SCOPES": SCOPES,
    }
    with running_playground(own, port=port, options=certificate(folder)) as found:
        yield found


@pytest.fixture
def visitors(browser: "Browser", address: str, provider: Provider) -> Iterator[tuple[Visitor, Visitor]]:
    """Two of them, in whose browsers nothing may go wrong."""
    found = tuple(Visitor(browser, address, ignore_https_errors=True) for _ in range(2))
    found[0].may_see.append(provider.url)
    yield found
    for one in found:
        one.close()
        assert one.complaints == []


def open_private(page: "Page") -> None:
    page.locator("#awm-open > button").click()
    page.locator("#awm-dataset input, #awm-dataset textarea").first.fill(PRIVATE)
    page.click("#awm-open-dataset")


def sign_in(visitor: Visitor) -> None:
    page = visitor.go()
    page.get_by_role("button", name="Sign in with Hugging Face").click()
    page.get_by_role("link", name="Authorize").click()
    page.get_by_role("button", name=f"Logout ({USER})").wait_for()


def test_a_private_dataset_opens_for_whoever_signed_in_as_its_owner_and_for_nobody_else(
    visitors: tuple[Visitor, Visitor],
) -> None:
    owner, stranger = visitors
    refused = f"there is no dataset {PRIVATE} for you"
    sign_in(owner)
    assert owner.page.url.startswith(owner.address)
    open_private(owner.page)
    owner.page.locator(".awm-pick-title", has_text="Notes").click()
    owner.page.wait_for_selector("#awm-diagram svg")
    assert TOKEN not in owner.page.content()
    assert TOKEN not in owner.page.request.get(f"{owner.address}/config").text()

    stranger.go()
    open_private(stranger.page)
    stranger.told(refused)
    stranger.go(f"?dataset={PRIVATE}&env=notes").locator("#awm-head", has_text=refused).wait_for()

    owner.page.get_by_role("button", name=f"Logout ({USER})").click()
    owner.page.get_by_role("button", name="Sign in with Hugging Face").wait_for()
    owner.go(f"?dataset={PRIVATE}&env=notes").locator("#awm-head", has_text=refused).wait_for()


def test_what_keeps_who_signed_in_is_a_cookie_that_scripts_and_plain_http_do_not_get(
    visitors: tuple[Visitor, Visitor],
) -> None:
    owner, _ = visitors
    sign_in(owner)
    (cookie,) = [c for c in owner.context.cookies() if c["name"] == "session"]
    assert (cookie["secure"], cookie["httpOnly"]) == (True, True)
    assert json.dumps(owner.page.evaluate("[document.cookie, {...localStorage}]")).count(TOKEN) == 0

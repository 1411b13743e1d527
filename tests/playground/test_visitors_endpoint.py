"""A visitor's endpoint is asked over TLS with the visitor's key, and the key is nowhere else."""

import contextlib
import copy
import datetime as dt
import ipaddress
import json
import logging
import pickle
import ssl
import traceback
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from endpoint import FakeEndpoint, Reply, Script, calls, drops, fails, garbage, running_endpoint, says, stalls, streamed

import awm_hub
from awm_hub.errors import ContextFullError, RemoteError, UsageError
from awm_hub.inference import Sampling
from awm_hub.playground.addresses import AddressError
from awm_hub.playground.visitors_endpoint import HUGGING_FACE, MAX_ANSWER_BYTES, VisitorsEndpoint
from awm_hub.policy import ChatPolicy
from awm_hub.rollouts.attempts import attempt

PUBLIC = "93.184.216.34"
HOST = "api.visitor.org"
KEY = "sk-top-secret-0123456789"
ASKED = [{"role": "user", "content": "2+2?"}]
Made = Callable[..., Awaitable[VisitorsEndpoint]]


class Loopback(httpx.AsyncBaseTransport):
    """Connects to a server on this machine whatever the address, and sees where the request went."""

    def __init__(self, port: int, trusted: ssl.SSLContext) -> None:
        self._port, self._inner = port, httpx.AsyncHTTPTransport(verify=trusted, trust_env=False)
        self.hosts: list[str] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.hosts.append(request.url.host)
        request.url = request.url.copy_with(host="127.0.0.1", port=self._port)
        return await self._inner.handle_async_request(request)


async def resolve(host: str, port: int) -> Sequence[str]:
    """A name server that knows every host at one public address."""
    return [PUBLIC]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for the visitor's host and the router, with its key."""
    x509 = pytest.importorskip("cryptography.x509")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    now = dt.datetime.now(dt.UTC)
    names = [x509.DNSName(HOST), x509.DNSName("router.huggingface.co"), x509.IPAddress(ipaddress.ip_address(PUBLIC))]
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    made = made.not_valid_before(now - dt.timedelta(days=1)).not_valid_after(now + dt.timedelta(days=1))
    made = made.add_extension(x509.SubjectAlternativeName(names), critical=False)
    made = made.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(private + made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    return path


class Server:
    """A fake endpoint behind TLS, and the transport that leads there."""

    def __init__(self, fake: FakeEndpoint, certificate: Path) -> None:
        self.fake = fake
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server = fake._server
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        self.transport = Loopback(server.server_address[1], ssl.create_default_context(cafile=str(certificate)))

    async def endpoint(self, address: str = f"https://{HOST}/v1", **more: Any) -> VisitorsEndpoint:
        """The visitor's endpoint at an address."""
        given = {"key": KEY, "resolve": resolve, "transport": self.transport, **more}
        made = await VisitorsEndpoint.at(address, given.pop("model", "m"), **given)
        made._backoff_s = 0
        return made


@pytest.fixture
def serving(certificate: Path) -> Iterator[Callable[[Script], Server]]:
    with contextlib.ExitStack() as stack:
        yield lambda script: Server(stack.enter_context(running_endpoint(script)), certificate)


async def test_a_request_reaches_the_pinned_address_with_the_visitors_key(
    serving: Callable[[Script], Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWM_HUB_API_KEY", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.setenv(name, "of-the-server")
    server = serving([calls(("add", {"a": 2}), content="Let me see.", reasoning="hm")])
    async with await server.endpoint(sampling=Sampling(temperature=0.5, top_k=3, max_tokens=9)) as endpoint:
        reply = await endpoint.chat(ASKED, tools=[{"type": "function", "function": {"name": "add"}}])

    (seen,) = server.fake.requests
    assert server.transport.hosts == [PUBLIC]
    assert seen.path == "/v1/chat/completions"
    assert (seen.headers["host"], seen.headers["authorization"]) == (HOST, f"Bearer {KEY}")
    assert seen.body["messages"] == ASKED
    assert (seen.body["temperature"], seen.body["top_k"], seen.body["max_tokens"]) == (0.5, 3, 9)
    assert (reply.content, reply.reasoning, reply.tool_calls[0].name) == ("Let me see.", "hm", "add")
    assert (reply.usage.requests, reply.usage.prompt_tokens) == (1, 7)


async def test_without_a_key_no_other_is_sent(
    serving: Callable[[Script], Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWM_HUB_API_KEY", "HF_TOKEN"):
        monkeypatch.setenv(name, "of-the-server")
    server = serving([says("4")])
    async with await server.endpoint(key="  ") as endpoint:
        await endpoint.chat(ASKED)
    assert "authorization" not in server.fake.requests[0].headers
    with pytest.raises(UsageError, match="not signed in"):
        await VisitorsEndpoint.signed_in(None, "owner/model", resolve=resolve)
    with pytest.raises(UsageError, match="not signed in"):
        await VisitorsEndpoint.signed_in("", "owner/model", resolve=resolve)


async def test_a_signed_in_visitor_asks_the_router_as_themselves(
    serving: Callable[[Script], Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_of_the_server")
    server = serving([says("4")])
    endpoint = await VisitorsEndpoint.signed_in(
        "hf_of_the_visitor", "owner/model", provider="novita", resolve=resolve, transport=server.transport
    )
    assert (await endpoint.chat(ASKED)).content == "4"
    (seen,) = server.fake.requests
    assert seen.headers["authorization"] == "Bearer hf_of_the_visitor"
    assert seen.headers["host"] == httpx.URL(HUGGING_FACE).host
    assert seen.body["model"] == "owner/model:novita"
    assert endpoint.describe() == {"model": "owner/model:novita", "host": "huggingface:novita", "sampling": {}}
    await endpoint.aclose()


@pytest.mark.parametrize(("model", "provider"), [("", ""), ("a b", ""), ("m\n", "x"), ("m", "../x"), ("m", "A b")])
async def test_names_that_are_none_are_refused(model: str, provider: str) -> None:
    if model.strip() == "m" and not provider.isalnum():
        with pytest.raises(UsageError, match="no name of a provider"):
            await VisitorsEndpoint.signed_in("hf_x", model, provider=provider, resolve=resolve)
    elif model.strip() != "m":
        with pytest.raises(UsageError, match="no name of a model"):
            await VisitorsEndpoint.at(f"https://{HOST}", model, resolve=resolve)


async def test_a_key_with_other_signs_is_refused_and_not_quoted() -> None:
    for key in ("a b-secret", "sécret", "x\r\nHost: secret"):
        with pytest.raises(UsageError, match="this is no key") as caught:
            await VisitorsEndpoint.at(f"https://{HOST}", "m", key=key, resolve=resolve)
        assert "ecret" not in "".join(traceback.format_exception(caught.value)).split("this is no key")[1]


async def test_an_address_inside_is_refused() -> None:
    async def inside(host: str, port: int) -> Sequence[str]:
        return ["10.0.0.1"]

    with pytest.raises(AddressError):
        await VisitorsEndpoint.at(f"https://{HOST}/v1", "m", key=KEY, resolve=inside)


async def test_a_certificate_for_another_name_is_not_trusted(serving: Callable[[Script], Server]) -> None:
    server = serving([says("4")])
    async with await server.endpoint("https://other.visitor.org/v1") as endpoint:
        with pytest.raises(RemoteError, match="cannot be reached"):
            await endpoint.chat(ASKED)
    assert server.fake.requests == []


async def test_a_pasted_address_may_name_the_whole_path(serving: Callable[[Script], Server]) -> None:
    server = serving([says("4")])
    async with await server.endpoint(f"https://{PUBLIC}:8443/openai/v1/chat/completions") as endpoint:
        await endpoint.chat(ASKED)
        assert endpoint.describe()["host"] == f"https://{PUBLIC}:8443"
    assert server.fake.requests[0].path == "/openai/v1/chat/completions"


async def test_a_failure_that_passes_is_asked_again(serving: Callable[[Script], Server]) -> None:
    for bad in (fails(503), fails(429, headers={"retry-after": "0"}), garbage(), drops()):
        server = serving([bad, streamed(says("4"))])
        async with await server.endpoint() as endpoint:
            reply = await endpoint.chat(ASKED)
        assert (reply.content, reply.usage.requests) == ("4", 2)


@pytest.mark.parametrize(
    ("reply", "message", "step"),
    [
        (fails(401, f"Incorrect API key provided: {KEY}"), "answered 401: Incorrect API key provided: …", "key"),
        (fails(404, "no model"), "answered 404: no model", "model's name"),
        (fails(400, "tools?"), "answered 400: tools?", "text protocol"),
        (fails(429, headers={"retry-after": "60"}), "answered 429", "later"),
        (fails(307, headers={"location": "http://169.254.169.254/"}), "no redirect is followed", "final address"),
        (garbage(b"x" * (MAX_ANSWER_BYTES + 1)), "more than", "tokens"),
        (garbage(b"[" * 100_000), "no chat completion", "OpenAI-compatible"),
        (garbage(b"\xff\xfe"), "no chat completion", "OpenAI-compatible"),
        (garbage(b'{"choices": 7}'), "no chat completion", "OpenAI-compatible"),
    ],
)
async def test_what_failed_for_good_is_told_with_a_step_for_a_visitor(
    serving: Callable[[Script], Server], reply: Reply, message: str, step: str
) -> None:
    server = serving(lambda body: reply)
    async with await server.endpoint() as endpoint:
        with pytest.raises(RemoteError, match=rf"^(m at )?https://{HOST}") as caught:
            await endpoint.chat(ASKED)
    assert message in caught.value.message
    assert step in caught.value.next_step
    assert "169.254" not in str(caught.value)


async def test_a_conversation_that_no_longer_fits_is_an_error_of_its_own(serving: Callable[[Script], Server]) -> None:
    server = serving([fails(400, "maximum context length is 8192 tokens", code="context_length_exceeded")])
    async with await server.endpoint() as endpoint:
        with pytest.raises(ContextFullError):
            await endpoint.chat(ASKED)


async def test_an_endpoint_that_stalls_runs_out_of_time(serving: Callable[[Script], Server]) -> None:
    server = serving(lambda body: stalls())
    async with await server.endpoint(timeout_s=0.1) as endpoint:
        with pytest.raises(RemoteError, match="did not answer in time"):
            await endpoint.chat(ASKED)


async def test_the_key_is_in_no_record_error_representation_or_log(
    serving: Callable[[Script], Server], caplog: pytest.LogCaptureFixture
) -> None:
    def echoing(body: dict[str, Any]) -> Reply:
        if len(body["messages"]) == 2:
            return calls((f"use {KEY}", {"key": KEY}), content=f"your key is {KEY}", reasoning=f"{KEY}")
        return fails(500, f"debug: Authorization: Bearer {KEY}")

    server = serving(echoing)
    environment = awm_hub.load()["field_service_1"]
    with caplog.at_level(logging.DEBUG):
        async with await server.endpoint(model=KEY) as endpoint:
            async with await awm_hub.aio.launch(environment, task=environment.tasks[0].slug) as instance:
                trajectory = await attempt(instance, ChatPolicy(endpoint), max_turns=3)
            shown = [repr(endpoint), str(endpoint), json.dumps(endpoint.describe()), repr(vars(endpoint))]
            with pytest.raises(RemoteError) as caught:
                await endpoint.chat([{}, {}, {}])
            for stored in (pickle.dumps, copy.deepcopy):
                with pytest.raises(TypeError):
                    stored(endpoint._secret)
    assert trajectory.termination == "endpoint_error"
    told = [*shown, str(caught.value), caplog.text, json.dumps(trajectory.to_dict(), ensure_ascii=False)]
    assert [text for text in told if KEY in text] == []
    assert "your key is …" in told[-1]

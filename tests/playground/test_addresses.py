"""Whatever address a visitor pastes, connections go to the public internet alone, and to what was looked up once."""

import asyncio
import gzip
import json
import logging
from collections.abc import Callable, Sequence

import httpx
import pytest

from awm_hub.errors import RemoteError
from awm_hub.playground.addresses import AddressError, PinnedClient, is_public, looked_up, pinned

PUBLIC = "93.184.216.34"


def resolving(*answers: Sequence[str]) -> Callable[[str, int], object]:
    """A name server that gives one list after another, the last one for ever."""
    left = list(answers)

    async def resolve(host: str, port: int) -> Sequence[str]:
        return left.pop(0) if len(left) > 1 else left[0]

    return resolve


async def nobody(host: str, port: int) -> Sequence[str]:
    raise AssertionError(f"{host} was looked up")


async def test_a_public_host_is_looked_up_once_and_pinned() -> None:
    place = await pinned(" https://API.example.org:8443/v1/ ", resolve=resolving([PUBLIC], ["127.0.0.1"]))
    assert (place.host, place.port, place.path, place.ip) == ("api.example.org", 8443, "/v1", PUBLIC)
    assert place.origin == "https://api.example.org:8443"
    assert place.url("/chat/completions") == f"https://{PUBLIC}:8443/v1/chat/completions"


async def test_a_public_ip_address_is_taken_as_it_is() -> None:
    place = await pinned("https://[2606:4700:4700:0::1111]/v1", resolve=nobody)
    assert place.url("") == "https://[2606:4700:4700::1111]:443/v1"
    assert (await pinned("https://8.8.8.8", resolve=nobody)).url("/x") == "https://8.8.8.8:443/x"


@pytest.mark.parametrize(
    "address",
    [
        "",
        "https://",
        "http://api.example.org/v1",
        "ftp://api.example.org/v1",
        "file:///etc/passwd",
        "gopher://api.example.org/",
        "//api.example.org/v1",
        "api.example.org/v1",
        "https:/api.example.org",
        "https:\\\\api.example.org",
        "https://api.example.org\\@127.0.0.1/",
        "https://user@api.example.org/v1",
        "https://user:top-secret@api.example.org/v1",
        "https://api.example.org@127.0.0.1/v1",
        "https://api.example.org:80/v1",
        "https://api.example.org:22/v1",
        "https://api.example.org:0/v1",
        "https://api.example.org:65536/v1",
        "https://api.example.org:443:22/v1",
        "https://api.example.org:/v1",
        "https://api.example.org/v1?api-key=x",
        "https://api.example.org/v1#x",
        "https://api.example.org/v1\r\nHost: localhost",
        "https://api.example.org/v1 x",
        "https://api.example.org\t/v1",
        "https://api.example.org\0.net/v1",
        "https://api.example.org/%2e%2e/v1",
        "https://api.example.org./v1",
        "https://localhost/v1",
        "https://localhost./v1",
        "https://LOCALHOST/v1",
        "https://foo.localhost/v1",
        "https://metadata/v1",
        "https://metadata.google.internal/v1",
        "https://printer.local/v1",
        "https://kubernetes.default.svc/v1",
        "https://kubernetes.default.svc.cluster.local/v1",
        "https://host.docker.internal/v1",
        "https://router.home.arpa/v1",
        "https://1.0.0.127.in-addr.arpa/v1",
        "https://2130706433/v1",
        "https://0x7f000001/v1",
        "https://017700000001/v1",
        "https://0x7f.0.0.1/v1",
        "https://0177.0.0.1/v1",
        "https://127.1/v1",
        "https://127.0.1/v1",
        "https://8.8.8.010/v1",
        "https://api.0x7f/v1",
        "https://api.127/v1",
        "https://127.0.0.1/v1",
        "https://127.0.0.1./v1",
        "https://0.0.0.0/v1",
        "https://169.254.169.254/latest/meta-data",
        "https://100.100.100.200/latest/meta-data",
        "https://168.63.129.16/v1",
        "https://[::1]/v1",
        "https://[::]/v1",
        "https://[::ffff:127.0.0.1]/v1",
        "https://[::ffff:7f00:1]/v1",
        "https://[::ffff:8.8.8.8]/v1",
        "https://[64:ff9b::7f00:1]/v1",
        "https://[2002:7f00:1::]/v1",
        "https://[fd00:ec2::254]/v1",
        "https://[fe80::1]/v1",
        "https://[fe80::1%25eth0]/v1",
        "https://[::1/v1",
        "https://[127.0.0.1]/v1",
        "https://１２７.0.0.1/v1",
        "https://①②⑦.0.0.1/v1",
        "https://ｌocalhost/v1",
        "https://127。0。0。1/v1",
        "https://bücher.example.org/v1",
        "https://-api.example.org/v1",
        "https://api..example.org/v1",
        "https://.example.org/v1",
        "https://" + "a" * 64 + ".org/v1",
        "https://api.example.org/" + "a" * 500,
    ],
)
async def test_a_trick_is_refused_before_anything_is_looked_up(address: str) -> None:
    with pytest.raises(AddressError) as caught:
        await pinned(address, resolve=nobody)
    assert caught.value.next_step
    assert "top-secret" not in str(caught.value)


@pytest.mark.parametrize(
    "found",
    [
        ["127.0.0.1"],
        ["10.0.0.5"],
        ["172.31.255.255"],
        ["192.168.1.1"],
        ["169.254.169.254"],
        ["100.64.0.1"],
        ["198.18.0.1"],
        ["192.0.0.192"],
        ["192.88.99.1"],
        ["224.0.0.1"],
        ["239.255.255.250"],
        ["240.0.0.1"],
        ["255.255.255.255"],
        ["0.1.2.3"],
        ["168.63.129.16"],
        ["::1"],
        ["::"],
        ["::127.0.0.1"],
        ["::ffff:10.0.0.1"],
        ["::ffff:0:10.0.0.1"],
        ["64:ff9b::a00:1"],
        ["64:ff9b:1::a00:1"],
        ["2002:a00:1::"],
        ["2001:0:4136:e378:8000:63bf:3fff:fdd2"],
        ["2606:4700::5efe:a00:1"],
        ["2606:4700::200:5efe:a00:1"],
        ["fe80::1%eth0"],
        ["fc00::1"],
        ["fec0::1"],
        ["ff02::1"],
        ["100::1"],
        ["2001:db8::1"],
        ["3fff::1"],
        ["5f00::1"],
        ["no address"],
        [PUBLIC, "10.0.0.1"],
        ["10.0.0.1", PUBLIC],
        ["2606:4700:4700::1111", "fd00::1"],
    ],
)
async def test_a_name_with_any_address_inside_a_network_is_refused(found: list[str]) -> None:
    with pytest.raises(AddressError, match="not on the public internet"):
        await pinned("https://127.0.0.1.nip.example.org/v1", resolve=resolving(found))


@pytest.mark.parametrize("ip", ["1.1.1.1", PUBLIC, "2606:4700:4700::1111", "2a00:1450:4001:82a::200e", "223.255.255.1"])
def test_addresses_of_the_internet_are_public(ip: str) -> None:
    assert is_public(ip)


async def test_a_host_that_there_is_not_is_told() -> None:
    async def resolve(host: str, port: int) -> Sequence[str]:
        raise OSError("no such host")

    for unknown in (resolve, resolving([])):
        with pytest.raises(AddressError, match=r"no host api\.example\.org"):
            await pinned("https://api.example.org", resolve=unknown)


async def test_the_systems_own_look_up_tells_all_addresses() -> None:
    assert set(await looked_up("localhost", 443)) <= {"127.0.0.1", "::1"}
    with pytest.raises(OSError):
        await looked_up("no-such-host.invalid", 443)


def client(answer: Callable[[httpx.Request], httpx.Response], *, max_bytes: int = 1000) -> Callable[..., object]:
    async def made(address: str = "https://api.example.org/v1", *ips: Sequence[str]) -> PinnedClient:
        place = await pinned(address, resolve=resolving(*(ips or ([PUBLIC],))))
        return PinnedClient(place, timeout_s=1, max_bytes=max_bytes, transport=httpx.MockTransport(answer))

    return made


async def test_a_name_that_means_something_else_later_is_not_followed(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, stream=httpx.ByteStream(b"{}"))

    made = client(answer)
    with caplog.at_level(logging.DEBUG):
        asked = await made("https://api.example.org:8443/v1", [PUBLIC], ["127.0.0.1"])
        for _ in range(3):
            await asked.post("/chat/completions", {"a": 1}, {"Authorization": "Bearer top-secret"})
    assert {str(request.url) for request in seen} == {f"https://{PUBLIC}:8443/v1/chat/completions"}
    assert seen[0].headers["host"] == "api.example.org:8443"
    assert seen[0].extensions["sni_hostname"] == "api.example.org"
    assert json.loads(seen[0].content) == {"a": 1}
    assert "top-secret" not in caplog.text


async def test_a_redirect_is_an_answer_and_no_journey() -> None:
    away = {"location": "http://169.254.169.254/"}
    made = client(lambda request: httpx.Response(307, headers=away, stream=httpx.ByteStream(b"")))
    answer = await (await made()).post("/x", {}, {})
    assert answer.status == 307


async def test_a_proxy_of_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    seen = []
    made = client(lambda request: (seen.append(request.url.host), httpx.Response(200, stream=httpx.ByteStream(b"")))[1])
    await (await made()).post("/x", {}, {})
    assert seen == [PUBLIC]


async def test_a_long_answer_is_given_up() -> None:
    class Endless(httpx.AsyncByteStream):
        read = 0

        async def __aiter__(self):  # type: ignore[no-untyped-def]
            while True:
                Endless.read += 100
                yield b"x" * 100

    made = client(lambda request: httpx.Response(200, stream=Endless()))
    with pytest.raises(RemoteError, match="more than 1,000 bytes"):
        await (await made()).post("/x", {}, {})
    assert Endless.read == 1100


async def test_a_compressed_answer_is_refused() -> None:
    encoded = {"content-encoding": "gzip"}
    packed = gzip.compress(b"0" * 10_000_000)[:500]
    made = client(lambda request: httpx.Response(200, headers=encoded, stream=httpx.ByteStream(packed)))
    with pytest.raises(RemoteError, match="compressed"):
        await (await made()).post("/x", {}, {})


async def test_an_answer_that_never_ends_runs_out_of_time() -> None:
    class Slow(httpx.AsyncByteStream):
        async def __aiter__(self):  # type: ignore[no-untyped-def]
            yield b"x"
            await asyncio.Event().wait()

    place = await pinned("https://api.example.org/v1", resolve=resolving([PUBLIC]))
    transport = httpx.MockTransport(lambda request: httpx.Response(200, stream=Slow()))
    asked = PinnedClient(place, timeout_s=0.05, max_bytes=1000, transport=transport)
    with pytest.raises(TimeoutError):
        await asked.post("/x", {}, {})

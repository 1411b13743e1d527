"""The guard between a visitor's pasted address and the network that the server is in (SSRF).

A visitor may have an agent ask any model endpoint on the internet, and nothing else: no service of this machine, of the
cluster around it, or of the cloud below it. So an address is `https`, of a strict form, and its host is looked up once:
every address that it has must be public, and connections go to the first of them, whatever the name means later. The
name stays in the `Host` header and in the TLS handshake, whose certificate must be for it. No redirect is followed, no
proxy of the environment is used, and time and size of an answer are limited.

Sources of the forbidden ranges: IANA's special-purpose registries for IPv4 and IPv6 (RFC 6890), and the metadata
addresses that clouds document.
"""

import asyncio
import ipaddress
import re
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import httpx

from awm_hub.errors import RemoteError, UsageError

MAX_ADDRESS_CHARS = 500
_LOOKUP_S = 5.0
_CONNECT_S = 10.0
_LOOKUPS = ThreadPoolExecutor(max_workers=4, thread_name_prefix="lookup")
"""Of their own: a name server that never answers must not hold up what else runs in threads."""
_FORM = re.compile(
    r"https://(?P<host>\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9.-]{1,253})(?::(?P<port>[0-9]{1,5}))?(?P<path>(?:/[\w.~-]*)*)",
    re.ASCII,
)
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_LAST_LABEL = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")
"""A last label of digits makes a name an IPv4 address to some readers, in decimal, octal or hex."""
_LOCAL_NAMES = (
    "localhost", "localdomain", "local", "internal", "intranet", "private", "corp", "home", "lan", "svc",
    "home.arpa", "in-addr.arpa", "ip6.arpa", "test", "example", "invalid", "onion", "alt",
)  # fmt: skip
_FORBIDDEN = tuple(
    ipaddress.ip_network(one)
    for one in (
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
        "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16", "192.175.48.0/24",
        "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/3",
        "168.63.129.16/32",  # Azure's metadata and name server, a public address by its looks
        "2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20",
    )
)  # fmt: skip
_GLOBAL_IPV6 = ipaddress.IPv6Network("2000::/3")
"""All that is not in it is no global unicast: mapped and translated IPv4, local, link-local, multicast."""
_ISATAP = (0x00005EFE, 0x02005EFE)
"""Middle of an IPv6 address that holds an IPv4 one (RFC 5214 §6.1)."""

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""All addresses of a host; the second argument is the port."""


class AddressError(UsageError):
    """An address that the server does not connect to for a visitor."""


@dataclass(frozen=True, kw_only=True)
class Pinned:
    """An address that was looked up and found to be public."""

    host: str
    port: int
    path: str
    """Without a slash at its end."""
    ip: str
    """What connections go to."""

    @property
    def origin(self) -> str:
        """Scheme, host and port."""
        return f"https://{self.authority}"

    @property
    def authority(self) -> str:
        """Host and port, as the `Host` header has them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == 443 else f"{host}:{self.port}"

    def url(self, path: str) -> str:
        """The URL to connect to, with the IP address in place of the name."""
        ip = f"[{self.ip}]" if ":" in self.ip else self.ip
        return f"https://{ip}:{self.port}{self.path}{path}"


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a server answered, within the limits."""

    status: int
    headers: Mapping[str, str]
    body: bytes


async def looked_up(host: str, port: int) -> Sequence[str]:
    """All addresses of a host, as the system knows them.

    Raises:
        OSError: there is no such host.
    """
    loop = asyncio.get_running_loop()
    found = await loop.run_in_executor(_LOOKUPS, lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
    return [str(address[0]) for *_, address in found]


async def pinned(address: str, *, resolve: Resolve = looked_up) -> Pinned:
    """Check an address, look its host up once, and pin what was found.

    Args:
        address: As a visitor pasted it.
        resolve: Looks hosts up.

    Raises:
        AddressError: it is not of the form that is taken, or one of the host's addresses is not public.
    """
    host, port, path = _taken_apart(address.strip())
    literal = _literal(host)
    ips = [literal] if literal is not None else await _resolved(_checked_name(host), port, resolve)
    for ip in ips:
        if not is_public(ip):
            message = f"{host} is not on the public internet"
            raise AddressError(message, next_step="run the playground on your own machine to reach local models")
    return Pinned(host=literal or host, port=port, path=path.rstrip("/"), ip=ips[0])


def is_public(address: str) -> bool:
    """Whether an IP address is one of a machine on the public internet, and of no other through it."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return False
    if any(ip in network for network in _FORBIDDEN if network.version == ip.version):
        return False
    if isinstance(ip, ipaddress.IPv6Address):
        holds_ipv4 = (int(ip) >> 32) & 0xFFFFFFFF in _ISATAP
        if ip.scope_id is not None or ip not in _GLOBAL_IPV6 or holds_ipv4:
            return False
    return ip.is_global and not (ip.is_multicast or ip.is_reserved or ip.is_private)


def _taken_apart(address: str) -> tuple[str, int, str]:
    """Host, port and path of an address of the one form that is taken.

    Raises:
        AddressError: it has another.
    """
    if "@" in address.partition("://")[2].partition("/")[0]:
        raise AddressError("the address holds a user name or a password", next_step="put the key into its own field")
    if not address.lower().startswith("https://"):
        raise AddressError("only https addresses are asked", next_step="for instance https://api.example.org/v1")
    if "?" in address or "#" in address:
        raise AddressError("the address has something after ? or #", next_step="give it up to its /v1")
    match = _FORM.fullmatch("https" + address[5:])
    if match is None or len(address) > MAX_ADDRESS_CHARS:
        step = "for instance https://api.example.org/v1; a name with other letters in its form with xn--"
        raise AddressError("this is no address of an endpoint", next_step=step)
    port = int(match["port"] or 443)
    if port != 443 and not 1023 < port < 65536:
        raise AddressError(f"port {port} is none that is asked", next_step="443, or one above 1023")
    return match["host"].lower(), port, match["path"]


def _literal(host: str) -> str | None:
    """The IP address that a host is itself, in its usual form; None where it is a name."""
    try:
        if host.startswith("["):
            return str(ipaddress.IPv6Address(host[1:-1]))
        return str(ipaddress.IPv4Address(host))
    except ValueError:
        return None


def _checked_name(host: str) -> str:
    """A full name on the internet.

    Raises:
        AddressError: it is none, or one that only means something inside a network.
    """
    labels = host.split(".")
    is_name = len(labels) > 1 and all(_LABEL.fullmatch(label) for label in labels) and _LAST_LABEL.fullmatch(labels[-1])
    if not is_name:
        raise AddressError(f"{host} is no full name of a host", next_step="for instance https://api.example.org/v1")
    if any(host.endswith(f".{name}") for name in _LOCAL_NAMES):
        step = "run the playground on your own machine to reach local models"
        raise AddressError(f"{host} is not on the public internet", next_step=step)
    return host


async def _resolved(host: str, port: int, resolve: Resolve) -> Sequence[str]:
    try:
        async with asyncio.timeout(_LOOKUP_S):
            found = list(await resolve(host, port))
    except (OSError, UnicodeError, TimeoutError):
        found = []
    if not found:
        raise AddressError(f"there is no host {host}", next_step="check the address")
    return found


class PinnedClient:
    """Asks one pinned address, and nothing else.

    Args:
        place: Where.
        timeout_s: For one request, from the connection to the last byte.
        max_bytes: Of one answer.
        transport: What connects, in place of httpx's own.
    """

    def __init__(
        self, place: Pinned, *, timeout_s: float, max_bytes: int, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self.place, self._timeout_s, self._max_bytes = place, timeout_s, max_bytes
        self._client = httpx.AsyncClient(
            transport=transport or httpx.AsyncHTTPTransport(trust_env=False),
            trust_env=False,
            follow_redirects=False,
            timeout=httpx.Timeout(timeout_s, connect=min(_CONNECT_S, timeout_s)),
        )

    async def post(self, path: str, body: Any, headers: Mapping[str, str]) -> Answer:
        """Send JSON.

        Args:
            path: Below the address.
            body: JSON.
            headers: Further ones.

        Raises:
            TimeoutError: the answer took too long.
            OSError: there was no connection, or it broke.
            RemoteError: the answer is longer than the limit, or compressed, which nobody asked for.
        """
        request = self._client.build_request(
            "POST",
            self.place.url(path),
            json=body,
            headers={**headers, "Host": self.place.authority, "Accept-Encoding": "identity"},
            extensions={"sni_hostname": self.place.host},
        )
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._answer(await self._client.send(request, stream=True))
        except httpx.TimeoutException:
            raise TimeoutError from None
        except httpx.HTTPError as error:
            raise ConnectionError(type(error).__name__) from None

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _answer(self, response: httpx.Response) -> Answer:
        try:
            if response.headers.get("content-encoding", "identity").lower() != "identity":
                raise RemoteError(f"{self.place.origin} sent a compressed answer", next_step="ask its operator")
            found = bytearray()
            async for part in response.aiter_raw():
                found += part
                if len(found) > self._max_bytes:
                    message = f"{self.place.origin} answered with more than {self._max_bytes:,} bytes"
                    raise RemoteError(message, next_step="lower the number of tokens")
            return Answer(status=response.status_code, headers=dict(response.headers), body=bytes(found))
        finally:
            await response.aclose()

"""Who may talk to the server: names it answers to, pages that may call it, and the controller's token.

A web page anywhere can make a browser send requests to a server on the visitor's machine. Two checks stop it. A page
names itself in `Origin`. A page whose own name was pointed at this machine (DNS rebinding) counts as same-origin, but
its requests carry that name in `Host`. Both must be on one allow-list: loopback names, the address bound, and what the
operator adds.
"""

import hmac
import re
from collections.abc import Iterable
from http import HTTPStatus

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from awm_hub.errors import UsageError
from awm_hub.serving.refusals import Refusal, refuse
from awm_hub.serving.settings import ServerSettings

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
_AUTHORITY = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::([0-9]{1,5}))?")
_ORIGIN = re.compile(r"https?://(.+)")
_WILDCARDS = ("", "0.0.0.0", "::")


class AllowedNames:
    """The allow-list of names in `Host` and `Origin`; an entry without a port stands for every port."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = {self._entry(name) for name in names}

    @classmethod
    def of(cls, settings: ServerSettings) -> "AllowedNames":
        """Loopback names, the address the server binds, and what its settings add.

        Raises:
            UsageError: an added name is none.
        """
        bound = f"[{settings.host}]" if ":" in settings.host else settings.host
        own = () if settings.host in _WILDCARDS else (bound,)
        return cls((*LOOPBACK_NAMES, *own, *settings.allowed_hosts))

    def has_host(self, host: str) -> bool:
        """Whether a `Host` header names an allowed host."""
        match = _AUTHORITY.fullmatch(host.lower())
        return match is not None and not self._names.isdisjoint({(match[1], None), (match[1], match[2])})

    def has_origin(self, origin: str) -> bool:
        """Whether an `Origin` header names a page served from an allowed host."""
        match = _ORIGIN.fullmatch(origin.lower())
        return match is not None and self.has_host(match[1])

    @staticmethod
    def _entry(name: str) -> tuple[str, str | None]:
        match = _AUTHORITY.fullmatch(name.lower())
        if match is None:
            raise UsageError(f"{name!r} is not a host name", next_step="--allowed-host name, or name:port")
        return match[1], match[2]


class NameGuard:
    """Refuses every request whose `Host` or `Origin` is not on the allow-list, before anything else reads it."""

    def __init__(self, app: ASGIApp, names: AllowedNames) -> None:
        self._app, self._names = app, names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        refusal = self._refusal(Headers(scope=scope)) if scope["type"] == "http" else None
        await (self._app if refusal is None else refuse(refusal))(scope, receive, send)

    def _refusal(self, headers: Headers) -> Refusal | None:
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        if len(hosts) != 1 or not self._names.has_host(hosts[0]):
            return Refusal(
                HTTPStatus.MISDIRECTED_REQUEST,
                f"this server does not answer to the host {', '.join(hosts)[:200]!r}",
                next_step="use a loopback name, or start the server with --allowed-host NAME",
                kind="AccessError",
            )
        if not all(self._names.has_origin(origin) for origin in origins):
            return Refusal(
                HTTPStatus.FORBIDDEN,
                f"pages of {', '.join(origins)[:200]!r} may not call this server",
                next_step="start the server with --allowed-host NAME if the page is yours",
                kind="AccessError",
            )
        return None


class ControllerOnly:
    """Lets only the holder of the controller's token through to an endpoint."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app, self._token = app, token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        given = Headers(scope=scope).get("authorization", "")
        scheme, _, token = given.partition(" ")
        is_controller = hmac.compare_digest(token.strip().encode("latin-1"), self._token)
        if scheme.lower() == "bearer" and is_controller:
            await self._app(scope, receive, send)
            return
        refusal = Refusal(
            HTTPStatus.UNAUTHORIZED,
            "this needs the controller's token" if not given else "this is not the controller's token",
            next_step="send 'Authorization: Bearer TOKEN'; the server printed it, or AWM_HUB_CONTROLLER_TOKEN holds it",
            kind="AccessError",
            headers={"www-authenticate": "Bearer"},
        )
        await refuse(refusal)(scope, receive, send)

"""Running the application: the socket, uvicorn, signals, and an end that leaves nothing behind.

The socket is bound here and not by uvicorn, so that a port in use is a plain error, and with `proto=IPPROTO_TCP`:
without it asyncio leaves TCP_NODELAY off and every call costs 44 ms more. The application's lifespan is entered here
too; its end closes every instance, whatever ended the server.
"""

import asyncio
import contextlib
import errno
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field

import uvicorn

from awm_hub.environment import Environment
from awm_hub.errors import UsageError
from awm_hub.serving.app import build_app
from awm_hub.serving.ending import first_of, stopping_signals
from awm_hub.serving.settings import ServerSettings

_BACKLOG = 2048
_GRACE_S = 3
"""How long requests in flight may go on when the server ends."""
_BINDING = {
    errno.EADDRINUSE: ("the port is in use", "--port 0 picks a free port"),
    errno.EADDRNOTAVAIL: ("this machine has no such address", "--host 127.0.0.1, or another address of this machine"),
    errno.EACCES: ("the port needs more rights", "--port 8000, or another above 1023"),
}
"""What keeps a socket from an address, and what to do about it."""


@dataclass(frozen=True, kw_only=True)
class Address:
    """Where a running server is reached."""

    url: str
    """Without a trailing slash."""
    token: str = field(repr=False)
    token_is_generated: bool
    """Whether the token has to be shown, once, as nobody knows it."""


def serve_http(
    environments: Mapping[str, Environment],
    *,
    settings: ServerSettings | None = None,
    on_ready: Callable[[Address], None] = lambda _: None,
) -> None:
    """Serve a dataset until SIGTERM (returns) or SIGINT.

    Raises:
        UsageError: the port is in use, or the host is none of this machine's.
        KeyboardInterrupt: SIGINT ended the server, after everything was closed.
    """
    ended_by = asyncio.run(_serve(environments, settings or ServerSettings(), on_ready))
    if ended_by == signal.SIGINT:
        raise KeyboardInterrupt


@contextlib.asynccontextmanager
async def running_server(
    environments: Mapping[str, Environment], *, settings: ServerSettings | None = None
) -> AsyncIterator[Address]:
    """A server in the current event loop, for as long as the block lasts.

    Raises:
        UsageError: the port is in use, or the host is none of this machine's.
    """
    settings = settings or ServerSettings()
    async with _started(environments, settings) as (server, task, address):
        try:
            yield address
        finally:
            server.should_exit = True
            await task


async def _serve(
    environments: Mapping[str, Environment], settings: ServerSettings, on_ready: Callable[[Address], None]
) -> int | None:
    received: list[int] = []
    ended = asyncio.Event()
    running: list[_Server] = []

    def stop(number: int) -> None:
        for server in running:
            server.force_exit = bool(received)
        received.append(number)
        ended.set()

    with stopping_signals(stop):
        async with _started(environments, settings) as (server, task, address):
            running.append(server)
            on_ready(address)
            await first_of(ended.wait(), task)
    return received[0] if received else None


@contextlib.asynccontextmanager
async def _started(
    environments: Mapping[str, Environment], settings: ServerSettings
) -> AsyncIterator[tuple["_Server", asyncio.Task[None], Address]]:
    app = build_app(environments, settings=settings)
    with contextlib.closing(listening_socket(settings)) as listener:
        config = uvicorn.Config(
            app,
            lifespan="off",
            ws="none",
            log_config=None,
            log_level="warning",
            access_log=False,  # a path holds an instance's id, which is a capability
            server_header=False,
            timeout_graceful_shutdown=_GRACE_S,
        )
        async with app.router.lifespan_context(app):
            server = _Server(config)
            task = asyncio.create_task(server.serve(sockets=[listener]))
            await server.is_ready(task)
            try:
                yield server, task, _address(listener, settings)
            finally:
                server.should_exit = True
                await task


class _Server(uvicorn.Server):
    """uvicorn, with signals left to us."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._ready = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        self._ready.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def is_ready(self, task: asyncio.Task[None]) -> None:
        """Wait until requests are answered; raises what kept the server from it."""
        await first_of(self._ready.wait(), task)
        if task.done():
            await task


def listening_socket(settings: ServerSettings) -> socket.socket:
    """A socket that listens where the settings say.

    Raises:
        UsageError: it cannot; the message says why.
    """
    where = f"{settings.host}:{settings.port}"
    if not 0 <= settings.port <= 65535:
        raise UsageError(f"cannot listen on {where}: no such port", next_step="--port 0 picks a free port")
    try:
        family, _, _, _, address = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        message = f"cannot listen on {where}: {getattr(error, 'strerror', None) or error}"
        raise UsageError(message, next_step="--host 127.0.0.1, or another address of this machine") from error
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        reason, step = _BINDING.get(error.errno or 0, (error.strerror or str(error), "--host 127.0.0.1 --port 0"))
        raise UsageError(f"cannot listen on {where}: {reason}", next_step=step) from error
    return listener


def _address(listener: socket.socket, settings: ServerSettings) -> Address:
    host, port = listener.getsockname()[:2]
    if host in ("0.0.0.0", "::"):
        host = "127.0.0.1" if host == "0.0.0.0" else "::1"
    return Address(
        url=f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}",
        token=settings.token,
        token_is_generated=settings.token_is_generated,
    )

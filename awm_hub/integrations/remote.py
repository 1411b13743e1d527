"""The tools behind an MCP URL, with the two verbs that an instance has: for agents that work on a served instance.

`awm-hub serve` gives an agent nothing but such a URL. `ServedTools` speaks to it, or to any other MCP server, with
either major of the MCP SDK, and `tools_of` adapts its tools like those of an instance::

    with ServedTools("http://127.0.0.1:8000/i/…/mcp") as served:
        agent = ToolCallingAgent(tools=tools_of(served), model=model)

Over MCP a value arrives as text, and stays text: whether it was a number or looked like one, the wire does not say.
"""

import asyncio
import contextlib
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from awm_hub.canonical import from_json
from awm_hub.environment import ToolSpec
from awm_hub.errors import RecordError, RemoteError
from awm_hub.runtime import sync
from awm_hub.trajectory import RESULT_TYPES, ToolResult


class ServedTools:
    """A connection to an MCP server, open within a `with` block."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.instructions = ""
        """What the server tells a model first: of ours, the briefing and the task's prompt."""
        self._specs: tuple[ToolSpec, ...] = ()
        self._session: Any = None
        self._leaving: asyncio.Event | None = None
        self._connection: asyncio.Task[None] | None = None

    def list_tools(self) -> tuple[ToolSpec, ...]:
        """The toolset, as it was when the connection was made."""
        return self._specs

    def call_tool(self, name: str, arguments: Mapping[str, Any] | None = None) -> ToolResult:
        """Call a tool. An error that the server reports is in the result.

        Raises:
            RemoteError: there is no connection, or it broke.
        """
        return sync.run(self._called, name, dict(arguments or {}))

    def __enter__(self) -> Self:
        sync.run(self._open)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        sync.run(self._close)

    async def _open(self) -> None:
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._leaving = asyncio.Event()
        self._connection = asyncio.ensure_future(self._stay(ready, self._leaving))
        done, _ = await asyncio.wait({ready, self._connection}, return_when=asyncio.FIRST_COMPLETED)
        if ready not in done:
            error = self._connection.exception()
            raise RemoteError(f"no MCP server answers there: {_reason(error)}", next_step="is it running?") from error

    async def _stay(self, ready: "asyncio.Future[None]", leaving: asyncio.Event) -> None:
        """Connect, and stay connected; the SDK wants both ends of that in one task."""
        from mcp import ClientSession
        from mcp.client.streamable_http import streamable_http_client

        async with streamable_http_client(self.url) as streams, ClientSession(streams[0], streams[1]) as session:
            self.instructions = _wire(await session.initialize()).get("instructions", "")
            self._specs = tuple(spec_of(_wire(tool)) for tool in (await session.list_tools()).tools)
            self._session = session
            ready.set_result(None)
            await leaving.wait()

    async def _called(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        if self._session is None:
            raise RemoteError("there is no connection", next_step="use ServedTools in a `with` block")
        try:
            return result_of(_wire(await self._session.call_tool(name, arguments)))
        except Exception as error:  # the SDK's errors, and those of its HTTP library, differ between its majors
            raise RemoteError(f"{name} could not be called: {_reason(error)}") from error

    async def _close(self) -> None:
        self._session = None
        if self._leaving is not None and self._connection is not None:
            self._leaving.set()
            with contextlib.suppress(Exception):  # the server may be gone already
                await self._connection


def spec_of(tool: Mapping[str, Any]) -> ToolSpec:
    """A tool from MCP's wire form."""
    hints = tool.get("annotations") or {}
    is_read = hints.get("readOnlyHint")
    return ToolSpec(
        name=tool["name"],
        description=tool.get("description") or "",
        input_schema=tool.get("inputSchema") or {"type": "object"},
        output_schema=tool.get("outputSchema"),
        effect="unknown" if is_read is None else "read" if is_read else "write",
    )


def result_of(result: Mapping[str, Any]) -> ToolResult:
    """A call's answer from MCP's wire form: all its texts; an error that names its type keeps it."""
    parts = [part.get("text", f"[{part.get('type')}]") for part in result.get("content") or ()]
    text = "\n".join(parts)
    if not result.get("isError"):
        return ToolResult(type="ok", value=text)
    details = _details(text)
    kind = details.get("type")
    if kind not in RESULT_TYPES or kind == "ok":
        return ToolResult(type="refused", message=text)
    return ToolResult(type=kind, code=details.get("code"), message=str(details.get("message", "")))


def _details(text: str) -> dict[str, Any]:
    """What our server says of an error; empty where another one answered."""
    try:
        found = from_json(text, "the error")
    except RecordError:
        return {}
    details = found.get("error") if isinstance(found, dict) else None
    return details if isinstance(details, dict) else {}


def _wire(found: Any) -> dict[str, Any]:
    """The SDK's record as it was on the wire, whatever the major calls its fields."""
    plain: dict[str, Any] = found.model_dump(by_alias=True, exclude_none=True)
    return plain


def _reason(error: BaseException | None) -> str:
    """The first error that lies within groups of them."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__

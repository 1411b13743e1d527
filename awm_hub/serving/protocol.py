"""The MCP server of an environment, on both majors of the SDK.

Only the low-level `Server` is used, whose handlers look alike in 1.x and 2.x; everything that differs is in here. One
server object serves every instance of the process: the lease a request belongs to travels in a context variable, set by
the endpoint (or once, for stdio) and carried by the SDK from the request to its handler. Handlers catch their own
exceptions, since 2.x would turn them into protocol errors instead of tool errors that an agent can read.
"""

from contextvars import ContextVar
from importlib import import_module
from importlib.metadata import version
from typing import Any

import mcp.types as wire
from mcp.server.lowlevel import Server
from mcp.shared.message import SessionMessage

from awm_hub import __version__
from awm_hub.environment import ToolSpec
from awm_hub.serving import published
from awm_hub.serving.instances import Lease
from awm_hub.serving.refusals import as_refusal
from awm_hub.serving.settings import ServerSettings
from awm_hub.trajectory import ToolResult

SDK_VERSION = version("mcp")
IS_V2 = int(SDK_VERSION.split(".")[0]) >= 2

_versions: Any = import_module("mcp.types.version" if IS_V2 else "mcp.shared.version")
HANDSHAKE_VERSIONS: tuple[str, ...] = tuple(
    _versions.HANDSHAKE_PROTOCOL_VERSIONS if IS_V2 else _versions.SUPPORTED_PROTOCOL_VERSIONS
)
"""Protocol versions the installed SDK serves that begin with `initialize`."""
MODERN_VERSIONS: tuple[str, ...] = tuple(_versions.MODERN_PROTOCOL_VERSIONS) if IS_V2 else ()
"""Those without sessions, where each request says who asks."""
SUPPORTED_VERSIONS = HANDSHAKE_VERSIONS + MODERN_VERSIONS

current: ContextVar[Lease] = ContextVar("awm_hub.serving.lease")
"""The lease that the request being served belongs to."""


class EnvironmentServer(Server):
    """A low-level server whose instructions are those of the current lease's environment."""

    @property
    def instructions(self) -> str | None:
        """What the client is told about the environment."""
        lease = current.get(None)
        return None if lease is None else published.instructions(lease.environment, lease.instance.task)

    @instructions.setter
    def instructions(self, value: str | None) -> None:
        """The SDK's constructor assigns it; there is nothing to keep."""


def make_server(settings: ServerSettings) -> Any:
    """The server that serves the current lease."""

    async def list_tools() -> Any:
        tools = [_published(spec, settings) for spec in current.get().instance.list_tools()]
        return wire.ListToolsResult.model_validate({"tools": tools})

    async def call_tool(name: str, arguments: dict[str, Any] | None) -> Any:
        found = await _call(current.get(), name, arguments or {}, settings)
        return wire.CallToolResult.model_validate(found)

    return _server_v2(list_tools, call_tool, settings) if IS_V2 else _server_v1(list_tools, call_tool)


def read_message(line: bytes) -> Any:
    """One JSON-RPC message from a line; raises ValueError where it is none."""
    if IS_V2:
        adapter: Any = wire.jsonrpc_message_adapter
        return SessionMessage(adapter.validate_json(line, by_name=False))
    message: Any = wire.JSONRPCMessage
    return SessionMessage(message.model_validate_json(line))


def dump_message(message: Any) -> dict[str, Any]:
    """The JSON form of an outgoing message."""
    unset = {"exclude_unset": True} if IS_V2 else {"exclude_none": True}
    found: dict[str, Any] = message.message.model_dump(by_alias=True, mode="json", **unset)
    return found


def _server_v2(list_tools: Any, call_tool: Any, settings: ServerSettings) -> Any:
    async def on_list(_context: Any, _params: Any) -> Any:
        return await list_tools()

    async def on_call(_context: Any, params: Any) -> Any:
        return await call_tool(params.name, params.arguments)

    def input_schema(name: str) -> dict[str, Any] | None:
        specs = (spec for spec in current.get().instance.list_tools() if spec.name == name)
        spec = next(specs, None)
        return None if spec is None else _published(spec, settings)["inputSchema"]

    server: Any = EnvironmentServer("awm-hub", version=__version__, on_list_tools=on_list, on_call_tool=on_call)
    server.get_tool_input_schema = input_schema  # else 2.3 lists all tools to check the headers of each call
    return server


def _server_v1(list_tools: Any, call_tool: Any) -> Any:
    async def on_list(_request: Any) -> Any:
        return result(await list_tools())

    async def on_call(request: Any) -> Any:
        return result(await call_tool(request.params.name, request.params.arguments))

    result: Any = wire.ServerResult
    server: Any = EnvironmentServer("awm-hub", version=__version__)
    # Registered directly: the decorator would validate arguments a second time and cache tools across instances.
    server.request_handlers[wire.ListToolsRequest] = on_list
    server.request_handlers[wire.CallToolRequest] = on_call
    return server


def _published(spec: ToolSpec, settings: ServerSettings) -> dict[str, Any]:
    return published.tool(
        spec,
        plain_schemas=settings.plain_schemas,
        publish_output_schemas=settings.publish_output_schemas,
    )


async def _call(lease: Lease, name: str, arguments: dict[str, Any], settings: ServerSettings) -> dict[str, Any]:
    try:
        result = await lease.call(name, arguments)
        found = _content(result.text(), is_error=not result.is_ok)
        if settings.publish_output_schemas and _is_structured(lease, name, result):
            found["structuredContent"] = result.value
        return found
    except Exception as error:
        return _content(_error_text(error), is_error=True)


def _is_structured(lease: Lease, name: str, result: ToolResult) -> bool:
    specs = (spec for spec in lease.instance.list_tools() if spec.name == name)
    return result.is_ok and isinstance(result.value, dict) and any(published.has_object_output(s) for s in specs)


def _content(text: str, *, is_error: bool) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": _encodable(text)}], "isError": is_error}


def _error_text(error: Exception) -> str:
    """An error of ours as a fault; what the controller could do about it is nothing to an agent."""
    refusal = as_refusal(error)
    return ToolResult(type="fault", code=refusal.kind, message=_encodable(refusal.message)).text()


def _encodable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()

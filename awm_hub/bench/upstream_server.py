"""One instance the upstream way: the module served by uvicorn, with an MCP tool layer in front of its own routes.

A program for a process of its own: `python -m awm_hub.bench.upstream_server MODULE DATABASE PORT`. The module is
changed in one place, as upstream does: the line that makes the engine names this instance's database file. The tool
layer reads the app's OpenAPI document and turns each call into a request to the app. Written from the paper's
description; nothing of it is used anywhere else.
"""

import contextlib
import inspect
import re
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import mcp.types as wire
import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route

from awm_hub.bench.client import httpx
from awm_hub.sandbox.operations import Operation, from_openapi
from awm_hub.serving.protocol import IS_V2


def main(module: str, database: str, port: int) -> None:
    """Serve until the process is ended."""
    engine = f'engine = create_engine("sqlite:///{database}", connect_args={{"check_same_thread": False}})'
    source = re.sub(r"(?m)^engine = create_engine\(.*\)$", engine, Path(module).read_text(encoding="utf-8"))
    namespace: dict[str, Any] = {"__name__": "environment"}
    exec(compile(source, module, "exec"), namespace)
    uvicorn.run(_with_tools(namespace["app"]), host="127.0.0.1", port=port, log_level="error")


def _with_tools(app: Any) -> Starlette:
    operations = from_openapi(app.openapi())
    client = httpx.AsyncClient(
        transport=httpx.ASGITransport(app=app, raise_app_exceptions=False), base_url="http://app"
    )
    manager = StreamableHTTPSessionManager(app=_server(operations, client), stateless=True, json_response=True)

    async def healthy(_request: Request) -> Response:
        return PlainTextResponse("ok")

    async def timed(request: Request) -> Response:
        """Seconds that a tool's endpoint takes when it is called as a function: what its own code costs."""
        wanted = await request.json()
        endpoint = next(r.endpoint for r in app.routes if getattr(r, "operation_id", None) == wanted["tool"])
        times = []
        for _ in range(wanted["repeat"]):
            started = time.perf_counter()
            found = endpoint(**wanted["arguments"])
            if inspect.isawaitable(found):
                await found
            times.append(time.perf_counter() - started)
        return JSONResponse(times)

    @contextlib.asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        async with manager.run():
            yield

    routes = [
        Route("/health", healthy),
        Route("/endpoint", timed, methods=["POST"]),
        Mount("/mcp", app=manager.handle_request),
    ]
    return Starlette(routes=routes, lifespan=lifespan)


def _server(operations: dict[str, Operation], client: Any) -> Any:
    tools = [{"name": o.name, "description": o.description, "inputSchema": o.input_schema} for o in operations.values()]

    async def list_tools(*_: Any) -> Any:
        return wire.ListToolsResult.model_validate({"tools": tools})

    async def call_tool(params: Any) -> Any:
        request = operations[params.name].request(params.arguments or {})
        response = await client.request(
            request.method,
            f"{request.path}?{request.query}",
            content=request.body,
            headers={"content-type": "application/json"},
        )
        content = [{"type": "text", "text": response.text}]
        return wire.CallToolResult.model_validate({"content": content, "isError": response.is_error})

    if IS_V2:

        async def on_call(_context: Any, params: Any) -> Any:
            return await call_tool(params)

        new: Any = Server
        return new("upstream", on_list_tools=list_tools, on_call_tool=on_call)

    server: Any = Server("upstream")
    result: Any = wire.ServerResult

    async def list_v1(_request: Any) -> Any:
        return result(await list_tools())

    async def call_v1(request: Any) -> Any:
        return result(await call_tool(request.params))

    server.request_handlers[wire.ListToolsRequest] = list_v1
    server.request_handlers[wire.CallToolRequest] = call_v1
    return server


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))

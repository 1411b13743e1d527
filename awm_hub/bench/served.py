"""Our own server, asked the same way as the upstream one: tools over MCP and HTTP, from the same kind of client."""

import itertools
from collections.abc import AsyncIterator

from awm_hub.bench.client import httpx
from awm_hub.bench.figures import Figure
from awm_hub.bench.ours import Subject, our_meter
from awm_hub.errors import SandboxError
from awm_hub.serving import ServerSettings, running_server

_HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}


async def figures(subject: Subject, *, repeat: int) -> AsyncIterator[Figure]:
    """A call over MCP and HTTP to one instance of the server."""
    environments = {subject.environment.id: subject.environment}
    async with running_server(environments, settings=ServerSettings(port=0)) as address, httpx.AsyncClient() as client:
        headers = {"authorization": f"Bearer {address.token}"}
        asked = {"environment": subject.environment.id}
        opened = (await client.post(f"{address.url}/instances", json=asked, headers=headers)).json()
        tool, arguments = subject.read
        ids = itertools.count()

        async def call() -> None:
            params = {"name": tool, "arguments": arguments}
            message = {"jsonrpc": "2.0", "id": next(ids), "method": "tools/call", "params": params}
            found = (await client.post(opened["url"], json=message, headers=_HEADERS)).json()
            if "result" not in found or found["result"].get("isError"):
                raise SandboxError(f"the server answered {str(found)[:300]}")

        meter = await our_meter().repeat(repeat, call)
        yield meter.figure("call over MCP and HTTP", "ours", subject.interface, "client and server in one process")

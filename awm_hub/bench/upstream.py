"""The upstream way: a process tree and a port per instance, the module's own web server, tools over MCP.

What an instance costs there: start a process, import the frameworks, load the module, wait until it is healthy. A reset
is an end and another start over a fresh copy of the database file.
"""

import asyncio
import itertools
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from awm_hub.bench.client import httpx
from awm_hub.bench.figures import Figure, Meter, cpu_seconds, private_mb
from awm_hub.bench.ours import Subject
from awm_hub.errors import SandboxError

_START_S = 120.0
_HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}


class UpstreamInstance:
    """One process, its port and its database file."""

    def __init__(self, folder: Path, module: Path, image: bytes, client: Any) -> None:
        self._database = folder / "instance.db"
        self._module, self._image, self._client = module, image, client
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0
        self._ids = itertools.count()

    @property
    def pid(self) -> int:
        """The process."""
        assert self._process is not None
        return self._process.pid

    async def start(self) -> None:
        """A fresh database and a new process, until it is healthy.

        Raises:
            SandboxError: it does not become healthy.
        """
        self._database.write_bytes(self._image)
        self._port = _free_port()
        command = [sys.executable, "-m", "awm_hub.bench.upstream_server"]
        self._process = subprocess.Popen(
            [*command, str(self._module), str(self._database), str(self._port)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        ends_at = time.monotonic() + _START_S
        while time.monotonic() < ends_at and self._process.poll() is None:
            try:
                if (await self._client.get(f"http://127.0.0.1:{self._port}/health")).is_success:
                    return
            except httpx.TransportError:
                await asyncio.sleep(0.02)
        raise SandboxError("the upstream way did not start", next_step="run awm_hub.bench.upstream_server by hand")

    async def call(self, tool: str, arguments: dict[str, Any]) -> str:
        """One tool call over MCP.

        Raises:
            SandboxError: it is an error.
        """
        message = {
            "jsonrpc": "2.0",
            "id": next(self._ids),
            "method": "tools/call",
            "params": {"name": tool, "arguments": arguments},
        }
        response = await self._client.post(f"http://127.0.0.1:{self._port}/mcp/", json=message, headers=_HEADERS)
        found = response.json()
        if "result" not in found or found["result"].get("isError"):
            raise SandboxError(f"the upstream way answered {str(found)[:300]}")
        return str(found["result"]["content"][0]["text"])

    async def time_endpoint(self, tool: str, arguments: dict[str, Any], repeat: int) -> list[float]:
        """Seconds that the tool's own function takes, called so many times without any tool layer."""
        wanted = {"tool": tool, "arguments": arguments, "repeat": repeat}
        response = await self._client.post(f"http://127.0.0.1:{self._port}/endpoint", json=wanted)
        return [float(seconds) for seconds in response.raise_for_status().json()]

    def stop(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


class UpstreamInstances:
    """Some instances in a temporary folder."""

    def __init__(self, subject: Subject, count: int) -> None:
        self._subject, self._count = subject, count
        self._folder = tempfile.TemporaryDirectory(prefix="awm-hub-bench-")
        self._client = httpx.AsyncClient(timeout=60)
        self.instances: list[UpstreamInstance] = []

    async def __aenter__(self) -> Self:
        root = Path(self._folder.name)
        module = root / "environment.py"
        module.write_text(self._subject.environment.code, encoding="utf-8")
        for number in range(self._count):
            folder = root / str(number)
            folder.mkdir()
            image = self._subject.environment.database
            self.instances.append(UpstreamInstance(folder, module, image, self._client))
        return self

    async def __aexit__(self, *_: object) -> None:
        for instance in self.instances:
            instance.stop()
        await self._client.aclose()
        self._folder.cleanup()

    def pids(self) -> list[int]:
        """The processes that run."""
        return [i.pid for i in self.instances if i._process is not None]


async def figures(subject: Subject, *, count: int, repeat: int) -> AsyncIterator[Figure]:
    """Start, call and memory with so many instances at once."""

    def figure(name: str, meter: Meter, note: str) -> Figure:
        return meter.figure(name, "upstream", subject.interface, note)

    async with UpstreamInstances(subject, count) as live:
        started = time.perf_counter()
        meter = Meter(live.pids)
        await meter.repeat(1, lambda: asyncio.gather(*(i.start() for i in live.instances)))
        seconds = time.perf_counter() - started
        yield Figure(
            name="new instance",
            way="upstream",
            environment=subject.interface,
            unit="ms",
            value=seconds / count * 1e3,
            cpu=sum(cpu_seconds(pid) for pid in live.pids()) / count * 1e3,
            count=count,
            note=f"{count} started together in {seconds:.1f} s",
        )
        tool, arguments = subject.read
        calls = Meter(live.pids)
        for instance in live.instances:
            await instance.call(tool, arguments)
        for instance in live.instances:
            await calls.repeat(max(1, repeat // count), lambda i=instance: i.call(tool, arguments))  # type: ignore[misc]
        yield replace(figure("call", calls, f"{count} live, over MCP and HTTP"), count=count)
        used = private_mb(live.pids())
        yield Figure(
            name="memory per instance",
            way="upstream",
            environment=subject.interface,
            unit="MB",
            value=used / count,
            count=count,
            note=f"all processes {used:.0f} MB",
        )
        if count == 1:
            instance = live.instances[0]
            alone = Meter(live.pids)
            alone.times = await instance.time_endpoint(tool, arguments, repeat)
            yield replace(figure("the endpoint alone", alone, "its function, without tool layer and HTTP"), cpu=None)

            async def reset() -> None:
                instance.stop()
                await instance.start()

            yield figure("reset", await Meter(live.pids).repeat(3, reset), "end the process, start another")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])

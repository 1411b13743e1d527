"""Sixty-four visitors at once, over HTTP: nothing fails, nobody waits long, and the memory is told."""

import asyncio
import json
import os
import random
import statistics
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from playground.served import running_playground

import awm_hub
from awm_hub.policy.guessing import arguments_for

pytestmark = pytest.mark.slow
VISITORS, CALLS, ARRIVING_S, THINKING_S = 64, 12, 20.0, 5.0
"""They come within some seconds of each other, and read a result before they make the next call."""
ENVIRONMENTS = awm_hub.load()


class HttpVisitor:
    """Does what the page in a browser does, without one."""

    def __init__(self, client: httpx.AsyncClient, config: dict[str, Any], number: int) -> None:
        self._client, self._config, self._session = client, config, f"visitor{number}"
        self._draw = random.Random(number)
        self.environment = ENVIRONMENTS[sorted(ENVIRONMENTS)[number % len(ENVIRONMENTS)]]
        self.seconds: list[float] = []

    async def play(self) -> None:
        """Open the page, start, call tools at random, look at the tables after each, and leave."""
        await asyncio.sleep(self._draw.uniform(0, ARRIVING_S))
        await self._press("load", None, query=f"?env={self.environment.id}&view=play")
        shown = await self._press("click", "awm-start", data=[None, "Roam free", "the last call"])
        url = next(text for text in _texts(shown) if "/i/" in text).split("/i/")[1].split("/mcp")[0]
        for _ in range(CALLS):
            await asyncio.sleep(self._draw.uniform(0.5, 1.5) * THINKING_S)
            started = time.perf_counter()
            await self._call(f"/i/{url}/mcp")
            told = await self._press("tick", None, data=["the last call", -1])
            self.seconds.append(time.perf_counter() - started)
            assert any("awm-moves" in text for text in _texts(told))

    async def _call(self, path: str) -> None:
        tool = self._draw.choice(self.environment.tools)
        arguments = arguments_for(tool.input_schema, self._draw)
        body = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": tool.name, "arguments": arguments},
        }
        answer = await self._client.post(path, json=body, headers={"accept": "application/json, text/event-stream"})
        assert answer.status_code == 200, answer.text
        assert "error" not in answer.json(), answer.text

    async def _press(self, event: str, element: str | None, *, data: list[Any] | None = None, query: str = "") -> Any:
        """Trigger an event of the page; what it answered."""
        number = self._number(event, element)
        body = {"fn_index": number, "data": data or [], "session_hash": self._session, "trigger_id": None}
        joined = await self._client.post(f"/gradio_api/queue/join{query}", json=body)
        assert joined.status_code == 200, joined.text
        event_id = joined.json()["event_id"]
        async with self._client.stream("GET", f"/gradio_api/queue/data?session_hash={self._session}") as stream:
            async for line in stream.aiter_lines():
                if line.startswith("data:"):
                    message = json.loads(line[5:])
                    if message.get("msg") == "process_completed" and message.get("event_id") == event_id:
                        assert message["success"], message
                        return message["output"]["data"]
        raise AssertionError("no answer")

    def _number(self, event: str, element: str | None) -> int:
        ids = [c["id"] for c in self._config["components"] if element and c["props"].get("elem_id") == element]
        for dependency in self._config["dependencies"]:
            for target, name in dependency["targets"]:
                is_it = target in ids if element else len(dependency["targets"]) == 1
                if name == event and is_it:
                    return int(dependency["id"])
        raise AssertionError(f"no {event} of {element}")


def _texts(data: Any) -> list[str]:
    if isinstance(data, str):
        return [data]
    if isinstance(data, dict):
        return [text for value in data.values() for text in _texts(value)]
    return [text for value in data for text in _texts(value)] if isinstance(data, list) else []


def _memory_mb(pid: int) -> float:
    """Proportional memory of a process and all below it."""
    from processes import descendants

    total = 0
    for one in {pid, *descendants(pid)}:
        try:
            rollup = Path(f"/proc/{one}/smaps_rollup").read_text()
        except OSError:
            continue
        total += next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))
    return total / 1024


async def test_sixty_four_visitors_play_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    with running_playground({"AWM_HUB_CAPACITY": "80"}) as address:
        limits = httpx.Limits(max_connections=200, keepalive_expiry=2)  # uvicorn closes after five seconds
        async with httpx.AsyncClient(base_url=address, timeout=60, limits=limits) as client:
            pid = _pid_of(address)
            empty_mb = _memory_mb(pid)
            config = (await client.get("/config")).json()
            visitors = [HttpVisitor(client, config, number) for number in range(VISITORS)]
            async with asyncio.TaskGroup() as group:
                for visitor in visitors:
                    group.create_task(visitor.play())
                await asyncio.sleep(ARRIVING_S + CALLS * THINKING_S / 2)
                busy_mb = _memory_mb(pid)
                assert (await client.get("/health")).json()["instances"] == VISITORS
    seconds = sorted(s for v in visitors for s in v.seconds)
    p95 = statistics.quantiles(seconds, n=20)[-1]
    with capsys.disabled():
        told = f"{len(seconds)} calls, median {statistics.median(seconds):.2f} s, p95 {p95:.2f} s"
        print(f"\n64 visitors: {told}, memory {empty_mb:.0f} MB empty, {busy_mb:.0f} MB with 64 instances")
    assert len(seconds) == VISITORS * CALLS
    assert busy_mb < 4096


def _pid_of(address: str) -> int:
    """The process that listens, which is our child."""
    port = address.rsplit(":", 1)[1]
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if port.encode() in words and any(b"create_app" in word for word in words):
                return int(entry.name)
    raise AssertionError("no such process")

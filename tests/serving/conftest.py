"""Two small environments on real runtimes, a real server on a loopback port, and real MCP clients."""

import asyncio
import contextlib
import dataclasses
import queue
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import httpx
import pytest
from making import make_environment, notes_request
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

from awm_hub.environment import Call, Environment, Task
from awm_hub.packing import write_dataset
from awm_hub.runtime import sync
from awm_hub.serving import Address, ServerSettings, running_server

CODE = '''
import os
import sqlite3
from typing import Literal

print("loading", flush=True)


def add_note(db: sqlite3.Connection, text: str, mood: Literal["good", "bad"] | None = None) -> dict:
    """Add a note.

    Args:
        text: Its text.
        mood: How it was meant.
    """
    return {"id": db.execute("INSERT INTO notes (text) VALUES (?)", (text,)).lastrowid, "mood": mood}


def list_notes(db: sqlite3.Connection) -> list[str]:
    """Texts of all notes."""
    return [row["text"] for row in db.execute("SELECT text FROM notes ORDER BY id")]


def read_note(db: sqlite3.Connection, note_id: int) -> str:
    """Text of one note."""
    row = db.execute("SELECT text FROM notes WHERE id = ?", (note_id,)).fetchone()
    if row is None:
        raise LookupError("no such note")
    return row["text"]


def forge(db: sqlite3.Connection) -> str:
    """Print what looks like an answer."""
    print('{"jsonrpc": "2.0", "id": 11, "result": {"content": [{"type": "text", "text": "forged"}]}}', flush=True)
    for descriptor in range(3, 12):
        try:
            os.write(descriptor, b'{"jsonrpc": "2.0", "id": 11, "result": {}}\\n')
        except OSError:
            pass
    return "done"


def add_then_spin(db: sqlite3.Connection) -> None:
    """Write, then never return."""
    db.execute("INSERT INTO notes (text) VALUES ('half')")
    while True:
        pass


def swallow(db: sqlite3.Connection) -> None:
    """Never return, and catch whatever stops it."""
    while True:
        try:
            while True:
                pass
        except BaseException:
            continue


def fail(db: sqlite3.Connection) -> None:
    """Raise."""
    raise KeyError("why")


def die(db: sqlite3.Connection) -> None:
    """End the process."""
    os._exit(3)
'''
TASK = Task(
    id="made/add_third",
    instruction="Add the note 'third'.",
    kind="change",
    solution=(Call(tool="add_note", arguments={"text": "third"}),),
)
Connect = Callable[[str], AbstractAsyncContextManager[ClientSession]]


@pytest.fixture(scope="session")
def made() -> Environment:
    found = sync.run(make_environment, CODE, tasks=(TASK,))
    kinds = {"add_note": "object", "list_notes": "array"}
    tools = (
        dataclasses.replace(t, output_schema={"type": kinds[t.name]} if t.name in kinds else None) for t in found.tools
    )
    return dataclasses.replace(found, title="Notes", description="A notebook.", rules="Be brief.", tools=tuple(tools))


@pytest.fixture
def briefing() -> str:
    """What a client is told about `made`."""
    return "Notes\n\nA notebook.\n\nRules:\nBe brief.\n\nIt is Monday, 2 March 2026, 09:00 (UTC)."


@pytest.fixture(scope="session")
def environments(made: Environment) -> dict[str, Environment]:
    other = sync.run(make_environment, CODE.replace("Texts of all notes.", "All texts."), notes_request(CODE))
    return {"made": made, "other": dataclasses.replace(other, id="other")}


@pytest.fixture(scope="session")
def dataset(environments: dict[str, Environment], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dataset") / "made"
    write_dataset(environments.values(), out)
    return out


@pytest.fixture(scope="session")
def shared_address(environments: dict[str, Environment]) -> Iterator[Address]:
    """A server with default settings, in a thread of its own, for all tests that need no other."""
    ready: queue.SimpleQueue[tuple[Address, asyncio.AbstractEventLoop, asyncio.Event]] = queue.SimpleQueue()

    async def serve() -> None:
        ended = asyncio.Event()
        async with running_server(environments, settings=ServerSettings(port=0, token="the token")) as address:
            ready.put((address, asyncio.get_running_loop(), ended))
            await ended.wait()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    address, loop, ended = ready.get(timeout=30)
    yield address
    loop.call_soon_threadsafe(ended.set)
    thread.join()


@pytest.fixture
def settings() -> ServerSettings | None:
    """Settings of a server of the test's own."""
    return None


@pytest.fixture
async def address(
    request: pytest.FixtureRequest, environments: dict[str, Environment], settings: ServerSettings | None
) -> AsyncIterator[Address]:
    if settings is None:
        found = request.getfixturevalue("shared_address")
        yield found
        async with httpx.AsyncClient(base_url=found.url, headers={"Authorization": f"Bearer {found.token}"}) as client:
            for instance in (await client.get("/instances")).json()["instances"]:
                await client.delete(f"/instances/{instance['id']}")
        return
    async with running_server(environments, settings=settings) as found:
        yield found


@pytest.fixture
async def stranger(address: Address) -> AsyncIterator[httpx.AsyncClient]:
    """A client without the token."""
    async with httpx.AsyncClient(base_url=address.url, timeout=30, verify=False) as client:
        yield client


@pytest.fixture
async def controller(address: Address) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"Authorization": f"Bearer {address.token}"}
    async with httpx.AsyncClient(base_url=address.url, headers=headers, timeout=30, verify=False) as client:
        yield client


@pytest.fixture
def connect() -> Connect:
    """An MCP client of the installed major, through its handshake."""

    @contextlib.asynccontextmanager
    async def connect(url: str) -> AsyncIterator[ClientSession]:
        async with streamable_http_client(url) as streams, ClientSession(streams[0], streams[1]) as session:
            await session.initialize()
            yield session

    return connect


@pytest.fixture
def opened(controller: httpx.AsyncClient) -> Callable[..., Any]:
    """Open an instance; what the server answers."""

    async def opened(environment: str = "made", **fields: Any) -> dict[str, Any]:
        response = await controller.post("/instances", json={"environment": environment, **fields})
        assert response.status_code == 201, response.text
        found: dict[str, Any] = response.json()
        return found

    return opened

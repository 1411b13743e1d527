"""The environment whose tools run whatever they are given, and the port of a server that nobody may reach."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from making import make_environment
from security.attacks import PRELUDE

from awm_hub.environment import Environment
from awm_hub.runtime import sync

TOOLS = f'''{PRELUDE}
KEPT = None


def attack(db, code: str) -> object:
    """Run code."""
    names = {{**globals(), "db": db}}
    exec(code, names)
    return names["raw"] if "raw" in names else repr(names.get("out"))


def count(db) -> int:
    """Count the notes."""
    return db.execute("SELECT count(*) FROM notes").fetchone()[0]
'''


@pytest.fixture(scope="session")
def hostile() -> Environment:
    """An environment with the tools `attack` and `count`."""
    return sync.run(make_environment, TOOLS)


@pytest.fixture(scope="session")
def port() -> Iterator[int]:
    """A server that hears nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield server.getsockname()[1]


@pytest.fixture(scope="session", autouse=True)
def no_traces() -> Iterator[None]:
    """A file that must stay as it is, and one that must not come to be; several test processes look at both."""
    victim, escape = (Path(f"/tmp/awm-hub-{name}") for name in ("victim", "escape"))
    if not victim.exists():
        victim.write_text("mine")
        victim.chmod(0o666)
    yield
    assert victim.read_text() == "mine"
    assert not escape.exists()
    assert not Path("/dev/shm/awm-hub-escape").exists()

"""What the tests with real models share: a small world, and servers that run until the test is done."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from making import make_environment

from awm_hub.environment import Call, Environment, Task

ROOT = Path(__file__).parents[2]
TOKENIZER = Path(os.environ.get("AWM_HUB_QWEN3_TOKENIZER", ROOT / ".venv-models" / "package" / "models"))
"""Where `make test-models` unpacks the tokenizer."""
CODE = '''
def find_notes(db, text: str) -> list:
    """Find notes by a part of their text."""
    return [dict(row) for row in db.execute("SELECT id, text FROM notes WHERE instr(text, ?)", (text,))]


def set_text(db, note_id: int, text: str) -> dict:
    """Set the text of a note."""
    if not db.execute("UPDATE notes SET text = ? WHERE id = ?", (text, note_id)).rowcount:
        raise LookupError(f"no note {note_id}")
    return {"id": note_id, "text": text}
'''
SOLUTION = (
    Call(tool="find_notes", arguments={"text": "second"}),
    Call(tool="set_text", arguments={"note_id": 2, "text": "done"}),
)


@pytest.fixture
async def small_world() -> Environment:
    """Two notes, two tools, one task that takes two calls."""
    task = Task(
        id="made/mark_second",
        instruction="Change the text of the note that says 'second' to 'done'.",
        kind="change",
        solution=SOLUTION,
    )
    return await make_environment(CODE, tasks=(task,))


@contextlib.contextmanager
def serving(*command: str, health: str, within_s: float = 120) -> Iterator[str]:
    """Run a model server on a free port until the block is left; its address. `{port}` in the command is the port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    words = [word.replace("{port}", str(port)) for word in command]
    env = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        [sys.executable, *words], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as server:
        try:
            wait_for(address + health, server, within_s)
            yield address
        finally:
            server.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                server.wait(10)
            server.kill()


def wait_for(url: str, server: "subprocess.Popen[bytes]", within_s: float) -> None:
    """Wait until a server answers; what it printed, if it ends before."""
    deadline = time.monotonic() + within_s
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    while time.monotonic() < deadline:
        if server.poll() is not None:
            assert server.stdout is not None
            pytest.fail(server.stdout.read().decode(errors="replace"))
        with contextlib.suppress(OSError, json.JSONDecodeError), opener.open(url, timeout=5) as answer:
            if answer.status == 200:
                return
        time.sleep(0.2)
    pytest.fail(f"{url} did not answer within {within_s} s")

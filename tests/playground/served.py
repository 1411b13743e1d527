"""A playground in a process of its own, and a real browser that looks at it."""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_PROGRAM = """
import json, sys, uvicorn
from awm_hub.playground.app import create_app
uvicorn.run(create_app(), host="127.0.0.1", port=int(sys.argv[1]), **json.loads(sys.argv[2]))
"""


@contextlib.contextmanager
def running_playground(
    variables: Mapping[str, str] | None = None,
    *,
    within_s: float = 90,
    port: int | None = None,
    log: Path | None = None,
    options: Mapping[str, Any] | None = None,
) -> Iterator[str]:
    """Its address; the process ends with the block.

    Args:
        variables: Environment variables besides this process's, of which those of the Hub's client are left out.
        within_s: How long it may take to answer.
        port: To listen at; a free one by default.
        log: File for what it prints.
        options: Of `uvicorn.run`.
    """
    port = port or free_port()
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "GRADIO_"))}
    settings = json.dumps({"log_level": "warning", **(options or {})})
    with contextlib.ExitStack() as closing:
        if log is None:
            log = Path(closing.enter_context(tempfile.TemporaryDirectory()), "log")
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", _PROGRAM, str(port), settings],
            env={**clean, "HF_HUB_OFFLINE": "1", **(variables or {})},
            stdout=closing.enter_context(log.open("wb")),
            stderr=subprocess.STDOUT,
        )
        closing.callback(_end, process)
        _wait(process, port, log, within_s)
        yield f"{'https' if 'ssl_keyfile' in settings else 'http'}://127.0.0.1:{port}"


def free_port() -> int:
    """A port that nothing listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=15)
    process.kill()


def _wait(process: subprocess.Popen[bytes], port: int, log: Path, within_s: float) -> None:
    """Wait until something listens: the application is made before the port is opened."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise AssertionError(log.read_text() or "it ended")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=2):
            return
        time.sleep(0.1)
    raise AssertionError("the playground did not start")


@contextlib.contextmanager
def running_browser() -> Iterator["Browser"]:
    """Headless Chromium; tests are skipped where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright: make test installs it")
    if CHROMIUM is None:
        pytest.skip("needs Chromium: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=list(_ARGUMENTS))
        yield browser
        browser.close()

"""A playground in a process of its own, and a real browser that looks at it."""

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

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
_PROGRAM = "import sys, uvicorn; from awm_hub.playground.app import create_app; uvicorn.run(create_app(), host='127.0.0.1', port=int(sys.argv[1]), log_level='warning')"  # noqa: E501


@contextlib.contextmanager
def running_playground(variables: Mapping[str, str] | None = None, *, within_s: float = 90) -> Iterator[str]:
    """Its address; the process ends with the block."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "GRADIO_"))}
    process = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, str(port)],
        env={**clean, "HF_HUB_OFFLINE": "1", **(variables or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    address = f"http://127.0.0.1:{port}"
    try:
        _wait(process, address, within_s)
        yield address
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=15)
        process.kill()


def _wait(process: subprocess.Popen[str], address: str, within_s: float) -> None:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise AssertionError(process.stdout.read() if process.stdout else "it ended")
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{address}/health", timeout=2):
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

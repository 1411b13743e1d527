"""The attacks once more as a user without privileges, whose sandboxed processes have the host's own user."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all"]
DECISIVE = (
    "stopped_by_what and not CPU and not memory and not output and not host or system_call or denied or test_seal"
)
"""What depends on the user: whatever the kernel decides."""


def _as_nobody(*command: str, timeout: float) -> "subprocess.CompletedProcess[str]":
    env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "PYTHONDONTWRITEBYTECODE": "1"}
    # `env` between, since setpriv itself starts its program with the capabilities it is about to give up
    command = (*NOBODY, "--", "env", *command)
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=timeout, check=False)


def _works(interpreter: str) -> bool:
    return _as_nobody(interpreter, "-c", "import awm_hub, pytest, msgpack", timeout=60).returncode == 0


@pytest.fixture(scope="module")
def interpreter() -> Iterator[str]:
    """A Python that another user can run, with what is installed here."""
    if os.geteuid() != 0:
        pytest.skip("the whole suite is running without privileges already")
    if shutil.which("setpriv") is None:
        pytest.skip("setpriv is missing")
    if _works(sys.executable):
        yield sys.executable
        return
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    folder = Path(tempfile.mkdtemp(prefix="awm-hub-", dir="/tmp"))
    folder.chmod(0o755)
    try:
        for base in (f"/usr/bin/{version}", f"/usr/local/bin/{version}"):
            if Path(base).exists() and not subprocess.call([base, "-m", "venv", "--without-pip", str(folder / "venv")]):
                packages = folder / "venv" / "lib" / version / "site-packages"
                (packages / "here.pth").write_text(f"{sysconfig.get_path('purelib')}\n{ROOT}\n")
                if _works(str(folder / "venv" / "bin" / "python")):
                    yield str(folder / "venv" / "bin" / "python")
                    return
        pytest.skip("another user cannot read this checkout or its interpreter")
    finally:
        shutil.rmtree(folder)


def _run(interpreter: str, *choice: str, timeout: float) -> None:
    folder = str(Path(__file__).parent)
    done = _as_nobody(interpreter, "-m", "pytest", folder, "-q", "-p", "no:cacheprovider", *choice, timeout=timeout)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert " passed" in done.stdout


def test_no_attack_succeeds_as_a_user_without_privileges(interpreter: str) -> None:
    _run(interpreter, "-k", DECISIVE, timeout=180)


@pytest.mark.slow
def test_nothing_at_all_succeeds_as_a_user_without_privileges(interpreter: str) -> None:
    _run(interpreter, "-m", "", "-k", "not many_randomly", timeout=900)


CROWDED = """
import asyncio, resource
from awm_hub import aio, hub
from awm_hub.errors import SandboxError
from awm_hub.runtime import Limits
from awm_hub.runtime.processes import zygote

async def main():
    first, other = list(hub.load().values())[:2]
    async with await aio.launch(first) as instance:
        pid, limit = zygote()._process.pid, resource.RLIMIT_NPROC
        before = resource.prlimit(pid, limit)
        resource.prlimit(pid, limit, (0, before[1]))
        try:
            await aio.launch(other)
        except SandboxError as error:
            print(error.message, "|", error.next_step)
        tool = instance.list_tools()[0].name
        print((await instance.call_tool(tool)).type, zygote()._process.pid == pid)
        resource.prlimit(pid, limit, before)
        async with await aio.launch(other) as second:
            print(second.tier, zygote()._process.pid == pid)

asyncio.run(main())
"""


def test_want_of_processes_ends_no_worker(interpreter: str) -> None:
    done = _as_nobody(interpreter, "-c", CROWDED, timeout=60)
    message, alive, later = done.stdout.splitlines()
    assert message.startswith("no process could be started: [Errno 11]")
    assert (alive, later) == ("ok True", "sealed True")

"""Processes end with the host, are sealed by proof, and refuse use after a fork."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from making import make_environment

import awm_hub
from awm_hub import aio
from awm_hub.errors import SealError, WorkerError
from awm_hub.runtime import Options, processes
from awm_hub.runtime.processes import Process

CODE = 'def ping(db) -> str:\n    """Ping."""\n    return "pong"\n'
HOST = """
import asyncio, datetime, os, sys, time
sys.path[:0] = {path!r}
from making import make_environment
import awm_hub
environment = asyncio.run(make_environment({code!r}))
instance = awm_hub.launch(environment)
instance.call_tool("ping")
from awm_hub.runtime import processes
print(processes.zygote()._process.pid, flush=True)
time.sleep(60)
"""


def _children(pid: int) -> list[int]:
    return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
def test_nothing_is_left_when_the_host_ends(how: signal.Signals) -> None:
    path = [str(Path(__file__).parents[1]), str(Path(awm_hub.__file__).parents[1])]
    host = subprocess.Popen(
        [sys.executable, "-c", HOST.format(path=path, code=CODE)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert host.stdout is not None
    zygote = int(host.stdout.readline())
    pids = [zygote, *_children(zygote)]
    assert len(pids) > 1
    host.send_signal(how)
    host.wait(10)
    deadline = time.monotonic() + 10
    while any(map(_is_alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not [pid for pid in pids if _is_alive(pid)]


async def test_what_comes_from_a_worker_is_never_trusted_to_be_a_frame() -> None:
    process = await Process.spawn(interface="functions", sealed=False, memory_bytes=2**31)
    process._channel.data_received(b'{"jsonrpc": "2.0"}')
    with pytest.raises(WorkerError) as caught:
        await process.request("ping", timeout_s=5, value=1)
    assert caught.value.reason == "protocol"
    assert process.is_dead


async def test_a_killed_zygote_is_replaced() -> None:
    environment = await make_environment(CODE)
    child = processes.zygote()._process
    assert child is not None
    child.kill()
    child.wait()
    async with await aio.launch(environment) as instance:
        assert (await instance.call_tool("ping")).value == "pong"


async def test_running_without_a_seal_needs_trust() -> None:
    environment = await make_environment(CODE)
    with pytest.raises(SealError, match="trust"):
        await aio.launch(environment, options=Options(tier="process"))
    async with await aio.launch(environment, options=Options(tier="process"), trust_remote_code=True) as instance:
        assert instance.tier == "process"
        assert (await instance.call_tool("ping")).value == "pong"


async def test_a_machine_that_cannot_seal_is_never_a_silent_downgrade(monkeypatch: pytest.MonkeyPatch) -> None:
    environment = await make_environment(CODE)
    monkeypatch.setattr(processes.zygote(), "seals", False)
    with pytest.raises(SealError, match="cannot seal"):
        await aio.launch(environment)


def test_the_synchronous_verbs_work_inside_a_running_loop() -> None:
    async def main() -> str:
        environment = await make_environment(CODE)
        with awm_hub.launch(environment) as instance:
            return str(instance.call_tool("ping").value)

    assert asyncio.run(main()) == "pong"


def test_the_synchronous_verbs_refuse_a_forked_child() -> None:
    program = textwrap.dedent(
        """
        import os, sys
        from awm_hub.errors import UsageError
        from awm_hub.runtime import sync

        async def nothing(): ...

        sync.run(nothing)
        if os.fork() == 0:
            try:
                sync.run(nothing)
            except UsageError as error:
                print(error)
            os._exit(0)
        os.wait()
        """
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, timeout=30)
    assert "before this process was forked" in done.stdout
    assert os.getpid()

"""What a sealed process is, seen from the kernel's side."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

import awm_hub
from awm_hub.runtime import processes
from awm_hub.runtime.processes import Process
from awm_hub.sandbox import seal

pytestmark = pytest.mark.skipif(
    not seal.can_seal() or platform.machine() != "x86_64", reason="the seal needs Linux; the calls are those of x86_64"
)
SEALED = """
import ctypes, os, re, sys
sys.path.insert(0, {root!r})
from awm_hub.sandbox import seal
libc = ctypes.CDLL(None, use_errno=True)
{before}
print(seal.seal(memory_bytes=2**30), flush=True)
{code}
"""
FIND_INT_80 = """
found = []
for line in open("/proc/self/maps"):
    start, end, rights, rest = re.match(r"(\\w+)-(\\w+) (\\S+) (.*)", line).groups()
    if "x" in rights and "/" in rest:
        data = ctypes.string_at(int(start, 16), int(end, 16) - int(start, 16))
        found += [int(start, 16) + m.start() for m in re.finditer(b"\\xcd\\x80", data)]
"""


def _sealed(code: str, before: str = "") -> "subprocess.CompletedProcess[str]":
    program = SEALED.format(root=str(Path(awm_hub.__file__).parents[1]), before=before, code=code)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)


async def test_a_worker_has_the_filter_no_privileges_and_no_way_back() -> None:
    process = await Process.spawn(interface="functions", sealed=True, memory_bytes=2**30)
    try:
        lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
        limits = Path(f"/proc/{process.pid}/limits").read_text()
    finally:
        process.kill()
    found = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    assert (found["Seccomp"], found["NoNewPrivs"], found["Threads"]) == ("2", "1", "1")
    assert {int(found[name], 16) for name in ("CapEff", "CapPrm", "CapInh", "CapAmb")} == {0}
    assert "0" not in found["Uid"].split()
    assert f"Max address space        {2**30}" in " ".join(limits.split("  ")) or str(2**30) in limits
    assert [line.split()[-3] for line in limits.splitlines() if line.startswith(("Max core", "Max file size"))] == [
        "0"
    ] * 2


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may look into a sealed process")
async def test_a_worker_holds_no_descriptor_but_its_socket_the_null_device_and_its_own_loop() -> None:
    process = await Process.spawn(interface="functions", sealed=True, memory_bytes=2**30)
    try:
        folder = Path(f"/proc/{process.pid}/fd")
        found = sorted(os.readlink(d).partition(":")[0] for d in folder.iterdir())
    finally:
        process.kill()
    assert found == ["/dev/null"] * 3 + ["anon_inode"] + ["socket"] * 3


def test_a_32_bit_entry_into_the_kernel_ends_the_process() -> None:
    done = _sealed("ctypes.CFUNCTYPE(ctypes.c_long)(found[0])()\nprint('alive')", before=FIND_INT_80)
    assert done.returncode in (-31, -11), done  # SIGSYS; SIGSEGV where the kernel has no 32-bit entry at all
    assert "alive" not in done.stdout


def test_the_oldest_entry_into_the_kernel_is_filtered_too() -> None:
    done = _sealed("print(ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_void_p)(0xFFFFFFFFFF600400)(None))")
    assert done.returncode in (-31, -11) or done.stdout.splitlines()[1] == "-1", done


def test_a_second_filter_and_a_second_seal_are_refused() -> None:
    done = _sealed("seal._install_filter(libc)")
    assert "PermissionError: [Errno 1] the kernel refused the seccomp filter" in done.stderr


def test_the_filter_alone_denies_files_where_the_kernel_has_no_landlock() -> None:
    done = _sealed("open('/etc/hostname')", before="seal._restrict_filesystem = lambda libc: 0")
    assert "'landlock': 0" in done.stdout
    assert "PermissionError: [Errno 1]" in done.stderr


def test_landlock_alone_denies_files_too() -> None:
    done = _sealed("open('/etc/hostname')", before="seal._install_filter = lambda libc: None")
    if "'landlock': 0" in done.stdout:
        pytest.skip("this kernel has no Landlock")
    assert "PermissionError: [Errno 13]" in done.stderr


def test_a_process_that_cannot_be_filtered_does_not_go_on() -> None:
    before = "seal._filter_program = lambda *_: [(0xFFFF, 0, 0, 0)]"
    done = _sealed("print('unsealed')", before=before)
    assert done.returncode == 1
    assert "the kernel refused the seccomp filter" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("sealed", [True, False])
async def test_a_worker_that_never_ends_ends_with_its_zygote_in_every_tier(sealed: bool) -> None:
    source = processes.Zygote()
    ours, pid = source.spawn(interface="functions", sealed=sealed, memory_bytes=2**30)
    with ours:
        handle = os.pidfd_open(pid)
        ours.recv(64)
        source.stop()
        import select

        assert select.select([handle], [], [], 10)[0]
    os.close(handle)

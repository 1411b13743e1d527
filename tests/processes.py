"""Processes that tests start, and what they leave behind."""

import contextlib
import os
import select
import time
from collections.abc import Iterator
from pathlib import Path


def descendants(pid: int) -> set[int]:
    """Pids of the processes below one."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    found: set[int] = set()
    while more := {child for child, parent in parents.items() if parent in found | {pid}} - found:
        found |= more
    return found


@contextlib.contextmanager
def gone_afterwards(pid: int, *, within_s: float = 30) -> Iterator[set[int]]:
    """Check that a process and all it has started by now are gone, or going, when the block is left."""
    pids = {pid, *descendants(pid)}
    handles = {}
    for one in pids:
        with contextlib.suppress(ProcessLookupError):  # it has ended since it was seen
            handles[one] = os.pidfd_open(one)
    try:
        yield pids - {pid}
        deadline = time.monotonic() + within_s
        for handle in handles.values():
            readable, _, _ = select.select([handle], [], [], max(0.0, deadline - time.monotonic()))
            assert readable, f"still running of {pids}: {[p for p in pids if Path(f'/proc/{p}').exists()]}"
    finally:
        for handle in handles.values():
            os.close(handle)

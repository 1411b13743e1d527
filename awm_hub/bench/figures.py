"""Figures: how long something took, in wall and CPU time, and how much memory it holds."""

import statistics
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

_LOOKED_AT = 10


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One measured operation, or one amount."""

    name: str
    way: str
    """`ours` or `upstream`."""
    environment: str
    """Interface of the environment measured: `functions` or `fastapi`."""
    unit: str
    """`ms`, `MB`, `s` or `1/s`."""
    value: float
    """Median of the times, or the amount."""
    p95: float | None = None
    cpu: float | None = None
    """Mean CPU time of everything involved, in the unit."""
    count: int = 1
    """How often it was done, or how many instances there were."""
    note: str = ""


@dataclass
class Meter:
    """Times repetitions; CPU time is that of this process and of the ones named by `pids`."""

    pids: Callable[[], Iterable[int]]
    times: list[float] = field(default_factory=list)
    cpu_s: float = 0.0

    async def repeat(self, count: int, work: Callable[[], Awaitable[object]]) -> "Meter":
        """Do the work so many times."""
        # processes may end within a repetition, with what they used: slow ones are looked at each time
        parts = [1] * count if count <= _LOOKED_AT else [count]
        for part in parts:
            before = self._cpu()
            for _ in range(part):
                started = time.perf_counter()
                await work()
                self.times.append(time.perf_counter() - started)
            self.cpu_s += sum(used - before.get(pid, 0.0) for pid, used in self._cpu().items())
        return self

    def figure(self, name: str, way: str, environment: str, note: str = "") -> Figure:
        """What was measured, in milliseconds."""
        times = sorted(self.times)
        return Figure(
            name=name,
            way=way,
            environment=environment,
            unit="ms",
            value=statistics.median(times) * 1e3,
            p95=times[min(len(times) - 1, int(len(times) * 0.95))] * 1e3,
            cpu=self.cpu_s / len(times) * 1e3,
            count=len(times),
            note=note,
        )

    def _cpu(self) -> dict[int, float]:
        """CPU time so far by process, this one as 0."""
        return {0: time.process_time(), **{pid: cpu_seconds(pid) for pid in self.pids()}}


def cpu_seconds(pid: int) -> float:
    """CPU time of a process, 0.0 once it is gone."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


def private_mb(pids: Iterable[int]) -> float:
    """Memory that belongs to these processes alone, in MB: what would be free if they ended."""
    return sum(_proportional_kb(pid) for pid in pids) / 1024


def _proportional_kb(pid: int) -> int:
    """Proportional set size: private pages, and a fair part of the shared ones."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return _resident_kb(pid)
    return next((int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")), 0)


def _resident_kb(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:")), 0)


def descendants(pid: int) -> list[int]:
    """A process's children and theirs."""
    found: list[int] = []
    waiting = [pid]
    while waiting:
        try:
            text = "".join(p.read_text() for p in Path(f"/proc/{waiting.pop()}/task").glob("*/children"))
        except OSError:
            continue
        children = [int(child) for child in text.split()]
        found += children
        waiting += children
    return found

"""The figures as a table and as JSON, with the machine they come from and the ratios between the two ways."""

import dataclasses
import datetime as dt
import os
import platform
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from awm_hub.bench.figures import Figure
from awm_hub.runtime.processes import zygote

_COMPARED = ("new instance", "reset", "call", "memory per instance")


@dataclass(frozen=True, kw_only=True)
class BenchReport:
    """One run."""

    machine: dict[str, Any]
    figures: tuple[Figure, ...]
    measured_at: str = field(default_factory=lambda: dt.datetime.now(dt.UTC).isoformat(timespec="seconds"))

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "measured_at": self.measured_at,
            "machine": self.machine,
            "figures": [dataclasses.asdict(f) for f in self.figures],
            "ratios": [{"name": name, "upstream_by_ours": round(ratio, 1)} for name, ratio in self.ratios()],
        }

    def ratios(self) -> Iterator[tuple[str, float]]:
        """How many times the upstream way costs, on the `fastapi` environment: wall time, CPU time, memory."""
        for name in _COMPARED:
            ours = [f for f in self.figures if (f.name, f.way, f.environment) == (name, "ours", "fastapi")]
            theirs = [f for f in self.figures if (f.name, f.way) == (name, "upstream")]
            for figure in theirs:
                mine = _nearest(ours, figure.count)
                if mine is None:
                    continue
                label = name if name == "reset" else f"{name}, {figure.count} at once"
                if name == "memory per instance":
                    label += f" (ours at {mine.count})"
                yield label, figure.value / mine.value
                if figure.cpu and mine.cpu:
                    yield f"{label}, CPU time", figure.cpu / mine.cpu

    def table(self) -> str:
        """Markdown: the machine, the figures, the ratios."""
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        yield f"Measured {self.measured_at}: " + ", ".join(f"{k} {v}" for k, v in self.machine.items()) + "."
        yield ""
        yield "| operation | way | environment | n | median | p95 | CPU | note |"
        yield "|---|---|---|--:|--:|--:|--:|---|"
        for f in self.figures:
            p95 = "" if f.p95 is None else _shown(f.p95)
            cpu = "" if f.cpu is None else f"{_shown(f.cpu)} ms"
            value = f"{_shown(f.value)} {f.unit}"
            yield f"| {f.name} | {f.way} | {f.environment} | {f.count} | {value} | {p95} | {cpu} | {f.note} |"
        yield ""
        yield "| the upstream way costs | times ours |"
        yield "|---|--:|"
        for name, ratio in self.ratios():
            yield f"| {name} | {_shown(ratio)} |"


def describe_machine() -> dict[str, Any]:
    """What the figures depend on."""
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "sandbox": "sealed" if zygote().can_seal() else "process",
        **{name: version(name) for name in ("fastapi", "sqlalchemy", "mcp")},
    }


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def _nearest(figures: list[Figure], count: int) -> Figure | None:
    """The figure for as many instances, or for the least number above it."""
    return min(figures, key=lambda f: (f.count < count, f.count), default=None)


def _shown(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"

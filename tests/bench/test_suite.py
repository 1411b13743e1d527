"""The benchmark runs, measures both ways and computes its ratios; its figures are never asserted."""

import asyncio
import json

import pytest

from awm_hub.bench import BenchReport, Figure, run_suite
from awm_hub.bench.suite import Form

TINY = Form(repeat=3, densities=(1, 4), throng=(2, 4, 2), upstream_counts=(1,))


@pytest.mark.slow
def test_both_ways_are_measured_in_one_run() -> None:
    seen: list[Figure] = []
    report = asyncio.run(run_suite(TINY, on_figure=seen.append))
    assert tuple(seen) == report.figures
    names = {(f.name, f.way, f.environment) for f in report.figures}
    for name in (
        "load an environment",
        "new instance",
        "reset",
        "call",
        "snapshot",
        "restore",
        "fork",
        "diff",
        "judge",
    ):
        assert {(name, "ours", "functions"), (name, "ours", "fastapi")} <= names
    assert {(n, "upstream", "fastapi") for n in ("new instance", "call", "reset", "memory per instance")} <= names
    assert all(f.value > 0 for f in report.figures)
    assert json.loads(json.dumps(report.to_dict()))["machine"]["cores"] > 0
    assert len(report.table().splitlines()) > len(report.figures)


def _figure(way: str, value: float, *, count: int = 1, cpu: float | None = None) -> Figure:
    return Figure(name="new instance", way=way, environment="fastapi", unit="ms", value=value, cpu=cpu, count=count)


def test_ratios_compare_wall_and_cpu_time() -> None:
    figures = (_figure("ours", 2.0, count=100, cpu=1.0), _figure("upstream", 3000.0, count=4, cpu=2500.0))
    report = BenchReport(machine={"cores": 2}, figures=figures)
    assert list(report.ratios()) == [
        ("new instance, 4 at once", 1500.0),
        ("new instance, 4 at once, CPU time", 2500.0),
    ]
    assert "| new instance, 4 at once | 1,500 |" in report.table()

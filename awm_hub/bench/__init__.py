"""Measuring the runtime, beside the way upstream runs the same environment.

Every figure is measured in one run on one machine, wall time beside CPU time, since machines are noisy and ratios are
not. `ours` measures this package, `upstream` the other way: one process tree and one port per instance, the module
served over HTTP with a tool layer in front. `awm-hub bench` prints the table.
"""

from awm_hub.bench.figures import Figure
from awm_hub.bench.report import BenchReport
from awm_hub.bench.suite import LONG, SHORT, run_suite

__all__ = ["LONG", "SHORT", "BenchReport", "Figure", "run_suite"]

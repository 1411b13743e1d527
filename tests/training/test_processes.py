"""Two processes train together on CPUs (gloo): as many rows on both, one baseline for the group."""

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from awm_hub.rollouts import read_trajectories

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_two_processes_get_equally_many_rows_and_share_a_baseline(tmp_path: Path) -> None:
    pytest.importorskip("trl")
    script = ROOT / "tests" / "training" / "two_processes.py"
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    env = {
        **os.environ,
        "PYTHONPATH": f"{ROOT / 'tests'}:{ROOT}",
        "OMP_NUM_THREADS": "1",
        "TRL_EXPERIMENTAL_SILENCE": "1",
        "HF_HUB_OFFLINE": "1",
    }
    done = subprocess.run([*launcher, str(script), str(tmp_path)], env=env, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr[-3000:]
    first, second = (json.loads((tmp_path / f"rank{rank}.json").read_text()) for rank in (0, 1))
    assert (first["owners"], second["owners"]) == ([0, 0, 0, 1, 1], [0, 1, -1, -1, -1])
    rewards = [1.0, 1.0, -1.0, 0.0]
    mean, spread = statistics.mean(rewards), statistics.stdev(rewards) + 1e-4
    expected = [(reward - mean) / spread for reward in rewards]
    assert first["advantages"] == pytest.approx([expected[0]] * 3 + [expected[1]] * 2, rel=1e-4)
    assert second["advantages"] == pytest.approx([expected[2], expected[3], 0.0, 0.0, 0.0], rel=1e-4)
    assert first["items"] == second["items"] == first["written"] + second["written"]
    assert first["weights"] == pytest.approx(second["weights"], rel=1e-6)
    assert (first["live"], second["live"]) == (0, 0)
    assert sorted(path.name for path in (tmp_path / "log" / "trajectories").iterdir()) == [
        "train-000000-000-000.parquet",
        "train-000000-001-000.parquet",
    ]
    assert len(list(read_trajectories(tmp_path / "log"))) == 4

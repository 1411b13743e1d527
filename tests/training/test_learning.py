"""The report of the learning experiment and the world that it is made in; `learning/run.py` makes the experiment."""

import json
from pathlib import Path

import pytest
from training.learning import report, world


def test_the_intervals_of_the_report_are_those_of_wilson() -> None:
    assert report.wilson(0, 0) == (0.0, 1.0)
    assert report.wilson(50, 100) == pytest.approx((0.4038, 0.5962), abs=1e-4)
    assert report.wilson(0, 10) == pytest.approx((0.0, 0.2775), abs=1e-4)


def test_tasks_to_train_on_and_held_out_ones_have_no_request_in_common() -> None:
    trained, held_out = world.train_tasks(), world.held_out_tasks()

    assert (len(trained), len(held_out)) == (600, 256)
    assert len({(task.prompt, task.setup) for task in (*trained, *held_out)}) == 856
    assert not {task.prompt for task in trained} & {task.prompt for task in held_out}


def test_the_report_is_written_from_whatever_results_there_are(tmp_path: Path) -> None:
    cell = {"n": 100, "success": 50, "format_errors": 20, "cpu_s": 1.0, "wall_s": 2.0, "memory_mb": 300}
    work = tmp_path / "work"
    work.mkdir()
    for seed in (0, 1):
        (work / f"cell-sft-{seed}-full.json").write_text(json.dumps(cell), encoding="utf-8")

    report.write(work, tmp_path / "learning")

    page = (tmp_path / "learning.md").read_text(encoding="utf-8")
    assert "| SFT | **50 %** [43, 57]; seeds 50, 50; format errors 20 % | not there yet |" in page
    assert json.loads((tmp_path / "learning" / "results.json").read_text(encoding="utf-8"))["cell-sft-1-full"] == cell
    assert (tmp_path / "learning" / "ablation.svg").read_text(encoding="utf-8").startswith("<svg")
    assert (tmp_path / "learning" / "curves.svg").exists()

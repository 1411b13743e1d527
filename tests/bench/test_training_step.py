"""A training step is really played, its CPU time is told apart, and the share on more cores follows from it."""

import dataclasses
import json
from pathlib import Path

import pytest

import awm_hub
from awm_hub.bench.step_report import Phase, StepForm, StepReport, memory_bound, table, to_dict
from awm_hub.bench.training_step import batch_of, main, reads_of, simulate
from awm_hub.errors import UsageError
from awm_hub.runtime.processes import Process

SMALL = StepForm(prompts=2, rollouts=2, turns=8, gradient_s=0.0, pace=0.001)
PHASES = (
    Phase(name="launch", wall_s=3.0, host_s=1.0, zygote_s=1.0, workers_s=0.0),
    Phase(name="judge", wall_s=20.0, host_s=2.0, zygote_s=0.0, workers_s=12.0),
)
REPORT = StepReport(
    interface="functions",
    form=StepForm(tokens_per_s=1024.0, tokens_per_message=10),
    phases=PHASES,
    calls=18_432,
    completed=1024,
    launched_ahead=1024,
)


def test_every_rollout_of_a_small_step_is_launched_ahead_played_to_its_end_and_judged_completed() -> None:
    kill = Process.kill
    report = simulate([awm_hub.load()["public_library_1"]], SMALL)
    assert (report.completed, report.launched_ahead, report.calls) == (4, 4, 4 * 6)
    assert [phase.name for phase in report.phases] == ["launch", "turns", "endings", "judge"]
    assert all(phase.host_s > 0 and phase.wall_s > 0 for phase in report.phases)
    assert report.phases[1].workers_s > 0
    assert report.phases[3].workers_s > 0  # forks that were gone before the end
    assert Process.kill is kill


def test_each_task_of_a_batch_is_in_an_environment_of_its_own() -> None:
    environments = [awm_hub.load()[name] for name in ("public_library_1", "field_service_1")]
    copies, rows = batch_of(environments, dataclasses.replace(SMALL, prompts=4))
    assert list(copies) == ["copy_0", "copy_1", "copy_2", "copy_3"]
    assert len({one.content_hash for one in copies.values()}) == 4
    assert [row["environment_id"] for row in rows] == [f"copy_{n}" for n in (0, 0, 1, 1, 2, 2, 3, 3)]
    assert [row["seed"] for row in rows[:2]] == [0, 1]
    assert rows[0]["task_id"] != rows[4]["task_id"]
    with pytest.raises(UsageError, match="no solution fits 2 turns"):
        batch_of(environments, dataclasses.replace(SMALL, turns=2))


def test_reads_are_those_that_fit_the_first_state() -> None:
    environment = awm_hub.load()["public_library_1"]
    found = reads_of(environment)
    assert found
    assert {environment.tool(call.tool).effect for call in found} == {"read"}


def test_time_added_lies_between_full_overlap_and_none() -> None:
    assert REPORT.total() == Phase(name="step", wall_s=23.0, host_s=3.0, zygote_s=1.0, workers_s=12.0)
    assert REPORT.total().added_s(16) == (1.0, 4.75)
    assert REPORT.form.tokens == 204_800
    assert REPORT.shares(16, 1024.0) == (1 / 201, 4.75 / 204.75)
    slow, fast = REPORT.fastest_sampler(16)
    assert REPORT.shares(16, slow)[1] == pytest.approx(0.05)
    assert REPORT.shares(16, fast)[0] == pytest.approx(0.05)


def test_a_smaller_step_is_scaled_to_the_whole() -> None:
    quarter = dataclasses.replace(REPORT, form=dataclasses.replace(REPORT.form, prompts=16))
    assert quarter.scaled(REPORT.form).total().cpu_s == 4 * REPORT.total().cpu_s
    text = table([REPORT, dataclasses.replace(quarter, interface="fastapi")], cores=16, about={"cores": 2})
    assert "| judge | 20.0 s | 14.0 s | 2.0 s | 0.0 s | 12.0 s | 0.9 s | 2.8 s |" in text
    assert "| 1,024 | 200 s | 0.5% to 2.3% |" in text
    assert "for 1,024 rollouts" in text.partition("## fastapi")[2]


def test_the_bound_of_a_gpu_follows_from_keys_and_values() -> None:
    assert memory_bound() == 4.8e12 / (2 * 36 * 8 * 128 * 2 * 8000)
    assert memory_bound(model="Qwen3-8B") == memory_bound()


def test_the_command_writes_table_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--prompts", "1", "--rollouts", "1", "--gradient-s", "0", "--pace", "0", "--fastapi-prompts", "0"]
    assert main([*options, "--tokens-per-s", "0.1", "-o", str(tmp_path)]) == 0
    assert (tmp_path / "training_step.md").read_text("utf-8") == capsys.readouterr().out
    found = json.loads((tmp_path / "training_step.json").read_text("utf-8"))
    assert found["measured"][0]["completed"] == 1
    assert found["shares"][0]["tokens_per_s"] == 0.1
    assert main([*options, "--tokens-per-s", "1e9"]) == 1


def test_json_holds_what_was_measured_and_the_shares() -> None:
    found = json.loads(json.dumps(to_dict([REPORT], cores=16, about={})))
    assert found["measured"][0]["phases"][1]["workers_s"] == 12.0
    assert [share["tokens_per_s"] for share in found["shares"]] == [1024.0, memory_bound(), 8 * memory_bound()]

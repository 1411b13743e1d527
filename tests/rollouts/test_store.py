"""A run's directory: one whole file for each attempt, read back one at a time."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from rollouts.records import DONE, FAILED, rollout, verdict

from awm_hub.errors import DataError, RecordError, UnknownNameError, UsageError
from awm_hub.rollouts import Plan, open_run
from awm_hub.rollouts.plans import PlannedEnvironment
from awm_hub.rollouts.store import Run, alone, begin_run

PLAN = Plan(
    environments=(PlannedEnvironment(id="e_1", content_hash="0" * 64, tasks=("t0", "t1")),),
    rollouts_per_task=2,
    max_turns=20,
    judge="decision",
    source="here",
)
POLICY = {"kind": "script"}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return begin_run(tmp_path / "run", PLAN, POLICY)


def test_a_run_is_read_back_as_it_was_stored_in_the_plan_s_order(run: Run) -> None:
    second, first = rollout("e_1/t1", 0, FAILED), rollout("e_1/t0", 1, DONE, judge_error={"type": "JudgeError"})
    run.keep(second)
    run.keep(first)
    read = open_run(run.directory)
    assert (read.plan, read.policy) == (PLAN, POLICY)
    assert list(read) == ["e_1__t0__1", "e_1__t1__0"]
    assert list(read.values()) == [first, second]
    assert [slot.id for slot in read.missing] == ["e_1__t0__0", "e_1__t1__1"]
    assert "e_1__t0__1" in read
    assert "e_1__t0__0" not in read


def test_a_file_is_the_trajectory_itself_with_the_rollout_beside_it(run: Run) -> None:
    run.keep(rollout("e_1/t0", 1))
    found = json.loads((run.directory / "rollouts" / "e_1__t0__1.json").read_text())
    assert found["task_id"] == "e_1/t0"
    assert found["rollout"] == {"id": "e_1__t0__1", "number": 1, "judge_error": None}


def test_verdicts_are_added_and_none_is_lost(run: Run) -> None:
    run.keep(rollout(outcome=DONE, judge_error={"judge": "llm", "type": "JudgeError", "message": "?"}))
    changed = run.add_verdict("e_1__t0__0", verdict(FAILED, judge="llm"))
    read = open_run(run.directory)["e_1__t0__0"]
    assert read == changed
    assert [(v.judge, v.outcome) for v in read.trajectory.verdicts] == [("decision", DONE), ("llm", FAILED)]
    assert read.verdict == read.trajectory.verdicts[-1]
    assert read.judge_error is None
    assert (read.reward.total, read.is_success) == (0.0, False)


@pytest.mark.parametrize("name", ["e_1__t9__0", "../run", "", ".", "/etc/passwd", "e_1__t0__0/../e_1__t0__0"])
def test_an_unknown_rollout_is_refused(run: Run, name: str) -> None:
    run.keep(rollout())
    with pytest.raises(UnknownNameError):
        run[name]


def test_a_file_that_is_no_trajectory_is_an_error_of_its_own(run: Run) -> None:
    (run.directory / "rollouts" / "e_1__t0__0.json").write_text("{")
    with pytest.raises(RecordError, match=r"e_1__t0__0.json is not valid JSON") as found:
        run["e_1__t0__0"]
    assert found.value.message.startswith(f"{run.directory}/rollouts/e_1__t0__0.json: ")
    assert "by the command that began it" in found.value.next_step
    assert found.value.next_step.endswith("as e_1__t0__0.json.broken")


def test_what_holds_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no run"):
        open_run(tmp_path)
    with pytest.raises(DataError, match="holds no run"):
        open_run(tmp_path / "nowhere")
    for text in ("{", '{"plan": 1}', '{"plan": {"environments": 1}, "policy": {}, "format_version": 1}'):
        (tmp_path / "run.json").write_text(text)
        with pytest.raises(RecordError, match=f"the run in {tmp_path} cannot be read") as found:
            open_run(tmp_path)
        assert "name another folder" in found.value.next_step
    (tmp_path / "run.json").write_text(json.dumps({"plan": PLAN.to_dict(), "policy": {}, "format_version": 2}))
    with pytest.raises(RecordError, match="another version"):
        open_run(tmp_path)


def test_a_run_goes_on_with_the_same_plan_and_policy_only(run: Run) -> None:
    run.keep(rollout())
    moved = dataclasses.replace(PLAN, source="elsewhere", revision="abc")
    assert begin_run(run.directory, moved, {**POLICY, "host": "http://elsewhere"}) == run
    with pytest.raises(UsageError, match=r"holds a run with another plan \(rollouts_per_task: 2 there, 3 now\)"):
        begin_run(run.directory, dataclasses.replace(PLAN, rollouts_per_task=3), POLICY)
    with pytest.raises(UsageError, match=r"another policy \(kind: script there, other now\)"):
        begin_run(run.directory, PLAN, {"kind": "other"})
    changed = PlannedEnvironment(id="e_1", content_hash="1" * 64, tasks=("t0", "t2"))
    with pytest.raises(UsageError) as found:
        begin_run(run.directory, dataclasses.replace(PLAN, environments=(changed,)), POLICY)
    assert found.value.message.partition("another plan ")[2] == (
        "(environments.e_1.version: 000000000000 there, 111111111111 now, tasks.e_1/t2: not set there, planned now, "
        "tasks.e_1/t1: planned there, not set now)"
    )


def test_only_what_differs_between_policies_is_named(tmp_path: Path) -> None:
    first = {"kind": "chat", "host": "here", "sampling": {"seed": 0}, "window": {"turns": None}}
    run = begin_run(tmp_path / "run", PLAN, first)
    run.keep(rollout())
    second = {"kind": "chat", "host": "there", "sampling": {"seed": 0, "temperature": 0.5}, "window": {"turns": 3}}
    with pytest.raises(UsageError) as found:
        begin_run(run.directory, PLAN, second)
    told = found.value.message.partition("another policy ")[2]
    assert told == "(sampling.temperature: not set there, 0.5 now, window.turns: not set there, 3 now)"


def test_a_run_in_which_nothing_was_ever_answered_is_begun_anew(run: Run) -> None:
    gone = {"termination": "endpoint_error", "usage": {"turns": 0, "error": {"type": "RemoteError", "message": "x"}}}
    run.keep(rollout(outcome=None, **gone))
    anew = begin_run(run.directory, dataclasses.replace(PLAN, seed=7), {"kind": "other"})
    assert (anew.policy, anew.plan.seed, len(anew)) == ({"kind": "other"}, 7, 0)
    anew.keep(rollout(outcome=None, **{**gone, "usage": {**gone["usage"], "turns": 1}}))
    with pytest.raises(UsageError, match="another policy"):
        begin_run(run.directory, dataclasses.replace(PLAN, seed=7), POLICY)


def test_what_an_interruption_left_half_written_is_removed(run: Run) -> None:
    left = run.directory / "rollouts" / ".e_1__t0__0.json.tmp"
    left.write_text("{")
    assert begin_run(run.directory, PLAN, POLICY) == run
    assert not left.exists()


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(UsageError, match="something other than a run"), alone(tmp_path):
        pass
    with pytest.raises(UsageError, match="something other than a run"), alone(tmp_path / "thesis.txt"):
        pass
    assert os.listdir(tmp_path) == ["thesis.txt"]


def test_two_programs_do_not_work_on_the_same_run(run: Run) -> None:
    code = f"import sys; from awm_hub.rollouts.store import alone\nwith alone({str(run.directory)!r}): pass"
    with alone(run.directory):
        other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "another program is working on the run" in other.stderr
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0

"""Trajectories that were made elsewhere become a run that is judged, counted and judged again like any other."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from awm_hub.environment import Environment
from awm_hub.errors import UsageError
from awm_hub.rollouts import measure, open_run, read_trajectories, store_trajectories
from awm_hub.runtime import launch
from awm_hub.trajectory import Trajectory


def worked(environment: Environment, task: str | None, answer: str | None = None, seed: int = 0) -> Trajectory:
    """A loop of one's own: the calls of the solution, and an answer."""
    with launch(environment, task=task, seed=seed) as instance:
        for call in (instance.task.solution or ()) if instance.task else ():
            instance.call_tool(call.tool, call.arguments)
        if answer is not None:
            instance.submit(answer)
        return instance.trajectory()


@pytest.fixture(scope="module")
def made(notes_environment: Environment) -> tuple[Trajectory, ...]:
    tasks = (("postpone_plumber", "Done.", 0), ("overdue", "no idea", 1), ("postpone_plumber", "Done.", 2))
    return tuple(worked(notes_environment, *one) for one in tasks)


def test_trajectories_are_stored_and_judged_on_request(
    made: tuple[Trajectory, ...], tmp_path: Path, notes_environment: Environment
) -> None:
    run = store_trajectories(iter(made), tmp_path / "run", judge="decision", policy={"kind": "mine", "version": 2})
    again = open_run(tmp_path / "run")
    assert list(again) == ["notes__postpone_plumber__0", "notes__postpone_plumber__1", "notes__overdue__0"]
    assert dict(again) == dict(run)
    assert [f.trajectory.seed for f in again.values()] == [0, 2, 1]
    assert [str(f.verdict and f.verdict.outcome) for f in again.values()] == ["COMPLETED", "COMPLETED", "AGENT_ERROR"]
    assert (again.policy, again.plan.judge) == ({"kind": "mine", "version": 2}, "decision")
    assert [m.pass_at_1 for m in measure(again.values()).tasks] == [1.0, 0.0]
    assert len(list(read_trajectories(tmp_path / "run" / "dataset"))) == 3


def test_without_a_judge_the_verdicts_stay_as_they_are(made: tuple[Trajectory, ...], tmp_path: Path) -> None:
    policies = [{"kind": "b"}, {"kind": "a"}, {"kind": "b"}]
    named = [dataclasses.replace(t, policy=p) for t, p in zip(made, policies, strict=True)]
    run = store_trajectories(named, tmp_path / "run")
    assert {f.verdict for f in run.values()} == {None}
    assert run.policy == {"kind": "several", "kinds": ["a", "b"]}
    with pytest.raises(UsageError, match="holds a run"):
        store_trajectories(named, tmp_path / "run")


def test_environments_are_named_where_trajectories_do_not_hold_them(
    made: tuple[Trajectory, ...], tmp_path: Path, notes_environment: Environment
) -> None:
    bare = [dataclasses.replace(t, environment=None) for t in made]
    run = store_trajectories(bare, tmp_path / "run", judge="decision")
    assert {(f.judge_error or {}).get("type") for f in run.values()} == {"JudgeError"}
    run = store_trajectories(bare, tmp_path / "named", judge="decision", environments=notes_environment)
    assert [f.is_success for f in run.values()] == [True, True, False]


def test_what_makes_no_run_is_refused_before_anything_is_written(
    made: tuple[Trajectory, ...], tmp_path: Path, notes_environment: Environment, renamed: Callable[..., Environment]
) -> None:
    with pytest.raises(UsageError, match="no trajectory to store"):
        store_trajectories([], tmp_path / "run")
    with pytest.raises(UsageError, match="has no task"):
        store_trajectories([worked(notes_environment, None)], tmp_path / "run")
    other = dataclasses.replace(made[0], environment_hash="0" * 64)
    with pytest.raises(UsageError, match="different versions of notes"):
        store_trajectories([*made, other], tmp_path / "run")
    with pytest.raises(UsageError, match="no judge named 'wise'"):
        store_trajectories(made, tmp_path / "run", judge="wise")
    assert not (tmp_path / "run").exists()

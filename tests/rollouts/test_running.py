"""Runs: many attempts, judged and stored; what is interrupted is gone on with, and nothing runs twice."""

import dataclasses
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from making import make_environment
from rollouts.scripts import Scripted, Solving, answering, calling

import awm_hub
from awm_hub.environment import Environment, Task
from awm_hub.errors import DataError, RemoteError, UnknownNameError, UsageError
from awm_hub.inference import Endpoint
from awm_hub.judging import judge
from awm_hub.policy import ChatPolicy, NoopPolicy, RandomPolicy, ReplayPolicy, SolutionPolicy
from awm_hub.rollouts import Run, measure, open_run, read_trajectories, rollout, rollout_async
from awm_hub.rollouts.plans import derived_seed
from awm_hub.runtime import Options, launch, pages
from awm_hub.trajectory import Evidence, Outcome, StateDiff, Verdict

COMPLETED = Outcome.COMPLETED
_KILLED_RUN = """
import sys
import awm_hub
from awm_hub.policy import RandomPolicy
from awm_hub.rollouts import rollout

dataset, out, attempts = sys.argv[1] or None, sys.argv[2], int(sys.argv[3])
judge = "decision" if dataset is None else None
rollout(
    awm_hub.load(dataset),
    RandomPolicy(calls=3),
    out=out,
    rollouts_per_task=attempts,
    seed=3,
    judge=judge,
    progress=lambda event: print(event["event"], flush=True),
)
"""


@pytest.fixture(scope="module")
def bundled() -> Mapping[str, Environment]:
    return {name: awm_hub.load()[name] for name in awm_hub.load()}


def timeless(value: Any) -> Any:
    """JSON without what a clock decides."""
    if isinstance(value, dict):
        return {k: timeless(v) for k, v in value.items() if k not in ("seconds", "policy_seconds")}
    return [timeless(v) for v in value] if isinstance(value, list) else value


def contents(directory: Path) -> dict[str, Any]:
    files = sorted((directory / "rollouts").iterdir())
    return {file.name: timeless(json.loads(file.read_text())) for file in files}


@pytest.mark.parametrize("judge_name", ["decision", "reference"])
def test_the_solution_completes_every_bundled_task(
    bundled: Mapping[str, Environment], tmp_path: Path, judge_name: str
) -> None:
    if judge_name == "reference":  # says the same as a decision that is derived; some have functions
        bundled = {name: bundled[name] for name in ("field_service_1", "public_library_1")}
    run = rollout(bundled, SolutionPolicy(bundled), out=tmp_path / "run", judge=judge_name)
    assert len(run) == sum(len(e.tasks) for e in bundled.values()) > 0
    for found in run.values():
        assert found.verdict is not None
        assert (found.id, found.verdict.judge, found.verdict.outcome) == (found.id, judge_name, COMPLETED)
        assert (found.reward.total, found.trajectory.termination) == (1.0, "answered")


def test_doing_nothing_completes_no_task_that_changes_something(
    bundled: Mapping[str, Environment], tmp_path: Path
) -> None:
    bundled = {name: bundled[name] for name in ("film_festival_office_1", "public_library_1")}
    run = rollout(bundled, NoopPolicy(), out=tmp_path / "run")
    kinds = {task.id: task.kind for e in bundled.values() for task in e.tasks}
    changing = [f for f in run.values() if kinds[f.trajectory.task_id or ""] != "query"]
    assert len(changing) > 5
    assert [f.id for f in changing if f.verdict is None or f.verdict.outcome is COMPLETED] == []


def test_random_calls_crash_nothing(bundled: Mapping[str, Environment], tmp_path: Path) -> None:
    two = {name: bundled[name] for name in ("marina_berth_management_1", "public_library_1")}
    run = rollout(two, RandomPolicy(calls=12), out=tmp_path / "run")
    found = measure(run.values()).overall
    assert (found.rollouts, found.terminations) == (20, {"answered": 20})
    assert found.scored == 20
    assert sum(len(f.trajectory.steps) for f in run.values()) == 240


def test_seeds_follow_from_the_place_and_concurrency_changes_nothing(
    notes_environment: Environment, tmp_path: Path
) -> None:
    for name, concurrency in (("one", 1), ("many", 12)):
        rollout(
            notes_environment,
            RandomPolicy(calls=4),
            out=tmp_path / name,
            rollouts_per_task=3,
            concurrency=concurrency,
            seed=9,
        )
    one, many = contents(tmp_path / "one"), contents(tmp_path / "many")
    assert one == many
    assert len(one) == 12
    assert one["notes__overdue__2.json"]["seed"] == derived_seed(9, "notes", "overdue", 2)
    calls = {json.dumps([s["arguments"] for s in f["steps"]]) for f in one.values()}
    assert len(calls) > 6


def test_what_is_stored_does_not_run_again(notes_environment: Environment, tmp_path: Path) -> None:
    policy = Solving([notes_environment])
    rollout(notes_environment, policy, out=tmp_path / "run")
    before = {f: f.stat().st_mtime_ns for f in (tmp_path / "run" / "rollouts").iterdir()}
    again = Solving([notes_environment])
    run = rollout(notes_environment, again, out=tmp_path / "run")
    assert again.views == []
    assert {f: f.stat().st_mtime_ns for f in (tmp_path / "run" / "rollouts").iterdir()} == before
    assert len(run) == 4
    (tmp_path / "run" / "rollouts" / "notes__overdue__0.json").unlink()
    (tmp_path / "run" / "rollouts" / "notes__one_bulb_note__0.json").write_text("{")
    events: list[Mapping[str, Any]] = []
    rollout(notes_environment, again, out=tmp_path / "run", progress=events.append)
    assert events[0] == {"event": "begun", "total": 4, "stored": 2}
    kept = tmp_path / "run" / "rollouts" / "notes__one_bulb_note__0.json.broken"
    assert events[1] == {"event": "broken", "id": "notes__one_bulb_note__0", "kept": str(kept)}
    assert kept.read_text() == "{"
    assert sorted(e["id"] for e in events[2:]) == ["notes__one_bulb_note__0", "notes__overdue__0"]
    assert len(open_run(tmp_path / "run")) == 4


def test_another_plan_or_policy_does_not_go_on_with_a_run(notes_environment: Environment, tmp_path: Path) -> None:
    rollout(notes_environment, NoopPolicy(), out=tmp_path / "run", tasks=["overdue"])
    with pytest.raises(UsageError, match="another policy"):
        rollout(notes_environment, RandomPolicy(), out=tmp_path / "run", tasks=["overdue"])
    for change in ({"seed": 1}, {"rollouts_per_task": 2}, {"max_turns": 3}, {"judge": None}, {"tasks": None}):
        with pytest.raises(UsageError, match="holds a run with another"):
            rollout(notes_environment, NoopPolicy(), out=tmp_path / "run", **{"tasks": ["overdue"], **change})
    other = dataclasses.replace(notes_environment, rules="Others.").with_hash("0" * 64)
    with pytest.raises(UsageError, match=r"another plan \(environments.notes.version: "):
        rollout(other, NoopPolicy(), out=tmp_path / "run", tasks=["overdue"])


def test_progress_tells_how_each_attempt_ended_and_how_many_succeeded(
    notes_environment: Environment, tmp_path: Path
) -> None:
    events: list[Mapping[str, Any]] = []
    policy = Solving([notes_environment])
    rollout(notes_environment, policy, out=tmp_path / "run", tasks=["overdue"], progress=events.append)
    assert events == [
        {"event": "begun", "total": 1, "stored": 0},
        {
            "event": "rollout",
            "id": "notes__overdue__0",
            "termination": "answered",
            "outcome": "COMPLETED",
            "reward": 1.0,
            "successes": 1,
            "scored": 1,
            "position": 1,
            "total": 1,
        },
    ]


def test_attempts_that_the_endpoint_ended_are_tried_again(notes_environment: Environment, tmp_path: Path) -> None:
    gone = Scripted(RemoteError("away"))
    run = rollout(notes_environment, gone, out=tmp_path / "run", tasks=["overdue", "one_bulb_note"])
    assert {f.trajectory.termination for f in run.values()} == {"endpoint_error"}
    assert {(f.verdict, f.reward.total) for f in run.values()} == {(None, None)}
    back = Scripted(calling("get_note", note_id=1), answering("1"))
    run = rollout(notes_environment, back, out=tmp_path / "run", tasks=["overdue", "one_bulb_note"])
    assert {f.trajectory.termination for f in run.values()} == {"answered"}
    assert run["notes__overdue__0"].is_success


def test_attempts_that_the_policy_s_own_bug_ended_are_made_again(
    notes_environment: Environment, tmp_path: Path
) -> None:
    class Buggy(Scripted):
        async def act(self, view: Any) -> Any:
            return answering("1") if view.task_id == "notes/overdue" else 1 / 0

    two: dict[str, Any] = {"out": tmp_path / "run", "tasks": ["overdue", "one_bulb_note"]}
    run = rollout(notes_environment, Buggy(), **two)
    assert {f.trajectory.termination for f in run.values()} == {"answered", "stopped"}
    mended = Scripted(answering("1"))
    run = rollout(notes_environment, mended, **two)
    assert {f.trajectory.termination for f in run.values()} == {"answered"}
    assert len(mended.views) == 1


def test_a_policy_that_fails_in_every_attempt_is_an_error_once_all_is_stored(
    notes_environment: Environment, tmp_path: Path
) -> None:
    class Buggy(Scripted):
        async def act(self, view: Any) -> Any:
            return json.loads("{")

    with pytest.raises(UsageError, match="the policy failed in every attempt, lastly: JSONDecodeError: ") as found:
        rollout(notes_environment, Buggy(), out=tmp_path / "run")
    assert isinstance(found.value.__cause__, json.JSONDecodeError)
    line = Buggy.act.__code__.co_firstlineno + 1
    assert found.value.message.endswith(f"(test_running.py:{line})")
    stored = list(open_run(tmp_path / "run").values())
    assert {f.trajectory.usage["error"]["where"] for f in stored} == {f"test_running.py:{line}"}
    assert len(stored) == len(list(read_trajectories(tmp_path / "run" / "dataset"))) == 4
    unsolved = dataclasses.replace(notes_environment, tasks=(Task(id="notes/t", instruction="x"),))
    with pytest.raises(DataError, match="no reference solution"):
        rollout(unsolved, "solution", out=tmp_path / "unsolved")


def test_a_single_task_may_be_named_by_itself(notes_environment: Environment, tmp_path: Path) -> None:
    run = rollout(notes_environment, NoopPolicy(), out=tmp_path / "run", tasks="overdue")
    assert list(run) == ["notes__overdue__0"]


def test_a_missing_token_is_told_before_anything_is_written(
    notes_environment: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "token"))
    with pytest.raises(UsageError, match="need a token"):
        rollout(notes_environment, ChatPolicy(Endpoint("org/model")), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_an_endpoint_that_fails_again_and_again_ends_the_run(notes_environment: Environment, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"out": tmp_path / "run", "rollouts_per_task": 20, "concurrency": 2}
    with pytest.raises(RemoteError, match="failed for 10 attempts in a row, lastly: away"):
        rollout(notes_environment, Scripted(RemoteError("away")), **settings)
    assert 10 <= len(open_run(tmp_path / "run")) <= 12
    run = rollout(notes_environment, Scripted(answering("1")), judge=None, **{**settings, "out": tmp_path / "other"})
    assert len(run) == 80


def test_a_judge_that_fails_is_recorded_and_gives_no_reward(
    renamed: Callable[..., Environment], tmp_path: Path
) -> None:
    bare = renamed("bare_1", tasks=(Task(id="bare_1/t", instruction="Do it."),))
    run = rollout(bare, NoopPolicy(), out=tmp_path / "run")
    (found,) = run.values()
    assert (found.verdict, found.reward.total) == (None, None)
    assert found.judge_error is not None
    assert (found.judge_error["judge"], found.judge_error["type"]) == ("decision", "JudgeError")


def test_nothing_is_judged_on_request(notes_environment: Environment, tmp_path: Path) -> None:
    run = rollout(notes_environment, NoopPolicy(), out=tmp_path / "run", judge=None)
    assert {(f.verdict, f.judge_error) for f in run.values()} == {(None, None)}


async def test_an_environment_that_does_not_load_is_a_fault_of_the_environment_and_stops_nothing(
    notes_environment: Environment, tmp_path: Path
) -> None:
    made = await make_environment("import sqlite3\n", tasks=(Task(id="made/t", instruction="x", setup=("SELEKT",)),))
    broken = dataclasses.replace(made, code="1 / 0").with_hash("0" * 64)
    run = await rollout_async([broken, notes_environment], NoopPolicy(), out=tmp_path / "run")
    assert len(run) == 5
    found = run["made__t__0"]
    assert found.trajectory.termination == "environment_fault"
    assert found.trajectory.usage["error"]["type"] == "LoadError"
    assert found.reward.total == 0.0


def test_a_policy_that_fails_on_one_task_stops_nothing(renamed: Callable[..., Environment], tmp_path: Path) -> None:
    sound = renamed("one_1")
    unsolved = renamed("two_1", tasks=(Task(id="two_1/t", instruction="x"),))
    both = {"one_1": sound, "two_1": unsolved}
    run = rollout(both, SolutionPolicy(both), out=tmp_path / "run")
    assert run["two_1__t__0"].trajectory.termination == "stopped"
    assert "no reference solution" in run["two_1__t__0"].trajectory.usage["error"]["message"]
    assert measure(run.values()).overall.successes == 4


def test_a_trajectory_replays_to_the_same_bytes(bundled: Mapping[str, Environment], tmp_path: Path) -> None:
    first = rollout(bundled, RandomPolicy(calls=6), out=tmp_path / "first", options=Options(lenient=True), seed=4)
    chosen = [name for name, found in first.items() if found.trajectory.steps][::5]
    for name in chosen:
        file = first.directory / "rollouts" / f"{name}.json"
        (original,) = read_trajectories(file)
        again = rollout(bundled, ReplayPolicy(original), out=tmp_path / name)
        (found,) = again.values()
        copy = found.trajectory
        assert found.id == f"{name[:-1]}0"
        assert (copy.seed, copy.options) == (original.seed, original.options)
        assert copy.database_delta == original.database_delta
        assert [s.result for s in copy.steps] == [s.result for s in original.steps]
        assert [s.state_version for s in copy.steps] == [s.state_version for s in original.steps]


def test_the_stored_delta_is_the_database_of_the_live_instance(notes_environment: Environment, tmp_path: Path) -> None:
    run = rollout(notes_environment, SolutionPolicy({"notes": notes_environment}), out=tmp_path / "run")
    found = run["notes__jars_for_jam__0"].trajectory
    with launch(notes_environment, task="jars_for_jam", seed=found.seed) as instance:
        for step in found.steps:
            instance.call_tool(step.tool, step.arguments)
        assert instance.image() == pages.apply(notes_environment.database, found.database_delta)


def test_judging_a_stored_rollout_again_needs_no_call_of_it(notes_environment: Environment, tmp_path: Path) -> None:
    run = rollout(notes_environment, SolutionPolicy({"notes": notes_environment}), out=tmp_path / "run")
    found = run["notes__jars_for_jam__0"].trajectory
    without = dataclasses.replace(found, steps=(), environment=notes_environment)
    assert judge(without, judge="reference").outcome is COMPLETED


def test_a_replay_belongs_to_its_own_place(renamed: Callable[..., Environment], tmp_path: Path) -> None:
    one = renamed("one_1")
    run = rollout(one, NoopPolicy(), out=tmp_path / "run", tasks=["overdue"])
    policy = ReplayPolicy(run["one_1__overdue__0"].trajectory)
    with pytest.raises(DataError, match="of one_1/overdue"):
        rollout(renamed("two_1"), policy, out=tmp_path / "a")
    with pytest.raises(DataError, match="is of task overdue"):
        rollout(one, policy, out=tmp_path / "b", tasks=["jars_for_jam"])
    with pytest.raises(DataError, match="another version"):
        rollout(renamed("one_1", rules="Others."), policy, out=tmp_path / "c")


def test_a_run_of_nothing_is_refused_before_anything_is_written(notes_environment: Environment, tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError):
        rollout(notes_environment, NoopPolicy(), out=tmp_path / "run", tasks=["no_such"])
    with pytest.raises(UsageError, match="concurrency is 0"):
        rollout(notes_environment, NoopPolicy(), out=tmp_path / "run", concurrency=0)
    with pytest.raises(UsageError, match="no judge named 'wise'"):
        rollout(notes_environment, NoopPolicy(), out=tmp_path / "run", judge="wise")
    assert not (tmp_path / "run").exists()


def test_only_the_environments_in_use_are_held(renamed: Callable[..., Environment], tmp_path: Path) -> None:
    many = {f"e_{n}": renamed(f"e_{n}") for n in range(6)}
    read: list[str] = []

    class Reading(Mapping[str, Environment]):
        def __getitem__(self, name: str) -> Environment:
            read.append(name)
            return many[name]

        def __iter__(self) -> Iterator[str]:
            return iter(many)

        def __len__(self) -> int:
            return len(many)

    rollout(Reading(), NoopPolicy(), out=tmp_path / "run", concurrency=2, judge=None)
    assert sorted(read) == sorted([*many, *many])


def start_and_kill(words: list[str], after: int) -> None:
    """Start a run and kill it once it has told of this many attempts."""
    with subprocess.Popen([sys.executable, "-c", _KILLED_RUN, *words], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for _ in range(after + 1):
            process.stdout.readline()
        process.kill()


def interrupted_equals_uninterrupted(
    dataset: str, attempts: int, tmp_path: Path, draw: random.Random, kills: int
) -> Run:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    words = [dataset, str(parts), str(attempts)]
    total = sum(len(e.tasks) for e in awm_hub.load(dataset or None).values()) * attempts
    for _ in range(kills):
        left = total - len(open_run(parts) if parts.exists() else ())
        start_and_kill(words, draw.randrange(left // 2))
        assert total - left <= len(open_run(parts)) < total
    subprocess.run([sys.executable, "-c", _KILLED_RUN, *words], check=True)
    subprocess.run([sys.executable, "-c", _KILLED_RUN, dataset, str(whole), str(attempts)], check=True)
    assert contents(parts) == contents(whole)
    assert (parts / "run.json").read_bytes() == (whole / "run.json").read_bytes()
    assert sorted(os.listdir(parts)) == [".lock", "dataset", "rollouts", "run.json"]
    return open_run(parts)


def test_a_killed_run_that_is_gone_on_with_equals_one_that_was_not(notes_dataset: Path, tmp_path: Path) -> None:
    run = interrupted_equals_uninterrupted(str(notes_dataset), 3, tmp_path, random.Random(1), kills=1)
    assert len(run) == 12


@pytest.mark.slow
def test_hundreds_of_rollouts_killed_at_random_points_lose_and_repeat_nothing(tmp_path: Path) -> None:
    run = interrupted_equals_uninterrupted("", 10, tmp_path, random.Random(), kills=3)
    assert len(run) == 10 * sum(len(e.tasks) for e in awm_hub.load().values())


class _Judge:
    """Fails for some time, then passes everything."""

    name = "own"

    def __init__(self, failures: int) -> None:
        self.failures = failures

    def describe(self) -> dict[str, Any]:
        return {"kind": "own"}

    async def judge(self, trajectory: Any, *, environment: Any = None) -> Verdict:
        self.failures -= 1
        if self.failures >= 0:
            raise ZeroDivisionError
        return Verdict(outcome=COMPLETED, judge="own", reasoning="", evidence=Evidence(diff=StateDiff()))


def test_an_attempt_outlives_its_judge_and_is_judged_when_the_run_goes_on(
    notes_environment: Environment, tmp_path: Path
) -> None:
    policy = Scripted(answering("9"))
    made = {"out": tmp_path / "run", "tasks": [notes_environment.tasks[0].slug]}
    with pytest.raises(ZeroDivisionError):
        rollout(notes_environment, policy, judge=_Judge(1), **made)
    assert [stored.verdict for stored in open_run(tmp_path / "run").values()] == [None]
    run = rollout(notes_environment, policy, judge=_Judge(0), **made)
    assert [stored.verdict.judge for stored in run.values()] == ["own"]
    assert len(policy.views) == 1

"""`awm-hub view` on stored rollouts, real ones and hostile ones."""

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from planting import ACTING, HOSTILE, check_page, planted

import awm_hub
from awm_hub.cli import view
from awm_hub.environment import Environment
from awm_hub.rollouts import Plan, Rollout
from awm_hub.rollouts.dataset import write_trajectories
from awm_hub.rollouts.plans import PlannedEnvironment
from awm_hub.rollouts.store import Run, begin_run
from awm_hub.trajectory import Trajectory
from awm_hub.viewing import Listed

FIRST = "notes__postpone_plumber__0"


def attempted(environment: Environment, *, note_id: int) -> Trajectory:
    with awm_hub.launch(environment, task="postpone_plumber", seed=3) as instance:
        instance.call_tool("get_note", {"note_id": 1}, thought="Look first.")
        instance.call_tool("edit_note", {"note_id": note_id, "fields": {"due_on": "2026-03-06"}})
        instance.submit("Done.")
        found = instance.trajectory()
    return dataclasses.replace(found, verdicts=(awm_hub.judge(found),), policy={"kind": "solution"})


@pytest.fixture(scope="session")
def stored(notes_environment: Environment, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run of two rollouts, one right and one wrong."""
    e = notes_environment
    planned = PlannedEnvironment(id=e.id, content_hash=e.content_hash, tasks=("postpone_plumber",))
    plan = Plan(environments=(planned,), rollouts_per_task=2, max_turns=20, judge="decision")
    run = begin_run(tmp_path_factory.mktemp("runs") / "first", plan, {"kind": "solution"})
    for number, note_id in enumerate((1, 2)):
        trajectory = attempted(e, note_id=note_id)
        run.keep(Rollout(id=f"notes__postpone_plumber__{number}", number=number, trajectory=trajectory))
    return run


@pytest.fixture
def on_run(cli: Any, stored: Run, notes_dataset: Path) -> Callable[..., Any]:
    """View the run, with the dataset of its environment."""
    return lambda *words: cli("view", str(stored.directory), "--dataset", str(notes_dataset), *words)


def test_a_run_is_listed_with_its_outcomes_first_and_its_figures(on_run: Any, stored: Run) -> None:
    code, out, err = on_run()
    assert (code, err) == (0, "")
    head, metrics, rollouts, hint = out.split("\n\n")
    assert head.splitlines() == [
        f"{stored.directory}  COMPLETED 1  AGENT_ERROR 1",
        "rollouts          2 stored of 2 planned",
        "tasks             1",
        "policies          solution",
    ]
    title, columns, task, overall = metrics.splitlines()
    assert (title, columns.split()[0]) == ("Metrics", "name")
    assert task.split()[:6] == ["notes/postpone_plumber", "2", "50.0", "%", "0.0", "%"]
    assert overall.split()[0] == "overall"
    assert rollouts.splitlines() == [
        "Rollouts",
        "   rollout                     outcome      reward  termination  steps  broken rules  tokens  seconds",
        "   notes__postpone_plumber__0  COMPLETED    1       answered     2",
        "   notes__postpone_plumber__1  AGENT_ERROR  0       answered     2",
    ]
    assert hint == f"--rollout {FIRST} shows one, --html OUT writes pages\n"


def test_one_rollout_is_shown_step_by_step(on_run: Any) -> None:
    code, out, _ = on_run("--rollout", FIRST)
    assert code == 0
    assert out.startswith(f"{FIRST}  COMPLETED\nenvironment       notes\n")
    assert "\n1. get_note  ok\n   thought Look first.\n" in out
    assert '\n   notes\n     ~ id=1  due_on: "2026-03-03" → "2026-03-06"' in out
    assert "\nVerdict by decision  COMPLETED\n   the database is right\n" in out


def test_json_has_the_frozen_shapes(on_run: Any, stored: Run) -> None:
    _, found, _ = on_run("--rollout", FIRST, "--json")
    assert set(found["data"]) == {f.name for f in dataclasses.fields(view.ViewReport)}
    assert set(found["data"]["rollouts"][0]) == {f.name for f in dataclasses.fields(Listed)}
    assert found["data"]["rollout"] == json.loads(json.dumps(stored[FIRST].to_dict()))
    assert [sorted(step) for step in found["data"]["changes"]["steps"]] == [[], ["notes"]]
    _, listed, _ = on_run("--json")
    assert [r["outcomes"] for r in listed["data"]["rollouts"]] == [["COMPLETED"], ["AGENT_ERROR"]]
    assert listed["data"]["rollout"] is None


def test_a_run_becomes_a_folder_of_pages_that_link_to_each_other(on_run: Any, tmp_path: Path) -> None:
    code, found, err = on_run("--html", str(tmp_path / "pages"), "--json")
    assert code == 0
    index, first, second = [check_page(Path(p).read_text(encoding="utf-8")) for p in found["data"]["pages"]]
    assert index.values("href") == [f"./rollouts/{FIRST}.html", "./rollouts/notes__postpone_plumber__1.html"]
    assert first.values("href") == ["./../index.html", "./notes__postpone_plumber__1.html"]
    assert second.values("href") == ["./../index.html", f"./{FIRST}.html"]
    assert [json.loads(line)["position"] for line in err.splitlines()] == [1, 2]


def test_pages_of_another_run_are_replaced_and_anything_else_is_refused(on_run: Any, tmp_path: Path) -> None:
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "index.html").write_text("<p>mine")
    code, _, err = on_run("--html", str(tmp_path / "pages"))
    assert (code, "holds something other than pages of a run" in err) == (2, True)
    assert on_run("--html", str(tmp_path / "new"))[0] == 0
    assert on_run("--html", str(tmp_path / "new"))[0] == 0


def test_a_damaged_file_hides_no_other(cli: Any, stored: Run, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(stored.directory, run)
    damaged = run / "rollouts" / f"{FIRST}.json"
    damaged.write_text("{")
    code, out, _ = cli("view", str(run))
    assert code == 1
    assert "AGENT_ERROR 1  unreadable 1\n" in out
    assert f"   {damaged}  " in out
    assert "repeat the rollout command to make it again" in out
    code, found, _ = cli("view", str(run), "--html", str(tmp_path / "pages"), "--json")
    assert (code, len(found["data"]["pages"]), found["data"]["planned"]) == (1, 2, 2)
    assert [u["path"] for u in found["data"]["unreadable"]] == [str(damaged)]
    code, _, err = cli("view", str(run), "--rollout", FIRST)
    assert code == 3
    assert err.startswith(f"awm-hub: {damaged}: {FIRST}.json is not valid JSON")
    assert "\n  next: " in err


def test_a_folder_of_saved_trajectories_is_listed(cli: Any, stored: Run) -> None:
    code, found, _ = cli("view", str(stored.directory / "rollouts"), "--json")
    assert (code, [r["id"] for r in found["data"]["rollouts"]]) == (0, list(stored))
    assert (found["data"]["planned"], found["data"]["metrics"]["overall"]["successes"]) == (None, 1)


def test_in_full_nothing_is_left_out(on_run: Any) -> None:
    brief, full = on_run("--rollout", FIRST)[1], on_run("--rollout", FIRST, "--full")[1]
    assert "not shown: Rules, Decision, Signals, Policy and options" in brief
    assert "not shown" not in full
    assert "\nPolicy and options\n" in full


def test_one_rollout_becomes_one_page(on_run: Any, tmp_path: Path) -> None:
    code, out, _ = on_run("--rollout", FIRST, "--html", str(tmp_path / "one.html"))
    assert (code, out) == (0, f"wrote {tmp_path / 'one.html'}\n")
    assert "2. edit_note" in check_page((tmp_path / "one.html").read_text(encoding="utf-8")).texts


def test_a_single_file_and_a_dataset_are_read_as_well(cli: Any, stored: Run, tmp_path: Path) -> None:
    code, out, _ = cli("view", str(stored.directory / "rollouts" / f"{FIRST}.json"))
    assert (code, out.partition("\n")[0]) == (0, f"{FIRST}  COMPLETED")
    write_trajectories(stored.values(), tmp_path / "dataset")
    _, found, _ = cli("view", str(tmp_path / "dataset"), "--json")
    assert [r["id"] for r in found["data"]["rollouts"]] == list(stored)


def test_without_its_environment_a_rollout_is_shown_with_the_rows_of_its_verdict(cli: Any, stored: Run) -> None:
    _, out, _ = cli("view", str(stored.directory), "--rollout", FIRST)
    assert "\nWhat changed in the database\n   notes\n     ~ id=1  due_on" in out
    assert "--dataset names where it is" in out


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--rollout", "notes__postpone_plumber__7"], 3, "no rollout named 'notes__postpone_plumber__7'. Did you mean"),
        (["--html", "pages.html"], 2, "the pages of a run take a folder"),
    ],
)
def test_wrong_requests_say_what_to_do(words: list[str], code: int, message: str, on_run: Any) -> None:
    found, _, err = on_run(*words)
    assert found == code
    assert err.startswith(f"awm-hub: {message}")
    assert "  next: " in err


def test_a_page_in_place_of_a_folder_is_refused(on_run: Any, tmp_path: Path) -> None:
    code, _, err = on_run("--rollout", FIRST, "--html", str(tmp_path))
    assert (code, "is a folder, and one rollout becomes a file" in err) == (2, True)


BROKEN: dict[str, Any] = {
    "usage": [1], "policy": 5, "violations": ["x"], "messages": ["x"], "steps": [{"tool": "x"}], "options": "x",
}  # fmt: skip


@pytest.mark.parametrize("field", sorted(BROKEN))
def test_a_file_that_breaks_the_form_is_bad_data_or_shown(field: str, cli: Any, stored: Run, tmp_path: Path) -> None:
    found = {**stored[FIRST].to_dict(), field: BROKEN[field]}
    (tmp_path / "x.json").write_text(json.dumps(found))
    code, out, err = cli("view", str(tmp_path / "x.json"))
    assert code in (0, 3)
    assert out if code == 0 else err.startswith("awm-hub: x")


@pytest.mark.parametrize("text", ["", "[]", "{}", "{", '{"a": NaN}', "[" * 10_000])
def test_what_is_no_trajectory_is_bad_data(text: str, cli: Any, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(text)
    assert cli("view", str(tmp_path / "x.json"))[0] == 3
    assert cli("view", str(tmp_path / "missing"))[0] == 3
    assert cli("view", str(tmp_path))[0] == 3


@pytest.fixture
def hostile_file(stored: Run, tmp_path: Path) -> str:
    """A rollout with hostile text in every field that holds any."""
    kept = ("outcome", "environment_hash", "database_delta", "type")
    found = planted(stored[FIRST].to_dict(), kept)
    found["violations"] = [{"rule": 3, "name": HOSTILE, "turn": 0, "message": HOSTILE}]
    found["messages"] = [{"role": HOSTILE, "content": HOSTILE, HOSTILE: HOSTILE}]
    found["usage"] = {HOSTILE: HOSTILE}
    path = tmp_path / "hostile.json"
    path.write_text(json.dumps(found), encoding="utf-8")
    return str(path)


def test_hostile_text_only_shows(hostile_file: str, cli: Any, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = cli("view", hostile_file)
    assert (code, err) == (0, "")
    assert ACTING.findall(out) == []
    assert "<script>" in out
    awm_hub.cli.main(["view", hostile_file, "--json"])
    assert ACTING.findall(capsys.readouterr().out) == []


def test_a_page_of_hostile_text_only_shows(hostile_file: str, cli: Any, tmp_path: Path) -> None:
    cli("view", hostile_file, "--html", str(tmp_path / "x.html"))
    assert "{{7*7}}" in check_page((tmp_path / "x.html").read_text(encoding="utf-8")).text

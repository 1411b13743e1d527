"""`awm-hub rollout`: from a command to a directory of judged attempts, and on from where it stopped."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from endpoint import calls, fails, playing, running_endpoint, says

from awm_hub.rollouts import open_run, read_trajectories

Cli = Callable[..., tuple[int, Any, str]]
EDIT = {"note_id": 1, "fields": {"due_on": "2026-03-06"}}
PLUMBER = ("rollout", "notes", "--task", "postpone_plumber")


@pytest.fixture
def notes(notes_dataset: Path) -> tuple[str, str]:
    return ("--dataset", str(notes_dataset))


def test_a_run_is_stored_judged_and_reported(cli: Cli, notes: tuple[str, str], tmp_path: Path) -> None:
    out = str(tmp_path / "run")
    code, found, err = cli("rollout", "notes", "--policy", "solution", "-n", "2", "-o", out, *notes, "--json")
    assert code == 0
    data = found["data"]
    assert set(data) == {
        "directory",
        "policy",
        "planned",
        "stored",
        "unscored",
        "metrics",
        "dataset",
        "plot",
    }
    assert (data["planned"], data["stored"], data["unscored"], data["policy"]) == (8, 8, [], {"kind": "solution"})
    assert data["metrics"]["overall"]["pass_hat"] == {"1": 1.0, "2": 1.0}
    assert [m["name"] for m in data["metrics"]["environments"]] == ["notes"]
    events = [json.loads(line) for line in err.splitlines()]
    assert events[0] == {"event": "begun", "total": 8, "stored": 0}
    assert sorted(e["position"] for e in events[1:]) == list(range(1, 9))
    assert {(e["event"], e["outcome"], e["reward"]) for e in events[1:]} == {("rollout", "COMPLETED", 1.0)}
    assert len(list(read_trajectories(data["dataset"]))) == 8
    assert open_run(out).plan.source == notes[1]


def test_the_same_command_goes_on_and_says_so(cli: Cli, notes: tuple[str, str], tmp_path: Path) -> None:
    words = ("rollout", "notes", "--policy", "noop", "-o", str(tmp_path / "run"), *notes)
    assert cli(*words)[0] == 0
    (tmp_path / "run" / "rollouts" / "notes__overdue__0.json").unlink()
    code, out, err = cli(*words)
    assert code == 0
    assert err.splitlines() == [
        "going on: 3 are stored, 1 attempt to make",
        "notes__overdue__0  AGENT_ERROR  (4 of 4, 0 of 4 succeeded)",
    ]
    assert out.splitlines()[5].split() == ["overall", "4", "0.0", "%", "0.00", "1.0", "0.0", "0.00", "0.00", "0", "0.0"]
    assert "outcomes: 4 AGENT_ERROR" in out


def test_another_command_does_not_go_on_with_it(cli: Cli, notes: tuple[str, str], tmp_path: Path) -> None:
    words = ("rollout", "notes", "-o", str(tmp_path / "run"), *notes)
    cli(*words, "--policy", "noop")
    code, out, err = cli(*words, "--policy", "random")
    assert (code, out) == (2, "")
    assert "another policy (kind: noop there, random now, calls: not set there, 8 now)" in err
    assert "name another folder with -o" in err


def test_all_environments_of_a_dataset_are_attempted(cli: Cli, notes: tuple[str, str], tmp_path: Path) -> None:
    out = str(tmp_path / "run")
    code, found, _ = cli("rollout", "all", "--policy", "noop", "--judge", "none", "-o", out, *notes, "--json")
    assert (code, found["data"]["stored"]) == (0, 4)
    assert found["data"]["metrics"]["overall"]["outcomes"] == {"not judged": 4}


def test_a_run_says_where_its_environments_are_for_those_who_judge_it_later(
    cli: Cli, notes: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(notes[1])
    monkeypatch.chdir(folder.parent)
    cli("rollout", "notes", "--policy", "noop", "-o", str(tmp_path / "own"), "--dataset", folder.name)
    assert open_run(tmp_path / "own").plan.source == str(folder)
    words = ("--policy", "noop", "--task", "owed_by_ingeborg", "-o", str(tmp_path / "bundled"))
    cli("rollout", "all", *words)
    assert open_run(tmp_path / "bundled").plan.source is None


def test_a_stored_attempt_is_replayed_to_the_same_database(cli: Cli, notes: tuple[str, str], tmp_path: Path) -> None:
    first = tmp_path / "first"
    cli(*PLUMBER, "--policy", "random", "-o", str(first), "--seed", "8", *notes)
    file = first / "rollouts" / "notes__postpone_plumber__0.json"
    again = tmp_path / "again"
    assert cli("rollout", "notes", "--policy", f"replay:{file}", "-o", str(again), *notes)[0] == 0
    ((one,), (two,)) = (read_trajectories(run) for run in (first, again))
    assert (one.database_delta, one.seed, len(one.steps)) == (two.database_delta, two.seed, 8)
    assert [s.result for s in one.steps] == [s.result for s in two.steps]


@pytest.mark.parametrize("protocol", ["native", "text"])
def test_a_model_behind_an_endpoint_completes_a_task(
    cli: Cli, notes: tuple[str, str], tmp_path: Path, protocol: str
) -> None:
    def tag(name: str, **arguments: Any) -> str:
        return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"

    native = playing(calls(("edit_note", EDIT)), says("Done."))
    text = playing(
        says(f"<think>first</think>{tag('list_tools')}"),
        says(f"<think>then</think>{tag('call_tool', tool_name='edit_note', arguments=EDIT)}"),
        says("<think>last</think>Done."),
    )
    run = str(tmp_path / "run")
    with running_endpoint(native if protocol == "native" else text) as fake:
        model = ("--model", "m", "--base-url", fake.base_url, "--protocol", protocol, "--temperature", "0.6")
        code, found, _ = cli(*PLUMBER, *model, "--price", "1,2", "-n", "2", "-o", run, *notes, "--json")
        sent = [seen.body for seen in fake.requests]
    assert code == 0
    turns = 2 if protocol == "native" else 3
    overall = found["data"]["metrics"]["overall"]
    assert (overall["successes"], overall["mean_turns"], overall["format_errors"]) == (2, turns, {})
    assert overall["ledger"]["requests"] == 2 * turns
    assert overall["ledger"]["prompt_tokens"] == 14 * turns
    assert overall["ledger"]["cost_usd"] == pytest.approx(2 * turns * 13e-6)
    assert {body["temperature"] for body in sent} == {0.6}
    assert overall["ledger"]["judge_cost_usd"] is None
    assert len({body["seed"] for body in sent}) == 2 * turns
    assert found["data"]["policy"]["protocol"] == protocol
    for stored in open_run(run).values():
        assert stored.trajectory.messages[-1]["content"].endswith("Done.")


def test_a_long_result_is_shortened_for_the_model_and_whole_in_the_record(
    cli: Cli, notes: tuple[str, str], tmp_path: Path
) -> None:
    script = playing(calls(("search_notes", {})), says("Done."))
    run = tmp_path / "run"
    with running_endpoint(script) as fake:
        model = ("--model", "m", "--base-url", fake.base_url, "--result-chars", "40")
        cli(*PLUMBER, *model, "-o", str(run), *notes)
        told = fake.requests[1].body["messages"][-1]["content"]
    (trajectory,) = read_trajectories(run)
    size = len(trajectory.steps[0].result.text())
    assert size > 500
    assert len(told.splitlines()[0]) == 40
    assert str(size) in told.splitlines()[-1]
    assert told in [message["content"] for message in trajectory.messages]
    assert trajectory.policy["result_chars"] == 40


def test_strictness_is_a_choice(cli: Cli, notes: tuple[str, str], tmp_path: Path) -> None:
    script = playing(calls(("edit_note", {"note_id": "one"})), calls(("edit_note", EDIT)), says("Done."))
    with running_endpoint(script) as fake:
        words = (*PLUMBER, "--model", "m", "--base-url", fake.base_url, *notes, "--json")
        strict = cli(*words, "--strict", "-o", str(tmp_path / "strict"))[1]["data"]["metrics"]["overall"]
        lenient = cli(*words, "--lenient", "-o", str(tmp_path / "lenient"))[1]["data"]["metrics"]["overall"]
    assert (strict["terminations"], strict["mean_reward"]) == ({"format_error": 1}, -1.0)
    assert (lenient["terminations"], lenient["mean_reward"]) == ({"answered": 1}, 1.0)
    assert strict["format_errors"] == lenient["format_errors"] == {"invalid_arguments": 1}


def test_an_endpoint_that_answers_nobody_is_an_error_and_the_command_goes_on_later(
    cli: Cli, notes: tuple[str, str], tmp_path: Path
) -> None:
    script, is_up = playing(calls(("edit_note", EDIT)), says("Done.")), threading.Event()
    with running_endpoint(lambda body: script(body) if is_up.is_set() else fails(401)) as fake:
        words = (*PLUMBER, "--model", "m", "--base-url", fake.base_url, "-o", str(tmp_path / "run"), *notes, "--json")
        code, found, _ = cli(*words)
        assert (code, found["error"]["type"]) == (5, "RemoteError")
        assert "the endpoint failed for every attempt" in found["error"]["message"]
        assert found["error"]["next"] == "set AWM_HUB_API_KEY to a key of this server"
        is_up.set()
        code, found, _ = cli(*words)
        assert (code, found["data"]["metrics"]["overall"]["successes"]) == (0, 1)


def test_a_missing_token_is_told_before_anything_is_written(
    cli: Cli, notes: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "token"))
    code, found, _ = cli(*PLUMBER, "--model", "org/m", "-o", str(tmp_path / "run"), *notes, "--json")
    assert (code, found["error"]["type"]) == (2, "UsageError")
    assert "HF_TOKEN" in found["error"]["next"]
    assert not (tmp_path / "run").exists()


def test_a_damaged_file_is_kept_and_its_attempt_made_again(cli: Cli, notes: tuple[str, str], tmp_path: Path) -> None:
    words = (*PLUMBER, "--policy", "noop", "-o", str(tmp_path / "run"), *notes)
    cli(*words)
    file = tmp_path / "run" / "rollouts" / "notes__postpone_plumber__0.json"
    file.write_text("{")
    code, out, err = cli(*words)
    assert code == 0
    assert f"was stored in a file that is damaged: kept as {file}.broken, and made again" in err
    assert " USD" not in out


def test_attempts_without_a_verdict_leave_with_1(cli: Cli, notes: tuple[str, str], tmp_path: Path) -> None:
    script = playing(says("Done."))
    with running_endpoint(lambda body: fails(401) if "plumber" in str(body) else script(body)) as fake:
        model = ("--model", "m", "--base-url", fake.base_url)
        code, found, _ = cli("rollout", "notes", *model, "-o", str(tmp_path / "run"), *notes, "--json")
    assert (code, found["ok"]) == (1, False)
    assert found["data"]["unscored"] == ["notes__postpone_plumber__0"]


def test_a_key_is_nowhere_in_what_a_run_leaves(
    cli: Cli, notes: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWM_HUB_API_KEY", "sk-planted-key")
    monkeypatch.setenv("HF_TOKEN", "hf_planted_key")
    script = playing(calls(("edit_note", EDIT)), says("Done."))
    with running_endpoint(script) as fake:
        model = ("--model", "m", "--base-url", fake.base_url)
        _, out, err = cli(*PLUMBER, *model, "-o", str(tmp_path / "run"), *notes)
        assert fake.requests[0].headers["authorization"] == "Bearer sk-planted-key"
    with running_endpoint(lambda body: fails(401, "bad key sk-planted-key")) as fake:
        model = ("--model", "m", "--base-url", fake.base_url)
        _, out2, err2 = cli(*PLUMBER, *model, "-o", str(tmp_path / "failed"), *notes)
    written = [p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()]
    assert len(written) > 6
    for text in (*written, *(t.encode() for t in (out, err, out2, err2))):
        assert b"planted" not in text


@pytest.mark.parametrize(
    ("words", "code", "says_"),
    [
        ((), 2, "rollout needs a policy"),
        (("--policy", "wise"), 2, "there is no policy 'wise'"),
        (("--policy", "chat"), 2, "needs a model"),
        (("--policy", "noop", "--model", "m"), 2, "the policy noop asks no model"),
        (("--policy", "noop", "--task", "overdu"), 3, "Did you mean 'overdue'"),
        (("--policy", "replay:/nowhere.json"), 3, "cannot be read"),
        (("--policy", "noop", "-n", "0"), 2, "rollouts_per_task is 0"),
        (("--policy", "noop", "--concurrency", "0"), 2, "concurrency is 0"),
        (("--policy", "noop", "--max-turns", "0"), 2, "max_turns is 0"),
        (("--model", "m", "--price", "1"), 2, "is not two numbers"),
        (("--model", "m", "--temperature", "-1"), 2, "temperature is -1.0"),
        (("--model", "m", "--provider", "nobody"), 2, "no provider 'nobody'"),
        (("--policy", "noop", "--strict"), 2, "asks no model, and --strict or --lenient is for one"),
        (("--policy", "noop", "--keep-thoughts"), 2, "asks no model, and --keep-thoughts is for one"),
        (("--policy", "noop", "--temperature", "1"), 2, "asks no model, and --temperature is for one"),
        (("--policy", "noop", "--plot", "plot.png"), 2, "does not end with .svg"),
        (("--model", "m", "--strict", "--lenient"), 2, "not allowed with"),
    ],
)
def test_a_wrong_command_is_refused_before_anything_is_written(
    cli: Cli, notes: tuple[str, str], tmp_path: Path, words: tuple[str, ...], code: int, says_: str
) -> None:
    found = cli("rollout", "notes", "-o", str(tmp_path / "run"), *notes, *words)
    assert (found[0], found[1]) == (code, "")
    assert says_ in found[2]
    assert not (tmp_path / "run").exists()


def test_an_unknown_environment_is_refused(cli: Cli, notes: tuple[str, str], tmp_path: Path) -> None:
    code, _, err = cli("rollout", "note", "--policy", "noop", "-o", str(tmp_path / "run"), *notes)
    assert code == 3
    assert "Did you mean 'notes'" in err


def test_the_plot_is_an_svg(cli: Cli, notes: tuple[str, str], tmp_path: Path) -> None:
    plot = tmp_path / "plot.svg"
    words = ("rollout", "notes", "--policy", "solution", "-o", str(tmp_path / "run"), "--plot", str(plot), *notes)
    assert cli(*words)[0] == 0
    assert plot.read_text().count('class="bar"') == 4


def test_hostile_text_reaches_no_terminal(cli: Cli, hostile: str, tmp_path: Path) -> None:
    words = ("rollout", "all", "--policy", "random", "--dataset", hostile, "-o", str(tmp_path / "run"))
    code, out, err = cli(*words)
    assert code == 0
    assert "\x1b" not in out + err
    assert "\u202e" not in out + err


def test_ctrl_c_keeps_what_is_done_and_says_how_to_go_on(notes: tuple[str, str], tmp_path: Path) -> None:
    words = ["rollout", "notes", "--policy", "random", "-n", "200", "-o", str(tmp_path / "run"), *notes, "--json"]
    command = [sys.executable, "-m", "awm_hub", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ}) as process:
        assert process.stderr is not None
        for _ in range(5):
            process.stderr.readline()
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=30)
    assert process.returncode == 130
    found = json.loads(out)
    assert found["error"]["type"] == "Interrupted"
    assert found["error"]["next"] == "repeat the command to go on"
    assert 4 <= len(open_run(tmp_path / "run")) < 800

"""`judge` and `judge-bench`: stored rollouts judged again, and judges measured."""

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from endpoint import fails, running_endpoint, says

import awm_hub
from awm_hub.cli.judge import JudgeReport
from awm_hub.policy import policy_from
from awm_hub.rollouts import open_run, rollout
from awm_hub.rollouts.dataset import read_trajectories
from awm_hub.trajectory import Outcome


def opinion(outcome: str) -> str:
    confidences = {str(o): 0.5 for o in Outcome}
    return json.dumps({"reasoning": f"I say {outcome}.", "outcome": outcome, "confidences": confidences})


@pytest.fixture(scope="session")
def made_run(tmp_path_factory: pytest.TempPathFactory, notes_dataset: Path) -> Path:
    """A run of the reference solution on every task of `notes`, judged by decision."""
    out = tmp_path_factory.mktemp("run") / "solution"
    environments = awm_hub.load(notes_dataset)
    rollout(environments, policy_from("solution", environments=environments), out=out)
    return out


@pytest.fixture
def run_dir(made_run: Path, tmp_path: Path) -> Path:
    """A copy of the run."""
    return Path(shutil.copytree(made_run, tmp_path / "run"))


def test_a_run_is_judged_again_and_keeps_its_verdicts(cli: Any, run_dir: Path, notes_dataset: Path) -> None:
    code, found, _ = cli("judge", str(run_dir), "--judge", "reference", "--dataset", str(notes_dataset), "--json")
    assert code == 0
    assert found["data"].keys() == {f.name for f in dataclasses.fields(JudgeReport)}
    assert (found["data"]["judged"], found["data"]["outcomes"]) == (4, {"COMPLETED": 4})
    assert found["data"]["agreement"] == {"decision": {"equal": 4, "rollouts": 4}}
    for stored in open_run(run_dir).values():
        assert [v.judge for v in stored.trajectory.verdicts] == ["decision", "reference"]
    in_dataset = list(read_trajectories(run_dir / "dataset"))
    assert [v.judge for v in in_dataset[0].verdicts] == ["decision", "reference"]


def test_the_same_verdict_is_not_added_twice(cli: Any, run_dir: Path, notes_dataset: Path) -> None:
    for _ in range(2):
        assert cli("judge", str(run_dir), "--judge", "reference", "--dataset", str(notes_dataset))[0] == 0
    assert {len(stored.trajectory.verdicts) for stored in open_run(run_dir).values()} == {2}


def test_a_model_judges_a_run_once_and_the_table_shows_where_it_disagrees(
    cli: Any, run_dir: Path, notes_dataset: Path
) -> None:
    with running_endpoint(
        lambda body: says(opinion("AGENT_ERROR" if "The plumber cannot" in str(body) else "COMPLETED"))
    ) as fake:
        words = ("judge", str(run_dir), "--judge", "llm", "--model", "m", "--base-url", fake.base_url)
        code, out, err = cli(*words, "--votes", "2", "--dataset", str(notes_dataset))
        assert (code, len(fake.requests)) == (0, 8)
        assert cli(*words, "--votes", "2", "--dataset", str(notes_dataset))[0] == 0
        assert len(fake.requests) == 8  # what the model said is kept beside the run
    lines = out.splitlines()
    assert lines[0] == "llm m judged 4 rollouts: 1 AGENT_ERROR, 3 COMPLETED"
    assert lines[1] == "as decision: 3 of 4"
    assert lines[3].split() == ["rollout", "decision", "llm", "m", "why"]
    assert lines[4].split()[:3] == ["notes__postpone_plumber__0", "COMPLETED", "AGENT_ERROR"]
    assert lines[4].endswith("I say AGENT_ERROR.")
    assert lines[5] == "used: 56 prompt and 24 completion tokens in 8 requests"
    assert len(err.splitlines()) == 4
    assert open_run(run_dir)["notes__postpone_plumber__0"].reward.total == 0.0


def test_one_trajectory_is_judged_in_its_file(cli: Any, run_dir: Path, tmp_path: Path, notes_dataset: Path) -> None:
    path = tmp_path / "one.json"
    shutil.copy(run_dir / "rollouts" / "notes__overdue__0.json", path)
    code, out, _ = cli("judge", str(path), "--judge", "reference", "--dataset", str(notes_dataset))
    assert (code, out.splitlines()[0]) == (0, "reference judged 1 rollout: 1 COMPLETED")
    [trajectory] = read_trajectories(path)
    assert [v.judge for v in trajectory.verdicts] == ["decision", "reference"]


def test_parquet_is_read_only_and_judged_into_a_new_dataset(
    cli: Any, run_dir: Path, tmp_path: Path, notes_dataset: Path
) -> None:
    words = ("judge", str(run_dir / "dataset"), "--judge", "reference", "--dataset", str(notes_dataset))
    code, out, _ = cli(*words)
    assert (code, out.splitlines()[-1]) == (0, "the verdicts are written nowhere: name a new dataset with -o")
    assert cli(*words, "-o", str(tmp_path / "judged"))[0] == 0
    assert {t.verdicts[-1].judge for t in read_trajectories(run_dir / "dataset")} == {"decision"}
    assert {t.verdicts[-1].judge for t in read_trajectories(tmp_path / "judged")} == {"reference"}


def test_rollouts_that_cannot_be_judged_are_named_and_exit_with_1(cli: Any, run_dir: Path, notes_dataset: Path) -> None:
    path = run_dir / "rollouts" / "notes__overdue__0.json"
    path.write_text(path.read_text("utf-8").replace('"task_id":"notes/overdue"', '"task_id":"notes/gone"'), "utf-8")
    code, found, _ = cli("judge", str(run_dir), "--dataset", str(notes_dataset), "--json")
    assert code == 1
    assert [f["id"] for f in found["data"]["unjudged"]] == ["notes__overdue__0"]
    assert "no task named 'notes/gone'" in found["data"]["unjudged"][0]["message"]
    assert found["data"]["judged"] == 3


def test_an_environment_that_is_not_at_hand_is_asked_for(cli: Any, run_dir: Path, tmp_path: Path) -> None:
    path = tmp_path / "one.json"
    shutil.copy(run_dir / "rollouts" / "notes__overdue__0.json", path)
    code, _, err = cli("judge", str(path))
    assert code == 4
    assert "its environment 'notes' is not at hand" in err
    assert "--dataset names where it is" in err


def test_a_rollout_that_the_endpoint_cut_short_is_left_out(cli: Any, run_dir: Path, notes_dataset: Path) -> None:
    run = open_run(run_dir)
    first = next(iter(run.values()))
    run.keep(dataclasses.replace(first, trajectory=dataclasses.replace(first.trajectory, termination="endpoint_error")))
    _, found, _ = cli("judge", str(run_dir), "--dataset", str(notes_dataset), "--json")
    assert (found["data"]["skipped"], found["data"]["judged"]) == ([first.id], 3)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("--judge", "llm"), 2, "no model to ask"),
        (("--judge", "reference", "--model", "m"), 2, "asks no model"),
        (("--concurrency", "0"), 2, "--concurrency is 0"),
        (("--judge", "llm", "--model", "m", "--base-url", "http://127.0.0.1:1/v1", "--price", "much"), 2, "not two"),
    ],
)
def test_options_that_make_no_sense_exit_with_2(cli: Any, run_dir: Path, words: tuple, code: int, message: str) -> None:
    found, _, err = cli("judge", str(run_dir), *words)
    assert found == code
    assert message in err


def test_a_folder_without_rollouts_exits_with_3(cli: Any, tmp_path: Path) -> None:
    assert cli("judge", str(tmp_path))[0] == 3
    assert cli("judge", str(tmp_path / "absent.json"))[0] == 3


def test_an_endpoint_that_refuses_every_question_is_an_error_of_the_endpoint(
    cli: Any, run_dir: Path, notes_dataset: Path
) -> None:
    with running_endpoint(lambda body: fails(401)) as fake:
        words = ("--judge", "llm", "--model", "m", "--base-url", fake.base_url, "--dataset", str(notes_dataset))
        code, found, _ = cli("judge", str(run_dir), *words, "--json")
    assert (code, found["error"]["type"]) == (5, "RemoteError")
    assert "AWM_HUB_API_KEY" in found["error"]["next"]


def test_a_model_that_gives_no_verdict_in_form_is_an_error_of_the_judge(
    cli: Any, run_dir: Path, notes_dataset: Path
) -> None:
    with running_endpoint(lambda body: says("Splendid!")) as fake:
        words = ("--judge", "llm", "--model", "m", "--base-url", fake.base_url, "--dataset", str(notes_dataset))
        code, _, err = cli("judge", str(run_dir), *words)
    assert (code, "no verdict in the form asked for" in err) == (4, True)
    assert {len(stored.trajectory.verdicts) for stored in open_run(run_dir).values()} == {1}


def test_judge_bench_measures_the_decision(cli: Any, notes_dataset: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.json"
    words = ("--task", "postpone_plumber", "--per-kind", "1", "--repeats", "2", "-o", str(out))
    code, text, _ = cli("judge-bench", "notes", *words, "--dataset", str(notes_dataset))
    assert code == 0
    lines = [line.split() for line in text.splitlines()]
    assert text.splitlines()[:2] == ["rejected 4 of 4 wrong attempts", "passed 2 of 2 right attempts"]
    assert ["accuracy", "100.0", "%", "6", "of", "6"] in lines
    assert ["fleiss", "kappa", "1.000"] in lines
    written = json.loads(out.read_text())
    assert written["by_kind"]["mutant"] == {"right": 1, "total": 1, "share": 1.0}
    assert written["judge"] == {"kind": "decision"}


def test_judge_bench_finds_a_model_that_believes_what_it_reads(cli: Any, notes_dataset: Path) -> None:
    with running_endpoint(lambda body: says(opinion("COMPLETED"))) as fake:
        words = (
            "--judge",
            "llm",
            "--model",
            "m",
            "--base-url",
            fake.base_url,
            "--blind",
            "--kinds",
            "mutant,injection",
        )
        code, found, _ = cli(
            "judge-bench", "notes", "--task", "postpone_plumber", *words, "--dataset", str(notes_dataset), "--json"
        )
    assert code == 0
    data = found["data"]
    assert data["false_pass"]["count"] > 5
    assert data["mistakes"][0]["found"] == "COMPLETED"
    assert data["judge"]["uses_decision"] is False


def test_judge_bench_says_what_it_cannot_make(cli: Any, notes_dataset: Path) -> None:
    code, _, err = cli("judge-bench", "--kinds", "monster", "--dataset", str(notes_dataset))
    assert (code, "no kind of attempt named 'monster'" in err) == (2, True)
    code, _, err = cli("judge-bench", "--kinds", "none", "--dataset", str(notes_dataset))
    assert (code, "no attempts to judge" in err) == (3, True)
    assert cli("judge-bench", "nowhere", "--dataset", str(notes_dataset))[0] == 3
    assert cli("judge-bench", "notes", "--task", "nothing", "--dataset", str(notes_dataset))[0] == 3


def test_a_failed_environment_in_a_run_is_told_from_the_models_opinions(
    cli: Any, run_dir: Path, notes_dataset: Path
) -> None:
    run = open_run(run_dir)
    name, stored = next(iter(run.items()))
    failed = dataclasses.replace(stored.trajectory, termination="environment_fault")
    run.keep(dataclasses.replace(stored, trajectory=failed))
    with running_endpoint(lambda _body: says(opinion("COMPLETED"))) as fake:
        model = ("--judge", "llm", "--model", "m", "--base-url", fake.base_url)
        code, found, _ = cli("judge", str(run_dir), *model, "--dataset", str(notes_dataset), "--json")
    assert (code, found["data"]["outcomes"]) == (0, {"COMPLETED": 3, "ENVIRONMENT_ERROR": 1})
    assert run[name].trajectory.verdicts[-1].usage["judge"]["model"] == "m"

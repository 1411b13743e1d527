"""`awm-hub audit` as people and CI use it."""

import json
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="module")
def run_file(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("run") / "run.jsonl")


def test_a_report_in_words_says_what_was_found_and_what_to_do(cli: Any, notes_dataset: Path, run_file: str) -> None:
    code, out, err = cli("audit", str(notes_dataset), "--run", run_file)
    assert code == 0
    assert "notes  0 errors" in err
    lines = out.splitlines()
    assert lines[0].split() == ["id", "tasks", "errors", "warnings", "equivalents", "mutants", "held", "out", "seconds"]
    assert "  warning mutant_survives one_bulb_note: step 2 (finish_note): note_id, one more: complete" in lines
    assert "    next: let the decision check it" in lines
    assert "equivalents accepted: 17 of 17 (100.0%)" in lines


def test_the_exit_code_follows_the_severity_that_was_asked_for(
    cli: Any, notes_dataset: Path, run_file: str, tmp_path: Path
) -> None:
    report = tmp_path / "report.json"
    words = ("audit", str(notes_dataset), "--run", run_file, "-o", str(report), "--json")
    code, found, err = cli(*words, "--fail-on", "warning")
    assert (code, found["ok"]) == (1, False)
    assert found["data"]["totals"]["by_rule"]["mutant_survives"] == 1
    assert json.loads(err.splitlines()[0])["event"] == "audited"
    assert json.loads(report.read_text())["totals"] == found["data"]["totals"]
    assert cli(*words, "--fail-on", "never")[0] == 0
    assert cli(*words)[0] == 0


def test_hostile_text_is_shown_by_its_escapes(cli: Any, hostile: str, tmp_path: Path) -> None:
    code, out, err = cli("audit", hostile, "--run", str(tmp_path / "run.jsonl"))
    assert code == 1
    assert "parcel_desk_1" in out
    assert not {"\x1b", "\u202e", "\x07"} & set(out + err)


def test_an_unknown_environment_is_answered_with_close_names(cli: Any, notes_dataset: Path, run_file: str) -> None:
    code, found, _ = cli("audit", str(notes_dataset), "--env", "note", "--run", run_file, "--json")
    assert (code, found["error"]["type"]) == (3, "UnknownNameError")
    assert "Did you mean 'notes'" in found["error"]["message"]


def test_places_that_cannot_be_written_to_are_refused_before_the_work(
    cli: Any, notes_dataset: Path, tmp_path: Path
) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("my notes")
    for place, told in ((str(notes), "is no run file of an audit"), (str(tmp_path), "is no run file of an audit")):
        code, _, error = cli("audit", str(notes_dataset), "--run", place)
        assert (code, told in error) == (2, True)
    assert notes.read_text() == "my notes"
    code, _, error = cli("audit", str(notes_dataset), "-o", str(tmp_path))
    assert (code, "is a folder" in error) == (2, True)
    code, _, error = cli("audit", "awm/nothing", "--write-quality")
    assert (code, "cannot be written to" in error) == (2, True)

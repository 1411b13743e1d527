"""`awm-hub play`: sessions typed into a pipe."""

import dataclasses
import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from planting import ACTING

import awm_hub
from awm_hub.cli import play
from awm_hub.trajectory import Trajectory


@pytest.fixture
def session(cli: Any, notes_dataset: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Play the given lines: `(exit code, what each line printed, stderr)`, or with `--json` the object."""

    def run(*lines: str, words: tuple[str, ...] = ()) -> tuple[int, Any, str]:
        monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
        code, out, err = cli("play", "notes", "--dataset", str(notes_dataset), *words)
        if "--json" in words:
            return code, out, err
        _, *parts = out.split("\n> ")
        return code, [part.partition("\n")[2].strip() for part in parts], err

    return run


EDIT = 'edit_note {"note_id": 1, "fields": {"due_on": "2026-03-06"}}'


def test_a_task_is_picked_worked_on_and_judged(session: Any) -> None:
    code, shown, err = session("task postpone_plumber", "search_notes query=plumber", EDIT, "submit done")
    assert (code, err) == (0, "")
    assert shown[0].startswith("postpone_plumber\nThe plumber cannot come before Friday.")
    assert shown[1].startswith("1. search_notes  ok\n   result\n")
    assert shown[2].startswith("2. edit_note  ok\n")
    assert '   notes\n     ~ id=1  due_on: "2026-03-03" → "2026-03-06"' in shown[2]
    assert shown[3].startswith("Verdict by decision  COMPLETED\n   the database is right")


def test_a_wrong_ending_leaves_with_one(session: Any) -> None:
    code, shown, _ = session("submit done", words=("--task", "postpone_plumber"))
    assert code == 1
    assert shown[0].startswith("Verdict by decision  AGENT_ERROR\n")


def test_leaving_without_an_answer_is_fine(session: Any) -> None:
    assert session("get_note note_id=1", "quit", "this is not read", words=("--task", "overdue"))[:2] == (
        0,
        [session("get_note note_id=1")[1][0], ""],
    )


def test_undo_takes_back_the_last_call_with_its_rows_and_its_clock(session: Any) -> None:
    _, shown, _ = session(
        "finish_note note_id=1", "undo", "diff", "finish_note note_id=1", "undo", "undo", words=("--task", "overdue")
    )
    first, back, diff, again, _, nothing = shown
    assert (back, diff) == ("back after 0 calls", "no row changed")
    assert again == first
    assert nothing == "there is nothing to undo"


def test_undo_takes_an_answer_back(session: Any) -> None:
    code, shown, _ = session("submit 2", "get_note note_id=1", "undo", "submit 1", words=("--task", "overdue"))
    assert code == 0
    assert shown[1] == "the episode has ended\n  next: `undo` takes the answer back, `reset` begins again"
    assert shown[2] == "back after 0 calls"
    assert shown[3].startswith("Verdict by decision  COMPLETED\n")


def test_an_answer_is_submitted_once(session: Any) -> None:
    code, shown, _ = session("submit 1", "submit 2", words=("--task", "overdue"))
    assert code == 0
    assert shown[1] == "the episode has ended\n  next: `undo` takes the answer back, `reset` begins again"


def test_it_begins_with_what_an_agent_is_told(session: Any, cli: Any, notes_dataset: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    _, out, _ = cli("play", "notes", "--dataset", str(notes_dataset), "--task", "2")
    briefing = awm_hub.load(notes_dataset)["notes"].briefing
    assert out.startswith(f"notes\n{briefing}\n\npostpone_plumber\n")
    assert "(UTC)." in briefing
    assert session("briefing")[1] == [briefing]


def test_a_long_result_is_cut_and_shown_whole_on_request(session: Any) -> None:
    call = f"edit_note {json.dumps({'note_id': 1, 'fields': {'body': chr(10).join(map(str, range(3000)))}})}"
    _, (_, cut, whole, last, none, early), _ = session(
        "get_note note_id=2", call, "result 2", "result", "result 3", "result x"
    )
    assert "more characters (`result 2` shows all)" in cut
    assert "more characters" not in whole
    assert whole == last
    assert "2999" in whole
    assert none == "there is no call 3\n  next: `result` and a number from 1 to 2"
    assert early.startswith("there is no call x")


def test_reset_and_another_task_begin_anew(session: Any) -> None:
    _, shown, _ = session(EDIT, "reset", "diff", EDIT, "task 1", "diff", "undo", words=("--task", "postpone_plumber"))
    assert shown[1:3] == ["back at the beginning", "no row changed"]
    assert shown[4].startswith("overdue\nHow many of my open notes")
    assert shown[5:] == ["no row changed", "there is nothing to undo"]


def test_without_a_task_tools_can_be_called_and_a_number_picks_one(session: Any) -> None:
    code, shown, _ = session("get_note note_id=1", "submit x", "reset", "2")
    assert code == 0
    assert shown[0].startswith("1. get_note  ok")
    assert shown[1] == "submitted; without a task there is nothing to judge. `task` chooses one"
    assert shown[3].startswith("postpone_plumber\n")


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        (
            "get_nte note_id=1",
            "no tool and no command named 'get_nte'\n  next: did you mean 'get_note' or 'edit_note'?",
        ),
        ("xyzzy", "no tool and no command named 'xyzzy'\n  next: `help` lists what there is"),
        ("get_note 1", "'1' is not key=value\n  next: parameters: note_id"),
        ("get_note note_id=1 note_id=2", "'note_id' is given twice\n  next: pass a list as JSON: key='[1, 2]'"),
        ("get_note {note_id: 1}", "the object is not valid JSON"),
        ("search_notes query=O'Brien", "the quotes do not match: No closing quotation\n  next: quote the whole value"),
        ("task no_such", "no task named 'no_such'. Known: "),
        ("help no_such", "no tool named 'no_such'. Known: "),
        ("call", "call needs the name of a tool\n  next: `tools` lists them"),
        ("save", "save needs the name of a file"),
        ("save /nowhere/x.json", "/nowhere/x.json cannot be written: No such file or directory"),
        ("undo", "there is nothing to undo"),
        ("result", "no call was made yet\n  next: `tools` lists the tools"),
        ("# a remark", ""),
        ("", ""),
    ],
)
def test_what_cannot_be_done_is_answered_with_what_can(line: str, answer: str, session: Any) -> None:
    code, shown, err = session(line, "help")
    assert (code, err) == (0, "")
    assert shown[0].startswith(answer)
    assert "calls a tool" in shown[1]


def test_an_invalid_call_points_at_the_parameters(session: Any) -> None:
    _, (shown,), _ = session("get_note note_id=one")
    assert shown.startswith("1. get_note  invalid_call  invalid_arguments\n   error ")
    assert shown.endswith("`help get_note` shows its parameters")


def test_lists_name_what_there_is(session: Any) -> None:
    _, (tools, some, none, tasks), _ = session("tools", "tools tags", "tools xyzzy", "tasks")
    assert [line.split()[0] for line in tools.splitlines()] == [
        "list_notebooks", "search_notes", "get_note", "create_note", "edit_note", "finish_note",
    ]  # fmt: skip
    assert some == "get_note  read  Get one note with its tags."
    assert none == "no tool speaks of 'xyzzy'"
    assert [line.split()[1] for line in tasks.splitlines()] == [
        "overdue", "postpone_plumber", "jars_for_jam", "one_bulb_note",
    ]  # fmt: skip


def test_an_episode_is_saved_as_a_trajectory_that_view_reads(session: Any, cli: Any, tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    _, shown, _ = session(EDIT, "submit done", f"save {file}", f"save {file}", words=("--task", "postpone_plumber"))
    assert shown[2] == f"wrote {file}"
    assert shown[3].startswith(f"{file} cannot be written: File exists")
    saved = Trajectory.from_dict(json.loads(file.read_text(encoding="utf-8")))
    assert (saved.policy, saved.verdicts[0].outcome, len(saved.steps)) == ({"kind": "person"}, "COMPLETED", 1)
    code, out, _ = cli("view", str(file))
    assert (code, out.partition("\n")[0]) == (0, "mine  COMPLETED")


def test_json_is_one_object_of_the_frozen_shape(session: Any) -> None:
    code, found, err = session(EDIT, "submit done", words=("--task", "postpone_plumber", "--json"))
    assert (code, err, found["ok"]) == (0, "", True)
    assert set(found["data"]) == {f.name for f in dataclasses.fields(play.PlayReport)}
    assert found["data"]["verdict"]["outcome"] == "COMPLETED"
    assert [step["tool"] for step in found["data"]["trajectory"]["steps"]] == ["edit_note"]


def test_an_unknown_environment_or_task_ends_it_before_it_begins(session: Any, cli: Any) -> None:
    assert session(words=("--task", "no_such"))[0] == session(words=("--task", "99"))[0] == 3
    assert cli("play", "no_such")[0] == 3


def test_hostile_text_only_shows(cli: Any, hostile: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = (
        "tools", "tasks", "help register", "task label_it", "read", "fail", "register code=a label=\x1b[2J",
        "tools \x1b[2J", "\x1b[2J", "submit \x1b[2J",
    )  # fmt: skip
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(lines)))
    code, out, err = cli("play", "parcel_desk_1", "--dataset", hostile)
    assert code == 1
    assert "4. register" not in out
    assert "3. register  ok" in out
    assert ACTING.findall(out + err) == []


def test_bytes_that_are_no_text_are_refused(notes_dataset: Path) -> None:
    command = [sys.executable, "-m", "awm_hub", "play", "notes", "--dataset", str(notes_dataset)]
    done = subprocess.run(command, input=b"search_notes query=\xff\n", capture_output=True, timeout=60)
    assert done.returncode == 0
    assert b"the value of query is not UTF-8 text" in done.stdout

"""Every verb on the real thing: the `notes` dataset."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from awm_hub.cli import reports
from awm_hub.cli.terminal import own_name
from awm_hub.environment import Environment
from awm_hub.packing import write_dataset


@pytest.fixture
def on_notes(cli: Any, notes_dataset: Path) -> Callable[..., Any]:
    """Run a command on the `notes` dataset."""
    return lambda *words: cli(*words, "--dataset", str(notes_dataset))


@pytest.fixture(scope="session")
def three(tmp_path_factory: pytest.TempPathFactory, renamed: Callable[..., Environment]) -> str:
    """A dataset of three environments: `desk_1` (train, library), `desk_2` (test), `desk_5` (train)."""
    out = tmp_path_factory.mktemp("three") / "out"
    write_dataset([renamed("desk_1", categories=("library",)), renamed("desk_2"), renamed("desk_5")], out)
    return str(out)


def fields(record: type) -> set[str]:
    """Names of a record's fields."""
    return {f.name for f in dataclasses.fields(record)}


def test_list_shows_a_table_of_what_the_index_holds(on_notes: Any) -> None:
    code, out, err = on_notes("list")
    assert (code, err) == (0, "")
    assert out.splitlines()[:2] == [
        "id     split  tools  tasks  tables  title",
        "notes  train  6      4      3       Notes",
    ]


def test_list_as_json_has_the_frozen_shape(on_notes: Any, notes_environment: Environment) -> None:
    code, found, _ = on_notes("list", "--json")
    assert (code, found["ok"], found["command"]) == (0, True, "list")
    assert set(found["data"]) == fields(reports.ListReport)
    (entry,) = found["data"]["environments"]
    assert set(entry) == fields(reports.ListedEnvironment)
    assert entry["content_hash"] == notes_environment.content_hash
    assert entry["image_bytes"] == len(notes_environment.database)


@pytest.mark.parametrize(
    ("options", "ids"),
    [
        ([], ["desk_1", "desk_2", "desk_5"]),
        (["--category", "library"], ["desk_1"]),
        (["--split", "test"], ["desk_2"]),
        (["--category", "library", "--split", "test"], []),
    ],
)
def test_list_filters_by_category_and_split(options: list[str], ids: list[str], cli: Any, three: str) -> None:
    _, found, _ = cli("list", "--json", "--dataset", three, *options)
    assert [e["id"] for e in found["data"]["environments"]] == ids
    assert found["data"]["total"] == 3


def test_a_filter_that_keeps_nothing_names_what_there_is(cli: Any, three: str) -> None:
    code, out, err = cli("list", "--category", "zoo", "--dataset", three)
    assert (code, err) == (0, "")
    assert "0 of 3 environments in" in out
    assert "none fits what was asked for. Known categories: " in out
    assert out.endswith("; splits: test, train\n")


def test_show_gives_an_overview(on_notes: Any) -> None:
    code, out, _ = on_notes("show", "notes")
    assert code == 0
    assert out.startswith("notes: Notes\nA small notebook app")
    assert "rules         Never put anything into the archive." in out
    assert "  finish_note     write  Mark an open note as done." in out
    assert "  overdue           query   How many of my open notes were due before today?" in out


@pytest.mark.parametrize(
    ("options", "given"),
    [
        ([], {"tools", "tasks"}),
        (["--tools"], {"tools"}),
        (["--tool", "get_note"], {"tools"}),
        (["--task", "overdue"], {"tasks"}),
        (["--tables"], {"tables"}),
        (["--code"], {"code"}),
    ],
)
def test_show_as_json_fills_what_was_asked_for(options: list[str], given: set[str], on_notes: Any) -> None:
    code, found, _ = on_notes("show", "notes", "--json", *options)
    assert code == 0
    data = found["data"]
    assert set(data) == fields(reports.ShowReport)
    assert {part for part in ("tools", "tasks", "tables", "code") if data[part] is not None} == given


def test_show_tools_lists_signatures_with_required_parameters_first(on_notes: Any) -> None:
    _, out, _ = on_notes("show", "notes", "--tools")
    assert "create_note(notebook, title, body?, due_on?, tags?)  write\n    Create a note.\n" in out


def test_show_tool_prints_its_schema(on_notes: Any, notes_environment: Environment) -> None:
    _, out, _ = on_notes("show", "notes", "--tool", "get_note")
    assert out.startswith("get_note  read\nGet one note with its tags.\n\n{")
    assert json.loads(out[out.index("{") :]) == notes_environment.tool("get_note").input_schema


def test_show_task_prints_answer_solution_and_criteria(on_notes: Any) -> None:
    _, out, _ = on_notes("show", "notes", "--task", "notes/jars_for_jam")
    assert 'answer: {"note":8,"shop":4}' in out
    assert '\n  search_notes {"tag":"shop"}\n' in out
    assert "signals verifier signals_jars_for_jam" in out
    _, found, _ = on_notes("show", "notes", "--task", "jars_for_jam", "--json")
    (task,) = found["data"]["tasks"]
    assert set(task) == fields(reports.ShownTask)
    assert task["solution"][1] == {"tool": "search_notes", "arguments": {"tag": "shop"}}


def test_show_tables_prints_rows_of_the_initial_database(on_notes: Any) -> None:
    _, out, _ = on_notes("show", "notes", "--tables")
    assert "notebooks: 3 rows\n    id  name     is_locked\n    1   Home     0\n" in out
    _, found, _ = on_notes("show", "notes", "--tables", "--json")
    tables = {t["name"]: t for t in found["data"]["tables"]}
    assert set(tables) == {"notebooks", "notes", "tags"}
    assert tables["tags"]["total"] == 6
    assert tables["tags"]["rows"][0] == [1, "call"]


def test_show_code_prints_the_module(on_notes: Any, notes_environment: Environment) -> None:
    assert on_notes("show", "notes", "--code")[1] == notes_environment.code + "\n"


def test_call_prints_the_result_and_that_nothing_changed(on_notes: Any) -> None:
    code, out, _ = on_notes("call", "notes", "search_notes", "query=plum jam")
    assert code == 0
    assert out.startswith('ok\n[\n  {\n    "id": 2,')
    assert out.endswith("\nno row changed\n")


def test_call_prints_the_rows_it_changed(on_notes: Any) -> None:
    _, out, _ = on_notes("call", "notes", "finish_note", "note_id=5")
    assert out.endswith(
        'notes\n  ~ id=5  status: "open" → "done", updated_at: "2026-02-21 12:00:00" → "2026-03-02 09:00:01"\n'
    )


def test_call_as_json_has_the_frozen_shape(on_notes: Any) -> None:
    words = ("call", "notes", "create_note", "notebook=Home", "title=00123", "--json", 'tags=["a"]', "--seed", "7")
    code, found, _ = on_notes(*words)
    assert code == 0
    data = found["data"]
    assert set(data) == fields(reports.CallReport)
    assert (data["environment"], data["task"], data["seed"], data["tool"]) == ("notes", None, 7, "create_note")
    assert data["arguments"] == {"notebook": "Home", "title": "00123", "tags": ["a"]}
    assert data["result"]["type"] == "ok"
    assert data["result"]["value"]["title"] == "00123"
    assert data["diff"]["tags"] == {"added": [{"note_id": 8, "name": "a"}], "removed": [], "changed": []}


@pytest.mark.parametrize("text", ["00123", "1e5", "true", "null", '{"a": 1}', '["A1"]', " x ", "a=b", "\u2028\u202e"])
def test_call_hands_text_over_character_by_character(text: str, on_notes: Any) -> None:
    _, found, _ = on_notes("call", "notes", "create_note", "notebook=Home", "title=t", f"body={text}", "--json")
    assert found["data"]["result"]["value"]["body"] == text


def test_a_refused_call_is_1_with_its_report(on_notes: Any) -> None:
    code, out, err = on_notes("call", "notes", "finish_note", "note_id=6")
    assert (code, err) == (1, "")
    assert out == "refused: failed_precondition\nnote 6 is done already\n\nno row changed\n"
    code, found, _ = on_notes("call", "notes", "finish_note", "note_id=6", "--json")
    assert (code, found["ok"]) == (1, False)
    assert found["data"]["result"]["code"] == "failed_precondition"


@pytest.mark.parametrize("pair", ["note_id=five", 'note_id="5"', "note_id=5.5", "colour=red", "note_id=null"])
def test_an_invalid_call_is_3_and_says_where_the_schema_is(pair: str, on_notes: Any, notes_dataset: Path) -> None:
    code, found, _ = on_notes("call", "notes", "get_note", pair, "--json")
    assert (code, found["ok"], found["error"]["type"]) == (3, False, "invalid_call")
    assert found["error"]["next"] == f"awm-hub show notes --tool get_note --dataset {notes_dataset}"


def test_another_word_for_a_boolean_is_answered_with_true_or_false(cli: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    cli("new", "plants")
    cli("pack", "plants", "-o", "out")
    code, out, err = cli("call", "plants", "list_plants", "only_due=yes", "--dataset", "out")
    assert (code, out) == (3, "")
    assert "'yes' is not of type 'boolean'" in err
    assert err.endswith(
        "next: write true or false, only_due=true; awm-hub show plants --tool list_plants --dataset out\n"
    )
    assert cli("call", "plants", "list_plants", "only_due=true", "--dataset", "out")[0] == 0


@pytest.mark.parametrize("verb", ["show note", "call note get_note"])
def test_an_unknown_environment_leads_to_the_dataset_or_names_the_option(
    verb: str, cli: Any, notes_dataset: Path
) -> None:
    _, _, err = cli(*verb.split(), "--dataset", str(notes_dataset))
    assert err.endswith(f"next: `awm-hub list --dataset {notes_dataset}` shows all\n")
    _, _, err = cli(*verb.split())
    assert err.endswith("next: `awm-hub list` shows all; --dataset OUT looks into a dataset of your own\n")


@pytest.mark.parametrize(
    ("words", "step"),
    [
        ("show notes --tool get_nte", "awm-hub show notes --tools"),
        ("show notes --task overdu", "awm-hub show notes"),
        ("call notes get_note note_id=1 --task overdu", "awm-hub show notes"),
        ("call notes", "awm-hub show notes --tools"),
        ("demo notes --task overdu", "awm-hub show notes"),
        ("serve --stdio notes --task overdu", "awm-hub show notes"),
    ],
)
def test_an_unknown_tool_or_task_leads_to_the_same_dataset(
    words: str, step: str, on_notes: Any, notes_dataset: Path
) -> None:
    assert on_notes(*words.split())[2].endswith(f"next: {step} --dataset {notes_dataset}\n")


def test_pack_counts_one_environment_and_prints_its_warnings(cli: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    cli("new", "plants")
    with (tmp_path / "plants" / "tasks.toml").open("a") as tasks:
        tasks.write('\n[talk]\ninstruction = "Talk to the fern."\n')
    code, out, _ = cli("pack", ".", "-o", "out")
    assert code == 0
    assert "warning: plants/tasks.toml: [talk] cannot be judged by code" in out
    assert "\n1 environment, " in out
    assert cli("pack", ".", "-o", "out")[0] == 0  # `out` lies beside the source now


def test_a_fault_is_4(cli: Any, hostile: str) -> None:
    code, found, _ = cli("call", "parcel_desk_1", "fail", "--json", "--dataset", hostile)
    assert (code, found["error"]["type"]) == (4, "fault")
    assert found["error"]["message"].startswith("KeyError: ")
    assert found["error"]["message"].endswith(" (line 24)")


def test_call_starts_from_the_state_of_a_task(on_notes: Any) -> None:
    _, found, _ = on_notes("call", "notes", "list_notebooks", "--task", "overdue", "--json")
    assert found["data"]["task"] == "notes/overdue"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("show note", "no environment named 'note'. Did you mean 'notes'?"),
        ("show notes --tool get_nte", "no tool named 'get_nte'. Did you mean 'get_note'"),
        ("show notes --task overdu", "no task named 'overdu'. Did you mean 'overdue'?"),
        ("call note get_note", "no environment named 'note'. Did you mean 'notes'?"),
        ("call notes get_nte", "no tool named 'get_nte'. Did you mean 'get_note'"),
        ("call notes get_note note_id=1 --task overdu", "no task named 'overdu'. Did you mean 'overdue'?"),
        ("serve --stdio note", "no environment named 'note'. Did you mean 'notes'?"),
        ("demo note", "no environment named 'note'. Did you mean 'notes'?"),
        ("demo notes --task overdu", "no task named 'overdu'. Did you mean 'overdue'?"),
    ],
)
def test_an_unknown_name_is_3_with_a_suggestion(words: str, message: str, on_notes: Any) -> None:
    code, out, err = on_notes(*words.split())
    assert (code, out) == (3, "")
    assert err.startswith(f"awm-hub: {message}")
    assert "\n  next: " in err


@pytest.mark.parametrize("source", ["missing", "README.md", "./missing/dataset"])
def test_a_dataset_that_is_none_is_no_traceback(source: str, cli: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "README.md").write_text("hello")
    code, out, err = cli("list", "--dataset", source)
    assert (code, out) == (3, "")
    assert "\n  next: " in err


def test_new_pack_show_unpack_and_pack_again_give_the_same_row(cli: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    code, found, _ = cli("new", "ferry_port_1", "--json")
    assert (code, set(found["data"])) == (0, fields(reports.NewReport))
    assert {"scenario.toml", "schema.sql", "seed.sql", "tasks.toml", "tools.py"} <= set(found["data"]["files"])

    code, packed, err = cli("pack", "ferry_port_1", "-o", "out", "--json")
    assert code == 0
    assert json.loads(err.splitlines()[0]) == {"event": "building", "id": "ferry_port_1", "position": 1, "total": 1}
    assert set(packed["data"]) == {"environments", "dataset"}

    assert cli("show", "ferry_port_1", "--dataset", "out")[0] == 0
    code, unpacked, _ = cli("unpack", "out", "-o", "sources", "--only", "ferry_port_1", "--json")
    assert (code, unpacked["data"]) == (0, {"out": "sources", "environments": ["ferry_port_1"]})
    _, again, _ = cli("pack", "sources/ferry_port_1", "-o", "again", "--json")
    hashes = [p["data"]["environments"][0]["content_hash"] for p in (packed, again)]
    assert hashes[0] == hashes[1]


def test_unpacking_an_unknown_environment_leads_to_the_dataset_and_writes_nothing(
    cli: Any, notes_dataset: Path, tmp_path: Path
) -> None:
    words = ("unpack", str(notes_dataset), "-o", str(tmp_path / "out"), "--only", "nots")
    code, out, err = cli(*words)
    assert (code, out) == (3, "")
    step = f"`awm-hub list --dataset {notes_dataset}` shows all"
    assert err == f"awm-hub: no environment named 'nots'. Did you mean 'notes'?\n  next: {step}\n"
    assert not (tmp_path / "out").exists()


def test_new_refuses_what_cannot_be_an_id(cli: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, err = cli("new", "Ferry Port")
    assert code == 2
    assert "'ferry_port'" in err


def test_pack_names_file_and_next_step_of_what_is_wrong(cli: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    cli("new", "ferry_port_1")
    (tmp_path / "ferry_port_1" / "scenario.toml").write_text('title = "x"\nclok = 2026-03-02T09:00:00Z\n')
    code, out, err = cli("pack", "ferry_port_1", "-o", "out")
    assert (code, out) == (3, "")
    assert "ferry_port_1/scenario.toml" in err
    assert "'clock'" in err
    assert not (tmp_path / "out").exists()


def test_demo_goes_from_the_row_to_the_verdict(on_notes: Any, notes_dataset: Path) -> None:
    code, out, err = on_notes("demo")
    assert (code, err) == (0, "")
    assert "notes: Notes" in out
    assert "An MCP client lists 6 tools" in out
    assert "COMPLETED" in out
    assert f"\n   {own_name()} list --dataset {notes_dataset}\n" in out
    assert f"\n   {own_name()} show notes --task " in out


@pytest.mark.parametrize("task", ["overdue", "postpone_plumber", "jars_for_jam", "one_bulb_note"])
def test_demo_replays_any_task_and_reports_it_as_json(task: str, on_notes: Any) -> None:
    code, found, _ = on_notes("demo", "notes", "--task", task, "--json")
    assert code == 0
    data = found["data"]
    assert set(data) == fields(reports.DemoReport)
    assert (data["environment"], data["task"]) == ("notes", f"notes/{task}")
    assert data["verdict"]["outcome"] == "COMPLETED"
    assert [c["is_error"] for c in data["calls"]] == [False] * len(data["calls"])
    assert bool(data["diff"]) == (task != "overdue")


def test_demo_ends_with_1_where_the_verdict_is_another(cli: Any, tmp_path: Path, renamed: Any) -> None:
    environment = renamed("desk_1")
    task = environment.task("postpone_plumber")
    wrong = dataclasses.replace(task, solution=task.solution[:1], verifiers=())
    decided = environment.task("one_bulb_note")
    broken = dataclasses.replace(decided, solution=wrong.solution)
    write_dataset([dataclasses.replace(environment, tasks=(broken,)).with_hash("0" * 64)], tmp_path / "out")
    code, found, _ = cli("demo", "desk_1", "--json", "--dataset", str(tmp_path / "out"))
    assert (code, found["ok"]) == (1, False)
    assert found["data"]["verdict"]["outcome"] == "AGENT_ERROR"

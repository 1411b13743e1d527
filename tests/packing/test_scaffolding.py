import json
import sqlite3

import pytest

import awm_hub
from awm_hub import packing
from awm_hub.errors import UsageError


def test_a_new_source_packs_without_a_warning(tmp_path):
    folder = packing.scaffold(tmp_path / "my_plants")
    assert folder == tmp_path / "my_plants"
    report = packing.pack(folder, tmp_path / "out")
    assert report.environments[0].warnings == ()
    environment = awm_hub.load(tmp_path / "out")["my_plants"]
    assert environment.title == "My Plants"
    assert {t.name: t.effect for t in environment.tools} == {
        "list_plants": "read",
        "water_plant": "write",
        "move_plant": "write",
    }
    assert len(environment.tables) == 2
    assert [(t.kind, len(t.solution or ()), [v.kind for v in t.verifiers]) for t in environment.tasks] == [
        ("query", 1, ["signals"]),
        ("change", 3, ["signals"]),
    ]
    assert all(t.description for t in environment.tools)


def test_the_solutions_of_a_new_source_are_judged_complete_and_doing_nothing_is_not(tmp_path):
    packing.pack(packing.scaffold(tmp_path / "my_plants"), tmp_path / "out")
    environment = awm_hub.load(tmp_path / "out")["my_plants"]
    for task in environment.tasks:
        answer = None if task.answer is None else json.dumps(task.answer)
        outcomes = []
        for calls in (task.solution, ()):
            with awm_hub.launch(environment, task=task.slug) as instance:
                for call in calls:
                    assert instance.call_tool(call.tool, call.arguments).is_ok
                instance.submit(answer if calls else None)
                outcomes.append(awm_hub.judge(instance.trajectory()).outcome)
        assert outcomes == ["COMPLETED", "AGENT_ERROR"]


def test_the_dates_of_a_new_source_exist(tmp_path):
    schema = (packing.scaffold(tmp_path / "my_plants") / "schema.sql").read_text()
    db = sqlite3.connect(":memory:")
    db.executescript(schema)
    db.execute("INSERT INTO waterings (plant_id, watered_on) VALUES (1, '2026-02-28')")
    for day in ("2026-02-30", "2026-2-3", "", 20260203):
        with pytest.raises(sqlite3.IntegrityError):
            db.execute("INSERT INTO waterings (plant_id, watered_on) VALUES (1, ?)", (day,))


@pytest.mark.parametrize(
    ("name", "better"),
    [
        ("My-Plants", "my_plants"),
        ("health", "health_1"),
        ("größe", "gr_e"),
        ("x" * 65, "x" * 62),
        ("!", "my_environment"),
    ],
)
def test_a_name_that_is_no_id_is_refused_with_a_better_one(tmp_path, name, better):
    with pytest.raises(UsageError, match=f"cannot be the id of an environment\n.* for example '{better}'"):
        packing.scaffold(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_an_existing_folder_is_left_alone(tmp_path):
    (tmp_path / "plants").mkdir()
    with pytest.raises(UsageError, match="plants exists"):
        packing.scaffold(tmp_path / "plants")
    assert list((tmp_path / "plants").iterdir()) == []

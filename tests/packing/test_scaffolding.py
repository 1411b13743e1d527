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

import json
from pathlib import Path

import pytest

from awm_hub.errors import DataError, RecordError, UnknownNameError
from awm_hub.trajectory import Trajectory
from awm_hub.viewing import opened


@pytest.fixture
def folder(trajectory: Trajectory, tmp_path: Path) -> Path:
    """Saved trajectories that are no run."""
    for name in ("second", "first"):
        (tmp_path / f"{name}.json").write_text(json.dumps(trajectory.to_dict()))
    (tmp_path / ".first.json").write_text("left over")
    (tmp_path / "notes.txt").write_text("no trajectory")
    return tmp_path


def test_a_folder_of_saved_trajectories_is_a_list(folder: Path, trajectory: Trajectory) -> None:
    source = opened(folder)
    assert list(source.rollouts) == ["first", "second"]
    assert (len(source.rollouts), source.planned, source.remedy) == (2, None, "")
    assert source.one("first").trajectory.steps == trajectory.steps


def test_a_file_is_read_only_when_it_is_asked_for(folder: Path) -> None:
    (folder / "broken.json").write_text("{")
    source = opened(folder)
    assert list(source.rollouts) == ["broken", "first", "second"]
    with pytest.raises(RecordError, match=f"^{folder}/broken.json: broken.json is not valid JSON"):
        source.one("broken")
    with pytest.raises(UnknownNameError, match="Did you mean 'first'"):
        source.one("firts")


def test_a_folder_without_any_holds_none(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no trajectories"):
        opened(tmp_path)

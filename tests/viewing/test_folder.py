from pathlib import Path

import pytest

from awm_hub.errors import UsageError
from awm_hub.rollouts import Rollout
from awm_hub.trajectory import Trajectory
from awm_hub.viewing import Document, PagesFolder, Survey, survey


def survey_of(trajectory: Trajectory, *names: str) -> Survey:
    return survey({name: Rollout(id=name, number=0, trajectory=trajectory) for name in names})


def files(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def write(out: Path, found: Survey) -> None:
    folder = PagesFolder(out, "a run", found)
    for line in found.rollouts:
        folder.add(line.id, Document(title=line.id))


def test_pages_of_another_run_are_replaced(trajectory: Trajectory, tmp_path: Path) -> None:
    write(tmp_path / "pages", survey_of(trajectory, "a", "b"))
    write(tmp_path / "pages", survey_of(trajectory, "b", "c d"))
    assert files(tmp_path / "pages") == ["index.html", "rollouts/b.html", "rollouts/rollout-1.html"]
    assert "a.html" not in (tmp_path / "pages" / "index.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["index.html", "notes.txt", "rollouts/mine.html", "rollouts/sub/x.html"])
def test_a_folder_with_anything_else_is_left_alone(name: str, trajectory: Trajectory, tmp_path: Path) -> None:
    write(tmp_path, survey_of(trajectory, "a"))
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("<!doctype html><p>mine")
    before = files(tmp_path)
    with pytest.raises(UsageError, match="holds something other than pages of a run"):
        write(tmp_path, survey_of(trajectory, "b"))
    assert files(tmp_path) == before


def test_a_link_out_of_the_folder_is_not_followed(trajectory: Trajectory, tmp_path: Path) -> None:
    write(tmp_path / "real", survey_of(trajectory, "a"))
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "rollouts").symlink_to(tmp_path / "real" / "rollouts")
    with pytest.raises(UsageError):
        write(tmp_path / "pages", survey_of(trajectory, "b"))
    assert files(tmp_path / "real") == ["index.html", "rollouts/a.html"]


@pytest.mark.parametrize("name", ["file", "pages.html"])
def test_a_file_is_no_folder(name: str, trajectory: Trajectory, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="the pages of a run take a folder"):
        write(tmp_path / name, survey_of(trajectory, "a"))

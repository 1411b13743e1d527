"""The viewer in a real browser: files and datasets of trajectories, whatever is in them."""

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from loopback_hub import LoopbackHub
from planting import planted
from playground.screenshots import solved
from playground.served import running_playground
from playground.visitor import Visitor, browser, visitor

from awm_hub.rollouts import Rollout, write_trajectories
from awm_hub.trajectory import Trajectory

if TYPE_CHECKING:
    from playwright.sync_api import Page

__all__ = ["browser", "visitor"]
RUNS, PRIVATE, EMPTY = "awm/runs", "awm/private-runs", "awm/nothing"
KEPT = ("outcome", "environment_hash", "database_delta", "type")
"""Fields that are no free texts."""


@pytest.fixture(scope="module")
def trajectory() -> Trajectory:
    """A reference solution, judged."""
    return solved()


@pytest.fixture(scope="module")
def runs(trajectory: Trajectory, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset with a completed attempt, and one without a verdict."""
    other = dataclasses.replace(trajectory, verdicts=(), answer="Something else.")
    found = [Rollout(id=f"run-{n}", number=n, trajectory=t) for n, t in enumerate((trajectory, other))]
    return write_trajectories(found, tmp_path_factory.mktemp("runs") / "data")


@pytest.fixture(scope="module")
def hub(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoopbackHub]:
    found = LoopbackHub()
    found.commit_folder(runs, RUNS)
    found.commit_folder(runs, PRIVATE)
    found.repo(PRIVATE).private = True
    found.create(EMPTY)
    with found.serving():
        yield found


@pytest.fixture(scope="module")
def address(hub: LoopbackHub, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A playground whose own token opens everything."""
    with running_playground({**hub.environ(tmp_path_factory.mktemp("home")), "HF_HUB_OFFLINE": "0"}) as found:
        yield found


def opened(visitor: Visitor) -> "Page":
    page = visitor.go("?env=public_library_1&view=viewer")
    page.wait_for_selector("#awm-viewer-open >> visible=true")
    return page


def upload(page: "Page", path: Path) -> None:
    page.set_input_files("#awm-viewer-file input[type=file]", path)


def title(page: "Page", words: str) -> None:
    """Wait for the trajectory of this title."""
    page.locator("#awm-viewer .awm-document h2", has_text=words).first.wait_for()


def test_a_json_file_shows_every_call_with_its_rows_and_the_verdict(
    visitor: Visitor, trajectory: Trajectory, tmp_path: Path
) -> None:
    path = tmp_path / "attempt.json"
    path.write_text(json.dumps(trajectory.to_dict()))
    page = opened(visitor)
    upload(page, path)
    title(page, trajectory.task_id)
    shown = page.locator("#awm-viewer").inner_text()
    for number, step in enumerate(trajectory.steps, 1):
        assert f"{number}. {step.tool}" in shown
    assert "✓ COMPLETED" in shown
    assert page.locator("#awm-viewer tr.awm-added").first.is_visible(), "calls were repeated to tell their rows"
    assert page.locator("#awm-viewer-chosen").count() == 0


@pytest.mark.slow
def test_of_a_parquet_file_one_trajectory_is_chosen_after_the_other(
    visitor: Visitor, runs: Path, trajectory: Trajectory
) -> None:
    (shard,) = runs.glob("trajectories/*.parquet")
    page = opened(visitor)
    upload(page, shard)
    title(page, trajectory.task_id)
    page.locator("#awm-viewer-chosen").get_by_role("combobox").click()
    page.get_by_role("option", name="run-1").click()
    page.locator("#awm-viewer", has_text="Something else.").wait_for()
    assert "✓ COMPLETED" not in page.locator("#awm-viewer").inner_text()


@pytest.mark.slow
def test_a_trajectory_whose_every_text_is_an_attack_is_shown_as_text(
    visitor: Visitor, trajectory: Trajectory, tmp_path: Path
) -> None:
    path = tmp_path / "evil.json"
    path.write_text(json.dumps(planted(trajectory.to_dict(), KEPT)))
    page = opened(visitor)
    before = page.title()
    upload(page, path)
    page.locator("#awm-viewer .awm-document", has_text="<script>document.title='owned'</script>").wait_for()
    page.evaluate("document.querySelectorAll('#awm-viewer details').forEach((fold) => { fold.open = true; })")
    assert page.title() == before
    assert page.locator("#awm-viewer img").or_(page.locator("#awm-viewer script")).count() == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("broken.json", b'{"environment_id": '),
        ("list.json", b"[1, 2]"),
        ("binary.json", b"\xff\xfe\x00"),
        ("wrong.parquet", b"PAR1 nothing"),
        ("<img src=x onerror=alert(1)>.json", b"{}"),
    ],
)
def test_a_file_that_is_no_trajectory_gives_a_message(visitor: Visitor, tmp_path: Path, name: str, data: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    page = opened(visitor)
    upload(page, path)
    message = page.locator("#awm-viewer [role=alert]")
    message.wait_for()
    assert message.locator("h3").inner_text() == "This file cannot be shown"
    assert "Next: " in message.inner_text()
    assert "Traceback" not in message.inner_text()


@pytest.mark.slow
def test_a_dataset_of_trajectories_is_opened_by_its_name_and_a_private_one_is_not(
    visitor: Visitor, trajectory: Trajectory
) -> None:
    page = opened(visitor)
    name = page.get_by_label("Or a dataset on the Hub")
    for wrong, told in (
        (PRIVATE, f"the Hub did not give {PRIVATE}"),
        ("awm/absent", "the Hub did not give awm/absent"),
        (EMPTY, f"{EMPTY} has no config of trajectories"),
        ("../../etc/passwd", "this is no id of a dataset"),
    ):
        name.fill(wrong)
        page.click("#awm-viewer-open")
        page.locator("#awm-viewer [role=alert]", has_text=told).wait_for()
    name.fill(RUNS)
    page.click("#awm-viewer-open")
    title(page, trajectory.task_id)
    assert page.locator("#awm-viewer-chosen").is_visible()

"""Watching an agent in a real browser: to the verdict, to a stop, two runs at once, and a model of one's own."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playground.served import running_playground
from playground.visitor import ENVIRONMENT, Visitor, browser, other, visitor

import awm_hub
from awm_hub.trajectory import Trajectory

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

__all__ = ["browser", "other", "visitor"]
KEY = "sk-a-visitors-own-key-0123456789"
LEFT, RIGHT = "left", "right"


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the server prints, down to each request."""
    return tmp_path_factory.mktemp("log") / "server.log"


@pytest.fixture(scope="module")
def address(log: Path) -> Iterator[str]:
    with running_playground(log=log, options={"log_level": "trace"}) as found:
        yield found


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    """A service of the machine itself."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        found.listen()
        found.setblocking(False)
        yield found


def easiest() -> awm_hub.Task:
    """The task with the shortest solution of those that only change rows."""
    tasks = [t for t in awm_hub.load()[ENVIRONMENT].tasks if t.kind == "change"]
    return min(tasks, key=lambda t: len(t.solution or ()))


def opened(visitor: Visitor, task: str) -> "Page":
    page = visitor.go(f"?env={ENVIRONMENT}&view=watch&task={task}")
    page.wait_for_selector("#awm-watch-start-left >> visible=true")
    return page


def calls(page: "Page", slot: str) -> "Locator":
    return page.locator(f"#awm-watch-transcript-{slot} .awm-turn-call")


def verdict(page: "Page", slot: str) -> str:
    """Wait for the end of a run, and give its verdict."""
    found = page.locator(f"#awm-watch-transcript-{slot} .awm-outcome")
    found.wait_for(timeout=60_000)
    return str(found.locator("h3").first.inner_text())


def choose(page: "Page", slot: str, who: str) -> None:
    page.locator(f"#awm-watch-{slot}").get_by_label("Who attempts it").click()
    page.get_by_role("option", name=who).click()


def test_the_reference_solution_is_watched_to_its_verdict_and_kept(visitor: Visitor) -> None:
    task = easiest()
    page = opened(visitor, task.slug)
    page.click("#awm-watch-start-left")
    calls(page, LEFT).first.wait_for()
    assert page.locator("#awm-watch-stop-left").is_enabled()
    assert verdict(page, LEFT) == "✓ Completed"
    assert calls(page, LEFT).count() == len(task.solution)
    with page.expect_download() as download:
        page.click("#awm-watch-export-left")
    kept = Trajectory.from_dict(json.loads(download.value.path().read_text()))
    assert (kept.task_id, [v.outcome.value for v in kept.verdicts]) == (task.id, ["COMPLETED"])
    assert [s.tool for s in kept.steps] == [c.tool for c in task.solution]


@pytest.mark.slow
def test_a_run_that_is_stopped_is_judged_as_it_is_and_can_be_started_again(visitor: Visitor) -> None:
    page = opened(visitor, easiest().slug)
    choose(page, LEFT, "Random calls")
    page.click("#awm-watch-start-left")
    calls(page, LEFT).nth(1).wait_for()
    page.click("#awm-watch-stop-left")
    assert verdict(page, LEFT) == "✗ Not completed"
    assert page.locator("#awm-watch-transcript-left .awm-outcome", has_text="It was stopped.").is_visible()
    assert page.locator("#awm-watch-stop-left").is_disabled()
    made = calls(page, LEFT).count()
    assert 2 <= made < 20
    page.get_by_role("button", name="Start again").first.click()
    page.wait_for_function(
        "n => document.querySelectorAll('#awm-watch-transcript-left .awm-turn-call').length < n", arg=made
    )
    page.click("#awm-watch-stop-left")


@pytest.mark.slow
def test_two_runs_beside_each_other_end_each_with_its_own_verdict(visitor: Visitor, other: Visitor) -> None:
    task = easiest()
    page = opened(visitor, task.slug)
    page.get_by_label("Compare with another run").check()
    page.click("#awm-watch-start-right")
    page.click("#awm-watch-start-left")
    calls(page, RIGHT).first.wait_for()
    calls(page, LEFT).first.wait_for()
    assert verdict(page, LEFT) == "✓ Completed"
    assert calls(page, LEFT).count() == len(task.solution)
    assert page.locator("#awm-watch-transcript-right .awm-outcome").count() == 0
    page.click("#awm-watch-stop-right")
    assert verdict(page, RIGHT) == "✗ Not completed"
    assert verdict(page, LEFT) == "✓ Completed"
    assert calls(opened(other, task.slug), LEFT).count() == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "place",
    [
        "https://127.0.0.1:{port}/v1",
        "https://[::1]:{port}/v1",
        "https://localhost:{port}/v1",
        "http://127.0.0.1:{port}/v1",
        "https://169.254.169.254/latest",
        "https://10.0.0.1/v1",
        "file:///etc/passwd",
    ],
)
def test_a_private_address_is_refused_and_the_key_is_nowhere(
    visitor: Visitor, listening: socket.socket, log: Path, place: str
) -> None:
    page = opened(visitor, easiest().slug)
    choose(page, LEFT, "A model at an endpoint of mine")
    port = listening.getsockname()[1]
    page.locator("#awm-watch-address-left textarea").fill(place.format(port=port))
    page.locator("#awm-watch-left").get_by_label("Model", exact=True).fill("some-model")
    page.locator("#awm-watch-key-left input").fill(KEY)
    page.click("#awm-watch-start-left")
    message = page.locator(".toast-body").first
    message.wait_for()
    assert KEY not in message.inner_text()
    assert page.locator("#awm-watch-start-left").is_enabled()
    assert calls(page, LEFT).count() == 0
    with pytest.raises(BlockingIOError):
        listening.accept()
    assert KEY not in page.content()
    assert KEY not in page.request.get(f"{visitor.address}/config").text()
    assert KEY not in log.read_text()
    assert "/gradio_api/" in log.read_text(), "the log has the requests"
    visitor.page = visitor.context.new_page()  # another tab, with the same cookies and storage
    page = opened(visitor, easiest().slug)
    choose(page, LEFT, "A model at an endpoint of mine")
    assert page.input_value("#awm-watch-key-left input") == ""

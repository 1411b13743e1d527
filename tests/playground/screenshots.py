"""Pictures of every view of the playground, light and dark, on a desktop and on a phone, to be looked at by people.

    PYTHONPATH=tests python -m playground.screenshots [--out build/screenshots] [--scene play] [--device phone]

A scene is a visit to one view. Whatever goes wrong while pictures are taken is told: errors of the page, requests to
elsewhere, and pages that are wider than the screen.
"""

import argparse
import dataclasses
import json
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from playground.served import running_browser, running_playground
from playground.visitor import ENVIRONMENT, Visitor

import awm_hub

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

OUT = Path("build/screenshots")
THEMES = ("light", "dark")
DEVICES: Mapping[str, Mapping[str, Any]] = {
    "desktop": {"viewport": {"width": 1280, "height": 900}},
    "phone": {"viewport": {"width": 390, "height": 844}, "device_scale_factor": 2, "has_touch": True},
}
_LONGEST = 3200
"""A picture is cut below that many pixels of the page: the rest of a long list looks like its beginning."""
_TO_THEME = "theme => document.body.classList.toggle('dark', theme === 'dark')"
_TO_TOP = "window.scrollTo(0, 0)"
_SIZE = "[document.documentElement.scrollWidth, window.innerWidth, document.documentElement.scrollHeight]"


class Camera:
    """One device, and the pictures that are taken with it."""

    def __init__(self, visitor: Visitor, device: str, out: Path) -> None:
        self.visitor, self.page, self.device = visitor, visitor.page, device
        self.taken: list[Path] = []
        self.complaints = visitor.complaints
        self._out = out

    def take(self, name: str) -> None:
        """Take a view in every theme; gradio's `?__theme=` sets the same class on the page."""
        self.page.mouse.move(0, 0)
        self.page.evaluate(_TO_TOP)
        wide, room, high = self.page.evaluate(_SIZE)
        if wide > room:
            self.complaints.append(f"{name} on {self.device} is {wide} wide, and there is room for {room}")
        for theme in THEMES:
            self.page.evaluate(_TO_THEME, theme)
            path = self._out / f"{name}-{self.device}-{theme}.png"
            clip = {"x": 0, "y": 0, "width": room, "height": min(high, _LONGEST)}
            self.page.screenshot(path=path, full_page=True, clip=clip, animations="disabled", caret="hide")
            self.taken.append(path)
        self.page.evaluate(_TO_THEME, THEMES[0])

    def go(self, query: str = "") -> "Page":
        """Open an address in the light theme."""
        return self.visitor.go(f"{query}{'&' if query else '?'}__theme={THEMES[0]}")

    def tab(self, inside: str, name: str) -> None:
        """Open a tab, which may be in the menu of those that found no room."""
        tab = self.page.locator(f"{inside} button[role=tab]", has_text=name).locator("visible=true")
        if not tab.count():
            self.page.locator(f"{inside} .overflow-menu > button").first.click()
            self.page.locator(f"{inside} .overflow-dropdown button", has_text=name).click()
        else:
            tab.first.click()


def _browse(camera: Camera) -> None:
    page = camera.go()
    page.wait_for_selector(".awm-pick")
    camera.take("browse")
    page.locator("#awm-search textarea, #awm-search input").first.fill("overdue")
    page.locator("#awm-filters button").first.click()
    page.locator("#awm-filter-tools label", has_text="31–40").click()
    page.wait_for_selector(".awm-pick-id >> text=public_library_1")
    page.wait_for_function("document.querySelectorAll('.awm-pick').length < 6")
    camera.take("browse-filtered")


def _environment(camera: Camera) -> None:
    page, tabs = camera.go(f"?env={ENVIRONMENT}"), "#awm-environment-tabs"
    page.wait_for_selector("#awm-diagram svg")
    camera.take("environment-overview")
    camera.tab(tabs, "Data")
    page.wait_for_selector("#awm-grid [data-testid*=cell] >> visible=true")
    camera.take("environment-data")
    camera.tab(tabs, "Tools")
    page.locator("#awm-tools .awm-fold > summary").nth(1).click()
    camera.take("environment-tools")
    camera.tab(tabs, "Tasks")
    page.locator("#awm-tasks details > summary").first.click()
    camera.take("environment-tasks")
    camera.tab(tabs, "Code")
    page.wait_for_selector("#awm-code .cm-line >> visible=true")
    camera.take("environment-code")
    camera.tab(tabs, "Use")
    page.wait_for_selector("#awm-way-0 .cm-line >> visible=true")
    camera.take("environment-use")


def _play(camera: Camera) -> None:
    task, visitor = change_task(), camera.visitor
    page = camera.go(f"?env={ENVIRONMENT}&view=play&task={task}")
    page.wait_for_selector("#awm-start >> visible=true")
    camera.take("play-before")
    visitor.begin()
    camera.take("play-form")
    while visitor.make_hinted_call() and not page.locator("#awm-tables .awm-count").count():
        pass
    camera.take("play-changed")
    while visitor.make_hinted_call():
        pass
    page.fill("#awm-answer textarea", "Done.")
    page.click("#awm-submit")
    page.wait_for_selector(".awm-outcome.awm-good")
    page.wait_for_selector(".toast-body", state="detached")
    camera.take("play-completed")
    page.click("#awm-start")
    page.wait_for_selector("#awm-history >> text=No calls yet")
    page.click("#awm-submit")
    page.wait_for_selector(".awm-outcome.awm-bad")
    page.locator("#awm-verdict details > summary").first.click()
    camera.take("play-not-completed")


def _watch(camera: Camera) -> None:
    page = camera.go(f"?env={ENVIRONMENT}&view=watch&task={change_task()}")
    page.wait_for_selector("#awm-watch-start-left >> visible=true")
    camera.take("watch-before")
    page.click("#awm-watch-start-left")
    page.wait_for_selector("#awm-watch-transcript-left .awm-turn-call")
    camera.take("watch-running")
    page.wait_for_selector("#awm-watch-transcript-left .awm-outcome")
    camera.take("watch-finished")
    page.locator("#awm-watch-compare input").check()
    page.click("#awm-watch-start-right")
    page.wait_for_selector("#awm-watch-transcript-right .awm-turn-call >> nth=2")
    page.click("#awm-watch-stop-right")
    page.wait_for_selector("#awm-watch-transcript-right .awm-outcome")
    camera.take("watch-two-runs")


def _viewer(camera: Camera) -> None:
    page = camera.go(f"?env={ENVIRONMENT}&view=viewer")
    page.wait_for_selector("#awm-viewer-open >> visible=true")
    camera.take("viewer-before")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "attempt.json")
        path.write_text(json.dumps(solved().to_dict()))
        page.set_input_files("#awm-viewer-file input[type=file]", path)
        page.wait_for_selector("#awm-viewer .awm-document")
    camera.take("viewer-shown")


SCENES: Mapping[str, Callable[[Camera], None]] = {
    "browse": _browse,
    "environment": _environment,
    "play": _play,
    "watch": _watch,
    "viewer": _viewer,
}


def change_task() -> str:
    """A task that only changes rows, so that no answer has to be worded."""
    return next(t.slug for t in awm_hub.load()[ENVIRONMENT].tasks if t.kind == "change" and len(t.solution or ()) > 2)


def solved() -> Any:
    """The trajectory of a task's reference solution, judged."""
    environment = awm_hub.load()[ENVIRONMENT]
    task = environment.task(change_task())
    with awm_hub.launch(environment, task=task.slug) as instance:
        for call in task.solution or ():
            instance.call_tool(call.tool, call.arguments)
        instance.submit("Done.")
        made = instance.trajectory()
    return dataclasses.replace(made, verdicts=(awm_hub.judge(made),), policy={"kind": "solution"})


def pictures(
    browser: "Browser", address: str, out: Path, *, scenes: Iterable[str] = SCENES, devices: Iterable[str] = DEVICES
) -> Iterator[Camera]:
    """Take them.

    Args:
        browser: To take them with.
        address: The playground's.
        out: Folder of the pictures.
        scenes: Which views.
        devices: On which devices.

    Yields:
        A camera for each visit, with what was taken and what went wrong.
    """
    out.mkdir(parents=True, exist_ok=True)
    for device in devices:
        for scene in scenes:
            visitor = Visitor(browser, address, **DEVICES[device])
            camera = Camera(visitor, device, out)
            SCENES[scene](camera)
            visitor.close()
            yield camera


def main() -> int:
    """Take the pictures that the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--scene", choices=SCENES, action="append")
    parser.add_argument("--device", choices=DEVICES, action="append")
    asked = parser.parse_args()
    complaints = []
    with running_playground() as address, running_browser() as browser:
        for camera in pictures(
            browser, address, asked.out, scenes=asked.scene or SCENES, devices=asked.device or DEVICES
        ):
            print(*camera.taken, sep="\n", flush=True)
            complaints += camera.complaints
    print(*complaints, sep="\n", file=sys.stderr)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())

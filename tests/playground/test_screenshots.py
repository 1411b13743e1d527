"""Every view can be photographed on a phone in both themes, fits its width, and tells of no error."""

import struct
from pathlib import Path

import pytest
from playground.screenshots import DEVICES, SCENES, THEMES, pictures
from playground.served import running_browser, running_playground
from playground.visitor import Visitor

VIEWS = {
    "browse": ["browse", "browse-filtered"],
    "environment": [f"environment-{name}" for name in ("overview", "data", "tools", "tasks", "code", "use")],
    "play": [f"play-{name}" for name in ("before", "form", "changed", "completed", "not-completed")],
    "watch": [f"watch-{name}" for name in ("before", "running", "finished", "two-runs")],
    "viewer": ["viewer-before", "viewer-shown"],
}


@pytest.mark.slow
def test_every_view_is_photographed_in_both_themes_and_fits_a_phone(tmp_path: Path) -> None:
    phone = DEVICES["phone"]
    with running_playground() as address, running_browser() as browser:
        for scene, camera in zip(SCENES, pictures(browser, address, tmp_path, devices=["phone"]), strict=True):
            assert camera.complaints == []
            assert [p.stem for p in camera.taken] == [f"{v}-phone-{t}" for v in VIEWS[scene] for t in THEMES]
            for path in camera.taken:
                (width,) = struct.unpack(">I", path.read_bytes()[16:20])
                assert width == phone["viewport"]["width"] * phone["device_scale_factor"]
        for theme in THEMES:
            visitor = Visitor(browser, address)
            visitor.go(f"?__theme={theme}")
            assert visitor.page.evaluate("document.body.classList.contains('dark')") == (theme == "dark")
            visitor.close()

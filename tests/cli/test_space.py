"""`awm-hub space push` makes a Space in one commit, brings it up to date, and sends nothing twice."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from loopback_hub import TOKEN, LoopbackHub, loopback_hub

__all__ = ["loopback_hub"]
SPACE = "loopback/playground"
FILES = ["README.md", "app.py", "requirements.txt"]


class Pushing:
    """The command, against the loopback Hub."""

    def __init__(self, hub: LoopbackHub, folder: Path) -> None:
        self.hub, self._environ = hub, {**os.environ, **hub.environ(folder), "HF_TOKEN": TOKEN}

    def __call__(self, *words: object, code: int = 0) -> Any:
        command = [sys.executable, "-m", "awm_hub", "space", "push", SPACE, *map(str, words), "--json"]
        done = subprocess.run(command, env=self._environ, capture_output=True, text=True, timeout=120)
        assert done.returncode == code, done.stdout + done.stderr
        found = json.loads(done.stdout)
        return found["data"] if code == 0 else found["error"]

    def text(self, name: str) -> str:
        return self.hub.repo(SPACE, "space").head.files[name].data.decode()


@pytest.fixture
def push(loopback_hub: LoopbackHub, tmp_path: Path) -> Pushing:
    return Pushing(loopback_hub, tmp_path)


def test_a_space_is_created_once_and_then_left_as_it_is(push: Pushing) -> None:
    dry = push("--dry-run")
    assert (dry["sent"], dry["commit"]) == (FILES, None)
    assert ("space", SPACE) not in push.hub.repos
    first = push("--dataset", "awm/envs-1k")
    assert first["sent"] == FILES
    again = push()
    assert (again["sent"], again["commit"]) == ([], first["commit"])
    repo = push.hub.repo(SPACE, "space")
    assert repo.settings["sdk"] == "gradio"
    assert repo.settings["variables"]["AWM_HUB_DATASET"]["value"] == "awm/envs-1k"
    front = yaml.safe_load(push.text("README.md").split("---")[1])
    assert (front["sdk"], front["app_file"], front["hf_oauth"]) == ("gradio", "app.py", True)
    assert len(front["short_description"]) <= 60
    assert push.text("requirements.txt") == "awm-hub[space]\n"


def test_a_wheel_is_uploaded_beside_the_app_and_replaced_by_the_next(push: Pushing, tmp_path: Path) -> None:
    for version in ("1", "2"):
        wheel = tmp_path / f"awm_hub-{version}-py3-none-any.whl"
        wheel.write_bytes(version.encode())
        assert wheel.name in push("--wheel", wheel)["sent"]
    repo = push.hub.repo(SPACE, "space")
    assert [name for name in repo.head.files if name.endswith(".whl")] == ["awm_hub-2-py3-none-any.whl"]
    assert push.text("requirements.txt").startswith("awm-hub[space] @ http")
    assert "awm_hub-2-py3" in push.text("requirements.txt")


def test_what_cannot_be_pushed_is_refused_before_anything_is_sent(push: Pushing, tmp_path: Path) -> None:
    other = tmp_path / "other-1.whl"
    other.write_bytes(b"x")
    for words in (("--wheel", other), ("--wheel", tmp_path / "none.whl"), ("--dataset", "nothing")):
        assert push(*words, code=2)["type"] == "UsageError"
    assert ("space", SPACE) not in push.hub.repos

"""`awm-hub space push` makes a Space in one commit, brings it up to date, and sends nothing twice."""

import hashlib
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
    assert front["datasets"] == ["awm/envs-1k"]
    assert [what for _, what, _ in repo.settings["calls"]].count("variables") == 2  # set once, asked for once
    assert push.text("requirements.txt") == "awm-hub[space]\n"


def test_a_wheel_is_uploaded_beside_the_app_and_replaced_by_the_next(push: Pushing, tmp_path: Path) -> None:
    for version in ("1", "2"):
        wheel = tmp_path / f"awm_hub-{version}-py3-none-any.whl"
        wheel.write_bytes(version.encode())
        assert wheel.name in push("--wheel", wheel)["sent"]
    repo = push.hub.repo(SPACE, "space")
    assert [name for name in repo.head.files if name.endswith(".whl")] == ["awm_hub-2-py3-none-any.whl"]
    address = f"{push.hub.url}/spaces/{SPACE}/resolve/main/awm_hub-2-py3-none-any.whl"
    assert push.text("requirements.txt") == f"awm-hub[space] @ {address}#sha256={hashlib.sha256(b'2').hexdigest()}\n"
    requirement = push.text("requirements.txt")
    wheel.write_bytes(b"the same version, built again")
    assert push("--wheel", wheel)["sent"] == [wheel.name, "requirements.txt"]
    assert push.text("requirements.txt") != requirement
    assert push()["deleted"] == [wheel.name]


def test_what_cannot_be_pushed_is_refused_before_anything_is_sent(push: Pushing, tmp_path: Path) -> None:
    other = tmp_path / "other-1.whl"
    other.write_bytes(b"x")
    for words in (("--wheel", other), ("--wheel", tmp_path / "none.whl"), ("--dataset", "nothing")):
        assert push(*words, code=2)["type"] == "UsageError"
    assert ("space", SPACE) not in push.hub.repos


def test_a_space_of_somebody_else_s_making_is_left_alone(push: Pushing, tmp_path: Path) -> None:
    for name, text in (("app.py", "import streamlit"), ("Dockerfile", "FROM scratch")):
        folder = tmp_path / name
        folder.mkdir()
        (folder / name).write_text(text)
        push.hub.commit_folder(folder, SPACE, "space")
        assert "holds another Space" in push(code=2)["message"]
        assert list(push.hub.repo(SPACE, "space").head.files) == [name]


def test_a_space_that_was_made_by_hand_or_by_an_earlier_version_is_brought_up_to_date(
    push: Pushing, tmp_path: Path
) -> None:
    (tmp_path / "README.md").write_text("---\nsdk: gradio\n---\n")
    push.hub.commit_folder(tmp_path, SPACE, "space")
    assert push()["sent"] == FILES
    (tmp_path / "app.py").write_text("from awm_hub.playground.app import create_app\n")
    push.hub.commit_folder(tmp_path, SPACE, "space")
    assert push()["sent"] == FILES


def test_a_private_space_takes_no_wheel_and_a_public_one_does_not_become_private(push: Pushing, tmp_path: Path) -> None:
    wheel = tmp_path / "awm_hub-1-py3-none-any.whl"
    wheel.write_bytes(b"1")
    assert "cannot download a wheel" in push("--private", "--wheel", wheel, code=2)["message"]
    push("--private")
    assert push.hub.repo(SPACE, "space").private
    assert "cannot download a wheel" in push("--wheel", wheel, code=2)["message"]
    push.hub.repo(SPACE, "space").private = False
    assert "is public" in push("--private", code=2)["message"]


def test_hardware_is_asked_for_only_where_it_is_named(push: Pushing) -> None:
    push()
    calls = push.hub.repo(SPACE, "space").settings["calls"]
    assert all(what != "hardware" for _, what, _ in calls)
    assert push("--hardware", "cpu-upgrade")["hardware"] == "cpu-upgrade"
    assert [asked["flavor"] for _, what, asked in calls if what == "hardware"] == ["cpu-upgrade"]

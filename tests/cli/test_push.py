"""`push`: a dataset folder to the Hub, told to people and to programs."""

import dataclasses
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from loopback_hub import TOKEN, LoopbackHub, loopback_hub

from awm_hub import packing
from awm_hub.environment import Environment, Quality
from awm_hub.publishing import PushReport

__all__ = ["loopback_hub"]


@pytest.fixture
def push(loopback_hub: LoopbackHub, tmp_path: Path) -> Callable[..., "subprocess.CompletedProcess[str]"]:
    """Runs `awm-hub push` on the loopback Hub."""

    def run(*words: object, **more: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "awm_hub", "push", *map(str, words)]
        environ = {**os.environ, **loopback_hub.environ(tmp_path / "hf"), **more}
        return subprocess.run(command, env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=120)

    return run


@pytest.fixture
def out(renamed: Callable[..., Environment], tmp_path: Path) -> Path:
    """A dataset of one audited environment and one that was not audited."""
    a, b = renamed("a_1"), renamed("b_1")
    packing.write_dataset([dataclasses.replace(a, quality=Quality(audited_hash=a.content_hash)), b], tmp_path / "out")
    return tmp_path / "out"


def test_what_is_below_the_bar_is_listed_with_the_reason_and_the_next_step(push, loopback_hub, out):
    done = push(out, "awm/envs")
    assert (done.returncode, loopback_hub.repos) == (1, {})
    assert done.stdout.splitlines() == [
        "against a new repo: 2 added, 0 changed, 0 removed, 0 unchanged",
        "  added: a_1, b_1",
        "",
        "nothing was sent: 1 environment below the bar",
        "id   why",
        "b_1  not audited in its present content",
        f"next: awm-hub audit {out} --write-quality, mend what it finds; or push with --bar none",
    ]


def test_a_dry_run_writes_the_card_to_look_at_and_sends_nothing(push, loopback_hub, out, tmp_path):
    done = push(out, "awm/envs", "--bar", "none", "--dry-run", "--save", "card")
    assert (done.returncode, loopback_hub.repos) == (0, {})
    assert re.search(r"^\d+ files to send \(0\.\d MB\), 0 to delete$", done.stdout, re.MULTILINE)
    assert (tmp_path / "card" / "README.md").read_text().startswith("---\nlanguage:\n- en\n")
    assert (tmp_path / "card" / "plots" / "categories.svg").is_file()


def test_a_push_tells_programs_what_it_did_and_on_stderr_what_it_does(push, loopback_hub, out):
    done = push(out, "awm/envs", "--bar", "none", "--tag", "v1", "--json")
    found = json.loads(done.stdout)
    assert (done.returncode, found["ok"], found["command"]) == (0, True, "push")
    assert set(found["data"]) == {f.name for f in dataclasses.fields(PushReport)}
    events = [json.loads(line) for line in done.stderr.splitlines()]
    assert [e["event"] for e in events] == ["read", "compared", *["uploaded"] * 5, "committed", "tagged"]
    again = push(out, "awm/envs", "--bar", "none", "--tag", "v1")
    commit = loopback_hub.repo("awm/envs").head.id
    assert again.stdout.splitlines()[-3:] == [
        f"nothing to do: commit {commit} holds this already",
        "tagged v1",
        "next: awm-hub list --dataset awm/envs --revision v1",
    ]


def test_a_user_who_may_not_write_is_told_to_log_in_and_no_token_is_shown(push, loopback_hub, out):
    wrong = "hf_wrongwrongwrong"
    done = push(out, "awm/envs", "--bar", "none", HF_TOKEN=wrong)
    assert done.returncode == 5
    assert "next: check the name, and log in with `hf auth login`" in done.stderr
    assert not any(token in done.stdout + done.stderr for token in (wrong, TOKEN))
    assert loopback_hub.repos == {}

"""Datasets that visitors open are opened as the visitor, and what one may see is never given to another."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from loopback_hub import TOKEN, LoopbackHub, loopback_hub
from starlette.testclient import TestClient

from awm_hub.errors import DataError, UsageError
from awm_hub.playground.app import create_app
from awm_hub.playground.settings import PlaygroundSettings
from awm_hub.playground.sources import Sources

__all__ = ["loopback_hub"]
PRIVATE, PUBLIC = "awm/private-envs", "awm/public-envs"
OPENING = """
import asyncio, json, sys
from awm_hub.errors import AwmHubError
from awm_hub.playground.settings import PlaygroundSettings
from awm_hub.playground.sources import Sources

async def main():
    sources = Sources(PlaygroundSettings())
    for name, token in json.load(sys.stdin):
        try:
            found = await sources.open(name, token)
            print(json.dumps([sorted(found), next(iter(found.values())).title]))
        except AwmHubError as error:
            print(json.dumps([type(error).__name__, error.message]))
    sources.close()

asyncio.run(main())
"""


def opened(hub: LoopbackHub, folder: Path, *asked: tuple[str, str | None]) -> list[Any]:
    """What `Sources.open` gave, in a process whose own token may see everything."""
    done = subprocess.run(
        [sys.executable, "-c", OPENING],
        env={**os.environ, **hub.environ(folder), "HF_TOKEN": TOKEN},
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture
def hub(loopback_hub: LoopbackHub, notes_dataset: Path) -> LoopbackHub:
    loopback_hub.commit_folder(notes_dataset, PUBLIC)
    loopback_hub.commit_folder(notes_dataset, PRIVATE)
    loopback_hub.repo(PRIVATE).private = True
    return loopback_hub


def test_a_private_dataset_opens_for_its_owner_alone_before_and_after(hub: LoopbackHub, tmp_path: Path) -> None:
    stranger, nobody = "hf_stranger", None
    found = opened(
        hub, tmp_path, (PRIVATE, nobody), (PRIVATE, TOKEN), (PRIVATE, nobody), (PRIVATE, stranger), (PUBLIC, nobody)
    )
    refused = ["RemoteError", f"there is no dataset {PRIVATE} for you"]
    assert [f[:2] for f in found] == [refused, [["notes"], found[1][1]], refused, refused, [["notes"], found[1][1]]]


def test_names_that_are_no_repo_ids_open_nothing(hub: LoopbackHub, tmp_path: Path) -> None:
    names = ("/etc/passwd", "../x/y", "a", "https://evil.example/a/b", "a/b/c", "", "x" * 200 + "/y")
    assert {kind for kind, _ in opened(hub, tmp_path, *((name, None) for name in names))} == {"UsageError"}


async def test_an_uploaded_file_is_opened_by_its_name_alone_and_anything_else_is_refused(
    notes_dataset: Path, tmp_path: Path
) -> None:
    sources = Sources(PlaygroundSettings())
    (shard,) = notes_dataset.glob("environments/*.parquet")
    name = sources.keep_file(shard)
    assert list(await sources.open(name, None)) == ["notes"]
    with pytest.raises(DataError, match="no longer kept"):
        await sources.open(name[:-1] + "x", None)
    wrong = tmp_path / "wrong.parquet"
    wrong.write_bytes(b"PAR1 nothing")
    for path in (wrong, tmp_path, tmp_path / "absent.parquet", tmp_path / "x.txt"):
        with pytest.raises(DataError):
            sources.keep_file(path)
    sources.close()


def test_settings_are_read_from_the_environment_and_checked() -> None:
    found = PlaygroundSettings.from_environment(
        {
            "AWM_HUB_DATASET": "awm/x",
            "AWM_HUB_CAPACITY": "5",
            "AWM_HUB_IDLE_TIMEOUT": "2.5",
            "SPACE_HOST": "a.hf.space, b.org",
        }
    )
    assert (found.dataset, found.capacity, found.idle_timeout_s, found.host) == ("awm/x", 5, 2.5, "a.hf.space")
    assert found.hosts == ("a.hf.space", "b.org")
    for wrong in ({"CAPACITY": "0"}, {"CAPACITY": "many"}, {"IDLE_TIMEOUT": "0"}, {"TRUST_REMOTE_CODE": "perhaps"}):
        with pytest.raises(UsageError):
            PlaygroundSettings.from_environment({f"AWM_HUB_{name}": value for name, value in wrong.items()})


def test_what_was_downloaded_and_uploaded_is_gone_when_the_playground_ends(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with TestClient(create_app(PlaygroundSettings())):
        assert list(tmp_path.glob("awm-sources-*"))
    assert list(tmp_path.glob("awm-sources-*")) == []

"""Datasets that visitors open are opened as the visitor, and what one may see is never given to another."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from loopback_hub import TOKEN, Blob, LoopbackHub, loopback_hub
from starlette.testclient import TestClient

from awm_hub.errors import DataError, UsageError
from awm_hub.playground import sources as module
from awm_hub.playground.app import create_app
from awm_hub.playground.settings import PlaygroundSettings
from awm_hub.playground.sources import Sources

__all__ = ["loopback_hub"]
PRIVATE, PUBLIC = "awm/private-envs", "awm/public-envs"
SHARD = "environments/train-00000-of-00001.parquet"
REFUSED = ["RemoteError", f"there is no dataset {PRIVATE} for you"]
OPENING = """
import asyncio, json, sys
from awm_hub.errors import AwmHubError
from awm_hub.playground import sources as module
from awm_hub.playground.settings import PlaygroundSettings

for name, value in json.loads(sys.argv[1]).items():
    setattr(module, name, value)

async def answer(sources, name, token):
    try:
        if name.startswith("/"):
            return sources.keep_file(name)
        found = await sources.open(name, token)
        return [list(found), next(iter(found.values())).title, found.source, found.revision]
    except AwmHubError as error:
        return [type(error).__name__, error.message]

async def main():
    sources = module.Sources(PlaygroundSettings())
    for line in sys.stdin:
        print(json.dumps(await answer(sources, *json.loads(line))), flush=True)
    sources.close()

asyncio.run(main())
"""
BESIDE = """
import asyncio, json, threading
import huggingface_hub
from awm_hub.playground.settings import PlaygroundSettings
from awm_hub.playground.sources import Sources

downloads, began, goes_on, download = [], threading.Event(), threading.Event(), huggingface_hub.snapshot_download

def waiting(name, **how):
    downloads.append(name)
    if name == "awm/private-envs":
        began.set()
        assert goes_on.wait(60)
    return download(name, **how)

huggingface_hub.snapshot_download = waiting

async def main():
    sources = Sources(PlaygroundSettings())
    slow = [asyncio.create_task(sources.open("awm/private-envs", "hf_loopback")) for _ in range(20)]
    assert await asyncio.to_thread(began.wait, 60)
    other = await asyncio.wait_for(sources.open("awm/public-envs", None), 60)
    slow[0].cancel()  # a visitor who leaves
    before = sum(task.done() for task in slow)
    goes_on.set()
    found = await asyncio.gather(*slow[1:])
    print(json.dumps([list(other), before, len({id(f) for f in found}), sorted(downloads)]))

asyncio.run(main())
"""


def environ(hub: LoopbackHub, folder: Path) -> dict[str, str]:
    """Of a machine whose own token may see everything."""
    (folder / "tmp").mkdir(exist_ok=True)
    return {**os.environ, **hub.environ(folder / "hf"), "HF_TOKEN": TOKEN, "TMPDIR": str(folder / "tmp")}


def folders(place: Path) -> list[Path]:
    """Of the datasets that are kept on the disk."""
    return list(place.glob("awm-sources-*/*"))


Opening = Callable[..., Any]


@pytest.fixture
def opening(hub: LoopbackHub, tmp_path: Path) -> Iterator[Callable[..., Opening]]:
    """Starts a playground's `Sources` in a process of its own; gives what tells it to open, and its answer."""
    running: list[subprocess.Popen[str]] = []

    def start(**limits: float) -> Opening:
        line = [sys.executable, "-c", OPENING, json.dumps(limits)]
        pipe = subprocess.PIPE
        process = subprocess.Popen(line, cwd=tmp_path, env=environ(hub, tmp_path), stdin=pipe, stdout=pipe, text=True)
        running.append(process)

        def ask(name: str, token: str | None = None) -> Any:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps([name, token]) + "\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        return ask

    yield start
    for process in running:
        process.communicate(timeout=60)
        assert process.returncode == 0
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.fixture
def hub(loopback_hub: LoopbackHub, notes_dataset: Path) -> LoopbackHub:
    loopback_hub.commit_folder(notes_dataset, PUBLIC)
    loopback_hub.commit_folder(notes_dataset, PRIVATE)
    loopback_hub.repo(PRIVATE).private = True
    return loopback_hub


@pytest.fixture
def upload(notes_dataset: Path, tmp_path: Path) -> Path:
    """As the server has it."""
    return Path(shutil.copyfile(notes_dataset / SHARD, tmp_path / "mine.parquet"))


@pytest.fixture
def sources(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Sources]:
    """Whose folders lie in `tmp_path`."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    found = Sources(PlaygroundSettings())
    yield found
    found.close()


def test_a_private_dataset_opens_for_its_owner_alone_before_and_after(opening: Any, hub: LoopbackHub) -> None:
    ask = opening()
    assert ask(PRIVATE) == REFUSED
    own = ask(PRIVATE, TOKEN)
    assert own == [["notes"], own[1], f"hf://datasets/{PRIVATE}", hub.repo(PRIVATE).head.id]
    assert [ask(PRIVATE), ask(PRIVATE, "hf_stranger")] == [REFUSED] * 2
    assert ask(PUBLIC)[:2] == own[:2]


def test_what_the_machine_has_in_its_own_cache_or_folder_is_given_to_nobody(
    opening: Any, hub: LoopbackHub, notes_dataset: Path, tmp_path: Path
) -> None:
    shutil.copytree(notes_dataset, tmp_path / PRIVATE)
    loading = f"import awm_hub; print(len(awm_hub.load('hf://datasets/{PRIVATE}')['notes'].tasks))"
    subprocess.run([sys.executable, "-c", loading], env=environ(hub, tmp_path), check=True, timeout=60)
    ask = opening()
    assert [ask(PRIVATE), ask(PRIVATE, "hf_stranger")] == [REFUSED] * 2


def test_the_hub_is_asked_once_a_minute_for_each_visitor(opening: Any, hub: LoopbackHub) -> None:
    def asked(*visitors: str | None, permitted_s: float) -> int:
        ask, before = opening(_PERMITTED_S=permitted_s), len(hub.traffic)
        assert {ask(PUBLIC, visitor)[0][0] for visitor in visitors} == {"notes"}
        return sum(t.path == f"/api/datasets/{PUBLIC}" for t in hub.traffic[before:])

    assert asked(None, None, "hf_other", None, "hf_other", permitted_s=3600) == 2
    assert asked(None, None, None, permitted_s=0) == 3


def test_what_became_private_is_refused_after_that_minute_and_a_new_commit_is_opened(
    opening: Any, hub: LoopbackHub, tmp_path: Path
) -> None:
    ask = opening(_PERMITTED_S=0)
    first = ask(PUBLIC)
    sent = hub.sent(".parquet")
    assert ask(PUBLIC) == first
    assert hub.sent(".parquet") == sent > 0
    hub.repo(PUBLIC).commit("more", {**hub.repo(PUBLIC).head.files, "more.txt": Blob(data=b"more")})
    assert ask(PUBLIC) == [*first[:3], hub.repo(PUBLIC).head.id]
    assert len(folders(tmp_path / "tmp")) == 1
    hub.repo(PUBLIC).private = True
    assert ask(PUBLIC) == ["RemoteError", f"there is no dataset {PUBLIC} for you"]


def test_a_download_holds_nobody_else_up_and_is_made_once_for_all_who_wait(hub: LoopbackHub, tmp_path: Path) -> None:
    line = [sys.executable, "-c", BESIDE]
    done = subprocess.run(line, env=environ(hub, tmp_path), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [["notes"], 0, 1, [PRIVATE, PUBLIC]]


def test_datasets_of_the_hub_are_let_go_without_an_upload(opening: Any, upload: Path, tmp_path: Path) -> None:
    ask = opening(MAX_DATASETS=2)
    name = ask(str(upload))
    for visitor in range(5):
        assert ask(PUBLIC, f"hf_{visitor}")[0] == ["notes"]
    assert len(folders(tmp_path / "tmp")) == 3
    assert ask(name)[0] == ["notes"]


def test_what_is_too_large_or_no_dataset_is_told_and_leaves_nothing(
    opening: Any, hub: LoopbackHub, tmp_path: Path
) -> None:
    hub.create("awm/empty").commit("files", {"README.md": Blob(data=b"empty")})
    hub.create("awm/broken").commit("files", {"index.parquet": Blob(data=b"PAR1nothingPAR1")})
    ask = opening(MAX_ENVIRONMENTS=0)
    found = [ask(name) for name in ("awm/empty", "awm/broken", PUBLIC)]
    assert [kind for kind, _ in found] == ["DataError", "RecordError", "LimitError"]
    assert folders(tmp_path / "tmp") == []
    sent = hub.sent(".parquet")
    assert opening(MAX_DATASET_BYTES=1_000)(PUBLIC)[0] == "UsageError"
    assert hub.sent(".parquet") == sent


def test_an_index_leads_to_no_file_that_was_not_counted(
    opening: Any, hub: LoopbackHub, notes_dataset: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(notes_dataset, tmp_path / "elsewhere"))
    shutil.copytree(folder / "environments", folder / "other")
    table = pq.read_table(folder / "index.parquet")
    rows = [{**row, "file": row["file"].replace("environments/", "other/")} for row in table.to_pylist()]
    pq.write_table(table.from_pylist(rows, schema=table.schema), folder / "index.parquet")
    hub.commit_folder(folder, "awm/elsewhere")
    found = ["RecordError", "the index of awm/elsewhere names files that hold no environments"]
    assert opening()("awm/elsewhere") == found
    assert folders(tmp_path / "tmp") == []


def test_names_that_are_no_repo_ids_open_nothing(opening: Any) -> None:
    ask = opening()
    names = ("../x/y", "a", "https://evil.example/a/b", "a/b/c", "", "x" * 200 + "/y", "./etc/passwd")
    assert {ask(name)[0] for name in names} == {"UsageError"}


async def test_an_uploaded_file_is_opened_by_its_name_alone_and_anything_else_is_refused(
    sources: Sources, upload: Path, tmp_path: Path
) -> None:
    name = sources.keep_file(upload)
    found = await sources.open(name, None)
    assert (list(found), found.source, found["notes"].id) == (["notes"], "mine.parquet", "notes")
    with pytest.raises(DataError, match="no longer kept"):
        await sources.open(name[:-1] + "x", None)
    wrong = tmp_path / "wrong.parquet"
    wrong.write_bytes(b"PAR1 nothing")
    for path in (wrong, tmp_path, tmp_path / "absent.parquet", tmp_path / "x.txt"):
        with pytest.raises(DataError) as caught:
            sources.keep_file(path)
        assert str(tmp_path) not in str(caught.value)


async def test_a_dataset_that_was_let_go_is_readable_for_whoever_uses_it_and_then_gone(
    sources: Sources, upload: Path, tmp_path: Path
) -> None:
    first = sources.keep_file(upload)
    used = await sources.open(first, None)
    others = [sources.keep_file(upload) for _ in range(module.MAX_UPLOADS)]
    with pytest.raises(DataError, match="no longer kept") as caught:
        await sources.open(first, None)
    assert caught.value.next_step == "upload the file again, or open another dataset"
    assert used["notes"].id == "notes"
    assert len(folders(tmp_path)) == module.MAX_UPLOADS + 1
    del used
    assert len(folders(tmp_path)) == module.MAX_UPLOADS
    assert all([list(await sources.open(name, None)) == ["notes"] for name in others])


async def test_uploads_are_kept_within_a_size_the_last_used_ones_first(
    monkeypatch: pytest.MonkeyPatch, upload: Path, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(module, "MAX_UPLOADS_BYTES", 2 * upload.stat().st_size)
    sources = Sources(PlaygroundSettings())
    first, second = sources.keep_file(upload), sources.keep_file(upload)
    await sources.open(first, None)
    third = sources.keep_file(upload)
    assert [len(await sources.open(name, None)) for name in (first, third)] == [1, 1]
    with pytest.raises(DataError, match="no longer kept"):
        await sources.open(second, None)
    sources.close()


async def test_files_can_be_uploaded_from_several_threads(sources: Sources, upload: Path, tmp_path: Path) -> None:
    together = threading.Barrier(8)

    def keep(_: int) -> list[str]:
        together.wait()
        return [sources.keep_file(upload) for _ in range(12)]

    with ThreadPoolExecutor(8) as threads:
        names = [name for found in threads.map(keep, range(8)) for name in found]
    assert len(set(names)) == 96
    opened = await asyncio.gather(*(sources.open(name, None) for name in names), return_exceptions=True)
    assert sum(isinstance(found, DataError) for found in opened) == 96 - module.MAX_UPLOADS
    del opened
    assert len(folders(tmp_path)) == module.MAX_UPLOADS


async def test_an_expired_sign_in_is_told_and_uploads_open_without_one(sources: Sources, upload: Path) -> None:
    import gradio as gr
    from starlette.requests import Request

    from awm_hub.playground.ui.hall import Hall, token_of
    from awm_hub.playground.ui.links import Place
    from awm_hub.playground.visits import Visits

    def visitor(**info: Any) -> gr.Request:
        return gr.Request(request=Request({"type": "http", "headers": [], "session": {"oauth_info": info}}))

    assert token_of(gr.Request(request=Request({"type": "http", "headers": []}))) is None
    assert token_of(visitor()) is None
    assert token_of(visitor(access_token="hf_x", expires_at=time.time() + 600)) == "hf_x"
    expired = visitor(access_token="hf_x", expires_at=int(time.time()) - 1)
    hall = Hall(settings=PlaygroundSettings(), visits=Visits(capacity=1, idle_timeout_s=1), sources=sources)
    with pytest.raises(UsageError, match="your sign-in has expired\n  next: reload the page and sign in again"):
        await hall.environments(Place(dataset=PRIVATE), expired)
    assert await hall.environments(Place(), expired) is sources.default
    assert list(await hall.environments(Place(dataset=sources.keep_file(upload)), expired)) == ["notes"]


def test_the_playgrounds_own_dataset_is_downloaded_whole_as_its_owner(hub: LoopbackHub, tmp_path: Path) -> None:
    program = OPENING.replace("PlaygroundSettings()", f"PlaygroundSettings(dataset={PRIVATE!r})").replace(
        "for line in sys.stdin:", "print(list(sources.default.columns(['description']))[0]['id'])\n    for line in ():"
    )
    command = [sys.executable, "-c", program, "{}"]
    done = subprocess.run(command, cwd=tmp_path, env=environ(hub, tmp_path), capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.returncode) == ("notes\n", 0), done.stderr
    shards = [t for t in hub.traffic if t.path.endswith(SHARD) and t.method == "GET"]
    assert [t.status for t in shards] == [200]


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

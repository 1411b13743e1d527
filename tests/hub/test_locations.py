import time

import pytest

import awm_hub
from awm_hub import packing
from awm_hub.errors import DataError, SourceError, UsageError
from awm_hub.hub.locations import shards

REPO = "awm/envs-1k"
NOWHERE = "http://127.0.0.1:9"

PROGRAM = """
import json, sys
import awm_hub
from awm_hub.errors import AwmHubError
for source, revision, read in json.loads(sys.argv[1]):
    try:
        environments = awm_hub.load(source, revision=revision)
        found = {"source": environments.source, "revision": environments.revision, "ids": list(environments)}
        found["read"] = [environments[i].id for i in read]
        print(json.dumps(found))
    except AwmHubError as error:
        print(json.dumps({"error": type(error).__name__, "message": str(error), "exit_code": error.exit_code}))
"""


def wanted(source, revision=None, read=()):
    return source, revision, list(read)


@pytest.fixture
def load(run_program):
    """Calls `awm_hub.load` in a process of its own."""

    def run(*requests, url, is_offline=False):
        found = run_program(PROGRAM, requests, url=url, is_offline=is_offline)
        run.stderr = run_program.stderr
        return found

    return run


def test_a_dataset_is_loaded_from_the_hub_and_then_from_its_cache(hub, load):
    commit = hub.repo(REPO).head.id
    uri = f"hf://datasets/{REPO}"
    expected = {"source": REPO, "revision": commit, "ids": ["a_1", "garden_1"], "read": ["garden_1"]}
    online = load(wanted(REPO, read=["garden_1"]), wanted(uri, read=["a_1"]), url=hub.url)
    assert online == [expected, {**expected, "source": uri, "read": ["a_1"]}]
    assert load(wanted(REPO, read=["garden_1"]), url=NOWHERE, is_offline=True) == [expected]


def test_a_revision_is_pinned_to_its_commit(hub, load, renamed, tmp_path):
    first = hub.repo(REPO).head.id
    packing.write_dataset([renamed("b_2")], tmp_path / "second")
    second = hub.commit_folder(tmp_path / "second", REPO)
    found = load(wanted(REPO), wanted(REPO, first, ["a_1"]), wanted(f"hf://datasets/{REPO}@{first}"), url=hub.url)
    assert [(f["revision"], f["ids"]) for f in found] == [
        (second, ["b_2"]),
        (first, ["a_1", "garden_1"]),
        (first, ["a_1", "garden_1"]),
    ]
    (offline,) = load(wanted(REPO, "main"), url=NOWHERE, is_offline=True)
    assert (offline["revision"], offline["ids"]) == (second, ["b_2"])


def test_a_dataset_without_an_index_is_read_from_its_shards(hub, load, written):
    folder = written("a_1", "garden_1")
    (folder / "index.parquet").unlink()
    commit = hub.commit_folder(folder, REPO)
    (found,) = load(wanted(REPO, read=["a_1"]), url=hub.url)
    assert (found["revision"], found["ids"], found["read"]) == (commit, ["garden_1", "a_1"], ["a_1"])


def test_what_the_hub_does_not_have_is_a_remote_error(hub, load):
    absent, revision = load(wanted("awm/absent"), wanted(REPO, "nope"), url=hub.url)
    assert (absent["error"], absent["exit_code"]) == ("RemoteError", 5)
    message = "there is no folder awm/absent here, and the Hub has no dataset awm/absent, or it is private"
    assert absent["message"].startswith(message)
    assert (revision["error"], revision["exit_code"]) == ("RemoteError", 5)
    assert "awm/envs-1k has no revision 'nope'" in revision["message"]


def test_offline_with_an_empty_cache_says_so_at_once(load):
    started = time.monotonic()
    (found,) = load(wanted(REPO), url=NOWHERE, is_offline=True)
    assert time.monotonic() - started < 10
    assert (found["error"], found["exit_code"]) == ("RemoteError", 5)
    assert (
        "offline, and awm/envs-1k: index.parquet is not in the cache\n  next: load it once online" in found["message"]
    )


def test_a_shard_missing_from_the_cache_is_named_and_others_still_work(hub, load, tmp_path):
    load(wanted(REPO, read=["a_1", "garden_1"]), url=hub.url)
    next((tmp_path / "hf").rglob("train-00000-of-00001.parquet")).unlink()
    there, missing = load(wanted(REPO, read=["garden_1"]), wanted(REPO, read=["a_1"]), url=NOWHERE, is_offline=True)
    assert there["read"] == ["garden_1"]
    assert missing["error"] == "RemoteError"
    assert "environments/train-00000-of-00001.parquet is not in the cache" in missing["message"]


def test_a_hub_that_does_not_answer_is_a_remote_error_at_once_and_said_once(load):
    started = time.monotonic()
    paths = load(wanted(REPO), wanted(f"hf://datasets/{REPO}"), url=NOWHERE)
    assert time.monotonic() - started < 10
    assert [(found["error"], found["exit_code"]) for found in paths] == [("RemoteError", 5)] * 2
    reached = f"the Hub did not give {REPO}: index.parquet ([Errno 111] Connection refused)"
    assert [found["message"].splitlines()[0] for found in paths] == [
        f"there is no folder {REPO} here, and {reached}",
        reached,
    ]
    assert load.stderr == ""


@pytest.mark.parametrize("source", [None, "."])
def test_a_local_dataset_has_no_revisions(source, dataset, monkeypatch):
    monkeypatch.chdir(dataset)
    with pytest.raises(UsageError, match="has no revisions: it is on this machine"):
        awm_hub.load(source, revision="main")


def test_two_revisions_that_disagree_are_a_usage_error():
    with pytest.raises(UsageError, match="and the revision 'main' disagree"):
        awm_hub.load(f"hf://datasets/{REPO}@v1", revision="main")


def test_a_dataset_without_a_name_is_a_usage_error():
    with pytest.raises(UsageError, match="the dataset has an empty name"):
        awm_hub.load("")


def test_a_folder_of_the_same_name_that_is_no_dataset_is_not_mistaken_for_one(tmp_path, monkeypatch):
    (tmp_path / "awm" / "envs-1k" / "checkpoint-10").mkdir(parents=True)
    (tmp_path / "awm" / "envs-1k" / "checkpoint-10" / "trainer_state.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match="awm/envs-1k is a folder here, and no dataset") as caught:
        awm_hub.load(REPO)
    assert caught.value.next_step == "say `./awm/envs-1k` for the folder or `hf://datasets/awm/envs-1k` for the dataset"
    with pytest.raises(DataError, match="holds no dataset"):
        awm_hub.load("./awm/envs-1k")


def test_a_local_dataset_wins_over_the_hub(written, tmp_path, monkeypatch):
    written("a_1").rename(tmp_path / "envs")
    monkeypatch.chdir(tmp_path.parent)
    name = f"{tmp_path.name}/envs"
    environments = awm_hub.load(name)
    assert (environments.source, list(environments)) == (name, ["a_1"])


def test_a_folder_of_sources_says_how_to_pack_it(notes_source):
    for folder in (notes_source, notes_source.parent):
        with pytest.raises(SourceError, match=rf"holds sources\n  next: `awm-hub pack {folder} -o OUT`, then load OUT"):
            awm_hub.load(folder)


def test_shards_are_those_of_the_environments_config():
    files = ["index.parquet", "tasks/train-0.parquet", "environments/train-0.parquet", "environments/a/b.parquet"]
    assert shards([*files, "other.parquet"]) == ["environments/train-0.parquet"]
    assert shards(["index.parquet", "other.parquet", "tasks/x.parquet"]) == ["other.parquet"]

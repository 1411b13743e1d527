"""The loopback Hub answers the real client as the Hub does; in a process of its own, which reads its settings anew."""

import urllib.request

import pytest
from loopback_hub import TOKEN

REPO = "awm/pushed"

PUSHING = """
import json
from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi
from huggingface_hub.errors import HfHubHTTPError
api = HfApi()
repo, shard = dict(repo_id="awm/pushed", repo_type="dataset"), "environments/a.parquet"
found = {"name": api.whoami()["name"], "before": api.repo_exists(**repo)}
api.create_repo(**repo, private=True)
api.create_repo(**repo, exist_ok=True)
adding = [
    CommitOperationAdd("README.md", b"---\\ntags: [rl-environment]\\n---\\n# Hello"),
    CommitOperationAdd(shard, b"PAR1" * 1000),
]
api.preupload_lfs_files(**repo, additions=adding[1:])
first = api.create_commit(**repo, operations=adding, commit_message="first")
api.create_tag(**repo, tag="v1")
second = api.create_commit(
    **repo, operations=[CommitOperationDelete("README.md")], commit_message="second", parent_commit=first.oid
)
late = [CommitOperationAdd("x", b"x")]
try:
    api.create_commit(**repo, operations=late, commit_message="late", parent_commit=first.oid)
except HfHubHTTPError as error:
    found["late"] = error.response.status_code
refs = api.list_repo_refs(**repo)
found |= {
    "commits": [c.title for c in api.list_repo_commits(**repo)],
    "tag": refs.tags[0].target_commit == first.oid,
    "head": refs.branches[0].target_commit == second.oid,
    "files": api.list_repo_files(**repo),
    "tagged": sorted(api.list_repo_files(**repo, revision="v1")),
    "tree": {e.path: getattr(e, "size", None) for e in api.list_repo_tree(**repo, recursive=True, revision="v1")},
    "infos": [(f.path, f.size, f.lfs is not None) for f in api.get_paths_info(**repo, paths=[shard])],
    "tags": api.dataset_info("awm/pushed", revision="v1", files_metadata=True).tags,
    "private": api.dataset_info("awm/pushed").private,
    "content": open(api.hf_hub_download(**repo, filename=shard, revision="v1"), "rb").read(8).decode(),
    "listed": [d.id for d in api.list_datasets(filter="rl-environment")],
}
print(json.dumps(found))
"""

SPACE = """
import json
from huggingface_hub import HfApi
api = HfApi()
api.create_repo("awm/play", repo_type="space", space_sdk="gradio")
api.upload_file(
    repo_id="awm/play", repo_type="space", path_or_fileobj=b"---\\nsdk: gradio\\n---\\n", path_in_repo="README.md"
)
api.add_space_secret("awm/play", "KEY", "hidden")
api.add_space_variable("awm/play", "MODE", "plain")
stage = api.restart_space("awm/play").stage
variables = {k: v.value for k, v in api.get_space_variables("awm/play").items()}
print(json.dumps([stage, variables, api.get_space_runtime("awm/play").hardware, api.space_info("awm/play").sdk]))
"""


@pytest.fixture
def client(loopback_hub, run_program):
    """Runs a program that uses the Hub, and gives what it prints."""
    return lambda program: run_program(program, url=loopback_hub.url)[0]


def test_a_dataset_is_created_committed_tagged_and_read_back(loopback_hub, client):
    assert client(PUSHING) == {
        "name": "awm",
        "before": False,
        "late": 412,
        "commits": ["second", "first", "initial commit"],
        "tag": True,
        "head": True,
        "files": [".gitattributes", "environments/a.parquet"],
        "tagged": [".gitattributes", "README.md", "environments/a.parquet"],
        "tree": {".gitattributes": 21, "README.md": 38, "environments": None, "environments/a.parquet": 4000},
        "infos": [["environments/a.parquet", 4000, True]],
        "tags": ["rl-environment"],
        "private": True,
        "content": "PAR1PAR1",
        "listed": [],
    }
    assert loopback_hub.sent("a.parquet") == 4000
    assert {t.received for t in loopback_hub.traffic if t.path.startswith("/_uploads/")} == {4000}


def test_a_space_is_created_and_set_up(loopback_hub, client):
    assert client(SPACE) == ["RUNNING", {"MODE": "plain"}, "cpu-basic", "gradio"]
    settings = loopback_hub.repo("awm/play", "space").settings
    assert settings["secrets"]["KEY"]["value"] == "hidden"


def test_a_private_dataset_is_for_those_who_are_logged_in(loopback_hub, tmp_path):
    (tmp_path / "README.md").write_text("hello")
    loopback_hub.commit_folder(tmp_path, REPO)
    loopback_hub.repo(REPO).private = True
    request = urllib.request.Request(f"{loopback_hub.url}/datasets/{REPO}/resolve/main/README.md")
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(request)
    request.add_header("Authorization", f"Bearer {TOKEN}")
    assert urllib.request.urlopen(request).read() == b"hello"


@pytest.mark.parametrize(
    ("asked", "expected"), [("bytes=2-5", b"2345"), ("bytes=6-", b"6789"), ("bytes=-3", b"789"), ("bytes=8-99", b"89")]
)
def test_ranges_of_a_file_are_sent_and_counted(loopback_hub, tmp_path, asked, expected):
    (tmp_path / "data.parquet").write_bytes(b"0123456789")
    loopback_hub.commit_folder(tmp_path, REPO)
    request = urllib.request.Request(f"{loopback_hub.url}/datasets/{REPO}/resolve/main/data.parquet")
    request.add_header("Range", asked)
    with urllib.request.urlopen(request) as answer:
        assert (answer.status, answer.read()) == (206, expected)
    assert [(t.status, t.sent, t.range) for t in loopback_hub.traffic] == [(302, 0, asked), (206, len(expected), asked)]


def test_an_interrupted_request_does_nothing(loopback_hub, client):
    loopback_hub.interrupt = lambda method, path: path.endswith("/commit/main")
    with pytest.raises(AssertionError, match="503"):
        client(PUSHING)
    assert [c.title for c in loopback_hub.repo(REPO).log("main")] == ["initial commit"]

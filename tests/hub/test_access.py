"""As whom the Hub is asked, and that a cache of one's own is neither filled nor read for others."""

import json

import pytest
from loopback_hub import TOKEN

REPO = "awm/envs-1k"
NOWHERE = "http://127.0.0.1:9"
READ = [["a_1", "garden_1"], "a_1"]
PROGRAM = """
import json, sys
import awm_hub, awm_hub.hub.locations
from awm_hub.errors import AwmHubError
whole_bytes, asked = json.loads(sys.argv[1])
awm_hub.hub.locations._WHOLE_BYTES = whole_bytes
for access in asked:
    try:
        environments = awm_hub.load("hf://datasets/awm/envs-1k", **access)
        print(json.dumps([list(environments), environments["a_1"].id]))
    except AwmHubError as error:
        print(json.dumps(type(error).__name__))
"""


@pytest.fixture(params=["by ranges", "whole", "without an index"])
def load(request, hub, written, run_program):
    """Loads a private dataset in a process of its own, once for each access; its machine's login is `login`."""
    if request.param == "without an index":
        folder = written("a_1", "garden_1")
        (folder / "index.parquet").unlink()
        hub.commit_folder(folder, REPO)
    hub.repo(REPO).private = True

    def run(*asked, login="", url=None, is_offline=False):
        settings = [0 if request.param == "by ranges" else 2**20, asked]
        found = run_program(PROGRAM, settings, url=url or hub.url, is_offline=is_offline, HF_TOKEN=login)
        return [[sorted(f[0]), f[1]] if isinstance(f, list) else f for f in found]

    run.has_index = request.param != "without an index"
    return run


def test_a_private_dataset_is_given_for_the_token_that_was_named(load):
    assert load({"token": TOKEN}) == [READ]
    assert load({"token": TOKEN}, login="hf_other") == [READ]


def test_without_a_token_the_machine_s_login_is_used_and_false_is_nobody_s(load, tmp_path):
    asked = [{"cache_dir": str(tmp_path / name), "token": token} for name, token in (("a", None), ("b", False))]
    assert load(*asked, login=TOKEN) == [READ, "RemoteError"]
    assert load({"token": "hf_other", "cache_dir": str(tmp_path / "c")}, login=TOKEN) == ["RemoteError"]


def test_a_cache_of_one_s_own_works_offline_and_gives_nothing_to_others(load, tmp_path):
    own, other = str(tmp_path / "own"), str(tmp_path / "other")
    assert load({"token": TOKEN, "cache_dir": own}) == [READ]
    if load.has_index:  # without one, the Hub is asked which files there are
        assert load({"cache_dir": own}, url=NOWHERE, is_offline=True) == [READ]
    assert load({"cache_dir": other}, {}, url=NOWHERE, is_offline=True) == ["RemoteError", "RemoteError"]
    assert load({"cache_dir": other, "token": False}, {"token": False}, login=TOKEN) == ["RemoteError", "RemoteError"]
    assert list((tmp_path / "hf").rglob("*envs-1k*")) == []


def test_a_cache_of_one_s_own_that_was_filled_beforehand_is_read_from(hub, run_program, tmp_path):
    own = str(tmp_path / "own")
    filling = f"import huggingface_hub as h; h.snapshot_download({REPO!r}, repo_type='dataset', cache_dir={own!r})"
    run_program(filling, url=hub.url)
    hub.traffic.clear()
    access = {"cache_dir": own, "revision": hub.repo(REPO).head.id}
    assert run_program(PROGRAM, [0, [access]], url=hub.url) == [READ]
    assert [t.path for t in hub.traffic if REPO in t.path] == []
    assert run_program(PROGRAM, [0, [{"cache_dir": own}]], url=NOWHERE, is_offline=True) == [READ]


def test_a_token_is_in_no_text_that_is_shown(hub, run_program):
    program = """
import json, awm_hub
from awm_hub.errors import AwmHubError
from awm_hub.hub.locations import Access
found = awm_hub.load("hf://datasets/awm/envs-1k", token="hf_secret")
print(json.dumps([repr(found), repr(Access(token="hf_secret"))]))
try:
    awm_hub.load("hf://datasets/awm/absent", token="hf_secret")
except AwmHubError as error:
    print(json.dumps(str(error)))
"""
    assert "hf_secret" not in json.dumps(run_program(program, url=hub.url))

"""A push is one commit that the real clients read, says what it changes, and refuses what should not be published."""

import dataclasses
import json
import subprocess

import pytest

from awm_hub.card import facts_of
from awm_hub.environment import Provenance
from awm_hub.hub import load
from awm_hub.publishing import below_bar

REPO = "awm/pushed"
NAMES = ["a_1", "garden_1"]

PUSHING = """
import dataclasses, json, sys
from awm_hub.errors import AwmHubError
from awm_hub.publishing import push
for line in sys.stdin:
    try:
        print(json.dumps(dataclasses.asdict(push(**json.loads(line)))), flush=True)
    except AwmHubError as error:
        print(json.dumps([type(error).__name__, error.message]), flush=True)
"""
READING = """
import json
import awm_hub as awm
from datasets import load_dataset
environments = awm.load("awm/pushed", revision="v1")
rows = [r["id"] for part in load_dataset("awm/pushed").values() for r in part]
tasks = {r["environment_id"] for part in load_dataset("awm/pushed", "tasks").values() for r in part}
hashes = {name: e.content_hash for name, e in environments.items()}
print(json.dumps([sorted(rows), sorted(tasks), hashes, environments.revision]))
"""
EXAMPLES = """
import re
from pathlib import Path
from huggingface_hub import hf_hub_download
readme = Path(hf_hub_download("awm/pushed", "README.md", repo_type="dataset")).read_text()
for program in re.findall(r"```python\\n(.*?)```", readme, re.DOTALL):
    exec(program, {})
"""


@pytest.fixture
def pushes(start):
    """Makes pushes one after the other, in one process; their reports, or errors as type and message."""
    process = start(["-c", PUSHING], stdin=subprocess.PIPE)

    def run(*pushes):
        found = []
        for out, more in pushes:
            process.stdin.write(json.dumps({"out": str(out), "repo_id": REPO, **more}) + "\n")
            process.stdin.flush()
            found.append(json.loads(process.stdout.readline() or "null"))
        return found

    yield run
    _, err = process.communicate(timeout=300)
    assert process.returncode == 0, err


def test_a_pushed_dataset_is_read_by_datasets_and_by_load(loopback_hub, pushes, run_program, written, audited):
    out = written("out", *map(audited, NAMES))
    (report,) = pushes((out, {"tag": "v1"}))
    repo = loopback_hub.repo(REPO)
    assert report["changes"] == {"added": NAMES, "removed": [], "changed": [], "unchanged": 0}
    assert (report["commit"], report["parent"], report["below"]) == (repo.head.id, None, [])
    titles = [c.title for c in repo.log("main")]
    assert titles == ["2 environments: 2 added, 0 changed, 0 removed, 0 unchanged", "initial commit"]
    assert sorted(p for p in repo.head.files if not p.startswith(("loaders/", "plots/"))) == [
        ".gitattributes",
        "README.md",
        "environment.yaml",
        "environments/test-00000-of-00001.parquet",
        "environments/train-00000-of-00001.parquet",
        "index.parquet",
        "tasks/test-00000-of-00001.parquet",
        "tasks/train-00000-of-00001.parquet",
    ]
    assert {"loaders/serve_mcp.py", "plots/audit.svg", "plots/categories.svg"} <= set(repo.head.files)
    hashes = {name: e.content_hash for name, e in load(out).entries.items()}
    assert run_program(READING) == [[NAMES, NAMES, hashes, repo.head.id]]


def test_the_programs_of_the_card_run(pushes, start, written, audited):
    pushes((written("out", *map(audited, NAMES)), {}))
    process = start(["-c", EXAMPLES])
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert out.splitlines()[0] == "COMPLETED"


def test_a_push_says_what_it_changes_and_repeating_it_changes_nothing(loopback_hub, pushes, written, audited):
    before = written("before", *map(audited, ["a_1", "b_1", "c_1"]))
    after = written("after", audited("a_1"), audited("b_1", rules="Be brief."), audited("d_1"))
    first, again, dry, second, third, late = pushes(
        (before, {"tag": "v1"}),
        (before, {"tag": "v1"}),
        (after, {"is_dry_run": True}),
        (after, {"tag": "v2", "removes": True}),
        (after, {"tag": "v3"}),
        (before, {"tag": "v1"}),
    )
    repo = loopback_hub.repo(REPO)
    assert (again["commit"], again["sent"], again["deleted"]) == (first["commit"], [], [])
    changes = {"added": ["d_1"], "removed": ["c_1"], "changed": ["b_1"], "unchanged": 1}
    assert (dry["changes"], dry["commit"], dry["parent"]) == (changes, None, first["commit"])
    assert (second["changes"], second["parent"]) == (changes, first["commit"])
    assert second["sent"] == dry["sent"] != []
    assert repo.head.message == "added: d_1\n\nchanged: b_1\n\nremoved: c_1"
    assert third["commit"] == second["commit"] == repo.head.id
    assert late == ["UsageError", "the tag v1 names another state already"]
    assert repo.head.title == "3 environments: 1 added, 1 changed, 1 removed, 1 unchanged"
    assert len(list(repo.log("main"))) == 3
    tags = {name.rpartition("/")[2]: commit for name, commit in repo.refs.items() if "tags" in name}
    assert tags == {"v1": first["commit"], "v2": second["commit"], "v3": second["commit"]}


def test_files_that_a_release_no_longer_has_are_deleted_and_those_of_others_stay(
    loopback_hub, pushes, written, audited, tmp_path
):
    pushes((written("both", *map(audited, NAMES)), {}))
    repo = loopback_hub.repo(REPO)
    own = repo.head.files["README.md"]
    repo.commit("by hand", {**repo.head.files, "notes/read.me": own, "loaders/old.py": own})
    (report,) = pushes((written("one", audited("a_1")), {"removes": True}))
    gone = ["environments/test-00000-of-00001.parquet", "loaders/old.py", "tasks/test-00000-of-00001.parquet"]
    assert report["deleted"] == gone
    assert "notes/read.me" in repo.head.files


def test_what_is_below_the_bar_stops_a_push_before_anything_is_sent(loopback_hub, pushes, written, audited, renamed):
    imported = Provenance(source="Snowflake/AgentWorldModel-1K", license="CC-BY-4.0")
    faulty = {"seed_errors": 2, "deterministic": False}
    out = written(
        "out",
        renamed("a_1"),
        audited("b_1", results=faulty),
        audited("c_1", results=faulty, provenance=imported),
        audited("d_1", provenance=Provenance(source="my_run", license="unknown")),
        audited("e_1"),
    )
    default, sound, none = pushes((out, {}), (out, {"bar": "sound"}), (out, {"bar": "none"}))
    faults = ["seed_errors: 2", "not deterministic"]
    unknown = {"id": "d_1", "reasons": ["its licence is unknown"]}
    unaudited = {"id": "a_1", "reasons": ["not audited in its present content"]}
    assert default["below"] == [unaudited, {"id": "b_1", "reasons": faults}, unknown]
    assert [b["id"] for b in sound["below"]] == ["a_1", "b_1", "c_1", "d_1"]
    assert none["below"] == [unknown]
    assert {default["commit"], sound["commit"], none["commit"]} == {None}
    assert loopback_hub.repos == {}
    (private,) = pushes((out, {"bar": "none", "is_private": True}))
    assert private["commit"] == loopback_hub.repo(REPO).head.id
    assert loopback_hub.repo(REPO).private


def test_repos_of_others_and_public_ones_are_left_alone(loopback_hub, pushes, written, audited, tmp_path):
    out = written("out", audited("a_1"))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "data.csv").write_text("a,b")
    loopback_hub.commit_folder(tmp_path / "other", "awm/other")
    other, _, private, name, tag, bar = pushes(
        (out, {"repo_id": "awm/other"}),
        (out, {}),
        (out, {"is_private": True}),
        (out, {"repo_id": "envs"}),
        (out, {"tag": "../v1"}),
        (out, {"bar": "high"}),
    )
    assert other == ["UsageError", "awm/other holds something other than a dataset of environments (data.csv)"]
    assert private == ["UsageError", "awm/pushed exists and is public"]
    assert name == ["UsageError", "'envs' is no repo id"]
    assert tag == ["UsageError", "'../v1' is no tag"]
    assert bar == ["UsageError", "there is no bar 'high'"]


def test_a_folder_whose_files_do_not_belong_together_is_refused(pushes, written, audited):
    other = written("other", audited("b_1"))
    stale, torn = written("stale", audited("a_1")), written("torn", audited("a_1"))
    (path,) = stale.glob("tasks/*.parquet")
    path.write_bytes(next(other.glob("tasks/*.parquet")).read_bytes())
    (torn / "environments" / "train-00001-of-00002.parquet").write_bytes(b"PAR1")
    first, second, third = pushes((stale, {}), (torn, {}), (torn / "nothing", {}))
    assert first[0] == second[0] == "RecordError"
    assert "holds tasks of another 'b_1'" in first[1]
    assert "environments/train-00001-of-00002.parquet is of no environment" in second[1]
    assert third == ["DataError", f"{torn / 'nothing'} is no folder"]


def test_somebody_elses_commit_in_between_is_not_overwritten(loopback_hub, pushes, written, audited):
    pushes((written("before", audited("a_1")), {}))
    repo = loopback_hub.repo(REPO)

    def race(method: str, path: str) -> bool:
        if path.endswith("/commit/main") and repo.head.title != "theirs":
            repo.commit("theirs", repo.head.files)
        return False

    loopback_hub.interrupt = race
    after = written("after", audited("a_1"), audited("b_1"))
    assert pushes((after, {}))[0] == ["RemoteError", "somebody else committed to awm/pushed meanwhile"]
    assert repo.head.title == "theirs"
    assert pushes((after, {}))[0]["commit"] == repo.head.id


def test_no_environment_is_removed_unless_that_is_asked_for(loopback_hub, pushes, written, audited):
    both, one = written("both", audited("a_1"), audited("b_1")), written("one", audited("a_1"))
    first, refused, done = pushes((both, {}), (one, {}), (one, {"removes": True}))
    assert refused == ["UsageError", f"{REPO} would lose 1 of its environments (b_1)"]
    assert (done["changes"]["removed"], done["parent"]) == (["b_1"], first["commit"])
    assert len(list(loopback_hub.repo(REPO).log("main"))) == 3


def test_an_error_of_the_audit_keeps_an_environment_of_ones_own_below_the_bar(audited):
    found = audited("a_1")
    faulty = dataclasses.replace(found, quality=dataclasses.replace(found.quality, errors=("filter_ignored",)))
    assert below_bar([facts_of(found)]) == ()
    (below,) = below_bar([facts_of(faulty)])
    assert below.reasons == ("errors: filter_ignored",)

"""What a push changes, told by content."""

import hashlib

from awm_hub.publishing.changes import Changes, compare, compare_files
from awm_hub.publishing.content import RepoFile
from awm_hub.publishing.hub import StoredFile


def test_environments_are_told_apart_by_their_content():
    found = compare({"a": "1", "b": "2", "c": "3"}, {"b": "2", "c": "4", "d": "5"})
    assert found == Changes(added=("d",), removed=("a",), changed=("c",), unchanged=1)
    assert found.told == "1 added, 1 changed, 1 removed, 1 unchanged"


def test_files_are_compared_by_the_digest_that_the_hub_has_of_them(tmp_path):
    (tmp_path / "large").write_bytes(b"large" * 10**6)
    large = RepoFile(path="environments/x.parquet", source=tmp_path / "large")
    small = RepoFile(path="README.md", source=b"hello")
    assert large.sha256 == hashlib.sha256(b"large" * 10**6).hexdigest()
    assert small.git_oid == "b6fc4c620b67d95f953a5c1c1230aaab5db5a1b0"  # echo -n hello | git hash-object --stdin
    stored = {
        "environments/x.parquet": StoredFile(sha256=large.sha256, git_oid="another: of the pointer"),
        "README.md": StoredFile(sha256=None, git_oid=small.git_oid),
        "tasks/old.parquet": StoredFile(sha256="0" * 64, git_oid=None),
        "theirs.txt": StoredFile(sha256=None, git_oid="0" * 40),
    }
    same = compare_files([large, small], stored)
    assert (same.sent, same.deleted) == ((), ("tasks/old.parquet",))
    changed = RepoFile(path="README.md", source=b"hello!")
    new = RepoFile(path="plots/new.svg", source=b"<svg/>")
    assert compare_files([large, changed, new], stored).sent == (changed, new)

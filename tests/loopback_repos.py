"""What the loopback Hub keeps: repos, their commits and refs, and the files in them."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

DATE = "2026-02-10T00:00:00.000Z"
LFS_SUFFIXES = (".parquet", ".png", ".zip", ".whl", ".sqlite")


@dataclass(frozen=True, kw_only=True)
class Blob:
    """The content of one file."""

    data: bytes
    is_lfs: bool = False

    @cached_property
    def oid(self) -> str:
        return hashlib.sha1(b"blob %d\0" % len(self.data) + self.data).hexdigest()

    @cached_property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()

    def entry(self, path: str) -> dict[str, Any]:
        """As trees and path infos show it."""
        found = {"type": "file", "path": path, "size": len(self.data), "oid": self.oid}
        lfs = {"oid": self.sha256, "size": len(self.data), "pointerSize": 134}
        return {**found, "lfs": lfs} if self.is_lfs else found


@dataclass(frozen=True, kw_only=True)
class Commit:
    """One state of a repo."""

    id: str
    title: str
    files: Mapping[str, Blob]
    parents: tuple[str, ...] = ()
    message: str = ""


@dataclass(kw_only=True)
class Repo:
    """One repo; `refs` holds branches, tags and pull requests by full name."""

    type: str
    id: str
    private: bool = False
    commits: dict[str, Commit] = field(default_factory=dict)
    refs: dict[str, str] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    """What Spaces have: sdk, secrets, variables, hardware, and the calls that were made."""

    def commit(
        self, title: str, files: Mapping[str, Blob], *, ref: str = "refs/heads/main", message: str = ""
    ) -> Commit:
        """Make these files the new state of a branch."""
        parent = self.refs.get(ref)
        content = sorted((path, blob.sha256) for path, blob in files.items())
        sha = hashlib.sha1(repr((parent, title, content)).encode()).hexdigest()
        parents = (parent,) if parent else ()
        made = Commit(id=sha, title=title, message=message, files=dict(files), parents=parents)
        self.commits[sha] = made
        self.refs[ref] = sha
        return made

    def find(self, revision: str = "main") -> Commit | None:
        """The commit that a branch, tag, ref or commit id names."""
        names = (revision, f"refs/heads/{revision}", f"refs/tags/{revision}")
        found = next((self.refs[n] for n in names if n in self.refs), revision)
        return self.commits.get(found)

    @property
    def head(self) -> Commit:
        return self.commits[self.refs["refs/heads/main"]]

    @property
    def prefix(self) -> str:
        """What stands before the id in URLs."""
        return "" if self.type == "model" else f"{self.type}s/"

    def log(self, revision: str) -> Iterator[Commit]:
        """The commits that lead to a revision, newest first."""
        commit = self.find(revision)
        while commit is not None:
            yield commit
            commit = self.commits.get(commit.parents[0]) if commit.parents else None

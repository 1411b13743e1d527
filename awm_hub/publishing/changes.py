"""What a push changes: environments against those of the revision on the Hub, and files against its files."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from awm_hub.publishing.content import RepoFile
from awm_hub.publishing.hub import StoredFile

_OWN_FOLDERS = ("environments/", "tasks/", "plots/", "loaders/")
_OWN_FILES = ("README.md", "environment.yaml", "index.parquet")


@dataclass(frozen=True, kw_only=True)
class Changes:
    """Environments by what becomes of them, told apart by `content_hash`; ids sorted."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[str, ...]
    unchanged: int
    """Environments whose content is the same; title, quality or origin may have changed."""

    @property
    def told(self) -> str:
        """In one line."""
        counts = (("added", self.added), ("changed", self.changed), ("removed", self.removed))
        return ", ".join([*(f"{len(ids):,} {what}" for what, ids in counts), f"{self.unchanged:,} unchanged"])


def compare(before: Mapping[str, str], after: Mapping[str, str]) -> Changes:
    """The changes from one set of environments to another, each as id → `content_hash`."""
    common = before.keys() & after.keys()
    changed = {name for name in common if before[name] != after[name]}
    return Changes(
        added=tuple(sorted(after.keys() - before.keys())),
        removed=tuple(sorted(before.keys() - after.keys())),
        changed=tuple(sorted(changed)),
        unchanged=len(common) - len(changed),
    )


@dataclass(frozen=True, kw_only=True)
class FileChanges:
    """Files to send and to delete; others of the repo stay."""

    sent: tuple[RepoFile, ...]
    deleted: tuple[str, ...]


def compare_files(files: Iterable[RepoFile], stored: Mapping[str, StoredFile]) -> FileChanges:
    """What makes a repo's own files these ones."""
    files = tuple(files)
    paths = {f.path for f in files}
    sent = tuple(f for f in files if f.path not in stored or not stored[f.path].holds(f))
    return FileChanges(sent=sent, deleted=tuple(sorted(p for p in stored if is_own(p) and p not in paths)))


def is_own(path: str) -> bool:
    """Whether a file of a dataset repo is of those that a push writes."""
    return path in _OWN_FILES or path.startswith(_OWN_FOLDERS)

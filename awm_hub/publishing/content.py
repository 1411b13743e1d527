"""What is published of a dataset folder: its data as it is, the card made from it, and the loaders."""

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from awm_hub.card import Card, carried
from awm_hub.errors import RecordError
from awm_hub.hub import Environments

_SHARD = re.compile(r"(?:environments|tasks)/(?:train|test)-\d{5}-of-\d{5}\.parquet")
_CHUNK_BYTES = 2**20
_STEP = "pack or import it again"


@dataclass(frozen=True, kw_only=True)
class RepoFile:
    """One file as it will lie in the repo."""

    path: str
    source: Path | bytes

    @property
    def size(self) -> int:
        """In bytes."""
        return self.source.stat().st_size if isinstance(self.source, Path) else len(self.source)

    @cached_property
    def sha256(self) -> str:
        """By which the Hub knows large files."""
        return self._digest(hashlib.sha256())

    @cached_property
    def git_oid(self) -> str:
        """By which the Hub knows other files."""
        return self._digest(hashlib.sha1(b"blob %d\0" % self.size, usedforsecurity=False))

    def _digest(self, digest: "hashlib._Hash") -> str:
        for chunk in self._chunks():
            digest.update(chunk)
        return digest.hexdigest()

    def _chunks(self) -> Iterator[bytes]:
        if isinstance(self.source, bytes):
            yield self.source
            return
        with self.source.open("rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                yield chunk


def content(folder: Path, card: Card) -> tuple[RepoFile, ...]:
    """All files of a release, by path."""
    found: dict[str, Path | bytes] = {name: folder / name for name in ("environment.yaml", "index.parquet")}
    for path in sorted((*folder.glob("environments/*.parquet"), *folder.glob("tasks/*.parquet"))):
        found[path.relative_to(folder).as_posix()] = path
    for path in sorted(carried("loaders").glob("*.py")):
        found[f"loaders/{path.name}"] = path
    for name, text in card.files.items():
        found[name] = text.encode()
    return tuple(RepoFile(path=name, source=source) for name, source in sorted(found.items()))


def check_folder(folder: Path, environments: Environments) -> None:
    """See that the files of a dataset folder belong together.

    Rows are checked when they are read; this is about what nothing reads: shards that the index does not name, and a
    `tasks` config that is of other environments.

    Raises:
        RecordError: a file is missing, too many, or of another dataset.
    """
    for name in ("environment.yaml", "index.parquet"):
        if not (folder / name).is_file():
            raise RecordError(f"{folder} has no {name}", next_step=_STEP)
    shards = [
        p.relative_to(folder).as_posix()
        for p in folder.glob("*/*.parquet")
        if p.parent.name in ("environments", "tasks")
    ]
    named = {e.file for e in environments.entries.values()}
    strange = [s for s in shards if not _SHARD.fullmatch(s) or (s.startswith("environments/") and s not in named)]
    if strange:
        raise RecordError(f"{folder}: {', '.join(sorted(strange)[:3])} is of no environment", next_step=_STEP)
    hashes = {name: entry.content_hash for name, entry in environments.entries.items()}
    found = _task_counts(folder, hashes)
    for name, entry in environments.entries.items():
        if found.get(name, 0) != entry.tasks_count:
            message = f"{folder}/tasks holds {found.get(name, 0)} tasks of {name!r}, not {entry.tasks_count}"
            raise RecordError(message, next_step=_STEP)


def _task_counts(folder: Path, hashes: Mapping[str, str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for path in sorted(folder.glob("tasks/*.parquet")):
        try:
            rows = pq.read_table(path, columns=["environment_id", "environment_hash"]).to_pylist()
        except (pa.ArrowException, OSError) as error:
            raise RecordError(f"{path} is not a readable Parquet file: {error}", next_step=_STEP) from error
        for row in rows:
            name = row["environment_id"]
            if hashes.get(name) != row["environment_hash"]:
                raise RecordError(f"{path} holds tasks of another {name!r}", next_step=_STEP)
            counts[name] = counts.get(name, 0) + 1
    return counts

"""Trajectories as a dataset: Parquet with a card, so that plain `load_dataset` reads it and the Hub shows it.

One row is one rollout. The light columns are for filters and for the viewer; `trajectory` holds the whole record as
canonical JSON, from which `read_trajectories` makes trajectories again. Splits are those of the environments.
"""

import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from awm_hub import schema
from awm_hub.canonical import to_json
from awm_hub.environment import split_of
from awm_hub.errors import DataError, RecordError, UsageError
from awm_hub.rollouts.store import Rollout, open_run
from awm_hub.schema import TRAJECTORIES
from awm_hub.trajectory import Trajectory, decoded, trajectory_from

CONFIG = "trajectories"
_OWN_ENTRIES = ("README.md", CONFIG)
_GROUP_ROWS, _GROUP_BYTES = 64, 64 * 2**20
_SHARD_BYTES = 20 * 2**20
_CARD = """# Trajectories

What a policy did in executable tool-use environments. One row is one attempt at a task: `messages` is the conversation,
`trajectory` the whole record with calls, results, verdicts and the final database.

```python
from datasets import load_dataset

rows = load_dataset("PATH OR REPO ID OF THIS DATASET", "trajectories")
```
"""


def write_trajectories(rollouts: Iterable[Rollout], out: str | os.PathLike[str]) -> Path:
    """Write rollouts, such as `run.values()`, as a dataset folder; one that is there is replaced.

    Raises:
        UsageError: `out` holds something other than such a dataset.
        DataError: there is no rollout.
    """
    target = Path(out)
    if target.exists() and not (target.is_dir() and all(p.name in _OWN_ENTRIES for p in target.iterdir())):
        raise UsageError(f"{target} holds something other than trajectories", next_step="name a new folder")
    target.parent.mkdir(parents=True, exist_ok=True)
    place = Path(tempfile.mkdtemp(dir=target.parent, prefix=".writing-"))
    try:
        fresh = place / "new"
        (fresh / CONFIG).mkdir(parents=True)
        splits = _write_splits(rollouts, fresh / CONFIG)
        (fresh / "README.md").write_text(_front_matter(splits) + _CARD, encoding="utf-8", newline="\n")
        if target.exists():
            target.rename(place / "old")
        fresh.rename(target)
    finally:
        shutil.rmtree(place)
    return target


def read_trajectories(source: str | os.PathLike[str]) -> Iterator[Trajectory]:
    """The trajectories of what `read_rollouts` reads.

    Raises:
        DataError: there is nothing of that kind.
        RecordError: a row or a file is no trajectory.
    """
    return (rollout.trajectory for rollout in read_rollouts(source))


def read_rollouts(source: str | os.PathLike[str]) -> Iterator[Rollout]:
    """Rollouts of a run's directory, a dataset folder, a Parquet file, or one trajectory's JSON file.

    They have the ids that they were stored under; one that comes again, since files of several runs lie together, is
    numbered.

    Raises:
        DataError: there is nothing of that kind.
        RecordError: a row or a file is no trajectory.
    """
    path = Path(source)
    if (path / "run.json").is_file():
        return iter(open_run(path).values())
    if (path / CONFIG).is_dir():
        return _rows_of(sorted((path / CONFIG).glob("*.parquet")))
    if path.suffix == ".parquet" and path.is_file():
        return _rows_of([path])
    if path.is_file():
        return iter([Rollout.from_dict(decoded(path.read_bytes(), str(path)), path.stem)])
    step = "name a run's directory, a dataset of trajectories, a Parquet file or a trajectory's JSON file"
    raise DataError(f"{path} holds no trajectories", next_step=step)


def row_of(rollout: Rollout) -> dict[str, Any]:
    """One row, as `TRAJECTORIES` types it."""
    t = rollout.trajectory
    return {
        "id": rollout.id,
        "environment_id": t.environment_id,
        "environment_hash": t.environment_hash,
        "task_id": t.task_id,
        "split": split_of(t.environment_id),
        "policy": to_json(t.policy),
        "outcome": None if rollout.verdict is None else str(rollout.verdict.outcome),
        "reward": rollout.reward.total,
        "termination": t.termination,
        "steps_count": len(t.steps),
        "messages": to_json(list(t.messages)),
        "trajectory": to_json(t.to_dict()),
    }


class _Shards:
    """The files of one split: groups of rows that stay small, in files that stay small."""

    def __init__(self, folder: Path, split: str) -> None:
        self._folder, self._split = folder, split
        self._rows: list[dict[str, Any]] = []
        self._bytes = self._count = 0
        self._writer: pq.ParquetWriter | None = None
        self._path = folder

    def add(self, row: dict[str, Any]) -> None:
        size = len(row["trajectory"]) + len(row["messages"])
        if self._rows and (len(self._rows) == _GROUP_ROWS or self._bytes + size > _GROUP_BYTES):
            self._end_group()
        self._rows.append(row)
        self._bytes += size

    def close(self) -> None:
        self._end_group()
        self._end_file()

    def _end_group(self) -> None:
        if self._writer is None:
            self._path = self._folder / f"{self._split}-{self._count:05}.parquet"
            self._count += 1
            self._writer = pq.ParquetWriter(
                self._path, TRAJECTORIES, compression="zstd", write_page_index=True, write_page_checksum=True
            )
        self._writer.write_table(pa.Table.from_pylist(self._rows, schema=TRAJECTORIES))
        self._rows, self._bytes = [], 0
        if self._path.stat().st_size > _SHARD_BYTES:
            self._end_file()

    def _end_file(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None


def _write_splits(rollouts: Iterable[Rollout], folder: Path) -> list[str]:
    """Write every rollout to its split, in the order they come; the splits that hold any."""
    shards: dict[str, _Shards] = {}
    for rollout in rollouts:
        row = row_of(rollout)
        shards.setdefault(row["split"], _Shards(folder, row["split"])).add(row)
    for split in shards.values():
        split.close()
    if not shards:
        raise DataError("there is no rollout to write", next_step="run some first: `awm-hub rollout ENV -o DIR`")
    return [split for split in schema.SPLITS if split in shards]


def _front_matter(splits: Iterable[str]) -> str:
    lines = ["---", "configs:", f"- config_name: {CONFIG}", "  default: true", "  data_files:"]
    for split in splits:
        lines += [f"  - split: {split}", f"    path: {CONFIG}/{split}-*.parquet"]
    return "\n".join([*lines, "tags:", "- agent", "- tool-use", "- trajectories", "---", "", ""])


def _rows_of(paths: Iterable[Path]) -> Iterator[Rollout]:
    seen: Counter[str] = Counter()
    for path in paths:
        try:
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches(batch_size=1, columns=["id", "trajectory"]):
                    (row,) = batch.to_pylist()
                    text = row["trajectory"]
                    found = decoded(text if isinstance(text, str) else "", path.name)
                    stored = Rollout(
                        id=str(row.get("id") or path.stem), number=0, trajectory=trajectory_from(found, path.name)
                    )
                    seen[stored.id] += 1
                    yield stored if seen[stored.id] == 1 else replace(stored, id=f"{stored.id}__{seen[stored.id]}")
        except (pa.ArrowException, OSError, ValueError) as error:
            raise RecordError(f"{path} is no Parquet of trajectories: {error}") from error

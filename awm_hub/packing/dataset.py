"""A dataset folder, as it lies on the Hub: Parquet of both configs, the index, the card and `environment.yaml`.

Packing and importing both end here. A folder appears as a whole or not at all: everything is written beside it and
moved into place at the end, and only what this module writes is ever replaced.
"""

import contextlib
import itertools
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

import awm_hub
from awm_hub import schema
from awm_hub.environment import Environment, Task
from awm_hub.errors import DataError, RecordError, UsageError
from awm_hub.packing import parquet
from awm_hub.packing.spool import Spool

OWN_ENTRIES = ("README.md", "environment.yaml", "environments", "index.parquet", "tasks")
"""What a dataset folder holds of ours; anything else in it is left alone."""

Progress = Callable[[Mapping[str, Any]], None]
"""Called with one JSON object per event: `event` and what it is about."""


@dataclass(frozen=True, kw_only=True)
class DatasetReport:
    """What was written."""

    out: str
    environments: int
    tasks: int
    splits: tuple[str, ...]
    files: tuple[str, ...]
    """Relative to `out`."""
    bytes: int


@dataclass(frozen=True, kw_only=True)
class _Row:
    """One environment, ready to be written."""

    id: str
    split: str
    number: int
    """In the spool of environments."""
    tasks: pa.Table
    index: dict[str, Any]


def write_dataset(environments: Iterable[Environment], out: str | os.PathLike[str]) -> DatasetReport:
    """Write environments, in any order, as a dataset folder.

    `environments` is consumed before anything takes its place; only a row group of them is ever in memory.

    Raises:
        UsageError: `out` is a file, or a folder that holds something other than a dataset.
        DataError: there is no environment, or two have the same id.
        RecordError: an environment could not be read back.
    """
    target = check_output(out)
    with replacing(target) as folder, Spool(folder.with_name("rows"), schema.ENVIRONMENTS) as spool:
        rows = sorted((_row(e, spool) for e in environments), key=lambda r: r.id)
        _check_ids(rows)
        splits = _write_parquet(folder, rows, spool)
        (folder / "README.md").write_text(_card(splits, rows), encoding="utf-8", newline="\n")
        (folder / "environment.yaml").write_text(_declaration(splits), encoding="utf-8", newline="\n")
        files = sorted(p for p in folder.rglob("*") if p.is_file())
        return DatasetReport(
            out=str(out),
            environments=len(rows),
            tasks=sum(len(r.tasks) for r in rows),
            splits=splits,
            files=tuple(p.relative_to(folder).as_posix() for p in files),
            bytes=sum(p.stat().st_size for p in files),
        )


def task_row(environment: Environment, task: Task) -> dict[str, Any]:
    """The row of the `tasks` config for one task, as `awm_hub.schema.TASKS` types it."""
    quality = environment.quality
    audited = next((t for t in quality.tasks if t.id == task.id), None) if quality else None
    return {
        "id": task.id,
        "environment_id": environment.id,
        "environment_hash": environment.content_hash,
        "split": environment.split,
        "instruction": task.instruction,
        "prompt": [{"role": "user", "content": task.prompt}],
        "kind": task.kind,
        "usage": environment.usage,
        "difficulty": None if task.solution is None else len(task.solution),
        "tools_count": len(environment.tools),
        "has_solution": task.solution is not None,
        "verifier_kinds": sorted({v.kind for v in task.verifiers}),
        "noop_rejected": audited.noop_rejected if audited else None,
        "seed_unsatisfied": audited.seed_unsatisfied if audited else None,
        "solution_passes": audited.solution_passes if audited else None,
        "deterministic": quality.deterministic if quality else None,
        "hidden_state": quality.hidden_state if quality else None,
    }


def index_row(environment: Environment) -> dict[str, Any]:
    """The row of `index.parquet` for one environment, but for its place."""
    return {
        "id": environment.id,
        "split": environment.split,
        "content_hash": environment.content_hash,
        "title": environment.title,
        "categories": list(environment.categories),
        "interface": environment.interface,
        "usage": environment.usage,
        "tables_count": len(environment.tables),
        "tools_count": len(environment.tools),
        "tasks_count": len(environment.tasks),
        "image_bytes": len(environment.database),
        "format_version": environment.format_version,
    }


def check_output(out: str | os.PathLike[str]) -> Path:
    """The folder to write to.

    Raises:
        UsageError: it is a file, or holds something other than a dataset.
    """
    path = Path(out).absolute()
    if path.exists() and not path.is_dir():
        raise UsageError(f"{out} is a file", next_step="name a folder")
    entries = [p.name for p in path.iterdir() if not p.name.startswith(".")] if path.exists() else []
    if entries and not ("index.parquet" in entries and "environments" in entries):
        step = "name a new folder, an empty one, or a dataset that awm-hub wrote: that is replaced"
        shown = ", ".join(sorted(entries)[:3])
        raise UsageError(f"{out} holds something other than a dataset ({shown})", next_step=step)
    return path


@contextlib.contextmanager
def replacing(out: Path) -> Iterator[Path]:
    """A new folder whose entries take their place in `out` on success; on failure `out` is as it was.

    Entries of `out` that are not in `OWN_ENTRIES` stay.
    """
    is_new = not out.exists()
    out.mkdir(parents=True, exist_ok=True)
    place = Path(tempfile.mkdtemp(dir=out, prefix=".writing-"))
    try:
        fresh, old = place / "new", place / "old"
        fresh.mkdir()
        old.mkdir()
        yield fresh
        _swap(fresh, out, old)
    finally:
        shutil.rmtree(place)
        if is_new and not any(out.iterdir()):
            out.rmdir()


def _swap(fresh: Path, out: Path, old: Path) -> None:
    """Move our entries of `out` to `old` and those of `fresh` to `out`, or undo it."""
    moves = [(out / name, old / name) for name in OWN_ENTRIES if (out / name).exists()]
    moves += [(entry, out / entry.name) for entry in sorted(fresh.iterdir())]
    done = []
    try:
        for source, target in moves:
            source.rename(target)
            done.append((source, target))
    except OSError:
        for source, target in reversed(done):
            target.rename(source)
        raise


def _check_ids(rows: Sequence[_Row]) -> None:
    if not rows:
        raise DataError("there is no environment to write")
    for before, after in itertools.pairwise(rows):
        if before.id == after.id:
            raise DataError(f"two environments have the id {after.id!r}", next_step="rename one of them")


def _row(environment: Environment, spool: Spool) -> _Row:
    row = environment.to_row()
    read = Environment.from_row(row)
    if read != environment:
        raise RecordError(f"{environment.id!r} is not the same when read back", next_step="please report this")
    tasks = [task_row(read, t) for t in sorted(read.tasks, key=lambda t: t.id)]
    return _Row(
        id=environment.id,
        split=environment.split,
        number=spool.add(pa.Table.from_pylist([row], schema=schema.ENVIRONMENTS)),
        tasks=pa.Table.from_pylist(tasks, schema=schema.TASKS),
        index=index_row(environment),
    )


def _write_parquet(folder: Path, rows: Sequence[_Row], spool: Spool) -> tuple[str, ...]:
    """Write both configs and the index.

    Returns:
        The splits that hold anything.
    """
    index = []
    splits = tuple(s for s in schema.SPLITS if any(r.split == s for r in rows))
    for split in splits:
        members = [r for r in rows if r.split == split]
        places = parquet.write_split(folder, "environments", split, spool.rows([r.number for r in members]))
        index += [{**r.index, "file": p.file, "row_group": p.row_group} for r, p in zip(members, places, strict=True)]
        tasks = [r.tasks.slice(i, 1) for r in members for i in range(len(r.tasks))]
        if tasks:
            parquet.write_split(folder, "tasks", split, tasks)
    index.sort(key=lambda r: r["id"])
    parquet.write_file(folder / "index.parquet", [pa.Table.from_pylist(index, schema=schema.INDEX)])
    return splits


def _card(splits: Sequence[str], rows: Sequence[_Row]) -> str:
    """A card that declares both configs; `awm-hub push` writes the full one."""
    with_tasks = [s for s in splits if any(r.split == s and len(r.tasks) for r in rows)]
    lines = ["---", "configs:", *_config("environments", splits, is_default=True)]
    if with_tasks:
        lines += _config("tasks", with_tasks, is_default=False)
    lines += [
        "tags:",
        "- rl-environment",
        "- tool-use",
        "- mcp",
        "- agent",
        "---",
        "",
        "# Executable tool-use environments",
        "",
        f"{_counted(len(rows), 'environment')} with {_counted(sum(len(r.tasks) for r in rows), 'task')}. One row of",
        "`environments` is one environment, complete: database, tools, code, tasks and verifiers. `tasks` has one",
        "light row per task.",
        "",
        "```python",
        "import awm_hub as awm",
        "",
        'environments = awm.load("PATH OR REPO ID OF THIS DATASET")',
        f"instance = awm.launch(environments[{json.dumps(rows[0].id)}])",
        "```",
    ]
    return "\n".join(lines) + "\n"


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _config(name: str, splits: Sequence[str], *, is_default: bool) -> list[str]:
    lines = [f"- config_name: {name}", *(["  default: true"] if is_default else []), "  data_files:"]
    for split in splits:
        lines += [f"  - split: {split}", f"    path: {name}/{split}-*.parquet"]
    return lines


def _declaration(splits: Sequence[str]) -> str:
    """`environment.yaml`, by which the Hub lists a dataset of environments."""
    return "\n".join(
        [
            "spec_version: hf-env-0.1",
            "environments:",
            "- id: environments",
            "  title: Executable tool-use environments",
            "  description: One row is one environment; awm-hub turns it into a live MCP server.",
            "  config_name: environments",
            f"  splits: [{', '.join(splits)}]",
            "  frameworks:",
            "    awm-hub:",
            f'      min_version: ">={awm_hub.__version__}"',
            "",
        ]
    )

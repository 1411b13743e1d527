"""Writing audit results where trainers find them: `quality.json` beside sources, the `quality` column of a dataset.

Files of a dataset are replaced as a whole, one after another, each by a rename. Row groups stay as they are, so the
index stays true: only the `quality` column and the audit flags of the `tasks` config change.
"""

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from awm_hub import schema
from awm_hub.auditing.findings import AuditedEnvironment, AuditReport
from awm_hub.auditing.sources import open_subject
from awm_hub.environment import Quality
from awm_hub.errors import UsageError
from awm_hub.packing import parquet


def write_quality(report: AuditReport) -> tuple[str, ...]:
    """Write the results of an audit to where it was made.

    Returns:
        The files that changed.

    Raises:
        UsageError: the dataset is on the Hub or comes with the package, and cannot be written to.
    """
    results = {e.id: e for e in report.environments}
    path = Path(report.source)
    if not path.exists():
        step = "audit a local folder, and push it"
        raise UsageError(f"{report.source} cannot be written to", next_step=step)
    if path.is_file():
        return _rewritten([path], results)
    if not (path / "index.parquet").is_file() and (found := _source_folders(path)):
        return tuple(_write_json(folder, results[folder.name].quality) for folder in found if folder.name in results)
    shards = sorted(path.glob("environments/*.parquet")) or sorted(path.glob("*.parquet"))
    light = sorted(path.glob("tasks/*.parquet"))
    return _rewritten([p for p in shards if p.name != "index.parquet"], results) + _rewritten(light, results)


def _source_folders(path: Path) -> tuple[Path, ...]:
    return open_subject(path).folders if path.is_dir() else ()


def _write_json(folder: Path, quality: Quality) -> str:
    target = folder / "quality.json"
    text = json.dumps(quality.to_dict(), indent=1, ensure_ascii=False) + "\n"
    place = target.with_name(f".{target.name}.tmp")
    place.write_text(text, encoding="utf-8", newline="\n")
    os.replace(place, target)
    return str(target)


def _rewritten(files: Iterable[Path], results: Mapping[str, AuditedEnvironment]) -> tuple[str, ...]:
    return tuple(str(file) for file in files if _rewrite(file, results))


def _rewrite(path: Path, results: Mapping[str, AuditedEnvironment]) -> bool:
    """Write a file again with new values; its row groups keep their numbers and rows."""
    with pq.ParquetFile(path) as file:
        groups = [file.read_row_group(n) for n in range(file.num_row_groups)]
    is_light = "environment_id" in (groups[0].column_names if groups else ())
    changed = [_with_flags(g, results) if is_light else _with_quality(g, results) for g in groups]
    if all(new.equals(old) for new, old in zip(changed, groups, strict=True)):
        return False
    place = path.with_name(f".{path.name}.tmp")
    parquet.write_file(place, changed)
    os.replace(place, path)
    return True


def _with_quality(group: pa.Table, results: Mapping[str, AuditedEnvironment]) -> pa.Table:
    at = group.column_names.index("quality")
    rows = group.select(["id", "content_hash", "quality"]).to_pylist()
    values = [_plain(result.quality) if (result := _result(row, results)) else row["quality"] for row in rows]
    column = pa.array(values, type=schema.ENVIRONMENTS.field("quality").type)
    return group.set_column(at, schema.ENVIRONMENTS.field("quality"), column)


def _result(row: Mapping[str, Any], results: Mapping[str, AuditedEnvironment]) -> AuditedEnvironment | None:
    found = results.get(row["id"])
    return found if found is not None and found.content_hash == row["content_hash"] else None


def _plain(quality: Quality) -> dict[str, Any]:
    return {**quality.to_dict(), "audited_at": quality.audited_at}


_FLAGS = ("noop_rejected", "seed_unsatisfied", "solution_passes", "deterministic", "hidden_state")


def _with_flags(group: pa.Table, results: Mapping[str, AuditedEnvironment]) -> pa.Table:
    rows = group.select(["id", "environment_id", "environment_hash", *_FLAGS]).to_pylist()
    for row in rows:
        found = results.get(row["environment_id"])
        if found is not None and found.content_hash == row["environment_hash"]:
            row.update(flags_of(found.quality, row["id"]))
    for name in _FLAGS:
        column = pa.array([row[name] for row in rows], type=schema.TASKS.field(name).type)
        group = group.set_column(group.column_names.index(name), schema.TASKS.field(name), column)
    return group


def flags_of(quality: Quality, task_id: str) -> dict[str, bool | None]:
    """The audit flags of one task, as the `tasks` config has them."""
    task = next((t for t in quality.tasks if t.id == task_id), None)
    return {
        "noop_rejected": task.noop_rejected if task else None,
        "seed_unsatisfied": task.seed_unsatisfied if task else None,
        "solution_passes": task.solution_passes if task else None,
        "deterministic": quality.deterministic,
        "hidden_state": quality.hidden_state,
    }

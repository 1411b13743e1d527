"""Unpacking: rows of a dataset back to source folders.

The sources pack to the same `content_hash`. What a source form cannot say is written in one that can: statements that
SQL text does not hold apart go to `schema.json` or `seed.json`, modules with carriage returns to `tools.json` or
`verifiers.json`, verifiers that carry their own code to files of the folder `verifiers/`. Solutions come back as the
record holds them, with literal arguments, and measured volatile columns as declared ones. Nothing that exists is
overwritten.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomlkit
import tomlkit.items

from awm_hub import hub
from awm_hub.canonical import to_json
from awm_hub.environment import Call, Environment, Task, Verifier
from awm_hub.errors import DataError, UsageError
from awm_hub.packing import analysis, references, statements
from awm_hub.packing.dataset import Progress
from awm_hub.packing.keys import with_plain_line_ends
from awm_hub.packing.sources import PROVENANCE_KEYS, Source, read_source
from awm_hub.packing.tasktables import derived_verifiers

_WIDE = 100
"""A solution is written one step a line beyond this many characters."""
_READ_BACK = (
    "title", "description", "categories", "rules", "usage", "clock", "interface", "requires", "volatile_columns",
    "provenance", "tables", "further_ddl", "seed", "code", "tasks", "verifier_module", "quality",
)  # fmt: skip
"""What a source says of an environment; the rest is measured when it is packed."""


@dataclass(frozen=True, kw_only=True)
class UnpackReport:
    """What was written."""

    out: str
    environments: tuple[str, ...]


def unpack(
    source: str | os.PathLike[str] | None,
    out: str | os.PathLike[str],
    ids: Iterable[str] | None = None,
    *,
    revision: str | None = None,
    progress: Progress | None = None,
) -> UnpackReport:
    """Write environments of a dataset as source folders.

    Args:
        source: What `awm_hub.load` takes.
        out: A folder; each environment becomes a new folder in it.
        ids: Which environments; all without it.
        revision: Revision of a Hub dataset.
        progress: Called with `{"event": "unpacking", "id", "position", "total"}` for each environment.

    Raises:
        UsageError: `out` already holds a folder of one of the environments.
        DataError: the dataset or an id does not exist, or a row cannot be written as a source.
    """
    environments = hub.load(source, revision=revision)
    chosen = list(dict.fromkeys(environments if ids is None else ids))
    target = Path(out)
    if target.exists() and not target.is_dir():
        raise UsageError(f"{out} is a file", next_step="name a folder")
    for name in chosen:
        if name not in environments:
            environments[name]  # raises, before anything is written
        if (target / name).exists():
            raise UsageError(f"{target / name} exists", next_step="name another folder, or move it away")
    is_new = not target.exists()
    target.mkdir(parents=True, exist_ok=True)
    place = Path(tempfile.mkdtemp(dir=target, prefix=".unpacking-"))
    try:
        for position, name in enumerate(chosen, 1):
            if progress:
                progress({"event": "unpacking", "id": name, "position": position, "total": len(chosen)})
            write_source(environments[name], place / name)
        for name in chosen:
            (place / name).rename(target / name)
    finally:
        shutil.rmtree(place)
        if is_new and not any(target.iterdir()):
            target.rmdir()
    return UnpackReport(out=str(out), environments=tuple(chosen))


def write_source(environment: Environment, folder: Path) -> None:
    """Write one environment as a new source folder.

    Raises:
        DataError: a value has no place in a source.
    """
    folder.mkdir()
    _write(folder / "scenario.toml", tomlkit.dumps(_scenario(environment)))
    _write_statements(environment, folder)
    _write_code(folder / "tools.py", environment.code)
    if environment.verifier_module is not None:
        _write_code(folder / "verifiers.py", environment.verifier_module)
    _write(folder / "tasks.toml", _tasks(environment, folder))
    if environment.quality is not None:
        _write(folder / "quality.json", json.dumps(environment.quality.to_dict(), indent=1, ensure_ascii=False) + "\n")

    _check_same(environment, read_source(folder))


def _write_code(path: Path, code: str) -> None:
    """A module as it is, or as JSON where a text file would be read otherwise."""
    if with_plain_line_ends(code) == code and not code.startswith("\ufeff"):
        _write(path, code)
    else:
        _write_json(path.with_suffix(".json"), {"code": code})


def _check_same(environment: Environment, source: Source) -> None:
    """Nothing may be lost: what was written has to say the same."""
    lost = [name for name in _READ_BACK if getattr(environment, name) != getattr(source, name)]
    if lost:
        step = "leave it out with --ids, and please report this"
        raise DataError(f"{environment.id}: a source cannot hold its {', '.join(lost)} as they are", next_step=step)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(text.encode())


def _scenario(environment: Environment) -> tomlkit.TOMLDocument:
    e = environment
    document = tomlkit.document()
    values: Mapping[str, Any] = {
        "title": _text(e.title),
        "description": _text(e.description),
        "categories": list(e.categories),
        "rules": _text(e.rules),
        "usage": "" if e.usage == "train" else e.usage,
        "clock": e.clock,
        "interface": e.interface,
        "requires": list(e.requires),
        "volatile_columns": list(e.volatile_columns),
    }
    for key, value in values.items():
        if value or key in ("title", "categories"):
            document[key] = value
    provenance = {k: _provenance(k, v) for k in PROVENANCE_KEYS if (v := getattr(e.provenance, k)) is not None}
    if provenance:
        document["provenance"] = provenance
    return document


def _provenance(key: str, value: Any) -> Any:
    return to_json(value) if key in ("attempts", "tokens") else value


def _write_statements(environment: Environment, folder: Path) -> None:
    """The schema and the sample data as SQL, or as JSON where SQL text would be read otherwise."""
    e = environment
    ddl = [s for t in e.tables for s in (t.ddl, *t.indexes)]
    is_plain = _reads_back([*ddl, *e.further_ddl], statements.schema, (e.tables, e.further_ddl))
    if is_plain:
        _write(folder / "schema.sql", statements.join([*ddl, *e.further_ddl]))
    else:
        tables = [{"name": t.name, "ddl": t.ddl, "indexes": list(t.indexes)} for t in e.tables]
        _write_json(folder / "schema.json", {"tables": tables, "further_ddl": list(e.further_ddl)})
    inserts = [s for t in e.seed for s in t.inserts]
    if _reads_back(inserts, statements.seed, e.seed):
        _write(folder / "seed.sql", statements.join(inserts))
    else:
        _write_json(folder / "seed.json", {"seed": [{"table": s.table, "inserts": list(s.inserts)} for s in e.seed]})


def _reads_back(texts: Sequence[str], read: Callable[[list[str]], Any], expected: Any) -> bool:
    try:
        return bool(read(statements.split(with_plain_line_ends(statements.join(texts)))) == expected)
    except statements.StatementError:
        return False


def _write_json(path: Path, value: Any) -> None:
    _write(path, json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def _tasks(environment: Environment, folder: Path) -> str:
    functions = _functions(environment.verifier_module)
    document = tomlkit.document()
    for task in environment.tasks:
        document[task.slug] = _task(task, functions, folder)
    return tomlkit.dumps(document)


def _functions(verifier_module: str | None) -> tuple[str, ...]:
    try:
        return analysis.functions(verifier_module or "")
    except analysis.CodeError as error:
        raise DataError(f"the verifiers of this row are no Python: {error}") from error


def _task(task: Task, functions: Sequence[str], folder: Path) -> tomlkit.items.Table:
    first = task.verifiers[0] if task.verifiers else None
    success, failure = (first.success_criteria, first.failure_criteria) if first else ("", "")
    is_derived = task.verifiers == derived_verifiers(task.slug, functions, success, failure)
    values: dict[str, Any] = {
        "instruction": _text(task.instruction),
        "kind": task.kind,
        "setup": list(task.setup),
        "answer": _answer(task),
        "answer_order": None if task.answer_order == "any" else task.answer_order,
        "answer_sql": None if task.answer_sql is None else _text(task.answer_sql),
        "free": list(task.free),
        "solution": None if task.solution is None else _solution(task.solution),
        "success": _text(success) if is_derived else None,
        "failure": _text(failure) if is_derived else None,
        "verifiers": None if is_derived else _verifiers(task, folder),
    }
    table = tomlkit.table()
    for key, value in values.items():
        is_set = value is not None if key in ("answer", "solution", "verifiers") else bool(value)
        if is_set:
            table[key] = value
    return table


def _text(text: str) -> Any:
    """A text over several lines where it has them; a line feed at its beginning or a carriage return would be lost."""
    is_several = "\n" in text and "\r" not in text and not text.startswith("\n")
    return tomlkit.string(text, multiline=True) if is_several else text


def _answer(task: Task) -> Any:
    if _holds_null(task.answer) and task.answer is not None:
        raise DataError(f"the answer of task {task.id} holds null, which a source cannot hold")
    return task.answer


def _holds_null(value: Any) -> bool:
    if isinstance(value, dict | list):
        return any(_holds_null(v) for v in (value.values() if isinstance(value, dict) else value))
    return value is None


def _solution(solution: Sequence[Call]) -> Any:
    """Steps as inline tables, one a line; as JSON text where they hold a null or what looks like a reference."""
    steps = [{"tool": c.tool, "arguments": c.arguments} for c in solution]
    if any(_holds_null(c.arguments) or references.holds_reference(c.arguments) for c in solution):
        return to_json(steps)
    lines = tomlkit.array()
    for step in steps:
        lines.append(_inline(step))
    return lines.multiline(len(to_json(steps)) > _WIDE)


def _inline(value: Any) -> Any:
    """A value with tables written inline, on one line."""
    if isinstance(value, dict):
        table = tomlkit.inline_table()
        for key, inner in value.items():
            table[key] = _inline(inner)
        return table
    if isinstance(value, list):
        array = tomlkit.array()
        for inner in value:
            array.append(_inline(inner))
        return array
    return value


def _verifiers(task: Task, folder: Path) -> Any:
    if not task.verifiers:
        return tomlkit.array()
    tables = tomlkit.aot()
    for number, verifier in enumerate(task.verifiers):
        tables.append(_verifier(task, number, verifier, folder))
    return tables


def _verifier(task: Task, number: int, verifier: Verifier, folder: Path) -> tomlkit.items.Table:
    table = tomlkit.table()
    table["kind"], table["function"] = verifier.kind, verifier.function
    if verifier.code is not None:
        repeated = f".{number}" if any(v.kind == verifier.kind for v in task.verifiers[:number]) else ""
        file = f"verifiers/{task.slug}.{verifier.kind}{repeated}.py"
        table["file"] = file
        _write(folder / file, verifier.code)
    table["success"] = _text(verifier.success_criteria)
    table["failure"] = _text(verifier.failure_criteria)
    return table

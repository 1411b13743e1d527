"""A source folder: one environment in a form that people read and write.

`environments/<id>/` holds `scenario.toml`, `schema.sql`, `seed.sql`, `tools.py`, `tasks.toml` and, where wanted,
`verifiers.py` and `quality.json`. `read_source` turns it into a `Source` without running any of it: that is what
`awm_hub.packing.building` does, in the sandbox. Line ends of any system are read alike. What text files cannot hold
(imported rows keep statements that do not even end, and carriage returns) is in a `.json` file of the same name.
"""

import datetime as dt
import difflib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from awm_hub import schema
from awm_hub.canonical import from_json
from awm_hub.environment import Provenance, Quality, SeedTable, Table, Task
from awm_hub.errors import RecordError, SourceError
from awm_hub.packing import places, statements, tasktables
from awm_hub.packing.keys import Keys, read_source_text, read_text, read_toml

T = TypeVar("T")

SCENARIO_KEYS = (
    "title", "description", "categories", "rules", "usage", "clock", "interface", "requires", "volatile_columns",
    "provenance",
)  # fmt: skip
PROVENANCE_KEYS = (
    "source", "source_revision", "generator", "pipeline_version", "created_at", "attempts", "tokens", "cost_usd",
    "license",
)  # fmt: skip
_FILES = (
    "scenario.toml", "schema.sql", "schema.json", "seed.sql", "seed.json", "tools.py", "tools.json", "tasks.toml",
    "verifiers.py", "verifiers.json", "verifiers", "quality.json",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Source:
    """One environment as its folder says it, before anything has run."""

    id: str
    """The folder's name."""
    folder: Path
    title: str
    description: str
    categories: tuple[str, ...]
    rules: str
    usage: str
    clock: dt.datetime
    interface: str
    requires: tuple[str, ...]
    volatile_columns: tuple[str, ...]
    provenance: Provenance
    tables: tuple[Table, ...] = field(repr=False)
    further_ddl: tuple[str, ...] = field(repr=False)
    seed: tuple[SeedTable, ...] = field(repr=False)
    code: str = field(repr=False)
    tasks: tuple[Task, ...] = field(repr=False)
    """Arguments of their solutions may hold references (`awm_hub.packing.references`)."""
    literal_tasks: frozenset[str] = frozenset()
    """Slugs of tasks whose solution is given as JSON text, in which `$1` is a text like any other."""
    verifier_module: str | None = field(default=None, repr=False)
    quality: Quality | None = field(default=None, repr=False)
    warnings: tuple[str, ...] = ()
    """What the record has no place for."""


def read_source(folder: str | os.PathLike[str]) -> Source:
    """Read one source folder; nothing of it is run.

    Raises:
        SourceError: a file is missing or breaks its form; the message names file and key.
    """
    path = Path(folder).resolve()
    _check_name(path)
    _check_files(path)
    scenario = Keys(path / "scenario.toml", "", read_toml(path / "scenario.toml"), SCENARIO_KEYS)
    interface = scenario.choice("interface", schema.INTERFACES, "functions")
    tables, further_ddl = _schema(path)
    has_verifiers = any((path / name).exists() for name in ("verifiers.py", "verifiers.json"))
    verifier_module = _code(path / "verifiers.py") if has_verifiers else None
    tasks = tasktables.read_tasks(path, interface=interface, verifier_module=verifier_module)
    return Source(
        id=path.name,
        folder=path,
        title=scenario.text("title"),
        description=scenario.text("description", ""),
        categories=_categories(scenario, interface),
        rules=scenario.text("rules", ""),
        usage=scenario.choice("usage", schema.USAGES, "train"),
        clock=_clock(scenario),
        interface=interface,
        requires=_requires(scenario, interface),
        volatile_columns=scenario.texts("volatile_columns"),
        provenance=_provenance(path / "scenario.toml", scenario.value("provenance")),
        tables=tables,
        further_ddl=further_ddl,
        seed=_seed(path),
        code=_code(path / "tools.py"),
        tasks=tasks.tasks,
        literal_tasks=tasks.literal,
        verifier_module=verifier_module,
        quality=_optional(path / "quality.json", _quality),
        warnings=tuple(f"{path.name}/tasks.toml: {w}" for w in tasks.warnings),
    )


def source_folders(folder: str | os.PathLike[str]) -> tuple[Path, ...]:
    """The source folders at `folder`: itself, or all folders in it, sorted by name; packed datasets are passed over.

    Raises:
        SourceError: there is none, or a folder in it has no `scenario.toml`.
    """
    path = Path(folder).resolve()
    if not path.is_dir():
        raise SourceError(f"{folder}: no such folder", next_step="`awm-hub new NAME` writes an example")
    if (path / "scenario.toml").is_file():
        return (path,)
    if _is_dataset(path):
        step = "give the folder of the sources; `awm-hub unpack` turns a dataset into sources again"
        raise SourceError(f"{folder}: this is a packed dataset, not sources", next_step=step)
    found = tuple(
        sorted(p for p in path.iterdir() if p.is_dir() and p.name[0] not in "._" and not _is_dataset(p)),
    )
    for inner in found:
        if not (inner / "scenario.toml").is_file():
            step = "every folder here is taken for one environment: complete it, or move it elsewhere"
            raise SourceError(f"{inner.name}/scenario.toml is missing", next_step=step)
    if not found:
        raise SourceError(f"{folder}: holds no source folder", next_step="`awm-hub new NAME` writes an example")
    return found


def _is_dataset(path: Path) -> bool:
    return (path / "index.parquet").is_file()


def _check_name(path: Path) -> None:
    if not path.is_dir():
        raise SourceError(f"{path}: no such folder", next_step="`awm-hub new NAME` writes an example")
    if not schema.ID_PATTERN.fullmatch(path.name):
        step = "the folder's name is the environment's id: a-z, 0-9 and _, at most 64 characters"
        raise SourceError(f"{path.name!r} is no environment id", next_step=step)
    if path.name in schema.RESERVED_IDS:
        raise SourceError(f"{path.name!r} is a reserved id", next_step="rename the folder")


def _check_files(path: Path) -> None:
    """Refuse names that look like a slip of the pen: the file would be left out silently."""
    for entry in sorted(path.iterdir()):
        if entry.name in _FILES or entry.name[0] in "._":
            continue
        close = difflib.get_close_matches(entry.name, _FILES, n=1, cutoff=0.8)
        if close and not (path / close[0]).exists():
            raise SourceError(
                f"{path.name}/{entry.name} is no file of a source", next_step=f"did you mean {close[0]!r}?"
            )


def _optional(path: Path, read: Callable[[Path], T]) -> T | None:
    return read(path) if path.exists() else None


def _clock(scenario: Keys) -> dt.datetime:
    clock = scenario.moment("clock")
    if clock is None:
        raise scenario.error("clock", "is missing", 'add clock = 2026-03-02T09:00:00Z: the environment\'s "now"')
    return clock


def _categories(scenario: Keys, interface: str) -> tuple[str, ...]:
    found = scenario.texts("categories")
    for category in found if interface == "functions" else ():
        if category not in schema.CATEGORIES:
            close = difflib.get_close_matches(category, schema.CATEGORIES, n=1)
            hint = f"did you mean {close[0]!r}? " if close else ""
            raise scenario.error("categories", f"holds {category!r}", f"{hint}one of {', '.join(schema.CATEGORIES)}")
    return found


def _requires(scenario: Keys, interface: str) -> tuple[str, ...]:
    found = scenario.texts("requires")
    if found and interface == "functions":
        raise scenario.error("requires", "must be empty", "tools use the standard library only")
    return found


def _provenance(path: Path, values: Any) -> Provenance:
    if values is None:
        return Provenance()
    keys = Keys(path, "provenance", values, PROVENANCE_KEYS)
    cost = keys.value("cost_usd")
    if cost is not None and (isinstance(cost, bool) or not isinstance(cost, int | float)):
        raise keys.error("cost_usd", "must be a number", "cost_usd = 0.25, unquoted")
    return Provenance(
        source=keys.optional_text("source"),
        source_revision=keys.optional_text("source_revision"),
        generator=keys.optional_text("generator"),
        pipeline_version=keys.optional_text("pipeline_version"),
        created_at=keys.moment("created_at"),
        attempts=_json_or_text(keys, "attempts"),
        tokens=_json_or_text(keys, "tokens"),
        cost_usd=None if cost is None else float(cost),
        license=keys.optional_text("license"),
    )


def _json_or_text(keys: Keys, key: str) -> Any:
    """A TOML value, or a text that holds JSON (TOML has no null)."""
    found = keys.json(key)
    try:
        return from_json(found, f"{keys.place}: {key}") if isinstance(found, str) else found
    except RecordError as error:
        raise SourceError(error.message, next_step="write JSON in quotes, or a TOML value") from error


def _schema(path: Path) -> tuple[tuple[Table, ...], tuple[str, ...]]:
    stored = _optional(path / "schema.json", _json_object)
    if stored is not None:
        return _records(path / "schema.json", lambda: (_tables(stored["tables"]), _texts(stored["further_ddl"])))
    return _statements(path / "schema.sql", statements.schema)


def _seed(path: Path) -> tuple[SeedTable, ...]:
    stored = _optional(path / "seed.json", _json_object)
    if stored is not None:
        seed = stored.get("seed", ())
        return _records(
            path / "seed.json",
            lambda: tuple(SeedTable(table=_text(s["table"]), inserts=_texts(s["inserts"])) for s in seed),
        )
    return _statements(path / "seed.sql", statements.seed)


def _statements(path: Path, read: Callable[[list[str]], T]) -> T:
    text = read_source_text(path)
    try:
        return read(statements.split(text))
    except statements.StatementError as error:
        line = places.line_of(text, error.statement)
        where = "" if line is None else f", line {line}"
        message = f"{path.parent.name}/{path.name}{where}: {error}: {statements.shown(error.statement)}"
        raise SourceError(message, next_step="mend or remove that statement") from error


def _tables(found: Any) -> tuple[Table, ...]:
    return tuple(Table(name=_text(t["name"]), ddl=_text(t["ddl"]), indexes=_texts(t["indexes"])) for t in found)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a text is expected, not {value!r}")
    return value


def _texts(values: Any) -> tuple[str, ...]:
    return tuple(_text(v) for v in values)


def _records(path: Path, read: Callable[[], T]) -> T:
    try:
        return read()
    except (KeyError, TypeError, ValueError) as error:
        message = f"{path.parent.name}/{path.name} breaks its form: {type(error).__name__} {error}"
        raise SourceError(message, next_step="unpack the dataset again") from error


def _json_object(path: Path) -> Mapping[str, Any]:
    what = f"{path.parent.name}/{path.name}"
    try:
        found = from_json(read_text(path), what)
    except RecordError as error:
        raise SourceError(error.message, next_step="mend it, or remove it") from error
    if not isinstance(found, dict):
        raise SourceError(f"{what} must hold a JSON object", next_step="mend it, or remove it")
    return found


def _quality(path: Path) -> Quality:
    found = _json_object(path)
    return _records(path, lambda: Quality.from_dict(found))


def _code(path: Path) -> str:
    """The text of a module, from its `.json` file where it has one."""
    stored = _optional(path.with_suffix(".json"), _json_object)
    code = read_source_text(path) if stored is None else _records(path, lambda: _text(stored["code"]))
    if len(code.encode()) > schema.MAX_CODE_BYTES:
        message = f"{path.parent.name}/{path.name} is larger than {schema.MAX_CODE_BYTES} bytes"
        raise SourceError(message, next_step="keep data in seed.sql")
    return code

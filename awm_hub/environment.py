"""The environment and its parts as frozen records.

An `Environment` is the immutable description of one executable tool-use environment: scenario, database, toolset, code,
tasks and verifiers. It is exactly one row of a dataset's `environments` config; `from_row` and `to_row` translate. It
becomes a live `Instance` only in `awm_hub.runtime`, and nothing here runs its code or opens its database image.
"""

import datetime as dt
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

from awm_hub import schema
from awm_hub.canonical import sha256_of
from awm_hub.errors import FormatVersionError, LimitError, RecordError, UnknownNameError
from awm_hub.parts import (
    Call,
    Provenance,
    Quality,
    SeedTable,
    Table,
    Task,
    TaskQuality,
    ToolSpec,
    Verifier,
    answer_form,
    json_or_null,
    json_value,
    plain,
    record,
    task_from,
    task_row,
    tool_from,
    tool_row,
)

__all__ = [
    "Call",
    "Environment",
    "Provenance",
    "Quality",
    "SeedTable",
    "Table",
    "Task",
    "TaskQuality",
    "ToolSpec",
    "Verifier",
    "answer_form",
    "check_format_version",
    "content_hash",
    "split_of",
]


@dataclass(frozen=True, kw_only=True)
class Environment:
    """One row of the `environments` config; `awm_hub.schema` documents each column."""

    id: str
    title: str
    description: str = ""
    categories: tuple[str, ...] = ()
    rules: str = ""
    usage: str = "train"
    interface: str
    code: str = field(repr=False)
    requires: tuple[str, ...] = ()
    tables: tuple[Table, ...] = field(repr=False)
    further_ddl: tuple[str, ...] = field(default=(), repr=False)
    seed: tuple[SeedTable, ...] = field(repr=False)
    volatile_columns: tuple[str, ...] = ()
    database: bytes = field(repr=False)
    image_sha256: str
    clock: dt.datetime
    tools: tuple[ToolSpec, ...] = field(repr=False)
    tasks: tuple[Task, ...] = field(repr=False)
    verifier_module: str | None = field(default=None, repr=False)
    quality: Quality | None = field(default=None, repr=False)
    provenance: Provenance = field(default_factory=Provenance, repr=False)
    content_hash: str
    format_version: int = schema.FORMAT_VERSION

    @property
    def split(self) -> str:
        """`train` or `test`."""
        return split_of(self.id)

    @property
    def briefing(self) -> str:
        """What an agent is told before its task: the scenario, the rules, and what day it is there."""
        now = f"It is {self.clock:%A}, {self.clock.day} {self.clock:%B %Y, %H:%M} (UTC)."
        rules = f"Rules:\n{self.rules.strip()}" if self.rules.strip() else ""
        return "\n\n".join(part for part in (self.title, self.description.strip(), rules, now) if part)

    def task(self, name: str) -> Task:
        """The task with this id, or whose id ends with it.

        Raises:
            UnknownNameError: there is no such task.
        """
        for task in self.tasks:
            if name in (task.id, task.slug):
                return task
        raise UnknownNameError("task", name, [t.slug for t in self.tasks], next_step=f"awm-hub show {self.id}")

    def tool(self, name: str) -> ToolSpec:
        """The tool with this name.

        Raises:
            UnknownNameError: there is no such tool.
        """
        for tool in self.tools:
            if tool.name == name:
                return tool
        raise UnknownNameError("tool", name, [t.name for t in self.tools], next_step=f"awm-hub show {self.id} --tools")

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        """Read one untrusted row.

        Raises:
            FormatVersionError: the row was written by a newer version of the format.
            LimitError: a value is larger or deeper than allowed.
            RecordError: a value breaks the format; the message names the row and the column.
        """
        name = row.get("id")
        check_format_version(name, row.get("format_version"))
        _check_sizes(row)
        try:
            found = cls(**_environment_values(row))
        except (KeyError, TypeError, AttributeError) as error:
            raise RecordError(f"row {name!r} breaks the format: {type(error).__name__} {error}") from error
        except RecordError as error:
            raise type(error)(f"row {name!r}: {error.message}", next_step=error.next_step) from error
        _check_names(found)
        if hashlib.sha256(found.database).hexdigest() != found.image_sha256:
            message = f"row {name!r}: database does not match image_sha256"
            raise RecordError(message, next_step="fetch the dataset again")
        return found

    def to_row(self) -> dict[str, Any]:
        """The row, as `awm_hub.schema.ENVIRONMENTS` types it."""
        row: dict[str, Any] = {f.name: plain(getattr(self, f.name)) for f in fields(self)}
        row["split"] = self.split
        row["tools"] = [tool_row(t) for t in self.tools]
        row["tasks"] = [task_row(t) for t in self.tasks]
        for name in ("attempts", "tokens"):
            row["provenance"][name] = json_or_null(row["provenance"][name])
        return row

    def with_hash(self, logical_hash: str) -> Self:
        """This environment with its `content_hash` computed, given the logical hash of its image."""
        return replace(self, content_hash=content_hash(self, logical_hash))


def check_format_version(name: object, version: object) -> None:
    """Whether this package reads rows of a format version.

    Raises:
        FormatVersionError: the row was written by a newer version of the format.
        RecordError: it is no version.
    """
    if not isinstance(version, int) or version < 1:
        raise RecordError(f"row {name!r} has no format_version", next_step="is this an awm-hub dataset?")
    if version > schema.FORMAT_VERSION:
        raise FormatVersionError(
            f"row {name!r} has format version {version}; this awm-hub reads up to {schema.FORMAT_VERSION}",
            next_step=f"pip install -U 'awm-hub>={version}'",
        )


def split_of(environment_id: str) -> str:
    """The split of an environment: a fifth of all ids, chosen by hash, is `test`."""
    return "test" if int(hashlib.sha256(environment_id.encode()).hexdigest()[:8], 16) % 5 == 0 else "train"


def content_hash(environment: Environment, logical_hash: str) -> str:
    """SHA-256 over everything that decides how an environment behaves.

    Title, description, categories, usage, quality and provenance are not part of it. `logical_hash` stands for the
    database image, whose bytes differ between SQLite versions.
    """
    e = environment
    return sha256_of(
        {
            "interface": e.interface,
            "code": e.code,
            "requires": list(e.requires),
            "clock": e.clock.astimezone(dt.UTC).isoformat(timespec="microseconds"),
            "tables": plain(e.tables),
            "further_ddl": list(e.further_ddl),
            "seed": plain(e.seed),
            "volatile_columns": list(e.volatile_columns),
            "tasks": [task_row(t) for t in e.tasks],
            "tools": [tool_row(t) for t in e.tools],
            "rules": e.rules,
            "verifier_module": e.verifier_module,
            "image": logical_hash,
        }
    )


def _environment_values(row: Mapping[str, Any]) -> dict[str, Any]:
    values = {f.name: row[f.name] for f in fields(Environment)}
    values["tables"] = tuple(record(Table, t) for t in row["tables"])
    values["seed"] = tuple(record(SeedTable, s) for s in row["seed"])
    values["tools"] = tuple(tool_from(t) for t in row["tools"])
    values["tasks"] = tuple(task_from(t) for t in row["tasks"])
    values["quality"] = None if row["quality"] is None else Quality.from_dict(row["quality"])
    provenance = dict(row["provenance"] or {})
    for name in ("attempts", "tokens"):
        provenance[name] = json_value(provenance.get(name), f"provenance.{name}")
    values["provenance"] = record(Provenance, provenance)
    for name in ("categories", "requires", "further_ddl", "volatile_columns"):
        values[name] = tuple(row[name])
    return values


def _check_sizes(row: Mapping[str, Any]) -> None:
    """Types and sizes of the columns that are hashed, compiled or opened."""
    limits = (
        ("database", bytes, schema.MAX_IMAGE_BYTES),
        ("code", str, schema.MAX_CODE_BYTES),
        ("verifier_module", str | None, schema.MAX_CODE_BYTES),
        *((name, str, schema.MAX_TEXT_BYTES) for name in _TEXT_COLUMNS),
    )
    for column, kind, limit in limits:
        value = row.get(column)
        if not isinstance(value, kind):
            raise RecordError(f"row {row.get('id')!r}: {column} is {type(value).__name__}")
        size = len(value.encode(errors="replace") if isinstance(value, str) else value or b"")
        if size > limit:
            raise LimitError(f"row {row.get('id')!r}: {column} holds {size} bytes, at most {limit} are read")
    clock = row.get("clock")
    if not isinstance(clock, dt.datetime) or clock.tzinfo is None:
        raise RecordError(f"row {row.get('id')!r}: clock must be a moment with an offset, not {clock!r}")


_TEXT_COLUMNS = ("id", "title", "description", "rules", "usage", "interface", "image_sha256", "content_hash")


def _check_names(environment: Environment) -> None:
    """Names become paths, URLs and identifiers; closed sets hold nothing else."""
    e = environment
    verifiers = [v for t in e.tasks for v in t.verifiers]
    _check_each(e, schema.ID_PATTERN, "id", [e.id])
    _check_each(e, schema.TASK_ID_PATTERN, "task id", [t.id for t in e.tasks])
    _check_each(e, schema.TOOL_PATTERN, "tool name", [t.name for t in e.tools])
    for verifier in verifiers:
        _check_each(e, schema.FUNCTION_PATTERN, "verifier function", [verifier.function])
    for task in e.tasks:
        if task.id.partition("/")[0] != e.id:
            raise RecordError(f"row {e.id!r}: task {task.id!r} belongs to another environment")
    _check_among(e, "interface", schema.INTERFACES, [e.interface])
    _check_among(e, "usage", schema.USAGES, [e.usage])
    _check_among(e, "effect of a tool", schema.EFFECTS, [t.effect for t in e.tools])
    _check_among(e, "kind of a task", (None, *schema.KINDS), [t.kind for t in e.tasks])
    _check_among(e, "answer_order of a task", schema.ANSWER_ORDERS, [t.answer_order for t in e.tasks])
    _check_among(e, "kind of a verifier", schema.VERIFIER_KINDS, [v.kind for v in verifiers])
    if e.id in schema.RESERVED_IDS:
        raise RecordError(f"row {e.id!r}: this id is reserved")


def _check_each(environment: Environment, pattern: re.Pattern[str], what: str, names: Sequence[str]) -> None:
    for name in names:
        if not isinstance(name, str) or not pattern.fullmatch(name):
            raise RecordError(f"row {environment.id!r}: bad {what} {name!r}, expected {pattern.pattern}")
    if len(set(names)) != len(names):
        raise RecordError(f"row {environment.id!r}: repeated {what} in {sorted(names)}")


def _check_among(environment: Environment, what: str, allowed: Sequence[Any], values: Sequence[Any]) -> None:
    for value in values:
        if value not in allowed:
            raise RecordError(f"row {environment.id!r}: {what} is {value!r}, expected one of {allowed}")

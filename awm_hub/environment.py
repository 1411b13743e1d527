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
from typing import Any, Self, TypeVar

from awm_hub import schema
from awm_hub.canonical import from_json, sha256_of, to_json
from awm_hub.errors import FormatVersionError, LimitError, RecordError, UnknownNameError

R = TypeVar("R")


@dataclass(frozen=True, kw_only=True)
class ToolSpec:
    """One tool as an agent sees it."""

    name: str
    description: str
    input_schema: dict[str, Any]
    """JSON Schema (Draft 2020-12) of the arguments, an object."""
    output_schema: dict[str, Any] | None = None
    effect: str = "unknown"
    """`read`, `write` or `unknown`; a `read` tool cannot change the database."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """One table of the schema, with the indexes created right after it."""

    name: str
    ddl: str
    indexes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class SeedTable:
    """Sample data of one table, as INSERT statements."""

    table: str
    inserts: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Call:
    """One step of a reference solution; arguments are literals."""

    tool: str
    arguments: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Verifier:
    """Code over (initial, final) databases: `signals` inform a judge, a `decision` decides."""

    kind: str
    function: str
    code: str | None = None
    """Null when the function is in the row's `verifier_module`."""
    success_criteria: str = ""
    failure_criteria: str = ""


@dataclass(frozen=True, kw_only=True)
class Task:
    """One instruction inside an environment, with what is known about solving and verifying it."""

    id: str
    """`<environment id>/<slug>`."""
    instruction: str
    kind: str | None = None
    """`query`, `change` or `both`; None where unknown."""
    setup: tuple[str, ...] = ()
    """SQL applied to the image before the task starts."""
    answer: Any = None
    """A number, a text, a list of these or a flat object; None when no answer is asked for."""
    answer_order: str = "any"
    answer_sql: str | None = None
    free: tuple[str, ...] = ()
    """`table.column` names that the task leaves open."""
    solution: tuple[Call, ...] | None = None
    verifiers: tuple[Verifier, ...] = ()

    @property
    def slug(self) -> str:
        """The last part of the id."""
        return self.id.rpartition("/")[2]

    @property
    def prompt(self) -> str:
        """The instruction, with a closing sentence on the form of the answer where one is asked for."""
        if self.answer is None:
            return self.instruction
        return f"{self.instruction}\n\n{answer_form(self.answer, self.answer_order)}"

    def verifier(self, kind: str) -> Verifier | None:
        """The first verifier of a kind."""
        return next((v for v in self.verifiers if v.kind == kind), None)


@dataclass(frozen=True, kw_only=True)
class TaskQuality:
    """Audit results of one task; None where a check does not apply."""

    id: str
    noop_rejected: bool | None = None
    seed_unsatisfied: bool | None = None
    solution_passes: bool | None = None
    equivalents_accepted: int | None = None
    equivalents_tried: int | None = None
    mutants_rejected: int | None = None
    mutants_tried: int | None = None
    notes: str | None = None


@dataclass(frozen=True, kw_only=True)
class Quality:
    """Audit results of one environment; None where a check was not made."""

    schema_errors: int | None = None
    seed_errors: int | None = None
    foreign_key_violations: int | None = None
    dropped_tools: tuple[str, ...] = ()
    tool_faults: int | None = None
    tools_tried: int | None = None
    false_effects: tuple[str, ...] = ()
    hidden_state: bool | None = None
    deterministic: bool | None = None
    tasks: tuple[TaskQuality, ...] = ()
    audited_hash: str | None = None
    audited_by: str | None = None
    audited_at: dt.datetime | None = None

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Self:
        """From a row's struct, or from the JSON form of it."""
        known = {f.name for f in fields(cls)}
        values = {k: v for k, v in found.items() if k in known}
        values["tasks"] = tuple(_record(TaskQuality, t) for t in found.get("tasks") or ())
        for name in ("dropped_tools", "false_effects"):
            values[name] = tuple(found.get(name) or ())
        if isinstance(found.get("audited_at"), str):
            values["audited_at"] = dt.datetime.fromisoformat(found["audited_at"])
        return cls(**values)

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        at = self.audited_at
        return {**_plain(self), "audited_at": None if at is None else at.astimezone(dt.UTC).isoformat()}


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """Where a row comes from."""

    source: str | None = None
    source_revision: str | None = None
    generator: str | None = None
    pipeline_version: str | None = None
    created_at: dt.datetime | None = None
    attempts: Any = None
    tokens: Any = None
    cost_usd: float | None = None
    license: str | None = None


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
        row: dict[str, Any] = {f.name: _plain(getattr(self, f.name)) for f in fields(self)}
        row["split"] = self.split
        row["tools"] = [_tool_row(t) for t in self.tools]
        row["tasks"] = [_task_row(t) for t in self.tasks]
        for name in ("attempts", "tokens"):
            row["provenance"][name] = _json_or_null(row["provenance"][name])
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
            "tables": _plain(e.tables),
            "further_ddl": list(e.further_ddl),
            "seed": _plain(e.seed),
            "volatile_columns": list(e.volatile_columns),
            "tasks": [_task_row(t) for t in e.tasks],
            "tools": [_tool_row(t) for t in e.tools],
            "rules": e.rules,
            "verifier_module": e.verifier_module,
            "image": logical_hash,
        }
    )


def answer_form(answer: Any, order: str = "any") -> str:
    """The sentence that tells an agent in which form to answer."""
    suffix = " in this order" if order == "exact" and isinstance(answer, list) else ""
    return f"End with JSON{suffix}: {_form(answer)}"


def _form(answer: Any) -> str:
    match answer:
        case bool():
            return "true or false"
        case int():
            return "<integer>"
        case float():
            return "<number>"
        case str():
            return '"<text>"'
        case list():
            return f"[{_form(answer[0]) if answer else '<item>'}, …]"
        case dict():
            return "{" + ", ".join(f'"{key}": {_form(value)}' for key, value in answer.items()) + "}"
    return "null"


def _plain(value: Any) -> Any:
    """Records as dicts, tuples as lists, all the way down."""
    if hasattr(value, "__dataclass_fields__"):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, tuple):
        return [_plain(v) for v in value]
    return value


def _json_or_null(value: Any) -> str | None:
    return None if value is None else to_json(value)


def _tool_row(tool: ToolSpec) -> dict[str, Any]:
    row = _plain(tool)
    return {
        **row,
        "input_schema": to_json(tool.input_schema),
        "output_schema": _json_or_null(tool.output_schema),
    }


def _task_row(task: Task) -> dict[str, Any]:
    row = _plain(task)
    return {**row, "answer": _json_or_null(task.answer), "solution": _json_or_null(row["solution"])}


def _environment_values(row: Mapping[str, Any]) -> dict[str, Any]:
    values = {f.name: row[f.name] for f in fields(Environment)}
    values["tables"] = tuple(_record(Table, t) for t in row["tables"])
    values["seed"] = tuple(_record(SeedTable, s) for s in row["seed"])
    values["tools"] = tuple(_tool(t) for t in row["tools"])
    values["tasks"] = tuple(_task(t) for t in row["tasks"])
    values["quality"] = None if row["quality"] is None else Quality.from_dict(row["quality"])
    provenance = dict(row["provenance"] or {})
    for name in ("attempts", "tokens"):
        provenance[name] = _json_value(provenance.get(name), f"provenance.{name}")
    values["provenance"] = _record(Provenance, provenance)
    for name in ("categories", "requires", "further_ddl", "volatile_columns"):
        values[name] = tuple(row[name])
    return values


def _record(kind: type[R], row: Mapping[str, Any]) -> R:
    """A record from a struct; keys that this version does not know are left out."""
    known = {f.name for f in fields(kind)}  # type: ignore[arg-type]
    return kind(**{k: tuple(v) if isinstance(v, list) else v for k, v in row.items() if k in known})


def _json_value(text: str | None, what: str) -> Any:
    return None if text is None else from_json(text, what)


def _tool(row: Mapping[str, Any]) -> ToolSpec:
    what = f"tool {row['name']!r}"
    return ToolSpec(
        name=row["name"],
        description=row["description"],
        input_schema=_object(from_json(row["input_schema"], f"input_schema of {what}"), what),
        output_schema=_json_value(row["output_schema"], f"output_schema of {what}"),
        effect=row["effect"],
    )


def _object(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise RecordError(f"{what}: a JSON object is expected")
    return value


def _task(row: Mapping[str, Any]) -> Task:
    what = f"task {row['id']!r}"
    solution = _json_value(row["solution"], f"solution of {what}")
    if solution is not None:
        if not isinstance(solution, list):
            raise RecordError(f"solution of {what}: a list of calls is expected")
        solution = tuple(Call(tool=s["tool"], arguments=_object(s["arguments"], what)) for s in solution)
    return Task(
        id=row["id"],
        instruction=row["instruction"],
        kind=row["kind"],
        setup=tuple(row["setup"]),
        answer=_json_value(row["answer"], f"answer of {what}"),
        answer_order=row["answer_order"],
        answer_sql=row["answer_sql"],
        free=tuple(row["free"]),
        solution=solution,
        verifiers=tuple(_record(Verifier, v) for v in row["verifiers"]),
    )


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

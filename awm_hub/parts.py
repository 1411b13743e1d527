"""The parts of an environment as frozen records, and the form that they have in a row.

`awm_hub.environment` puts them together and gives these names too.
"""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self, TypeVar

from awm_hub.canonical import from_json, to_json
from awm_hub.errors import RecordError

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
    errors: tuple[str, ...] = ()
    """Rules of the audit that a finding of severity `error` names."""
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
        values["tasks"] = tuple(record(TaskQuality, t) for t in found.get("tasks") or ())
        for name in ("dropped_tools", "false_effects", "errors"):
            values[name] = tuple(found.get(name) or ())
        if isinstance(found.get("audited_at"), str):
            values["audited_at"] = dt.datetime.fromisoformat(found["audited_at"])
        return cls(**values)

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        at = self.audited_at
        return {**plain(self), "audited_at": None if at is None else at.astimezone(dt.UTC).isoformat()}


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


def plain(value: Any) -> Any:
    """Records as dicts, tuples as lists, all the way down."""
    if hasattr(value, "__dataclass_fields__"):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, tuple):
        return [plain(v) for v in value]
    return value


def json_or_null(value: Any) -> str | None:
    """A value as JSON; nothing stays nothing."""
    return None if value is None else to_json(value)


def tool_row(tool: ToolSpec) -> dict[str, Any]:
    """A tool's struct."""
    row = plain(tool)
    return {
        **row,
        "input_schema": to_json(tool.input_schema),
        "output_schema": json_or_null(tool.output_schema),
    }


def task_row(task: Task) -> dict[str, Any]:
    """A task's struct."""
    row = plain(task)
    return {**row, "answer": json_or_null(task.answer), "solution": json_or_null(row["solution"])}


def record(kind: type[R], row: Mapping[str, Any]) -> R:
    """A record from a struct; keys that this version does not know are left out."""
    known = {f.name for f in fields(kind)}  # type: ignore[arg-type]
    return kind(**{k: tuple(v) if isinstance(v, list) else v for k, v in row.items() if k in known})


def json_value(text: str | None, what: str) -> Any:
    """The value of an untrusted JSON text, called `what` in errors; nothing stays nothing.

    Raises:
        RecordError: it is no JSON.
    """
    return None if text is None else from_json(text, what)


def tool_from(row: Mapping[str, Any]) -> ToolSpec:
    """A tool from its untrusted struct.

    Raises:
        RecordError: its schemas are no JSON objects.
    """
    what = f"tool {row['name']!r}"
    return ToolSpec(
        name=row["name"],
        description=row["description"],
        input_schema=_object(from_json(row["input_schema"], f"input_schema of {what}"), what),
        output_schema=json_value(row["output_schema"], f"output_schema of {what}"),
        effect=row["effect"],
    )


def _object(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise RecordError(f"{what}: a JSON object is expected")
    return value


def task_from(row: Mapping[str, Any]) -> Task:
    """A task from its untrusted struct.

    Raises:
        RecordError: its solution or its answer breaks the format.
    """
    what = f"task {row['id']!r}"
    solution = json_value(row["solution"], f"solution of {what}")
    if solution is not None:
        if not isinstance(solution, list):
            raise RecordError(f"solution of {what}: a list of calls is expected")
        solution = tuple(Call(tool=s["tool"], arguments=_object(s["arguments"], what)) for s in solution)
    return Task(
        id=row["id"],
        instruction=row["instruction"],
        kind=row["kind"],
        setup=tuple(row["setup"]),
        answer=json_value(row["answer"], f"answer of {what}"),
        answer_order=row["answer_order"],
        answer_sql=row["answer_sql"],
        free=tuple(row["free"]),
        solution=solution,
        verifiers=tuple(record(Verifier, v) for v in row["verifiers"]),
    )

"""The records of an upstream run, one kind per file.

Upstream's pipeline writes one JSONL file per stage; each line belongs to one scenario, named in it. A record here holds
what the import needs of such a line, already checked: a line whose fields are missing or of another type raises
`RecordError` and is left out by itself. See section 2 of the paper's release for the fields.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from awm_hub.canonical import from_json, to_json
from awm_hub.environment import SeedTable, Table
from awm_hub.errors import RecordError

FILES = {
    "gen_scenario.jsonl": "scenario",
    "gen_tasks.jsonl": "tasks",
    "gen_db.jsonl": "tables",
    "gen_sample.jsonl": "seed",
    "gen_spec.jsonl": "specification",
    "gen_envs.jsonl": "code",
    "gen_verifier.jsonl": "verifiers",
    "gen_verifier.pure_code.jsonl": "verifiers",
}
"""File names in the order of the pipeline, with what each holds for an environment."""

PARTS = tuple(dict.fromkeys(FILES.values()))
NEEDED = ("tables", "code")
"""Without these an environment cannot run."""

_FUNCTION = re.compile(r"^(?:async[ \t]+)?def[ \t]+([A-Za-z_][A-Za-z0-9_]{0,63})[ \t]*\(", re.MULTILINE)
_TYPES = {str: "a text", int: "an integer", list: "a list", dict: "an object"}


@dataclass(frozen=True, kw_only=True)
class Record:
    """One line's content; `scenario` is the name as the line spells it."""

    scenario: str


@dataclass(frozen=True, kw_only=True)
class ScenarioRecord(Record):
    """The scenario in prose."""

    description: str


@dataclass(frozen=True, kw_only=True)
class TasksRecord(Record):
    """Instructions by position; None where the entry is no text, so that later tasks keep their number."""

    tasks: tuple[str | None, ...]


@dataclass(frozen=True, kw_only=True)
class TablesRecord(Record):
    """The database schema."""

    tables: tuple[Table, ...]


@dataclass(frozen=True, kw_only=True)
class SeedRecord(Record):
    """Sample data, in the order in which it is inserted."""

    seed: tuple[SeedTable, ...]
    declared_inserts: int | None
    """The number of statements that the line claims to hold."""


@dataclass(frozen=True, kw_only=True)
class SpecificationRecord(Record):
    """The planned operations: a description by operation id."""

    operations: dict[str, str]
    repeated: tuple[str, ...]
    """Ids that are planned more than once; the first counts."""


@dataclass(frozen=True, kw_only=True)
class CodeRecord(Record):
    """The environment's module."""

    code: str


@dataclass(frozen=True, kw_only=True)
class VerifierRecord(Record):
    """Verification code of one task."""

    task_index: int
    instruction: str | None
    """The task's text as the verifier's author saw it."""
    code: str
    function: str
    success_criteria: str
    failure_criteria: str
    notes: tuple[str, ...]
    """What had to be guessed while reading the line."""


def parse(part: str, value: Any) -> Record:
    """Check one line's value and read the record it holds.

    Raises:
        RecordError: a field is missing or has another type.
    """
    if not isinstance(value, dict):
        raise RecordError(f"an object is expected, this is {_name_of(value)}")
    return _PARSERS[part](value)


def _scenario(row: dict[str, Any]) -> ScenarioRecord:
    return ScenarioRecord(scenario=_text(row, "name"), description=_text(row, "description", default=""))


def _tasks(row: dict[str, Any]) -> TasksRecord:
    tasks = tuple(t if isinstance(t, str) and t.strip() else None for t in _get(row, "tasks", list))
    return TasksRecord(scenario=_text(row, "scenario"), tasks=tasks)


def _tables(row: dict[str, Any]) -> TablesRecord:
    tables = _objects(_get(row, "db_schema", dict), "tables")
    return TablesRecord(
        scenario=_text(row, "scenario"),
        tables=tuple(Table(name=_text(t, "name"), ddl=_text(t, "ddl"), indexes=_texts(t, "indexes")) for t in tables),
    )


def _seed(row: dict[str, Any]) -> SeedRecord:
    tables = _objects(_get(row, "sample_data", dict), "tables")
    declared = row.get("inserts_count")
    return SeedRecord(
        scenario=_text(row, "scenario"),
        seed=tuple(SeedTable(table=_text(t, "table_name"), inserts=_texts(t, "insert_statements")) for t in tables),
        declared_inserts=declared if isinstance(declared, int) else None,
    )


def _specification(row: dict[str, Any]) -> SpecificationRecord:
    operations: dict[str, str] = {}
    repeated = []
    for group in _objects(_get(row, "api_spec", dict), "api_groups"):
        for endpoint in _objects(group, "endpoints"):
            name = _text(endpoint, "operation_id")
            if name in operations:
                repeated.append(name)
                continue
            summary = _text(endpoint, "summary", default="")
            operations[name] = _text(endpoint, "description", default="") or summary
    return SpecificationRecord(scenario=_text(row, "scenario"), operations=operations, repeated=tuple(repeated))


def _code(row: dict[str, Any]) -> CodeRecord:
    return CodeRecord(scenario=_text(row, "scenario"), code=_text(row, "full_code"))


def _verifier(row: dict[str, Any]) -> VerifierRecord:
    index = _get(row, "task_idx", int)
    if index < 0:
        raise RecordError(f"'task_idx' is {index}, at least 0 is expected")
    verification = _get(row, "verification", dict)
    answer, notes = _model_answer(verification.get("raw_response"))
    code = _text(verification, "code", default="")
    if not code.strip():
        code = _optional_text(answer, "python_code")
        notes += ("'code' is empty, taken from 'raw_response'",)
    if not code.strip():
        raise RecordError("'verification' holds no code")
    function, guess = _function(code, _optional_text(answer, "function_name"))
    return VerifierRecord(
        scenario=_text(row, "scenario"),
        task_index=index,
        instruction=_text(row, "task", default="") or None,
        code=code,
        function=function,
        success_criteria=_optional_text(answer, "success_criteria"),
        failure_criteria=_optional_text(answer, "failure_criteria"),
        notes=notes + guess,
    )


def _model_answer(raw: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The author model's whole answer, usually JSON in a text; an empty object with a note where it is not."""
    if isinstance(raw, str) and raw.strip():
        try:
            raw = from_json(raw, "'raw_response'")
        except RecordError as error:
            return {}, (f"criteria are missing: {error.message}",)
    if raw is None or raw == "":
        return {}, ()
    if not isinstance(raw, dict):
        return {}, (f"criteria are missing: 'raw_response' is {_name_of(raw)}",)
    return raw, ()


def _function(code: str, named: str) -> tuple[str, tuple[str, ...]]:
    """The function to call: the named one where the code has it, else the likeliest one, with a note."""
    defined = _FUNCTION.findall(code)
    if not defined:
        raise RecordError("'verification' code defines no function")
    if named in defined:
        return named, ()
    guess = next((name for name in defined if name.startswith("verify")), defined[-1])
    return guess, (f"the code defines no {named!r}, {guess!r} is called",) if named else ()


def _get(row: dict[str, Any], field: str, kind: type) -> Any:
    if field not in row:
        raise RecordError(f"'{field}' is missing")
    value = row[field]
    if not isinstance(value, kind) or isinstance(value, bool):
        raise RecordError(f"'{field}' is {_name_of(value)}, {_TYPES[kind]} is expected")
    return value


def _text(row: dict[str, Any], field: str, default: str | None = None) -> str:
    if default is not None and row.get(field) is None:
        return default
    return str(_get(row, field, str))


def _optional_text(row: dict[str, Any], field: str) -> str:
    """A text out of a model's own answer; where it wrote something else, that as JSON."""
    value = row.get(field)
    if value is None:
        return ""
    return value if isinstance(value, str) else to_json(value)


def _texts(row: dict[str, Any], field: str) -> tuple[str, ...]:
    if row.get(field) is None:
        return ()
    return tuple(_text({f"{field}[{i}]": value}, f"{field}[{i}]") for i, value in enumerate(_get(row, field, list)))


def _objects(row: dict[str, Any], field: str) -> list[dict[str, Any]]:
    return [_get({f"{field}[{i}]": v}, f"{field}[{i}]", dict) for i, v in enumerate(_get(row, field, list))]


def _name_of(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case float():
            return "a number"
    return _TYPES[type(value)]


_PARSERS: dict[str, Callable[[dict[str, Any]], Record]] = {
    "scenario": _scenario,
    "tasks": _tasks,
    "tables": _tables,
    "seed": _seed,
    "specification": _specification,
    "code": _code,
    "verifiers": _verifier,
}

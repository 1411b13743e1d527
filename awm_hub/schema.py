"""The record format, version 1: the single source of the Arrow schemas and of the column tables in docs and card.

A dataset has two configs. `environments` holds one row per environment, complete; `tasks` holds one light row per
task, for trainers and browsers. `index.parquet` says where each environment lies. Types are written here and never
inferred: inference gives an all-null shard another type than its neighbours, and turns JSON objects into structs with
the union of all keys. JSON therefore lives in string columns, as canonical JSON (`awm_hub.canonical`).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

FORMAT_VERSION = 1

ID_PATTERN = re.compile(r"[a-z0-9_]{1,64}")
SLUG_PATTERN = re.compile(r"[A-Za-z0-9_]{1,64}")
TASK_ID_PATTERN = re.compile(r"[a-z0-9_]{1,64}/[A-Za-z0-9_]{1,64}")
FUNCTION_PATTERN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
TOOL_PATTERN = re.compile(r"[A-Za-z0-9_.-]{1,128}")
HASH_PATTERN = re.compile(r"[0-9a-f]{64}")

MAX_IMAGE_BYTES = 64 * 2**20
MAX_CODE_BYTES = 2 * 2**20
MAX_ROW_GROUP_BYTES = 512 * 2**20
MAX_TEXT_BYTES = 8 * 2**20

RESERVED_IDS = frozenset({"instances", "i", "health"})
"""Ids that the server's own routes use."""

CATEGORIES = (
    "agriculture", "automotive", "communication", "customer_support", "e_commerce", "education", "energy", "events",
    "field_service", "finance", "fitness", "food", "gaming", "government", "healthcare", "hospitality",
    "human_resources", "insurance", "inventory", "legal", "library", "logistics", "manufacturing", "media", "music",
    "nonprofit", "productivity", "real_estate", "research", "scheduling", "social", "software_development", "sports",
    "telecom", "travel",
)  # fmt: skip
"""Categories of our own environments; imported ones keep upstream's, the id without its `_<n>`."""

KINDS = ("query", "change", "both")
INTERFACES = ("functions", "fastapi")
EFFECTS = ("read", "write", "unknown")
VERIFIER_KINDS = ("signals", "decision")
USAGES = ("train", "eval_only")
ANSWER_ORDERS = ("any", "exact")
SPLITS = ("train", "test")


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column of a config: its Arrow type and what it means, in one line."""

    name: str
    type: pa.DataType
    meaning: str
    nullable: bool = False

    def field(self) -> pa.Field:
        """The Arrow field."""
        return pa.field(self.name, self.type, nullable=True)


def _struct(**fields: pa.DataType) -> pa.DataType:
    return pa.struct(list(fields.items()))


_TEXT, _TEXTS, _FLAG, _COUNT = pa.string(), pa.list_(pa.string()), pa.bool_(), pa.int64()

TABLE = _struct(name=_TEXT, ddl=_TEXT, indexes=_TEXTS)
SEED = _struct(table=_TEXT, inserts=_TEXTS)
TOOL = _struct(name=_TEXT, description=_TEXT, input_schema=_TEXT, output_schema=_TEXT, effect=_TEXT)
VERIFIER = _struct(kind=_TEXT, function=_TEXT, code=_TEXT, success_criteria=_TEXT, failure_criteria=_TEXT)
TASK = _struct(
    id=_TEXT,
    instruction=_TEXT,
    kind=_TEXT,
    setup=_TEXTS,
    answer=_TEXT,
    answer_order=_TEXT,
    answer_sql=_TEXT,
    free=_TEXTS,
    solution=_TEXT,
    verifiers=pa.list_(VERIFIER),
)
TASK_QUALITY = _struct(
    id=_TEXT,
    noop_rejected=_FLAG,
    seed_unsatisfied=_FLAG,
    solution_passes=_FLAG,
    equivalents_accepted=_COUNT,
    equivalents_tried=_COUNT,
    mutants_rejected=_COUNT,
    mutants_tried=_COUNT,
    notes=_TEXT,
)
QUALITY = _struct(
    schema_errors=_COUNT,
    seed_errors=_COUNT,
    foreign_key_violations=_COUNT,
    dropped_tools=_TEXTS,
    tool_faults=_COUNT,
    tools_tried=_COUNT,
    false_effects=_TEXTS,
    errors=_TEXTS,
    hidden_state=_FLAG,
    deterministic=_FLAG,
    tasks=pa.list_(TASK_QUALITY),
    audited_hash=_TEXT,
    audited_by=_TEXT,
    audited_at=pa.timestamp("us", "UTC"),
)
PROVENANCE = _struct(
    source=_TEXT,
    source_revision=_TEXT,
    generator=_TEXT,
    pipeline_version=_TEXT,
    created_at=pa.timestamp("us", "UTC"),
    attempts=_TEXT,
    tokens=_TEXT,
    cost_usd=pa.float64(),
    license=_TEXT,
)


def _column(name: str, type_: pa.DataType, meaning: str, nullable: bool = False) -> Column:
    return Column(name=name, type=type_, meaning=meaning, nullable=nullable)


ENVIRONMENT_COLUMNS: tuple[Column, ...] = (
    _column("id", _TEXT, "Slug, unique in the dataset."),
    _column("split", _TEXT, "`train` or `test`, decided by the hash of the id."),
    _column("title", _TEXT, "The scenario's name."),
    _column("description", _TEXT, "The scenario in prose."),
    _column("categories", _TEXTS, "Domains, from the list in `awm_hub.schema`; imported: the id without its number."),
    _column("rules", _TEXT, "Rules the agent must follow here; empty for imported rows."),
    _column("usage", _TEXT, "`train`, or `eval_only` for rows made from public benchmarks."),
    _column("interface", _TEXT, "How the code is called: `functions` or `fastapi`."),
    _column("code", _TEXT, "One Python module that implements the tools."),
    _column("requires", _TEXTS, "Import names beyond the standard library and the runtime's preloaded set."),
    _column("tables", pa.list_(TABLE), "Schema in creation order: name, DDL, indexes."),
    _column("further_ddl", _TEXTS, "Triggers, views and virtual tables, in creation order."),
    _column("seed", pa.list_(SEED), "Sample data in foreign-key order: table, INSERT statements."),
    _column("volatile_columns", _TEXTS, "`table.column` whose values may differ between right endings."),
    _column("database", pa.binary(), "SQLite image after schema and seed, under the frozen clock."),
    _column("image_sha256", _TEXT, "SHA-256 of `database`."),
    _column("clock", pa.timestamp("us", "UTC"), '"Now" inside the environment.'),
    _column("tools", pa.list_(TOOL), "The toolset as an agent sees it; schemas are JSON."),
    _column("tasks", pa.list_(TASK), "Tasks with answer, solution and verifiers; see Tasks."),
    _column("verifier_module", _TEXT, "Verifier code that the tasks share.", nullable=True),
    _column("quality", QUALITY, "Audit results; null when not audited.", nullable=True),
    _column("provenance", PROVENANCE, "Where the row comes from."),
    _column("content_hash", _TEXT, "SHA-256 over everything that decides behaviour."),
    _column("format_version", pa.int32(), "1."),
)

TASK_COLUMNS: tuple[Column, ...] = (
    _column("id", _TEXT, "`<environment id>/<slug>`."),
    _column("environment_id", _TEXT, "The environment."),
    _column("environment_hash", _TEXT, "Its `content_hash`."),
    _column("split", _TEXT, "The environment's split."),
    _column("instruction", _TEXT, "The instruction alone."),
    _column("prompt", pa.list_(_struct(role=_TEXT, content=_TEXT)), "One user message, as TRL expects it."),
    _column("kind", _TEXT, "`query`, `change` or `both`; null where unknown.", nullable=True),
    _column("usage", _TEXT, "`train` or `eval_only`."),
    _column("difficulty", _COUNT, "Length of the reference solution.", nullable=True),
    _column("tools_count", _COUNT, "Tools in the environment."),
    _column("has_solution", _FLAG, "Whether a reference solution is known."),
    _column("verifier_kinds", _TEXTS, "Kinds of verifiers: `signals`, `decision`."),
    _column("noop_rejected", _FLAG, "Audit: doing nothing fails.", nullable=True),
    _column("seed_unsatisfied", _FLAG, "Audit: the seed does not already satisfy the task.", nullable=True),
    _column("solution_passes", _FLAG, "Audit: the reference solution passes.", nullable=True),
    _column("deterministic", _FLAG, "Audit: two runs of the environment are identical.", nullable=True),
    _column("hidden_state", _FLAG, "Audit: the code keeps state outside its database.", nullable=True),
)

INDEX_COLUMNS: tuple[Column, ...] = (
    _column("id", _TEXT, "The environment."),
    _column("split", _TEXT, "Its split."),
    _column("file", _TEXT, "Parquet file, relative to the dataset's root."),
    _column("row_group", pa.int32(), "Row group in that file."),
    _column("content_hash", _TEXT, "Its `content_hash`."),
    _column("title", _TEXT, "The scenario's name."),
    _column("categories", _TEXTS, "Domains."),
    _column("interface", _TEXT, "`functions` or `fastapi`."),
    _column("usage", _TEXT, "`train` or `eval_only`."),
    _column("tables_count", _COUNT, "Tables."),
    _column("tools_count", _COUNT, "Tools."),
    _column("tasks_count", _COUNT, "Tasks."),
    _column("image_bytes", _COUNT, "Size of the SQLite image in bytes."),
    _column("format_version", pa.int32(), "1."),
)

TRAJECTORY_COLUMNS: tuple[Column, ...] = (
    _column("id", _TEXT, "Names the attempt within its run: environment, task and number."),
    _column("environment_id", _TEXT, "The environment."),
    _column("environment_hash", _TEXT, "Its `content_hash`."),
    _column("task_id", _TEXT, "The task."),
    _column("split", _TEXT, "The environment's split."),
    _column("policy", _TEXT, "What chose the actions, JSON: kind, model, sampling, history window."),
    _column("outcome", _TEXT, "The latest verdict's; null: not judged.", True),
    _column("reward", pa.float64(), "Eq. 1, the paper's numbers; null: unscorable.", True),
    _column("termination", _TEXT, "What ended the rollout."),
    _column("steps_count", _COUNT, "Tool calls."),
    _column("messages", _TEXT, "The conversation in chat form, JSON; `[]` for scripted policies."),
    _column("trajectory", _TEXT, "The whole record, JSON."),
)
ENVIRONMENTS = pa.schema([c.field() for c in ENVIRONMENT_COLUMNS])
TASKS = pa.schema([c.field() for c in TASK_COLUMNS])
INDEX = pa.schema([c.field() for c in INDEX_COLUMNS])
TRAJECTORIES = pa.schema([c.field() for c in TRAJECTORY_COLUMNS])
CONFIGS: dict[str, tuple[Column, ...]] = {
    "environments": ENVIRONMENT_COLUMNS,
    "tasks": TASK_COLUMNS,
    "index": INDEX_COLUMNS,
    "trajectories": TRAJECTORY_COLUMNS,
}


def column_table(config: str) -> str:
    """The Markdown table of a config's columns."""
    return "\n".join(_table_lines(CONFIGS[config])) + "\n"


def _table_lines(columns: tuple[Column, ...]) -> Iterator[str]:
    yield "| column | type | meaning |"
    yield "|---|---|---|"
    for column in columns:
        kind = type_name(column.type) + (" or null" if column.nullable else "")
        yield f"| `{column.name}` | `{kind}` | {column.meaning} |"


def type_name(type_: pa.DataType) -> str:
    """A type as the documentation writes it, fields of structs by name only."""
    if pa.types.is_list(type_):
        return f"list<{type_name(type_.value_type)}>"
    if pa.types.is_struct(type_):
        return f"struct<{', '.join(field.name for field in type_)}>"
    return str(type_)

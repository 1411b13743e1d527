"""What verbs report: the frozen shapes of `data` and `error` in `--json` output.

Programs rely on them: a field may be added, never renamed, retyped or removed within a major version. Verbs that stand
on a library function report that function's record (`pack`, `unpack` and `import`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class ListedEnvironment:
    """One environment of `list`."""

    id: str
    split: str
    title: str
    categories: tuple[str, ...]
    interface: str
    usage: str
    tables_count: int
    tools_count: int
    tasks_count: int
    image_bytes: int | None
    content_hash: str


@dataclass(frozen=True, kw_only=True)
class ListReport:
    """`list`: environments of a dataset, filtered."""

    source: str
    revision: str | None
    total: int
    """Environments in the dataset, before filters."""
    environments: tuple[ListedEnvironment, ...]


@dataclass(frozen=True, kw_only=True)
class ShownTool:
    """One tool of `show`."""

    name: str
    description: str
    effect: str
    input_schema: Mapping[str, Any]
    output_schema: Mapping[str, Any] | None


@dataclass(frozen=True, kw_only=True)
class ShownTask:
    """One task of `show`."""

    id: str
    kind: str | None
    instruction: str
    prompt: str
    answer: Any
    answer_order: str
    answer_sql: str | None
    free: tuple[str, ...]
    setup: tuple[str, ...]
    solution: tuple[Mapping[str, Any], ...] | None
    verifiers: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, kw_only=True)
class ShownTable:
    """One table of `show --tables`: up to 1,000 rows of the initial database."""

    name: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    total: int
    """Rows the table holds."""


@dataclass(frozen=True, kw_only=True)
class ShowReport:
    """`show`: the environment, and the parts that were asked for (null otherwise)."""

    id: str
    split: str
    title: str
    description: str
    categories: tuple[str, ...]
    rules: str
    usage: str
    interface: str
    requires: tuple[str, ...]
    clock: str
    content_hash: str
    tables_count: int
    tools_count: int
    tasks_count: int
    quality: Mapping[str, Any] | None
    provenance: Mapping[str, Any]
    tools: tuple[ShownTool, ...] | None = None
    tasks: tuple[ShownTask, ...] | None = None
    tables: tuple[ShownTable, ...] | None = None
    code: str | None = None


@dataclass(frozen=True, kw_only=True)
class CallReport:
    """`call`: one call on a fresh instance, and the rows it changed."""

    environment: str
    task: str | None
    seed: int
    tier: str
    tool: str
    arguments: Mapping[str, Any]
    result: Mapping[str, Any]
    """`type`, `value`, `code`, `message`, `seconds`."""
    diff: Mapping[str, Any]
    """`{table: {added, removed, changed: [{key, before, after}]}}`."""


@dataclass(frozen=True, kw_only=True)
class SubsetReport:
    """`subset`: what was chosen, and why other tasks were not."""

    out: str
    source: str
    revision: str | None
    environments_count: int
    tasks_count: int
    sound_environments: int
    """What could be chosen from."""
    sound_tasks: int
    left_out: Mapping[str, int]
    """Reason → tasks."""
    fingerprint: str
    """Equal exactly where environments, their content and the tasks are."""


@dataclass(frozen=True, kw_only=True)
class ExamplesReport:
    """`subset --rollouts`: the rollouts that were kept to learn from, and why others were not."""

    out: str
    """Folder of the dataset."""
    source: str
    revision: str | None
    rollouts_count: int
    tasks_count: int
    """Tasks that have one."""
    left_out: Mapping[str, int]
    """Reason → rollouts."""


@dataclass(frozen=True, kw_only=True)
class NewReport:
    """`new`: the source folder that was written."""

    folder: str
    files: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class ServeReport:
    """`serve`, after it was stopped."""

    url: str | None
    """Where it was reached; null over stdio."""


@dataclass(frozen=True, kw_only=True)
class DemoCall:
    """One call of the demo, as the MCP client saw it."""

    tool: str
    arguments: Mapping[str, Any]
    is_error: bool
    result: str


@dataclass(frozen=True, kw_only=True)
class DemoReport:
    """`demo`: what happened on the way from a row to a verdict."""

    environment: str
    task: str
    instruction: str
    mcp_version: str
    """Version of the MCP SDK that server and client use."""
    tier: str
    tools: tuple[str, ...]
    calls: tuple[DemoCall, ...]
    diff: Mapping[str, Any]
    verdict: Mapping[str, Any]
    seconds: float
    next: tuple[str, ...] = field(default=())
    """Commands to try."""

"""What verbs report: the frozen shapes of `data` and `error` in `--json` output.

Programs rely on them: a field may be added, never renamed, retyped or removed within a major version. Verbs that stand
on a library function report that function's record (`pack`, `unpack` and `import`).
"""

import dataclasses
import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from awm_hub.errors import AwmHubError


@dataclass(frozen=True, kw_only=True)
class Finished:
    """A verb that ran. `data` is its report; exit code 1 says that something failed its check."""

    data: Any
    exit_code: int = 0


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A verb that could not do what was asked."""

    type: str
    """Class name of the error; `invalid_call` or `fault` for a call; `Interrupted`, `InternalError`."""
    message: str
    next: str
    """What to do about it."""
    exit_code: int

    @classmethod
    def of(cls, error: AwmHubError) -> "Failure":
        """From an error of the library."""
        kind = type(error).__name__
        return cls(type=kind, message=error.message, next=error.next_step, exit_code=error.exit_code)


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


def plain(value: Any) -> Any:
    """A record as JSON: dataclasses as objects, tuples as lists, times as ISO 8601, paths as text."""
    if hasattr(value, "to_dict"):
        return plain(value.to_dict())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, dt.datetime):
        return value.isoformat()
    return str(value) if isinstance(value, PurePath) else value

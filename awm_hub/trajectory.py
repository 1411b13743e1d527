"""What an agent did: tool results, state differences, steps, trajectories, verdicts.

A `Trajectory` is the whole record of one attempt at a task and can be replayed: the same calls with the same seed give
the same results and databases. A failed call is data, typed by structure and never by searching its text.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self

from awm_hub.canonical import MAX_JSON_DEPTH, STRICT_DECODER, depth, to_json
from awm_hub.environment import Environment
from awm_hub.errors import LimitError, RecordError

RESULT_TYPES = ("ok", "invalid_call", "refused", "fault")
TERMINATIONS = (
    "answered", "max_turns", "format_error", "environment_fault", "context_full", "endpoint_error", "stopped",
)  # fmt: skip

MAX_TRAJECTORY_BYTES = 256 * 2**20
"""The largest database image, zlib's worst case and base64 in a delta, with room for the steps."""
_MAX_DEPTH = MAX_JSON_DEPTH + 8
"""A result may be nested as deeply as a record allows; a trajectory's fields lie around it."""


@dataclass(frozen=True, kw_only=True)
class ToolResult:
    """A call's typed answer.

    `ok`: the call returned `value`. `invalid_call`: unknown tool, or arguments that violate the published schema; the
    code was not run. `refused`: a business answer, `code` is not_found, conflict, invalid, forbidden or
    failed_precondition. `fault`: the environment failed; `code` names the exception, HTTP status or limit.
    """

    type: str
    value: Any = None
    code: str | None = None
    message: str = ""
    seconds: float = field(default=0.0, compare=False)
    """Wall-clock time in the worker."""

    @property
    def is_ok(self) -> bool:
        """Whether the call returned a value."""
        return self.type == "ok"

    def text(self) -> str:
        """What the agent reads: the value as JSON (a text as it is), or the code and message."""
        if self.type == "ok":
            return self.value if isinstance(self.value, str) else to_json(self.value)
        return to_json({"error": {"type": self.type, "code": self.code, "message": self.message}})

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Self:
        """From the JSON form."""
        return cls(**{f.name: found[f.name] for f in dataclasses.fields(cls) if f.name in found})


@dataclass(frozen=True, kw_only=True)
class RowChange:
    """One row with the same key before and after, and different values."""

    key: dict[str, Any]
    before: dict[str, Any]
    after: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class TableDiff:
    """Rows of one table that differ. Values are JSON; see `StateDiff`."""

    added: tuple[dict[str, Any], ...] = ()
    removed: tuple[dict[str, Any], ...] = ()
    changed: tuple[RowChange, ...] = ()


@dataclass(frozen=True)
class StateDiff:
    """Rows added, removed and changed per table, as an object.

    Values are JSON. What JSON has no form for is an object with one key: `{"blob": base64}` for bytes,
    `{"text": base64}` for text that is no UTF-8, `{"real": "inf"}` for a number that is not finite.
    """

    tables: Mapping[str, TableDiff] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.tables)

    def __getitem__(self, table: str) -> TableDiff:
        return self.tables.get(table, TableDiff())

    def __iter__(self) -> Iterator[str]:
        return iter(self.tables)

    def __contains__(self, table: object) -> bool:
        return table in self.tables

    def __len__(self) -> int:
        return len(self.tables)

    @property
    def rows_count(self) -> int:
        """Rows added, removed and changed in all."""
        return sum(len(t.added) + len(t.removed) + len(t.changed) for t in self.tables.values())

    def to_dict(self) -> dict[str, Any]:
        """JSON form: `{table: {added: [row], removed: [row], changed: [{key, before, after}]}}`."""
        return {
            name: {
                "added": list(diff.added),
                "removed": list(diff.removed),
                "changed": [dataclasses.asdict(c) for c in diff.changed],
            }
            for name, diff in self.tables.items()
        }

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Self:
        """From the JSON form."""
        return cls(
            {
                name: TableDiff(
                    added=tuple(t["added"]),
                    removed=tuple(t["removed"]),
                    changed=tuple(RowChange(**c) for c in t["changed"]),
                )
                for name, t in found.items()
            }
        )


@dataclass(frozen=True, kw_only=True)
class Step:
    """One action and its observation."""

    tool: str
    arguments: Any
    result: ToolResult
    state_version: int
    """Grows by one whenever the database may have changed."""
    thought: str | None = None
    tokens: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """JSON form, the result's fields beside the call's."""
        result = self.result.to_dict()
        return {
            "thought": self.thought,
            "tool": self.tool,
            "arguments": self.arguments,
            "result": result["value"] if self.result.is_ok else result["message"],
            "type": self.result.type,
            "code": self.result.code,
            "state_version": self.state_version,
            "seconds": self.result.seconds,
            "tokens": self.tokens,
        }

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Self:
        """From the JSON form."""
        is_ok = found["type"] == "ok"
        result = ToolResult(
            type=found["type"],
            value=found["result"] if is_ok else None,
            message="" if is_ok else found["result"],
            code=found.get("code"),
            seconds=found.get("seconds", 0.0),
        )
        return cls(
            tool=found["tool"],
            arguments=found["arguments"],
            result=result,
            state_version=found["state_version"],
            thought=found.get("thought"),
            tokens=found.get("tokens"),
        )


class Outcome(StrEnum):
    """What a judge may find. A judge that fails raises `JudgeError`; that is no outcome."""

    COMPLETED = "COMPLETED"
    PARTIALLY_COMPLETED = "PARTIALLY_COMPLETED"
    AGENT_ERROR = "AGENT_ERROR"
    ENVIRONMENT_ERROR = "ENVIRONMENT_ERROR"


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What code found out about an ending, for a judge to decide on."""

    diff: StateDiff
    signals: Any = None
    """Output of the `signals` verifier, JSON; None where there is none."""
    decision: Any = None
    """Output of the `decision` verifier or of the derived comparison, JSON."""
    answer_matches: bool | None = None
    """Whether the given answer equals the expected one; None when no answer is asked for."""

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "diff": self.diff.to_dict(),
            "signals": self.signals,
            "decision": self.decision,
            "answer_matches": self.answer_matches,
        }

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Self:
        """From the JSON form."""
        return cls(**{**found, "diff": StateDiff.from_dict(found["diff"])})


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """A judge's finding on one trajectory."""

    outcome: Outcome
    judge: str
    """`decision`, `reference` or `llm`."""
    reasoning: str
    evidence: Evidence
    usage: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "outcome": str(self.outcome),
            "judge": self.judge,
            "reasoning": self.reasoning,
            "evidence": self.evidence.to_dict(),
            "usage": self.usage,
        }

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Self:
        """From the JSON form."""
        return cls(
            outcome=Outcome(found["outcome"]),
            judge=found["judge"],
            reasoning=found["reasoning"],
            evidence=Evidence.from_dict(found["evidence"]),
            usage=dict(found.get("usage", {})),
        )


@dataclass(frozen=True, kw_only=True)
class Trajectory:
    """The whole record of one attempt; JSON by `to_dict`, replayable."""

    environment_id: str
    environment_hash: str
    revision: str | None = None
    """Dataset revision the environment came from."""
    task_id: str | None
    policy: dict[str, Any] = field(default_factory=dict)
    seed: int
    tier: str
    """Sandbox tier the calls ran in: `sealed` or `process`."""
    options: dict[str, Any] = field(default_factory=dict)
    clock: str
    """ISO 8601 start of the environment's clock."""
    steps: tuple[Step, ...]
    answer: str | None = None
    termination: str = "stopped"
    database_delta: str
    """Final database against the initial one: `awm_hub.runtime.pages`."""
    calls_count: int = 0
    """Calls dispatched to code: the clock's offset in seconds, and the position of the random numbers."""
    verdicts: tuple[Verdict, ...] = ()
    usage: dict[str, Any] = field(default_factory=dict)
    """Tokens, cost, requests and seconds, summed over the episode."""
    messages: tuple[dict[str, Any], ...] = ()
    """The conversation in chat form, uncut; empty where the policy holds none."""
    violations: tuple[dict[str, Any], ...] = ()
    """Broken rules of the format (paper §4): rule, name, turn, message."""
    environment: Environment | None = field(default=None, repr=False, compare=False)
    """The environment itself where it is at hand; not part of the JSON form."""

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        plain = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name != "environment"}
        return {
            **plain,
            "steps": [s.to_dict() for s in self.steps],
            "verdicts": [v.to_dict() for v in self.verdicts],
            "messages": list(self.messages),
            "violations": list(self.violations),
        }

    @classmethod
    def from_dict(cls, found: Mapping[str, Any], environment: Environment | None = None) -> Self:
        """From the JSON form."""
        known = {f.name for f in dataclasses.fields(cls)}
        return cls(
            **{
                **{k: v for k, v in found.items() if k in known},
                "steps": tuple(Step.from_dict(s) for s in found["steps"]),
                "verdicts": tuple(Verdict.from_dict(v) for v in found.get("verdicts", ())),
                "messages": tuple(found.get("messages", ())),
                "violations": tuple(found.get("violations", ())),
                "environment": environment,
            }
        )


def decoded(data: bytes | str, what: str) -> dict[str, Any]:
    """The JSON object of an untrusted text.

    Raises:
        LimitError: it is too long or nested too deeply.
        RecordError: it is no JSON object.
    """
    if len(data) > MAX_TRAJECTORY_BYTES:
        raise LimitError(f"{what} is longer than {MAX_TRAJECTORY_BYTES} bytes")
    try:
        text = data if isinstance(data, str) else data.decode()
        if depth(text) > _MAX_DEPTH:
            raise LimitError(f"{what} is nested deeper than {_MAX_DEPTH}")
        found = STRICT_DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{what} is not valid JSON: {error}") from error
    if not isinstance(found, dict):
        raise RecordError(f"{what} is no JSON object")
    return found


def trajectory_from(found: Mapping[str, Any], what: str) -> Trajectory:
    """A trajectory from its untrusted JSON form.

    Raises:
        RecordError: it is no trajectory.
    """
    try:
        return Trajectory.from_dict(found)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RecordError(f"{what} is no trajectory: {type(error).__name__} {error}") from error

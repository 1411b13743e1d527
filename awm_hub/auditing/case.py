"""What all parts of one environment's audit share: the environment, its seed, and a place for findings."""

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from awm_hub import aio
from awm_hub.auditing.examples import Seed
from awm_hub.auditing.findings import Finding, finding
from awm_hub.canonical import to_json
from awm_hub.environment import Environment, ToolSpec
from awm_hub.runtime import jobs
from awm_hub.runtime.workers import Workers
from awm_hub.trajectory import ToolResult


@dataclass(frozen=True, kw_only=True)
class Probe:
    """One call that the audit made, and its result."""

    tool: str
    arguments: Mapping[str, Any]
    result: ToolResult
    odd: str | None = None
    """The parameter whose argument is an odd one; None where all are plain."""


@dataclass
class Case:
    """One environment under audit."""

    environment: Environment
    seed: Seed
    is_trusted: bool = False
    workers: Workers = field(default_factory=Workers)
    fork: jobs.Fork | None = None
    """Where databases are read; without one, each is read in a fork of its own. No code of the row runs there."""
    findings: list[Finding] = field(default_factory=list)
    tally: Counter[str] = field(default_factory=Counter)
    """Shared with variants of the case, as the findings are."""
    answered: set[str] = field(default_factory=set)
    """Tools of which some call was `ok`."""
    made: dict[str, tuple[str, Mapping[str, Any]]] = field(default_factory=dict)
    """Every call once, in the order in which it was first made."""
    _heard: dict[str, Any] = field(default_factory=dict)
    """By tool, a running hash of all its calls and answers."""

    def note(self, rule: str, subject: str, message: str, *, severity: str | None = None) -> None:
        """Add a finding, once."""
        found = finding(rule, subject, message, severity=severity)
        if found not in self.findings:
            self.findings.append(found)

    def has(self, rule: str, subject: str = "") -> bool:
        """Whether there is a finding of this rule, on this subject if one is named."""
        return any(f.rule == rule and subject in ("", f.subject) for f in self.findings)

    @property
    def reading(self) -> jobs.Fork | None:
        """The fork to read a database in; None once a damaged one has killed it."""
        return None if self.fork is None or self.fork.is_dead else self.fork

    @property
    def is_own_form(self) -> bool:
        """Whether the row is of the interface whose refusals are typed; the other answers `not found` with a fault."""
        return self.environment.interface == "functions"

    def read_tools(self) -> list[ToolSpec]:
        """Tools that cannot change the database."""
        return [tool for tool in self.environment.tools if tool.effect == "read"]

    async def launch(self, *, task: str | None = None, environment: Environment | None = None) -> aio.Instance:
        """A live instance of the environment, or of a variant of it."""
        return await aio.launch(
            environment or self.environment, task=task, trust_remote_code=self.is_trusted, workers=self.workers
        )

    async def call(self, instance: aio.Instance, tool: str, arguments: Mapping[str, Any]) -> ToolResult:
        """A call, counted."""
        result = await instance.call_tool(tool, arguments)
        self.hear(tool, arguments, result)
        return result

    def hear(self, tool: str, arguments: Mapping[str, Any], result: ToolResult) -> None:
        """Count a call: one that was made, or one whose result is known since the same calls were made before."""
        self.tally["calls"] += 1
        if result.is_ok:
            self.answered.add(tool)
        self.made.setdefault(to_json([tool, arguments]), (tool, arguments))
        told = to_json([arguments, result.type, result.code, result.value, result.message])
        self._heard.setdefault(tool, hashlib.sha256()).update(told.encode())

    def unheard(self, environment: Environment | None = None) -> "Case":
        """The same case for calls that are not to be counted, of the environment or a variant of it."""
        found = replace(self, tally=Counter(), answered=set(), made={}, _heard={})
        return found if environment is None else replace(found, environment=environment)

    def fingerprints(self) -> dict[str, str]:
        """A hash of each tool's calls and answers in this audit, which is the same whenever the tools do the same."""
        return {tool: heard.hexdigest()[:16] for tool, heard in sorted(self._heard.items())}

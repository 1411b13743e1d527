"""What an audit finds: findings, one environment's result, and the whole report.

A finding names a rule (`awm_hub.auditing.rules`), what it is about and what to do next. All records have a JSON form
that reads back, because finished environments are kept in a run file and a report is read by other programs.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from awm_hub.auditing.rules import RULES, SEVERITIES
from awm_hub.environment import Quality

_MAX_MESSAGE = 600


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that is wrong with an environment, or may be."""

    rule: str
    """Id of a rule."""
    severity: str
    """`error`, `warning` or `info`."""
    subject: str
    """Slug of a task, name of a tool, table or column; empty where it is the whole environment."""
    message: str
    next_step: str

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Self:
        """From the JSON form."""
        return cls(**{f.name: str(found[f.name]) for f in dataclasses.fields(cls)})


def finding(rule: str, subject: str, message: str, *, severity: str | None = None) -> Finding:
    """A finding by a rule, with the rule's next step and, unless said otherwise, its severity."""
    known = RULES[rule]
    message = message.encode("utf-8", "replace").decode()
    if len(message) > _MAX_MESSAGE:
        message = message[: _MAX_MESSAGE - 1] + "…"
    return Finding(
        rule=rule,
        severity=severity or known.severity,
        subject=subject,
        message=message,
        next_step=known.next_step,
    )


@dataclass(frozen=True, kw_only=True)
class Counts:
    """How many of how many."""

    right: int = 0
    tried: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(right=self.right + other.right, tried=self.tried + other.tried)

    @property
    def share(self) -> float | None:
        """None where none was tried."""
        return self.right / self.tried if self.tried else None


@dataclass(frozen=True, kw_only=True)
class Attempted:
    """An attempt that was not judged as it should be: a mutant that survived or an equivalent that was rejected."""

    task: str
    name: str
    """What was done, in words."""
    reason: str
    """What the decision said."""


@dataclass(frozen=True, kw_only=True)
class AuditedEnvironment:
    """The result of one environment."""

    id: str
    content_hash: str
    findings: tuple[Finding, ...]
    survivors: tuple[Attempted, ...] = ()
    """Mutants that were accepted; those of the held-out kind are only counted."""
    rejected: tuple[Attempted, ...] = ()
    """Equivalents that were not accepted."""
    held_out: Counts = field(default_factory=Counts)
    """Mutants of the held-out kind: rejected and tried."""
    coverage: Counts = field(default_factory=Counts)
    """Lines of the tools that some call reached, of all."""
    fingerprints: Mapping[str, str] = field(default_factory=dict)
    """By tool, a hash of all calls and answers of this audit."""
    setting: str = ""
    """Hash of what decides which calls an audit makes: everything of the row but code and verifiers."""
    calls_count: int = 0
    seconds: float = 0.0
    """Time that the audit of it took; others may have run beside it."""
    quality: Quality

    def count(self, severity: str) -> int:
        """Findings of a severity."""
        return sum(f.severity == severity for f in self.findings)

    def compared_with(self, before: "AuditedEnvironment") -> Self:
        """This result with a finding for each tool that does otherwise than in an earlier audit of the same data."""
        if self.setting != before.setting:
            return self
        tools = [name for name, told in self.fingerprints.items() if before.fingerprints.get(name, told) != told]
        told = "the same calls, or those that follow from its answers, differ from the baseline"
        changed = tuple(finding("behaviour_changed", name, told) for name in tools)
        return dataclasses.replace(self, findings=(*self.findings, *changed))

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        plain = dataclasses.asdict(dataclasses.replace(self, quality=Quality()))
        return {**plain, "quality": self.quality.to_dict()}

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Self:
        """From the JSON form."""
        return cls(
            **{
                **found,
                "findings": tuple(map(Finding.from_dict, found["findings"])),
                "survivors": tuple(Attempted(**a) for a in found["survivors"]),
                "rejected": tuple(Attempted(**a) for a in found["rejected"]),
                "held_out": Counts(**found["held_out"]),
                "coverage": Counts(**found["coverage"]),
                "quality": Quality.from_dict(found["quality"]),
            }
        )


@dataclass(frozen=True, kw_only=True)
class Unaudited:
    """An environment that could not be audited."""

    id: str
    type: str
    """Class name of the error."""
    message: str


@dataclass(frozen=True, kw_only=True)
class AuditReport:
    """The whole audit."""

    source: str
    revision: str | None
    audit_version: int
    environments: tuple[AuditedEnvironment, ...]
    unaudited: tuple[Unaudited, ...] = ()
    taken_over: int = 0
    """Environments whose result an earlier, interrupted run had left in the run file."""
    seconds: float = 0.0

    @property
    def totals(self) -> dict[str, Any]:
        """Sums over all environments."""
        tasks = [task for environment in self.environments for task in environment.quality.tasks]
        equivalents = _sum((t.equivalents_accepted, t.equivalents_tried) for t in tasks)
        mutants = _sum((t.mutants_rejected, t.mutants_tried) for t in tasks)
        return {
            "environments": len(self.environments),
            "tasks": len(tasks),
            **{f"{severity}s": sum(e.count(severity) for e in self.environments) for severity in SEVERITIES},
            "by_rule": _by_rule(self.environments),
            "equivalents": _shared(equivalents),
            "mutants": _shared(mutants),
            "held_out": _shared(sum((e.held_out for e in self.environments), Counts())),
            "coverage": _shared(sum((e.coverage for e in self.environments), Counts())),
            "unaudited": len(self.unaudited),
            "taken_over": self.taken_over,
        }

    def reaches(self, severity: str) -> bool:
        """Whether a finding is at least as severe, or an environment could not be audited."""
        worst = SEVERITIES[: SEVERITIES.index(severity) + 1]
        return bool(self.unaudited) or any(f.severity in worst for e in self.environments for f in e.findings)

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {
            **{f.name: getattr(self, f.name) for f in dataclasses.fields(self)},
            "environments": [e.to_dict() for e in self.environments],
            "unaudited": [dataclasses.asdict(u) for u in self.unaudited],
            "totals": self.totals,
        }


def _by_rule(environments: Iterable[AuditedEnvironment]) -> dict[str, int]:
    found = [f.rule for e in environments for f in e.findings]
    return {rule: found.count(rule) for rule in RULES if rule in found}


def _sum(pairs: Iterable[tuple[int | None, int | None]]) -> Counts:
    return sum((Counts(right=right or 0, tried=tried or 0) for right, tried in pairs), Counts())


def _shared(counts: Counts) -> dict[str, Any]:
    return {"right": counts.right, "tried": counts.tried, "share": counts.share}

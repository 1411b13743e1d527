"""The bar of quality: which environments are published.

Rows of one's own have to be sound, since their author can mend them. Rows that were imported are somebody else's and
are published with their findings: they only have to be audited, so that those who train can filter. A row whose licence
is unknown is nobody's to publish.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from awm_hub.card import EnvironmentFacts
from awm_hub.environment import Quality, TaskQuality

BARS = ("default", "sound", "audited", "none")
"""`sound`: every check of the audit that was made passes, and no finding is an error; `audited`: there is an audit of
the present content; `none`: any environment; `default`: `audited` for imported rows and `sound` for others."""
MUTANTS_REJECTED = 0.95
"""Share of an environment's mutants that have to be rejected, as the audit's goal says."""
UNLICENSED = "its licence is unknown"
_MUST_BE_ZERO = ("schema_errors", "seed_errors", "foreign_key_violations", "tool_faults")
_MUST_BE_EMPTY = ("dropped_tools", "false_effects", "errors")
_OF_TASKS = ("noop_rejected", "seed_unsatisfied", "solution_passes")


@dataclass(frozen=True, kw_only=True)
class BelowBar:
    """An environment that does not reach the bar."""

    id: str
    reasons: tuple[str, ...]


def below_bar(facts: Iterable[EnvironmentFacts], bar: str = "default") -> tuple[BelowBar, ...]:
    """The environments that do not reach a bar, one of `BARS`."""
    found = ((e.id, tuple(_reasons(e, bar))) for e in facts)
    return tuple(BelowBar(id=id_, reasons=reasons) for id_, reasons in found if reasons)


def without_license(facts: Iterable[EnvironmentFacts]) -> tuple[BelowBar, ...]:
    """The environments of which it is not known whether they may be published."""
    reason = (UNLICENSED,)
    return tuple(
        BelowBar(id=e.id, reasons=reason) for e in facts if (e.provenance.license or "").strip().lower() == "unknown"
    )


def _reasons(environment: EnvironmentFacts, bar: str) -> Iterator[str]:
    if bar == "none":
        return
    if environment.quality is None:
        yield "not audited in its present content"
    elif bar == "sound" or (bar == "default" and environment.provenance.source is None):
        yield from _faults(environment.quality)


def _faults(quality: Quality) -> Iterator[str]:
    for name in _MUST_BE_ZERO:
        if getattr(quality, name):
            yield f"{name}: {getattr(quality, name)}"
    for name in _MUST_BE_EMPTY:
        if getattr(quality, name):
            yield f"{name}: {', '.join(getattr(quality, name))}"
    if quality.hidden_state:
        yield "hidden_state"
    if quality.deterministic is False:
        yield "not deterministic"
    for task in quality.tasks:
        yield from _task_faults(task)
    tried = sum(t.mutants_tried or 0 for t in quality.tasks)
    rejected = sum(t.mutants_rejected or 0 for t in quality.tasks)
    if tried and rejected / tried < MUTANTS_REJECTED:
        yield f"mutants_rejected: {rejected} of {tried}"


def _task_faults(task: TaskQuality) -> Iterator[str]:
    slug = task.id.rpartition("/")[2]
    yield from (f"{slug}: not {name}" for name in _OF_TASKS if getattr(task, name) is False)
    accepted, tried = task.equivalents_accepted or 0, task.equivalents_tried or 0
    if accepted < tried:
        yield f"{slug}: equivalents_accepted: {accepted} of {tried}"

"""What the audit found, summed up: how many environments and tasks pass each check, of those that it was made on."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from awm_hub.card.charts import Bar
from awm_hub.card.facts import EnvironmentFacts
from awm_hub.card.markdown import counted, table
from awm_hub.environment import Quality, TaskQuality

_METHOD = """`awm-hub audit` builds every database again, calls every tool with plausible and with odd arguments, runs
everything twice, and compares interleaved, restored and reset instances. At each task it does nothing, which must fail;
it replays the reference solution, which must pass, and variants of it: equivalents (extra reads, independent calls
swapped, a refused call first) must pass too, mutants (a write left out, an argument changed, an extra write, another
task's solution, a wrong answer) must fail. A check counts only where it could be made: tasks without a reference
solution have no variants."""


@dataclass(frozen=True, kw_only=True)
class Passed:
    """One check: how many passed of those that it was made on."""

    name: str
    passed: int
    made: int

    @property
    def share(self) -> float:
        """From 0 to 1."""
        return self.passed / self.made if self.made else 0.0


_OF_ENVIRONMENTS: tuple[tuple[str, Callable[[Quality], bool | None]], ...] = (
    ("schema loads", lambda q: _is_zero(q.schema_errors)),
    ("sample data loads", lambda q: _is_zero(q.seed_errors)),
    ("foreign keys hold", lambda q: _is_zero(q.foreign_key_violations)),
    ("no tool hidden by another", lambda q: not q.dropped_tools),
    ("no tool faults", lambda q: _is_zero(q.tool_faults)),
    ("tools do what they declare", lambda q: not q.false_effects),
    ("no finding is an error", lambda q: not q.errors),
    ("no state outside the database", lambda q: None if q.hidden_state is None else not q.hidden_state),
    ("two runs are identical", lambda q: q.deterministic),
)
_OF_TASKS: tuple[tuple[str, Callable[[TaskQuality], bool | None]], ...] = (
    ("doing nothing fails", lambda t: t.noop_rejected),
    ("initial data does not satisfy it", lambda t: t.seed_unsatisfied),
    ("reference solution passes", lambda t: t.solution_passes),
)


def _is_zero(count: int | None) -> bool | None:
    return None if count is None else count == 0


def audit_summary(facts: Sequence[EnvironmentFacts]) -> str:
    """The section of a card: what was audited, how, and with which result."""
    audited = [e for e in facts if e.quality is not None]
    if not audited:
        return f"These environments were not audited.\n\n{_METHOD}"
    tasks = sum(len(e.quality.tasks) for e in audited if e.quality)
    lines = [
        f"{_of(len(audited), len(facts))} environments were audited in their present content, with "
        f"{counted(tasks, 'task')}.",
        _METHOD,
        table(("environments", "pass", "of"), _rows(environment_checks(facts))),
        table(("tasks", "pass", "of"), _rows(task_checks(facts))),
        "Every result is in the column `quality`, by which `awm.load(…, quality={…})` filters; the most telling ones "
        "are in the `tasks` config too.",
    ]
    return "\n\n".join(lines)


def environment_checks(facts: Iterable[EnvironmentFacts]) -> list[Passed]:
    """Checks per environment that were made at least once."""
    qualities = [e.quality for e in facts if e.quality is not None]
    return [p for name, check in _OF_ENVIRONMENTS if (p := _passed(name, map(check, qualities))).made]


def task_checks(facts: Iterable[EnvironmentFacts]) -> list[Passed]:
    """Checks per task that were made at least once, and the variants of solutions."""
    tasks = [t for e in facts if e.quality is not None for t in e.quality.tasks]
    found = [_passed(name, map(check, tasks)) for name, check in _OF_TASKS]
    for name, pairs in (
        ("equivalents accepted", [(t.equivalents_accepted, t.equivalents_tried) for t in tasks]),
        ("mutants rejected", [(t.mutants_rejected, t.mutants_tried) for t in tasks]),
    ):
        found.append(Passed(name=name, passed=sum(r or 0 for r, _ in pairs), made=sum(n or 0 for _, n in pairs)))
    return [p for p in found if p.made]


def audit_bars(facts: Sequence[EnvironmentFacts]) -> list[Bar]:
    """All checks as bars."""
    checks = (*environment_checks(facts), *task_checks(facts))
    return [Bar(name=p.name, share=p.share, told=f"{_percent(p.share)} of {p.made:,}") for p in checks]


def _passed(name: str, results: Iterable[bool | None]) -> Passed:
    made = [r for r in results if r is not None]
    return Passed(name=name, passed=sum(made), made=len(made))


def _rows(checks: Iterable[Passed]) -> Iterator[tuple[str, str, str]]:
    for check in checks:
        yield check.name, f"{check.passed:,} ({_percent(check.share)})", f"{check.made:,}"


def _percent(share: float) -> str:
    """Rounded down, so that 100 % means all."""
    return f"{int(share * 1000) / 10:g} %"


def _of(part: int, whole: int) -> str:
    return f"All {whole:,}" if part == whole else f"{part:,} of {whole:,}"

"""Statistics of a dataset, beside those of the paper's."""

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from awm_hub.card.facts import EnvironmentFacts
from awm_hub.card.markdown import number, table

_PAPER = "arXiv 2602.10090"
CATEGORIES_SHOWN = 12
_TOOL_STEPS = (5, 10, 15, 20, 25, 30, 40, 50, 75, 100)
_CALL_STEPS = (1, 2, 3, 4, 5, 6, 8, 10, 15, 20)


@dataclass(frozen=True, kw_only=True)
class Spread:
    """How a figure is spread over environments or tasks."""

    mean: float
    median: float
    p90: float
    """Nearest rank."""


def spread(values: Sequence[int]) -> Spread | None:
    """None of no values."""
    if not values:
        return None
    ninetieth = sorted(values)[math.ceil(0.9 * len(values)) - 1]
    return Spread(mean=statistics.fmean(values), median=statistics.median(values), p90=ninetieth)


def statistics_table(facts: Sequence[EnvironmentFacts]) -> str:
    """Mean, median and 90th percentile beside the means of the paper's dataset."""
    calls = [t.calls for e in facts for t in e.tasks if t.calls is not None]
    tools = [t.tools for e in facts for t in e.tasks if t.tools is not None]
    rows: list[tuple[str, Sequence[int], float]] = [
        ("tables per environment", [e.tables for e in facts], 18.5),
        ("rows of sample data", [e.rows for e in facts], 129),
        ("tools", [e.tools for e in facts], 35.1),
        ("lines of code", [e.code_lines for e in facts], 1985),
        ("tasks", [len(e.tasks) for e in facts], 10),
        ("calls to solve a task \\*", calls, 8.5),
        ("different tools among them \\*", tools, 7.1),
    ]
    head = ("", "mean", "median", "p90", "paper, mean")
    note = f"The paper's figures are of its 1,000 environments ({_PAPER})."
    if calls:
        note += (
            f"\n\n\\* Here of the reference solution, which {len(calls):,} of {sum(len(e.tasks) for e in facts):,} "
            "tasks have; in the paper of an agent."
        )
    return f"{table(head, (_row(*r) for r in rows if r[1]))}\n\n{note}"


def _row(name: str, values: Sequence[int], paper: float) -> tuple[str, ...]:
    found = spread(values)
    figures = (found.mean, found.median, found.p90) if found else (None, None, None)
    return (name, *map(number, figures), number(paper))


def categories(facts: Iterable[EnvironmentFacts]) -> list[tuple[str, int]]:
    """The most frequent categories, and the others together."""
    found = Counter(category for e in facts for category in e.categories)
    ordered = sorted(found.items(), key=lambda item: (-item[1], item[0]))
    shown, others = ordered[:CATEGORIES_SHOWN], ordered[CATEGORIES_SHOWN:]
    return [*shown, *([(f"{len(others)} others", sum(count for _, count in others))] if others else [])]


def toolset_sizes(facts: Iterable[EnvironmentFacts]) -> list[tuple[str, int]]:
    """Environments by the number of their tools."""
    return _binned([e.tools for e in facts], _TOOL_STEPS)


def difficulties(facts: Iterable[EnvironmentFacts]) -> list[tuple[str, int]]:
    """Tasks by the length of their reference solution."""
    return _binned([t.calls for e in facts for t in e.tasks if t.calls is not None], _CALL_STEPS)


def _binned(values: Sequence[int], steps: Sequence[int]) -> list[tuple[str, int]]:
    """Counts between steps, from the first to the last that holds anything."""
    bounds = [(low + 1, high) for low, high in zip((0, *steps[:-1]), steps, strict=True)]
    if any(v == 0 for v in values):
        bounds = [(0, 0), *bounds]
    named = [(_range(low, high), sum(low <= v <= high for v in values)) for low, high in bounds]
    named.append((f"over {steps[-1]}", sum(v > steps[-1] for v in values)))
    filled = [i for i, (_, count) in enumerate(named) if count]
    return named[filled[0] : filled[-1] + 1] if filled else []


def _range(low: int, high: int) -> str:
    return str(low) if low == high else f"{low}–{high}"

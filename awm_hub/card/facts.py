"""What a card counts of an environment: small records, so that a thousand environments are held as a few megabytes."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from awm_hub.environment import Environment, Provenance, Quality, Task

_SQL = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/|\bVALUES\b|[()]", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class TaskFacts:
    """One task."""

    id: str
    kind: str | None
    has_decision: bool
    calls: int | None
    """Calls of the reference solution, where there is one."""
    tools: int | None
    """Different tools among them."""


@dataclass(frozen=True, kw_only=True)
class EnvironmentFacts:
    """One environment."""

    id: str
    title: str
    split: str
    usage: str
    interface: str
    categories: tuple[str, ...]
    content_hash: str
    tables: int
    rows: int
    """Rows that the sample data's INSERT statements name."""
    tools: int
    code_lines: int
    tasks: tuple[TaskFacts, ...]
    quality: Quality | None
    """None where the present content was not audited."""
    provenance: Provenance


def facts_of(environment: Environment) -> EnvironmentFacts:
    """The facts of an environment."""
    e, quality = environment, environment.quality
    return EnvironmentFacts(
        id=e.id,
        title=e.title,
        split=e.split,
        usage=e.usage,
        interface=e.interface,
        categories=e.categories,
        content_hash=e.content_hash,
        tables=len(e.tables),
        rows=rows_in(statement for table in e.seed for statement in table.inserts),
        tools=len(e.tools),
        code_lines=len(e.code.splitlines()),
        tasks=tuple(_task(t) for t in e.tasks),
        quality=quality if quality is not None and quality.audited_hash == e.content_hash else None,
        provenance=e.provenance,
    )


def _task(task: Task) -> TaskFacts:
    solution = task.solution
    return TaskFacts(
        id=task.id,
        kind=task.kind,
        has_decision=solution is not None or task.verifier("decision") is not None,
        calls=None if solution is None else len(solution),
        tools=None if solution is None else len({c.tool for c in solution}),
    )


def rows_in(statements: Iterable[str]) -> int:
    """Rows that INSERT statements name after VALUES; one for a statement that selects."""
    return sum(_rows_of(s) for s in statements)


def _rows_of(statement: str) -> int:
    depth = rows = 0
    has_values = False
    for word in _SQL.findall(statement):
        if word == "(":
            rows += has_values and depth == 0
            depth += 1
        elif word == ")":
            depth -= 1
        elif word.upper() == "VALUES" and depth == 0:
            has_values = True
    return rows if has_values else 1

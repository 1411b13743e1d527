"""The fourth stage: the rows that make the tasks possible, and hard.

The gate loads every row in the sealed runtime; none may fail (the paper accepts up to a tenth). A failing reference is
named with the row that is missing, since SQLite does not say. Then it looks at what was loaded: how much there is,
whether days fit the clock (`dates`), and whether texts that tasks quote are there.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from awm_hub.environment import SeedTable
from awm_hub.errors import AwmHubError, SealError
from awm_hub.packing import statements
from awm_hub.runtime import jobs
from awm_hub.synthesis import products
from awm_hub.synthesis.drafts import Draft
from awm_hub.synthesis.problems import Problem
from awm_hub.synthesis.products import Parts
from awm_hub.synthesis.prompting import clock_text, fill
from awm_hub.synthesis.stages import dates, shapes
from awm_hub.synthesis.stages.base import Stage
from awm_hub.synthesis.stages.database import Schema, built, read_schema
from awm_hub.synthesis.stages.reporting import reported, unstorable

_MOST_IMAGE_BYTES = 8 * 2**20
_ALL_ROWS = 2**31
_EMPTY_TABLES = 2
"""That may be left empty, as logs are."""
_LOG = re.compile(r"log|histor|audit|event|notif|messag")
_QUOTATION = re.compile(r"""(?<!\w)'([^'\n]{3,80})'(?!\w)|"([^"\n]{3,80})"|“([^”\n]{3,80})”""")
_PROPER = re.compile(r"[A-Z0-9 ]")
"""Quoted texts without any of these are words of an answer, such as "yes"."""


def prompt(draft: Draft) -> str:
    """The instruction for a draft."""
    return fill("sample_data", rows=str(draft.sizes.rows), clock=clock_text(draft.clock))


def render(parts: Parts) -> str:
    """The product in the form of an answer."""
    return products.fenced("sql", products.write_sql(parts))


async def check(draft: Draft) -> tuple[Problem, ...]:
    """The gate: every row is loaded, and what was loaded is looked at.

    Raises:
        SealError: this machine cannot seal a process.
    """
    parts = draft.parts("sample_data")
    if broken := unstorable("sample_data", parts):
        return reported(broken)
    schema = read_schema(draft.parts("database"))
    ordered = [table.name.lower() for table in schema.tables if table.name.lower() in parts]
    found = list(_unknown_tables(parts, schema))
    seed: list[SeedTable] = []
    for name in ordered:
        tables, problems = _read(name, parts[name])
        seed += tables
        found += problems
    report = await built("sample_data", draft, schema, tuple(seed))
    if isinstance(report, Problem):
        return reported([*found, report])
    if len(report.image) > _MOST_IMAGE_BYTES:
        message = f"the database has more than {_MOST_IMAGE_BYTES} bytes: write fewer or smaller rows"
        return reported([*found, _problem("too_large", "", message)])
    try:
        found += await _of_rows(draft, report)
    except SealError:
        raise
    except AwmHubError as error:
        found.append(_problem("unreadable_data", "", f"what was loaded cannot be read: {error.message[:300]}"))
    return reported(found)


STAGE = Stage(
    name="sample_data",
    prompt=prompt,
    shows=("scenario", "task", "database"),
    read=products.read_sql,
    render=render,
    check=check,
)


def _problem(rule: str, subject: str, message: str, severity: str = "error") -> Problem:
    return Problem(stage="sample_data", rule=rule, subject=subject, message=message, severity=severity)


def _unknown_tables(parts: Parts, schema: Schema) -> Iterator[Problem]:
    known = [table.name.lower() for table in schema.tables]
    for name in parts:
        if name not in known:
            step = shapes.near(name, known) or "; name it under remove"
            yield _problem("unknown_table", name, f"the schema has no such table{step}")


def _read(name: str, text: str) -> tuple[list[SeedTable], list[Problem]]:
    """The statements of a part, and what is wrong with their form."""
    try:
        split = statements.split(text)
        seed = statements.seed(split)
    except statements.StatementError as error:
        return [], [_problem("seed_form", name, f"{error}: {statements.shown(error.statement, 160)}")]
    words = dict.fromkeys(word for statement in split for word in _words_in_rows(statement))
    if not words:
        return [*seed], []
    listed = ", ".join(list(words)[:4])
    return [*seed], [_problem("seed_not_literal", name, f"rows hold {listed}: write numbers, 'texts' and NULL only")]


def _words_in_rows(statement: str) -> Iterator[str]:
    """Words after VALUES that are no literals: functions, subqueries, names."""
    words = list(statements.tokens(statement))
    start = next((at for at, word in enumerate(words) if word.is_word("VALUES")), len(words))
    for word in words[start + 1 :]:
        if word.kind == "word" and not word.is_word("NULL", "TRUE", "FALSE"):
            yield word.value[:40]


async def _of_rows(draft: Draft, report: jobs.BuildReport) -> list[Problem]:
    tables = await jobs.dump(report.image, max_rows=_ALL_ROWS)
    made = await shapes.read_shapes(report.image, draft.clock)
    found = [*_failures(report, made, tables), *_of_sizes(report.row_counts, draft.sizes.rows)]
    for name, told in tables.items():
        found += _of_numbers(name.lower(), told)
        for rule, message, severity in dates.faults(told["columns"], told["rows"], draft.clock):
            found.append(_problem(rule, name.lower(), message, severity))
    return [*found, *_of_quotations(draft, tables)]


def _of_numbers(table: str, told: Mapping[str, Any]) -> Iterator[Problem]:
    """Numbers beyond what SQLite can hold, which it turns into infinity."""
    for at, column in enumerate(told["columns"]):
        if any(isinstance(row[at], dict) and "real" in row[at] for row in told["rows"]):
            yield _problem("seed_not_finite", table, f"{column} holds a number that is too large to be stored")


def _failures(report: jobs.BuildReport, made: shapes.Shapes, tables: Mapping[str, Any]) -> Iterator[Problem]:
    """Rows that do not load, those of a table that fail alike together."""
    grouped: dict[tuple[str, str, str], list[jobs.Problem]] = {}
    for problem in report.problems:
        rule = {"seed": "seed_error", "foreign_keys": "foreign_key"}.get(problem.stage)
        if rule is not None:
            grouped.setdefault((rule, problem.subject.lower(), problem.message), []).append(problem)
    incomplete = {table for _, table, _ in grouped}
    for (rule, table, message), problems in grouped.items():
        count, row = len(problems), _values_in(problems[0].statement)
        which = f"{count} rows do not load" if count > 1 else "a row does not load"
        example = f"; {'the first' if count > 1 else 'it'} is {row}" if row else ""
        hint = _hint(table, message, problems[0].statement, made, tables, incomplete)
        yield _problem(rule, table, f"{which}: {message}{example}{hint}")


def _values_in(statement: str) -> str:
    values = re.split(r"\bVALUES\b", statement, maxsplit=1, flags=re.IGNORECASE)
    return statements.shown(values[1], 160) if len(values) == 2 else ""


def _hint(
    table: str,
    message: str,
    statement: str,
    made: shapes.Shapes,
    tables: Mapping[str, Any],
    incomplete: set[str],
) -> str:
    """What SQLite leaves unsaid, as the end of a message."""
    if "FOREIGN KEY" in message:
        missing = list(_missing_parents(table, statement, made, tables))
        also = sorted({parent for parent, _ in missing if parent in incomplete})
        told = "; ".join(text for _, text in missing)
        return (f": {told}" if told else "") + (f" (rows of {', '.join(also)} do not load either)" if also else "")
    if "syntax error" in message or "unrecognized token" in message:
        return ": a quote inside a text is doubled"
    if "has no column" in message and table in made.by_lower:
        return f": it has {', '.join(made.by_lower[table].types)}"
    return ""


def _missing_parents(
    table: str, statement: str, made: shapes.Shapes, tables: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    """Each reference of a row that leads to no row: the parent, and what it does not have."""
    row = _row_in(statement)
    for reference in made.references:
        parent = made.by_lower.get(reference.parent.lower())
        if reference.child.lower() != table or parent is None:
            continue
        values = [row.get(column.lower()) for column in reference.columns]
        targets = reference.targets or parent.key
        columns = [c.lower() for c in tables[parent.name]["columns"]]
        places = [columns.index(t.lower()) for t in targets if t.lower() in columns]
        if None in values or len(places) != len(values):
            continue
        if not any([str(line[at]) for at in places] == values for line in tables[parent.name]["rows"]):
            named = ", ".join(f"{target} {value}" for target, value in zip(targets, values, strict=True))
            yield parent.name.lower(), f"{parent.name} has no {named}"


def _row_in(statement: str) -> dict[str, str | None]:
    """Column → literal of an INSERT of one row, as text; None for NULL."""
    groups: list[list[str | None]] = []
    depth = 0
    for token in statements.tokens(statement):
        depth += (token.value == "(") - (token.value == ")")
        if depth != 1:
            continue
        if token.value == "(":
            groups.append([""])
        elif token.value == ",":
            groups[-1].append("")
        else:
            groups[-1][-1] = _joined(groups[-1][-1], token)
    if len(groups) < 2 or len(groups[0]) != len(groups[1]):
        return {}
    return {str(column).lower(): value for column, value in zip(groups[0], groups[1], strict=True)}


def _joined(before: str | None, token: statements.Token) -> str | None:
    if token.is_word("NULL") and not before:
        return None
    return (before or "") + (token.name if token.kind in ("text", "quoted") else token.value)


def _of_sizes(row_counts: Mapping[str, int], wanted: int) -> Iterator[Problem]:
    total = sum(row_counts.values())
    if total < wanted:
        yield _problem("too_few_rows", "", f"{total} rows are there; at least {wanted} are wanted")
    empty = sorted(name.lower() for name, count in row_counts.items() if count == 0)
    if len(empty) > _EMPTY_TABLES:
        yield _problem("empty_tables", "", f"these tables have no rows: {', '.join(empty)}")
        return
    for name in empty:
        if not _LOG.search(name):
            yield _problem("empty_tables", name, "the table has no rows", "warning")


def _of_quotations(draft: Draft, tables: Mapping[str, Any]) -> Iterator[Problem]:
    """Texts that a query quotes and that are nowhere; what other tasks quote may be theirs to write."""
    cells = (cell for told in tables.values() for row in told["rows"] for cell in row if isinstance(cell, str))
    held = "\n".join(cells).casefold()
    for slug, told in draft.tasks.items():
        if not isinstance(told, dict) or told.get("kind") != "query":
            continue
        for match in _QUOTATION.finditer(str(told.get("instruction"))):
            text = next(part for part in match.groups() if part is not None)
            if _PROPER.search(text) and text.casefold() not in held:
                message = f"the task quotes {text!r}, which no row holds"
                yield _problem("literal_unknown", slug, message, "warning")

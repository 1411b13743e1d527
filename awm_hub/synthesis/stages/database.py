"""The third stage: the tables.

The gate creates them in the sealed runtime, without rows, and looks at the schema that comes of it. SQLite takes a
reference to a table that does not exist, a trigger that names a missing column and a CHECK that looks at the clock, and
fails only when rows arrive; they are found here, where they can be mended.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from awm_hub.environment import SeedTable, Table
from awm_hub.errors import AwmHubError, LoadError, SandboxError, SealError
from awm_hub.packing import statements
from awm_hub.runtime import jobs
from awm_hub.synthesis import products
from awm_hub.synthesis.drafts import Draft
from awm_hub.synthesis.problems import Problem
from awm_hub.synthesis.products import Parts
from awm_hub.synthesis.prompting import clock_text, fill
from awm_hub.synthesis.stages import shapes
from awm_hub.synthesis.stages.base import Stage
from awm_hub.synthesis.stages.reporting import reported, unstorable

_KINDS = ("table", "index", "view", "trigger")
"""In the order in which they are created."""
_STUCK = re.compile(r"at the (?:schema|seed) of (\S{1,100}?):")
_RANDOM = ("RANDOM", "RANDOMBLOB")
_CLOCKS = ("CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP")
_DAY_NAMES = ("_on", "_date", "_at")


@dataclass(frozen=True, kw_only=True)
class Schema:
    """The statements of a database product, and what is wrong with their form."""

    tables: tuple[Table, ...]
    further_ddl: tuple[str, ...]
    parts: Mapping[str, str]
    """Statement → the part that it belongs to."""
    problems: tuple[Problem, ...]


def prompt(draft: Draft) -> str:
    """The instruction for a draft."""
    return fill("database", tables=str(draft.sizes.tables), clock=clock_text(draft.clock))


def render(parts: Parts) -> str:
    """The product in the form of an answer."""
    return products.fenced("sql", products.write_sql(parts))


async def check(draft: Draft) -> tuple[Problem, ...]:
    """The gate: the schema is created and looked at.

    Raises:
        SealError: this machine cannot seal a process.
    """
    broken = unstorable("database", draft.parts("database"))
    if broken:
        return reported(broken)
    schema = read_schema(draft.parts("database"))
    found = [*schema.problems, *_changeable(schema)]
    report = await built("database", draft, schema)
    if isinstance(report, Problem):
        return reported([*found, report])
    found += _failures(schema, report)
    try:
        made = await shapes.read_shapes(report.image, draft.clock)
    except SealError:
        raise
    except AwmHubError as error:
        return reported([*found, _problem("unreadable_schema", "", statements.shown(error.message, 300))])
    found += [*_of_tables(schema, made, draft.sizes.tables), *_of_references(schema, made)]
    found += [*_of_days(schema, made), *await _of_programs(report.image, draft, made)]
    return reported(found)


STAGE = Stage(
    name="database", prompt=prompt, shows=("scenario", "task"), read=products.read_sql, render=render, check=check
)


def read_schema(parts: Parts) -> Schema:
    """Take the product apart as a source's `schema.sql` is; what does not fit is left out and becomes a problem."""
    tables: list[Table] = []
    further: list[str] = []
    origins: dict[str, str] = {}
    problems: list[Problem] = []
    for name, text in sorted(parts.items(), key=lambda part: _position(part[0])):
        if _position(name) == len(_KINDS):
            problems.append(
                _problem("no_schema", name, "only CREATE statements belong to the database: remove this part")
            )
            continue
        known = [f'CREATE TABLE "{t.name}" (x)' for t in tables] if name.startswith("index ") else []
        try:
            split = statements.split(text)
            found, others = statements.schema([*known, *split])
        except statements.StatementError as error:
            problems.append(_problem("schema_form", name, f"{error}: {statements.shown(error.statement, 160)}"))
            continue
        if unwanted := next(filter(None, map(_unwanted, split)), None):
            problems.append(_problem("schema_form", name, unwanted))
            continue
        origins |= dict.fromkeys(split, name)
        further += others
        tables = _with_indexes(tables, found) if known else [*tables, *found]
    return Schema(tables=tuple(tables), further_ddl=tuple(further), parts=origins, problems=tuple(problems))


async def built(
    stage: str, draft: Draft, schema: Schema, seed: tuple[SeedTable, ...] = ()
) -> jobs.BuildReport | Problem:
    """The database, built without tools; a problem of `stage` where the build does not come to its end.

    Raises:
        SealError: this machine cannot seal a process.
    """
    request = jobs.BuildRequest(
        interface="functions",
        code=None,
        clock=draft.clock,
        tables=schema.tables,
        further_ddl=schema.further_ddl,
        seed=seed,
        strict=False,
    )
    try:
        return await jobs.build(request)
    except SealError:
        raise
    except LoadError as error:
        stuck = _STUCK.search(error.message)
        subject = stuck[1] if stuck else ""
        message = statements.shown(error.message, 300)
    except SandboxError:
        subject, message = "", "building the database takes too much time or memory"
    return Problem(stage=stage, rule="build_stopped", subject=subject, message=message)


def _problem(rule: str, subject: str, message: str, severity: str = "error") -> Problem:
    return Problem(stage="database", rule=rule, subject=subject, message=message, severity=severity)


def _position(name: str) -> int:
    kind = name.partition(" ")[0] if " " in name else ""
    return _KINDS.index(kind) if kind in _KINDS else len(_KINDS)


def _unwanted(statement: str) -> str | None:
    """Why a statement that a source may hold is none for a new world."""
    words = list(statements.tokens(statement))
    if words[1].is_word("VIRTUAL"):
        return "virtual tables are not wanted: write a plain table"
    if words[1].is_word("TABLE") and any(w.is_word("AS") and _is_query(words, at + 1) for at, w in enumerate(words)):
        return "CREATE TABLE … AS SELECT gives a table without constraints: write its columns"
    return None


def _is_query(words: list[statements.Token], at: int) -> bool:
    return at < len(words) and words[at].is_word("SELECT", "WITH", "VALUES")


def _with_indexes(tables: list[Table], found: tuple[Table, ...]) -> list[Table]:
    """The tables with further indexes; `found` are stand-ins for the same tables, in order."""
    return [
        Table(name=table.name, ddl=table.ddl, indexes=(*table.indexes, *more.indexes))
        for table, more in zip(tables, found, strict=True)
    ]


def _changeable(schema: Schema) -> Iterator[Problem]:
    """Statements whose outcome depends on chance or on the time."""
    for statement, part in schema.parts.items():
        words = list(statements.tokens(statement))
        if any(word.is_word(*_RANDOM) and _opens(words, at + 1) for at, word in enumerate(words)):
            yield _problem(
                "nothing_random", part, "random() and randomblob() give other values each time: leave them out"
            )
        if any(_looks_at_clock(check) for check in _checks(words)):
            message = "a CHECK looks at the present time, which SQLite refuses when rows arrive: leave it to the tools"
            yield _problem("nothing_random", part, message)


def _checks(words: list[statements.Token]) -> Iterator[list[statements.Token]]:
    """The tokens inside each CHECK."""
    for at, word in enumerate(words):
        if word.is_word("CHECK") and _opens(words, at + 1):
            depth, inner = 0, []
            for token in words[at + 1 :]:
                depth += (token.value == "(") - (token.value == ")")
                inner.append(token)
                if depth == 0:
                    break
            yield inner


def _looks_at_clock(check: list[statements.Token]) -> bool:
    return any(t.is_word(*_CLOCKS) or (t.is_name and t.name.casefold() == "now") for t in check)


def _opens(words: list[statements.Token], at: int) -> bool:
    return at < len(words) and words[at].value == "("


def _failures(schema: Schema, report: jobs.BuildReport) -> Iterator[Problem]:
    """Statements that fail; an index of a table that failed is not to blame."""
    by_start = {statement[:2000]: part for statement, part in schema.parts.items()}
    failed: set[str] = set()
    for problem in report.problems:
        part = by_start.get(problem.statement, problem.subject)
        if problem.stage != "schema" or (part.startswith("index ") and problem.subject in failed):
            continue
        failed.add(problem.subject)
        yield _problem("schema_error", part, f"{problem.message} in: {statements.shown(problem.statement, 200)}")


def _of_tables(schema: Schema, made: shapes.Shapes, wanted: int) -> Iterator[Problem]:
    if len(made.tables) < wanted:
        yield _problem("too_few_tables", "", f"there are {len(made.tables)} tables; at least {wanted} are wanted")
    for table in made.tables.values():
        if not table.key:
            yield _problem("no_primary_key", f"table {table.name.lower()}", "the table has no PRIMARY KEY")
        elif [c.lower() for c in table.key] == ["id"] and table.types[table.key[0]].upper() != "INTEGER":
            message = "id must be INTEGER PRIMARY KEY, so that SQLite numbers new rows"
            yield _problem("id_type", f"table {table.name.lower()}", message)


def _of_references(schema: Schema, made: shapes.Shapes) -> Iterator[Problem]:
    declared = {table.name.lower(): position for position, table in enumerate(schema.tables)}
    for reference in made.references:
        part = f"table {reference.child.lower()}"
        place = f"{reference.child}.{', '.join(reference.columns)} refers to {reference.parent}"
        parent = reference.parent.lower()
        if parent not in made.by_lower:
            if parent not in declared:  # else its own statement failed
                yield _problem("foreign_key", part, f"{place}, which does not exist{shapes.near(parent, declared)}")
        elif not made.is_key(reference):
            told = f" ({', '.join(reference.targets)})" if reference.targets else ""
            yield _problem("foreign_key", part, f"{place}{told}, which is neither its PRIMARY KEY nor UNIQUE")
        elif declared.get(parent, 0) > declared.get(reference.child.lower(), 0):
            step = f'name "{part}" under remove and give it again in the same answer: it then stands last'
            message = f"{place}, which stands after it, so that no row could be written; {step}; or drop the reference"
            yield _problem("foreign_key_order", part, message)


def _of_days(schema: Schema, made: shapes.Shapes) -> Iterator[Problem]:
    """Columns that seem to hold days or moments, in whatever form."""
    checked = {
        table.name.lower(): {
            t.name.lower() for check in _checks(list(statements.tokens(table.ddl))) for t in check if t.is_name
        }
        for table in schema.tables
    }
    for table in made.tables.values():
        free = [
            column
            for column in table.types
            if column.lower().endswith(_DAY_NAMES)
            and not (table.defaults[column] or "").upper().startswith("CURRENT_")
            and column.lower() not in checked.get(table.name.lower(), ())
        ]
        if free:
            message = f"{', '.join(free)}: no CHECK says the form; for a day: CHECK (x IS date(x, '+0 days'))"
            yield _problem("date_unchecked", f"table {table.name.lower()}", message, "warning")


async def _of_programs(image: bytes, draft: Draft, made: shapes.Shapes) -> list[Problem]:
    """Views and triggers that name what is not there."""
    found = []
    for view in made.views:
        error = await shapes.fault_of(image, f"SELECT * FROM {shapes.quoted(view)} LIMIT 0", draft.clock)
        found += [_problem("schema_error", f"view {view.lower()}", error)] if error else []
    for trigger, tried in made.trials:
        error = await shapes.fault_of(image, f"EXPLAIN {tried}", draft.clock)
        found += [_problem("schema_error", f"trigger {trigger.lower()}", error)] if error else []
    return found

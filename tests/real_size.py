"""A synthetic dataset as large as the real release: 1,000 environments of about 150 KB.

Counts are those of the released environments (35 tools, 18 tables, 129 seed rows, 10 tasks each), and so is what
compression makes of them, a fifth to a sixth: names come from a vocabulary, numbers are random.
"""

import dataclasses
import datetime as dt
import hashlib
import random
import sqlite3
from collections.abc import Iterator

from awm_hub.environment import Environment, Quality, SeedTable, Table, Task, TaskQuality, ToolSpec, Verifier

TOOLS, TABLES, ROWS, TASKS = 35, 18, 7, 10
_SYLLABLES = (
    "ar",
    "bel",
    "cor",
    "dan",
    "el",
    "fer",
    "gan",
    "hol",
    "ing",
    "jor",
    "kel",
    "lam",
    "mor",
    "nor",
    "ost",
    "pel",
)
_CLOCK = dt.datetime(2026, 2, 10, tzinfo=dt.UTC)


def environments(count: int) -> Iterator[Environment]:
    """Environments `shop_0000`, `shop_0001`, … with audit results: every tenth was not audited, of others some fail."""
    for number in range(count):
        yield _environment(number)


def _environment(number: int) -> Environment:
    draw = random.Random(number)
    vocabulary = ["".join(draw.choices(_SYLLABLES, k=draw.randint(2, 3))) for _ in range(300)]
    words = [vocabulary[int(300 * draw.random() ** 4)] for _ in range(700)]  # some are much more frequent than others
    name = f"shop_{number:04}"
    tables = [f"{vocabulary[i]}_{i}" for i in range(TABLES)]
    ddl = {t: f"CREATE TABLE {t} (id INTEGER PRIMARY KEY, {_columns(draw, words)})" for t in tables}
    inserts = {t: tuple(_insert(draw, words, t, i) for i in range(ROWS)) for t in tables}
    database = _image([*ddl.values(), *(s for found in inserts.values() for s in found)])
    environment = Environment(
        id=name,
        title=f"{words[0]} {words[1]} {number}".title(),
        description=_prose(draw, words, 80),
        categories=(f"shop_{number % 7}",),
        interface="functions",
        code="\n".join(_line(draw, words) for _ in range(1_050)),
        tables=tuple(Table(name=t, ddl=ddl[t], indexes=(f"CREATE INDEX i_{t} ON {t} (a)",)) for t in tables),
        seed=tuple(SeedTable(table=t, inserts=inserts[t]) for t in tables),
        database=database,
        image_sha256=hashlib.sha256(database).hexdigest(),
        clock=_CLOCK,
        tools=tuple(_tool(draw, words, i) for i in range(TOOLS)),
        tasks=tuple(_task(draw, words, name, i) for i in range(TASKS)),
        content_hash="",
    ).with_hash(hashlib.sha256(name.encode()).hexdigest())
    return environment if number % 10 == 9 else _audited(environment, number)


def _audited(environment: Environment, number: int) -> Environment:
    tasks = tuple(
        TaskQuality(id=t.id, noop_rejected=(number + i) % 20 != 0, seed_unsatisfied=(number + i) % 15 != 0)
        for i, t in enumerate(environment.tasks)
    )
    quality = Quality(
        schema_errors=0,
        seed_errors=number % 3,
        tool_faults=number % 4,
        tools_tried=TOOLS,
        hidden_state=number % 25 == 0,
        deterministic=number % 40 != 0,
        tasks=tasks,
        audited_hash=environment.content_hash,
        audited_by="tests",
        audited_at=_CLOCK,
    )
    return dataclasses.replace(environment, quality=quality)


def _prose(draw: random.Random, words: list[str], count: int) -> str:
    return " ".join(draw.choices(words, k=count)).capitalize() + "."


def _columns(draw: random.Random, words: list[str]) -> str:
    return ", ".join(f"{c} {draw.choice(('TEXT', 'INTEGER', 'REAL'))} /* {draw.choice(words)} */" for c in "abc")


def _insert(draw: random.Random, words: list[str], table: str, row: int) -> str:
    cells = ", ".join(f"'{draw.choice(words)} {draw.choice(words)} {draw.randint(1, 10**4)}'" for _ in "abc")
    return f"INSERT INTO {table} (id, a, b, c) VALUES ({row + 1}, {cells})"


def _line(draw: random.Random, words: list[str]) -> str:
    pattern = draw.choice(
        (
            "    {} = session.query(models.{}).filter_by({}=payload.{}).first()",
            "    if {} is None or {} > {}:",
            "    {}: Optional[str] = Field(None, description='{} {} {}')",
            "    return {}Response({}={}, {}=row.id)",
        )
    )
    return pattern.format(*draw.choices(words, k=4))


def _tool(draw: random.Random, words: list[str], number: int) -> ToolSpec:
    properties = {
        draw.choice(words): {"type": "string", "description": _prose(draw, words, 6)} for _ in range(draw.randint(1, 4))
    }
    schema = {"type": "object", "properties": properties, "required": sorted(properties)[:1]}
    return ToolSpec(name=f"{draw.choice(words)}_{number}", description=_prose(draw, words, 12), input_schema=schema)


def _task(draw: random.Random, words: list[str], environment: str, number: int) -> Task:
    code = "\n".join(_line(draw, words) for _ in range(16))
    verifier = Verifier(kind="signals", function="verify_task", code=code, success_criteria=_prose(draw, words, 20))
    return Task(id=f"{environment}/t{number}", instruction=_prose(draw, words, 30), verifiers=(verifier,))


def _image(statements: list[str]) -> bytes:
    db = sqlite3.connect(":memory:")
    db.execute("PRAGMA page_size = 1024")
    for statement in statements:
        db.execute(statement)
    db.commit()
    return db.serialize()

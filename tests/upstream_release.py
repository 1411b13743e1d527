"""A synthetic release in upstream's form and of its size: eight files, 495 KB of JSON lines per environment.

Each environment has 18 tables, 126 sample rows, 35 tools, about 2,000 lines of code, 10 tasks and verifiers of both
kinds; it loads, and its tools work. Names differ from environment to environment, so that nothing can be shared.

On its own: `python tests/upstream_release.py FOLDER COUNT`.
"""

import contextlib
import json
import random
import sys
from pathlib import Path
from typing import Any

TABLES, ROWS, TOOLS, TASKS = 18, 7, 35, 10
FILES = (
    "gen_scenario",
    "gen_tasks",
    "gen_db",
    "gen_sample",
    "gen_spec",
    "gen_envs",
    "gen_verifier",
    "gen_verifier.pure_code",
)
BYTES = 495_000
"""Of an environment, in all files; the specification is as long as it takes."""
_SYLLABLES = ("ar", "bel", "cor", "dan", "el", "fer", "gan", "hol", "ing", "jor", "kel", "lam", "mor", "nor", "ost")

_HEAD = """import os
from typing import List, Optional

from fastapi import FastAPI
from pydantic import BaseModel, Field
from sqlalchemy import Column, Integer, String, create_engine
from sqlalchemy.orm import declarative_base, sessionmaker

engine = create_engine(os.getenv("DATABASE_PATH", "sqlite:///x.db"), connect_args={"check_same_thread": False})
SessionLocal = sessionmaker(bind=engine)
Base = declarative_base()
app = FastAPI()
"""
_MODEL = """

class Model{n}(Base):
    __tablename__ = "{table}"
    id = Column(Integer, primary_key=True)
    name = Column(String, nullable=False)
    amount = Column(Integer)


class Body{n}(BaseModel):
    name: str = Field(..., description="{prose}")
    amount: Optional[int] = Field(None, description="{prose}")
{padding}

@app.get("/{table}", operation_id="list_{table}", summary="{prose}")
async def list_{table}(limit: int = 20):
    session = SessionLocal()
    found = [{{"id": r.id, "name": r.name, "amount": r.amount}} for r in session.query(Model{n}).limit(limit)]
    session.close()
    return found
"""
_ADDING = """

@app.post("/{table}", operation_id="add_{table}", summary="{prose}")
async def add_{table}(body: Body{n}):
    session = SessionLocal()
    row = Model{n}(name=body.name, amount=body.amount)
    session.add(row)
    session.commit()
    result = {{"id": row.id}}
    session.close()
    return result
"""
_VERIFIER = '''def {function}({parameters}):
    import sqlite3

    connection = sqlite3.connect(final_db_path)
    found = connection.execute("SELECT count(*) FROM {table} WHERE name = 'wanted {task}'").fetchone()[0]
    connection.close()
    notes = """
{padding}
"""
    return {result}
'''


def write_release(folder: Path, count: int) -> int:
    """Write the files of `count` environments.

    Returns:
        Their size in bytes.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        files = {f: stack.enter_context((folder / f"{f}.jsonl").open("w", encoding="utf-8")) for f in FILES}
        for number in range(count):
            for file, record in _environment(number):
                files[file].write(json.dumps(record) + "\n")
    return sum(path.stat().st_size for path in folder.iterdir())


def _environment(number: int) -> list[tuple[str, dict[str, Any]]]:
    draw = random.Random(number)
    words = ["".join(draw.choices(_SYLLABLES, k=3)) for _ in range(600)]

    def prose(count: int) -> str:
        return " ".join(words[int(len(words) * draw.random() ** 4)] for _ in range(count))  # some are frequent

    name = f"Shop {number}"
    tables = [f"{word}_{i}" for i, word in enumerate(words[:TABLES])]
    tasks = [f"Add a row named 'wanted {i}' to {tables[i]}. {prose(25)}" for i in range(TASKS)]
    found = [
        ("gen_scenario", {"name": name, "description": prose(90)}),
        ("gen_tasks", {"scenario": name, "tasks": tasks}),
        ("gen_db", {"scenario": name, "db_path": "./x.db", "db_schema": {"tables": [_table(t) for t in tables]}}),
        ("gen_sample", _sample(name, tables, prose)),
        ("gen_envs", {"scenario": name, "db_path": "./x.db", "full_code": _code(tables, prose)}),
    ]
    for index, task in enumerate(tasks):
        found += _verifiers(name, index, task, tables[index], prose)
    left = BYTES - sum(len(json.dumps(record)) + 1 for _, record in found)
    return [*found, ("gen_spec", _specification(name, tables, prose, left))]


def _table(name: str) -> dict[str, Any]:
    ddl = f"CREATE TABLE {name} (id INTEGER PRIMARY KEY, name TEXT NOT NULL, amount INTEGER);"
    return {"name": name, "ddl": ddl, "indexes": [f"CREATE INDEX {name}_by_name ON {name}(name);"]}


def _sample(name: str, tables: list[str], prose: Any) -> dict[str, Any]:
    def insert(table: str, row: int) -> str:
        return f"INSERT INTO {table} (id, name, amount) VALUES ({row}, '{prose(20)}', {row});"

    found = [
        {"table_name": t, "reasoning": prose(30), "insert_statements": [insert(t, r) for r in range(1, ROWS + 1)]}
        for t in tables
    ]
    count = TABLES * ROWS
    return {"scenario": name, "tables_count": TABLES, "inserts_count": count, "sample_data": {"tables": found}}


def _code(tables: list[str], prose: Any) -> str:
    parts = [_HEAD]
    for n, table in enumerate(tables):
        padding = "\n".join(f"    # {prose(6)}" for _ in range(76))
        parts.append(_MODEL.format(n=n, table=table, prose=prose(8), padding=padding))
        if n < TOOLS - TABLES:
            parts.append(_ADDING.format(n=n, table=table, prose=prose(8)))
    return "".join(parts)


def _verifiers(name: str, index: int, task: str, table: str, prose: Any) -> list[tuple[str, dict[str, Any]]]:
    forms = (
        ("gen_verifier", "verify_task", "initial_db_path, final_db_path", '{"found": found}'),
        (
            "gen_verifier.pure_code",
            "verify_task_completion",
            "initial_db_path, final_db_path, final_answer=None",
            '{"result": "complete" if found else "others"}',
        ),
    )
    found = []
    for file, function, parameters, result in forms:
        padding = "\n".join(prose(8) for _ in range(70))
        code = _VERIFIER.format(
            function=function, parameters=parameters, table=table, task=index, padding=padding, result=result
        )
        criteria = {"success_criteria": prose(30), "failure_criteria": prose(30)}
        raw = json.dumps({"reasoning": prose(40), "python_code": code, "function_name": function, **criteria})
        verification = {"code": code, "raw_response": raw}
        found.append((file, {"scenario": name, "task_idx": index, "task": task, "verification": verification}))
    return found


def _specification(name: str, tables: list[str], prose: Any, size: int) -> dict[str, Any]:
    """As long as it takes to give an environment its size."""
    operations = [f"list_{t}" for t in tables] + [f"add_{t}" for t in tables[: TOOLS - TABLES]]
    each = max(1, size // (TOOLS * 9) - 22)
    endpoints = [
        {
            "operation_id": operation,
            "method": "GET" if operation.startswith("list") else "POST",
            "path": f"/{operation.partition('_')[2]}",
            "summary": prose(8),
            "description": prose(each),
        }
        for operation in operations
    ]
    groups = [{"group_name": "all", "endpoints": endpoints}]
    return {"scenario": name, "api_spec": {"api_groups": groups}}


if __name__ == "__main__":
    print(write_release(Path(sys.argv[1]), int(sys.argv[2])))

"""A small run of the upstream pipeline, written for these tests: a marina that lets berths."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

MARINA_CODE = """
import os

from fastapi import FastAPI
from pydantic import BaseModel
from sqlalchemy import Column, ForeignKey, Integer, String, create_engine
from sqlalchemy.orm import declarative_base, sessionmaker

engine = create_engine(os.getenv("DATABASE_PATH", "sqlite:///marina.db"), connect_args={"check_same_thread": False})
SessionLocal = sessionmaker(bind=engine)
Base = declarative_base()
app = FastAPI()


class Berth(Base):
    __tablename__ = "berths"
    id = Column(Integer, primary_key=True)
    name = Column(String, nullable=False)
    length_m = Column(Integer, nullable=False)


class Stay(Base):
    __tablename__ = "stays"
    id = Column(Integer, primary_key=True)
    berth_id = Column(Integer, ForeignKey("berths.id"), nullable=False)
    boat = Column(String, nullable=False)


class StayIn(BaseModel):
    berth_id: int
    boat: str


@app.get("/berths", operation_id="list_berths", summary="All berths")
async def list_berths():
    session = SessionLocal()
    found = [{"id": b.id, "name": b.name, "length_m": b.length_m} for b in session.query(Berth).order_by(Berth.id)]
    session.close()
    return found


@app.post("/stays", operation_id="book_stay")
async def book_stay(stay: StayIn):
    session = SessionLocal()
    row = Stay(berth_id=stay.berth_id, boat=stay.boat)
    session.add(row)
    session.commit()
    result = {"id": row.id}
    session.close()
    return result
"""

DECISION_CODE = """
def verify_task_completion(initial_db_path, final_db_path, final_answer=None):
    import sqlite3

    connection = sqlite3.connect(f"file:{final_db_path}?mode=ro", uri=True)
    found = connection.execute("SELECT count(*) FROM stays WHERE boat = 'Heron'").fetchone()[0]
    connection.close()
    return {"result": "complete" if found else "others"}
"""

SIGNALS_CODE = """
def verify_task(initial_db_path, final_db_path):
    import sqlite3

    connection = sqlite3.connect(final_db_path)
    stays = connection.execute("SELECT count(*) FROM stays").fetchone()[0]
    connection.close()
    return {"stays": stays}
"""


class UpstreamRun:
    """Writes upstream files line by line; a line is a record, or bytes as they are."""

    marina_code = MARINA_CODE
    decision_code = DECISION_CODE
    signals_code = SIGNALS_CODE

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def line(self, file: str, record: dict[str, Any] | bytes) -> "UpstreamRun":
        content = record if isinstance(record, bytes) else json.dumps(record, ensure_ascii=False).encode() + b"\n"
        with (self.folder / f"{file}.jsonl").open("ab") as stream:
            stream.write(content)
        return self

    def scenario(self, name: str, description: str = "A marina lets berths to boats.") -> "UpstreamRun":
        return self.line("gen_scenario", {"name": name, "description": description})

    def tasks(self, name: str, *tasks: Any) -> "UpstreamRun":
        return self.line("gen_tasks", {"scenario": name, "tasks": list(tasks)})

    def tables(self, name: str, *extra: dict[str, Any]) -> "UpstreamRun":
        berths = "CREATE TABLE berths (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, length_m INTEGER NOT NULL);"
        stays = (
            "CREATE TABLE stays (id INTEGER PRIMARY KEY, berth_id INTEGER NOT NULL, boat TEXT NOT NULL, "
            "FOREIGN KEY (berth_id) REFERENCES berths(id));"
        )
        tables = [
            {"name": "berths", "ddl": berths, "indexes": ["CREATE INDEX berths_by_length ON berths(length_m);"]},
            {"name": "stays", "ddl": stays, "indexes": []},
            *extra,
        ]
        return self.line("gen_db", {"scenario": name, "db_schema": {"tables": tables}, "db_path": "./x.db"})

    def seed(self, name: str, *stays: str, announced: int | None = None) -> "UpstreamRun":
        berths = ["INSERT INTO berths (id, name, length_m) VALUES (1, 'A1', 8), (2, 'A2', 12);"]
        tables = [
            {"table_name": "berths", "reasoning": "", "insert_statements": berths},
            {"table_name": "stays", "reasoning": "", "insert_statements": list(stays)},
        ]
        count = 1 + len(stays) if announced is None else announced
        data = {"scenario": name, "tables_count": 2, "inserts_count": count, "sample_data": {"tables": tables}}
        return self.line("gen_sample", data)

    def specification(self, name: str, **operations: str) -> "UpstreamRun":
        endpoints = [
            {"operation_id": key, "summary": text, "path": "/", "method": "GET"} for key, text in operations.items()
        ]
        groups = [{"group_name": "all", "endpoints": endpoints}]
        return self.line("gen_spec", {"scenario": name, "api_spec": {"api_groups": groups}})

    def code(self, name: str, code: str = MARINA_CODE) -> "UpstreamRun":
        return self.line("gen_envs", {"scenario": name, "db_path": "./x.db", "full_code": code})

    def verifier(
        self, name: str, index: int, task: str, code: str, *, file: str = "gen_verifier", **answer: Any
    ) -> "UpstreamRun":
        raw = json.dumps(answer) if answer else ""
        verification = {"code": code, "raw_response": raw}
        return self.line(file, {"scenario": name, "task_idx": index, "task": task, "verification": verification})

    def whole(self, name: str) -> "UpstreamRun":
        """Every part of one scenario, without a fault."""
        self.scenario(name).tasks(name, "Book berth A1 for the boat Heron.", "How many berths are there?")
        self.tables(name).seed(name, "INSERT INTO stays (id, berth_id, boat) VALUES (1, 2, 'Curlew');")
        self.specification(name, list_berths="List the berths", book_stay="Book a stay").code(name)
        self.verifier(
            name,
            0,
            "Book berth A1 for the boat Heron.",
            SIGNALS_CODE,
            function_name="verify_task",
            success_criteria="stays is 2",
            failure_criteria="stays is 1",
        )
        return self.verifier(name, 0, "Book berth A1 for the boat Heron.", DECISION_CODE, file="gen_verifier.pure_code")


@pytest.fixture
def upstream(tmp_path: Path) -> UpstreamRun:
    """An empty run to write into."""
    return UpstreamRun(tmp_path / "marina_run")


COMMIT = "0123456789abcdef0123456789abcdef01234567"


class LoopbackHub(BaseHTTPRequestHandler):
    """The Hub's read API for one dataset, whose files lie in `root`."""

    root: Path
    repo_id = "awm-tests/marina-run"

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path in (f"/api/datasets/{self.repo_id}/revision/main", f"/api/datasets/{self.repo_id}/revision/v2"):
            self.send({"id": self.repo_id, "sha": COMMIT, "siblings": []})
        elif path == f"/api/datasets/{self.repo_id}/tree/{COMMIT}":
            files = sorted(self.root.iterdir())
            self.send([{"type": "file", "path": f.name, "size": f.stat().st_size, "oid": "0" * 40} for f in files])
        elif path.startswith(f"/datasets/{self.repo_id}/resolve/{COMMIT}/"):
            self.send((self.root / path.rpartition("/")[2]).read_bytes())
        else:
            code = "RevisionNotFound" if self.repo_id in path else "RepoNotFound"
            self.send({"error": code}, status=404, code=code)

    def send(self, answer: Any, *, status: int = 200, code: str | None = None) -> None:
        body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        headers = {"Content-Length": str(len(body)), "ETag": f'"{len(body):040d}"', "X-Repo-Commit": COMMIT}
        if code:
            headers["X-Error-Code"] = headers["X-Error-Message"] = code
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def loopback_hub(upstream: UpstreamRun) -> Iterator[str]:
    """The address of a Hub that has the run as a dataset."""
    handler = type("Handler", (LoopbackHub,), {"root": upstream.folder})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.005,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()

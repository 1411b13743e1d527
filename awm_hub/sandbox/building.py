"""Building a database image inside a one-shot sealed fork: DDL, sample data, the module's own tables, tools.

Statements run one by one, with foreign keys on and under the frozen clock. A statement that fails is reported and left
out of the image; a failing INSERT of several rows is retried row by row, so that only the wrong rows are missing.
"""

import asyncio
import re
import sqlite3
from collections.abc import Iterator
from typing import Any

from awm_hub.sandbox import randomness
from awm_hub.sandbox.clock import FrozenClock
from awm_hub.sandbox.database import PAGE_BYTES, InstanceConnection
from awm_hub.sandbox.deadline import CallDeadline, Deadline
from awm_hub.sandbox.functions import FILENAME
from awm_hub.sandbox.instances import load_code
from awm_hub.sandbox.modulestate import module_state
from awm_hub.sandbox.results import line_in
from awm_hub.sandbox.toolschema import SchemaError

_TOKEN = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`[^`]*`|\[[^\]]*\]|--[^\n]*|/\*.*?\*/|[(),;]|\w+|\s+|.", re.S)


class ImageBuilder:
    """One build: the database, and the problems met on the way."""

    def __init__(self, request: dict[str, Any], clock: FrozenClock, deadline: Deadline) -> None:
        self._request, self._clock, self._deadline = request, clock, deadline
        self._problems: list[dict[str, Any]] = []
        self._at = "the start"
        self._db = self._new_database()

    def build(self, loop: asyncio.AbstractEventLoop) -> dict[str, Any]:
        """Build the image and read the tools; the answer is `BuildReport`'s content.

        Raises:
            CallDeadline: it took too long; the message says where it was.
        """
        try:
            return self._build(loop)
        except CallDeadline:
            raise CallDeadline(f"stopped after {self._request['seconds']:g} s at {self._at}") from None

    def _build(self, loop: asyncio.AbstractEventLoop) -> dict[str, Any]:
        schema_errors = self._create_schema()
        seed_errors = sum(self._insert(seed["table"], sql) for seed in self._request["seed"] for sql in seed["inserts"])
        seed_errors += self._end_transaction()
        violations = self._foreign_key_violations()
        self._at = "the code"
        tools, extra = self._load_tools(loop)
        self._at = "the image"
        return {
            "image": self._image(),
            "schema_errors": schema_errors,
            "seed_errors": seed_errors,
            "foreign_key_violations": violations,
            "problems": self._problems[:10_000],
            "tools": tools,
            **extra,
        }

    def _new_database(self) -> InstanceConnection:
        db = sqlite3.connect(":memory:", factory=InstanceConnection, isolation_level=None, check_same_thread=False)
        db.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        db.execute("PRAGMA foreign_keys = ON")
        db.execute("PRAGMA temp_store = MEMORY")
        self._clock.bind(db)
        randomness.bind(db)
        randomness.seed_call(0, 0)
        self._deadline.watch(db)
        db.execute(f"PRAGMA max_page_count = {self._request['database_bytes'] // PAGE_BYTES}")
        return db

    def _create_schema(self) -> int:
        errors = 0
        for table in self._request["tables"]:
            for sql in (table["ddl"], *table["indexes"]):
                errors += self._execute("schema", table["name"], sql)
        for sql in self._request["further_ddl"]:
            errors += self._execute("schema", "", sql)
        return errors

    def _execute(self, stage: str, subject: str, sql: str) -> bool:
        """Run one statement; True if it failed, which is noted."""
        error = self._try(stage, subject, sql)
        if error is not None:
            self._note(stage, subject, sql, error)
        return error is not None

    def _try(self, stage: str, subject: str, sql: str) -> str | None:
        """Run one statement; what went wrong, if anything."""
        self._at = f"the {stage} of {subject or 'the database'}: {sql[:200]}"
        try:
            self._db.execute(sql)
        except (sqlite3.Error, sqlite3.Warning, ValueError) as error:
            if self._deadline.is_overdue():
                raise CallDeadline from None
            return str(error)
        return None

    def _note(self, stage: str, subject: str, statement: str, message: str) -> None:
        problem = {"stage": stage, "subject": subject, "statement": statement[:2000], "message": message[:500]}
        self._problems.append({**problem, "rows": 1})

    def _insert(self, table: str, sql: str) -> int:
        """Insert; the number of rows that failed."""
        error = self._try("seed", table, sql)
        if error is None:
            return 0
        singles = list(single_rows(sql))
        if len(singles) < 2:
            self._note("seed", table, sql, error)
            return 1
        return sum(self._execute("seed", table, single) for single in singles)

    def _end_transaction(self) -> bool:
        """Commit what the statements themselves began; True if that failed."""
        if not self._db.in_transaction:
            return False
        has_failed = self._execute("seed", "", "COMMIT")
        if has_failed:
            self._db.execute("ROLLBACK")
        return has_failed

    def _foreign_key_violations(self) -> int:
        try:
            found = self._db.execute("PRAGMA foreign_key_check").fetchall()
        except sqlite3.OperationalError as error:
            self._note("foreign_keys", "", "PRAGMA foreign_key_check", str(error))
            return 0
        for table, rowid, parent, _ in found[:100]:
            self._note("foreign_keys", table, "", f"row {rowid} names a row that {parent} does not have")
        return len(found)

    def _load_tools(self, loop: asyncio.AbstractEventLoop) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        extra = {"dropped_tools": [], "shadowed_tools": [], "hidden_state": False, "load_error": None}
        request = self._request
        if request["code"] is None:
            return [], extra
        self._db.execute("PRAGMA foreign_keys = OFF")
        self._db.isolation_level = "DEFERRED" if request["interface"] == "fastapi" else None
        try:
            code = load_code(request["interface"], request["code"], lambda: self._db, loop)
            tools = code.specifications()
            extra["hidden_state"] = bool(module_state(request["code"]))
            if request["interface"] == "fastapi":
                extra["dropped_tools"], extra["shadowed_tools"] = code.routes_without_tool(), code.shadowed_tools()
        except CallDeadline:
            raise
        except BaseException as error:
            extra["load_error"] = _load_error(error)
            return [], extra
        finally:
            self._db.isolation_level = None
        return tools, extra

    def _image(self) -> bytes:
        self._db.execute("PRAGMA foreign_keys = OFF")
        self._db.execute("VACUUM")
        return self._db.serialize()


def _load_error(error: BaseException) -> str:
    """What went wrong, and in which line of the module."""
    line = line_in(error.__traceback__, FILENAME)
    if isinstance(error, SchemaError):
        return str(error)[:500]
    text = str(error)
    if isinstance(error, SyntaxError):
        line, text = error.lineno, error.msg
    where = f" (line {line})" if line else ""
    return f"{type(error).__name__}: {text[:400]}{where}"


def row_counts(db: sqlite3.Connection) -> dict[str, int]:
    """Rows per table."""
    names = db.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'")
    quoted = [(name, name.replace('"', '""')) for (name,) in names.fetchall()]
    return {name: db.execute(f'SELECT count(*) FROM "{inner}"').fetchone()[0] for name, inner in quoted}


def single_rows(sql: str) -> Iterator[str]:
    """The single-row statements of an INSERT with several rows; nothing for any other statement."""
    tokens = [" " if t.startswith(("--", "/*")) else t for t in _TOKEN.findall(sql)]
    start = _position_of_values(tokens)
    if start is None:
        return
    depth, row, rows, rest = 0, "", [], ""
    for i, token in enumerate(tokens[start + 1 :], start + 1):
        if depth == 0 and token not in ("(", ",") and not token.isspace():
            rest = "".join(tokens[i:]).strip().rstrip(";")
            break
        depth += (token == "(") - (token == ")")
        row += token if depth or token == ")" else ""
        if depth == 0 and row:
            rows.append(row)
            row = ""
    if rest.startswith(";"):
        return
    head = "".join(tokens[: start + 1])
    for values in rows:
        yield f"{head} {values} {rest}".rstrip()


def _position_of_values(tokens: list[str]) -> int | None:
    """Where an INSERT's own VALUES stands."""
    words = [(i, t.upper()) for i, t in enumerate(tokens) if not t.isspace()]
    if not words or words[0][1] not in ("INSERT", "REPLACE"):
        return None
    depth = 0
    for i, word in words:
        depth += (word == "(") - (word == ")")
        if depth == 0 and word in ("VALUES", "SELECT", "WITH"):
            return i if word == "VALUES" else None
    return None

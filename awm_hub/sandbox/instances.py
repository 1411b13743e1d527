"""The instances inside one worker: one environment's code, many private databases.

An instance's state is (database, number of calls dispatched): the number is the clock's offset and the seed of the next
call's random numbers. Reset, restore and fork therefore only open an image and set a number. What else a connection
remembers (settings, temporary tables, the last inserted row) is taken from it after every call, so that an instance
goes on in the same way whether its connection is old or new.
"""

import asyncio
import datetime as dt
import json
import sqlite3
import time
from dataclasses import dataclass, field
from typing import Any

from awm_hub.sandbox import randomness
from awm_hub.sandbox.arguments import ArgumentCheck, InvalidArguments
from awm_hub.sandbox.clock import FrozenClock
from awm_hub.sandbox.database import PAGE_BYTES, InstanceConnection, deny_control, guard_new_connections, open_image
from awm_hub.sandbox.deadline import CallDeadline, Deadline
from awm_hub.sandbox.functions import FunctionsCode
from awm_hub.sandbox.results import Answer, fault, fault_from

_BATCH_S = 1.0
_SETTLING_S = 5.0
_INTERRUPTED = {"deadline", "memory_limit"}
_UNREPEATABLE = {*_INTERRUPTED, "statement_limit"}
"""Faults at a point that another run of the same call may not reach: what it did is handed over with the answer."""
_MARKS = {"functions": ("schema_version",), "fastapi": ("schema_version", "user_version", "application_id")}
"""Numbers in the database that tell of changes which SQLite does not count as changed rows."""
_BOUNDARY = f"PRAGMA temp.page_size = {PAGE_BYTES}", "CREATE TEMP TABLE call_boundary (id INTEGER PRIMARY KEY)"
_LAST_WRITE = "SELECT last_insert_rowid(), changes()"
"""What a connection says of its last write; a failed one leaves traces too, even of rows that were taken back."""
# set the two back to 0, which nothing else does; the driver begins no transaction before a WITH
_FORGET_ROW = "WITH none AS (SELECT 0) REPLACE INTO temp.call_boundary SELECT * FROM none"
_FORGET_COUNT = "WITH none AS (SELECT 0) DELETE FROM temp.call_boundary WHERE 0"


@dataclass(kw_only=True)
class LiveInstance:
    """One instance: its database and how many calls it has had."""

    db: InstanceConnection
    seed: int
    calls_count: int = 0
    marks: tuple[int, ...] | None = None
    """What `_MARKS` were after the last call; None: not looked up yet."""
    key: str | None = None
    """Names the image that it began with, where other instances may begin with it too."""
    temporary_tables: int = 0
    """1 once the connection has the table that `_FORGET_ROW` writes to."""


@dataclass(kw_only=True)
class Hosting:
    """The environment that a worker hosts, and its instances."""

    interface: str
    clock: FrozenClock
    deadline: Deadline
    limits: dict[str, Any]
    options: dict[str, Any]
    code: Any = None
    checks: dict[str, ArgumentCheck] = field(default_factory=dict)
    read_tools: frozenset[str] = frozenset()
    images: dict[str, bytes] = field(default_factory=dict)
    instances: dict[str, LiveInstance] = field(default_factory=dict)
    is_spoilt: bool = False
    """Frameworks were interrupted, perhaps while they were changing what all instances share: no call may follow."""

    def load(self, code: str, tools: list[dict[str, Any]], image: bytes, loop: asyncio.AbstractEventLoop) -> None:
        """Execute the module; `fastapi` modules get a scratch copy of the image for their start-up."""
        guard_new_connections(self.deadline, self.clock, self.limits["database_bytes"])
        with self.deadline.running(self.limits["load_s"]):
            self._open(image).bound()
            self.code = load_code(self.interface, code, lambda: self._open(image, is_functions=False), loop)
        self.checks = {t["name"]: ArgumentCheck(json.loads(t["input_schema"])) for t in tools}
        self.read_tools = frozenset(t["name"] for t in tools if t["effect"] == "read")

    def create(self, name: str, image: bytes, seed: int, calls_count: int, key: str | None = None) -> None:
        """An instance in a given state, in place of the one that had the name."""
        old = self.instances.get(name)
        is_same = old is not None and key is not None and (old.key, old.seed) == (key, seed)
        if old is not None and is_same and self._is_untouched(old, image):
            self._set_back(old.db)
            old.calls_count = calls_count
            return
        self.close(name)
        self.instances[name] = LiveInstance(db=self._open(image), seed=seed, calls_count=calls_count, key=key)

    def _is_untouched(self, instance: LiveInstance, image: bytes) -> bool:
        """Whether a reset would only open the same database again, whose schema would have to be read again."""
        db = instance.db
        return (
            instance.temporary_tables == 0
            and db.isolation_level == self.code.isolation_level
            and db.is_as_opened(image)
        )

    def close(self, name: str) -> None:
        """Forget an instance."""
        found = self.instances.pop(name, None)
        if found is not None:
            self._drop(found.db)

    def call_many(self, calls: list[list[Any]]) -> list[dict[str, Any]]:
        """Calls in order, until they have taken a second in all; the host sends what is left again."""
        answers = []
        ends_at = time.monotonic() + _BATCH_S
        for name, tool, arguments, calls_count in calls:
            answers.append(self.call(name, tool, arguments, calls_count))
            if self.is_spoilt or time.monotonic() > ends_at:
                break
        return answers

    def call(
        self, name: str, tool: str, arguments: str, calls_count: int | None, *, is_repeated: bool = False
    ) -> dict[str, Any]:
        """One call, as the n-th; one that is repeated has ended in time before, and gets as long as it takes."""
        instance = self.instances[name]
        if calls_count is not None:
            instance.calls_count = calls_count - 1
        count, started = instance.calls_count, time.perf_counter()
        answer, changed = self._answer(instance, tool, arguments, is_repeated), False
        if tool in self.checks and tool not in self.read_tools:
            changed = self._settle(instance, answer)
        if answer.type == "invalid_call" and not changed:
            instance.calls_count = count
        self.is_spoilt |= self.interface == "fastapi" and answer.code in _INTERRUPTED
        return {
            "type": answer.type,
            "value": answer.value,
            "code": answer.code,
            "message": answer.message,
            "coerced": answer.coerced,
            "changed": changed,
            "image": instance.db.serialize() if changed and answer.code in _UNREPEATABLE else None,
            "seconds": time.perf_counter() - started,
        }

    def _answer(self, instance: LiveInstance, tool: str, arguments: str, is_repeated: bool) -> Answer:
        check = self.checks.get(tool)
        if check is None:
            return Answer(type="invalid_call", code="unknown_tool", message=f"unknown tool {tool!r}")
        self._prepare(instance, tool)
        try:
            seconds = self.limits["load_s" if is_repeated else "call_soft_s"]
            with self.deadline.running(seconds, self.limits["call_steps"]):
                answer = self._dispatch(instance, tool, check, json.loads(arguments))
                is_overdue = self.deadline.is_overdue()
        except BaseException as error:
            instance.db.abandon_call()
            if not isinstance(error, CallDeadline):
                raise
            return fault_from(error)
        # an interruption may have come out as another error: SQLite hides those of its functions
        if answer.type != "ok" and self.deadline.is_out_of_steps:
            return fault("statement_limit", "the call's SQL statements were interrupted at their limit of steps")
        return fault_from(CallDeadline()) if answer.type != "ok" and is_overdue else answer

    def _prepare(self, instance: LiveInstance, tool: str) -> None:
        """Set everything that a call starts from, out of reach of its deadline."""
        self.clock.set_calls(instance.calls_count + 1)
        randomness.seed_call(instance.seed, instance.calls_count + 1)
        if tool not in self.read_tools and instance.marks is None:
            instance.marks = self._marks(instance.db)
        instance.db.set_read_only(tool in self.read_tools)

    def _dispatch(self, instance: LiveInstance, tool: str, check: ArgumentCheck, arguments: dict[str, Any]) -> Answer:
        try:
            checked, coerced = check.check(arguments, lenient=self.options["lenient"])
        except InvalidArguments as error:
            return Answer(type="invalid_call", code="invalid_arguments", message=str(error))
        except RecursionError:
            return Answer(type="invalid_call", code="invalid_arguments", message="the arguments are nested too deeply")
        if not self.options["null_as_omitted"] and (nulls := self._nulls_outside_body(tool, checked)):
            message = f"{', '.join(nulls)}: null has no form outside the body"
            return Answer(type="invalid_call", code="invalid_arguments", message=message)
        instance.calls_count += 1
        answer: Answer = self.code.call(instance.db, tool, checked, self.limits["output_bytes"])
        return Answer(**{**answer.__dict__, "coerced": coerced})

    def _settle(self, instance: LiveInstance, answer: Answer) -> bool:
        """Leave nothing of a call outside the database; whether the call may have changed that."""
        with self.deadline.running(_SETTLING_S):
            self._set_back(instance.db)
            before, instance.marks = instance.marks, self._marks(instance.db)
            moved = instance.marks != before
            if _pragma(instance.db, "temp.schema_version") != instance.temporary_tables:
                self._reopen(instance)
            else:
                self._forget_last_write(instance)
        # a rollback takes back every change of a `functions` call; `fastapi` code may have committed before failing,
        # and a deadline may have struck on the way out
        stays = self.interface == "fastapi" or answer.code == "deadline" or instance.db.has_lost_transaction
        return moved and (answer.type == "ok" or stays)

    def _marks(self, db: InstanceConnection) -> tuple[int, ...]:
        """Differs from an earlier one if there may be changes."""
        return db.total_changes, *(_pragma(db, mark) for mark in _MARKS[self.interface])

    def _set_back(self, db: InstanceConnection) -> None:
        """Take back settings that code may have changed."""
        db.text_factory = str
        if self.interface == "functions":
            db.row_factory = sqlite3.Row
        else:
            db.row_factory, db.isolation_level = None, self.code.isolation_level
            db.execute(f"PRAGMA foreign_keys = {int(self.code.foreign_keys)}")

    def _reopen(self, instance: LiveInstance) -> None:
        """The same database behind a new connection."""
        image = instance.db.serialize()
        self._drop(instance.db)
        instance.db, instance.marks, instance.temporary_tables = self._open(image), None, 0

    def _forget_last_write(self, instance: LiveInstance) -> None:
        row, count = tuple(instance.db.execute(_LAST_WRITE).fetchone())
        if row == count == 0:
            return
        if not instance.temporary_tables:
            for statement in _BOUNDARY:
                instance.db.execute(statement)
            instance.temporary_tables = 1
        for statement in (_FORGET_ROW, _FORGET_COUNT) if row else (_FORGET_COUNT,):
            instance.db.execute(statement)
        instance.marks = self._marks(instance.db)

    def _nulls_outside_body(self, tool: str, arguments: dict[str, Any]) -> list[str]:
        if self.interface != "fastapi":
            return []
        places = self.code.operations[tool].places
        return [name for name, value in arguments.items() if value is None and "body" not in places.get(name, ())]

    def _open(self, image: bytes, is_functions: bool = True) -> InstanceConnection:
        code = self.code or FunctionsCode
        is_functions = is_functions and self.interface == "functions"
        db = open_image(
            image,
            clock=self.clock,
            deadline=self.deadline,
            foreign_keys=code.foreign_keys if is_functions else False,
            isolation_level=code.isolation_level if is_functions else "DEFERRED",
            max_bytes=self.limits["database_bytes"],
        )
        if is_functions:
            db.row_factory = sqlite3.Row
            deny_control(db)
        return db

    def _drop(self, db: InstanceConnection) -> None:
        if self.interface == "fastapi":
            self.code.forget(db)
        db.really_close()


def _pragma(db: InstanceConnection, name: str) -> int:
    return int(db.execute(f"PRAGMA {name}").fetchone()[0])


def load_code(interface: str, code: str, open_scratch: Any, loop: asyncio.AbstractEventLoop) -> Any:
    """Execute a module of either interface."""
    if interface == "functions":
        return FunctionsCode(code)
    from awm_hub.sandbox.endpoints import EndpointsCode

    return EndpointsCode(code, open_scratch(), loop)


def start_clock(moment_us: int) -> FrozenClock:
    """The clock from microseconds since 1970."""
    return FrozenClock(dt.datetime.fromtimestamp(moment_us // 10**6, dt.UTC).replace(microsecond=moment_us % 10**6))

"""The instances inside one worker: one environment's code, many private databases.

An instance's state is (database, number of calls dispatched): the number is the clock's offset and the seed of the next
call's random numbers. Reset, restore and fork therefore only open an image and set a number.
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
from awm_hub.sandbox.database import InstanceConnection, deny_control, guard_new_connections, open_image
from awm_hub.sandbox.deadline import CallDeadline, Deadline
from awm_hub.sandbox.functions import FunctionsCode
from awm_hub.sandbox.results import Answer, fault, fault_from

_BATCH_S = 1.0


@dataclass(kw_only=True)
class LiveInstance:
    """One instance: its database and how many calls it has had."""

    db: InstanceConnection
    seed: int
    calls_count: int = 0


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

    def load(self, code: str, tools: list[dict[str, Any]], image: bytes, loop: asyncio.AbstractEventLoop) -> None:
        """Execute the module; `fastapi` modules get a scratch copy of the image for their start-up."""
        guard_new_connections(self.deadline, self.clock, self.limits["database_bytes"])
        with self.deadline.running(self.limits["load_s"]):
            self.code = load_code(self.interface, code, lambda: self._open(image, is_functions=False), loop)
        self.checks = {t["name"]: ArgumentCheck(json.loads(t["input_schema"])) for t in tools}
        self.read_tools = frozenset(t["name"] for t in tools if t["effect"] == "read")

    def create(self, name: str, image: str, seed: int, calls_count: int) -> None:
        """A new instance from a kept image."""
        self.clock.set_calls(calls_count)
        self.instances[name] = LiveInstance(db=self._open(self.images[image]), seed=seed, calls_count=calls_count)

    def restore(self, name: str, image: bytes, calls_count: int) -> None:
        """Put an instance into another state."""
        found = self.instances[name]
        self._drop(found.db)
        found.db, found.calls_count = self._open(image), calls_count

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
            if time.monotonic() > ends_at:
                break
        return answers

    def call(self, name: str, tool: str, arguments: str, calls_count: int | None) -> dict[str, Any]:
        """One call; `calls_count` replays it as the n-th."""
        instance = self.instances[name]
        if calls_count is not None:
            instance.calls_count = calls_count - 1
        before, started = instance.db.total_changes, time.perf_counter()
        answer = self._answer(instance, tool, arguments)
        # a rollback takes back every change of a `functions` call; `fastapi` code may have committed before failing
        may_change = answer.type == "ok" or self.interface == "fastapi"
        return {
            "type": answer.type,
            "value": answer.value,
            "code": answer.code,
            "message": answer.message,
            "coerced": answer.coerced,
            "changed": may_change and instance.db.total_changes != before,
            "seconds": time.perf_counter() - started,
        }

    def _answer(self, instance: LiveInstance, tool: str, arguments: str) -> Answer:
        check = self.checks.get(tool)
        if check is None:
            return Answer(type="invalid_call", code="unknown_tool", message=f"unknown tool {tool!r}")
        try:
            with self.deadline.running(self.limits["call_soft_s"], self.limits["call_steps"]):
                answer = self._dispatch(instance, tool, check, json.loads(arguments))
        except CallDeadline as error:
            instance.db.abandon_call()
            return fault_from(error)
        if answer.code == "deadline" and self.deadline.is_out_of_steps:
            return fault("statement_limit", "the call's SQL statements were interrupted at their limit of steps")
        return answer

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
        self.clock.set_calls(instance.calls_count)
        randomness.seed_call(instance.seed, instance.calls_count)
        instance.db.set_read_only(tool in self.read_tools)
        answer: Answer = self.code.call(instance.db, tool, checked, self.limits["output_bytes"])
        return Answer(**{**answer.__dict__, "coerced": coerced})

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


def load_code(interface: str, code: str, open_scratch: Any, loop: asyncio.AbstractEventLoop) -> Any:
    """Execute a module of either interface."""
    if interface == "functions":
        return FunctionsCode(code)
    from awm_hub.sandbox.endpoints import EndpointsCode

    return EndpointsCode(code, open_scratch(), loop)


def start_clock(moment_us: int) -> FrozenClock:
    """The clock from microseconds since 1970."""
    return FrozenClock(dt.datetime.fromtimestamp(moment_us // 10**6, dt.UTC).replace(microsecond=moment_us % 10**6))

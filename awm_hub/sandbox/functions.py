"""The `functions` interface inside the sandbox: a module of plain functions, each public one a tool.

The first parameter is the database; the runtime runs each call in a transaction of its own, commits when the function
returns and rolls back when it raises. A refusal or a fault leaves the database as it was.
"""

import inspect
import sqlite3
import sys
import types
from collections.abc import Callable
from typing import Any

from awm_hub.sandbox import toolschema
from awm_hub.sandbox.database import InstanceConnection
from awm_hub.sandbox.deadline import CallDeadline
from awm_hub.sandbox.results import Answer, encode, fault, fault_from, refusal_from

FILENAME = "<environment>"
_BEGIN, _COMMIT, _ROLLBACK = (f"{word} -- runtime" for word in ("BEGIN", "COMMIT", "ROLLBACK"))


class FunctionsCode:
    """A loaded module and its tools."""

    isolation_level = None
    foreign_keys = True

    def __init__(self, code: str) -> None:
        module = types.ModuleType("awm_environment")
        sys.modules[module.__name__] = module
        exec(compile(code, FILENAME, "exec"), module.__dict__)
        self.module = module
        self.tools: dict[str, Callable[..., Any]] = {
            name: found
            for name, found in vars(module).items()
            if inspect.isfunction(found) and not name.startswith("_") and found.__module__ == module.__name__
        }

    def specifications(self) -> list[dict[str, Any]]:
        """Name, description and schemas of every tool.

        Raises:
            SchemaError: a tool has no form that agents can see; the message names it and its line.
        """
        return [_specification(name, function) for name, function in self.tools.items()]

    def call(self, db: InstanceConnection, tool: str, arguments: dict[str, Any], max_bytes: int) -> Answer:
        """Run one tool in a transaction."""
        db.execute(_BEGIN)
        db.has_lost_transaction = is_whole = False
        text: str | None = None
        try:
            with db.untrusted():
                value = self.tools[tool](db, **arguments)
            text = encode(value, max_bytes)
            is_whole = db.in_transaction
            db.execute(_COMMIT)
            return Answer(type="ok", value=text)
        except BaseException as error:
            db.has_lost_transaction = not db.in_transaction
            if is_whole and db.has_lost_transaction:  # the alarm struck after the commit
                return Answer(type="ok", value=text)
            answer = refusal_from(error, FILENAME) or fault_from(error, FILENAME)
            # SQLite ends it by itself when it has no room; a tool that went on after that wrote outside of it
            has_gone_on = text is not None or not isinstance(error, sqlite3.Error | CallDeadline | MemoryError)
            if db.has_lost_transaction and has_gone_on:
                answer = fault("denied", "the call went on after SQLite had ended its transaction")
            error.__traceback__ = None
        if db.in_transaction:
            db.execute(_ROLLBACK)
        return answer


def _specification(name: str, function: Callable[..., Any]) -> dict[str, Any]:
    try:
        description, input_schema = toolschema.described(function), toolschema.input_schema(function)
    except toolschema.SchemaError as error:
        parameter = "" if error.parameter is None else f"({error.parameter})"
        message = f"{name}{parameter}, line {function.__code__.co_firstlineno}: {error}"
        raise toolschema.SchemaError(message, parameter=error.parameter) from error
    return {"name": name, "description": description, "input_schema": input_schema, "output_schema": None}

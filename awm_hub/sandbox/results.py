"""A call's answer inside the sandbox, before it becomes a frame: typed by how the call ended."""

import dis
import json
import re
import sqlite3
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from awm_hub.sandbox.deadline import CallDeadline

_REFUSALS: dict[type[BaseException], str] = {
    LookupError: "not_found",
    ValueError: "invalid",
    PermissionError: "forbidden",
    RuntimeError: "failed_precondition",
}
_MAX_MESSAGE = 500
_FULL = re.compile(r"is full|string or blob too big")


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Type, code and message as in `ToolResult`; the value is JSON text."""

    type: str
    value: str | None = None
    code: str | None = None
    message: str = ""
    coerced: list[str] = field(default_factory=list)


class OutputLimit(Exception):
    """The result is larger than allowed."""


def encode(value: Any, max_bytes: int) -> str:
    """The value as JSON text.

    Raises:
        TypeError: the value, or a part of it, has no JSON form; the message says which.
        OutputLimit: the text is larger than allowed.
    """
    if isinstance(value, str) and len(value) > max_bytes:
        raise OutputLimit(_too_large(len(value), max_bytes))
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        size = len(text.encode())
    except (TypeError, ValueError) as error:
        raise TypeError(f"the result has no JSON form: {_culprit(value) or error}") from error
    if size > max_bytes:
        raise OutputLimit(_too_large(size, max_bytes))
    return text


def _too_large(size: int, max_bytes: int) -> str:
    return f"the result of {size} bytes is over the limit of {max_bytes}; narrow the query and call again"


def _culprit(value: Any, path: str = "result", depth: int = 0) -> str | None:
    """Which part of a value JSON has no form for, and why."""
    if depth > 20:
        return None
    if isinstance(value, dict):
        parts = [_culprit(v, f"{path}.{k}", depth + 1) for k, v in value.items()]
    elif isinstance(value, list | tuple):
        parts = [_culprit(v, f"{path}[{i}]", depth + 1) for i, v in enumerate(value)]
    elif isinstance(value, bytes):
        return f"{path} is binary ({len(value)} bytes)"
    else:
        parts = [] if isinstance(value, str | int | float | None) else [f"{path} is a {type(value).__name__}"]
    return next((part for part in parts if part), None)


def fault(code: str, message: str) -> Answer:
    """A failure of the environment."""
    return Answer(type="fault", code=code, message=message[:_MAX_MESSAGE])


def fault_from(error: BaseException, filename: str = "") -> Answer:
    """The fault that an uncaught exception is, with its line in that file; SQLAlchemy's are looked into."""
    line = line_in(error.__traceback__, filename)
    error = getattr(error, "orig", None) or error
    if isinstance(error, CallDeadline) or (isinstance(error, sqlite3.OperationalError) and str(error) == "interrupted"):
        return fault("deadline", "the call was interrupted at its time limit")
    if isinstance(error, MemoryError):
        return fault("memory_limit", "the call was stopped at the memory limit")
    if isinstance(error, OutputLimit):
        return fault("output_limit", str(error))
    if isinstance(error, sqlite3.DatabaseError) and _FULL.search(str(error)):
        return fault("database_limit", "the database reached its size limit")
    if isinstance(error, sqlite3.DatabaseError) and str(error) == "not authorized":
        return fault("denied", "transaction statements, ATTACH and PRAGMA are denied to tools")
    where = "" if line is None else f" (line {line})"
    text = str(error)[: _MAX_MESSAGE - len(where) - len(type(error).__name__) - 2]
    return fault(type(error).__name__, f"{type(error).__name__}: {text}{where}")


def line_in(traceback: TracebackType | None, filename: str) -> int | None:
    """The innermost line of a file that a traceback names."""
    line = None
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == filename:
            line = traceback.tb_lineno
        traceback = traceback.tb_next
    return line


def refusal_from(error: BaseException, filename: str) -> Answer | None:
    """The refusal that an exception is, or None: exactly one of the built-in types, raised by the module itself."""
    if type(error) is sqlite3.IntegrityError:
        return Answer(type="refused", code="conflict", message=str(error)[:_MAX_MESSAGE])
    code = _REFUSALS.get(type(error))
    if code is None or not _was_raised_in(error.__traceback__, filename):
        return None
    return Answer(type="refused", code=code, message=str(error)[:_MAX_MESSAGE])


def _was_raised_in(traceback: TracebackType | None, filename: str) -> bool:
    """Whether a `raise` statement of that file is where the exception comes from."""
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    if traceback is None or traceback.tb_frame.f_code.co_filename != filename:
        return False
    operation = dis.opname[traceback.tb_frame.f_code.co_code[traceback.tb_lasti]]
    return operation.startswith(("RAISE_VARARGS", "RERAISE"))

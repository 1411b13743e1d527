"""What stops an attack, and how a result shows that it was this and nothing else."""

import errno
from collections.abc import Callable

from awm_hub.trajectory import ToolResult

_ERRORS = ("EPERM", "EACCES", "ENOENT", "ENOSYS", "ENOTTY", "EINVAL", "ENOMEM")


def _failed_with(name: str) -> Callable[[ToolResult], bool]:
    number = getattr(errno, name)

    def is_it(result: ToolResult) -> bool:
        return result.type in ("fault", "refused") and (
            f"[Errno {number}]" in result.message or (name == "EPERM" and "Operation not permitted" in result.message)
        )

    return is_it


def _fault(code: str, *parts: str) -> Callable[[ToolResult], bool]:
    return lambda r: r.type == "fault" and r.code == code and any(part in r.message for part in parts or ("",))


def _exception(*kinds: str) -> Callable[[ToolResult], bool]:
    return lambda r: r.type == "fault" and r.code is not None and r.code in kinds


STOPS: dict[str, Callable[[ToolResult], bool]] = {
    **{name: _failed_with(name) for name in _ERRORS},
    "no such thing": _exception("ModuleNotFoundError", "AttributeError", "OperationalError", "gaierror"),
    "SQLite": _fault(
        "OperationalError", "unable to open database", "not a writable directory", "cannot VACUUM", "disk I/O"
    ),
    "not authorized": _fault("denied"),
    "no thread": _fault("RuntimeError", "can't start new thread"),
    "death": _fault("worker_died", "the worker has died"),
    "soft deadline": _fault("deadline", "interrupted at its time limit"),
    "hard deadline": _fault("deadline", "gave no answer within"),
    "statement limit": _fault("statement_limit"),
    "memory limit": _fault("memory_limit"),
    "database limit": _fault("database_limit"),
    "output limit": _fault("output_limit"),
    "SQLite limit": _fault("database_limit", "size limit"),
    "cut": lambda r: r.type == "fault" and len(r.message) <= 4000 and len(r.code or "") <= 100,
    "no JSON": _fault("TypeError", "the result has no JSON form"),
    "exception": lambda r: r.type == "fault" and r.code not in ("worker_died", "deadline", "protocol"),
    "protocol": _fault("worker_died", "broke the protocol"),
    "no answer": _fault("protocol"),
    "empty": lambda r: r.value == "'nothing'",
}
"""Name of what stops an attack to the proof in a call's result."""

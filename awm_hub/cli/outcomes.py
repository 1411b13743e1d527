"""How a verb ends: finished with a report, or failed; and any record as JSON.

The reports themselves are in `awm_hub.cli.reports`, which only the verb that makes one loads: to make their classes
takes a good part of what `--help` takes.
"""

import dataclasses
import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from awm_hub.errors import AwmHubError


@dataclass(frozen=True, kw_only=True)
class Finished:
    """A verb that ran. `data` is its report; exit code 1 says that something failed its check."""

    data: Any
    exit_code: int = 0


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A verb that could not do what was asked."""

    type: str
    """Class name of the error; `invalid_call` or `fault` for a call; `Interrupted`, `InternalError`."""
    message: str
    next: str
    """What to do about it."""
    exit_code: int

    @classmethod
    def of(cls, error: AwmHubError) -> "Failure":
        """From an error of the library."""
        kind = type(error).__name__
        return cls(type=kind, message=error.message, next=error.next_step, exit_code=error.exit_code)


def plain(value: Any) -> Any:
    """A record as JSON: dataclasses as objects, tuples as lists, times as ISO 8601, paths as text."""
    if hasattr(value, "to_dict"):
        return plain(value.to_dict())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, dt.datetime):
        return value.isoformat()
    return str(value) if isinstance(value, PurePath) else value

"""Errors, typed by the boundary they crossed.

Each carries what happened (`message`), what to do about it (`next_step`) and the exit code the command line gives it::

    AwmHubError
    ├── UsageError                2  the call or the command line is wrong
    ├── DataError                 3  the input cannot be used as it is
    │   ├── UnknownNameError         no such environment, tool or task
    │   ├── RecordError              a row, Parquet file or index breaks the format
    │   │   ├── FormatVersionError   written by a newer version of the format
    │   │   └── LimitError           larger or deeper than a reader accepts
    │   └── SourceError              a source folder or an import file breaks its form
    ├── SandboxError              4  the environment or the sandbox around it failed
    │   ├── SealError                this machine cannot seal a process
    │   ├── LoadError                the environment's code does not load
    │   ├── WorkerError              the process that ran the environment died or overran its deadline
    │   ├── CapacityError            no room for another instance in time
    │   └── EpisodeError             the instance is closed or its episode has ended
    ├── JudgeError                4  no verdict could be reached; never a reward
    └── RemoteError               5  the Hub, a model endpoint or the network failed
        └── ContextFullError         a conversation no longer fits the model's context

A failed tool call is not an error but data: see `awm_hub.trajectory.ToolResult`.
"""

import difflib
from collections.abc import Iterable


class AwmHubError(Exception):
    """Base of all errors of this package."""

    exit_code = 1

    def __init__(self, message: str, *, next_step: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.next_step = next_step

    def __str__(self) -> str:
        return f"{self.message}\n  next: {self.next_step}" if self.next_step else self.message


class UsageError(AwmHubError):
    """The call or the command line is wrong."""

    exit_code = 2


class DataError(AwmHubError):
    """The input cannot be used as it is."""

    exit_code = 3


class UnknownNameError(DataError):
    """No environment, tool or task has this name.

    Attributes say what was asked for (`what`, `name`) and what lies near it (`close`).
    """

    def __init__(self, what: str, name: str, known: Iterable[str], *, next_step: str = "") -> None:
        known = sorted(known)
        self.what, self.name = what, name
        self.close = tuple(difflib.get_close_matches(name, known, n=3, cutoff=0.5))
        if self.close:
            hint = f"Did you mean {' or '.join(repr(n) for n in self.close)}?"
        elif known:
            hint = f"Known: {', '.join(known[:10])}{', …' if len(known) > 10 else ''}."
        else:
            hint = "There is none."
        super().__init__(f"no {what} named {name!r}. {hint}", next_step=next_step)


class RecordError(DataError):
    """A row, a Parquet file or an index breaks the record format."""


class FormatVersionError(RecordError):
    """The row was written by a newer version of the format than this package reads."""


class LimitError(RecordError):
    """A value is larger or deeper than a reader accepts."""


class SourceError(DataError):
    """A source folder or an import file breaks its form."""


class SandboxError(AwmHubError):
    """The environment, or the sandbox around it, failed."""

    exit_code = 4


class SealError(SandboxError):
    """This machine cannot seal a process as the environment's origin requires."""


class LoadError(SandboxError):
    """The environment's code does not load in the sandbox."""


class WorkerError(SandboxError):
    """The process that ran the environment died, or was killed at its deadline.

    `reason` is `died`, `deadline`, `protocol`, or `gone`: it was dead before it was asked.
    """

    def __init__(self, message: str, *, reason: str = "died", next_step: str = "") -> None:
        super().__init__(message, next_step=next_step)
        self.reason = reason


class CapacityError(SandboxError):
    """There is no room for another instance, and none became free in time."""


class EpisodeError(SandboxError):
    """The instance is closed, or its episode has ended."""


class JudgeError(AwmHubError):
    """No verdict could be reached. Never a reward."""

    exit_code = 4


class RemoteError(AwmHubError):
    """The Hub, a model endpoint or the network failed."""

    exit_code = 5


class ContextFullError(RemoteError):
    """What a policy should see no longer fits the model's context."""

"""What a gate finds: problems, each with the stage that can mend it.

A gate runs a product where it will live, in the sealed runtime, and says what is wrong in words that a model and a
person can act on. The stage that a problem names need not be the one whose gate found it: a verifier that accepts a
mistake is for `verification` to mend, though the audit at the end finds it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

STAGES = ("scenario", "task", "database", "sample_data", "toolset", "code", "verification", "solution")
"""In the paper's order (§1), with the attempts at the tasks at the end."""
SEVERITIES = ("error", "warning")
"""An error keeps an environment from being accepted; a warning is sent back while attempts are left."""


class AnswerError(ValueError):
    """What the model wrote is no product of the stage; the message says what is expected."""


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One thing that is wrong with a draft."""

    stage: str
    """Of `STAGES`: who can mend it."""
    rule: str
    """An identifier such as `seed_error`; those of the audit are the audit's own."""
    subject: str
    """Name of a part of the stage's product, or of what the part is about; empty where it is the whole."""
    message: str
    severity: str = "error"

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return asdict(self)

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Self:
        """From the JSON form."""
        return cls(**found)

    def __str__(self) -> str:
        place = f"{self.rule}: {self.subject}" if self.subject else self.rule
        return f"[{place}] {self.message}"


def errors(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Those that keep an environment from being accepted."""
    return tuple(p for p in problems if p.severity == "error")


def earliest_stage(problems: Iterable[Problem]) -> str:
    """The stage that is asked first: what comes after it stands on what it made."""
    return min((p.stage for p in problems), key=STAGES.index)

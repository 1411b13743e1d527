"""Limits and options of live instances. Both are plain numbers and flags, recorded in every trajectory."""

import dataclasses
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one call, one instance and one worker may use."""

    call_soft_s: float = 3.0
    """After this the call is interrupted inside the worker; the instance goes on."""
    call_hard_s: float = 6.0
    """After this the host kills the worker; its instances are rebuilt."""
    call_steps: int = 100_000_000
    """Steps of SQLite's machine that one call's statements may take."""
    load_s: float = 30.0
    """Deadline of loading an environment's code, building an image or running a verifier."""
    output_bytes: int = 256 * 2**10
    """Largest result of one call, as JSON."""
    database_bytes: int = 64 * 2**20
    """Largest database of one instance."""
    worker_memory_bytes: int = 2 * 2**30
    """Address space of one worker process."""
    instances_per_worker: int = 128

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return dataclasses.asdict(self)


@dataclass(frozen=True, kw_only=True)
class Options:
    """How an instance behaves where the paper's release and a stricter reading differ."""

    null_as_omitted: bool = True
    """`fastapi` rows: JSON null for an optional parameter outside the body means that it is left out."""
    lenient: bool = False
    """Coerce arguments that miss the schema only by type (`"5"` for 5); each coercion is recorded."""
    tier: str = "auto"
    """`auto`: sealed where this machine can; `sealed`: fail elsewhere; `process`: no seal, for trusted code only."""

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return dataclasses.asdict(self)

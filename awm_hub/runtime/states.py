"""What an instance's state is made of outside its process: snapshots, and the calls to repeat."""

from dataclasses import dataclass, field

from awm_hub.trajectory import Step


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """An instance's whole state at one moment: database, clock and randomness, and the steps that led there."""

    environment_hash: str
    task_id: str | None
    delta: str = field(repr=False)
    """Database against the task's initial image: `awm_hub.runtime.pages`."""
    calls_count: int
    state_version: int
    steps: tuple[Step, ...] = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class LoggedCall:
    """A call that changed the database, to be repeated when the instance is rebuilt."""

    calls_count: int
    tool: str
    arguments: str
    ending: tuple[str, str | None]
    """Type and code of the result, which repeating it must give again."""

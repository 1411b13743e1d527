"""A run on disk: its plan and one file per attempt, so that an interruption loses nothing.

    DIR/run.json            the plan and the policy
    DIR/rollouts/ID.json    one trajectory each, with `rollout` beside its fields; a damaged one as ID.json.broken
    DIR/dataset/            the same as Parquet, once all attempts are made

A file appears whole or not at all. Its JSON is a trajectory, so every program that reads trajectories reads it. `Run`
reads a directory back, one trajectory at a time, and adds verdicts to them.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from awm_hub.canonical import to_json
from awm_hub.errors import DataError, RecordError, UnknownNameError, UsageError
from awm_hub.reward import Reward, hybrid_reward, turns_count
from awm_hub.rollouts.plans import Plan, Slot
from awm_hub.rollouts.resuming import check_same
from awm_hub.trajectory import Outcome, Trajectory, Verdict, decoded, trajectory_from

FORMAT_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Rollout:
    """One attempt of a run, as it was stored."""

    id: str
    number: int
    """Which of the task's attempts, from 0."""
    trajectory: Trajectory
    judge_error: dict[str, str] | None = None
    """Why there is no verdict, where a judge failed: `judge`, `type`, `message`."""

    @property
    def verdict(self) -> Verdict | None:
        """The latest verdict."""
        return self.trajectory.verdicts[-1] if self.trajectory.verdicts else None

    @property
    def reward(self) -> Reward:
        """Eq. 1 with the paper's numbers over the latest verdict; `awm_hub.reward` computes others."""
        return hybrid_reward(self.trajectory, self.verdict)

    @property
    def is_scored(self) -> bool:
        """Whether it counts: neither endpoint nor judge failed."""
        return self.reward.total is not None

    @property
    def is_success(self) -> bool:
        """Whether the task was completed, without breaking the format on the way where that ends a rollout."""
        ended_badly = self.trajectory.termination in ("format_error", "endpoint_error")
        return not ended_badly and self.verdict is not None and self.verdict.outcome is Outcome.COMPLETED

    @property
    def is_cut_short(self) -> bool:
        """Whether the policy or its endpoint failed, so that nothing can be concluded and it is to be made again.

        An episode that somebody just stopped can be judged.
        """
        ended = self.trajectory.termination
        return ended == "endpoint_error" or (ended == "stopped" and "error" in self.trajectory.usage)

    def to_dict(self) -> dict[str, Any]:
        """JSON form: the trajectory, with `rollout` beside its fields."""
        told = {"id": self.id, "number": self.number, "judge_error": self.judge_error}
        return {**self.trajectory.to_dict(), "rollout": told}

    @classmethod
    def from_dict(cls, found: Mapping[str, Any], name: str) -> Self:
        """From the JSON form of the file with this name.

        Raises:
            RecordError: it is no trajectory.
        """
        told = found.get("rollout")
        told = told if isinstance(told, Mapping) else {}
        number, error = told.get("number"), told.get("judge_error")
        return cls(
            id=name,
            number=number if isinstance(number, int) else 0,
            trajectory=trajectory_from(found, name),
            judge_error=dict(error) if isinstance(error, Mapping) else None,
        )


@dataclass(frozen=True)
class Run(Mapping[str, Rollout]):
    """A run's directory: a mapping from ids to stored rollouts, in the plan's order. Each is read when asked for."""

    directory: Path
    plan: Plan
    policy: dict[str, Any] = field(default_factory=dict)
    """Description of the policy."""

    def __iter__(self) -> Iterator[str]:
        return (slot.id for slot in self.plan.slots() if self._file(slot.id).exists())

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name == self._file(name).stem and self._file(name).is_file()

    def __getitem__(self, name: str) -> Rollout:
        """Read one rollout.

        Raises:
            UnknownNameError: no attempt of this id is stored.
            RecordError: its file is no trajectory.
        """
        if name not in self:
            raise UnknownNameError("rollout", name, list(self), next_step="`awm-hub view DIR` lists all")
        path = self._file(name)
        try:
            return Rollout.from_dict(decoded(path.read_bytes(), path.name), name)
        except RecordError as error:
            step = "go on with the run, by the command that began it: that makes this attempt again, and keeps the file"
            raise RecordError(f"{path}: {error.message}", next_step=f"{step} as {path.name}.broken") from error

    def put_aside(self, name: str) -> Path:
        """Rename the damaged file of an attempt, which is then missing; its new place."""
        path = self._file(name)
        return path.replace(path.with_name(f"{path.name}.broken"))

    @property
    def missing(self) -> tuple[Slot, ...]:
        """Attempts of the plan that are not stored."""
        return tuple(slot for slot in self.plan.slots() if not self._file(slot.id).exists())

    def keep(self, rollout: Rollout) -> None:
        """Store a rollout; its file is replaced as a whole."""
        _write(self._file(rollout.id), to_json(rollout.to_dict()))

    def drop(self, name: str) -> None:
        """Forget a rollout."""
        self._file(name).unlink()

    def add_verdict(self, name: str, verdict: Verdict) -> Rollout:
        """Add a verdict after those that a stored rollout has.

        Raises:
            UnknownNameError: no attempt of this id is stored.
        """
        found = self[name]
        judged = replace(found.trajectory, verdicts=(*found.trajectory.verdicts, verdict))
        changed = replace(found, trajectory=judged, judge_error=None)
        self.keep(changed)
        return changed

    def _file(self, name: str) -> Path:
        return self.directory / "rollouts" / f"{name}.json"


def open_run(directory: str | os.PathLike[str]) -> Run:
    """Open a run's directory for reading; it may still be running.

    Raises:
        DataError: there is no run in this directory.
        RecordError: its plan cannot be read.
    """
    path = Path(directory)
    try:
        data = (path / "run.json").read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise DataError(f"{path} holds no run", next_step="`awm-hub rollout … -o DIR` makes one") from None
    try:
        found = decoded(data, "run.json")
        if not isinstance(found.get("plan"), Mapping) or not isinstance(found.get("policy"), dict):
            raise RecordError("run.json is no plan of a run")
        if found.get("format_version") != FORMAT_VERSION:
            raise RecordError("run.json was written by another version", next_step="pip install -U awm-hub")
        return Run(path, Plan.from_dict(found["plan"]), found["policy"])
    except RecordError as error:
        step = error.next_step or f"name another folder; trajectories in {path / 'rollouts'} can be read one by one"
        raise RecordError(f"the run in {path} cannot be read: {error.message}", next_step=step) from error


def begin_run(directory: str | os.PathLike[str], plan: Plan, policy: Mapping[str, Any]) -> Run:
    """The run in a directory, a new one or one to be gone on with.

    A run in which no policy has done anything yet, since an endpoint never answered, is begun anew.

    Raises:
        UsageError: the directory holds a run of another plan or policy.
    """
    path = Path(directory)
    if (path / "run.json").exists():
        run = open_run(path)
        for left in (path / "rollouts").glob(".*.tmp"):
            left.unlink()
        if not _is_void(run):
            check_same(path, plan, policy, before=(run.plan, run.policy))
            return run
        for name in list(run):
            run.drop(name)
    (path / "rollouts").mkdir(parents=True, exist_ok=True)
    head = {"format_version": FORMAT_VERSION, "plan": plan.to_dict(), "policy": dict(policy)}
    _write(path / "run.json", to_json(head))
    return open_run(path)


@contextlib.contextmanager
def alone(directory: str | os.PathLike[str]) -> Iterator[None]:
    """Hold a run's directory, so that two programs do not make the same attempts.

    Raises:
        UsageError: another program is at it, or it holds something other than a run.
    """
    path = Path(directory)
    if path.exists() and not (path.is_dir() and _is_ours(path)):
        raise UsageError(f"{path} holds something other than a run", next_step="name a new folder with -o")
    path.mkdir(parents=True, exist_ok=True)
    with open(path / ".lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            message = f"another program is working on the run in {directory}"
            raise UsageError(message, next_step="wait for it, or name another folder with -o") from None
        yield


def _is_ours(path: Path) -> bool:
    """Whether a folder holds a run, or is empty but for what a run begins with."""
    return (path / "run.json").exists() or all(p.name in (".lock", ".run.json.tmp", "rollouts") for p in path.iterdir())


def _is_void(run: Run) -> bool:
    """Whether nothing came of a run so far: every attempt was cut short before its first action."""
    try:
        return all(r.is_cut_short and turns_count(r.trajectory) == 0 for r in run.values())
    except RecordError:
        return False


def _write(path: Path, text: str) -> None:
    """Write a file that appears whole or not at all, and survives a loss of power."""
    place = path.with_name(f".{path.name}.tmp")
    with open(place, "w", encoding="utf-8", newline="\n") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(place, path)

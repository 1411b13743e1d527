"""Where rollouts are that can be viewed: a run, a folder of trajectories, one trajectory, or Parquet."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from awm_hub.errors import RecordError, UnknownNameError
from awm_hub.rollouts import Rollout, open_run
from awm_hub.rollouts.dataset import CONFIG, read_rollouts
from awm_hub.trajectory import decoded

_AGAIN = "repeat the rollout command to make it again"


@dataclass(frozen=True, kw_only=True)
class Source:
    """Rollouts at one place."""

    rollouts: Mapping[str, Rollout]
    """By id, in their order; files of their own are read when they are asked for."""
    folder: Path | None = None
    """Where the file of each is."""
    dataset: str | None = None
    """Where the environments were loaded from, as far as that is known."""
    revision: str | None = None
    planned: int | None = None
    """How many there are to be, where there is a plan."""
    remedy: str = ""
    """What to do about a file that cannot be read."""

    def one(self, name: str) -> Rollout:
        """One of the rollouts.

        Raises:
            UnknownNameError: there is none of this name.
            RecordError: it cannot be read.
        """
        if name not in self.rollouts:
            raise UnknownNameError("rollout", name, self.rollouts, next_step="without --rollout all are listed")
        return self.rollouts[name]


def opened(path: Path) -> Source:
    """The rollouts that a path holds.

    Raises:
        DataError: it holds none.
        RecordError: its plan or a row cannot be read.
    """
    if (path / "run.json").is_file():
        run = open_run(path)
        return Source(
            rollouts=run,
            folder=path / "rollouts",
            dataset=run.plan.source,
            revision=run.plan.revision,
            planned=len(run.plan),
            remedy=_AGAIN,
        )
    if path.is_file() and path.suffix != ".parquet":
        return Source(rollouts={path.stem: _read(path)})
    files = {} if (path / CONFIG).is_dir() else _json_files(path)
    if files:
        return Source(rollouts=_Files(files), folder=path)
    return Source(rollouts={rollout.id: rollout for rollout in read_rollouts(path)})


class _Files(Mapping[str, Rollout]):
    """Trajectories with a file each, by its name."""

    def __init__(self, paths: Mapping[str, Path]) -> None:
        self._paths = paths

    def __getitem__(self, name: str) -> Rollout:
        path = self._paths[name]
        try:
            return _read(path)
        except RecordError as error:
            raise RecordError(f"{path}: {error.message}", next_step=error.next_step) from error

    def __contains__(self, name: object) -> bool:
        return name in self._paths

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)


def _json_files(folder: Path) -> dict[str, Path]:
    return {path.stem: path for path in sorted(folder.glob("*.json")) if path.is_file() and path.name[0] != "."}


def _read(path: Path) -> Rollout:
    return Rollout.from_dict(decoded(path.read_bytes(), path.name), path.stem)

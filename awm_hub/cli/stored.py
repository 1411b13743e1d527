"""Stored rollouts for a verb that adds verdicts to them: where they are, and how a changed one is kept."""

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from awm_hub.rollouts import Rollout


@dataclass(frozen=True, kw_only=True)
class Stored:
    """The rollouts of a run's directory, of one JSON file, or of Parquet."""

    rollouts: "Mapping[str, Rollout]"
    """By id; a run's are read when they are asked for."""
    keep: "Callable[[str, Rollout], None]"
    written: str | None
    """Where changed ones are written, at the end of the block at the latest; None: nowhere."""
    source: tuple[str | None, str | None] = (None, None)
    """Dataset and revision of the environments, where they are known."""
    cache: Path | None = None
    """Where what a model says about them is kept."""


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Stored]:
    """The rollouts that a path holds; a run is held until the block is left, and its Parquet written anew then.

    Raises:
        UsageError: another program is working on the run.
        DataError: it holds none.
        RecordError: a file is no trajectory.
    """
    from awm_hub.rollouts import Rollout, open_run
    from awm_hub.rollouts.dataset import read_rollouts, write_trajectories
    from awm_hub.rollouts.store import alone
    from awm_hub.trajectory import decoded

    if path.is_dir() and ((path / "run.json").exists() or not (path / "trajectories").is_dir()):
        run = open_run(path)
        with alone(path):
            yield Stored(
                rollouts=run,
                keep=lambda name, rollout: run.keep(rollout),
                written=str(path),
                source=(run.plan.source, run.plan.revision),
                cache=path / "opinions",
            )
            if (path / "dataset").is_dir():
                write_trajectories(run.values(), path / "dataset")
    elif path.suffix == ".json" and path.is_file():
        rollouts = {path.stem: Rollout.from_dict(decoded(path.read_bytes(), path.name), path.stem)}
        yield Stored(rollouts=rollouts, keep=rollouts.__setitem__, written=str(path))
        _replace(path, rollouts[path.stem])
    else:
        rollouts = {rollout.id: rollout for rollout in read_rollouts(path)}
        yield Stored(rollouts=rollouts, keep=rollouts.__setitem__, written=None)


def _replace(path: Path, rollout: "Rollout") -> None:
    """Write a trajectory's file anew, whole or not at all."""
    from awm_hub.canonical import to_json

    place = path.with_name(f".{path.name}.tmp")
    place.write_text(to_json(rollout.to_dict()), encoding="utf-8", newline="\n")
    os.replace(place, path)

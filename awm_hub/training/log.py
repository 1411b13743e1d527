"""What a policy did in training, kept: every trajectory with its reward, and with what each turn was shown.

    FOLDER/README.md                                       so that plain `load_dataset` reads it and the Hub shows it
    FOLDER/trajectories/train-000012-000-000.parquet       mode, step, process, which batch of the step

The columns are those of every dataset of trajectories (`awm_hub.schema.TRAJECTORIES`) and four more, so that
`awm_hub.rollouts.read_trajectories`, `awm-hub view` and `awm-hub judge` read it. Of advantages it says nothing: they
follow from the rewards of a group. A training that is resumed writes the steps since its checkpoint again, in place of
what it had written of them.
"""

import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from awm_hub.canonical import to_json
from awm_hub.rollouts.dataset import CONFIG, row_of
from awm_hub.rollouts.store import Rollout
from awm_hub.schema import TRAJECTORIES

if TYPE_CHECKING:
    from awm_hub.training.rewards import Scored

COLUMNS = pa.schema(
    [
        *TRAJECTORIES,
        pa.field("step", pa.int64(), nullable=False),
        pa.field("rank", pa.int64(), nullable=False),
        pa.field("mode", pa.string(), nullable=False),
        pa.field("seen", pa.string(), nullable=False),
        pa.field("judge_error", pa.string()),
    ]
)
"""`reward` is what training used. `step` counts optimizer steps before the rollout, `rank` is the process, `mode` is
`train` or `eval`, and `seen` holds, as JSON, for each turn the positions of the earlier turns that it was shown."""
MODES = ("train", "eval")


class TrajectoryLog:
    """A folder of trajectories, one Parquet file for each batch on each process.

    Args:
        folder: Where to write; made if it is not there.
        every: Only steps that are multiples of this.
    """

    def __init__(self, folder: str | os.PathLike[str], *, every: int = 1) -> None:
        self.folder, self._every = Path(folder), max(1, every)
        self._rank = int(os.environ.get("RANK", "0"))
        self._batches: Counter[tuple[str, int]] = Counter()
        self._carded: set[str] = set()

    def add(self, scored: Iterable["Scored"], *, step: int) -> Path | None:
        """Write a batch; its file, or None where this step is not kept."""
        batch = list(scored)
        if not batch or step % self._every:
            return None
        mode = batch[0].episode.mode
        number = self._batches[mode, step]
        self._batches[mode, step] += 1
        stem = f"{mode}-{step:06}-{self._rank:03}-{number:03}"
        rows = [self._row(one, f"{stem}-{place:04}", step) for place, one in enumerate(batch)]
        path = self.folder / CONFIG / f"{stem}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f".{path.name}.tmp")
        pq.write_table(pa.Table.from_pylist(rows, schema=COLUMNS), unfinished, compression="zstd")
        os.replace(unfinished, path)
        self._write_card(mode)
        return path

    def _row(self, one: "Scored", name: str, step: int) -> dict[str, Any]:
        return {
            **row_of(Rollout(id=name, number=0, trajectory=one.trajectory)),
            "reward": one.reward,
            "step": step,
            "rank": self._rank,
            "mode": one.episode.mode,
            "seen": to_json([list(shown) for shown in one.episode.seen]),
            "judge_error": one.judge_error,
        }

    def _write_card(self, mode: str) -> None:
        """Name the files of each mode that there is."""
        if mode in self._carded:
            return
        self._carded.add(mode)
        written = [m for m in MODES if any((self.folder / CONFIG).glob(f"{m}-*.parquet"))]
        lines = ["---", "configs:", f"- config_name: {CONFIG}", "  default: true", "  data_files:"]
        for found in written:
            lines += [f"  - split: {found}", f"    path: {CONFIG}/{found}-*.parquet"]
        lines += ["tags:", "- agent", "- tool-use", "- trajectories", "---", "", "# Trajectories of a training", ""]
        (self.folder / "README.md").write_text("\n".join(lines), encoding="utf-8", newline="\n")

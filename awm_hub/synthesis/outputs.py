"""What a run leaves in its folder, beside the store.

`environments/` holds accepted environments as source folders with their audit, `rejected/` the best draft of each of
the others with `problems.json`, `trajectories/` the solver's right attempts as a dataset. All of it can be made again
from the store. A folder is written whole or not at all.
"""

import contextlib
import json
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import awm_hub
from awm_hub.canonical import from_json
from awm_hub.environment import Provenance
from awm_hub.packing import build_environment, read_source
from awm_hub.rollouts.dataset import write_trajectories
from awm_hub.rollouts.store import Rollout
from awm_hub.rollouts.verdicts import with_verdict
from awm_hub.synthesis.asking import Desk
from awm_hub.synthesis.drafts import write_draft
from awm_hub.synthesis.examples import final_rollouts
from awm_hub.synthesis.ledger import Ledger
from awm_hub.synthesis.loop import Made
from awm_hub.synthesis.reporting import Figures
from awm_hub.synthesis.store import Store

ENVIRONMENTS, REJECTED, ROLLOUTS, TRAJECTORIES = "environments", "rejected", "rollouts", "trajectories"
_BEGUN = ".writing-"
"""Beginning of the names of folders that are not whole yet; `write_trajectories` has it too."""


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """The folder of a run."""

    folder: Path
    license: str | None

    def clear(self) -> None:
        """Remove what a run that was killed had begun to write."""
        for place in (self.folder, *(self.folder / name for name in (ENVIRONMENTS, REJECTED, ROLLOUTS))):
            for path in place.glob(f"{_BEGUN}*"):
                shutil.rmtree(path)

    def forget(self, name: str) -> None:
        """Remove what an environment has come to before."""
        for kind in (ENVIRONMENTS, REJECTED, ROLLOUTS):
            shutil.rmtree(self.folder / kind / name, ignore_errors=True)

    async def keep(self, made: Made, desk: Desk, store: Store) -> None:
        """Write what became of an environment, unless it is there.

        Raises:
            SandboxError: the right attempts cannot be run again.
        """
        draft = made.draft
        target = self.folder / (ENVIRONMENTS if made.is_accepted else REJECTED) / draft.id
        if not target.exists():
            with _whole(target) as place:
                write_draft(draft, place, self._provenance(made, store))
                if made.audited is not None:
                    _write_json(place / "quality.json", made.audited.quality)
                else:
                    _write_json(place / "problems.json", [p.to_dict() for p in made.problems])
        if made.is_accepted and not (self.folder / ROLLOUTS / draft.id).exists():
            await self._roll_out(made, desk, target)

    async def _roll_out(self, made: Made, desk: Desk, source: Path) -> None:
        """The solver's attempts again, on the finished environment and judged; those that are right are kept."""
        environment = await build_environment(read_source(source))
        found = await final_rollouts(environment, desk, made.solver)
        with _whole(self.folder / ROLLOUTS / made.draft.id) as place:
            place.mkdir()
            for trajectory in found:
                name = f"{str(trajectory.task_id).replace('/', '__')}__0"
                rollout = Rollout(id=name, number=0, trajectory=trajectory)
                judged = await with_verdict(rollout, environment=environment, judge="decision")
                if judged.is_success:
                    _write_json(place / f"{name}.json", judged.to_dict())

    def gather_trajectories(self) -> int:
        """Write all kept attempts as one dataset; how many there are."""
        paths = sorted((self.folder / ROLLOUTS).glob("*/*.json"))
        if paths:
            write_trajectories(map(_rollout, paths), self.folder / TRAJECTORIES)
        return len(paths)

    def write_report(self, figures: Figures) -> None:
        """Write `report.md` and `report.json`."""
        _write_json(self.folder / "report.json", figures.to_dict())
        (self.folder / "report.md").write_text(figures.markdown(), encoding="utf-8")

    def _provenance(self, made: Made, store: Store) -> Provenance:
        """Who made it, when, in how many attempts and at what cost."""
        ledger = Ledger.of(store, environment=made.draft.id)
        return Provenance(
            generator=", ".join(ledger.models),
            pipeline_version=f"awm-hub {awm_hub.__version__}",
            created_at=ledger.last_at,
            attempts=dict(made.attempts),
            tokens=ledger.tokens_by_stage(),
            cost_usd=ledger.cost_usd,
            license=self.license,
        )


def _rollout(path: Path) -> Rollout:
    return Rollout.from_dict(from_json(path.read_text(encoding="utf-8"), str(path)), path.stem)


@contextlib.contextmanager
def _whole(target: Path) -> Iterator[Path]:
    """A place beside the target that becomes it when the block is left without an error."""
    target.parent.mkdir(parents=True, exist_ok=True)
    room = Path(tempfile.mkdtemp(dir=target.parent, prefix=_BEGUN))
    try:
        place = room / target.name
        yield place
        place.rename(target)
    finally:
        shutil.rmtree(room)


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False, default=str) + "\n", encoding="utf-8")

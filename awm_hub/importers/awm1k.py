"""Import a run of upstream's pipeline: eight JSONL files in, a dataset and a report out.

One pass over the files joins lines to scenarios (`catalogue`); then one scenario after the other is read again, built
in a sealed process and handed to the writer (`assembly`), a few at a time, so that memory holds no whole file and no
whole dataset. A scenario that cannot run is left out with the reason; it never stops the others. The report lies beside
the dataset as `import-report.json` and accounts for every line.
"""

import asyncio
import contextlib
import os
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from awm_hub.environment import Environment
from awm_hub.errors import DataError, SandboxError, SealError, UsageError
from awm_hub.importers.assembly import Assembled, assemble
from awm_hub.importers.catalogue import Candidate, leave_out, read_catalogue
from awm_hub.importers.origin import Origin, resolve
from awm_hub.importers.report import ImportReport, Ledger
from awm_hub.packing.dataset import check_output, write_dataset
from awm_hub.runtime import sync

REPORT_FILE = "import-report.json"
Progress = Callable[[int, int, str], None]
"""Called with the number of scenarios done, their number in all, and the id of the latest."""


def import_awm1k(
    source: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    revision: str | None = None,
    license: str | None = None,
    progress: Progress | None = None,
) -> ImportReport:
    """Import upstream's JSONL files into a dataset folder.

    Args:
        source: A folder with any of the eight files, or a dataset repo on the Hub.
        out: The folder to write the dataset and `import-report.json` to.
        revision: Branch, tag or commit, for a repo only.
        license: The licence to state in the rows' provenance; by default CC-BY-4.0 for upstream's own dataset and
            `unknown` for everything else.
        progress: Called after each scenario, from a thread of the import; what it raises ends the import.

    Returns:
        What was imported, what was left out and why, and every line that could not be used.

    Raises:
        SourceError: the source holds none of the files, or one cannot be read.
        UsageError: a revision was given for a folder, or `out` is the source, a file or no dataset.
        RemoteError: the Hub does not give the files.
        SealError: this machine cannot run untrusted code sealed.
    """
    report: ImportReport = sync.run(
        import_awm1k_async, source, out, revision=revision, license=license, progress=progress
    )
    return report


async def import_awm1k_async(
    source: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    revision: str | None = None,
    license: str | None = None,
    progress: Progress | None = None,
) -> ImportReport:
    """`import_awm1k` as a coroutine; the same arguments, result and errors."""
    out = _fresh(Path(out), source)
    origin = await asyncio.to_thread(resolve, source, revision=revision, license_id=license)
    ledger = Ledger()
    candidates = await asyncio.to_thread(read_catalogue, origin.folder, ledger)
    run = _Run(origin=origin, ledger=ledger, candidates=candidates, progress=progress)
    await run.write(out)
    report = ledger.report(origin.source, origin.revision, origin.license)
    out.mkdir(parents=True, exist_ok=True)
    (out / REPORT_FILE).write_text(report.to_json(), encoding="utf-8")
    return report


def _fresh(out: Path, source: str | os.PathLike[str]) -> Path:
    """The folder to write to, checked before the work begins."""
    if Path(source).exists() and out.exists() and out.samefile(source):
        raise UsageError(f"{out} is the source itself", next_step="name another folder to write to")
    if out.is_dir() and [path.name for path in out.iterdir()] == [REPORT_FILE]:
        (out / REPORT_FILE).unlink()  # of an import from which no environment came
    return check_output(out)


@dataclass
class _Run:
    """Builds candidates on the event loop for a writer that pulls them from a thread of its own."""

    origin: Origin
    ledger: Ledger
    candidates: tuple[Candidate, ...]
    progress: Progress | None
    ahead: int = field(default_factory=lambda: max(1, min(8, os.cpu_count() or 1)))
    """How many environments are built at a time, and kept waiting for the writer at most."""
    waiting: deque[tuple[Candidate, Future[Assembled | str]]] = field(default_factory=deque)
    """Being built, or built and not yet handed to the writer."""
    is_stopped: bool = False

    async def write(self, out: Path) -> None:
        """Build and write everything; without a single environment nothing is written."""
        loop = asyncio.get_running_loop()
        try:
            await asyncio.to_thread(self._write, loop, out)
        finally:
            self.is_stopped = True
            for _, future in list(self.waiting):
                future.cancel()

    def _write(self, loop: asyncio.AbstractEventLoop, out: Path) -> None:
        with contextlib.closing(self._environments(loop)) as environments:
            first = next(environments, None)
            if first is not None:
                write_dataset(chain([first], environments), out)

    def _environments(self, loop: asyncio.AbstractEventLoop) -> Generator[Environment, None, None]:
        """Environments in the order of candidates, the next few already being built."""
        upcoming = iter(self.candidates)
        for done in range(1, len(self.candidates) + 1):
            while len(self.waiting) < self.ahead and (candidate := next(upcoming, None)) is not None:
                self.waiting.append((candidate, asyncio.run_coroutine_threadsafe(self._attempt(candidate), loop)))
            if self.is_stopped:
                raise CancelledError
            candidate, future = self.waiting[0]
            environment = self._settle(candidate, future.result())
            self.waiting.popleft()
            if self.progress:
                self.progress(done, len(self.candidates), candidate.id)
            if environment is not None:
                yield environment

    async def _attempt(self, candidate: Candidate) -> Assembled | str:
        """What came of a candidate: an environment, or the reason why there is none."""
        try:
            return await assemble(candidate, self.origin)
        except SealError:
            raise
        except (DataError, SandboxError) as error:
            return error.message

    def _settle(self, candidate: Candidate, outcome: Assembled | str) -> Environment | None:
        """Enter the outcome in the ledger."""
        if isinstance(outcome, str):
            leave_out(candidate, outcome, self.ledger)
            return None
        fates = {id(misfit.place): misfit for misfit in outcome.misfits}
        for place in candidate.places:
            misfit = fates.get(id(place))
            self.ledger.count(place.file, misfit.fate if misfit else "imported")
            if misfit:
                self.ledger.problem(place.file, place.line.number, misfit.fate, misfit.message)
        self.ledger.environments.append(outcome.entry)
        return outcome.environment

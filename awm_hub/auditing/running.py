"""Auditing many environments: side by side, resumable, with progress.

The work is done in sealed processes, so one event loop keeps as many environments under way as there are cores. An
environment is read when its turn comes and let go when it is done: memory does not grow with their number.
"""

import asyncio
import os
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from awm_hub.auditing.findings import AuditedEnvironment, AuditReport, Unaudited
from awm_hub.auditing.keeping import RunFile, default_path, key_of, read_report
from awm_hub.auditing.one import audit_one
from awm_hub.auditing.rules import AUDIT_VERSION
from awm_hub.auditing.sources import Subject, open_subject
from awm_hub.errors import AwmHubError, RemoteError, SealError, UsageError
from awm_hub.runtime import sync

Progress = Callable[[Mapping[str, Any]], None]
"""Called with one JSON object per event: `audited`, with `id`, `position`, `total` and what came of it."""


def audit(
    source: str | os.PathLike[str] | None = None,
    *,
    revision: str | None = None,
    ids: Iterable[str] | None = None,
    jobs: int | None = None,
    run_file: str | os.PathLike[str] | None = None,
    baseline: str | os.PathLike[str] | None = None,
    is_fresh: bool = False,
    trust_remote_code: bool = False,
    progress: Progress | None = None,
) -> AuditReport:
    """Audit environments.

    Args:
        source: A source folder, a folder of them, or what `awm_hub.load` takes; None: the bundled set.
        revision: Revision of a Hub dataset.
        ids: Which environments; all without it.
        jobs: Environments under way at a time; the number of cores without it.
        run_file: Where finished environments are kept; without it in the Hub's cache.
        baseline: A report written earlier; tools that do otherwise than there are findings.
        is_fresh: Audit again what an earlier run has finished.
        trust_remote_code: Run code without a seal where this machine has none.
        progress: Called after each environment.

    Raises:
        DataError: there is no such dataset, source or environment, or the baseline is no report.
        RemoteError: the Hub does not have it, or cannot be reached.
        SealError: this machine cannot seal, and the code is not trusted.
        UsageError: `jobs` is below one.
    """
    report: AuditReport = sync.run(
        audit_async,
        source,
        revision=revision,
        ids=ids,
        jobs=jobs,
        run_file=run_file,
        baseline=baseline,
        is_fresh=is_fresh,
        trust_remote_code=trust_remote_code,
        progress=progress,
    )
    return report


async def audit_async(
    source: str | os.PathLike[str] | None = None,
    *,
    revision: str | None = None,
    ids: Iterable[str] | None = None,
    jobs: int | None = None,
    run_file: str | os.PathLike[str] | None = None,
    baseline: str | os.PathLike[str] | None = None,
    is_fresh: bool = False,
    trust_remote_code: bool = False,
    progress: Progress | None = None,
) -> AuditReport:
    """`audit` as a coroutine; the same arguments, result and errors."""
    if jobs is not None and jobs < 1:
        raise UsageError(f"{jobs} environments at a time are none", next_step="jobs=1 audits one after another")
    started = time.perf_counter()
    subject = open_subject(source, revision=revision, ids=ids, trust_remote_code=trust_remote_code)
    before = {} if baseline is None else read_report(Path(baseline))
    kept = RunFile(default_path() if run_file is None else Path(run_file), is_fresh=is_fresh)
    work = _Audit(subject, kept, before, trust_remote_code, progress)
    room = asyncio.Semaphore(jobs or os.cpu_count() or 1)

    async def one(name: str) -> None:
        async with room:
            await work.audit(name)

    try:
        async with asyncio.TaskGroup() as group:
            for name in subject.ids:
                group.create_task(one(name))
    except* Exception as errors:  # naked again, as whoever called expects it
        raise _first(errors) from None
    return AuditReport(
        source=subject.source,
        revision=subject.revision,
        audit_version=AUDIT_VERSION,
        environments=tuple(work.done[name] for name in subject.ids if name in work.done),
        unaudited=tuple(sorted(work.failed, key=lambda u: u.id)),
        taken_over=work.taken_over,
        seconds=round(time.perf_counter() - started, 3),
    )


def _first(error: BaseException) -> BaseException:
    """The first error of a group: what stopped the audit."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


class _Audit:
    """An audit under way."""

    def __init__(
        self,
        subject: Subject,
        kept: RunFile,
        before: Mapping[str, AuditedEnvironment],
        trust_remote_code: bool,
        progress: Progress | None,
    ) -> None:
        self._subject, self._kept, self._before = subject, kept, before
        self._trust, self._progress = trust_remote_code, progress
        self.done: dict[str, AuditedEnvironment] = {}
        self.failed: list[Unaudited] = []
        self.taken_over = 0

    async def audit(self, name: str) -> None:
        """Audit one environment, or take its result over; what fails with it is its own."""
        is_kept = False
        try:
            environment = await self._subject.get(name)
            key = key_of(environment)
            result = self._kept.get(key)
            is_kept = result is not None
            if result is None:
                result = await audit_one(environment, trust_remote_code=self._trust)
                self._kept.add(key, result)
            self.taken_over += is_kept
            self.done[name] = result.compared_with(self._before[name]) if name in self._before else result
        except (SealError, RemoteError, OSError):
            raise
        except Exception as error:  # the boundary of one row: whatever it holds, the others are audited
            message = error.message if isinstance(error, AwmHubError) else f"{type(error).__name__}: {error}"
            self.failed.append(Unaudited(id=name, type=type(error).__name__, message=message))
        self._tell(name, is_kept)

    def _tell(self, name: str, is_kept: bool) -> None:
        if self._progress is None:
            return
        result = self.done.get(name)
        position, total = len(self.done) + len(self.failed), len(self._subject.ids)
        event: dict[str, Any] = {"event": "audited", "id": name, "position": position, "total": total}
        if result is None:
            self._progress({**event, "error": self.failed[-1].message})
            return
        counts = {f"{severity}s": result.count(severity) for severity in ("error", "warning")}
        self._progress({**event, **counts, "seconds": result.seconds, "is_kept": is_kept})

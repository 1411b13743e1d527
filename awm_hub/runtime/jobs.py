"""One-shot jobs: everything that touches a row's code, SQL or database image outside an instance.

Each runs in a fork of its own that seals itself, does one thing under a deadline and ends; the jobs of one judgement
share a fork, where everything is read before code of the row runs. What comes back is data. The
host never executes or opens anything of a row itself.
"""

import contextlib
import datetime as dt
import hashlib
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from awm_hub.canonical import from_json, to_json
from awm_hub.errors import LoadError, RecordError, SandboxError, SealError
from awm_hub.runtime import builds
from awm_hub.runtime.builds import BuildReport, BuildRequest, Problem
from awm_hub.runtime.limits import Limits
from awm_hub.runtime.processes import OperationError, Process
from awm_hub.runtime.tiers import choose_tier
from awm_hub.trajectory import StateDiff

__all__ = [
    "BuildReport",
    "BuildRequest",
    "Comparison",
    "Fork",
    "ImageError",
    "Problem",
    "VerifierError",
    "build",
    "compare_endings",
    "dump",
    "forked",
    "logical_hash",
    "prepare_image",
    "query",
    "state_diff",
    "verify",
]
_GRACE_S = 5.0


class VerifierError(SandboxError):
    """A verifier raised, overran its deadline or returned something that is no JSON."""


class ImageError(RecordError):
    """A database image cannot be read: it is no database, damaged, or too slow to read."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Whether two endings are the same, and what differs."""

    equal: bool
    differences: tuple[str, ...]
    changes: StateDiff
    """Of the actual ending against the initial state, `volatile` columns left out."""


class Fork:
    """A sealed fork for the jobs of one judgement: what reads comes before what runs code of the row."""

    def __init__(self, process: Process, tier: str) -> None:
        self._process = process
        self.tier = tier
        """Sandbox tier: `sealed` or `process`."""

    @property
    def is_dead(self) -> bool:
        """Whether it has died, or was stopped at a deadline."""
        return self._process.is_dead

    async def run(self, op: str, *, interface: str = "functions", **fields: Any) -> Any:
        """One operation.

        Raises:
            OperationError: the operation failed inside.
            WorkerError: the fork died or overran its deadline.
        """
        seconds = Limits().load_s
        return await self._process.request(
            op, timeout_s=seconds + _GRACE_S, seconds=seconds, interface=interface, **fields
        )


@contextlib.asynccontextmanager
async def forked(*, interface: str = "functions", trust_remote_code: bool = False) -> AsyncIterator[Fork]:
    """A fork that ends with the block.

    Raises:
        SealError: this machine cannot seal, and the code is not trusted.
    """
    tier = await choose_tier("auto", trust_remote_code=trust_remote_code)
    memory_bytes = Limits().worker_memory_bytes
    process = await Process.spawn(interface=interface, sealed=tier == "sealed", memory_bytes=memory_bytes)
    try:
        yield Fork(process, tier)
    finally:
        process.kill()


async def run_job(
    op: str,
    *,
    interface: str = "functions",
    trust_remote_code: bool = False,
    fork: Fork | None = None,
    **fields: Any,
) -> Any:
    """One operation, in a fork of its own or in the given one.

    Raises:
        OperationError: the operation failed inside.
        WorkerError: the fork died or overran its deadline.
    """
    if fork is not None:
        return await fork.run(op, interface=interface, **fields)
    async with forked(interface=interface, trust_remote_code=trust_remote_code) as own:
        return await own.run(op, interface=interface, **fields)


async def build(request: BuildRequest, *, trust_remote_code: bool = False, reading: Fork | None = None) -> BuildReport:
    """Build an environment's image and read its tools; `reading` is a fork to look at the image in.

    Raises:
        SourceError: `strict`, and a statement failed or the code does not load.
        LoadError: the build itself could not run to its end.
        WorkerError: it overran its deadline or its memory.
    """
    try:
        found = await run_job(
            "build",
            interface=request.interface,
            trust_remote_code=trust_remote_code,
            code=request.code,
            clock_us=_microseconds(request.clock),
            tables=[{"name": t.name, "ddl": t.ddl, "indexes": list(t.indexes)} for t in request.tables],
            further_ddl=list(request.further_ddl),
            seed=[{"table": s.table, "inserts": list(s.inserts)} for s in request.seed],
            database_bytes=Limits().database_bytes,
        )
    except OperationError as error:
        raise LoadError(
            f"the image could not be built: {error}", next_step="look at the schema and the seed"
        ) from error
    try:
        image, claimed = builds.image_of(found), builds.report_of(found)
    except (KeyError, TypeError, ValueError, RecordError) as error:
        raise LoadError(f"the sandbox returned no build report: {error}") from error
    # the row's code ran where the image was made: what the image holds is found out where it did not
    summary = await _summary(image, trust_remote_code, reading)
    report = replace(claimed, image=image, image_sha256=hashlib.sha256(image).hexdigest(), **summary)
    if request.strict:
        report.raise_first()
    return report


async def _summary(image: bytes, trust_remote_code: bool, fork: Fork | None = None) -> dict[str, Any]:
    try:
        found = await run_job("summary", trust_remote_code=trust_remote_code, fork=fork, image=image)
    except OperationError as error:
        raise LoadError(f"the image that was built cannot be read: {error}") from error
    return {"logical_hash": str(found["logical_hash"]), "row_counts": dict(found["row_counts"])}


async def prepare_image(
    image: bytes, setup: Sequence[str], clock: dt.datetime, *, trust_remote_code: bool = False
) -> bytes:
    """A task's setup statements applied to an image.

    Raises:
        LoadError: a statement failed.
    """
    if not setup:
        return image
    try:
        done = await run_job(
            "setup",
            trust_remote_code=trust_remote_code,
            image=image,
            statements=list(setup),
            clock_us=_microseconds(clock),
        )
    except OperationError as error:
        raise LoadError(f"a setup statement of the task failed: {error}") from error
    return bytes(done)


async def state_diff(
    initial: bytes,
    final: bytes,
    *,
    volatile: Sequence[str] = (),
    trust_remote_code: bool = False,
    fork: Fork | None = None,
) -> StateDiff:
    """Rows that differ between two images, `volatile` columns left out.

    Raises:
        ImageError: an image cannot be read.
    """
    found = await _read(
        "diff", trust_remote_code=trust_remote_code, fork=fork, initial=initial, final=final, volatile=list(volatile)
    )
    with _expecting("a state difference"):
        return StateDiff.from_dict(found)


async def dump(
    image: bytes, *, max_rows: int = 1000, trust_remote_code: bool = False, fork: Fork | None = None
) -> dict[str, Any]:
    """Tables with columns, rows (JSON cells) and totals.

    Raises:
        ImageError: the image cannot be read.
    """
    found: dict[str, Any] = await _read(
        "dump", trust_remote_code=trust_remote_code, fork=fork, image=image, max_rows=max_rows
    )
    return found


async def logical_hash(image: bytes, *, trust_remote_code: bool = False, fork: Fork | None = None) -> str:
    """Hash of what an image holds, whatever its pages look like.

    Raises:
        ImageError: the image cannot be read.
    """
    return str(await _run_read("hash", trust_remote_code=trust_remote_code, fork=fork, image=image))


async def query(
    image: bytes,
    sql: str,
    *,
    clock: dt.datetime,
    calls_count: int = 0,
    max_rows: int = 10_000,
    trust_remote_code: bool = False,
    fork: Fork | None = None,
) -> list[dict[str, Any]]:
    """Rows of one SELECT, cells as JSON.

    Raises:
        ImageError: the statement fails or the image cannot be read.
    """
    found: list[dict[str, Any]] = await _read(
        "query",
        trust_remote_code=trust_remote_code,
        fork=fork,
        image=image,
        sql=sql,
        clock_us=_microseconds(clock),
        calls_count=calls_count,
        max_rows=max_rows,
    )
    return found


async def compare_endings(
    initial: bytes,
    expected: bytes,
    actual: bytes,
    *,
    volatile: Sequence[str] = (),
    free: Sequence[str] = (),
    kind: str | None = None,
    trust_remote_code: bool = False,
    fork: Fork | None = None,
) -> Comparison:
    """Whether two endings make the same changes, by the rules of the derived decision; and which `actual` makes.

    Raises:
        ImageError: an image cannot be read.
    """
    found = await _read(
        "compare",
        trust_remote_code=trust_remote_code,
        fork=fork,
        initial=initial,
        expected=expected,
        actual=actual,
        volatile=list(volatile),
        free=list(free),
        kind=kind,
    )
    with _expecting("a comparison"):
        return Comparison(
            equal=found["equal"] is True,
            differences=tuple(str(d) for d in found["differences"]),
            changes=StateDiff.from_dict(found["changes"]),
        )


async def verify(
    *,
    code: str,
    function: str,
    initial: bytes,
    final: bytes,
    changes: StateDiff,
    answer: str | None,
    clock: dt.datetime,
    calls_count: int = 0,
    trust_remote_code: bool = False,
    fork: Fork | None = None,
) -> Any:
    """Run a verifier; its JSON result.

    Raises:
        VerifierError: it raised, overran its deadline, or its result is no JSON.
    """
    try:
        text = await run_job(
            "verify",
            trust_remote_code=trust_remote_code,
            fork=fork,
            code=code,
            function=function,
            initial=initial,
            final=final,
            changes=to_json(changes.to_dict()),
            answer=answer,
            clock_us=_microseconds(clock),
            calls_count=calls_count,
        )
        return from_json(str(text), f"result of {function}")
    except SealError:
        raise
    except (OperationError, RecordError, SandboxError) as error:
        raise VerifierError(f"verifier {function} failed: {error}") from error


async def _read(op: str, **fields: Any) -> Any:
    text = await _run_read(op, **fields)
    return from_json(str(text), f"answer to {op}")


async def _run_read(op: str, **fields: Any) -> Any:
    try:
        return await run_job(op, **fields)
    except OperationError as error:
        raise ImageError(f"the database could not be read: {error}") from error


@contextlib.contextmanager
def _expecting(what: str) -> Iterator[None]:
    """While a part of an untrusted answer is read."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ImageError(f"the sandbox returned no {what.partition(' ')[2]}") from error


def _microseconds(moment: dt.datetime) -> int:
    return int((moment - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) / dt.timedelta(microseconds=1))

"""Upstream's verifiers: which kind each one is, and to which task it belongs.

The file a verifier lies in does not tell its kind: code that decides can sit under the name for signals. So each one is
run, sealed, on an untouched database; what it returns is what it is: an object whose `result` is a verdict is a
`decision`, any other object is `signals`. Only where it fails there does its signature have to tell.

A decision that is already complete on the untouched database would pay for doing nothing; that is noted.
"""

import datetime as dt
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from awm_hub.environment import Verifier
from awm_hub.errors import SandboxError, SealError
from awm_hub.importers.catalogue import Place
from awm_hub.importers.records import VerifierRecord
from awm_hub.importers.report import Finding, clip
from awm_hub.runtime import jobs
from awm_hub.trajectory import StateDiff

VERDICTS = frozenset({"complete", "partial", "others"})
_DECIDES_BY_SIGNATURE = re.compile(r"\bfinal_answer\b|\bverify_task_completion\b")


@dataclass(frozen=True, kw_only=True)
class Misfit:
    """A verifier's line that found no place in its environment."""

    place: Place
    fate: str
    """`repeated` or `unused`."""
    message: str


@dataclass(frozen=True, kw_only=True)
class Attached:
    """Verifiers by task number, with what there is to say about them."""

    verifiers: Mapping[int, tuple[Verifier, ...]]
    findings: tuple[Finding, ...]
    misfits: tuple[Misfit, ...]


async def attach(
    instructions: Mapping[int, str], found: Iterable[tuple[Place, VerifierRecord]], image: bytes, clock: dt.datetime
) -> Attached:
    """Give each task its verifiers: of each kind the first, one written for another text only if there is no other.

    Raises:
        SealError: this machine cannot run untrusted code sealed.
    """
    chosen: dict[int, dict[str, Verifier]] = {number: {} for number in instructions}
    findings: list[Finding] = []
    misfits: list[Misfit] = []
    for place, record in sorted(found, key=lambda pair: not is_for(pair[1], instructions)):
        subject = f"t{record.task_index}"
        if record.task_index not in chosen:
            misfits.append(Misfit(place=place, fate="unused", message=f"{place.name!r} has no task {subject}"))
            continue
        kind, notes = await classify(record, image, clock)
        taken = chosen[record.task_index]
        if kind in taken:
            message = f"{place.name!r} already has a verifier of the kind {kind} for {subject}; the first counts"
            misfits.append(Misfit(place=place, fate="repeated", message=message))
            continue
        taken[kind] = _verifier(record, kind)
        if not is_for(record, instructions):
            notes += (f"the verifier was written for another text: {record.instruction}",)
        findings += (Finding(kind="verifier", subject=subject, message=clip(note)) for note in notes)
    verifiers = {number: tuple(by_kind.values()) for number, by_kind in chosen.items()}
    return Attached(verifiers=verifiers, findings=tuple(findings), misfits=tuple(misfits))


def is_for(record: VerifierRecord, instructions: Mapping[int, str]) -> bool:
    """Whether a verifier was written for its task's text, white space aside; true where it names none."""
    if record.instruction is None:
        return True
    return record.instruction.split() == instructions.get(record.task_index, "").split()


async def classify(record: VerifierRecord, image: bytes, clock: dt.datetime) -> tuple[str, tuple[str, ...]]:
    """The verifier's kind, with notes on how it behaved on the untouched database.

    Raises:
        SealError: this machine cannot run untrusted code sealed.
    """
    try:
        result = await jobs.verify(
            code=record.code,
            function=record.function,
            initial=image,
            final=image,
            changes=StateDiff(),
            answer=None,
            clock=clock,
            calls_count=0,
        )
    except SealError:
        raise
    except SandboxError as error:
        kind = kind_by_signature(record)
        return kind, (*record.notes, f"it fails on the untouched database, {kind} by its signature: {error.message}")
    kind, notes = kind_of(result, record)
    return kind, (*record.notes, *notes)


def kind_of(result: Any, record: VerifierRecord) -> tuple[str, tuple[str, ...]]:
    """The kind that a result shows, with notes on what is unusual about it."""
    if not isinstance(result, dict):
        kind = kind_by_signature(record)
        return kind, (f"it returns no object, {kind} by its signature",)
    verdict = result.get("result")
    if isinstance(verdict, str) and (verdict in VERDICTS or len(result) == 1):
        if verdict == "complete":
            return "decision", ("it is complete on the untouched database, before anything was done",)
        return "decision", () if verdict in VERDICTS else (f"its result is {verdict!r}, which is no verdict",)
    return "signals", ()


def kind_by_signature(record: VerifierRecord) -> str:
    """The kind that upstream's signature stands for: only deciding functions are given the final answer."""
    return "decision" if _DECIDES_BY_SIGNATURE.search(record.code) else "signals"


def _verifier(record: VerifierRecord, kind: str) -> Verifier:
    return Verifier(
        kind=kind,
        function=record.function,
        code=record.code,
        success_criteria=record.success_criteria,
        failure_criteria=record.failure_criteria,
    )

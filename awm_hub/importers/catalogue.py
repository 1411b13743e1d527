"""Which lines belong to which scenario: one pass over all files, keeping places and no content.

Upstream's files are ordered differently from one another, and a user's run names a scenario by its display name in some
files and by its normalised name in others. So lines are joined on the normalised name. That is not injective: scenarios
with different display names can fall on one normalised name, in which case the first one named has it and the others
are left out. Of several lines for the same part of a scenario the first counts. Nothing is dropped without an entry in
the ledger.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from awm_hub.errors import RecordError
from awm_hub.importers.jsonl import Line, read_at, read_lines
from awm_hub.importers.records import FILES, PARTS, Record, parse
from awm_hub.importers.report import Finding, Ledger, LeftOut, clip
from awm_hub.schema import RESERVED_IDS

MAX_ID = 64
_OUTSIDE = re.compile(r"[^a-z0-9_]+")


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a record lies, and the name it goes by there."""

    folder: Path
    file: str
    line: Line
    """Without its value."""
    name: str

    @property
    def part(self) -> str:
        """What the record is to its environment."""
        return FILES[self.file]

    def read(self) -> Record:
        """Read the record again.

        Raises:
            SourceError: the file changed since it was catalogued.
            RecordError: the same.
        """
        return parse(self.part, read_at(self.folder / self.file, self.line))


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """All places of one scenario."""

    id: str
    title: str
    places: tuple[Place, ...]
    """Of each part but the verifiers there is at most one."""
    findings: tuple[Finding, ...] = ()

    @property
    def has(self) -> tuple[str, ...]:
        """The parts that there are, in the order of the pipeline."""
        return parts_of(self.places)


def normalise(name: str) -> str:
    """Upstream's normalised name: lower case, every run of other characters than `a-z 0-9 _` one `_`, trimmed."""
    return _OUTSIDE.sub("_", name.lower()).strip("_")


def parts_of(places: Iterable[Place]) -> tuple[str, ...]:
    """The parts that these places hold, in the order of the pipeline."""
    found = {place.part for place in places}
    return tuple(part for part in PARTS if part in found)


def read_catalogue(folder: Path, ledger: Ledger) -> tuple[Candidate, ...]:
    """Read all files of a run once and join them, in the order of ids.

    Raises:
        SourceError: a file cannot be read.
    """
    by_key: dict[str, list[Place]] = {}
    for file in FILES:
        if not (folder / file).is_file():
            continue
        for place in _places(folder, file, ledger):
            by_key.setdefault(normalise(place.name), []).append(place)
    return tuple(sorted(_candidates(by_key, ledger), key=lambda c: c.id))


def _places(folder: Path, file: str, ledger: Ledger) -> Iterator[Place]:
    ledger.count(file, "lines", 0)
    for line in read_lines(folder / file):
        ledger.count(file, "lines")
        if line.is_blank:
            ledger.count(file, "blank")
            continue
        try:
            name = _name(line, file)
        except RecordError as error:
            kind = line.fault.kind if line.fault else "shape"
            ledger.count(file, "refused")
            ledger.problem(file, line.number, kind, error.message)
            continue
        yield Place(folder=folder, file=file, line=replace(line, value=None), name=name)


def _name(line: Line, file: str) -> str:
    if line.fault:
        raise RecordError(line.fault.message)
    name = parse(FILES[file], line.value).scenario
    if not normalise(name):
        raise RecordError(f"no id can be made of the name {name!r}: it has no letter a-z and no digit")
    return name


def _candidates(by_key: dict[str, list[Place]], ledger: Ledger) -> Iterator[Candidate]:
    taken: dict[str, str] = {}
    for key, places in sorted(by_key.items()):
        owner, own, findings = _own(key, places, ledger)
        id_, id_findings = _id(key)
        if id_ in taken:
            reason = f"its id {id_!r} is taken by {taken[id_]!r}"
            leave_out(Candidate(id=id_, title=owner, places=tuple(own)), reason, ledger)
            continue
        taken[id_] = owner
        firsts = tuple(_firsts(own, ledger))
        yield Candidate(id=id_, title=owner, places=firsts, findings=(*findings, *id_findings))


def leave_out(candidate: Candidate, reason: str, ledger: Ledger) -> None:
    """Enter a candidate, and all lines it still has, as left out."""
    for place in candidate.places:
        ledger.count(place.file, "left_out")
    ledger.left_out.append(LeftOut(id=candidate.id, title=candidate.title, reason=clip(reason), has=candidate.has))


def _own(key: str, places: list[Place], ledger: Ledger) -> tuple[str, list[Place], list[Finding]]:
    """The display name that has this key, its places, and what there is to say about names."""
    owner = next((p.name for p in places if p.name != key), key)
    by_spelling: dict[str, list[Place]] = {}
    for place in places:
        by_spelling.setdefault(_spelling(owner if place.name == key else place.name), []).append(place)
    own = by_spelling.pop(_spelling(owner))
    for others in by_spelling.values():
        _collide(key, owner, others, ledger)
    findings = []
    if by_spelling and any(p.name == key for p in own):
        names = ", ".join(repr(others[0].name) for others in by_spelling.values())
        message = f"lines that name {key!r} were taken for {owner!r} and could be of {names}"
        findings.append(Finding(kind="name", subject=key, message=message))
    return owner, own, findings


def _spelling(name: str) -> str:
    """Names that differ in case, white space or Unicode form alone are one name."""
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


def _collide(key: str, owner: str, places: list[Place], ledger: Ledger) -> None:
    name = places[0].name
    reason = f"its name gives the same id {key!r} as {owner!r}, which was named first"
    for place in places:
        ledger.count(place.file, "collided")
        ledger.problem(place.file, place.line.number, "collision", f"{name!r}: {reason}")
    ledger.left_out.append(LeftOut(id=key[:MAX_ID], title=name, reason=reason, has=parts_of(places)))


def _id(key: str) -> tuple[str, list[Finding]]:
    """The id for a key, which keeps within the format's length and off the names the server uses."""
    if len(key) > MAX_ID:
        message = f"the name is longer than {MAX_ID} characters, the id is its beginning"
        return key[:MAX_ID].rstrip("_"), [Finding(kind="name", subject=key, message=message)]
    if key in RESERVED_IDS:
        return f"{key}_env", [Finding(kind="name", subject=key, message=f"{key!r} is reserved, the id is {key}_env")]
    return key, []


def _firsts(places: list[Place], ledger: Ledger) -> Iterator[Place]:
    """Of each part the first place; verifiers are told apart only where their kind is known."""
    seen: dict[str, Place] = {}
    for place in places:
        first = seen.setdefault(place.part, place)
        if first is place or place.part == "verifiers":
            yield place
            continue
        ledger.count(place.file, "repeated")
        message = f"{place.name!r} stands already on line {first.line.number}; the first counts"
        ledger.problem(place.file, place.line.number, "repeated", message)

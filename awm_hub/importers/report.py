"""What an import did: every line of every file is accounted for.

`ImportReport` lists the environments that were written, each with its findings; those that were left out, each with
the reason and with what there was of it; and the lines that could not be used as they are, by file and number. For each
file the counts add up: `lines` is the sum of the others. `Ledger` collects all this while the import runs.
"""

import dataclasses
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from awm_hub.canonical import to_json

MAX_PROBLEMS_PER_FILE = 1000
"""More are counted and not listed, so that a file of rubbish does not fill the memory."""
_MAX_MESSAGE = 500


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Something about an imported environment that its user should know."""

    kind: str
    """`missing`, `name`, `schema`, `seed`, `foreign_keys`, `code`, `tools`, `hidden_state`, `specification`, `tasks`,
    `verifier` or `more`."""
    subject: str
    """The table, tool, task or part that it is about."""
    message: str
    statement: str = ""
    """The SQL statement that failed, its beginning where it is long."""


@dataclass(frozen=True, kw_only=True)
class Imported:
    """One environment of the output."""

    id: str
    title: str
    tools_count: int
    tasks_count: int
    tables_count: int
    """In the database image, as `rows_count`."""
    rows_count: int
    signals: int
    """Tasks with a verifier that informs a judge."""
    decisions: int
    """Tasks with a verifier that decides."""
    schema_errors: int
    seed_errors: int
    """Rows that did not load."""
    foreign_key_violations: int
    dropped_tools: tuple[str, ...]
    """Operations that a later one with the same method and path replaces: they are no tools."""
    shadowed_tools: tuple[str, ...]
    """Tools whose calls reach another operation, which was declared before and takes their path."""
    hidden_state: bool
    """The code keeps state outside its database."""
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """One scenario of the input that is no environment of the output."""

    id: str
    title: str
    reason: str
    has: tuple[str, ...]
    """The parts that the input holds of it."""


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One line that could not be used as it is."""

    file: str
    line: int
    kind: str
    """`limit`, `encoding`, `json`, `shape`, `name`, `repeated`, `collision` or `unused`."""
    message: str


@dataclass(frozen=True, kw_only=True)
class FileCount:
    """Where the lines of one file went."""

    file: str
    lines: int
    blank: int = 0
    refused: int = 0
    """Not readable as a record."""
    repeated: int = 0
    """A second record for what an earlier one had already given."""
    collided: int = 0
    """Of another scenario with the same id."""
    imported: int = 0
    unused: int = 0
    """Of an imported environment, which had no place for it."""
    left_out: int = 0
    """Of a scenario that was left out."""
    problems_not_listed: int = 0


@dataclass(frozen=True, kw_only=True)
class ImportReport:
    """The whole import; `to_dict` is what `import-report.json` holds."""

    source: str
    source_revision: str | None
    license: str
    environments: tuple[Imported, ...]
    left_out: tuple[LeftOut, ...]
    problems: tuple[Problem, ...]
    files: tuple[FileCount, ...]

    @property
    def totals(self) -> dict[str, int]:
        """Sums over the imported environments, and how much was left out or is a problem."""
        summed = (
            "tools_count",
            "tasks_count",
            "tables_count",
            "rows_count",
            "signals",
            "decisions",
            "schema_errors",
            "seed_errors",
        )
        counts = {name: sum(getattr(e, name) for e in self.environments) for name in summed}
        return {
            "environments": len(self.environments),
            **counts,
            "dropped_tools": sum(len(e.dropped_tools) for e in self.environments),
            "findings": sum(len(e.findings) for e in self.environments),
            "left_out": len(self.left_out),
            "problems": len(self.problems) + sum(f.problems_not_listed for f in self.files),
            "lines": sum(f.lines for f in self.files),
        }

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {**dataclasses.asdict(self), "totals": self.totals}

    def to_json(self) -> str:
        """Canonical JSON, one line."""
        return to_json(self.to_dict()) + "\n"


@dataclass
class Ledger:
    """Collects the report; the counts of a file stay complete where its problems are no longer listed."""

    counts: dict[str, Counter[str]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    environments: list[Imported] = field(default_factory=list)

    def count(self, file: str, fate: str, number: int = 1) -> None:
        """Note where lines went: `fate` is a field of `FileCount`."""
        self.counts.setdefault(file, Counter())[fate] += number

    def problem(self, file: str, line: int, kind: str, message: str) -> None:
        """Note a line that could not be used."""
        self.count(file, "problems")
        if self.counts[file]["problems"] > MAX_PROBLEMS_PER_FILE:
            self.count(file, "problems_not_listed")
            return
        self.problems.append(Problem(file=file, line=line, kind=kind, message=clip(message)))

    def report(self, source: str, source_revision: str | None, license_id: str) -> ImportReport:
        """The report so far, everything in a fixed order."""
        return ImportReport(
            source=source,
            source_revision=source_revision,
            license=license_id,
            environments=tuple(sorted(self.environments, key=lambda e: e.id)),
            left_out=tuple(sorted(self.left_out, key=lambda e: (e.id, e.title))),
            problems=tuple(sorted(self.problems, key=lambda p: (p.file, p.line))),
            files=tuple(_file_count(file, counts) for file, counts in self.counts.items()),
        )


def clip(message: str) -> str:
    """A message short enough for a list and free of anything that is no UTF-8."""
    message = message.encode("utf-8", "replace").decode("utf-8")
    return message if len(message) <= _MAX_MESSAGE else message[: _MAX_MESSAGE - 1] + "…"


def _file_count(file: str, counts: Counter[str]) -> FileCount:
    known = {f.name for f in dataclasses.fields(FileCount)}
    return FileCount(file=file, **{"lines": 0, **{fate: n for fate, n in counts.items() if fate in known}})

"""The environments of a dataset as entries to search and to choose from.

An entry is read from the light columns of a row: names, descriptions, instructions and audit results, never code, seed
or database. A thousand of them are a few megabytes, and every search looks through all of them.
"""

import asyncio
import json
import weakref
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from awm_hub.environment import Quality
from awm_hub.hub import Environments, IndexEntry

_SHOWN_CHARACTERS = 280
_FIELD_CHARACTERS = 20_000
"""Of one text of a row, that are searched."""
_MAX_WORDS = 12
_KEPT = 8
_READ = (
    "description",
    "quality",
    "tables.name",
    "tools.name",
    "tools.description",
    "tasks.instruction",
    "tasks.solution",
)

FLAGS: Mapping[str, str] = {
    "audited": "audited",
    "sound": "no audit error",
    "deterministic": "deterministic",
    "stateless": "no hidden state",
    "faultless": "no tool fault",
    "solved": "all solutions pass",
    "strict": "all mutants fail",
}
"""What an audit may have found, by name."""

SORTS: Mapping[str, str] = {
    "best": "best match",
    "title": "title",
    "tools": "most tools",
    "tables": "most tables",
    "hardest": "longest solutions",
}


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What the gallery shows and searches of an environment."""

    id: str
    title: str
    summary: str
    """The beginning of the description."""
    categories: tuple[str, ...]
    split: str
    usage: str
    interface: str
    tables_count: int
    tools_count: int
    tasks_count: int
    difficulties: tuple[int, ...] = ()
    """Calls of the reference solutions that are known."""
    flags: frozenset[str] = frozenset()
    """Of `FLAGS`."""
    named: str = field(repr=False, default="")
    """Id, title and categories in lower case."""
    parts: str = field(repr=False, default="")
    """Names of tables and tools."""
    told: str = field(repr=False, default="")
    """Description, descriptions of tools and instructions."""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What a visitor looks for; what is left as it is, is not filtered by."""

    text: str = ""
    """Words that have to be in it, in any order."""
    categories: tuple[str, ...] = ()
    """One of these."""
    split: str | None = None
    usage: str | None = None
    flags: tuple[str, ...] = ()
    """All of these."""
    tools: tuple[int | None, int | None] = (None, None)
    """At least and at most."""
    tables: tuple[int | None, int | None] = (None, None)
    tasks: tuple[int | None, int | None] = (None, None)
    difficulty: tuple[int | None, int | None] = (None, None)
    """A task whose reference solution has so many calls."""
    sort: str = "best"


@dataclass(frozen=True, kw_only=True)
class Statistics:
    """Figures of the entries that were found."""

    environments: int
    tables: int
    tools: int
    tasks: int
    audited: int
    categories: tuple[tuple[str, int], ...]
    """From the most frequent."""
    difficulties: tuple[tuple[int, int], ...]
    """(calls, tasks), by calls."""
    tools_each: tuple[int, ...]
    tables_each: tuple[int, ...]
    flags: tuple[tuple[str, int], ...]


class Catalogue:
    """The entries of a dataset.

    Args:
        entries: In the order of the dataset.
        source: Where the dataset was found.
    """

    def __init__(self, entries: Iterable[Entry], source: str = "") -> None:
        self.entries: tuple[Entry, ...] = tuple(entries)
        self.source = source

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def categories(self) -> tuple[str, ...]:
        """All categories, in alphabetical order."""
        return tuple(sorted({c for e in self.entries for c in e.categories}))

    def find(self, wanted: Wanted) -> list[Entry]:
        """The entries that fit, the best ones first."""
        words = wanted.text.casefold().split()[:_MAX_WORDS]
        found = [(score, e) for e in self.entries if (score := _score(e, words)) >= 0 and _fits(e, wanted)]
        if wanted.sort == "best":
            if words:
                found.sort(key=lambda pair: -pair[0])
            return [e for _, e in found]
        return sorted((e for _, e in found), key=_ORDERS.get(wanted.sort, _by_title))


def _score(entry: Entry, words: Sequence[str]) -> int:
    """How well an entry fits; below zero where a word is nowhere in it."""
    total = 0
    for word in words:
        if word in entry.named:
            total += 9
        elif word in entry.parts:
            total += 3
        elif word in entry.told:
            total += 1
        else:
            return -1
    return total


def _fits(entry: Entry, wanted: Wanted) -> bool:
    return (
        (not wanted.categories or not set(wanted.categories).isdisjoint(entry.categories))
        and wanted.split in (None, entry.split)
        and wanted.usage in (None, entry.usage)
        and entry.flags.issuperset(wanted.flags)
        and _is_between(entry.tools_count, wanted.tools)
        and _is_between(entry.tables_count, wanted.tables)
        and _is_between(entry.tasks_count, wanted.tasks)
        and (wanted.difficulty == (None, None) or any(_is_between(d, wanted.difficulty) for d in entry.difficulties))
    )


def _is_between(number: int, ends: tuple[int | None, int | None]) -> bool:
    low, high = ends
    return (low is None or number >= low) and (high is None or number <= high)


def _by_title(entry: Entry) -> tuple[Any, ...]:
    return (entry.title.casefold(), entry.id)


_ORDERS: dict[str, Any] = {
    "title": _by_title,
    "tools": lambda e: (-e.tools_count, *_by_title(e)),
    "tables": lambda e: (-e.tables_count, *_by_title(e)),
    "hardest": lambda e: (-max(e.difficulties, default=0), *_by_title(e)),
}


def statistics(entries: Sequence[Entry]) -> Statistics:
    """Figures of these entries."""
    categories = Counter(c for e in entries for c in e.categories)
    flags = Counter(f for e in entries for f in e.flags)
    return Statistics(
        environments=len(entries),
        tables=sum(e.tables_count for e in entries),
        tools=sum(e.tools_count for e in entries),
        tasks=sum(e.tasks_count for e in entries),
        audited=flags["audited"],
        categories=tuple(sorted(categories.items(), key=lambda pair: (-pair[1], pair[0]))),
        difficulties=tuple(sorted(Counter(d for e in entries for d in e.difficulties).items())),
        tools_each=tuple(e.tools_count for e in entries),
        tables_each=tuple(e.tables_count for e in entries),
        flags=tuple((name, flags[name]) for name in FLAGS),
    )


def read_catalogue(environments: Environments) -> Catalogue:
    """The catalogue of an opened dataset; blocks while its light columns are read.

    Raises:
        RecordError: a file breaks the format.
        RemoteError: a file cannot be fetched.
    """
    known = environments.entries
    read = {row["id"]: _entry(known[row["id"]], row) for row in environments.columns(_READ)}
    return Catalogue((read.get(name) or _entry(known[name], {}) for name in environments), environments.source)


def _entry(known: IndexEntry, row: Mapping[str, Any]) -> Entry:
    tasks = row.get("tasks") or ()
    tools = row.get("tools") or ()
    description = row.get("description") or ""
    parts = [*(t["name"] for t in row.get("tables") or ()), *(t["name"] for t in tools)]
    told = [description, *(t["description"] for t in tools), *(t["instruction"] for t in tasks)]
    return Entry(
        id=known.id,
        title=known.title,
        summary=description[:_SHOWN_CHARACTERS],
        categories=tuple(c for c in known.categories if isinstance(c, str)),
        split=known.split,
        usage=known.usage,
        interface=known.interface,
        tables_count=known.tables_count,
        tools_count=known.tools_count,
        tasks_count=known.tasks_count,
        difficulties=tuple(n for t in tasks if (n := calls_in(t["solution"])) is not None),
        flags=_flags(row.get("quality"), known.content_hash),
        named=_searched([known.id, known.id.replace("_", " "), known.title, *known.categories]),
        parts=_searched(parts),
        told=_searched(told),
    )


def _searched(texts: Iterable[str | None]) -> str:
    return "\n".join((t or "")[:_FIELD_CHARACTERS] for t in texts).casefold()


def calls_in(solution: str | None) -> int | None:
    """Calls of a reference solution in its JSON form; None where there is none that can be read."""
    if solution is None:
        return None
    try:
        found = json.loads(solution)
    except (ValueError, RecursionError):
        return None
    return len(found) if isinstance(found, list) else None


def _flags(found: Mapping[str, Any] | None, content_hash: str) -> frozenset[str]:
    quality = None if found is None else Quality.from_dict(found)
    if quality is None or quality.audited_hash != content_hash:
        return frozenset()
    tasks = quality.tasks
    holds = {
        "audited": True,
        "sound": not quality.errors and not quality.dropped_tools and not quality.false_effects,
        "deterministic": quality.deterministic is True,
        "stateless": quality.hidden_state is False,
        "faultless": quality.tool_faults == 0,
        "solved": bool(tasks) and all(t.solution_passes is True for t in tasks),
        "strict": bool(tasks) and all(t.mutants_tried and t.mutants_rejected == t.mutants_tried for t in tasks),
    }
    return frozenset(name for name, is_so in holds.items() if is_so)


class Catalogues:
    """Catalogues of the datasets that are open, each read once; whoever has the dataset gets its catalogue."""

    def __init__(self) -> None:
        self._known: list[tuple[weakref.ref[Environments], asyncio.Task[Catalogue]]] = []

    async def of(self, environments: Environments) -> Catalogue:
        """The catalogue of a dataset, read in a thread.

        Raises:
            RecordError: a file breaks the format.
            RemoteError: a file cannot be fetched.
        """
        self._known = [(ref, task) for ref, task in self._known if ref() is not None and not _has_failed(task)]
        task = next((task for ref, task in self._known if ref() is environments), None)
        if task is None:
            task = asyncio.create_task(asyncio.to_thread(read_catalogue, environments))
            self._known = [*self._known[-_KEPT + 1 :], (weakref.ref(environments), task)]
        return await asyncio.shield(task)


def _has_failed(task: asyncio.Task[Catalogue]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)

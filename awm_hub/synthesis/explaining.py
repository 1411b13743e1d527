"""The story of one environment: what was asked, who answered, what each gate found, and what became of it.

A store is written as things happen, so the order of its lines is the order of the story. Where a record was written
again, its first line says when it was, and its last line what it says. Of the solver, each attempt at a task is told
where it ended; adjacent attempts, which are made at the same time, are told task by task.
"""

import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from awm_hub.canonical import STRICT_DECODER
from awm_hub.errors import UnknownNameError
from awm_hub.safetext import clean_line
from awm_hub.synthesis.ledger import Cost, cost_of
from awm_hub.synthesis.problems import Problem, errors
from awm_hub.synthesis.solver_attempts import AGREED, OPEN, SOLUTION, TaskAttempt, task_attempts
from awm_hub.synthesis.store import Record, Records, read_store

UNREADABLE = "unreadable_answer"
"""The rule of answers that cannot be read, of which the story tells at the answer."""
_MESSAGE, _SHOWN, _SHOWN_RULES = 200, 6, 4


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A stage's product, or a correction of it, was asked for."""

    stage: str
    number: int
    found_by: str
    """The gate whose problems led to it; empty at the first attempt and where that is not known yet."""
    because: tuple[Problem, ...]
    model: str
    """Empty while there is no answer."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    is_estimated: bool = False
    is_reworded: bool = False
    """Whether the answer was given to an earlier wording of the request."""
    unreadable: str = ""
    """Why the answer could not be read."""

    def lines(self) -> Iterator[str]:
        """For reading."""
        told = f"{self.stage} {self.number}: " + (self._answered() if self.model else "waits for an answer")
        yield told + (", asked for since " + self._because() if self.because or self.found_by else "")
        if self.unreadable:
            yield f"    cannot be read: {_cut(self.unreadable)}"

    def _answered(self) -> str:
        about = "about " if self.is_estimated else ""
        wording = ", to an earlier wording" if self.is_reworded else ""
        return f"{self.model}, {about}{self.prompt_tokens:,} + {self.completion_tokens:,} tokens{wording}"

    def _because(self) -> str:
        places = [f"{p.rule} {p.subject}".strip() for p in self.because]
        rest = f" and {len(places) - _SHOWN_RULES} more" if len(places) > _SHOWN_RULES else ""
        found = "; ".join(places[:_SHOWN_RULES]) + rest
        return f"gate {self.found_by} found {found or 'problems'}"


@dataclass(frozen=True, kw_only=True)
class Checked:
    """A gate looked at the products."""

    gate: str
    problems: tuple[Problem, ...]

    def lines(self) -> Iterator[str]:
        """For reading."""
        wrong = len(errors(self.problems))
        counts = ", ".join(_counted(self.problems, wrong))
        yield f"  gate {self.gate}: {counts or 'passed'}"
        yield from _listed(self.problems, 4)


@dataclass(frozen=True, kw_only=True)
class Tried:
    """The solver attempted a task."""

    attempt: TaskAttempt

    def lines(self) -> Iterator[str]:
        """For reading."""
        told = self.attempt
        size = f"{_of(told.turns, 'turn')}, {_of(told.calls, 'call')}"
        if told.state == OPEN:
            yield f"  task {told.slug} {told.number}: {size}, waits for an answer"
        elif told.state == AGREED:
            yield f"  task {told.slug} {told.number}: {size}, agrees with the verifier"
        else:
            at_fault = "the attempt" if told.at_fault == SOLUTION else told.at_fault
            yield f"  task {told.slug} {told.number}: {size}; the arbiter blames {at_fault}: {_cut(told.reason)}"


@dataclass(frozen=True, kw_only=True)
class Ended:
    """What became of the environment."""

    is_accepted: bool
    problems: tuple[Problem, ...]
    content_hash: str
    """Of its content; empty where it was rejected."""

    def lines(self) -> Iterator[str]:
        """For reading."""
        left = ", ".join(_counted(self.problems, len(errors(self.problems))))
        yield ("ACCEPTED" if self.is_accepted else "REJECTED") + (f", {left} left" if left else "")
        yield from _listed(self.problems, 2)


Event = Asked | Checked | Tried | Ended
_NAMES = {Asked: "asked", Checked: "checked", Tried: "tried", Ended: "ended"}


@dataclass(frozen=True, kw_only=True)
class Story:
    """How one environment came about."""

    environment: str
    events: tuple[Event, ...]

    @property
    def state(self) -> str:
        """`accepted`, `rejected`, or `unfinished`."""
        ended = next((event for event in reversed(self.events) if isinstance(event, Ended)), None)
        return "unfinished" if ended is None else "accepted" if ended.is_accepted else "rejected"

    def lines(self) -> list[str]:
        """For the terminal; safe to print."""
        told = (line for event in self._told() for line in event)
        ending = [] if self.state != "unfinished" else ["UNFINISHED: repeat the command to go on"]
        return [clean_line(line) for line in (f"{self.environment}: {self.state}", *told, *ending)]

    def _told(self) -> Iterator[Iterable[str]]:
        """The lines of each event; what is wrong is told in full once, by the gate or, without one, by the request."""
        known = set[Problem]()
        for event in self.events:
            yield event.lines()
            if isinstance(event, Asked):
                yield _listed([p for p in event.because if p not in known and p.rule != UNREADABLE], 4)
                known |= set(event.because)
            elif isinstance(event, Checked):
                known |= set(event.problems)

    def to_dict(self) -> dict[str, Any]:
        """JSON form; of each event `event`, its kind, and what it holds."""
        events = [{"event": _NAMES[type(event)], **asdict(event)} for event in self.events]
        return {"environment": self.environment, "state": self.state, "events": events}


def explain(folder: str | os.PathLike[str], environment: str) -> Story:
    """The story of an environment, from the output folder of its run.

    Raises:
        DataError: the folder holds no store, or it is damaged.
        UnknownNameError: nothing in it is about this environment.
    """
    with read_store(folder) as records:
        found = list(_places(records))
        known = {owner for owner, _, _ in found if owner}
        if environment not in known:
            raise UnknownNameError("environment", environment, known, next_step=f"see the report in {folder}")
        keys = [(type, key) for owner, type, key in found if owner == environment]
        return Story(environment=environment, events=tuple(_by_task(_events(records, environment, keys))))


def _places(records: Records) -> Iterator[tuple[str, str, str]]:
    """Environment, type and key of the store's lines, in order, each key of a type once."""
    owners: dict[str, str] = {}
    seen = set()
    with records.path.open("rb") as file:
        next(file, None)
        for line in file:
            try:
                found = STRICT_DECODER.decode(line.decode())
            except ValueError:
                return  # a last line that was cut off
            type, key = found["type"], found["key"]
            owner = owners.get(key, "") if type == "answer" else str(found.get("environment") or "")
            if type == "request":
                owners[key] = owner
            if (type, key) not in seen:
                seen.add((type, key))
                yield owner, type, key


def _events(records: Records, environment: str, keys: Sequence[tuple[str, str]]) -> Iterator[Event]:
    attempts = {record["key"]: record for record in records.records("attempt", environment)}
    tried = task_attempts(records, environment)
    ending = {one.last_key: one for one in tried if one.last_key}
    for type, key in keys:
        if type == "attempt":
            yield _asked(records, attempts[key])
        elif type == "verdict" and (found := records.verdict(key)):
            yield Checked(gate=str(found["gate"]), problems=_problems(found["problems"]))
        elif type == "answer" and key in ending:
            yield Tried(attempt=ending[key])
        elif type == "request" and not records.is_answered(key) and f"/{SOLUTION}/" not in key:
            yield _open(key)
    yield from (Tried(attempt=one) for one in tried if not one.last_key)
    yield from map(_ended, records.records("outcome", environment))


def _by_task(events: Iterable[Event]) -> Iterator[Event]:
    """The same events, attempts that stand together sorted by task in the order of their first ones."""
    first: dict[str, int] = {}
    for are_tried, found in itertools.groupby(events, key=lambda event: isinstance(event, Tried)):
        if not are_tried:
            yield from found
            continue
        together = [event for event in found if isinstance(event, Tried)]
        for event in together:
            first.setdefault(event.attempt.slug, len(first))
        yield from sorted(together, key=lambda event: (first[event.attempt.slug], event.attempt.number))


def _asked(records: Records, attempt: Record) -> Asked:
    """An attempt that is answered."""
    answer, request = records.answer(attempt["key"]), records.request(attempt["key"])
    cost, is_reworded = Cost(), False
    if answer is not None and request is not None:
        cost = cost_of(answer, records.body(attempt["key"]))
        is_reworded = answer["sha256"] not in (None, request["sha256"])
    return Asked(
        stage=attempt["stage"],
        number=attempt["number"],
        found_by=attempt["found_by"] if attempt["number"] > 1 or attempt["because"] else "",
        because=_problems(attempt["because"]),
        model="" if answer is None else answer["model"] or "unnamed model",
        prompt_tokens=cost.prompt_tokens,
        completion_tokens=cost.completion_tokens,
        is_estimated=cost.is_estimated,
        is_reworded=is_reworded,
        unreadable=attempt.get("unreadable") or "",
    )


def _open(key: str) -> Asked:
    """A request that waits for its answer."""
    _, stage, number = key.split("/")
    return Asked(stage=stage, number=int(number), found_by="", because=(), model="")


def _ended(record: Record) -> Ended:
    problems, content_hash = _problems(record["problems"]), record.get("content_hash")
    return Ended(is_accepted=bool(record["accepted"]), problems=problems, content_hash=str(content_hash or ""))


def _problems(found: Iterable[Any]) -> tuple[Problem, ...]:
    return tuple(map(Problem.from_dict, found))


def _listed(problems: Sequence[Problem], indent: int) -> Iterator[str]:
    for problem in problems[:_SHOWN]:
        mark = "" if problem.severity == "error" else "warning: "
        yield f"{' ' * indent}- {mark}{_cut(str(problem))}"
    if len(problems) > _SHOWN:
        yield f"{' ' * indent}- and {len(problems) - _SHOWN} more"


def _counted(problems: Sequence[Problem], wrong: int) -> Iterator[str]:
    if wrong:
        yield _of(wrong, "error")
    if len(problems) > wrong:
        yield _of(len(problems) - wrong, "warning")


def _of(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _cut(text: str) -> str:
    return clean_line(" ".join(text.split()), _MESSAGE)

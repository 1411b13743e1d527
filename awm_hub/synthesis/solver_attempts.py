"""What a store tells of the solver: each of its attempts at a task, by the keys of requests and answers.

The turns of an attempt are the requests `<environment>/solution/<slug>/<attempt>/<turn>`. An attempt that nobody
agreed with is followed by `<environment>/solution/<slug>/<attempt>/arbiter`; one that ended without it was agreed on
by the verifier.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from awm_hub.inference import Price
from awm_hub.synthesis import products
from awm_hub.synthesis.arbiter import AT_FAULT, UNREADABLE
from awm_hub.synthesis.ledger import Cost, cost_of
from awm_hub.synthesis.problems import AnswerError
from awm_hub.synthesis.store import Records

SOLUTION, ARBITER = "solution", "arbiter"
AGREED, DISAGREED, OPEN = "agreed", "disagreed", "open"


@dataclass(frozen=True, kw_only=True)
class TaskAttempt:
    """One attempt at a task."""

    environment: str
    slug: str
    number: int
    state: str
    """`agreed`; `disagreed`, with what the arbiter said; `open` while answers are missing."""
    turns: int
    """Answers of the solver."""
    calls: int
    """That these asked for."""
    prompt_tokens: int
    completion_tokens: int
    """With the arbiter's."""
    at_fault: str = ""
    """The stage that the arbiter blames; `solution` is the attempt itself."""
    reason: str = ""
    """In the arbiter's words."""
    last_key: str = ""
    """Of its last answer; empty where it has none."""

    @property
    def has_arbiter(self) -> bool:
        """Whether an arbiter has spoken."""
        return self.state == DISAGREED

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return asdict(self)


def task_attempts(
    records: Records, environment: str | None = None, price: Price | None = None
) -> tuple[TaskAttempt, ...]:
    """The attempts of a store, or of one environment: tasks in the order of asking, their attempts by number."""
    turns: dict[tuple[str, str], dict[int, list[str]]] = {}
    for key in records.keys("request"):
        parts = key.split("/")
        if len(parts) == 5 and parts[1] == SOLUTION and parts[3].isdecimal() and environment in (None, parts[0]):
            turns.setdefault((parts[0], parts[2]), {}).setdefault(int(parts[3]), []).append(key)
    return tuple(
        _attempt(records, place, number, keys, price)
        for place, by_number in turns.items()
        for number, keys in sorted(by_number.items())
    )


def _attempt(
    records: Records, place: tuple[str, str], number: int, keys: Iterable[str], price: Price | None
) -> TaskAttempt:
    cost, turns, calls, last_key = Cost(), 0, 0, ""
    is_open, is_calling, decision = False, True, None
    for key in sorted(keys, key=_turn):
        answer = records.answer(key)
        if answer is None:
            is_open = True
            continue
        last_key = key
        cost += cost_of(answer, records.body(key), price)
        message = answer["message"]
        if key.endswith(f"/{ARBITER}"):
            decision = _decision(message.get("content"))
        else:
            asked = message.get("tool_calls") or ()
            turns, calls, is_calling = turns + 1, calls + len(asked), bool(asked)
    at_fault, reason = decision or ("", "")
    is_open = is_open or (decision is None and is_calling)
    return TaskAttempt(
        environment=place[0],
        slug=place[1],
        number=number,
        state=OPEN if is_open else AGREED if decision is None else DISAGREED,
        turns=turns,
        calls=calls,
        prompt_tokens=cost.prompt_tokens,
        completion_tokens=cost.completion_tokens,
        at_fault=at_fault,
        reason=reason,
        last_key=last_key,
    )


def _turn(key: str) -> tuple[bool, int]:
    """Turns by number, the arbiter after them."""
    last = key.rpartition("/")[2]
    return (False, int(last)) if last.isdecimal() else (True, 0)


def _decision(content: Any) -> tuple[str, str]:
    """Who is at fault and why, as `arbiter.decision_of` reads it."""
    try:
        found = products.read_object(content if isinstance(content, str) else "")
    except AnswerError:
        found = {}
    at_fault, reason = found.get("at_fault"), found.get("reason")
    if at_fault not in AT_FAULT:
        return SOLUTION, UNREADABLE
    return str(at_fault), str(reason).strip() if reason else UNREADABLE

"""The ledger of a run: what its answers cost, and who gave them, by stage, environment and attempt.

It is computed from the store, so a run that was gone on with has one ledger. An endpoint that counts no tokens leaves
them to an estimate: a token for every four characters, rounded up, of the request's messages and tools and of the
answer. Such answers are counted apart.
"""

import datetime as dt
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from awm_hub.canonical import to_json
from awm_hub.inference import Price
from awm_hub.synthesis.store import Record, Records

CHARS_PER_TOKEN = 4


@dataclass(frozen=True, kw_only=True)
class Cost:
    """A sum over requests."""

    requests: int = 0
    """Recorded; without `answers`, those that are open."""
    answers: int = 0
    estimated_answers: int = 0
    """Answers whose tokens are an estimate, at least in part."""
    unpriced_answers: int = 0
    """Answers that `cost_usd` leaves out, since no price is known."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float = 0.0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(**{name: value + getattr(other, name) for name, value in vars(self).items()})

    @property
    def tokens(self) -> int:
        """Of prompts and completions."""
        return self.prompt_tokens + self.completion_tokens

    @property
    def is_estimated(self) -> bool:
        """Whether some of its tokens are an estimate."""
        return self.estimated_answers > 0

    @property
    def known_usd(self) -> float | None:
        """The cost; None where no answer has a price."""
        return self.cost_usd if self.answers > self.unpriced_answers else None

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {**asdict(self), "cost_usd": self.known_usd, "estimated": self.is_estimated}


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """What a run cost."""

    total: Cost = field(default_factory=Cost)
    by_stage: Mapping[str, Cost] = field(default_factory=dict)
    by_environment: Mapping[str, Cost] = field(default_factory=dict)
    by_attempt: Mapping[tuple[str, str, int], Cost] = field(default_factory=dict)
    """By environment, stage and attempt; an attempt of the solver is a sum over its turns and over the tasks."""
    models: Mapping[str, int] = field(default_factory=dict)
    """Model → answers that it gave."""
    other_wordings: int = 0
    """Answers to another wording of what was asked last at their position."""
    last_at: dt.datetime | None = None
    """When the last answer came."""

    @property
    def cost_usd(self) -> float | None:
        """What is known of the whole cost."""
        return self.total.known_usd

    def tokens_by_stage(self) -> dict[str, dict[str, int]]:
        """Stage → `prompt` and `completion` tokens."""
        return {
            name: {"prompt": cost.prompt_tokens, "completion": cost.completion_tokens}
            for name, cost in self.by_stage.items()
        }

    @classmethod
    def of(cls, records: Records, price: Price | None = None, *, environment: str | None = None) -> Self:
        """The ledger of a store.

        Args:
            records: The store.
            price: Of tokens whose answer brought no cost, as those of batches.
            environment: Of this one alone.
        """
        sums: dict[Any, Cost] = {}
        models: Counter[str] = Counter()
        others, last = 0, ""
        for request in records.records("request", environment):
            answer = records.answer(request["key"])
            cost = Cost(requests=1) if answer is None else cost_of(answer, request["body"], price)
            for place in _places(request):
                sums[place] = sums.get(place, Cost()) + cost
            if answer is not None:
                models[answer["model"]] += 1
                others += answer["sha256"] not in (None, request["sha256"])
                last = max(last, answer["at"])
        return cls(
            total=sums.get((), Cost()),
            by_stage={place[1]: cost for place, cost in sums.items() if place[:1] == ("stage",)},
            by_environment={place[1]: cost for place, cost in sums.items() if place[:1] == ("environment",)},
            by_attempt={place[1:]: cost for place, cost in sums.items() if place[:1] == ("attempt",)},
            models=dict(sorted(models.items())),
            other_wordings=others,
            last_at=dt.datetime.fromisoformat(last) if last else None,
        )

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "total": self.total.to_dict(),
            "by_stage": {name: cost.to_dict() for name, cost in self.by_stage.items()},
            "by_environment": {name: cost.to_dict() for name, cost in self.by_environment.items()},
            "by_attempt": [
                {"environment": environment, "stage": stage, "attempt": attempt, **cost.to_dict()}
                for (environment, stage, attempt), cost in self.by_attempt.items()
            ],
            "models": dict(self.models),
            "other_wordings": self.other_wordings,
            "last_at": self.last_at.isoformat() if self.last_at else None,
        }


def cost_of(answer: Record, body: Mapping[str, Any], price: Price | None = None) -> Cost:
    """What one answer to a request with this body cost."""
    usage = answer["usage"] or {}
    prompt, completion = usage.get("prompt_tokens"), usage.get("completion_tokens")
    is_estimated = prompt is None or completion is None
    prompt = _estimate(_request_chars(body)) if prompt is None else prompt
    completion = _estimate(_message_chars(answer["message"])) if completion is None else completion
    paid = usage.get("cost_usd")
    if paid is None and price is not None:
        paid = price.of(prompt, completion)
    return Cost(
        requests=1,
        answers=1,
        estimated_answers=int(is_estimated),
        unpriced_answers=int(paid is None),
        prompt_tokens=prompt,
        completion_tokens=completion,
        cost_usd=paid or 0.0,
    )


def _places(request: Record) -> tuple[tuple[Any, ...], ...]:
    environment, stage = request["environment"], request["stage"]
    found: tuple[tuple[Any, ...], ...] = ((), ("stage", stage), ("environment", environment))
    attempt = _attempt_of(request["key"], f"{environment}/{stage}/")
    return found if attempt is None else (*found, ("attempt", environment, stage, attempt))


def _attempt_of(key: str, prefix: str) -> int | None:
    """The attempt in a position: its last part, or the part before the turn in `<slug>/<attempt>/<turn>`."""
    parts = key.removeprefix(prefix).split("/")
    number = parts[-2] if len(parts) >= 3 else parts[-1]
    return int(number) if key.startswith(prefix) and number.isdecimal() else None


def _estimate(chars: int) -> int:
    return -(-chars // CHARS_PER_TOKEN)


def _request_chars(body: Mapping[str, Any]) -> int:
    tools = body.get("tools")
    return sum(map(_message_chars, body.get("messages", ()))) + (len(to_json(tools)) if tools else 0)


def _message_chars(message: Mapping[str, Any]) -> int:
    """Characters of its text, its thoughts and its calls."""
    texts = [message.get(name) for name in ("content", "reasoning_content")]
    calls = [call["function"] for call in message.get("tool_calls") or ()]
    said = [*texts, *(call[name] for call in calls for name in ("name", "arguments"))]
    return sum(len(text if isinstance(text, str) else to_json(text)) for text in said if text)

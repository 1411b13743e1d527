"""What requests to a model cost: tokens, money, time.

A `Usage` belongs to one reply, one action, or a sum of them. What an endpoint does not tell is None; a sum counts what
is known, so that one silent reply does not hide the others.
"""

import math
from dataclasses import asdict, dataclass
from typing import Any, Self, TypeVar

from awm_hub.errors import UsageError

N = TypeVar("N", int, float)


@dataclass(frozen=True, kw_only=True)
class Usage:
    """What a reply or an action cost; None is not known."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cost_usd: float | None = None
    seconds: float = 0.0
    """In requests, not counting the pauses between them."""
    requests: int = 0
    """Requests to the endpoint, retries included."""

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            prompt_tokens=_sum(self.prompt_tokens, other.prompt_tokens),
            completion_tokens=_sum(self.completion_tokens, other.completion_tokens),
            cost_usd=_sum(self.cost_usd, other.cost_usd),
            seconds=self.seconds + other.seconds,
            requests=self.requests + other.requests,
        )

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return asdict(self)

    @classmethod
    def from_dict(cls, found: dict[str, Any]) -> Self:
        """From the JSON form."""
        return cls(**found)


def _sum(left: N | None, right: N | None) -> N | None:
    if left is None or right is None:
        return right if left is None else left
    return left + right


@dataclass(frozen=True, kw_only=True)
class Price:
    """What a model's tokens cost."""

    prompt_per_million_usd: float
    completion_per_million_usd: float

    def __post_init__(self) -> None:
        prices = (self.prompt_per_million_usd, self.completion_per_million_usd)
        if not all(math.isfinite(price) and price >= 0 for price in prices):
            raise UsageError("a price is a number that is not negative", next_step="give US dollars per million tokens")

    def of(self, prompt_tokens: int | None, completion_tokens: int | None) -> float | None:
        """US dollars for some tokens; None where their number is not known."""
        if prompt_tokens is None or completion_tokens is None:
            return None
        paid = prompt_tokens * self.prompt_per_million_usd + completion_tokens * self.completion_per_million_usd
        return paid / 1_000_000

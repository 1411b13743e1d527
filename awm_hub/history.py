"""What of an episode its policy still sees: the head, and the newest turns that fit.

A long episode outgrows a model's context, so older turns are left out (paper §5). The head always stays: the system
prompt, the first user message and the first turns, where the policy got its tools. One function decides, for chat
messages at run time and for token segments in training: a policy trained on one cut of the history and used on another
loses most of what it learned (paper §5: τ² 22.57 against 9.35).
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from awm_hub.errors import ContextFullError, UsageError


@dataclass(frozen=True, kw_only=True)
class Window:
    """How much of its history a policy sees; by default all. The paper trains on 3 turns and evaluates on 10 (§5).

    Raises:
        UsageError: a number is out of range.
    """

    turns: int | None = None
    """Newest turns, at most, beside the head."""
    tokens: int | None = None
    """Of everything that is seen, the head included."""
    head_turns: int = 1
    """First turns that are always seen: the paper's first exchange, which lists the tools."""

    def __post_init__(self) -> None:
        for name, least in (("turns", 1), ("tokens", 1), ("head_turns", 0)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise UsageError(f"a window of {name}={value}", next_step=f"{name} is at least {least}, or left out")

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return asdict(self)


def visible(sizes: Sequence[int], window: Window, *, head_size: int = 0) -> tuple[int, ...]:
    """Positions of the turns that a policy sees before its next one, in order.

    Args:
        sizes: Tokens of each turn so far: the message and its results.
        window: How much is seen.
        head_size: Tokens of what comes before the first turn.

    Raises:
        ContextFullError: the head and the newest turn are larger than the window's tokens.
    """
    count = len(sizes)
    head = min(window.head_turns, count)
    oldest = head if window.turns is None else max(head, count - window.turns)
    if window.tokens is None:
        return (*range(head), *range(oldest, count))
    left = window.tokens - head_size - sum(sizes[:head])
    first = count
    while first > oldest and sizes[first - 1] <= left:
        first -= 1
        left -= sizes[first]
    if left < 0 or (first == count and count > head):
        message = f"the start of the episode and its newest turn are more than {window.tokens} tokens"
        raise ContextFullError(message, next_step="a window of more tokens, or shorter results")
    return (*range(head), *range(first, count))

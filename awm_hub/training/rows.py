"""Training rows: the token sequences that a trajectory becomes.

A turn was shown a prompt and wrote an output. While nothing was cut from its history, a turn's prompt begins with all
tokens of the turns before it, and one row holds them all: only what the model wrote is trained, what came back from the
environment is context. Where the history was cut, the prompt begins differently, and the turn starts a row of its own.
So every token is trained exactly once, after exactly the tokens that it was sampled after, which is the paper's Eq. 3
(arXiv 2602.10090 §5) with as few rows as can be. Rows equal those of TRL's AsyncGRPO, `_chain_to_sequences`, with a
fork threshold of 0: since nothing is ever tokenised twice, there is no drift to be mended.

A trainer wants a number of rows that divides evenly. `padded` adds rows of which no token is trained.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from awm_hub.errors import UsageError

NOBODY = -1
"""Owner of a row that belongs to no trajectory."""


@dataclass(frozen=True, kw_only=True)
class TurnTokens:
    """What one turn was shown and wrote, as token ids."""

    prompt: Sequence[int]
    output: Sequence[int]
    logprobs: Sequence[float | None] | None = None
    """Of the output's tokens as they were sampled; None where the sampler tells none."""

    def __post_init__(self) -> None:
        if self.logprobs is not None and len(self.logprobs) != len(self.output):
            raise UsageError(f"{len(self.logprobs)} logprobs of {len(self.output)} tokens", next_step="one each")


@dataclass(frozen=True, kw_only=True)
class Row:
    """One training sequence: a prompt, and a completion of which some tokens are trained."""

    prompt: list[int]
    completion: list[int]
    mask: list[int]
    """1 for each token of the completion that the model wrote, 0 for what it was told."""
    logprobs: list[float | None] | None
    """Beside the completion, 0.0 for what the model was told."""


def rows_of(turns: Sequence[TurnTokens]) -> list[Row]:
    """The rows of one trajectory, in order; none for turns that wrote nothing.

    Args:
        turns: The turns in order. Either all have logprobs or none has.
    """
    rows: list[Row] = []
    for turn in turns:
        told = _what_follows(rows[-1], turn.prompt) if rows else None
        if told is None:
            rows.append(Row(prompt=list(turn.prompt), completion=[], mask=[], logprobs=_none_yet(turn)))
            told = []
        row = rows[-1]
        row.completion.extend([*told, *turn.output])
        row.mask.extend([0] * len(told) + [1] * len(turn.output))
        if row.logprobs is not None:
            row.logprobs.extend([0.0] * len(told) + list(turn.logprobs or ()))
    return [row for row in rows if any(row.mask)]


def padded(
    rows: Sequence[Row], owners: Sequence[int], *, multiple: int = 1, at_least: int = 0, token: int = 0
) -> tuple[list[Row], list[int]]:
    """Rows and their owners with rows added of which nothing is trained, owned by `NOBODY`.

    Args:
        rows: The rows.
        owners: Which trajectory each row belongs to.
        multiple: The number of rows becomes a multiple of this: a trainer splits a batch evenly.
        at_least: And at least this: gathering wants as many rows on each process.
        token: What the added rows consist of.
    """
    has_logprobs = any(row.logprobs is not None for row in rows)
    wanted = max(len(rows), at_least, 1)
    wanted += -wanted % multiple
    found, owned = list(rows), list(owners)
    while len(found) < wanted:
        found.append(Row(prompt=[token], completion=[token], mask=[0], logprobs=[0.0] if has_logprobs else None))
        owned.append(NOBODY)
    return found, owned


def _what_follows(row: Row, prompt: Sequence[int]) -> list[int] | None:
    """What a prompt has beyond the tokens of a row; None where it does not begin with them."""
    start = len(row.prompt)
    end = start + len(row.completion)
    if list(prompt[:start]) != row.prompt or list(prompt[start:end]) != row.completion:
        return None
    return list(prompt[end:])


def _none_yet(turn: TurnTokens) -> list[float | None] | None:
    return None if turn.logprobs is None else []

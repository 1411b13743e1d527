"""What a stage is: a prompt, a way to read its answer, and a gate.

The seven stages of the paper (§1) whose products a model writes are of this form; the loop
(`awm_hub.synthesis.loop`) asks, merges answers and runs gates alike for all of them. A gate gives problems and never
raises on what a model wrote.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from awm_hub.synthesis.drafts import Draft
from awm_hub.synthesis.problems import Problem
from awm_hub.synthesis.products import Answer, Parts


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One stage whose product a model writes."""

    name: str
    """Of `awm_hub.synthesis.problems.STAGES`."""
    prompt: Callable[[Draft], str]
    """The instruction for a draft, from the stage's prompt file."""
    shows: tuple[str, ...]
    """Stages whose products the request shows before the instruction."""
    read: Callable[[str], Answer]
    """Takes an answer apart; raises `AnswerError`."""
    render: Callable[[Parts], str]
    """The product as a request shows it."""
    check: Callable[[Draft], Awaitable[tuple[Problem, ...]]]
    """The gate: runs the product of this stage, given those before it."""

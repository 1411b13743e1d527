"""What a policy is: from what it sees of an episode, it chooses the next action.

A `View` holds what an agent may know and nothing else: no verifier, no solution, no database. A policy keeps nothing
between actions, because the view has everything that happened; so one policy serves any number of episodes at once, and
the same episode gives the same view again. An `Action` is one assistant message taken apart: calls, or an answer.
"""

from dataclasses import dataclass, field
from typing import Any, Protocol

from awm_hub.environment import ToolSpec
from awm_hub.inference import Usage
from awm_hub.trajectory import ToolResult

__all__ = ["Action", "Call", "Message", "Policy", "Turn", "Usage", "View", "Violation"]

Message = dict[str, Any]
"""A chat message as OpenAI-compatible endpoints take it."""


@dataclass(frozen=True, kw_only=True)
class Violation:
    """A broken rule of the format (paper §4), by its number and name."""

    rule: int
    name: str
    turn: int
    """Position of the assistant message, from 0; the number of turns where the whole rollout breaks the rule."""
    message: str

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {"rule": self.rule, "name": self.name, "turn": self.turn, "message": self.message}


@dataclass(frozen=True, kw_only=True)
class Call:
    """A call of a tool of the environment. The arguments are whatever the policy wrote."""

    tool: str
    arguments: Any = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Action:
    """One assistant message, taken apart. Without calls and without `lists_tools`, `answer` ends the episode."""

    calls: tuple[Call, ...] = ()
    answer: str | None = None
    lists_tools: bool = False
    """The message calls the meta-tool `list_tools`, which is answered from the view and reaches no environment."""
    thought: str | None = None
    violations: tuple[Violation, ...] = ()
    """What is wrong with the message itself."""
    message: Message | None = None
    """The assistant message as the endpoint gave it; None for policies that write none."""
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, kw_only=True)
class Turn:
    """An action and what came of it: one result for each of its calls, in their order."""

    action: Action
    results: tuple[ToolResult, ...] = ()


@dataclass(frozen=True, kw_only=True)
class View:
    """What an agent knows."""

    environment_id: str
    task_id: str | None
    briefing: str
    """The scenario, its rules, and what day it is there."""
    prompt: str
    """The task's prompt."""
    tools: tuple[ToolSpec, ...]
    seed: int = 0
    turns: tuple[Turn, ...] = ()


class Policy(Protocol):
    """Chooses actions."""

    @property
    def is_strict(self) -> bool:
        """Whether a broken rule of the format ends the rollout."""

    @property
    def uses_meta_tools(self) -> bool:
        """Whether it reaches the tools through `list_tools` and `call_tool`, so that rules 4 and 1 apply."""

    def describe(self) -> dict[str, Any]:
        """What is recorded of it: kind, model, sampling, history window and the like; never a key."""

    async def act(self, view: View) -> Action:
        """The next action.

        Raises:
            RemoteError: the endpoint failed for good.
            ContextFullError: what the policy should see no longer fits the model's context.
        """

    def transcript(self, view: View) -> tuple[Message, ...]:
        """The whole conversation in chat form, uncut; empty for policies that hold none."""

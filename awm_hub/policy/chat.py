"""A model as a policy: it is sent what it may see of the episode, and its reply is the next action.

All that shapes its behaviour is explicit and recorded by `describe`: endpoint and sampling, protocol, strictness, the
history window, how long results may be, and whether earlier thoughts stay in the history.
"""

import hashlib
from dataclasses import replace
from typing import Any

from awm_hub.errors import UsageError
from awm_hub.history import Window, visible
from awm_hub.inference import Sampling
from awm_hub.inference.asked import Asked
from awm_hub.policy import conversation, prompts, protocols
from awm_hub.policy.acting import Action, Message, View

PROTOCOLS = {"native": prompts.NATIVE, "text": prompts.TEXT}
"""The protocols with their system prompts."""

RESULT_CHARS = 8000
_MAX_SEED = 2**31


class ChatPolicy:
    """Asks a model for each action.

    Args:
        endpoint: The model.
        protocol: `native` gives the tools to the endpoint; `text` is the paper's protocol, two meta-tools in the text.
        window: What the model sees of a long episode.
        is_strict: Whether a broken rule ends the rollout; by default with `text` but not with `native`.
        result_chars: Longer results are shortened, and say so.
        tool_prefix: Put before the tools' names; upstream's checkpoints know them with `mcp_tool_`.
        keeps_thoughts: Whether the model sees the thoughts of its earlier turns.

    Raises:
        UsageError: there is no such protocol, or results may have no length.
    """

    def __init__(
        self,
        endpoint: Asked,
        *,
        protocol: str = "native",
        window: Window | None = None,
        is_strict: bool | None = None,
        result_chars: int = RESULT_CHARS,
        tool_prefix: str = "",
        keeps_thoughts: bool = False,
    ) -> None:
        _system_prompt(protocol)
        if result_chars < 1:
            raise UsageError(f"result_chars is {result_chars}", next_step="leave at least one character of a result")
        self.endpoint, self.protocol = endpoint, protocol
        self.window = window or Window()
        self.result_chars, self.tool_prefix, self.keeps_thoughts = result_chars, tool_prefix, keeps_thoughts
        self._is_strict = protocol == "text" if is_strict is None else is_strict

    @property
    def is_strict(self) -> bool:
        """Whether a broken rule of the format ends the rollout."""
        return self._is_strict

    @property
    def uses_meta_tools(self) -> bool:
        """Whether it reaches the tools through `list_tools` and `call_tool`."""
        return self.protocol == "text"

    def describe(self) -> dict[str, Any]:
        """What is recorded of it; never a key."""
        return {
            "kind": "chat",
            **self.endpoint.describe(),
            "protocol": self.protocol,
            "is_strict": self.is_strict,
            "window": self.window.to_dict(),
            "result_chars": self.result_chars,
            "tool_prefix": self.tool_prefix,
            "keeps_thoughts": self.keeps_thoughts,
            "system_prompt_sha256": hashlib.sha256(PROTOCOLS[self.protocol].encode()).hexdigest(),
        }

    async def act(self, view: View) -> Action:
        """Ask for the next action.

        Raises:
            RemoteError: the endpoint failed for good.
            ContextFullError: what the model should see no longer fits.
        """
        naming = self._naming(view)
        tools = None if self.uses_meta_tools else protocols.native_tools(naming)
        messages = self._seen(view, tools or [])
        reply = await self.endpoint.chat(messages, tools=tools, sampling=self._sampling(view))
        return protocols.action_of(
            reply, naming, is_text=self.uses_meta_tools, is_strict=self.is_strict, turn=len(view.turns)
        )

    def transcript(self, view: View) -> tuple[Message, ...]:
        """The whole conversation in chat form, whatever the window; results as long as the model saw them."""
        listing = protocols.listing(self._naming(view))
        found = self._opening(view)
        for turn in view.turns:
            said = conversation.told(turn, listing=listing, result_chars=self.result_chars)
            found += [conversation.written(turn), *said]
        return tuple(found)

    def _seen(self, view: View, tools: list[dict[str, Any]]) -> list[Message]:
        """What the model sees before its next turn."""
        listing = protocols.listing(self._naming(view))
        opening = self._opening(view)
        turns = [
            [
                conversation.repeated(turn, keeps_thoughts=self.keeps_thoughts),
                *conversation.told(turn, listing=listing, result_chars=self.result_chars),
            ]
            for turn in view.turns
        ]
        sizes = [conversation.tokens(messages) for messages in turns]
        shown = visible(sizes, self.window, head_size=conversation.tokens([*opening, *tools]))
        return opening + [message for position in shown for message in turns[position]]

    def _opening(self, view: View) -> list[Message]:
        return opening(self.protocol, view.briefing, view.prompt)

    def _naming(self, view: View) -> protocols.Naming:
        return protocols.Naming(tools=view.tools, prefix=self.tool_prefix)

    def _sampling(self, view: View) -> Sampling:
        """The endpoint's sampling; a seed becomes one for this turn of this episode, so that rollouts differ."""
        sampling = self.endpoint.sampling
        if sampling.seed is None:
            return sampling
        mixed = hashlib.sha256(f"{sampling.seed}:{view.seed}:{len(view.turns)}".encode()).digest()
        return replace(sampling, seed=int.from_bytes(mixed[:8]) % _MAX_SEED)


def opening(protocol: str, briefing: str, prompt: str) -> list[Message]:
    """The messages that a conversation begins with: what a policy is asked with, and what it has to be trained on.

    Args:
        protocol: `native` or `text`.
        briefing: The environment's.
        prompt: The task's.

    Raises:
        UsageError: there is no such protocol.
    """
    return [
        {"role": "system", "content": f"{_system_prompt(protocol)}\n\n# System\n\n{briefing}"},
        {"role": "user", "content": prompt},
    ]


def _system_prompt(protocol: str) -> str:
    if protocol not in PROTOCOLS:
        raise UsageError(f"there is no protocol {protocol!r}", next_step=f"one of {', '.join(PROTOCOLS)}")
    return PROTOCOLS[protocol]

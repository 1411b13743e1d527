"""An episode as token ids: what a policy is shown, without ever tokenising again what it wrote.

Text that a model wrote and that is tokenised again need not give the same tokens, and then a policy is trained on
something that it never did (TRL issue #4543 and its kin). So the episode is kept as segments: the head, rendered once
by the chat template; then for each turn the very tokens that were sampled, and the tokens of what came back. What came
back is rendered by the same template after a stand-in for the message, of which only what follows it is kept. The
end-of-turn token stands between the two, so that no merge crosses the border.
"""

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from awm_hub.errors import UsageError

_STAND_IN = "\u2402the message\u2403"
_KEPT_TEXTS = 256
"""Texts whose tokens are kept: the rollouts of a group begin alike, and the list of tools is the longest text."""
_QWEN3_TOKENS = ("<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>")


class ChatTokens:
    """Renders messages to token ids with a tokenizer's chat template.

    Args:
        tokenizer: A tokenizer of transformers.
        template: Another chat template than the tokenizer's.
        arguments: What the template is given besides, such as `{"enable_thinking": False}`.

    Raises:
        UsageError: the tokenizer has no chat template, or one whose messages do not end with its end-of-text token.
    """

    def __init__(
        self, tokenizer: Any, *, template: str | None = None, arguments: Mapping[str, Any] | None = None
    ) -> None:
        self.tokenizer = tokenizer
        self._template, self._arguments = template, dict(arguments or {})
        self._kept = functools.lru_cache(maxsize=_KEPT_TEXTS)(self._tokenised)
        if template is None and not tokenizer.chat_template:
            raise UsageError("the tokenizer has no chat template", next_step="set tokenizer.chat_template")
        self.told([{"role": "user", "content": "well?"}])

    def head(self, messages: Sequence[Mapping[str, Any]]) -> list[int]:
        """What a policy is shown first: the opening messages, and the beginning of its own."""
        return self._encoded(self._rendered(messages))

    def told(self, messages: Sequence[Mapping[str, Any]]) -> list[int]:
        """What stands between a message of the policy, its end-of-turn token included, and its next message.

        Args:
            messages: What came back.

        Raises:
            UsageError: the template ends a message with something other than the tokenizer's end-of-text token.
        """
        shown = self._rendered(
            [{"role": "user", "content": "?"}, {"role": "assistant", "content": _STAND_IN}, *messages]
        )
        end = str(self.tokenizer.eos_token)
        _, found, rest = shown.partition(_STAND_IN)
        if not found or not rest.startswith(end):
            message = f"the chat template does not end an assistant's message with {end!r}"
            raise UsageError(message, next_step="set the tokenizer's eos_token to the end of a turn, or its template")
        return self._encoded(rest.removeprefix(end))

    def text(self, output: Sequence[int]) -> str:
        """What the policy wrote, without the end-of-turn token and other special ones."""
        return str(self.tokenizer.decode(list(output), skip_special_tokens=True))

    def is_ended(self, output: Sequence[int]) -> bool:
        """Whether a message came to its end, and was not cut at a limit."""
        return bool(output) and output[-1] == self.tokenizer.eos_token_id

    def without_thoughts(self, output: Sequence[int]) -> list[int]:
        """A message's tokens as a later turn is shown them where thoughts are left out of the history.

        Only whole tokens are cut, up to the last `</think>` and the line breaks after it; a message whose tokenizer has
        no such token stays whole.
        """
        closing = self.tokenizer.convert_tokens_to_ids("</think>")
        found = list(output)
        if closing is None or closing == self.tokenizer.unk_token_id or closing not in found:
            return found
        rest = found[len(found) - found[::-1].index(closing) :]
        while rest and not str(self.tokenizer.decode(rest[:1])).strip("\r\n "):
            rest = rest[1:]
        return rest

    def _rendered(self, messages: Sequence[Mapping[str, Any]]) -> str:
        found = self.tokenizer.apply_chat_template(
            list(messages),
            tokenize=False,
            add_generation_prompt=True,
            chat_template=self._template,
            **self._arguments,
        )
        return str(found)

    def _encoded(self, text: str) -> list[int]:
        return list(self._kept(text))

    def _tokenised(self, text: str) -> tuple[int, ...]:
        return tuple(self.tokenizer(text, add_special_tokens=False)["input_ids"])


def trainable_template(tokenizer: Any) -> str:
    """A chat template that TRL can train with and parse tool calls of, to be set as `tokenizer.chat_template`.

    TRL knows templates by their exact text. Fine-tunes and the older tokenizers of Qwen3 carry another text of the same
    template, and TRL refuses them (TRL issues #4543 and #5382); they get the one that TRL brings.

    Raises:
        UsageError: TRL does not know the template, and the tokenizer is none of Qwen3's.
    """
    from pathlib import Path

    import trl
    from trl.chat_template_utils import get_training_chat_template

    try:
        get_training_chat_template(tokenizer)
    except ValueError:
        known = tokenizer.get_vocab()
        if not all(token in known for token in _QWEN3_TOKENS):
            step = "set tokenizer.chat_template to one of those in trl/chat_templates"
            raise UsageError("TRL does not know the tokenizer's chat template", next_step=step) from None
        return (Path(trl.__file__).parent / "chat_templates" / "qwen3.jinja").read_text(encoding="utf-8")
    return str(tokenizer.chat_template)

"""A tokenizer and a model of Qwen3's architecture, small enough to train on one core, and a small part of a library.

The tokenizer is a byte-level BPE learnt in a second from the texts of the environment itself, with Qwen3's special
tokens, splitting rule and chat template, so that prompts, `<think>` blocks and `<tool_call>`s are the real thing. A
small vocabulary is what makes a training step take seconds: the real one has 152 thousand tokens.
"""

import functools
import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import awm_hub
from awm_hub.environment import Environment
from awm_hub.policy import prompts, protocols

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
MARKS = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>")
"""Added tokens that are text to a decoder, as in Qwen3."""
_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
TOOLS = ("search_members", "get_member")
"""What is left of the library's 38 tools, whose list alone would be some five thousand tokens."""


@functools.cache
def library() -> Environment:
    """The bundled library with two of its tools; its tasks, database and verifiers are all there."""
    found = awm_hub.load()["public_library_1"]
    small = replace(found, tools=tuple(tool for tool in found.tools if tool.name in TOOLS))
    return small.with_hash(found.content_hash)


def texts_of(environment: Environment) -> list[str]:
    """What a policy reads in an environment: prompts, the tools and the tasks."""
    listing = protocols.listing(protocols.Naming(tools=environment.tools))
    return [prompts.TEXT, environment.briefing, listing, *(task.prompt for task in environment.tasks)]


@functools.cache
def _default_tokenizer() -> Any:
    return make_tokenizer(texts_of(library()))


def tiny_tokenizer() -> Any:
    """A tokenizer that learnt the library's texts, about 1,400 tokens; a fresh copy each time."""
    import copy

    return copy.deepcopy(_default_tokenizer())


def make_tokenizer(texts: Iterable[str], vocabulary: int = 1400) -> Any:
    """A byte-level BPE of some texts, at most that large, with Qwen3's special tokens and chat template."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    found = Tokenizer(models.BPE())
    found.normalizer = normalizers.NFC()
    found.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_SPLIT), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    found.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary - len(SPECIAL) - len(MARKS),
        special_tokens=[],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    found.train_from_iterator(list(texts), trainer)
    found.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in SPECIAL])
    found.add_tokens([AddedToken(text, special=False, normalized=False) for text in MARKS])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=found,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        padding_side="left",
        model_max_length=8192,
        clean_up_tokenization_spaces=False,
    )
    tokenizer.chat_template = qwen3_template()
    return tokenizer


def qwen3_template() -> str:
    """Qwen3's chat template, as TRL brings it."""
    import trl

    return (Path(trl.__file__).parent / "chat_templates" / "qwen3.jinja").read_text(encoding="utf-8")


def tiny_model(tokenizer: Any, *, hidden: int = 32, layers: int = 2, heads: int = 2, seed: int = 0) -> Any:
    """A Qwen3 from scratch, with the weights of a seed; about a hundred thousand numbers."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=hidden,
        intermediate_size=3 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=max(1, heads // 2),
        head_dim=hidden // heads,
        max_position_embeddings=8192,
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
    )
    model = Qwen3ForCausalLM(config)
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    return model


def thinking(thought: str, rest: str) -> str:
    """A message as Qwen3 writes it."""
    return f"<think>\n{thought}\n</think>\n\n{rest}"


def listing_tools() -> str:
    """A message that lists the tools."""
    return calling("list_tools", {})


def calling(name: str, arguments: dict[str, Any]) -> str:
    """A message that calls one of the two meta-tools."""
    call = json.dumps({"name": name, "arguments": arguments})
    return thinking("next", f"<tool_call>\n{call}\n</tool_call>")


def using(tool: str, **arguments: Any) -> str:
    """A message that calls a tool of the environment."""
    return calling("call_tool", {"tool_name": tool, "arguments": arguments})


def answering(answer: str) -> str:
    """A message that answers."""
    return thinking("done", answer)


SOLVED = (
    listing_tools(),
    using("search_members", query="Ingeborg Adeyemi-Holm"),
    using("get_member", member_id=1),
    answering("8.55"),
)
"""The messages that solve `owed_by_ingeborg`."""
FAILED = (listing_tools(), using("get_member", member_id=1), answering("0.01"))
BROKEN = (listing_tools(), answering("").removesuffix("\n\n") + "\n\n<tool_call>\n{\n</tool_call>")
"""The second message has no well-formed call."""

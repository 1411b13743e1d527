"""A checkpoint of Qwen3's architecture, ten million numbers small, that has learnt a few dialogues by heart.

The tokenizer and its chat template are Qwen3's own, so prompts, `<think>` blocks and `<tool_call>`s are the real thing;
only the knowledge is missing. Dialogues are recorded by playing them to a policy, then each reply is learnt after
exactly the prompt that `transformers serve` makes of the policy's request.

Most of such a model is its vocabulary. The embeddings stay random, and of the output only the rows of tokens that occur
in replies are learnt. All others stay zero, and the loss counts them as one class with the logit that they have then.
"""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer, Qwen3Config, Qwen3ForCausalLM
from transformers.cli.serving.model_manager import Modality
from transformers.cli.serving.utils import BaseHandler

HIDDEN = 64
MOST_STEPS = 400
Exchange = tuple[dict[str, Any], str]
"""A request to the endpoint, and the reply to learn."""


def thinking(thought: str, rest: str) -> str:
    """A reply as Qwen3 writes it."""
    return f"<think>\n{thought}\n</think>\n\n{rest}<|im_end|>"


def calling(thought: str, tool: str, arguments: dict[str, Any]) -> str:
    """A reply that calls a tool."""
    call = json.dumps({"name": tool, "arguments": arguments})
    return thinking(thought, f"<tool_call>\n{call}\n</tool_call>")


def learn(exchanges: Sequence[Exchange], tokenizer_folder: Path, out: Path) -> float:
    """Write a checkpoint that gives these replies to these requests; the last loss."""
    torch.manual_seed(0)
    torch.set_num_threads(1)  # steps are so short that two threads mostly wait for each other
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_folder)
    pairs = [(_prompt(tokenizer, request), _tokens(tokenizer, reply)) for request, reply in exchanges]
    model = Qwen3ForCausalLM(_config(tokenizer))
    loss = _fit(model, pairs, tokenizer.pad_token_id)
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)
    return loss


def _config(tokenizer: Any) -> Qwen3Config:
    return Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=HIDDEN,
        intermediate_size=2 * HIDDEN,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=32,
        max_position_embeddings=8192,
        tie_word_embeddings=False,
        eos_token_id=tokenizer.convert_tokens_to_ids("<|im_end|>"),
        pad_token_id=tokenizer.pad_token_id,
    )


def _prompt(tokenizer: Any, request: dict[str, Any]) -> list[int]:
    """The prompt that the server makes of a request."""
    messages = BaseHandler.get_processor_inputs_from_messages(request["messages"], Modality.LLM)
    found: list[int] = tokenizer.apply_chat_template(
        messages, add_generation_prompt=True, tools=request.get("tools"), tokenize=True, return_dict=True
    )["input_ids"]
    return found


def _tokens(tokenizer: Any, text: str) -> list[int]:
    found: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
    return found


def _fit(model: Qwen3ForCausalLM, pairs: Sequence[tuple[list[int], list[int]]], padding: int) -> float:
    """Learn the replies until each token is by far the likeliest."""
    length = max(len(prompt) + len(reply) for prompt, reply in pairs)
    ids = torch.tensor([(p + r + [padding] * length)[:length] for p, r in pairs])
    rows = torch.tensor([row for row, (_, reply) in enumerate(pairs) for _ in reply])
    columns = torch.tensor([len(p) - 1 + at for p, reply in pairs for at in range(len(reply))])
    used, target = torch.unique(torch.tensor([t for _, reply in pairs for t in reply]), return_inverse=True)
    model.model.embed_tokens.weight.requires_grad_(False).normal_()
    output = torch.nn.Parameter(torch.zeros(len(used), HIDDEN))
    others = torch.full((len(target), 1), math.log(model.config.vocab_size - len(used)))
    layers = [*model.model.layers.parameters(), *model.model.norm.parameters()]
    groups = [{"params": layers, "lr": 3e-3}, {"params": [output], "lr": 3e-2}]
    optimizer = torch.optim.AdamW(groups, weight_decay=0.0)
    loss = math.inf
    for _ in range(MOST_STEPS):
        hidden = model.model(ids, use_cache=False).last_hidden_state[rows, columns]
        logits = torch.cat([hidden @ output.T, others], dim=1)
        losses = torch.nn.functional.cross_entropy(logits, target, reduction="none")
        loss = losses.max().item()
        if loss < 0.1:
            break
        optimizer.zero_grad()
        losses.mean().backward()
        torch.nn.utils.clip_grad_norm_([*layers, output], 1.0)
        optimizer.step()
    with torch.no_grad():
        model.lm_head.weight.zero_()
        model.lm_head.weight[used] = output
    return loss

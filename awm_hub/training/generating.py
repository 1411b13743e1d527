"""Sampling a turn of many attempts at once, with whatever the trainer samples with.

vLLM (colocated, or a server) where the trainer uses it, else `generate` of the model that is trained. Either way the
prompts are token ids and the outputs are the sampled ones. Where processes sample together (a vLLM server or tensor
parallelism, parameters that are spread over the processes), each must ask equally often for equally many outputs, or
they wait for each other for ever (TRL issues #4751 and #5697): `in_step` says so, and the rollout then makes up the
numbers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Ask:
    """A turn to be sampled."""

    prompt: list[int]
    position: int
    """Which attempt of the batch."""
    turn: int
    """Which of the attempt's turns, from 0."""


@dataclass(frozen=True, kw_only=True)
class Written:
    """What was sampled: token ids, the end-of-turn token included, and their log probabilities where they are known."""

    output: list[int]
    logprobs: list[float | None] | None = None


Generate = Callable[[Sequence[Ask], Any], Sequence[Written]]
"""From what is asked, and the trainer, to what was written, in the same order."""


def generate(asked: Sequence[Ask], trainer: Any) -> list[Written]:
    """Sample with the trainer's vLLM, or with its model."""
    if not asked:
        return []
    prompts = [ask.prompt for ask in asked]
    return _by_vllm(prompts, trainer) if getattr(trainer, "use_vllm", False) else _by_model(prompts, trainer)


def in_step(trainer: Any) -> bool:
    """Whether processes sample together, so that none may ask more often or for more than another."""
    accelerator = trainer.accelerator
    if accelerator.num_processes == 1:
        return False
    if getattr(trainer, "use_vllm", False):
        found = trainer.vllm_generation
        return bool(found.mode == "server" or found.tensor_parallel_size > 1)
    return str(accelerator.distributed_type).rpartition(".")[2] in ("FSDP", "DEEPSPEED")


def most_in_step(count: int) -> int:
    """The largest of the counts of all processes; each must call this equally often."""
    from accelerate.utils import gather_object

    found: list[int] = gather_object([count])
    return max(found)


def _by_vllm(prompts: list[list[int]], trainer: Any) -> list[Written]:
    _, outputs, logprobs, _ = trainer.vllm_generation.generate(prompts=prompts, images=None, num_generations=1)
    return [
        Written(output=list(output), logprobs=[token[0] for token in told])  # the sampled token's comes first
        for output, told in zip(outputs, logprobs, strict=True)
    ]


def _by_model(prompts: list[list[int]], trainer: Any) -> list[Written]:
    """By the model that is trained, all prompts at once."""
    import torch
    from trl.models import unwrap_model_for_generation

    tokenizer = trainer.processing_class
    width = max(len(prompt) for prompt in prompts)
    device = trainer.accelerator.device
    ids = torch.tensor([[tokenizer.pad_token_id] * (width - len(p)) + p for p in prompts], device=device)
    attended = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts], device=device)
    was_training = trainer.model.training
    with (
        torch.no_grad(),
        unwrap_model_for_generation(
            trainer.model_wrapped,
            trainer.accelerator,
            gather_deepspeed3_params=trainer.args.ds3_gather_for_generation,
            generation_kwargs=trainer.generation_kwargs,
            gradient_checkpointing_kwargs=trainer.args.gradient_checkpointing_kwargs,
        ) as model,
    ):
        model.eval()
        found = model.generate(input_ids=ids, attention_mask=attended, generation_config=trainer.generation_config)
        model.train(was_training)
    ends = set(trainer.eos_token_ids)
    return [Written(output=_until_end(row, ends)) for row in found[:, width:].tolist()]


def _until_end(ids: list[int], ends: set[int]) -> list[int]:
    """The tokens up to the first that ends a message; those after it are padding."""
    for position, token in enumerate(ids):
        if token in ends:
            return ids[: position + 1]
    return ids

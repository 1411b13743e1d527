"""Sampling: what vLLM gives, and which processes sample together."""

from types import SimpleNamespace
from typing import Any

import pytest

from awm_hub.training.generating import Ask, Written, generate, in_step


class Vllm:
    """A stand-in for TRL's `vllm_generation`, with the answers of its version 1.16."""

    def __init__(self, mode: str = "colocate", parallel: int = 1) -> None:
        self.mode, self.tensor_parallel_size = mode, parallel
        self.asked: list[Any] = []

    def generate(self, prompts: Any, images: Any, num_generations: int) -> Any:
        self.asked.append((prompts, images, num_generations))
        return prompts, [[7, 8], [9]], [[[-0.5], [None]], [[-0.25]]], [[[7], [8]], [[9]]]


def trainer_with(vllm: Vllm | None, processes: int = 1, kind: str = "DistributedType.NO") -> Any:
    accelerator = SimpleNamespace(num_processes=processes, distributed_type=kind)
    return SimpleNamespace(use_vllm=vllm is not None, vllm_generation=vllm, accelerator=accelerator)


def test_what_vllm_sampled_is_taken_with_its_logprobs() -> None:
    vllm = Vllm()
    asked = [Ask(prompt=[1, 2], position=0, turn=0), Ask(prompt=[3], position=1, turn=0)]
    assert generate(asked, trainer_with(vllm)) == [
        Written(output=[7, 8], logprobs=[-0.5, None]),
        Written(output=[9], logprobs=[-0.25]),
    ]
    assert vllm.asked == [([[1, 2], [3]], None, 1)]


def test_nothing_is_sampled_where_nothing_is_asked() -> None:
    vllm = Vllm()
    assert generate([], trainer_with(vllm)) == []
    assert vllm.asked == []


@pytest.mark.parametrize(
    ("trainer", "expected"),
    [
        (trainer_with(None), False),
        (trainer_with(Vllm("server")), False),
        (trainer_with(None, 2, "DistributedType.MULTI_GPU"), False),
        (trainer_with(Vllm(), 2, "DistributedType.MULTI_GPU"), False),
        (trainer_with(Vllm("server"), 2, "DistributedType.MULTI_GPU"), True),
        (trainer_with(Vllm(parallel=2), 2, "DistributedType.MULTI_GPU"), True),
        (trainer_with(None, 2, "DistributedType.FSDP"), True),
        (trainer_with(None, 2, "DistributedType.DEEPSPEED"), True),
    ],
)
def test_processes_are_in_step_where_they_sample_together(trainer: Any, expected: bool) -> None:
    assert in_step(trainer) is expected

# /// script
# requires-python = ">=3.11,<3.14"
# dependencies = ["awm-hub[train]", "trl[vllm]>=1.16,<1.17", "trackio"]
#
# [tool.hf-jobs]
# flavor = "h200x8"
# timeout = "12h"
# secrets = ["HF_TOKEN"]
# ///
"""GRPO with nothing but an environment class: TRL's own tool loop, the whole history, one row a rollout.

    uv run grpo_simple.py --config configs/simple_qwen3_4b.yaml --dataset USER/DATASET --plan
    uv run grpo_simple.py --config configs/simple_qwen3_4b.yaml --dataset USER/DATASET
    hf jobs uv run --detach grpo_simple.py --config configs/simple_qwen3_4b.yaml \
        --dataset USER/DATASET --push-to-hub USER/MODEL --resume

A plain `GRPOTrainer` with `environment_factory` and a reward function, to begin with and to compare with. Reward and
rules are those of Agent World Model (arXiv 2602.10090 §4); the rest is not. The policy sees its whole history, so it
has to be used that way too: the paper's ablation finds that such a policy loses most of what it learned where its
history is cut (§5). `max_completion_length` is the budget of a whole episode, results included. TRL calls tools one
after the other, and reads a message leniently before our rules see it.

`--plan` tells rows, tokens, memory and instances, and starts nothing. `--resume` goes on from the last checkpoint, of
the output folder or of the repo that is pushed to, and starts anew where there is none. On several GPUs the program
starts `accelerate launch` itself. At the end the model attempts the tasks of the test split, with its whole history.
`--smoke` trains a tiny model for one step of two updates, without vLLM, on a CPU too.
"""

import sys
from typing import Any

import awm_hub as awm
from awm_hub import aio
from awm_hub.inference import Endpoint, Sampling
from awm_hub.judging import LlmJudge
from awm_hub.training import HybridReward, ToolEpisode, pass_at_1, simple, training_tasks
from awm_hub.training.planning import RunNumbers
from awm_hub.training.recipe import Recipe, Run, batches, epochs, planned_grpo

SMOKE: dict[str, dict[str, Any]] = {
    "batch": {"steps": 1, "prompts": 2, "mini_batch": 1, "per_device": 1, "save_every": 1},
    "trainer": {
        "num_generations": 2,
        "max_completion_length": 24,
        "use_vllm": False,
        "fsdp": None,
        "fsdp_config": None,
        "bf16": False,
        "gradient_checkpointing": False,
        "model_init_kwargs": None,
        "report_to": "none",
        "logging_steps": 1,
    },
    "evaluation_sampling": {"max_tokens": 24},
}


def sections() -> dict[str, Any]:
    """What a configuration may hold."""
    from peft import LoraConfig
    from trl import GRPOConfig

    return {
        "model": None,
        "judge": None,
        "batch": ("steps", "prompts", "mini_batch", "per_device", "save_every"),
        "episode": ToolEpisode,
        "rewards": HybridReward,
        "tasks": training_tasks,
        "pool": aio.LocalPool,
        "trainer": GRPOConfig,
        "lora": LoraConfig,
        "plan": RunNumbers,
        "evaluation": pass_at_1,
        "evaluation_window": awm.Window,
        "evaluation_sampling": Sampling,
    }


def train(run: Run) -> None:
    """Train, from the last checkpoint if there is one."""
    from trl import GRPOConfig

    config, judge = run.config, run.config.get("judge")
    spec = simple(
        run.environments,
        judge=LlmJudge(Endpoint(**judge)) if isinstance(judge, dict) else judge,
        log=run.output / "trajectories",
        stop_tokens=config["trainer"]["max_completion_length"],
        rewards=config["rewards"],
        pool=config["pool"],
        tasks={**config["tasks"], "repeat": epochs(run)},
        **config["episode"],
    )
    with spec:
        trainer = spec.trainer(
            model=run.model,
            processing_class=run.tokenizer(),
            peft_config=run.adapters(),
            args=GRPOConfig(**run.saving(), **batches(run), **config["trainer"]),
        )
        run.fit(trainer)


def planned(run: Run) -> str:
    """What a run takes. How long a message may be, `plan` has to say: here only the episode is limited."""
    return planned_grpo(run, window=awm.Window(), max_turns=run.config["episode"].get("max_turns", 20))


RECIPE = Recipe(file=__file__, doc=__doc__, sections=sections, smoke=SMOKE, planned=planned, train=train)

if __name__ == "__main__":
    sys.exit(RECIPE.main())

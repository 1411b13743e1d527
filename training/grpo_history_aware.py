# /// script
# requires-python = ">=3.11,<3.14"
# dependencies = ["awm-hub[train]", "trl[vllm]>=1.16,<1.17", "trackio"]
#
# [tool.hf-jobs]
# flavor = "h200x8"
# timeout = "24h"
# secrets = ["HF_TOKEN"]
# ///
"""History-aware GRPO: a model learns in environments, seeing as much of its history as when it is used.

    uv run grpo_history_aware.py --config configs/history_aware_qwen3_4b.yaml --dataset USER/DATASET --plan
    uv run grpo_history_aware.py --config configs/history_aware_qwen3_4b.yaml --dataset USER/DATASET
    hf jobs uv run --detach grpo_history_aware.py --config configs/history_aware_qwen3_4b.yaml \
        --dataset USER/DATASET --push-to-hub USER/MODEL --resume

This is the training of Agent World Model (arXiv 2602.10090 §4, §5): rules of the format that end a rollout early, the
hybrid reward, a window of 3 turns, a row of tokens for each cut of the history. It differs in four things. Code judges,
unless the configuration names a model. A rollout whose environment failed is left out of its group's baseline instead
of being worth 0. Sequence-level importance sampling takes a row for a sequence. TRL and vLLM stand in place of AgentFly
and verl. Every number of a configuration says whether it is the paper's.

`--plan` tells rows, tokens, memory and instances, and starts nothing. `--resume` goes on from the last checkpoint, of
the output folder or of the repo that is pushed to, and starts anew where there is none: the same command serves every
attempt of a job. On several GPUs the program starts `accelerate launch` itself. At the end the model attempts the tasks
of the test split. `--smoke` trains a tiny model for one step of two updates, without vLLM, on a CPU too.
"""

import sys
from typing import Any

import awm_hub as awm
from awm_hub import aio
from awm_hub.inference import Endpoint, Sampling
from awm_hub.judging import LlmJudge
from awm_hub.training import HybridReward, WindowedRollout, history_aware, pass_at_1, training_tasks
from awm_hub.training.planning import RunNumbers
from awm_hub.training.recipe import Recipe, Run, batches, epochs, planned_grpo

SMOKE: dict[str, dict[str, Any]] = {
    "batch": {"steps": 1, "prompts": 2, "mini_batch": 1, "per_device": 1, "save_every": 1},
    "rollout": {"max_turns": 3},
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
        "window": awm.Window,
        "rollout": WindowedRollout,
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
    spec = history_aware(
        run.environments,
        window=awm.Window(**config["window"]),
        judge=LlmJudge(Endpoint(**judge)) if isinstance(judge, dict) else judge,
        log=run.output / "trajectories",
        rollout=config["rollout"],
        rewards=config["rewards"],
        pool=config["pool"],
        tasks={**config["tasks"], "repeat": epochs(run)},
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
    """What a run takes, worked out with means where the configuration's `plan` has some."""
    return planned_grpo(
        run,
        window=awm.Window(**run.config["window"]),
        max_turns=run.config["rollout"].get("max_turns", 20),
        max_response_tokens=run.config["trainer"]["max_completion_length"],
    )


RECIPE = Recipe(file=__file__, doc=__doc__, sections=sections, smoke=SMOKE, planned=planned, train=train)

if __name__ == "__main__":
    sys.exit(RECIPE.main())

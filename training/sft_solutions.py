# /// script
# requires-python = ">=3.11,<3.14"
# dependencies = ["awm-hub[train]", "trl>=1.16,<1.17", "trackio"]
#
# [tool.hf-jobs]
# flavor = "h200"
# timeout = "6h"
# secrets = ["HF_TOKEN"]
# ///
"""Supervised fine-tuning on what solves tasks: reference solutions, and rollouts that a judge found completed.

    uv run sft_solutions.py --config configs/sft_qwen3_4b.yaml --dataset USER/DATASET --plan
    uv run sft_solutions.py --config configs/sft_qwen3_4b.yaml --dataset USER/DATASET
    uv run sft_solutions.py --config configs/sft_qwen3_4b.yaml --dataset USER/DATASET --set rollouts=USER/TRAJECTORIES
    hf jobs uv run --detach sft_solutions.py --config configs/sft_qwen3_4b.yaml \
        --dataset USER/DATASET --push-to-hub USER/MODEL --resume

Agent World Model (arXiv 2602.10090) trains Qwen3 with reinforcement learning alone: this stage is ours. It teaches the
text protocol and the rules of its format (§4) to models that do not keep to them, before `grpo_history_aware.py`. Each
example is one assistant message, with what the window of the history shows before it, and the loss is on that message
alone: the same rule as in reinforcement learning and in evaluation.

Solutions are carried out once, on instances, so that the results in the examples are real; the examples are kept in the
output folder, and a run that is resumed there reads them again. Their thoughts are a few words long: a model learns the
format from them, not reasoning, so stop early. `rollouts` names trajectories of a better model instead.

`--plan` tells examples, tokens and memory, and starts nothing. `--resume` goes on from the last checkpoint, of the
output folder or of the repo that is pushed to, and starts anew where there is none. On several GPUs the program starts
`accelerate launch` itself. `--smoke` trains a tiny model for two steps on the shortest examples, on a CPU too.
"""

import sys
from math import ceil
from statistics import fmean
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import awm_hub as awm
from awm_hub.canonical import to_json
from awm_hub.inference import Sampling
from awm_hub.training import examples_of_rollouts, examples_of_solutions, pass_at_1, plan
from awm_hub.training.planning import RunNumbers, facts_of
from awm_hub.training.recipe import Recipe, Run

SMOKE: dict[str, dict[str, Any]] = {
    "batch": {"epochs": 1, "examples": 2, "per_device": 1, "save_every": 1, "shortest": 4},
    "trainer": {
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
MESSAGES = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))


def sections() -> dict[str, Any]:
    """What a configuration may hold."""
    from peft import LoraConfig
    from trl import SFTConfig

    return {
        "model": None,
        "rollouts": None,
        "batch": ("epochs", "examples", "per_device", "save_every", "shortest"),
        "window": awm.Window,
        "solutions": examples_of_solutions,
        "trainer": SFTConfig,
        "lora": LoraConfig,
        "plan": RunNumbers,
        "evaluation": pass_at_1,
        "evaluation_window": awm.Window,
        "evaluation_sampling": Sampling,
    }


def prepare(run: Run) -> None:
    """Write the examples, unless an earlier attempt did."""
    path, window = run.output / "examples.parquet", awm.Window(**run.config["window"])
    if path.exists() and run.resumes:
        return
    run.output.mkdir(parents=True, exist_ok=True)
    rollouts = run.config.get("rollouts")
    if rollouts:
        rows = examples_of_rollouts(rollouts, run.environments, window=window)
    else:
        rows = examples_of_solutions(run.environments, window=window, **run.config["solutions"])
    unfinished, count = path.with_suffix(".tmp"), 0
    with pq.ParquetWriter(unfinished, pa.schema([("prompt", MESSAGES), ("completion", MESSAGES)])) as writer:
        for row in rows:
            writer.write(pa.Table.from_pylist([row], schema=writer.schema))
            count += 1
    unfinished.replace(path)
    print(f"{count} examples in {path}", flush=True)


def train(run: Run) -> None:
    """Train on the examples, from the last checkpoint if there is one."""
    from datasets import Dataset
    from trl import SFTConfig, SFTTrainer

    batch, config = run.config["batch"], run.config
    examples = Dataset.from_parquet(str(run.output / "examples.parquet"))
    if batch.get("shortest"):
        lengths = sorted(range(len(examples)), key=lambda n: len(to_json(examples[n])))
        examples = examples.select(lengths[: batch["shortest"]])
    accumulated, rest = divmod(batch["examples"], batch["per_device"] * run.processes)
    if rest:
        message = f"batch: {batch['examples']} examples do not divide into {run.processes} × {batch['per_device']}"
        raise awm.UsageError(message, next_step="change examples or per_device")
    trainer = SFTTrainer(
        model=run.model,
        processing_class=run.tokenizer(),
        train_dataset=examples,
        peft_config=run.adapters(),
        args=SFTConfig(
            **run.saving(),
            per_device_train_batch_size=batch["per_device"],
            gradient_accumulation_steps=accumulated,
            num_train_epochs=batch["epochs"],
            save_steps=batch["save_every"],
            **config["trainer"],
        ),
    )
    run.fit(trainer)


def planned(run: Run) -> str:
    """What training on the solutions takes; how many rollouts of a dataset are usable is known once they are read."""
    batch, size = run.config["batch"], run.size()
    found = run.environments.where(split="train", usage="train")
    turns = [len(t.solution) + 2 for e in found.values() for t in e.tasks if t.solution is not None]
    steps = ceil(sum(turns) * batch["epochs"] / batch["examples"])
    given = {
        "steps": steps,
        "prompts": batch["examples"],
        "rollouts": 1,
        "window": awm.Window(**run.config["window"]),
        "max_turns": max(turns, default=1),
        "mean_turns": fmean(turns) if turns else 1,
        "max_response_tokens": 200,
        "rows_per_device": batch["per_device"],
        "is_sharded": bool(run.config["trainer"].get("fsdp")),
        "trainable_share": run.trainable_share(),
        "has_reference": False,
        **run.config["plan"],
    }
    whole = plan(RunNumbers(**given), facts_of(found), size)
    kept = {name: whole.memory[name] for name in ("trained state", "activations")}
    lines = [
        f"model             {size.name}, {size.parameters / 1e9:.2f} B parameters",
        f"solutions         {len(turns):,} in {len(found):,} environments, at most: only sound ones are learnt",
        f"examples          {sum(turns):,}: a message each",
        f"steps             {steps:,} of {batch['examples']} examples, {batch['epochs']} epochs",
        f"longest example   {whole.longest_row:,} tokens, with tools and results of usual length",
        *(f"{name:<17} {amount / 1e9:.1f} GB" for name, amount in kept.items()),
    ]
    return "\n".join(lines)


RECIPE = Recipe(
    file=__file__, doc=__doc__, sections=sections, smoke=SMOKE, planned=planned, train=train, prepare=prepare
)

if __name__ == "__main__":
    sys.exit(RECIPE.main())

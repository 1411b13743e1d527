"""What every training recipe does besides training: read a configuration, plan, launch, resume, publish, evaluate.

A recipe is one file (`training/*.py`) that says what is trained and how; `Recipe.main` is its command line, and
`awm_hub.training.configuring` reads its configuration.

On several GPUs `main` starts `accelerate launch` with the same command line and waits, so that the evaluation at the
end has a machine to itself. It reads the model that was saved, which is what anybody else will use.
"""

import argparse
import gc
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from typing import Any

from awm_hub import hub
from awm_hub.errors import AwmHubError, UsageError
from awm_hub.history import Window
from awm_hub.inference import Sampling
from awm_hub.training.configuring import Sections, parser, read
from awm_hub.training.evaluation import PAPER_SAMPLING, PAPER_WINDOW, pass_at_1
from awm_hub.training.planning import QWEN3, ModelSize, RunNumbers, facts_of, plan
from awm_hub.training.tasks import chosen_tasks

TINY = "trl-internal-testing/tiny-Qwen3ForCausalLM"
"""What `--smoke` trains unless a model is named."""
LAST_CHECKPOINT = "last-checkpoint"
"""Where `hub_strategy: checkpoint` keeps the newest checkpoint in the model's repo."""
_PREPARED = "AWM_HUB_RECIPE_PREPARED"
"""Tells the processes that `main` launches that it has called `prepare`."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run of a recipe."""

    model: str
    """Name on the Hub or a folder."""
    output: Path
    config: Mapping[str, Any]
    """Sections, each a mapping; those of the recipe that the file leaves out are empty."""
    environments: hub.Environments
    resumes: bool = False
    hub_repo: str | None = None
    """Where the model is pushed to."""

    @property
    def processes(self) -> int:
        """Processes that train together."""
        return int(os.environ.get("WORLD_SIZE", "1"))

    @property
    def tasks_count(self) -> int:
        """Tasks that are trained on."""
        given = self.config.get("tasks", {})
        kept = {name: given[name] for name in ("subset", "split", "requires") if name in given}
        entries = self.environments.entries
        chosen = chosen_tasks(self.environments, **kept)
        return sum(entries[name].tasks_count if tasks is None else len(tasks) for name, tasks in chosen.items())

    def saving(self) -> dict[str, Any]:
        """Arguments of a trainer: where the model goes. With every checkpoint, all that resuming takes is pushed."""
        found: dict[str, Any] = {"output_dir": str(self.output)}
        if self.hub_repo is None:
            return found
        return {**found, "push_to_hub": True, "hub_model_id": self.hub_repo, "hub_strategy": "checkpoint"}

    def checkpoint(self) -> str | None:
        """The newest checkpoint, if the run is to go on from one: of the output folder, else of the model's repo.

        Raises:
            UsageError: it has adapters and this run none, or the reverse.
        """
        if not self.resumes:
            return None
        from transformers.trainer_utils import get_last_checkpoint

        found = get_last_checkpoint(str(self.output)) if self.output.is_dir() else None
        if found is None and self.hub_repo is not None:
            found = _fetched(self.hub_repo, self.output)
        if found and bool(self.config.get("lora")) != Path(found, "adapter_config.json").exists():
            what = "the whole model" if self.config.get("lora") else "adapters"
            step = "train the same way as before, or into another folder"
            raise UsageError(f"{found} is of a training of {what}", next_step=step)
        print(f"resuming from {found}" if found else "there is no checkpoint yet: starting anew", flush=True)
        return found

    def fit(self, trainer: Any) -> None:
        """Train from the newest checkpoint, if this run goes on from one; save the model, and push it.

        A run that was trained to its end is not trained again: with a stream, the trainer would add a step.
        """
        found = self.checkpoint()
        if found and _step_of(found) >= trainer.args.max_steps > 0:
            print(f"{found} is the end of the training", flush=True)
            if trainer.is_world_process_zero():
                ignored = shutil.ignore_patterns("*.pt", "*.pth", "*.bin", "trainer_state.json")
                shutil.copytree(found, self.output, dirs_exist_ok=True, ignore=ignored)
            return
        trainer.train(resume_from_checkpoint=found)
        trainer.save_model()
        if self.hub_repo is not None:
            trainer.push_to_hub()

    def adapters(self) -> Any:
        """The adapters to train in place of the model; None: the whole model is trained."""
        numbers = self.config.get("lora")
        if not numbers:
            return None
        from peft import LoraConfig

        return LoraConfig(task_type="CAUSAL_LM", **numbers)

    def tokenizer(self) -> Any:
        """The model's tokenizer, with a chat template that TRL can train with."""
        from transformers import AutoTokenizer

        from awm_hub.training.tokens import trainable_template

        found = AutoTokenizer.from_pretrained(self.model, padding_side="left")
        found.chat_template = trainable_template(found)
        return found

    def size(self) -> ModelSize:
        """The model's; of those that are not known by name, its configuration is read."""
        name = self.model.rpartition("/")[2]
        if name in QWEN3:
            return QWEN3[name]
        from transformers import AutoConfig

        return ModelSize.from_config(AutoConfig.from_pretrained(self.model))

    def trainable_share(self) -> float:
        """Of the model's parameters: all, or the two thin matrices beside each layer's seven."""
        rank = (self.config.get("lora") or {}).get("r")
        if not rank:
            return 1.0
        m = self.size()
        queries, keys = m.heads * m.head_dim, m.kv_heads * m.head_dim
        widths = 2 * (m.hidden + queries) + 2 * (m.hidden + keys) + 3 * (m.hidden + m.intermediate)
        return float(rank * widths * m.layers / m.parameters)

    def evaluate(self) -> None:
        """Attempt the tasks of the test split with the saved model; the figures are printed and kept beside it."""
        split = self.config["evaluation"].get("split", "test")
        held_out = self.environments if split is None else self.environments.where(split=split)
        if not held_out:
            print(f"{self.environments.source} has no environment of the split {split}: nothing is evaluated")
            return
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

        gc.collect()  # what the trainer held
        on_gpu = torch.cuda.is_available()
        kind = torch.bfloat16 if on_gpu else torch.float32
        model = AutoModelForCausalLM.from_pretrained(self.output, dtype=kind).to("cuda" if on_gpu else "cpu")
        given = {name: self.config[f"evaluation_{name}"] for name in ("window", "sampling")}
        found = pass_at_1(
            model,
            AutoTokenizer.from_pretrained(self.output, padding_side="left"),
            held_out,
            window=Window(**given["window"]) if given["window"] else PAPER_WINDOW,
            sampling=Sampling(**given["sampling"]) if given["sampling"] else PAPER_SAMPLING,
            out=self.output / "evaluations" / time.strftime("%Y%m%d-%H%M%S"),
            **{**self.config["evaluation"], "split": None},
        )
        assert found is not None, "there are environments"
        (self.output / "evaluation.json").write_text(json.dumps(found.to_dict(), indent=1), encoding="utf-8")
        overall = found.overall
        print(f"pass@1 on {split}: {overall.pass_at_1}, {overall.rollouts} attempts, {overall.terminations}")


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A recipe's program."""

    file: str
    doc: str
    sections: Callable[[], Sections]
    """Called once the command line is read: what it names may be slow to import."""
    smoke: Mapping[str, Mapping[str, Any]]
    """What `--smoke` changes."""
    planned: Callable[[Run], str]
    """What `--plan` prints."""
    train: Callable[[Run], None]
    """Leaves the model in the output folder."""
    prepare: Callable[[Run], None] = lambda run: None
    """What one process does before all train."""

    def main(self, words: Sequence[str] | None = None) -> int:
        """The command line; its exit code.

        Args:
            words: Arguments; default: those of this program.
        """
        given = list(sys.argv[1:] if words is None else words)
        arguments = parser(self.doc).parse_args(given)
        try:
            return self._run(arguments, given)
        except AwmHubError as error:
            print(f"error: {error}", file=sys.stderr)
            return error.exit_code

    def _run(self, arguments: argparse.Namespace, words: Sequence[str]) -> int:
        config = read(arguments, self.sections(), self.smoke)
        run = Run(
            model=arguments.model or (TINY if arguments.smoke else config["model"]),
            output=arguments.output,
            config=config,
            environments=hub.load(arguments.dataset, revision=arguments.revision),
            resumes=arguments.resume,
            hub_repo=arguments.push_to_hub,
        )
        if arguments.plan:
            print(self.planned(run))
            return 0
        if "LOCAL_RANK" in os.environ:
            self._train_among_others(run)
            return 0
        self.prepare(run)
        gpus = gpus_count()
        if gpus > 1:
            code = _launch(gpus, self.file, words)
            if code:
                return code
        else:
            self.train(run)
        run.evaluate()
        return 0

    def _train_among_others(self, run: Run) -> None:
        """Train as one of several processes, which somebody may have launched without this program."""
        if _PREPARED not in os.environ:
            from accelerate import PartialState

            state = PartialState()
            if state.is_main_process:
                self.prepare(run)
            state.wait_for_everyone()
        self.train(run)


def batches(run: Run) -> dict[str, int]:
    """The `batch` section as arguments of TRL's GRPO.

    A step of the paper's plays `prompts` tasks and updates the model once for each mini-batch of them; a step of the
    trainer's is one update. Checkpoints are between steps of the paper's.

    Raises:
        UsageError: the numbers do not divide.
    """
    batch, group = run.config["batch"], run.config["trainer"]["num_generations"]
    width = batch["per_device"] * run.processes
    updates, odd = divmod(batch["prompts"], batch["mini_batch"])
    accumulated, rest = divmod(batch["mini_batch"] * group, width)
    if odd or rest:
        message = (
            f"batch: {batch['prompts']} tasks do not divide into mini-batches of {batch['mini_batch']}, or those with "
            f"{group} rollouts each into {run.processes} processes of {batch['per_device']}"
        )
        raise UsageError(message, next_step="change prompts, mini_batch or per_device")
    return {
        "per_device_train_batch_size": batch["per_device"],
        "gradient_accumulation_steps": accumulated,
        "steps_per_generation": accumulated * updates,
        "max_steps": batch["steps"] * updates,
        "save_steps": batch["save_every"] * updates,
    }


def planned_grpo(run: Run, *, window: Window, **given: Any) -> str:
    """What a run of GRPO takes, as a text; `plan` in the configuration has the last word.

    Args:
        run: The run.
        window: What the policy sees.
        given: More of `RunNumbers`.
    """
    batch, trainer = run.config["batch"], run.config["trainer"]
    numbers = {
        "steps": batch["steps"],
        "prompts": batch["prompts"],
        "rollouts": trainer["num_generations"],
        "context_tokens": trainer.get("vllm_max_model_length") or 32_000,
        "is_sharded": bool(trainer.get("fsdp")),
        "trainable_share": run.trainable_share(),
        "has_reference": trainer.get("beta", 0.0) > 0,
        **given,
        **run.config["plan"],
        "window": window,
    }
    facts, size = facts_of(run.environments.where(split="train", usage="train")), run.size()
    facts = replace(facts, tasks=run.tasks_count)
    # a micro-batch is the rows of `per_device` rollouts, on average
    rows = batch["per_device"] * plan(RunNumbers(**numbers), facts, size).rows_per_rollout
    found = plan(RunNumbers(**{"rows_per_device": rows, **numbers}), facts, size)
    kept = {name: amount for name, amount in found.memory.items() if name != "logits"}
    notes = (
        *found.notes,
        f"a step is {batch['prompts'] // batch['mini_batch']} updates; a micro-batch is some {rows} rows",
        "TRL never holds all logits at once: it takes the log probabilities in chunks",
    )
    return replace(found, memory=kept, notes=notes).table()


def epochs(run: Run) -> int:
    """How often a stream has to come around for a run of GRPO, the batches that are read ahead included."""
    batch = run.config["batch"]
    tasks: int = (batch["steps"] + 2) * batch["prompts"]
    return ceil(tasks / run.tasks_count)


def gpus_count() -> int:
    """GPUs that are seen here."""
    import torch

    return int(torch.cuda.device_count())


def _launch(gpus: int, file: str, words: Sequence[str]) -> int:
    """Train with a process for each GPU; the exit code."""
    launcher = [sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu", "--num_machines", "1"]
    numbers = ["--num_processes", str(gpus), "--mixed_precision", "bf16", "--dynamo_backend", "no"]
    done = subprocess.run([*launcher, *numbers, file, *words], env={**os.environ, _PREPARED: "1"}, check=False)
    return int(done.returncode)


def _step_of(checkpoint: str) -> int:
    """Updates before a checkpoint."""
    return int(json.loads(Path(checkpoint, "trainer_state.json").read_text(encoding="utf-8"))["global_step"])


def _fetched(repo: str, output: Path) -> str | None:
    """The checkpoint of a model's repo, brought into the output folder."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import RepositoryNotFoundError

    try:
        snapshot_download(repo, allow_patterns=f"{LAST_CHECKPOINT}/*", local_dir=output)
    except RepositoryNotFoundError:
        return None
    found = output / LAST_CHECKPOINT
    return str(found) if (found / "trainer_state.json").exists() else None

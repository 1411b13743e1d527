"""What every training recipe does besides training: read a configuration, plan, launch, resume, publish, evaluate.

A recipe is one file (`training/*.py`) that says what is trained and how; `Recipe.main` is its command line. A
configuration is YAML whose sections are arguments of things, by name: `trainer` of TRL's configuration, `window` of
`Window`, `rollout` of `WindowedRollout` and so on. So nothing can be configured that does not exist, and a misspelt
key is named before anything starts.

On several GPUs `main` starts `accelerate launch` with the same command line and waits, so that the evaluation at the
end has a machine to itself. It reads the model that was saved, which is what anybody else will use.
"""

import argparse
import difflib
import gc
import inspect
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

from awm_hub import hub
from awm_hub.errors import AwmHubError, UsageError
from awm_hub.history import Window
from awm_hub.inference import Sampling
from awm_hub.training.evaluation import PAPER_SAMPLING, PAPER_WINDOW, pass_at_1
from awm_hub.training.planning import QWEN3, ModelSize
from awm_hub.training.tasks import chosen_tasks

TINY = "trl-internal-testing/tiny-Qwen3ForCausalLM"
"""What `--smoke` trains unless a model is named."""
LORA = {"r": 16, "lora_alpha": 32, "target_modules": "all-linear"}
"""Adapters where `--lora` is given and the configuration has none."""
LAST_CHECKPOINT = "last-checkpoint"
"""Where `hub_strategy: checkpoint` keeps the newest checkpoint in the model's repo."""
SAVED = ("output_dir", "push_to_hub", "hub_model_id", "hub_strategy", "resume_from_checkpoint")
_GIVEN = {
    "trainer": SAVED,
    "evaluation": ("model", "tokenizer", "environments", "window", "sampling", "out", "name"),
    "rollout": ("window", "slots", "generate"),
    "rewards": ("judge", "log"),
    "tasks": ("dataset", "revision", "repeat"),
    "pool": ("environments",),
}
"""Arguments that follow from others, or from the command line."""
_PREPARED = "AWM_HUB_RECIPE_PREPARED"
"""Tells the processes that `main` launches that it has called `prepare`."""
Sections = Mapping[str, Any]
"""Name of a section → the callable whose arguments it holds, a tuple of keys, or None for a single value."""


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
        """The newest checkpoint, if the run is to go on from one: of the output folder, else of the model's repo."""
        if not self.resumes:
            return None
        from transformers.trainer_utils import get_last_checkpoint

        found = get_last_checkpoint(str(self.output)) if self.output.is_dir() else None
        if found is None and self.hub_repo is not None:
            found = _fetched(self.hub_repo, self.output)
        print(f"resuming from {found}" if found else "there is no checkpoint yet: starting anew", flush=True)
        return found

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


def parser(doc: str) -> argparse.ArgumentParser:
    """The command line that recipes share."""
    found = argparse.ArgumentParser(description=doc.partition("\n")[0])
    found.add_argument("--config", type=Path, required=True, help="YAML file; see training/configs")
    found.add_argument("--dataset", help="name on the Hub or a folder; default: the bundled environments")
    found.add_argument("--revision", help="branch, tag or commit of the dataset")
    found.add_argument("--model", help="name on the Hub or a folder, instead of the configuration's")
    found.add_argument("--output", type=Path, default=Path("out"), help="folder of model, checkpoints and records")
    found.add_argument("--plan", action="store_true", help="tell what the run takes, and start nothing")
    found.add_argument("--resume", action="store_true", help="go on from the last checkpoint, if there is one")
    found.add_argument("--push-to-hub", metavar="REPO", help="push checkpoints and the model")
    found.add_argument("--lora", action="store_true", help="train adapters instead of the whole model")
    found.add_argument("--smoke", action="store_true", help="a step with a tiny model, on whatever there is")
    found.add_argument(
        "--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="change a value of the configuration"
    )
    return found


def read(arguments: argparse.Namespace, sections: Sections, smoke: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The configuration that a command line asks for, with all sections.

    Raises:
        UsageError: the file is no such configuration, or has a key that means nothing; it is named.
    """
    import yaml  # type: ignore[import-untyped]

    try:
        found = yaml.safe_load(arguments.config.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UsageError(f"{arguments.config} cannot be read: {error}", next_step="name a YAML file") from error
    if not isinstance(found, dict):
        raise UsageError(f"{arguments.config} holds no sections", next_step="see training/configs")
    where = arguments.config.name
    for section, values in found.items():
        if sections.get(section, ()) is not None and not isinstance(values, dict):
            raise UsageError(f"{where}: {section} is {values!r}", next_step="give it keys and values, indented")
    for name, values in smoke.items() if arguments.smoke else ():
        found[name] = {**found.get(name, {}), **values}
    if arguments.lora and not found.get("lora"):
        found["lora"] = dict(LORA)
    for change in arguments.set:
        path, equals, value = change.partition("=")
        section, _, key = path.partition(".")
        if not (section and equals) or (sections.get(section, ()) is not None and not key):
            raise UsageError(f"--set {change}", next_step="write --set SECTION.KEY=VALUE")
        if key:
            found.setdefault(section, {})[key] = yaml.safe_load(value)
        else:
            found[section] = yaml.safe_load(value)
    check(found, sections, where)
    return {**{name: {} for name, kind in sections.items() if kind is not None}, **found}


def check(config: Mapping[str, Any], sections: Sections, where: str) -> None:
    """See that every section and key of a configuration means something.

    Raises:
        UsageError: one does not; it is named.
    """
    for section, values in config.items():
        if section not in sections:
            raise UsageError(f"{where}: there is no section {section!r}", next_step=_near(section, sections))
        kind = sections[section]
        if kind is None:
            continue
        keys = kind if isinstance(kind, tuple) else tuple(inspect.signature(kind).parameters)
        for key, value in values.items():
            if key in _GIVEN.get(section, ()):
                step = "leave it out: the recipe gives it"
                raise UsageError(f"{where}: {section}.{key} cannot be set here", next_step=step)
            if key not in keys:
                of = "" if isinstance(kind, tuple) else f" of {kind.__name__}"
                raise UsageError(f"{where}: {section}.{key} is no argument{of}", next_step=_near(key, keys))
            if isinstance(value, str) and _is_number(value):
                step = "write numbers without quotes, and with a point: 7.0e-7"
                raise UsageError(f"{where}: {section}.{key} is the text {value!r}", next_step=step)


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


def epochs(run: Run) -> int:
    """How often a stream has to come around for a run of GRPO, the batches that are read ahead included."""
    batch = run.config["batch"]
    return ceil((batch["steps"] + 2) * batch["prompts"] / run.tasks_count)


def gpus_count() -> int:
    """GPUs that are seen here."""
    import torch

    return int(torch.cuda.device_count())


def _launch(gpus: int, file: str, words: Sequence[str]) -> int:
    """Train with a process for each GPU; the exit code."""
    launcher = [sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu", "--num_machines", "1"]
    numbers = ["--num_processes", str(gpus), "--mixed_precision", "bf16", "--dynamo_backend", "no"]
    done = subprocess.run([*launcher, *numbers, file, *words], env={**os.environ, _PREPARED: "1"}, check=False)
    return done.returncode


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


def _near(name: str, known: Any) -> str:
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"did you mean {close[0]}?" if close else f"one of {', '.join(sorted(known))}"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True

"""The recipes beside the package: one file each, whose headers, commands and configurations are true, and which run."""

import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from loopback_hub import USER, LoopbackHub, loopback_hub

import awm_hub
from awm_hub.errors import UsageError
from awm_hub.training import configuring, recipe
from awm_hub.training.planning import QWEN3
from training import tiny

__all__ = ["loopback_hub"]
ROOT = Path(__file__).parents[2]
TRAINING = ROOT / "training"
PROGRAMS = sorted(TRAINING.glob("*.py"))
CONFIGS = sorted((TRAINING / "configs").glob("*.yaml"))
SLOW = pytest.mark.slow
HISTORY_AWARE = TRAINING / "configs" / "history_aware_qwen3_4b.yaml"


def program_of(config: Path) -> str:
    """The recipe that a configuration is for; its second line says so."""
    return re.search(r"^# For (\w+)\.py\.", config.read_text(encoding="utf-8"), re.MULTILINE)[1]  # type: ignore[index]


def loaded(program: str) -> Any:
    """A recipe, imported from its file."""
    spec = importlib.util.spec_from_file_location(program, TRAINING / f"{program}.py")
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found.RECIPE


def header(path: Path) -> dict[str, Any]:
    """The PEP 723 header of a program."""
    found = re.match(r"# /// script\n((?:#.*\n)*?)# ///\n", path.read_text(encoding="utf-8"))
    assert found is not None
    return tomllib.loads(re.sub(r"^# ?", "", found[1], flags=re.MULTILINE))


def commands() -> list[str]:
    """What the README's console blocks say after a prompt, continued lines joined."""
    text = (TRAINING / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```console\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return [" ".join(line[2:].split()) for line in lines if line.startswith("$ ")]


def in_docstrings() -> list[str]:
    """The commands that the recipes' own docstrings say."""
    texts = [path.read_text(encoding="utf-8").replace("\\\n", " ") for path in PROGRAMS]
    return [
        " ".join(line.split()) for text in texts for line in re.findall(r"^    ((?:uv|hf) .*)$", text, re.MULTILINE)
    ]


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda p: p.name)
def test_a_recipe_is_one_file_with_a_header_that_imports_no_sibling(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 200
    found = header(path)
    assert found["requires-python"] == ">=3.11,<3.14"
    assert found["dependencies"][0] == "awm-hub[train]"
    (trl,) = [name for name in found["dependencies"] if name.startswith("trl")]
    assert trl.endswith(">=1.16,<1.17")
    assert ("[vllm]" in trl) == ("grpo" in path.name)
    job = found["tool"]["hf-jobs"]
    assert job["secrets"] == ["HF_TOKEN"]
    assert re.fullmatch(r"\d+h", job["timeout"])
    imported = re.findall(r"^(?:from|import) (\w+)", text, re.MULTILINE)
    assert not set(imported) & {p.stem for p in PROGRAMS}


def test_the_headers_name_the_trl_that_the_trainer_was_made_for() -> None:
    pytest.importorskip("trl")
    from awm_hub.training.trainer import TRL_RANGE

    assert all(name.endswith(TRL_RANGE) for p in PROGRAMS for name in header(p)["dependencies"] if name[:3] == "trl")


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda p: p.name)
def test_hugging_face_jobs_reads_the_header_and_takes_the_configuration_along(path: Path, tmp_path: Path) -> None:
    hf = Path(sys.executable).with_name("hf")
    if not hf.exists():
        pytest.skip("the hf command is not installed")
    (config, *_) = (c for c in CONFIGS if program_of(c) == path.stem)
    words = [str(hf), "jobs", "uv", "run", "--dry-run", str(path), "--config", str(config), "--resume"]
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "HF_HUB_OFFLINE": "1", "HF_TOKEN": "hf_secret"}
    done = subprocess.run(words, capture_output=True, text=True, env=env, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    if "flavor" not in done.stdout:
        pytest.skip("this hf command reads no header")
    job = header(path)["tool"]["hf-jobs"]
    assert re.search(rf"flavor +{job['flavor']} \(from script\)", done.stdout)
    assert re.search(rf"timeout +{job['timeout']} \(from script\)", done.stdout)
    assert f"--config {config} --resume" in done.stdout
    assert "hf_secret" not in done.stdout


@pytest.mark.parametrize("command", [*commands(), *in_docstrings()])
def test_every_documented_command_parses(command: str) -> None:
    words = shlex.split(command.partition(" # ")[0])
    if words[0] in ("pip", "trackio"):
        return
    (place,) = [n for n, word in enumerate(words) if word.endswith(".py")]
    program, given = Path(words[place]), words[place + 1 :]
    assert words[:place] in (
        ["uv", "run"],
        ["python"],
        ["hf", "jobs", "uv", "run", "--detach"],
        ["hf", "jobs", "uv", "run", "--detach", "--flavor", "h200"],
    )
    arguments = configuring.parser("").parse_args(given)
    at = ROOT if program.parts[0] == "training" else TRAINING
    assert (at / program).exists()
    assert (at / arguments.config).exists()
    assert program_of(at / arguments.config) == program.stem


def parsed(config: Path, *words: str) -> Any:
    return configuring.parser("").parse_args(["--config", str(config), *words])


@pytest.fixture
def with_trl() -> None:
    """Left out where TRL, or PEFT, is not installed."""
    for name in ("torch", "trl", "peft"):
        pytest.importorskip(name)


@pytest.mark.usefixtures("with_trl")
@pytest.mark.parametrize("config", CONFIGS, ids=lambda p: p.stem)
def test_every_key_of_a_configuration_is_an_argument_of_the_installed_versions(config: Path, tmp_path: Path) -> None:
    program = loaded(program_of(config))
    found = configuring.read(parsed(config), program.sections(), program.smoke)
    settings = {**found["trainer"], "bf16": False, "use_cpu": True, "fsdp": None, "fsdp_config": None}
    run = recipe.Run(model="m", output=tmp_path, config=found, environments=awm_hub.load())
    batch = {} if "sft" in config.name else recipe.batches(run)
    made = program.sections()["trainer"](**run.saving(), **batch, **settings)
    assert made.learning_rate == found["trainer"]["learning_rate"]


@pytest.mark.usefixtures("with_trl")
@pytest.mark.parametrize("size", ["4b", "8b", "14b"])
def test_the_paper_s_numbers_are_in_the_paper_s_configurations(size: str, tmp_path: Path) -> None:
    """Section 5 of arXiv 2602.10090, and section 6 for the evaluation."""
    program = loaded("grpo_history_aware")
    config = configuring.read(parsed(CONFIGS[0].with_name(f"history_aware_qwen3_{size}.yaml")), program.sections(), {})
    trainer = config["trainer"]
    assert trainer["learning_rate"] == 7e-7
    assert (trainer["num_generations"], trainer["beta"], trainer["entropy_coef"]) == (16, 0.001, 0.0)
    assert (trainer["epsilon_high"], trainer["importance_sampling_level"]) == (0.28, "sequence")
    assert (trainer["temperature"], trainer["max_completion_length"]) == (1.0, 2048)
    assert trainer["vllm_max_model_length"] == 32_000
    assert (config["window"], config["rollout"]) == ({"turns": 3}, {"max_turns": 20})
    assert config["evaluation_window"] == {"turns": 10}
    assert config["evaluation_sampling"] == {"temperature": 0.6, "top_p": 0.95, "top_k": 20, "max_tokens": 2048}
    assert config["model"] == f"Qwen/Qwen3-{size.upper()}"
    run = recipe.Run(model=config["model"], output=tmp_path, config=config, environments=awm_hub.load())
    assert recipe.batches(run) == {
        "per_device_train_batch_size": 1,
        "gradient_accumulation_steps": 16 * 16,
        "steps_per_generation": 64 * 16,
        "max_steps": 96 * 4,
        "save_steps": 4 * 4,
    }


def test_every_number_of_a_paper_s_configuration_says_where_it_is_from() -> None:
    for config in (path for path in CONFIGS if path.stem.startswith("history_aware")):
        lines = config.read_text(encoding="utf-8").splitlines()
        start = lines.index("trainer:  # arguments of trl.GRPOConfig")
        (end,) = [n for n, line in enumerate(lines) if line.startswith("  use_vllm")]
        assert [line for line in lines[start + 1 : end] if "§" not in line and "ours" not in line] == []


@pytest.mark.usefixtures("with_trl")
def test_batches_follow_the_processes_and_have_to_divide(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WORLD_SIZE", "8")
    config = {
        "batch": {"steps": 2, "prompts": 4, "mini_batch": 2, "per_device": 1, "save_every": 1},
        "trainer": {"num_generations": 8},
    }
    run = recipe.Run(model="m", output=tmp_path, config=config, environments=awm_hub.load())
    found = recipe.batches(run)
    assert (found["gradient_accumulation_steps"], found["steps_per_generation"], found["max_steps"]) == (2, 4, 4)
    config["trainer"]["num_generations"] = 3
    with pytest.raises(UsageError, match="3 rollouts each into 8 processes of 1"):
        recipe.batches(run)


@pytest.mark.usefixtures("with_trl")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            "trainer.learnig_rate=1.0",
            "trainer.learnig_rate is no argument of GRPOConfig\n  next: did you mean learning",
        ),
        ("trainer.output_dir=x", "trainer.output_dir cannot be set here"),
        ("trainer.learning_rate=7e-7", "trainer.learning_rate is the text '7e-7'\n  next: write numbers without"),
        ("windows.turns=3", "there is no section 'windows'\n  next: did you mean window?"),
        ("window.turn=3", "window.turn is no argument of Window\n  next: did you mean turns?"),
        ("batch.size=3", "batch.size is no argument\n  next: one of mini_batch, per_device"),
        ("evaluation.window=3", "evaluation.window cannot be set here"),
        ("lora.rank=3", "lora.rank is no argument of LoraConfig"),
        ("trainer=3", "--set trainer=3\n  next: write --set SECTION.KEY=VALUE"),
    ],
)
def test_a_key_that_means_nothing_is_named(
    change: str, message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = ["--config", str(HISTORY_AWARE), "--output", str(tmp_path / "out"), "--plan", "--set", change]
    assert loaded("grpo_history_aware").main(words) == 2
    told = capsys.readouterr().err
    assert message in told
    assert told.startswith("error: ")


@pytest.mark.usefixtures("with_trl")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot be read"),
        ("- 1", "holds no sections"),
        ("a: [", "cannot be read"),
        ("trainer: 3", "trainer is 3"),
        ("model: m\nbogus: {}", "there is no section 'bogus'"),
    ],
)
def test_a_file_that_is_no_configuration_is_named(
    text: str | None, message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "wrong.yaml"
    if text is not None:
        path.write_text(text)
    assert loaded("grpo_simple").main(["--config", str(path), "--plan"]) == 2
    told = capsys.readouterr().err
    assert message in told
    assert "wrong.yaml" in told


@pytest.mark.usefixtures("with_trl")
@pytest.mark.parametrize("config", CONFIGS, ids=lambda p: p.stem)
def test_a_plan_is_printed_and_nothing_is_started(
    config: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert loaded(program_of(config)).main(["--config", str(config), "--output", str(out), "--plan"]) == 0
    told = capsys.readouterr().out
    size = re.search(r"qwen3_(\d+b)", config.stem)[1].upper()  # type: ignore[index]
    assert re.search(rf"^model +Qwen3-{size}, ", told, re.MULTILINE)
    assert re.search(r"^activations +\d", told, re.MULTILINE)
    assert not out.exists()
    if "sft" not in config.name:
        assert re.search(r"^rollouts a step +1,024 ", told, re.MULTILINE)
        assert re.search(r"^instances +\d", told, re.MULTILINE)
        rows = "5, at most 16" if "history" in config.name else "1, at most 1"
        assert re.search(rf"^rows a rollout +{rows} ", told, re.MULTILINE)


def test_adapters_are_a_small_share_of_the_model(tmp_path: Path) -> None:
    run = recipe.Run(model="Qwen/Qwen3-4B", output=tmp_path, config={"lora": {"r": 16}}, environments=awm_hub.load())
    m = QWEN3["Qwen3-4B"]
    each = 2 * (2560 + 4096) + 2 * (2560 + 1024) + 3 * (2560 + 9728)
    assert run.trainable_share() == pytest.approx(16 * each * 36 / m.parameters)
    assert 0.005 < run.trainable_share() < 0.01


def test_help_says_what_the_recipe_trains(tmp_path: Path) -> None:
    done = play("sft_solutions", "--help", home=tmp_path)
    assert done.returncode == 0
    assert "Supervised fine-tuning on what solves tasks" in done.stdout


@pytest.mark.usefixtures("with_trl")
def test_several_gpus_are_trained_on_by_accelerate_and_evaluated_on_afterwards(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program, seen = loaded("grpo_simple"), []
    done = {"code": 0}

    def run(command: list[str], *, env: dict[str, str], check: bool) -> Any:
        seen.append(("launch", command, env.get("AWM_HUB_RECIPE_PREPARED")))
        return subprocess.CompletedProcess(command, done["code"])

    monkeypatch.setattr(recipe, "gpus_count", lambda: 8)
    monkeypatch.setattr(recipe.subprocess, "run", run)
    monkeypatch.setattr(recipe.Run, "evaluate", lambda self: seen.append(("evaluate",)))
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    words = ["--config", str(TRAINING / "configs" / "simple_qwen3_4b.yaml"), "--output", str(tmp_path)]
    assert program.main(words) == 0
    (_, command, mark), evaluated = seen
    assert command[:4] == [sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu"]
    assert command[command.index("--num_processes") + 1] == "8"
    assert command[-5:] == [str(TRAINING / "grpo_simple.py"), *words]
    assert (mark, evaluated) == ("1", ("evaluate",))
    done["code"], seen[:] = 3, []
    assert program.main(words) == 3
    assert [what for what, *_ in seen] == ["launch"]


@pytest.fixture(scope="module")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model with its tokenizer, saved as a folder."""
    for name in ("torch", "trl", "peft"):
        pytest.importorskip(name)
    folder = tmp_path_factory.mktemp("tiny")
    texts = [text for environment in awm_hub.load().values() for text in tiny.texts_of(environment)]
    tokenizer = tiny.make_tokenizer(texts)
    tiny.tiny_model(tokenizer, hidden=16, layers=1).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def play(program: str, *words: str, home: Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run a recipe in a process of its own."""
    found = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "HF_HOME": str(home / "hf"),
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "TRL_EXPERIMENTAL_SILENCE": "1",
        **(env or {}),
    }
    command = [sys.executable, str(TRAINING / f"{program}.py"), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=400, env=found, check=False)


def smoke(
    config: str, model: Path, out: Path, *words: str, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """A smoke run of a configuration."""
    path = TRAINING / "configs" / f"{config}.yaml"
    given = ["--config", str(path), "--model", str(model), "--output", str(out), "--smoke", *words]
    done = play(program_of(path), *given, home=out.parent, env=env)
    assert done.returncode == 0, done.stderr[-3000:]
    return done


def state(checkpoint: Path) -> dict[str, Any]:
    """What the trainer knew at a checkpoint."""
    found: dict[str, Any] = json.loads((checkpoint / "trainer_state.json").read_text())
    return found


@SLOW
def test_history_aware_training_runs_is_evaluated_and_goes_on_from_its_checkpoint(
    tiny_folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    done = smoke("history_aware_qwen3_4b", tiny_folder, out, "--resume")
    assert "there is no checkpoint yet: starting anew" in done.stdout
    assert "pass@1 on test: 0.0, 20 attempts, {'format_error': 20}" in done.stdout
    assert json.loads((out / "evaluation.json").read_text())["overall"]["rollouts"] == 20
    assert [path.name for path in (out / "trajectories" / "trajectories").iterdir()] == ["train-000000-000-000.parquet"]
    again = smoke("history_aware_qwen3_4b", tiny_folder, out, "--resume", "--set", "batch.steps=2")
    assert f"resuming from {out / 'checkpoint-2'}" in again.stdout
    found = state(out / "checkpoint-4")
    assert [entry["step"] for entry in found["log_history"]] == [1, 2, 3, 4]
    assert found["log_history"][2]["rollout/format_errors"] == 1.0
    assert len(list((out / "trajectories" / "trajectories").iterdir())) == 2


@SLOW
def test_adapters_are_trained_and_a_checkpoint_of_the_other_kind_is_refused(tiny_folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    smoke("history_aware_qwen3_4b_lora", tiny_folder, out)
    assert (out / "adapter_config.json").exists()
    assert not (out / "model.safetensors").exists()
    (out / "adapter_model.safetensors").unlink()
    again = smoke("history_aware_qwen3_4b", tiny_folder, out, "--lora", "--resume")
    assert f"{out / 'checkpoint-2'} is the end of the training" in again.stdout
    assert (out / "adapter_model.safetensors").exists()
    assert not (out / "checkpoint-3").exists()
    path = TRAINING / "configs" / "history_aware_qwen3_4b.yaml"
    words = ["--config", str(path), "--model", str(tiny_folder), "--output", str(out), "--smoke", "--resume"]
    done = play("grpo_history_aware", *words, home=tmp_path)
    assert done.returncode == 2
    assert "checkpoint-2 is of a training of adapters" in done.stderr


@SLOW
def test_simple_training_runs_and_is_evaluated(tiny_folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = smoke("simple_qwen3_4b", tiny_folder, out)
    assert "pass@1 on test: 0.0, 20 attempts" in done.stdout
    assert [entry["step"] for entry in state(out / "checkpoint-2")["log_history"]] == [1, 2]


@SLOW
def test_solutions_are_learnt_and_their_examples_are_kept_for_a_resumed_run(tiny_folder: Path, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    out = tmp_path / "out"
    done = smoke("sft_qwen3_4b", tiny_folder, out)
    examples = pq.read_table(out / "examples.parquet").to_pylist()
    assert f"{len(examples)} examples in" in done.stdout
    solved = [t for e in awm_hub.load().where(split="train").values() for t in e.tasks if t.solution]
    assert len(examples) == sum(len(task.solution or ()) + 2 for task in solved)
    assert [m["role"] for m in examples[0]["prompt"]] == ["system", "user"]
    assert [m["role"] for m in examples[0]["completion"]] == ["assistant"]
    losses = [entry["loss"] for entry in state(out / "checkpoint-2")["log_history"]]
    assert len(losses) == 2
    assert all(6 < loss < 8 for loss in losses)
    again = smoke("sft_qwen3_4b", tiny_folder, out, "--resume", "--set", "batch.epochs=2")
    assert "examples in" not in again.stdout
    assert state(out / "checkpoint-4")["global_step"] == 4


@SLOW
def test_an_evicted_job_goes_on_from_the_checkpoint_on_the_hub(
    tiny_folder: Path, tmp_path: Path, loopback_hub: LoopbackHub
) -> None:
    env = {**loopback_hub.environ(tmp_path / "hf"), "HF_HUB_OFFLINE": "0"}
    repo = f"{USER}/trained"
    first = tmp_path / "first" / "out"
    first.parent.mkdir()
    smoke("simple_qwen3_4b", tiny_folder, first, "--push-to-hub", repo, "--resume", env=env)
    names = set(loopback_hub.repo(repo, "model").head.files)
    assert {"last-checkpoint/trainer_state.json", "last-checkpoint/optimizer.pt", "model.safetensors"} <= names
    shutil.rmtree(first)
    second = tmp_path / "second" / "out"
    second.parent.mkdir()
    words = ["--push-to-hub", repo, "--resume", "--set", "batch.steps=2"]
    done = smoke("simple_qwen3_4b", tiny_folder, second, *words, env=env)
    assert f"resuming from {second / 'last-checkpoint'}" in done.stdout
    assert [entry["step"] for entry in state(second / "checkpoint-4")["log_history"]] == [1, 2, 3, 4]


def test_a_dataset_without_a_test_split_is_not_evaluated_and_it_is_said(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    environments = awm_hub.load().where(split="train")
    run = recipe.Run(model="m", output=tmp_path, config={"evaluation": {}}, environments=environments)
    run.evaluate()
    assert "has no environment of the split test: nothing is evaluated" in capsys.readouterr().out

"""The experiment as a command, resumable cell by cell.

    python tests/training/learning/run.py --seeds 0 1 2 -o training/learning

For each seed a model learns from solutions (SFT, whole conversations), and two copies of it are reinforced: one that
sees its full history, one that sees the window. All three are evaluated on both. Each stage of each seed writes one
JSON file into `--work`, with its figures, and the weights beside it; what is there already is not done again. In the
end, and with `--report` at once, the report is written from whatever is there.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
for _name, _value in (
    ("OMP_NUM_THREADS", "1"),
    ("HF_HUB_OFFLINE", "1"),
    ("TRL_EXPERIMENTAL_SILENCE", "1"),
    ("TOKENIZERS_PARALLELISM", "false"),
):
    os.environ.setdefault(_name, _value)

from training.learning import report, stages, world  # noqa: E402

SFT_STEPS, GRPO_STEPS = 350, 50
POLICIES = ("sft", "full", "window")
VIEWS = {"full": world.FULL, "window": world.WINDOW}


def main(arguments: Sequence[str] | None = None) -> None:
    """Do what is missing, and write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("-o", "--out", type=Path, default=Path("training/learning"), help="where the report goes")
    parser.add_argument("--work", type=Path, default=Path("build/learning"), help="where results and weights are kept")
    parser.add_argument("--policies", nargs="+", choices=POLICIES, default=list(POLICIES))
    parser.add_argument("--tasks", type=int, default=world.HELD_OUT, help="held-out tasks of each cell")
    parser.add_argument("--sft-steps", type=int, default=SFT_STEPS)
    parser.add_argument("--grpo-steps", type=int, default=GRPO_STEPS)
    parser.add_argument("--report", action="store_true", help="only write the report from the results there are")
    given = parser.parse_args(arguments)
    work = given.work
    work.mkdir(parents=True, exist_ok=True)
    if not given.report:
        import torch

        torch.set_num_threads(1)
        for seed in given.seeds:
            for said in _seed(seed, work, given):
                print(said, flush=True)
                report.write(work, given.out)
    report.write(work, given.out)
    print(f"{given.out}.md and {given.out}/: the report", flush=True)


def _seed(seed: int, work: Path, given: argparse.Namespace) -> Any:
    """Every stage and cell of a seed; yields what to say after each."""
    tokenizer = world.tokenizer()
    for policy in given.policies:
        name = f"{policy}-{seed}"
        yield _once(work, f"train-{name}", lambda p=policy, n=name: _trained(p, n, seed, work, tokenizer, given))
        for view, window in VIEWS.items():

            def cell(name: str = name, window: Any = window) -> dict[str, Any]:
                found = _weights(work / name)
                tasks = world.held_out_tasks(given.tasks)
                return stages.evaluate(found, tokenizer, tasks, window=window, seed=10_000 * (seed + 1))

            yield _once(work, f"cell-{name}-{view}", cell)


def _trained(
    policy: str, name: str, seed: int, work: Path, tokenizer: Any, given: argparse.Namespace
) -> dict[str, Any]:
    if policy == "sft":
        student = stages.model(tokenizer, seed=seed)
        figures = stages.imitate(
            student, tokenizer, _examples(work), work / "out", steps=given.sft_steps, seed=seed, said=_say
        )
        figures["parameters"] = student.num_parameters()
    else:
        student = _weights(work / f"sft-{seed}")
        window = VIEWS[policy]
        figures = stages.reinforce(
            student, tokenizer, work / "out", window=window, steps=given.grpo_steps, seed=seed, said=_say
        )
    student.save_pretrained(work / name)
    return figures


def _examples(work: Path) -> list[dict[str, Any]]:
    """The demonstrations, made once."""
    place = work / "demonstrations.json"
    if not place.exists():
        _say(f"  carrying out {world.TRAIN} solutions")
        _write(place, stages.demonstrations(world.TRAIN))
    found: list[dict[str, Any]] = json.loads(place.read_text(encoding="utf-8"))
    return found


def _once(work: Path, name: str, make: Callable[[], dict[str, Any]]) -> str:
    place = work / f"{name}.json"
    if place.exists():
        return f"{name}: there already"
    _say(f"{time.strftime('%H:%M:%S')} {name}")
    figures = make()
    _write(place, figures)
    shown = {k: round(v, 3) if isinstance(v, float) else v for k, v in figures.items() if k != "curve"}
    return f"{name}: " + ", ".join(f"{key} {value}" for key, value in shown.items())


def _write(place: Path, value: Any) -> None:
    """Whole or not at all."""
    part = place.with_suffix(".part")
    part.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
    part.replace(place)


def _weights(place: Path) -> Any:
    import torch
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(place, dtype=torch.float32)


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    main()

"""The experiment as a command.

    python tests/training/learning/run.py --seeds 3 4 5 -o training/learning

For each seed a model learns from solutions (SFT). One copy of it is then reinforced with full histories, another with
the window; steps, rollouts and rate are the same. All three are evaluated on both. Each stage of each seed writes one
JSON file into `--work`, with its figures, and the weights beside it; what is there already is not done again. After
each of them, and with `--report` at once, the report is written from whatever is there.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
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

SFT_STEPS, GRPO_STEPS = 300, 50
SHARE_CUT = 0.02
"""Of the conversations in SFT, which are seen through the window, so that something succeeds there from the start."""
VIEWS = {"full": world.FULL, "window": world.WINDOW}


def main(arguments: Sequence[str] | None = None) -> None:
    """Do what is missing, and write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[3, 4, 5])
    parser.add_argument("-o", "--out", type=Path, default=Path("training/learning"), help="where the report goes")
    parser.add_argument("--work", type=Path, default=Path("build/learning"), help="where results and weights are kept")
    parser.add_argument("--report", action="store_true", help="only write the report from the results there are")
    given = parser.parse_args(arguments)
    given.work.mkdir(parents=True, exist_ok=True)
    if not given.report:
        import torch

        torch.set_num_threads(1)
        for seed in given.seeds:
            for said in _seed(seed, given.work):
                print(said, flush=True)
                report.write(given.work, given.out)
    report.write(given.work, given.out)
    print(f"{given.out}.md and {given.out}/: the report", flush=True)


def _seed(seed: int, work: Path) -> Iterator[str]:
    """Every stage and cell of a seed; yields what to say after each."""
    for policy in ("sft", "window", "full"):
        name = f"{policy}-{seed}"
        yield _once(work, f"train-{name}", partial(_trained, policy, seed, work))
        for view in VIEWS:
            yield _once(work, f"cell-{name}-{view}", partial(_evaluated, work / name, view, seed))


def _trained(policy: str, seed: int, work: Path) -> dict[str, Any]:
    """Train a policy, keep its weights, and return the figures."""
    tokenizer, scratch = world.tokenizer(), work / "scratch"
    if policy == "sft":
        student = stages.model(tokenizer, seed=seed)
        lessons = stages.lessons(_examples(work), tokenizer, share_cut=SHARE_CUT)
        figures = stages.imitate(student, tokenizer, lessons, scratch, steps=SFT_STEPS, seed=seed)
        figures |= {
            "parameters": student.num_parameters(),
            "vocabulary": len(tokenizer),
            "share_cut": SHARE_CUT,
        }
    else:
        student, tasks = _weights(work / f"sft-{seed}"), world.train_tasks()[world.IMITATED :]
        window = VIEWS[policy]
        figures = stages.reinforce(student, tokenizer, scratch, window=window, steps=GRPO_STEPS, seed=seed, tasks=tasks)
    student.save_pretrained(work / f"{policy}-{seed}")
    return figures


def _evaluated(weights: Path, view: str, seed: int) -> dict[str, Any]:
    return stages.evaluate(
        _weights(weights), world.tokenizer(), world.held_out_tasks(), window=VIEWS[view], seed=10_000 * (seed + 1)
    )


def _examples(work: Path) -> list[dict[str, Any]]:
    """The demonstrations, made once."""
    place = work / "demonstrations.json"
    if not place.exists():
        print(f"carrying out {world.IMITATED} solutions", flush=True)
        _write(place, stages.demonstrations(world.IMITATED))
    found: list[dict[str, Any]] = json.loads(place.read_text(encoding="utf-8"))
    return found


def _once(work: Path, name: str, make: Callable[[], dict[str, Any]]) -> str:
    place = work / f"{name}.json"
    if place.exists():
        return f"{name}: there already"
    print(f"{time.strftime('%H:%M:%S')} {name}", flush=True)
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


if __name__ == "__main__":
    main()

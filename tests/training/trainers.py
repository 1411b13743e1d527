"""Trainers of tiny models in the small library, whose sampler follows scripts; they need torch and TRL."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from training.scripted import Script, row_of

from awm_hub.history import Window
from awm_hub.training.episodes import Episodes
from awm_hub.training.rewards import HybridReward
from awm_hub.training.rollout import WindowedRollout
from training import tiny

LONG = (
    tiny.listing_tools(),
    tiny.using("search_members", query="Ingeborg"),
    tiny.using("get_member", member_id=1),
    tiny.using("get_member", member_id=2),
    tiny.answering("8.55"),
)
GROUP = (LONG, tiny.BROKEN, tiny.FAILED, tiny.SOLVED)
WINDOW = Window(turns=1)
TASKS = ("owed_by_ingeborg", "overdue_at_millbrook", "next_on_the_waiting_list")


def config(out: Path, **more: Any) -> Any:
    """Four rollouts of one prompt a step, one micro-batch each."""
    settings = {
        "output_dir": str(out),
        "per_device_train_batch_size": 4,
        "num_generations": 4,
        "max_completion_length": 64,
        "max_steps": 1,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": "none",
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "learning_rate": 1e-3,
        "lr_scheduler_type": "constant",
        "beta": 0.0,
        "shuffle_dataset": False,
        "disable_tqdm": True,
        "seed": 3,
    }
    import trl

    return trl.GRPOConfig(**{**settings, **more})


def make(
    out: Path,
    tokenizer: Any,
    episodes: Episodes,
    *,
    scripts: Sequence[Any] = GROUP,
    plain: bool = False,
    rows: Any = None,
    rollout: Any = None,
    rewards: Any = None,
    callbacks: Sequence[Any] = (),
    **more: Any,
) -> Any:
    """A trainer whose sampler follows scripts, one for each rollout of a group."""
    import datasets
    import torch
    import trl

    from awm_hub.training.trainer import HistoryAwareGRPOTrainer

    torch.manual_seed(0)
    kind = trl.GRPOTrainer if plain else HistoryAwareGRPOTrainer
    found = rollout or WindowedRollout(window=WINDOW, generate=Script(tokenizer, *scripts))
    return kind(
        model=tiny.tiny_model(tokenizer, hidden=16, layers=1),
        processing_class=tokenizer,
        args=config(out, **more),
        train_dataset=rows if rows is not None else datasets.Dataset.from_list([row_of()] * 8),
        environment_factory=episodes.factory(),
        rollout_func=found,
        reward_funcs=rewards or HybridReward(),
        callbacks=list(callbacks),
    )


def streamed(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Rows, one by one."""
    yield from rows

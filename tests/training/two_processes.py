"""One step of training on each of two processes, with different numbers of rows; run by `test_processes.py`."""

import json
import sys
from pathlib import Path
from typing import Any

import torch
import trl
from datasets import Dataset
from training.scripted import Script, row_of

from awm_hub.history import Window
from awm_hub.training import HistoryAwareGRPOTrainer, TrajectoryLog
from awm_hub.training.spec import history_aware
from training import tiny

LONG = (*tiny.SOLVED[:3], tiny.using("get_member", member_id=2), tiny.answering("8.55"))


class Watched(HistoryAwareGRPOTrainer):  # type: ignore[misc]
    """Keeps what it was given."""

    batch: dict[str, Any]

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        self.batch = super()._generate_and_score_completions(inputs)
        return self.batch


def main(out: Path) -> None:
    tokenizer = tiny.tiny_tokenizer()
    spec = history_aware(
        train_dataset=Dataset.from_list([row_of()] * 4),
        environments={"public_library_1": tiny.library()},
        window=Window(turns=1),
        log=TrajectoryLog(out / "log"),
    )
    torch.manual_seed(0)
    with spec:
        trainer = Watched(
            **spec.arguments(),
            model=tiny.tiny_model(tokenizer, hidden=16, layers=1),
            processing_class=tokenizer,
            args=trl.GRPOConfig(
                output_dir=str(out),
                per_device_train_batch_size=2,
                num_generations=4,
                max_steps=1,
                max_completion_length=64,
                logging_steps=1,
                save_strategy="no",
                report_to="none",
                use_cpu=True,
                bf16=False,
                gradient_checkpointing=False,
                beta=0.0,
                disable_tqdm=True,
            ),
        )
        rank = trainer.accelerator.process_index
        scripts = [(LONG, tiny.SOLVED), (tiny.BROKEN, tiny.FAILED)][rank]
        trainer.rollout_func._generate = Script(tokenizer, *scripts)
        trainer.train()
    found = {
        "rows": len(trainer.batch["advantages"]),
        "owners": trainer.row_owners,
        "advantages": trainer.batch["advantages"].tolist(),
        "items": int(trainer.batch["num_items_in_batch"]),
        "written": sum(len(turn.output) for episode in trainer.environments for turn in episode.turns),
        "weights": sum(p.abs().sum().item() for p in trainer.accelerator.unwrap_model(trainer.model).parameters()),
        "live": spec.episodes.live_instances,
    }
    (out / f"rank{rank}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""A training that is interrupted goes on where its checkpoint was."""

from pathlib import Path
from typing import Any

import pytest
from training.scripted import Script, row_of
from training.trainers import GROUP, TASKS, WINDOW, make, streamed

from awm_hub.training.episodes import Episodes
from awm_hub.training.rollout import WindowedRollout
from training import tiny

torch = pytest.importorskip("torch")
pytest.importorskip("trl")
datasets = pytest.importorskip("datasets")


@pytest.mark.slow
@pytest.mark.parametrize("streaming", [False, True])
def test_a_resumed_training_goes_on_with_the_same_rows_and_losses(
    tmp_path: Path, tokenizer: Any, streaming: bool
) -> None:
    """Four steps at once, or interrupted in the third and resumed: what was asked, and what came of it, are equal."""
    from transformers import TrainerCallback

    class Interrupting(TrainerCallback):  # type: ignore[misc]
        def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if state.global_step == 2:
                raise KeyboardInterrupt

    def trained(
        out: Path, interrupted: bool = False, resume: bool = False
    ) -> tuple[list[Any], list[Any], dict[str, Any]]:
        episodes = Episodes({"public_library_1": tiny.library()})
        if streaming:
            seeded = [row_of(TASKS[n % 3], seed=n) for n in range(9)]
            rows: Any = datasets.IterableDataset.from_generator(streamed, gen_kwargs={"rows": seeded})
        else:
            rows = datasets.Dataset.from_list([row_of(TASKS[n % 3], seed=n) for n in range(9)])
        script = Script(tokenizer, *GROUP)
        trainer = make(
            out,
            tokenizer,
            episodes,
            rows=rows,
            rollout=WindowedRollout(window=WINDOW, generate=script),
            max_steps=4,
            callbacks=[Interrupting()] if interrupted else [],
            save_strategy="steps",
            save_steps=2,
            shuffle_dataset=True,
            per_device_train_batch_size=2,
            gradient_accumulation_steps=2,
        )
        if interrupted:
            with pytest.raises(KeyboardInterrupt):
                trainer.train()
            assert episodes.live_instances == 0
        else:
            trainer.train(resume_from_checkpoint=resume or None)
        losses = [(e["step"], e["loss"], e["grad_norm"]) for e in trainer.state.log_history if "loss" in e]
        asked = [[ask.prompt for ask in batch] for batch in script.asked]
        episodes.close()
        return asked, losses, {n: p.detach().clone() for n, p in trainer.model.named_parameters()}

    asked, losses, weights = trained(tmp_path / "whole")
    first, _, _ = trained(tmp_path / "parts", interrupted=True)
    second, all_losses, resumed = trained(tmp_path / "parts", resume=True)
    assert [*first, *second] == asked
    assert [step for step, *_ in all_losses] == [step for step, *_ in losses] == [1, 2, 3, 4]
    for (_, loss, norm), (_, other, other_norm) in zip(losses, all_losses, strict=True):
        assert other == pytest.approx(loss, rel=1e-4, abs=1e-6)
        assert other_norm == pytest.approx(norm, rel=1e-4)
    for name, weight in weights.items():
        torch.testing.assert_close(resumed[name], weight, rtol=1e-4, atol=1e-6)

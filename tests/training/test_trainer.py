"""Training in the library on one core: rows, advantages, gradients, instances, interruptions."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from training.scripted import Script, row_of
from training.trainers import GROUP, LONG, TASKS, WINDOW, make, streamed

from awm_hub.errors import UsageError
from awm_hub.history import Window
from awm_hub.training.episodes import Episodes
from awm_hub.training.rollout import WindowedRollout
from training import tiny

torch = pytest.importorskip("torch")
trl = pytest.importorskip("trl")
datasets = pytest.importorskip("datasets")


def batch_of(trainer: Any, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What the trainer makes of a generation batch."""
    trainer.model.train()
    found: dict[str, Any] = trainer._generate_and_score_completions(list(rows))
    return found


def gradients(trainer: Any, batch: dict[str, Any]) -> dict[str, Any]:
    """The gradient of every parameter for a batch as one micro-batch."""
    trainer.model.zero_grad()
    trainer.current_gradient_accumulation_steps = 1
    trainer._compute_loss(trainer.model, batch).backward()
    return {name: p.grad.clone() for name, p in trainer.model.named_parameters() if p.grad is not None}


def test_every_row_has_the_advantage_of_its_trajectory(tmp_path: Path, tokenizer: Any, episodes: Episodes) -> None:
    trainer = make(tmp_path, tokenizer, episodes)
    batch = batch_of(trainer, [row_of()] * 4)
    rewards = torch.tensor([1.0, -1.0, 0.0, 1.0])
    expected = (rewards - rewards.mean()) / (rewards.std() + 1e-4)
    assert trainer.row_owners == [0, 0, 0, 1, 2, 3, 3]
    torch.testing.assert_close(batch["advantages"], expected[trainer.row_owners])
    assert batch["completion_ids"].shape[0] == 7
    written = sum(len(turn.output) for episode in trainer.environments for turn in episode.turns)
    assert int((batch["completion_mask"] * batch["tool_mask"]).sum()) == written == int(batch["num_items_in_batch"])


def test_rows_of_nobody_have_no_advantage_and_change_no_gradient(
    tmp_path: Path, tokenizer: Any, episodes: Episodes
) -> None:
    trainer = make(tmp_path, tokenizer, episodes)
    bare = batch_of(trainer, [row_of()] * 4)
    trainer.args.steps_per_generation = 10
    full = batch_of(trainer, [row_of()] * 4)
    trainer.args.steps_per_generation = 1
    assert trainer.row_owners == [0, 0, 0, 1, 2, 3, 3, -1, -1, -1]
    assert full["advantages"][7:].tolist() == [0.0, 0.0, 0.0]
    assert int(full["num_items_in_batch"]) == int(bare["num_items_in_batch"])
    before, after = gradients(trainer, bare), gradients(trainer, full)
    assert before.keys() == after.keys()
    assert any(gradient.abs().max() > 1e-4 for gradient in before.values())
    for name, gradient in before.items():
        torch.testing.assert_close(after[name], gradient, rtol=1e-4, atol=1e-7)


def test_splitting_a_trajectory_into_rows_changes_no_gradient(
    tmp_path: Path, tokenizer: Any, episodes: Episodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One row for all turns that extend each other, or one row for each turn: the same tokens after the same tokens."""
    from awm_hub.training import rollout

    joined = make(tmp_path, tokenizer, episodes, rollout=_windowed(tokenizer, Window()))
    whole = batch_of(joined, [row_of()] * 4)
    of_all = rollout.rows_of
    monkeypatch.setattr(rollout, "rows_of", lambda turns: [row for turn in turns for row in of_all([turn])])
    split = batch_of(joined, [row_of()] * 4)
    assert (len(whole["advantages"]), len(split["advantages"])) == (4, 14)
    before, after = gradients(joined, whole), gradients(joined, split)
    for name, gradient in before.items():
        torch.testing.assert_close(after[name], gradient, rtol=1e-3, atol=1e-6)


def _windowed(tokenizer: Any, window: Window, **more: Any) -> WindowedRollout:
    return WindowedRollout(window=window, generate=Script(tokenizer, *GROUP), **more)


def test_more_rows_than_prompts_fail_in_a_plain_trainer_and_train_in_this_one(
    tmp_path: Path, tokenizer: Any, episodes: Episodes
) -> None:
    with pytest.raises(IndexError):
        make(
            tmp_path, tokenizer, episodes, plain=True, gradient_accumulation_steps=2, per_device_train_batch_size=2
        ).train()
    episodes.close()
    trainer = make(tmp_path, tokenizer, episodes, gradient_accumulation_steps=2, per_device_train_batch_size=2)
    before = {name: p.clone() for name, p in trainer.model.named_parameters()}
    trainer.train()
    (logged,) = [entry for entry in trainer.state.log_history if "loss" in entry]
    assert logged["reward"] == pytest.approx(0.25)
    assert logged["rollout/success"] == 0.5
    assert logged["rollout/format_errors"] == 0.25
    assert logged["grad_norm"] > 0
    assert any(not torch.equal(p, before[name]) for name, p in trainer.model.named_parameters())
    assert trainer.rollout_func.facts.rows == 7
    assert trainer.rollout_func.facts.padding == 1


def test_the_slots_variant_trains_with_a_plain_trainer(tmp_path: Path, tokenizer: Any, episodes: Episodes) -> None:
    rollout = _windowed(tokenizer, WINDOW, slots=3)
    trainer = make(
        tmp_path,
        tokenizer,
        episodes,
        plain=True,
        rollout=rollout,
        num_generations=12,
        per_device_train_batch_size=12,
    )
    trainer.train()
    (logged,) = [entry for entry in trainer.state.log_history if "loss" in entry]
    assert logged["reward"] == pytest.approx(0.25)
    assert logged["rollout/success"] == 0.5
    assert logged["grad_norm"] > 0
    assert (rollout.facts.rows, rollout.facts.padding, rollout.facts.lost) == (7, 5, 0)
    assert episodes.launched_on_demand == 4


def test_a_fault_of_the_environment_is_left_out_of_the_baseline(
    tmp_path: Path, tokenizer: Any, episodes: Episodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    from awm_hub.trajectory import ToolResult

    original = Episodes.call

    async def call(self: Episodes, calls: Any) -> Any:
        results = await original(self, calls)
        fault = ToolResult(type="fault", code="KeyError", message="boom")
        return [fault if c.arguments == {"member_id": 4} else r for c, r in zip(calls, results, strict=True)]

    monkeypatch.setattr(Episodes, "call", call)
    faulty = (tiny.listing_tools(), tiny.using("get_member", member_id=4), "never")
    trainer = make(tmp_path, tokenizer, episodes, scripts=(LONG, tiny.BROKEN, faulty, tiny.SOLVED))
    batch = batch_of(trainer, [row_of()] * 4)
    assert trainer.environments[2].termination == "environment_fault"
    rewards = torch.tensor([1.0, -1.0, 1.0])
    expected = (rewards - rewards.mean()) / (rewards.std() + 1e-4)
    of_trajectory = torch.stack([expected[0], expected[1], torch.tensor(0.0), expected[2]])
    torch.testing.assert_close(batch["advantages"], of_trajectory[trainer.row_owners])
    assert not any(math.isnan(a) for a in batch["advantages"].tolist())


def test_the_next_batchs_instances_are_launched_during_the_gradient_step(
    tmp_path: Path, tokenizer: Any, episodes: Episodes
) -> None:
    from transformers import TrainerCallback

    live = []

    class Looking(TrainerCallback):  # type: ignore[misc]
        def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            live.append((episodes.live_instances, len(episodes._holdings.ready)))

    rows = datasets.Dataset.from_list([row_of(TASKS[n % 3]) for n in range(6)])
    trainer = make(tmp_path, tokenizer, episodes, rows=rows, max_steps=4, callbacks=[Looking()])
    trainer.train()
    assert episodes.launched_ahead == 12
    assert episodes.launched_on_demand == 4
    assert len(live) == 4
    assert all(ready == 1 for _, ready in live[:3])
    assert 0 < max(count for count, _ in live) <= 4


def test_a_stream_of_rows_is_looked_ahead_at_too(tmp_path: Path, tokenizer: Any, episodes: Episodes) -> None:
    rows = datasets.IterableDataset.from_generator(streamed, gen_kwargs={"rows": [row_of(t) for t in TASKS * 2]})
    trainer = make(tmp_path, tokenizer, episodes, rows=rows, max_steps=3)
    trainer.train()
    assert episodes.launched_ahead == 8
    assert episodes.launched_on_demand == 4


class Failing:
    """A reward function that fails at the second batch."""

    __name__ = "failing"

    def __init__(self, error: BaseException | type[BaseException]) -> None:
        self.error, self.calls = error, 0

    def __call__(self, environments: Any, **columns: Any) -> list[float]:
        self.calls += 1
        if self.calls == 2:
            raise self.error
        return [float(n) for n in range(len(environments))]


@pytest.mark.parametrize("error", [RuntimeError("out of memory"), KeyboardInterrupt()])
def test_a_training_that_fails_or_is_interrupted_frees_every_instance(
    tmp_path: Path, tokenizer: Any, episodes: Episodes, error: BaseException
) -> None:
    rows = datasets.Dataset.from_list([row_of(TASKS[n % 3]) for n in range(6)])
    trainer = make(tmp_path, tokenizer, episodes, rows=rows, max_steps=3, rewards=Failing(error))
    with pytest.raises(type(error)):
        trainer.train()
    assert episodes.live_instances == 0
    assert episodes._holdings.pool is None


def test_the_end_of_a_training_frees_every_instance(tmp_path: Path, tokenizer: Any, episodes: Episodes) -> None:
    from awm_hub.training.trainer import CloseCallback

    rows = datasets.Dataset.from_list([row_of(TASKS[n % 3]) for n in range(6)])
    trainer = make(tmp_path, tokenizer, episodes, rows=rows, callbacks=[CloseCallback(episodes)])
    trainer.train()
    assert episodes.live_instances == 0
    assert episodes._holdings.pool is None


def test_a_worker_of_the_data_loader_gets_a_collator_without_instances(
    tmp_path: Path, tokenizer: Any, episodes: Episodes
) -> None:
    import pickle

    trainer = make(tmp_path, tokenizer, episodes)
    rows = [row_of()]
    assert pickle.loads(pickle.dumps(trainer.data_collator))(rows) == rows
    assert trainer.data_collator(rows) == rows


def test_evaluating_plays_the_episodes_too(tmp_path: Path, tokenizer: Any, episodes: Episodes) -> None:
    trainer = make(tmp_path, tokenizer, episodes, per_device_eval_batch_size=4)
    found = trainer.evaluate(datasets.Dataset.from_list([row_of()]))
    assert found["eval_rollout/success"] == 0.5
    assert {episode.mode for episode in trainer.environments} == {"eval"}
    episodes.close()


def test_the_model_itself_samples_where_nothing_else_is_said(
    tmp_path: Path, tokenizer: Any, episodes: Episodes
) -> None:
    rollout = WindowedRollout(window=WINDOW)
    trainer = make(tmp_path, tokenizer, episodes, rollout=rollout, max_completion_length=8)
    trainer.train()
    outputs = [turn.output for episode in trainer.environments for turn in episode.turns]
    assert len(outputs) == 4
    assert all(0 < len(output) <= 8 for output in outputs)
    assert {episode.termination for episode in trainer.environments} == {"format_error"}
    assert trainer.model.training


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"loss_type": "grpo"}, "weighs a trajectory by the number of its rows"),
        ({"log_completions": True}, "pairs prompts with rows"),
    ],
)
def test_settings_that_would_misread_the_rows_are_refused(
    tmp_path: Path, tokenizer: Any, episodes: Episodes, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        make(tmp_path, tokenizer, episodes, **settings)


def test_a_trl_without_the_overridden_method_is_refused_by_name(
    tmp_path: Path, tokenizer: Any, episodes: Episodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trl.GRPOTrainer, "_generate_and_score_completions", lambda self, inputs, mode: None)
    with pytest.raises(UsageError, match=r"trl>=1.16,<1.17") as caught:
        make(tmp_path, tokenizer, episodes)
    assert trl.__version__ in str(caught.value)


def test_a_trl_that_returns_other_advantages_is_refused_by_name(
    tmp_path: Path, tokenizer: Any, episodes: Episodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = trl.GRPOTrainer._generate_and_score_completions

    def changed(self: Any, inputs: Any) -> Any:
        return {**original(self, inputs), "advantages": torch.zeros(len(inputs), 2)}

    monkeypatch.setattr(trl.GRPOTrainer, "_generate_and_score_completions", changed)
    with pytest.raises(UsageError, match=r"no advantage for each trajectory[\s\S]*trl>=1.16,<1.17"):
        batch_of(make(tmp_path, tokenizer, episodes), [row_of()] * 4)

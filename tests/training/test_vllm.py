"""TRL's colocated vLLM on a CPU: what it samples, the weights it has, and the correction for what it got wrong.

A tiny model learns the messages of three scripts, so that attempts have several turns and several rows. It then takes
GRPO steps in the library, sampled by vLLM: once with all its weights, once with LoRA. vLLM is asked for float32 without
compilation, for else it rounds to bfloat16 and its log probabilities are those of the trained model only roughly.
"""

import gc
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from training.scripted import Script, Trainer, row_of
from training.trainers import WINDOW, config

from awm_hub.training.episodes import Episodes
from awm_hub.training.rollout import WindowedRollout
from training import tiny

pytest.importorskip("vllm", reason="runs in an environment of its own: make test-vllm")
pytest.importorskip("trl")
torch = pytest.importorskip("torch")
pytestmark = pytest.mark.slow

LEARNT = (tiny.SOLVED, tiny.FAILED, tiny.BROKEN)
ROLLOUTS = 8
MOST_TURNS = 4
MOST_ROWS = 3 * ROLLOUTS
"""With a window of one turn the first two turns share a row, and each later one has its own."""
LEARNING_RATE = {"all weights": 3e-3, "LoRA": 3e-2}
Sampled = tuple[tuple[int, ...], tuple[int, ...], tuple[float, ...]]
"""A prompt, what was written after it, and the log probabilities of that."""


@dataclass(kw_only=True)
class Batch:
    """What was sampled, and what the trainer made of it."""

    found: dict[str, Any]
    owners: list[int]
    turns: list[list[Sampled]]
    """Of each attempt."""
    sampled: list[Sampled]
    """By vLLM, in the order of sampling."""

    @property
    def trained(self) -> Any:
        """Which tokens of the rows are trained."""
        return (self.found["completion_mask"] * self.found["tool_mask"]).bool()


@dataclass(kw_only=True)
class Run:
    """Two steps of training, and a batch by a vLLM with stale weights and one by a vLLM with the model's."""

    trainer: Any
    checkpoint: Path
    batches: list[Batch] = field(default_factory=list)
    known: dict[str, Any] = field(default_factory=dict)
    """Log probabilities of a fixed text by vLLM and by the model, before and after training."""

    @property
    def steps(self) -> list[Batch]:
        return self.batches[:2]

    @property
    def stale(self) -> Batch:
        return self.batches[2]

    @property
    def padded(self) -> Batch:
        return self.batches[3]


@pytest.fixture(scope="module")
def checkpoint(tokenizer: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint that has learnt the scripts, the three of them in equal parts."""
    episodes = Episodes({"public_library_1": tiny.library()})
    made = [episodes.factory()() for _ in LEARNT]
    for episode in made:
        episode.reset(**row_of())
    rollout = WindowedRollout(window=WINDOW, generate=Script(tokenizer, *LEARNT))
    played = rollout([row_of()["prompt"]] * len(LEARNT), Trainer(tokenizer, made))
    episodes.close()
    model = tiny.tiny_model(tokenizer, hidden=64)  # heads of 32, the smallest that vLLM has kernels for
    learn(model, played, tokenizer.pad_token_id)
    out = tmp_path_factory.mktemp("learnt")
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)
    return out


def learn(model: Any, played: dict[str, Any], padding: int) -> None:
    """Learn what is trained of rows, until it is likely."""
    rows = list(zip(played["prompt_ids"], played["completion_ids"], played["env_mask"], strict=True))
    width = max(len(prompt) + len(completion) for prompt, completion, _ in rows)
    ids = torch.tensor([(prompt + completion + [padding] * width)[:width] for prompt, completion, _ in rows])
    written = [
        (n, len(row[0]) + at) for n, row in enumerate(rows) for at, is_written in enumerate(row[2]) if is_written
    ]
    of_row, columns = torch.tensor(written).T
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.0)
    for _ in range(150):
        hidden = model.model(input_ids=ids, use_cache=False).last_hidden_state[of_row, columns - 1]
        loss = torch.nn.functional.cross_entropy(model.lm_head(hidden), ids[of_row, columns])
        if loss.item() < 0.05:
            return
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    pytest.fail(f"the scripts were not learnt: loss {loss.item()}")


@pytest.fixture(scope="module", params=["all weights", "LoRA"])
def run(request: pytest.FixtureRequest, checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """A run, every batch of which is kept."""
    episodes = Episodes({"public_library_1": tiny.library()})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
        patch.setenv("VLLM_CPU_OMP_THREADS_BIND", "nobind")
        let_vllm_take_weights(patch)
        trainer = make(checkpoint, tmp_path_factory.mktemp("out"), episodes, request.param)
        found = Run(trainer=trainer, checkpoint=checkpoint)
        keep_batches(found, patch)
        text = trainer.processing_class(tiny.SOLVED[1] + tiny.FAILED[1])["input_ids"]
        found.known["vLLM before"], found.known["model before"] = by_vllm(trainer, text), by_model(trainer, text)
        trainer.train()
        trainer.model.train()
        trainer._last_loaded_step = trainer.state.global_step  # as if the weights had been brought over
        trainer._generate_and_score_completions([row_of()] * ROLLOUTS)
        found.known["vLLM stale"] = by_vllm(trainer, text)
        trainer._last_loaded_step = -1
        patch.setattr(trainer.args, "steps_per_generation", MOST_ROWS + 1)
        trainer._generate_and_score_completions([row_of()] * ROLLOUTS)
        found.known["vLLM after"], found.known["model after"] = by_vllm(trainer, text), by_model(trainer, text)
        yield found
    episodes.close()
    del trainer.vllm_generation.llm
    gc.collect()


def let_vllm_take_weights(patch: pytest.MonkeyPatch) -> None:
    """Have vLLM compute in float32, by a kernel that keeps the weights where they can be replaced.

    On a CPU vLLM hands the weights of linear layers to oneDNN, which packs them, and forgets its own. Then TRL cannot
    bring over new ones: `'Parameter' object has no attribute 'weight_loader'`. On a GPU nothing is packed.
    """
    import vllm._custom_ops
    from trl.generation import vllm_generation

    patch.setattr(vllm._custom_ops, "_supports_onednn", False)
    patch.setattr(vllm_generation, "LLM", partial(vllm_generation.LLM, dtype="float32", enforce_eager=True))


def make(checkpoint: Path, out: Path, episodes: Episodes, kind: str) -> Any:
    """A trainer whose attempts are sampled by vLLM."""
    import datasets
    import peft
    from transformers import AutoTokenizer

    from awm_hub.training.rewards import HybridReward
    from awm_hub.training.trainer import HistoryAwareGRPOTrainer

    args = config(
        out,
        use_vllm=True,
        vllm_mode="colocate",
        vllm_importance_sampling_mode="token_truncate",
        vllm_max_model_length=2048,
        temperature=0.7,
        gradient_accumulation_steps=2,
        num_generations=ROLLOUTS,
        max_completion_length=128,
        max_steps=2,
        learning_rate=LEARNING_RATE[kind],
    )
    return HistoryAwareGRPOTrainer(
        model=str(checkpoint),
        processing_class=AutoTokenizer.from_pretrained(checkpoint, padding_side="left"),
        args=args,
        train_dataset=datasets.Dataset.from_list([row_of()] * 8),
        environment_factory=episodes.factory(),
        rollout_func=WindowedRollout(window=WINDOW, max_turns=MOST_TURNS),
        reward_funcs=[HybridReward(), brevity],
        peft_config=peft.LoraConfig(r=4, lora_alpha=8, target_modules="all-linear") if kind == "LoRA" else None,
    )


def brevity(environments: Sequence[Any], **columns: Any) -> list[float]:
    """A reward that hardly two attempts share, so that there always is something to learn."""
    return [-0.01 * sum(len(turn.output) for turn in episode.turns) for episode in environments]


def keep_batches(run: Run, patch: pytest.MonkeyPatch) -> None:
    """Keep what vLLM samples, and what the trainer makes of it; sampling with the model fails."""
    trainer, sampled = run.trainer, []
    llm = trainer.vllm_generation.llm
    original, making = llm.generate, trainer._generate_and_score_completions

    def generate(prompts: Any, **more: Any) -> Any:
        outputs = original(prompts, **more)
        for output in outputs:
            ids, told = output.outputs[0].token_ids, output.outputs[0].logprobs
            logprobs = tuple(at[token].logprob for token, at in zip(ids, told, strict=True))
            sampled.append((tuple(output.prompt_token_ids), tuple(ids), logprobs))
        return outputs

    def made(inputs: list[dict[str, Any]]) -> dict[str, Any]:
        sampled.clear()
        found: dict[str, Any] = making(inputs)
        turns = [[sampled_of(turn) for turn in episode.turns] for episode in trainer.environments]
        kept = {name: value.clone() for name, value in found.items() if isinstance(value, torch.Tensor)}
        run.batches.append(Batch(found=kept, owners=list(trainer.row_owners), turns=turns, sampled=list(sampled)))
        return found

    def by_the_model(*args: Any, **more: Any) -> Any:
        raise AssertionError("the model sampled, and not vLLM")

    patch.setattr(llm, "generate", generate)
    patch.setattr(trainer, "_generate_and_score_completions", made)
    patch.setattr(trainer.model, "generate", by_the_model)


def sampled_of(turn: Any) -> Sampled:
    """A turn of an episode."""
    return tuple(turn.prompt), tuple(turn.output), tuple(turn.logprobs)


def by_vllm(trainer: Any, ids: list[int]) -> Any:
    """Log probabilities of a text's tokens but the first, by the weights that vLLM has."""
    from vllm import LLM, SamplingParams

    params = SamplingParams(max_tokens=1, prompt_logprobs=0)
    (output,) = LLM.generate(trainer.vllm_generation.llm, [{"prompt_token_ids": ids}], params, use_tqdm=False)
    told = zip(ids[1:], output.prompt_logprobs[1:], strict=True)
    return torch.tensor([at[token].logprob for token, at in told])


def by_model(trainer: Any, ids: list[int]) -> Any:
    """The same by the model that is trained."""
    with torch.no_grad():
        logits = trainer.model(input_ids=torch.tensor([ids])).logits[0, :-1].float()
    return torch.log_softmax(logits, dim=-1).gather(1, torch.tensor(ids[1:])[:, None])[:, 0]


def test_every_turn_is_sampled_by_vllm(run: Run) -> None:
    assert len(run.batches) == 4
    for batch in run.batches:
        turns = [turn for attempt in batch.turns for turn in attempt]
        assert len(batch.turns) == ROLLOUTS
        assert len(turns) > ROLLOUTS  # some took more than one
        assert sorted(turns) == sorted(batch.sampled)


def test_logprobs_of_rows_lie_beside_the_tokens_that_were_sampled(run: Run) -> None:
    for batch in run.batches:
        ids, logprobs = batch.found["completion_ids"], batch.found["sampling_per_token_logps"]
        for attempt, turns in enumerate(batch.turns):
            rows = [row for row, owner in enumerate(batch.owners) if owner == attempt]
            tokens = [token for row in rows for token in ids[row][batch.trained[row]].tolist()]
            told = [value for row in rows for value in logprobs[row][batch.trained[row]].tolist()]
            assert tokens == [token for _, output, _ in turns for token in output]
            assert told == pytest.approx([value for _, _, values in turns for value in values], abs=1e-6)
        assert not logprobs[~batch.trained].any()


def test_the_correction_is_one_where_vllm_has_the_trained_weights(run: Run) -> None:
    assert max(Counter(run.padded.owners).values()) > 1  # rows were forked
    for batch in (*run.steps, run.padded):
        ratio = batch.found["importance_sampling_ratio"]
        assert ratio.shape == batch.trained.shape
        torch.testing.assert_close(ratio[batch.trained], torch.ones(int(batch.trained.sum())), rtol=0, atol=1e-3)
    logged = [entry for entry in run.trainer.state.log_history if "loss" in entry]
    assert len(logged) == 2
    for entry in logged:
        for bound in ("min", "mean", "max"):
            assert entry[f"sampling/importance_sampling_ratio/{bound}"] == pytest.approx(1, abs=1e-3)
        assert entry["sampling/sampling_logp_difference/max"] < 1e-3
        assert entry["grad_norm"] > 0


def test_the_correction_is_the_ratio_of_the_trained_tokens_where_vllm_is_behind(run: Run) -> None:
    found, trained = run.stale.found, run.stale.trained
    expected = torch.exp(found["old_per_token_logps"] - found["sampling_per_token_logps"])
    most = run.trainer.args.vllm_importance_sampling_clip_max
    ratio = found["importance_sampling_ratio"]
    torch.testing.assert_close(ratio[trained], expected[trained].clamp(max=most))
    assert (ratio[trained] - 1).abs().max() > 0.01


def test_the_correction_does_not_touch_what_is_not_trained(run: Run) -> None:
    assert -1 in run.padded.owners
    for batch in run.batches:
        ratio = batch.found["importance_sampling_ratio"]
        assert (ratio[~batch.trained] == 1).all()
        for row, owner in enumerate(batch.owners):
            assert batch.trained[row].any() == (owner >= 0)
            assert owner >= 0 or batch.found["advantages"][row] == 0


def test_vllm_has_the_trained_weights_after_a_step(run: Run) -> None:
    known = run.known
    torch.testing.assert_close(known["vLLM before"], known["model before"], rtol=0, atol=1e-3)
    torch.testing.assert_close(known["vLLM after"], known["model after"], rtol=0, atol=1e-3)
    assert (known["model after"] - known["model before"]).abs().max() > 0.05
    assert (known["model after"] - known["vLLM stale"]).abs().max() > 0.01


def test_adapters_are_taken_out_of_the_model_again(run: Run) -> None:
    """To give vLLM whole weights, TRL adds the adapters to the model's, and takes them out afterwards."""
    from safetensors.torch import load_file

    kept = load_file(run.checkpoint / "model.safetensors")
    named = dict(run.trainer.model.named_parameters())
    frozen = {name: value for name, value in named.items() if ".base_layer." in name}
    assert bool(frozen) == hasattr(run.trainer.model, "peft_config")
    for name, value in frozen.items():
        original = kept[name.removeprefix("base_model.model.").replace(".base_layer", "")]
        torch.testing.assert_close(value.detach(), original, rtol=0, atol=1e-5)

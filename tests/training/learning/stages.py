"""The stages of the experiment: imitate solutions, reinforce, evaluate; each returns plain figures.

Every stage runs on one core. Sampling is at one temperature, in training and in evaluation, so that the figures
are of the policy that is trained and of nothing else.
"""

import random
import resource
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from awm_hub.canonical import to_json
from awm_hub.environment import Environment, Task
from awm_hub.history import Window
from awm_hub.judging import judge_async
from awm_hub.training.episodes import Episodes
from awm_hub.training.generating import Ask, Written
from awm_hub.training.rewards import HybridReward, metrics
from awm_hub.training.rollout import WindowedRollout
from awm_hub.training.sft import examples_of_messages, examples_of_solutions
from awm_hub.trajectory import Trajectory, Verdict
from training import tiny
from training.learning import world

MESSAGE_TOKENS = 96
"""The longest message of a solution has 77."""
GROUP, GROUPS = 8, 4
"""Rollouts of a task, and tasks of a step."""
RATE = 1e-4
"""Of GRPO."""
TEMPERATURE = 0.7
"""Of sampling, in training and in evaluation."""
Lesson = dict[str, list[int]]
"""Tokens of a row, and their labels."""
Said = Callable[[str], None]
_PLAIN: dict[str, Any] = {
    "logging_steps": 1,
    "save_strategy": "no",
    "report_to": "none",
    "use_cpu": True,
    "bf16": False,
    "gradient_checkpointing": False,
    "disable_tqdm": True,
}
"""Settings of either trainer."""


class KeptJudge:
    """The environment's own judge, asked once for each way in which a task was done.

    What an instance does follows from the calls alone, so that equal calls and equal answers have equal verdicts. Most
    rollouts of a group are equal, and judging one takes some fifty milliseconds.
    """

    name = "decision"

    def __init__(self) -> None:
        self._kept: dict[str, Verdict] = {}

    def describe(self) -> dict[str, Any]:
        """What is recorded of it."""
        return {"kind": "decision", "kept": True}

    async def judge(self, trajectory: Trajectory, *, environment: Environment | None = None) -> Verdict:
        """The verdict on a trajectory, or on one before that was the same."""
        done = [[step.tool, step.arguments] for step in trajectory.steps]
        key = to_json([trajectory.task_id, trajectory.termination, done, trajectory.answer])
        if key not in self._kept:
            self._kept[key] = await judge_async(trajectory, environment=environment)
        return self._kept[key]


JUDGE = KeptJudge()


def demonstrations(count: int, tasks: Sequence[Task] | None = None) -> list[dict[str, Any]]:
    """Conversations in which reference solutions were carried out on live instances and judged."""
    chosen = [task.id for task in (tasks or world.train_tasks())[:count]]
    found = examples_of_solutions(
        world.world(), full_history=True, requires=None, thinking=world.short_thought, tasks=chosen, concurrency=4
    )
    return [{"messages": [*_compact(row["messages"])]} for row in found]


def lessons(
    examples: Sequence[dict[str, Any]], tokenizer: Any, *, share_cut: float = 0.0, has_thoughts: bool = True
) -> list[Lesson]:
    """Rows to imitate: whole conversations, of which what the assistant writes is learnt.

    Args:
        examples: Conversations.
        tokenizer: Of the model.
        share_cut: Of the conversations, which come turn by turn instead, each turn with what the window shows of the
            ones before it. Few are enough to make a policy that has at least seen such a history.
        has_thoughts: Whether what comes turn by turn has its thought, without which a message breaks the format.
    """
    from trl.chat_template_utils import get_training_chat_template

    template = get_training_chat_template(tokenizer)

    def lesson(prompt: Sequence[Any], completion: Sequence[Any]) -> Lesson:
        found = tokenizer.apply_chat_template(
            [*prompt, *completion], return_dict=True, return_assistant_tokens_mask=True, chat_template=template
        )
        seen = tokenizer.apply_chat_template(list(prompt), return_dict=True, chat_template=template)["input_ids"]
        masked = zip(found["input_ids"], found["assistant_masks"], strict=True)
        labels = [token if own and place >= len(seen) else -100 for place, (token, own) in enumerate(masked)]
        return {"input_ids": found["input_ids"], "labels": labels}

    conversations = [one["messages"] for one in examples]
    count = round(share_cut * len(conversations))
    turns = [row for one in conversations[:count] for row in examples_of_messages(one, window=world.WINDOW)]
    if not has_thoughts:
        turns = [row | {"completion": [_without_thought(row["completion"][0])]} for row in turns]
    return [
        *(lesson(one[:2], one[2:]) for one in conversations[count:]),
        *(lesson(row["prompt"], row["completion"]) for row in turns),
    ]


def _without_thought(message: dict[str, Any]) -> dict[str, Any]:
    return message | {"content": message["content"].partition("</think>")[2].lstrip()}


def _compact(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"role": "system", "content": world.SYSTEM}, *messages[1:]]


def model(tokenizer: Any, *, seed: int, hidden: int = 64, layers: int = 3, heads: int = 4, spread: float = 0.08) -> Any:
    """A Qwen3 from scratch, with 184 thousand numbers.

    Args:
        tokenizer: Whose vocabulary it has.
        seed: Of its weights.
        hidden: Its width.
        layers: Its depth.
        heads: Of its attention.
        spread: Of its weights. With the 0.02 that is made for large models a narrow one starts four times as slowly.
    """
    import torch

    found = tiny.tiny_model(tokenizer, hidden=hidden, layers=layers, heads=heads, seed=seed)
    for weight in found.parameters():
        if weight.dim() == 2:
            torch.nn.init.normal_(weight, std=spread)
    return found


def imitate(
    student: Any,
    tokenizer: Any,
    rows: Sequence[Lesson],
    out: Path,
    *,
    steps: int,
    seed: int,
    batch: int = 16,
    rate: float = 3e-3,
    said: Said = print,
) -> dict[str, Any]:
    """Supervised learning on `lessons`; the model is changed."""
    import datasets
    import trl

    datasets.disable_progress_bars()
    settings = trl.SFTConfig(
        output_dir=str(out),
        max_steps=steps,
        per_device_train_batch_size=batch,
        learning_rate=rate,
        lr_scheduler_type="linear",
        warmup_steps=min(50, steps // 5),
        adam_beta2=0.98,
        weight_decay=0.01,
        max_length=None,
        seed=seed,
        **_PLAIN,
    )
    started = time.perf_counter(), time.process_time()
    trainer = trl.SFTTrainer(
        model=student,
        args=settings,
        train_dataset=datasets.Dataset.from_list(list(rows)),
        processing_class=tokenizer,
        callbacks=[_progress(said, ("loss", "mean_token_accuracy"), every=50)],
    )
    _train_quietly(trainer)
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    return {"steps": steps, "loss": sum(losses[-20:]) / len(losses[-20:]), **_spent(started)}


def reinforce(
    student: Any,
    tokenizer: Any,
    out: Path,
    *,
    window: Window,
    steps: int,
    seed: int,
    rate: float = RATE,
    groups: int = GROUPS,
    tasks: Sequence[Task] | None = None,
    said: Said = print,
    **more: Any,
) -> dict[str, Any]:
    """History-aware GRPO with the hybrid reward on live instances; the model is changed.

    `more` are other settings of the trainer.
    """
    import datasets
    import trl

    from awm_hub.training.trainer import HistoryAwareGRPOTrainer

    chosen = list(tasks or world.train_tasks())
    random.Random(seed).shuffle(chosen)
    settings = trl.GRPOConfig(
        output_dir=str(out),
        max_steps=steps,
        per_device_train_batch_size=GROUP,
        gradient_accumulation_steps=groups,
        num_generations=GROUP,
        max_completion_length=MESSAGE_TOKENS,
        learning_rate=rate,
        lr_scheduler_type="constant",
        beta=0.0,
        loss_type="dapo",
        temperature=TEMPERATURE,
        shuffle_dataset=False,
        seed=seed,
        **_PLAIN,
        **more,
    )
    started = time.perf_counter(), time.process_time()
    with_episodes = Episodes({world.world().id: world.world()})
    rollout = WindowedRollout(window=window, max_turns=world.MAX_TURNS, generate=Sampler(seed))
    shown = ("reward", "rollout/success", "rollout/format_errors", "rollout/turns")
    try:
        trainer = HistoryAwareGRPOTrainer(
            model=student,
            args=settings,
            train_dataset=datasets.Dataset.from_list(world.rows(chosen)),
            processing_class=tokenizer,
            environment_factory=with_episodes.factory(),
            rollout_func=rollout,
            reward_funcs=HybridReward(judge=JUDGE),
            callbacks=[_progress(said, (*shown, "step_time"), every=4)],
        )
        _train_quietly(trainer)
    finally:
        with_episodes.close()
    kept = [e for e in trainer.state.log_history if "reward" in e]
    curve = [{"step": e["step"], **{name.rpartition("/")[2]: e[name] for name in shown}} for e in kept]
    return {"steps": steps, "curve": curve, **_spent(started)}


def evaluate(
    student: Any, tokenizer: Any, tasks: Sequence[Task], *, window: Window, seed: int, batch: int = 256
) -> dict[str, Any]:
    """One attempt at each task: how many succeed, how many break the format."""
    from awm_hub.runtime import sync

    started = time.perf_counter(), time.process_time()
    rollout = WindowedRollout(window=window, max_turns=world.MAX_TURNS, generate=Sampler(seed))
    reward, scored = HybridReward(judge=JUDGE), []
    episodes = Episodes({world.world().id: world.world()})
    student.eval()
    try:
        for start in range(0, len(tasks), batch):
            rows = world.rows(tasks[start : start + batch])
            made = [episodes.factory()() for _ in rows]
            for episode, row in zip(made, rows, strict=True):
                episode.reset(**row)
            rollout.play(made, [row["prompt"] for row in rows], _Alone(student, tokenizer))
            scored += sync.run(reward.score, made)
    finally:
        episodes.close()
    shares = {name.rpartition("/")[2]: value for name, value in metrics(scored).items()}
    rewards = [one.reward for one in scored if one.reward is not None]
    endings = [one.trajectory.termination for one in scored]
    counts = {name: round(shares[name] * len(scored)) for name in ("success", "format_errors")}
    return {
        "n": len(scored),
        **counts,
        "max_turns": endings.count("max_turns"),
        "reward": sum(rewards) / max(len(rewards), 1),
        "turns": shares["turns"],
        "unscored": len(scored) - len(rewards),
        **_spent(started),
    }


class Sampler:
    """Samples a turn of all attempts at once at `TEMPERATURE`, from random numbers of its own.

    Attempts whose message has ended leave the batch, which `generate` of transformers does not do: one message that
    rambles on would make all others cost as much as the longest.
    """

    def __init__(self, seed: int) -> None:
        import torch

        self._random = torch.Generator().manual_seed(seed)

    def __call__(self, asked: Sequence[Ask], trainer: Any) -> list[Written]:
        """The messages, in the order of what was asked."""
        import torch
        from transformers import DynamicCache

        padding, end = trainer.processing_class.pad_token_id, trainer.processing_class.eos_token_id
        width = max(len(ask.prompt) for ask in asked)
        ids = torch.tensor([[padding] * (width - len(ask.prompt)) + ask.prompt for ask in asked])
        seen = torch.tensor([[0] * (width - len(ask.prompt)) + [1] * len(ask.prompt) for ask in asked])
        places = (seen.cumsum(1) - 1).clamp(min=0)
        cache, going = DynamicCache(config=trainer.model.config), torch.arange(len(asked))
        outputs: list[list[int]] = [[] for _ in asked]
        while len(going):
            with torch.no_grad():
                found = trainer.model(
                    input_ids=ids, attention_mask=seen, position_ids=places, past_key_values=cache, logits_to_keep=1
                )
            drawn = torch.multinomial((found.logits[:, -1] / TEMPERATURE).softmax(-1), 1, generator=self._random)
            for position, token in zip(going.tolist(), drawn[:, 0].tolist(), strict=True):
                outputs[position].append(token)
            stays = drawn[:, 0] != end
            if len(outputs[going[0]]) == MESSAGE_TOKENS:
                break
            if not stays.all():
                cache.batch_select_indices(stays.nonzero()[:, 0])
            going, ids, places = going[stays], drawn[stays], places[stays, -1:] + 1
            seen = torch.cat([seen[stays], torch.ones_like(ids)], dim=1)
        return [Written(output=output) for output in outputs]


class _Alone:
    """As much of a trainer as a rollout looks at."""

    use_vllm = False
    args = SimpleNamespace(
        chat_template_kwargs=None, temperature=TEMPERATURE, top_p=1.0, max_completion_length=MESSAGE_TOKENS
    )
    state = SimpleNamespace(global_step=0)

    def __init__(self, student: Any, tokenizer: Any) -> None:
        self.model, self.processing_class = student, tokenizer
        self.accelerator = SimpleNamespace(num_processes=1, unwrap_model=lambda found: found)


def _train_quietly(trainer: Any) -> None:
    """Train without the lines that a trainer prints of every step."""
    from transformers import PrinterCallback

    trainer.remove_callback(PrinterCallback)
    trainer.train()


def _spent(started: tuple[float, float]) -> dict[str, Any]:
    """Seconds of wall clock and of this process's core, and the most memory it had so far, in MB."""
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "wall_s": round(time.perf_counter() - started[0], 1),
        "cpu_s": round(time.process_time() - started[1], 1),
        "memory_mb": round(memory),
    }


def _progress(said: Said, names: Sequence[str], *, every: int) -> Any:
    """A callback that says the means of some figures of the last steps."""
    from transformers import TrainerCallback

    class Progress(TrainerCallback):  # type: ignore[misc]
        """Says how training goes, instead of the trainer's own lines."""

        def __init__(self) -> None:
            self.kept: list[dict[str, float]] = []

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **more: Any) -> None:
            if logs and names[0] in logs:
                self.kept.append({name: float(logs[name]) for name in names if name in logs})
                if state.global_step % every == 0 or state.global_step == args.max_steps:
                    means = {n: sum(k[n] for k in self.kept) / len(self.kept) for n in self.kept[-1]}
                    told = ", ".join(f"{name.rpartition('/')[2]} {value:.3f}" for name, value in means.items())
                    said(f"  step {state.global_step}/{args.max_steps}: {told}")
                    self.kept = []

    return Progress()

"""History-aware rollouts for TRL: the paper's agent loop as a `rollout_func`.

TRL calls it with the prompts of a batch and the trainer, whose `environments` are the batch's episodes, one a prompt.
Every attempt speaks the text protocol under the strict format rules (paper §4) and sees a `Window` of its history
(§5): the same rule, and the same words, that `ChatPolicy(protocol="text", window=…)` uses when a model is evaluated.
A policy trained on one cut of the history and used on another loses most of what it learned (§5: τ² 22.57 against
9.35). What comes back to the trainer are rows, several a trajectory where the history was cut (see
`awm_hub.training.rows`).

`GRPOTrainer` expects one row a prompt. `HistoryAwareGRPOTrainer` takes as many as there are. With `slots=K` a plain
`GRPOTrainer` does, without anything private of TRL's: its `num_generations` is K times the number of rollouts, and
each rollout fills K rows, the unused ones with nothing to train. Attempts with more rows than slots lose their oldest.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from awm_hub.errors import UsageError
from awm_hub.history import Window
from awm_hub.policy import ChatPolicy
from awm_hub.policy.chat import RESULT_CHARS
from awm_hub.rollouts import MAX_TURNS
from awm_hub.runtime import sync
from awm_hub.training import generating
from awm_hub.training.episodes import Episode
from awm_hub.training.generating import Ask, Generate, Written
from awm_hub.training.playing import Counter, Desk, Manner, TokenPolicy, play
from awm_hub.training.rows import Row, padded, rows_of
from awm_hub.training.tokens import ChatTokens

TRAINING_TURNS = 3
"""Newest turns that a policy sees in training (paper §5; 10 when it is evaluated)."""


@dataclass(frozen=True, kw_only=True)
class BatchFacts:
    """What became of one batch on this process."""

    trajectories: int
    turns: int
    rows: int
    padding: int
    """Rows of which nothing is trained."""
    lost: int
    """Rows that found no slot."""


class WindowedRollout:
    """A `rollout_func` for TRL.

    Args:
        window: What the policy sees of its history; default: the head and the 3 newest turns (§5).
        max_turns: Assistant messages at most (§5: 20).
        is_strict: Whether a broken rule of the format ends the rollout (§4).
        result_chars: Longer results are shortened, and say so.
        tool_prefix: Put before the tools' names; upstream's checkpoints know them with `mcp_tool_`.
        keeps_thoughts: Whether later turns see the thoughts of earlier ones. Without them every turn is a row of its
            own, since what it is shown never begins with what was written before.
        context_tokens: What the model takes in at most; default: what vLLM was started with, or the model's limit.
        template: Another chat template than the tokenizer's, for example `trainable_template(tokenizer)`.
        slots: Rows of each trajectory, for a plain `GRPOTrainer` with `num_generations` of slots times rollouts.
        generate: What samples; default: the trainer's vLLM or its model.

    A message is cut at the trainer's `max_completion_length` tokens: here it counts for each message, and not for the
    whole episode as in TRL's own tool loop.
    """

    def __init__(
        self,
        *,
        window: Window | None = None,
        max_turns: int = MAX_TURNS,
        is_strict: bool = True,
        result_chars: int = RESULT_CHARS,
        tool_prefix: str = "",
        keeps_thoughts: bool = True,
        context_tokens: int | None = None,
        template: str | None = None,
        slots: int | None = None,
        generate: Generate | None = None,
    ) -> None:
        for name, value in (("max_turns", max_turns), ("result_chars", result_chars), ("slots", slots)):
            if value is not None and value < 1:
                raise UsageError(f"{name} is {value}", next_step="at least 1")
        self.manner = Manner(
            window=Window(turns=TRAINING_TURNS) if window is None else window,
            max_turns=max_turns,
            is_strict=is_strict,
            result_chars=result_chars,
            tool_prefix=tool_prefix,
            keeps_thoughts=keeps_thoughts,
        )
        self.slots, self.facts = slots, BatchFacts(trajectories=0, turns=0, rows=0, padding=0, lost=0)
        self._context_tokens, self._template = context_tokens, template
        self._generate = generate or generating.generate
        self._tokens: ChatTokens | None = None

    def policy(self, endpoint: Any, *, window: Window | None = None) -> ChatPolicy:
        """The policy that sees, through an endpoint, what the model saw in training.

        Args:
            endpoint: The trained model.
            window: Another window: the paper evaluates with 10 turns (§5).
        """
        manner = self.manner
        return ChatPolicy(
            endpoint,
            protocol="text",
            window=window or manner.window,
            is_strict=manner.is_strict,
            result_chars=manner.result_chars,
            tool_prefix=manner.tool_prefix,
            keeps_thoughts=manner.keeps_thoughts,
        )

    def __call__(self, prompts: Sequence[Any], trainer: Any) -> dict[str, Any]:
        """Play a batch; the rows, in TRL's form. Which trajectory each belongs to is the trainer's `row_owners`.

        Raises:
            UsageError: the trainer has no episodes, or the number of prompts does not fit the slots.
            CapacityError: the pool has no room for as many instances as the batch has rollouts.
        """
        episodes = _episodes_of(trainer, len(prompts))
        slots = self.slots or 1
        if len(prompts) % slots:
            raise UsageError(
                f"{len(prompts)} prompts do not fill slots of {slots}",
                next_step="num_generations has to be a multiple of slots",
            )
        leaders = episodes[::slots]
        for position, episode in enumerate(episodes):
            episode.leader = leaders[position // slots]
            episode.mode = "train" if trainer.model.training else "eval"
        self.play(leaders, prompts[::slots], trainer)
        of_each = [rows_of(episode.turns) for episode in leaders]
        if self.slots:
            rows, owners, lost = self._in_slots(of_each, trainer)
        else:
            rows, owners, lost = (*self._even(of_each, trainer), 0)
        trained = sum(any(row.mask) for row in rows)
        self.facts = BatchFacts(
            trajectories=len(leaders),
            turns=sum(len(episode.turns) for episode in leaders),
            rows=trained,
            padding=len(rows) - trained,
            lost=lost,
        )
        trainer.row_owners = owners
        has_logprobs = all(row.logprobs is not None for row in rows)
        return {
            "prompt_ids": [row.prompt for row in rows],
            "completion_ids": [row.completion for row in rows],
            "logprobs": [row.logprobs for row in rows] if has_logprobs else None,
            "env_mask": [row.mask for row in rows],
        }

    def play(self, episodes: Sequence[Episode], prompts: Sequence[Any], trainer: Any) -> None:
        """Play episodes to their ends. Whatever interrupts it, their instances are freed."""
        if self._tokens is None or self._tokens.tokenizer is not trainer.processing_class:
            arguments = getattr(trainer.args, "chat_template_kwargs", None)
            self._tokens = ChatTokens(trainer.processing_class, template=self._template, arguments=arguments)
        shared = episodes[0].episodes
        shared.begin(episode._placed for episode in episodes)
        course = sync.run(self._begin, episodes, prompts, trainer)
        try:
            self._sample_until_all_ended(course, trainer)
            sync.run(course.ended)
        except BaseException:
            sync.run(course.abandoned)
            raise
        shared.prepare_coming()

    async def _begin(self, episodes: Sequence[Episode], prompts: Sequence[Any], trainer: Any) -> "_Course":
        assert self._tokens is not None, "play() makes it"
        desk, counter = Desk(len(episodes)), Counter(episodes=episodes[0].episodes)
        about, limit = _about(trainer), self._context_tokens or _context_tokens(trainer)
        plays = []
        for position, (episode, prompt) in enumerate(zip(episodes, prompts, strict=True)):
            policy = TokenPolicy(
                episode,
                desk,
                self._tokens,
                prompt=prompt,
                position=position,
                manner=self.manner,
                context_tokens=limit,
                about=about,
            )
            plays.append(asyncio.ensure_future(play(policy, desk, counter, max_turns=self.manner.max_turns)))
        return _Course(desk=desk, plays=plays)

    def _sample_until_all_ended(self, course: "_Course", trainer: Any) -> None:
        together = generating.in_step(trainer)
        while True:
            asked = sync.run(course.gathered)
            wanted = generating.most_in_step(len(asked)) if together else len(asked)
            if wanted == 0:
                return
            extra = [_nothing(trainer, len(asked) + n) for n in range(wanted - len(asked))]
            written = self._generate([*asked, *extra], trainer)
            sync.run(course.desk.answer, list(written)[: len(asked)])

    def _even(self, of_each: Sequence[Sequence[Row]], trainer: Any) -> tuple[list[Row], list[int]]:
        """All rows, as many on every process and a multiple of what a batch is split into."""
        rows = [row for found in of_each for row in found]
        owners = [position for position, found in enumerate(of_each) for _ in found]
        is_alone = trainer.accelerator.num_processes == 1
        return padded(
            rows,
            owners,
            multiple=trainer.args.steps_per_generation if trainer.model.training else 1,
            at_least=0 if is_alone else generating.most_in_step(len(rows)),
            token=trainer.processing_class.eos_token_id,
        )

    def _in_slots(self, of_each: Sequence[Sequence[Row]], trainer: Any) -> tuple[list[Row], list[int], int]:
        """As many rows of each trajectory as there are slots, and how many did not fit."""
        slots = self.slots or 1
        has_logprobs = any(row.logprobs is not None for found in of_each for row in found)
        token = trainer.processing_class.eos_token_id
        empty = Row(prompt=[token], completion=[token], mask=[0], logprobs=[0.0] if has_logprobs else None)
        rows: list[Row] = []
        for found in of_each:
            kept = list(found[-slots:])
            rows += [*kept, *[empty] * (slots - len(kept))]
        owners = list(range(len(rows)))
        return rows, owners, sum(max(0, len(found) - slots) for found in of_each)


@dataclass(frozen=True, kw_only=True)
class _Course:
    """Attempts under way."""

    desk: Desk
    plays: list["asyncio.Task[None]"]

    async def gathered(self) -> list[Ask]:
        """What is asked next; an attempt that failed fails here, without waiting for the others to end."""
        asked = await self.desk.gathered()
        await asyncio.gather(*(task for task in self.plays if task.done()))
        return asked

    async def ended(self) -> None:
        await asyncio.gather(*self.plays)

    async def abandoned(self) -> None:
        for task in self.plays:
            task.cancel()
        await asyncio.gather(*self.plays, return_exceptions=True)


def _episodes_of(trainer: Any, count: int) -> list[Episode]:
    found = getattr(trainer, "environments", None) or []
    if len(found) != count or not all(isinstance(episode, Episode) for episode in found):
        step = "give the trainer environment_factory=Episodes(…).factory()"
        raise UsageError("the trainer's environments are no episodes", next_step=step)
    return list(found)


def _nothing(trainer: Any, position: int) -> Ask:
    return Ask(prompt=[trainer.processing_class.eos_token_id], position=position, turn=0)


def _about(trainer: Any) -> dict[str, Any]:
    """What is recorded of the model being trained and of how it is sampled."""
    args = trainer.args
    return {
        "model": str(getattr(trainer.model.config, "_name_or_path", "") or type(trainer.model).__name__),
        "step": int(trainer.state.global_step),
        "temperature": args.temperature,
        "top_p": args.top_p,
        "max_tokens": args.max_completion_length,
    }


def _context_tokens(trainer: Any) -> int | None:
    """Tokens that the sampler takes in at most."""
    limit = getattr(trainer.args, "vllm_max_model_length", None) if getattr(trainer, "use_vllm", False) else None
    config = trainer.accelerator.unwrap_model(trainer.model).config
    found = limit or getattr(config, "max_position_embeddings", None)
    return None if found is None else int(found)


__all__ = ["TRAINING_TURNS", "BatchFacts", "Generate", "WindowedRollout", "Written"]

"""GRPO whose trajectories are several rows: the paper's history-aware training (arXiv 2602.10090 §5, Eq. 3) on TRL.

A plain `GRPOTrainer` computes one advantage a prompt and takes one row for each, so a `rollout_func` that returns more
rows than prompts fails there with an IndexError. The subclass gives every row the advantage of its trajectory, whose
reward was normalised over the group as ever. It overrides one private method of TRL's, named
`_generate_and_score_completions`, checks at the start that it still is what it was, and says which TRL it was made for
where it is not.

The loss has to be a mean over tokens. Then neither the way in which a trajectory is split into rows nor the rows that
are added for an even number change any gradient. The means over sequences (`grpo`, `dr_grpo`, `bnpo`, …) would weigh
a trajectory by its number of rows, and are refused.

With `importance_sampling_level="sequence"` (the paper's, §5) the sequence is a row. A step's rows are split evenly over
its micro-batches, so that one holds `rows / steps_per_generation` of them, more than `per_device_train_batch_size`.
"""

import inspect
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import trl
from transformers import TrainerCallback
from trl import GRPOTrainer

from awm_hub.errors import UsageError
from awm_hub.training.episodes import EpisodeFactory, Episodes

TRL_RANGE = ">=1.16,<1.17"
"""Versions of TRL whose private method was read and tested."""
TOKEN_LOSSES = ("dapo", "cispo", "vespo")
"""Losses of TRL that are means over the tokens of a whole batch."""
_OVERRIDDEN = "_generate_and_score_completions"
_STEP = f"pip install 'trl{TRL_RANGE}', or use a plain GRPOTrainer with WindowedRollout(slots=…)"


class HistoryAwareGRPOTrainer(GRPOTrainer):  # type: ignore[misc]
    """`GRPOTrainer` whose `rollout_func` may return more rows than there are prompts; takes the same arguments.

    The rollout says which trajectory each row belongs to in `row_owners`; the rows of nobody have an advantage of 0.
    Where `environment_factory` is one of `Episodes`, the instances of the coming batch are launched during the gradient
    step, and everything is freed when training fails or is interrupted.

    Raises:
        UsageError: TRL is not as it was, or an argument would make the rows count for something other than they are.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _check_trl()
        super().__init__(*args, **kwargs)
        _check_arguments(self.args)
        self.row_owners: list[int] = []
        factory = kwargs.get("environment_factory")
        self._episodes: Episodes | None = factory.episodes if isinstance(factory, EpisodeFactory) else None
        if self._episodes is not None:
            collator: Any = self.data_collator
            self.data_collator: Any = LookingAhead(collator, self._episodes)

    def train(self, *args: Any, **kwargs: Any) -> Any:
        """Train; when that fails or is interrupted, every instance is freed."""
        try:
            return super().train(*args, **kwargs)
        except BaseException:
            if self._episodes is not None:
                self._episodes.close()
            raise

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        self.row_owners = []
        found: dict[str, Any] = super()._generate_and_score_completions(inputs)
        found["advantages"] = self._of_each_row(found, len(inputs))
        return found

    def _of_each_row(self, found: dict[str, Any], trajectories: int) -> Any:
        """The advantages of the rows, from those of the trajectories."""
        import torch

        advantages: Any = found.get("advantages")
        rows = len(found.get("completion_ids", ()))
        is_as_expected = isinstance(advantages, torch.Tensor) and advantages.shape == (trajectories,)
        if not is_as_expected or rows != len(self.row_owners):
            message = f"trl {trl.__version__}: GRPOTrainer.{_OVERRIDDEN} gives no advantage for each trajectory"
            raise UsageError(message, next_step=_STEP)
        with_nobody = torch.cat([advantages, advantages.new_zeros(1)])  # an owner of -1 is the last
        return with_nobody[torch.tensor(self.row_owners, device=advantages.device)]


class LookingAhead:
    """A data collator that tells the episodes which rows are coming.

    A data loader is one batch ahead of the trainer, and the trainer asks for all micro-batches of a step at once; so
    the rows of the next batch are known before the gradient step of this one.
    """

    def __init__(self, collator: Callable[[Sequence[Any]], Any], episodes: Episodes | None) -> None:
        self._collator, self._episodes = collator, episodes

    def __call__(self, rows: Sequence[Any]) -> Any:
        """The batch, as the trainer's own collator makes it."""
        if self._episodes is not None:
            self._episodes.coming(rows)
        return self._collator(rows)

    def __reduce__(self) -> tuple[Any, ...]:
        """As it is sent to a worker process of the data loader, which has no instances."""
        return (LookingAhead, (self._collator, None))


class CloseCallback(TrainerCallback):  # type: ignore[misc]
    """Frees every instance when training has ended; evaluating afterwards opens the pool again."""

    def __init__(self, episodes: Episodes) -> None:
        self._episodes = episodes

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Free everything."""
        self._episodes.close()


def _check_trl() -> None:
    """See that the method that is overridden is what it was.

    Raises:
        UsageError: it is not.
    """
    found = getattr(GRPOTrainer, _OVERRIDDEN, None)
    if found is None or list(inspect.signature(found).parameters) != ["self", "inputs"]:
        message = f"trl {trl.__version__}: GRPOTrainer has no {_OVERRIDDEN}(inputs) as HistoryAwareGRPOTrainer needs it"
        raise UsageError(message, next_step=_STEP)


def _check_arguments(args: Any) -> None:
    if args.loss_type not in TOKEN_LOSSES:
        message = f"loss_type={args.loss_type!r} weighs a trajectory by the number of its rows"
        raise UsageError(message, next_step=f"one of {', '.join(TOKEN_LOSSES)}")
    if args.log_completions:
        message = "log_completions pairs prompts with rows, of which there are more"
        raise UsageError(message, next_step="log_completions=False, and HybridReward(log=TrajectoryLog(…))")
    if args.use_vllm and str(args.vllm_importance_sampling_mode).startswith("sequence"):
        warnings.warn(
            f"vllm_importance_sampling_mode={args.vllm_importance_sampling_mode!r} takes the ratio of a whole row, "
            "which leaves long ones out of training; consider 'token_truncate'",
            stacklevel=3,
        )

"""Everything that a `GRPOTrainer` is given for training in environments, under the names of its arguments.

    spec = history_aware("hub/dataset", window=Window(turns=3), log="runs/first/trajectories")
    with spec:
        trainer = spec.trainer(model="Qwen/Qwen3-4B", args=GRPOConfig(…))
        trainer.train()

`history_aware` is the paper's training (§5), `simple` is what TRL does with an environment class alone. Leaving the
block frees every instance, whatever happened in it.
"""

import functools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from awm_hub import hub
from awm_hub.environment import Environment
from awm_hub.history import Window
from awm_hub.judging import Judge
from awm_hub.policy.chat import RESULT_CHARS
from awm_hub.rollouts import MAX_TURNS
from awm_hub.training.episodes import EpisodeFactory, Episodes
from awm_hub.training.log import TrajectoryLog
from awm_hub.training.rewards import HybridReward
from awm_hub.training.rollout import WindowedRollout
from awm_hub.training.tool_loop import ToolEpisode, simple_prompt

Dataset = str | os.PathLike[str] | hub.Environments | None


@dataclass(frozen=True, kw_only=True)
class TrainingSpec:
    """Arguments of a trainer; a context that frees what they hold."""

    episodes: Episodes
    train_dataset: Any
    environment_factory: EpisodeFactory
    reward_funcs: Sequence[HybridReward]
    rollout_func: WindowedRollout | None = None
    """None: TRL plays the episodes itself."""
    is_plain: bool = False
    """Whether a plain `GRPOTrainer` does, and not a `HistoryAwareGRPOTrainer`."""

    @property
    def trainer_cls(self) -> Any:
        """The trainer's class; asking for it imports torch and TRL."""
        from trl import GRPOTrainer

        from awm_hub.training.trainer import HistoryAwareGRPOTrainer

        return GRPOTrainer if self.is_plain else HistoryAwareGRPOTrainer

    @property
    def callbacks(self) -> list[Any]:
        """What frees the instances at the end of training."""
        from awm_hub.training.trainer import CloseCallback

        return [CloseCallback(self.episodes)]

    def arguments(self) -> dict[str, Any]:
        """What the trainer is given, by name."""
        found = {
            "train_dataset": self.train_dataset,
            "environment_factory": self.environment_factory,
            "reward_funcs": list(self.reward_funcs),
            "callbacks": self.callbacks,
        }
        return found if self.rollout_func is None else {**found, "rollout_func": self.rollout_func}

    def trainer(self, **arguments: Any) -> Any:
        """The trainer.

        Args:
            arguments: The rest of what it takes: `model`, `args`, `processing_class`, `peft_config` and the like;
                callbacks are added to the spec's.
        """
        own = self.arguments()
        own["callbacks"] = [*own["callbacks"], *arguments.pop("callbacks", ())]
        return self.trainer_cls(**{**own, **arguments})

    def close(self) -> None:
        """Free every instance."""
        self.episodes.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def history_aware(
    dataset: Dataset = None,
    *,
    train_dataset: Any = None,
    environments: Mapping[str, Environment] | None = None,
    revision: str | None = None,
    window: Window | None = None,
    judge: str | Judge | None = None,
    log: TrajectoryLog | str | os.PathLike[str] | None = None,
    slots: int | None = None,
    rollout: Mapping[str, Any] | None = None,
    rewards: Mapping[str, Any] | None = None,
    pool: Mapping[str, Any] | None = None,
    tasks: Mapping[str, Any] | None = None,
) -> TrainingSpec:
    """The paper's training: a window of the history, strict format, early termination, the hybrid reward (§4, §5).

    Args:
        dataset: What `awm_hub.load` takes; default: the bundled set.
        train_dataset: Rows to train on instead of `training_tasks(dataset)`.
        environments: Where the rows' environments are instead of in `dataset`.
        revision: Branch, tag or commit of a dataset on the Hub.
        window: What the policy sees of its history; default: the head and 3 turns.
        judge: What `awm_hub.judge` takes.
        log: Where trajectories are written.
        slots: Rows of a trajectory, for a plain `GRPOTrainer`; see `WindowedRollout`.
        rollout: More arguments of `WindowedRollout`.
        rewards: More arguments of `HybridReward`.
        pool: Arguments of the pool; see `Episodes`.
        tasks: More arguments of `training_tasks`.
    """
    episodes, rows = _sources(dataset, train_dataset, environments, revision, pool, tasks)
    return TrainingSpec(
        episodes=episodes,
        train_dataset=rows,
        environment_factory=episodes.factory(),
        rollout_func=WindowedRollout(window=window, slots=slots, **(rollout or {})),
        reward_funcs=(HybridReward(judge=judge, log=_log(log), **(rewards or {})),),
        is_plain=slots is not None,
    )


def simple(
    dataset: Dataset = None,
    *,
    train_dataset: Any = None,
    environments: Mapping[str, Environment] | None = None,
    revision: str | None = None,
    judge: str | Judge | None = None,
    log: TrajectoryLog | str | os.PathLike[str] | None = None,
    is_strict: bool = True,
    max_turns: int = MAX_TURNS,
    result_chars: int = RESULT_CHARS,
    stop_tokens: int | None = None,
    rewards: Mapping[str, Any] | None = None,
    pool: Mapping[str, Any] | None = None,
    tasks: Mapping[str, Any] | None = None,
) -> TrainingSpec:
    """Training by TRL's own tool loop: the whole history, one row a rollout; see `awm_hub.training.tool_loop`.

    Args:
        dataset: What `awm_hub.load` takes; default: the bundled set.
        train_dataset: Rows to train on instead of `training_tasks(dataset)`.
        environments: Where the rows' environments are instead of in `dataset`.
        revision: Branch, tag or commit of a dataset on the Hub.
        judge: What `awm_hub.judge` takes.
        log: Where trajectories are written.
        is_strict: Whether a broken rule ends the episode.
        max_turns: Calls at most.
        result_chars: Longer results are shortened, and say so.
        stop_tokens: The trainer's `max_completion_length`, to end a rollout at a broken rule.
        rewards: More arguments of `HybridReward`.
        pool: Arguments of the pool; see `Episodes`.
        tasks: More arguments of `training_tasks`.
    """
    episodes, rows = _sources(dataset, train_dataset, environments, revision, pool, tasks)
    kind = functools.partial(
        ToolEpisode, is_strict=is_strict, max_turns=max_turns, result_chars=result_chars, stop_tokens=stop_tokens
    )
    return TrainingSpec(
        episodes=episodes,
        train_dataset=rows.map(simple_prompt),
        environment_factory=episodes.factory(kind),
        reward_funcs=(HybridReward(judge=judge, log=_log(log), **(rewards or {})),),
        is_plain=True,
    )


def _sources(
    dataset: Dataset,
    train_dataset: Any,
    environments: Mapping[str, Environment] | None,
    revision: str | None,
    pool: Mapping[str, Any] | None,
    tasks: Mapping[str, Any] | None,
) -> tuple[Episodes, Any]:
    """The episodes, and the rows to train on."""
    found = environments
    if found is None:
        found = dataset if isinstance(dataset, hub.Environments) else hub.load(dataset, revision=revision)
    rows = train_dataset
    if rows is None:
        from awm_hub.training.tasks import training_tasks

        rows = training_tasks(dataset, revision=revision, **(tasks or {}))
    return Episodes(found, **(pool or {})), rows


def _log(log: TrajectoryLog | str | os.PathLike[str] | None) -> TrajectoryLog | None:
    return log if log is None or isinstance(log, TrajectoryLog) else TrajectoryLog(log)

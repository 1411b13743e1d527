"""Training: models learn in environments, with TRL.

Rows to train on (`training_tasks`, `examples_of_solutions`, `examples_of_rollouts`), episodes on live instances,
rollouts under the window of the paper's history-aware training, its reward, and a log of what was done;
`history_aware` and `simple` put them together as the arguments of a trainer. Importing this package imports neither
torch nor TRL: names come from their modules when they are first used, and only those of `trainer` need them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from awm_hub.training.episodes import Episode, EpisodeFactory, Episodes
    from awm_hub.training.evaluation import ModelEndpoint, pass_at_1
    from awm_hub.training.log import TrajectoryLog
    from awm_hub.training.planning import Plan, plan
    from awm_hub.training.rewards import HybridReward
    from awm_hub.training.rollout import WindowedRollout
    from awm_hub.training.rows import Row, TurnTokens, padded, rows_of
    from awm_hub.training.sft import examples_of_rollouts, examples_of_solutions
    from awm_hub.training.spec import TrainingSpec, history_aware, simple
    from awm_hub.training.tasks import training_tasks
    from awm_hub.training.tokens import ChatTokens, trainable_template
    from awm_hub.training.tool_loop import ToolEpisode
    from awm_hub.training.trainer import CloseCallback, HistoryAwareGRPOTrainer

__all__ = [
    "ChatTokens",
    "CloseCallback",
    "Episode",
    "EpisodeFactory",
    "Episodes",
    "HistoryAwareGRPOTrainer",
    "HybridReward",
    "ModelEndpoint",
    "Plan",
    "Row",
    "ToolEpisode",
    "TrainingSpec",
    "TrajectoryLog",
    "TurnTokens",
    "WindowedRollout",
    "examples_of_rollouts",
    "examples_of_solutions",
    "history_aware",
    "padded",
    "pass_at_1",
    "plan",
    "rows_of",
    "simple",
    "trainable_template",
    "training_tasks",
]

_MODULES = {
    "episodes": ("Episode", "EpisodeFactory", "Episodes"),
    "evaluation": ("ModelEndpoint", "pass_at_1"),
    "log": ("TrajectoryLog",),
    "planning": ("Plan", "plan"),
    "rewards": ("HybridReward",),
    "rollout": ("WindowedRollout",),
    "rows": ("Row", "TurnTokens", "padded", "rows_of"),
    "sft": ("examples_of_rollouts", "examples_of_solutions"),
    "spec": ("TrainingSpec", "history_aware", "simple"),
    "tasks": ("training_tasks",),
    "tokens": ("ChatTokens", "trainable_template"),
    "tool_loop": ("ToolEpisode",),
    "trainer": ("CloseCallback", "HistoryAwareGRPOTrainer"),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'awm_hub.training' has no attribute {name!r}")
    found = getattr(import_module(f"awm_hub.training.{_HOMES[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

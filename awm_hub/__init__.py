"""An executable tool-use environment is a row of a Hub dataset.

`load` a dataset, `launch` one of its rows as a live and isolated instance, let an agent work on it, and `judge` what it
did to the database::

    import awm_hub as awm

    environment = awm.load()["public_library_1"]
    task = environment.task("owed_by_ingeborg")
    print(task.prompt)
    with awm.launch(environment, task=task.slug) as instance:
        print(instance.call_tool("get_member", {"member_id": 1}).text())
        instance.submit("8.55")
        print(awm.judge(instance.trajectory()).outcome)

`awm_hub.aio` has the same verbs as coroutines. Names are imported when they are first used, so that `import awm_hub`
costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from awm_hub import aio
    from awm_hub.auditing import audit
    from awm_hub.environment import Call, Environment, Task, ToolSpec
    from awm_hub.errors import (
        AwmHubError,
        CapacityError,
        ContextFullError,
        DataError,
        EpisodeError,
        FormatVersionError,
        JudgeError,
        LimitError,
        LoadError,
        RecordError,
        RemoteError,
        SandboxError,
        SealError,
        SourceError,
        UnknownNameError,
        UsageError,
        WorkerError,
    )
    from awm_hub.history import Window
    from awm_hub.hub import Environments, load
    from awm_hub.inference import Endpoint, Sampling
    from awm_hub.judging import LlmJudge, judge
    from awm_hub.policy import ChatPolicy
    from awm_hub.publishing import push
    from awm_hub.rollouts import Run, rollout
    from awm_hub.runtime import Instance, Limits, LocalPool, Options, PoolCall, Snapshot, launch
    from awm_hub.trajectory import Evidence, Outcome, StateDiff, Step, ToolResult, Trajectory, Verdict

__version__ = "0.1.0"

__all__ = [
    "AwmHubError",
    "Call",
    "CapacityError",
    "ChatPolicy",
    "ContextFullError",
    "DataError",
    "Endpoint",
    "Environment",
    "Environments",
    "EpisodeError",
    "Evidence",
    "FormatVersionError",
    "Instance",
    "JudgeError",
    "LimitError",
    "Limits",
    "LlmJudge",
    "LoadError",
    "LocalPool",
    "Options",
    "Outcome",
    "PoolCall",
    "RecordError",
    "RemoteError",
    "Run",
    "Sampling",
    "SandboxError",
    "SealError",
    "Snapshot",
    "SourceError",
    "StateDiff",
    "Step",
    "Task",
    "ToolResult",
    "ToolSpec",
    "Trajectory",
    "UnknownNameError",
    "UsageError",
    "Verdict",
    "Window",
    "WorkerError",
    "__version__",
    "aio",
    "audit",
    "judge",
    "launch",
    "load",
    "push",
    "rollout",
]

_MODULES = {
    "auditing": ("audit",),
    "environment": ("Call", "Environment", "Task", "ToolSpec"),
    "history": ("Window",),
    "hub": ("Environments", "load"),
    "inference": ("Endpoint", "Sampling"),
    "judging": ("LlmJudge", "judge"),
    "policy": ("ChatPolicy",),
    "publishing": ("push",),
    "rollouts": ("Run", "rollout"),
    "runtime": ("Instance", "Limits", "LocalPool", "Options", "PoolCall", "Snapshot", "launch"),
    "trajectory": ("Evidence", "Outcome", "StateDiff", "Step", "ToolResult", "Trajectory", "Verdict"),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name == "aio":
        return import_module("awm_hub.aio")
    if name not in __all__:
        raise AttributeError(f"module 'awm_hub' has no attribute {name!r}")
    found = getattr(import_module(f"awm_hub.{_HOMES.get(name, 'errors')}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

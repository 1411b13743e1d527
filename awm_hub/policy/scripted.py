"""Policies that need no model: the reference solution, nothing, chance, and an earlier trajectory.

They are the fixed points that everything else is measured against: the solution must be judged COMPLETED, doing nothing
must not, and random calls must break nothing. They write no messages, and no format rule ends their rollouts.
"""

import random
from collections.abc import Mapping
from typing import Any

from awm_hub.canonical import sha256_of, to_json
from awm_hub.environment import Environment
from awm_hub.errors import DataError, UsageError
from awm_hub.policy.acting import Action, Call, Message, View
from awm_hub.policy.guessing import arguments_for
from awm_hub.trajectory import Trajectory


class Scripted:
    """What the scripted policies have in common."""

    is_strict = False
    uses_meta_tools = False

    def transcript(self, view: View) -> tuple[Message, ...]:
        """Nothing: they hold no conversation."""
        return ()


class SolutionPolicy(Scripted):
    """Carries out a task's reference solution, a call a turn, and gives the expected answer.

    Args:
        environments: Where the tasks are from; a view holds no solution.
    """

    def __init__(self, environments: Mapping[str, Environment]) -> None:
        self._environments = environments
        self._known: dict[tuple[str, str | None], tuple[Action, ...]] = {}

    def describe(self) -> dict[str, Any]:
        """Its kind."""
        return {"kind": "solution"}

    async def act(self, view: View) -> Action:
        """The next call of the solution, or the answer.

        Raises:
            DataError: the task has no solution.
            UnknownNameError: the environment or the task is not among these.
        """
        key = (view.environment_id, view.task_id)
        if key not in self._known:
            self._known[key] = _solved(self._environments[view.environment_id], view.task_id or "")
        actions = self._known[key]
        return actions[min(len(view.turns), len(actions) - 1)]


class NoopPolicy(Scripted):
    """Does nothing and gives an empty answer."""

    def describe(self) -> dict[str, Any]:
        """Its kind."""
        return {"kind": "noop"}

    async def act(self, view: View) -> Action:
        """The empty answer."""
        return Action(answer="")


class RandomPolicy(Scripted):
    """Calls random tools with random arguments that follow their schemas, then gives an empty answer.

    The same view has the same action, so a rollout is repeatable by its seed.

    Args:
        calls: How many.
    """

    def __init__(self, *, calls: int = 8) -> None:
        if calls < 0:
            raise UsageError(f"{calls} calls", next_step="give a number that is not negative")
        self.calls = calls

    def describe(self) -> dict[str, Any]:
        """Its kind and the number of calls."""
        return {"kind": "random", "calls": self.calls}

    async def act(self, view: View) -> Action:
        """A random call, or the empty answer after the last."""
        if len(view.turns) >= self.calls or not view.tools:
            return Action(answer="")
        draw = random.Random(f"{view.environment_id}:{view.task_id}:{view.seed}:{len(view.turns)}")
        tool = draw.choice(view.tools)
        return Action(calls=(Call(tool=tool.name, arguments=arguments_for(tool.input_schema, draw)),))


class ReplayPolicy(Scripted):
    """Repeats the calls of a trajectory, all in its first turn, and then its answer.

    With the trajectory's seed the states are the same. In one turn, no limit on turns can come between.

    Args:
        trajectory: What to repeat.
    """

    def __init__(self, trajectory: Trajectory) -> None:
        calls = tuple(Call(tool=step.tool, arguments=step.arguments) for step in trajectory.steps)
        answer = Action(answer=trajectory.answer)
        self._actions = (Action(calls=calls), answer) if calls else (answer,)
        self.trajectory = trajectory

    def describe(self) -> dict[str, Any]:
        """What it repeats."""
        t = self.trajectory
        of = {"environment_id": t.environment_id, "task_id": t.task_id, "seed": t.seed}
        return {"kind": "replay", "of": {**of, "sha256": sha256_of(t.to_dict())}}

    async def act(self, view: View) -> Action:
        """The calls, then the answer."""
        return self._actions[min(len(view.turns), len(self._actions) - 1)]


def _solved(environment: Environment, task_id: str) -> tuple[Action, ...]:
    """A task's solution and its answer as actions."""
    task = environment.task(task_id)
    if task.solution is None:
        step = "choose tasks with a solution: `awm-hub show` tells"
        raise DataError(f"task {task.id!r} has no reference solution", next_step=step)
    calls = [Action(calls=(Call(tool=call.tool, arguments=call.arguments),)) for call in task.solution]
    return (*calls, Action(answer="Done." if task.answer is None else to_json(task.answer)))

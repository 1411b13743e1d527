"""Policies for tests: actions that are written down beforehand."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from awm_hub.environment import Environment
from awm_hub.policy.acting import Action, Call, Message, View


def calling(tool: str, **arguments: Any) -> Action:
    """An action with one call."""
    return Action(calls=(Call(tool=tool, arguments=arguments),))


def answering(answer: str | None) -> Action:
    """An action that ends the episode."""
    return Action(answer=answer)


class Scripted:
    """Takes one action after the other; an exception among them is raised. Then it answers nothing."""

    def __init__(
        self, *actions: Action | Exception, is_strict: bool = False, uses_meta_tools: bool = False, name: str = "script"
    ) -> None:
        self.actions, self.is_strict, self.uses_meta_tools, self.name = actions, is_strict, uses_meta_tools, name
        self.views: list[View] = []

    def describe(self) -> dict[str, Any]:
        return {"kind": self.name}

    async def act(self, view: View) -> Action:
        self.views.append(view)
        if len(view.turns) >= len(self.actions):
            return Action()
        action = self.actions[len(view.turns)]
        if isinstance(action, Exception):
            raise action
        return action

    def transcript(self, view: View) -> tuple[Message, ...]:
        return tuple(turn.action.message for turn in view.turns if turn.action.message is not None)


class Solving(Scripted):
    """Makes the calls of the reference solution, one a turn, and gives the expected answer."""

    def __init__(self, environments: Mapping[str, Environment] | Iterable[Environment], **settings: Any) -> None:
        super().__init__(**{"name": "solving", **settings})
        values = environments.values() if isinstance(environments, Mapping) else environments
        self.tasks = {task.id: task for environment in values for task in environment.tasks}

    async def act(self, view: View) -> Action:
        task = self.tasks[view.task_id or ""]
        solution = task.solution or ()
        if len(view.turns) < len(solution):
            call = solution[len(view.turns)]
            return calling(call.tool, **call.arguments)
        return answering(None if task.answer is None else json.dumps(task.answer))

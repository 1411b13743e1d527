"""What is no policy is refused by name before anything runs; what it does wrong in an attempt is told with its line."""

import re
from typing import Any

import pytest
from rollouts.scripts import Scripted, answering

from awm_hub import aio
from awm_hub.environment import Environment
from awm_hub.errors import UsageError
from awm_hub.rollouts import attempt
from awm_hub.rollouts.policies import check_policy


class Bare:
    """Nothing but an action."""

    is_strict = False

    async def act(self, view: Any) -> Any:
        return answering("")

    def transcript(self, view: Any) -> tuple[()]:
        return ()


class Described(Scripted):
    """A policy with a description of the test."""

    def __init__(self, description: Any) -> None:
        super().__init__()
        self.description = description

    def describe(self) -> Any:
        return self.description


@pytest.mark.parametrize(
    ("policy", "says", "step"),
    [
        (Scripted, "Scripted is a class, and a policy is an object", r"make one: Scripted\(\)"),
        (Bare(), r"the policy Bare has no describe\(\) and no uses_meta_tools", "docs/rollouts.md"),
        (object(), r"no describe\(\) and no act\(\) and no transcript\(\)", "docs/rollouts.md"),
        (Described(["x"]), r"Described.describe\(\) gives a list and no dict", "docs/rollouts.md"),
        (Described({"at": {1, 2}}), r"is no JSON: Object of type set is not JSON serializable", "texts, numbers"),
        (Described({"at": float("nan")}), r"is no JSON", "texts, numbers"),
    ],
)
def test_what_is_no_policy_is_told_by_what_is_missing(policy: Any, says: str, step: str) -> None:
    with pytest.raises(UsageError, match=says) as found:
        check_policy(policy)
    assert re.search(step, found.value.next_step)


async def test_a_method_that_is_no_coroutine_function_is_told_as_such(notes_environment: Environment) -> None:
    class Plain(Scripted):
        def act(self, view: Any) -> Any:
            return answering("")

    async with aio.launch(notes_environment, task="overdue") as instance:
        trajectory = await attempt(instance, Plain())
    assert trajectory.termination == "stopped"
    assert trajectory.usage["error"] == {
        "type": "UsageError",
        "message": "Plain.act is no coroutine function",
        "next": "write `async def act(self, view)`",
    }


async def test_the_innermost_line_of_the_policy_s_file_is_recorded_without_its_folder(
    notes_environment: Environment,
) -> None:
    class Buggy(Scripted):
        async def act(self, view: Any) -> Any:
            return self.helper()

        def helper(self) -> Any:
            return check_policy(None)

    async with aio.launch(notes_environment, task="overdue") as instance:
        trajectory = await attempt(instance, Buggy())
    line = Buggy.helper.__code__.co_firstlineno + 1
    assert trajectory.usage["error"]["where"] == f"test_policies.py:{line}"

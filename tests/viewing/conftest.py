"""Rollouts of the `notes` environment, made and judged for real."""

import dataclasses
from collections.abc import Callable

import pytest

import awm_hub
from awm_hub.environment import Environment
from awm_hub.trajectory import Trajectory

CALLS = (
    ("edit_note", {"note_id": 1, "fields": {"due_on": "2026-03-06"}}, "The note about the plumber is note 1."),
    ("get_note", {"note_id": 99}, None),
    ("get_note", {"note_id": "1"}, None),
    ("create_note", {"notebook": "Home", "title": "Extra", "tags": ["kitchen"]}, None),
)


@pytest.fixture(scope="session")
def trajectory(notes_environment: Environment) -> Trajectory:
    """A judged rollout with a changing call, a refused one, an invalid one and another changing one."""
    with awm_hub.launch(notes_environment, task="postpone_plumber", seed=7) as instance:
        for tool, arguments, thought in CALLS:
            instance.call_tool(tool, arguments, thought=thought)
        instance.submit("I moved it.")
        made = instance.trajectory()
    return dataclasses.replace(
        made,
        verdicts=(awm_hub.judge(made),),
        policy={"kind": "chat", "model": "some/model"},
        violations=({"rule": 3, "name": "invalid_arguments", "turn": 0, "message": "'1' is no integer"},),
        usage={"prompt_tokens": 1200, "completion_tokens": 34, "seconds": 1.25},
        messages=({"role": "system", "content": "Be good."}, {"role": "assistant", "tool_calls": [{"id": "a"}]}),
    )


@pytest.fixture
def changed(trajectory: Trajectory) -> Callable[..., Trajectory]:
    """The rollout with other fields."""
    return lambda **fields: dataclasses.replace(trajectory, **fields)

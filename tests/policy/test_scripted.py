"""The policies without a model: solution, nothing, chance, replay."""

import dataclasses
from typing import Any

import pytest
from episodes import called, view_of

from awm_hub import aio
from awm_hub.canonical import to_json
from awm_hub.environment import Call as SolutionCall
from awm_hub.environment import Environment, ToolSpec
from awm_hub.errors import DataError, UnknownNameError, UsageError
from awm_hub.policy import Action, Call, NoopPolicy, Policy, RandomPolicy, ReplayPolicy, SolutionPolicy, Turn, View
from awm_hub.trajectory import Trajectory


def start(environment: Environment, task: str) -> View:
    """The first view of a task."""
    found = environment.task(task)
    return dataclasses.replace(
        view_of(tools=environment.tools),
        environment_id=environment.id,
        task_id=found.id,
        briefing=environment.briefing,
        prompt=found.prompt,
    )


async def actions_of(policy: Policy, view: View, *, most: int = 30) -> list[Action]:
    """What a policy does until it makes no more calls, every call taken to succeed."""
    found: list[Action] = []
    while len(found) < most:
        action = await policy.act(view)
        found.append(action)
        if not action.calls:
            break
        view = dataclasses.replace(view, turns=(*view.turns, Turn(action=action)))
    return found


async def test_the_solution_is_carried_out_call_by_call_and_answered(notes_environment: Environment) -> None:
    policy = SolutionPolicy({"notes": notes_environment})
    for task in notes_environment.tasks:
        *calls, last = await actions_of(policy, start(notes_environment, task.slug))
        made = [SolutionCall(tool=c.tool, arguments=c.arguments) for action in calls for c in action.calls]
        assert tuple(made) == task.solution
        assert last.answer == ("Done." if task.answer is None else to_json(task.answer))


async def test_a_task_without_a_solution_is_a_data_error(notes_environment: Environment) -> None:
    bare = dataclasses.replace(
        notes_environment, tasks=tuple(dataclasses.replace(t, solution=None) for t in notes_environment.tasks)
    )
    with pytest.raises(DataError, match="no reference solution"):
        await SolutionPolicy({"notes": bare}).act(start(bare, bare.tasks[0].slug))


async def test_a_task_that_is_not_there_is_an_unknown_name(notes_environment: Environment) -> None:
    with pytest.raises(UnknownNameError):
        await SolutionPolicy({"notes": notes_environment}).act(view_of())


async def test_noop_answers_nothing_at_once() -> None:
    assert await NoopPolicy().act(view_of()) == Action(answer="")


async def test_random_calls_are_repeatable_and_differ_by_seed() -> None:
    policy = RandomPolicy(calls=6)
    first, again = await actions_of(policy, view_of()), await actions_of(RandomPolicy(calls=6), view_of())
    other = await actions_of(policy, view_of(seed=1))
    assert first == again != other
    assert [len(action.calls) for action in first] == [1] * 6 + [0]
    assert first[-1].answer == ""
    assert {call.tool for action in first + other for call in action.calls} == {"add_note", "list_notes"}


@pytest.mark.parametrize("schema", [{}, {"type": "string"}, {"properties": 3}, {"$ref": "#"}, {"enum": [1]}])
async def test_random_calls_survive_odd_schemas(schema: dict[str, Any]) -> None:
    tool = ToolSpec(name="odd", description="", input_schema=schema)
    action = await RandomPolicy().act(view_of(tools=(tool,)))
    assert action.calls == (Call(tool="odd", arguments={}),)


async def test_random_without_tools_answers_at_once() -> None:
    assert await RandomPolicy().act(view_of(tools=())) == Action(answer="")


def test_a_negative_number_of_random_calls_is_refused() -> None:
    with pytest.raises(UsageError):
        RandomPolicy(calls=-1)


async def recorded(environment: Environment, policy: Policy, *, seed: int = 0) -> Trajectory:
    """What a policy does on a live instance."""
    task = next(t for t in environment.tasks if t.kind == "change")
    async with await aio.launch(environment, task=task.slug, seed=seed) as instance:
        view = dataclasses.replace(start(environment, task.slug), seed=seed)
        while True:
            action = await policy.act(view)
            if not action.calls:
                await instance.submit(action.answer)
                return await instance.trajectory()
            results = [await instance.call_tool(call.tool, call.arguments) for call in action.calls]
            view = dataclasses.replace(view, turns=(*view.turns, Turn(action=action, results=tuple(results))))


@pytest.mark.parametrize("kind", ["solution", "random"])
async def test_a_replay_ends_in_the_same_database_with_the_same_answer(
    kind: str, notes_environment: Environment
) -> None:
    policy = SolutionPolicy({"notes": notes_environment}) if kind == "solution" else RandomPolicy(calls=12)
    first = await recorded(notes_environment, policy, seed=5)
    again = await recorded(notes_environment, ReplayPolicy(first), seed=5)
    assert first.steps == again.steps
    assert (first.database_delta, first.answer, first.calls_count) == (
        again.database_delta,
        again.answer,
        again.calls_count,
    )


async def test_a_replay_without_calls_only_answers(notes_environment: Environment) -> None:
    first = await recorded(notes_environment, NoopPolicy())
    assert await actions_of(ReplayPolicy(first), view_of()) == [Action(answer="")]


async def test_scripted_policies_hold_no_conversation_and_are_not_strict(notes_environment: Environment) -> None:
    trajectory = await recorded(notes_environment, NoopPolicy())
    for policy, kind in (
        (SolutionPolicy({}), "solution"),
        (NoopPolicy(), "noop"),
        (RandomPolicy(calls=3), "random"),
        (ReplayPolicy(trajectory), "replay"),
    ):
        assert (policy.is_strict, policy.uses_meta_tools) == (False, False)
        assert policy.transcript(view_of(called())) == ()
        assert policy.describe()["kind"] == kind
        to_json(policy.describe())

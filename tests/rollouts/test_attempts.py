"""An attempt gives a trajectory that says how it ended, whatever the policy and the environment do."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from making import make_environment
from rollouts.scripts import Scripted, Solving, answering, calling

from awm_hub import aio
from awm_hub.canonical import to_json
from awm_hub.environment import Environment, Task
from awm_hub.errors import ContextFullError, RemoteError, UsageError
from awm_hub.inference import Usage
from awm_hub.policy.acting import Action, Call, Policy, Violation
from awm_hub.rollouts import attempt
from awm_hub.runtime.limits import Limits
from awm_hub.trajectory import Outcome, Trajectory, decoded, trajectory_from

Attempt = Callable[..., Awaitable[Trajectory]]
SEARCH = calling("search_notes", query="plumber")
EDIT = calling("edit_note", note_id=1, fields={"due_on": "2026-03-06"})


@pytest.fixture
def on_notes(notes_environment: Environment) -> Attempt:
    async def go(policy: Policy, *, task: str = "postpone_plumber", **settings: Any) -> Trajectory:
        async with aio.launch(notes_environment, task=task, seed=5) as instance:
            return await attempt(instance, policy, **settings)

    return go


@pytest.fixture
async def failing() -> Environment:
    """An environment whose tools fail in three ways."""
    code = '''
import os
import sqlite3


def crash(db: sqlite3.Connection) -> None:
    """Fail."""
    raise KeyError("no such thing")


def spin(db: sqlite3.Connection) -> None:
    """Never come back."""
    while True:
        pass


def count(db: sqlite3.Connection) -> int:
    """Count the notes."""
    return db.execute("SELECT count(*) FROM notes").fetchone()[0]
'''
    return await make_environment(code, tasks=(Task(id="made/t", instruction="Count.", kind="query", answer=2),))


async def test_a_policy_that_does_the_right_thing_completes_the_task(
    on_notes: Attempt, notes_environment: Environment
) -> None:
    trajectory = await on_notes(Solving([notes_environment]))
    assert trajectory.termination == "answered"
    assert [step.tool for step in trajectory.steps] == ["search_notes", "edit_note"]
    assert trajectory.policy == {"kind": "solving"}
    assert (trajectory.seed, trajectory.usage["turns"], trajectory.violations) == (5, 3, ())
    assert (await aio.judge(trajectory)).outcome is Outcome.COMPLETED


async def test_a_policy_sees_briefing_prompt_tools_and_what_came_of_its_calls_and_nothing_else(
    on_notes: Attempt, notes_environment: Environment
) -> None:
    policy = Scripted(SEARCH, answering("3"))
    await on_notes(policy, task="overdue")
    first, second = policy.views
    task = notes_environment.task("overdue")
    assert first.prompt == task.prompt
    assert first.briefing == notes_environment.briefing
    assert first.tools == notes_environment.tools
    assert (first.environment_id, first.task_id, first.seed, first.turns) == ("notes", "notes/overdue", 5, ())
    assert [turn.action for turn in second.turns] == [SEARCH]
    assert second.turns[0].results[0].value[0]["id"] == 1
    assert not hasattr(first, "__dict__") or set(vars(first)) == {
        "environment_id",
        "task_id",
        "briefing",
        "prompt",
        "tools",
        "seed",
        "turns",
    }
    for secret in (task.answer_sql, "decide_", "signals_", "Nothing in the database changed"):
        assert secret is not None
        assert secret not in repr(first)


@pytest.mark.parametrize(
    "name",
    ["signals_overdue", "decide_overdue", "verify", "judge", "solution", "submit", "reset", "snapshot", "__init__",
     "_note", "sqlite3", "call_tool", "list_tools", "../verifiers", "", "x" * 5000, "\ud83c"],
)  # fmt: skip
async def test_a_policy_that_reaches_for_the_judge_s_side_gets_an_invalid_call(on_notes: Attempt, name: str) -> None:
    trajectory = await on_notes(Scripted(calling(name, trajectory="x"), answering("")))
    (step,) = trajectory.steps
    assert (step.result.type, step.result.code) == ("invalid_call", "unknown_tool")
    assert [v["name"] for v in trajectory.violations] == ["unknown_tool", "no_successful_call"]
    assert trajectory.calls_count == 0


async def test_a_strict_rollout_ends_at_the_first_broken_rule(on_notes: Attempt) -> None:
    policy = Scripted(SEARCH, calling("edit_note", note_id="one"), EDIT, is_strict=True)
    trajectory = await on_notes(policy)
    assert trajectory.termination == "format_error"
    assert [step.result.type for step in trajectory.steps] == ["ok", "invalid_call"]
    assert [(v["rule"], v["turn"]) for v in trajectory.violations] == [(3, 1)]
    assert trajectory.usage["turns"] == 2


async def test_a_lenient_rollout_goes_on_and_records_the_rule(on_notes: Attempt) -> None:
    trajectory = await on_notes(Scripted(calling("edit_note", note_id="one"), EDIT, answering(None)))
    assert trajectory.termination == "answered"
    assert [(v["rule"], v["turn"]) for v in trajectory.violations] == [(3, 0)]
    assert (await aio.judge(trajectory)).outcome is Outcome.COMPLETED


async def test_an_unknown_tool_ends_a_strict_rollout_before_anything_is_called(on_notes: Attempt) -> None:
    both = Action(calls=(Call(tool="edit_note", arguments={}), Call(tool="nothing", arguments={})))
    trajectory = await on_notes(Scripted(both, is_strict=True))
    assert (trajectory.termination, trajectory.steps) == ("format_error", ())


async def test_a_broken_message_ends_no_lenient_rollout(on_notes: Attempt) -> None:
    broken = Action(violations=(Violation(rule=3, name="invalid_arguments", turn=0, message="cut off"),))
    trajectory = await on_notes(Scripted(broken, EDIT, answering(None)))
    assert [v["name"] for v in trajectory.violations] == ["invalid_arguments"]
    assert (trajectory.termination, trajectory.usage["turns"], len(trajectory.steps)) == ("answered", 3, 1)


async def test_several_turns_without_a_successful_call_are_a_format_error_in_a_strict_rollout(
    on_notes: Attempt,
) -> None:
    missing = calling("get_note", note_id=99)
    strict = await on_notes(Scripted(missing, answering("9"), is_strict=True))
    assert (strict.termination, strict.answer) == ("format_error", "9")
    assert [(v["rule"], v["turn"]) for v in strict.violations] == [(5, 2)]
    lenient = await on_notes(Scripted(missing, answering("9")))
    assert (lenient.termination, len(lenient.violations)) == ("answered", 1)


async def test_an_answer_at_once_breaks_no_rule(on_notes: Attempt) -> None:
    trajectory = await on_notes(Scripted(answering(""), is_strict=True))
    assert (trajectory.termination, trajectory.answer, trajectory.violations) == ("answered", "", ())


async def test_rules_of_the_meta_tools_hold_where_a_policy_uses_them(on_notes: Attempt) -> None:
    policy = Scripted(SEARCH, is_strict=True, uses_meta_tools=True)
    trajectory = await on_notes(policy)
    assert [v["name"] for v in trajectory.violations] == ["think_missing", "list_tools_first"]
    listing = Action(lists_tools=True, thought="first the tools")
    told = Action(calls=SEARCH.calls, thought="then the notes")
    done = Action(answer="9", thought="done")
    trajectory = await on_notes(Scripted(listing, told, done, is_strict=True, uses_meta_tools=True))
    assert (trajectory.termination, trajectory.violations, len(trajectory.steps)) == ("answered", (), 1)
    assert trajectory.steps[0].thought == "then the notes"


async def test_a_fault_of_the_environment_ends_a_strict_rollout_as_such(failing: Environment) -> None:
    async with aio.launch(failing, task="t") as instance:
        trajectory = await attempt(instance, Scripted(calling("crash"), answering("2"), is_strict=True))
    assert trajectory.termination == "environment_fault"
    assert [(v["rule"], v["name"]) for v in trajectory.violations] == [(6, "server_error")]
    assert (await aio.judge(trajectory, environment=failing)).outcome is Outcome.ENVIRONMENT_ERROR


async def test_a_lenient_rollout_goes_on_after_a_fault(failing: Environment) -> None:
    async with aio.launch(failing, task="t", limits=Limits(call_soft_s=0.2, call_hard_s=0.5)) as instance:
        actions = (calling("crash"), calling("spin"), calling("count"), answering("2"))
        trajectory = await attempt(instance, Scripted(*actions))
    assert trajectory.termination == "answered"
    assert [step.result.type for step in trajectory.steps] == ["fault", "fault", "ok"]
    assert [v["rule"] for v in trajectory.violations] == [6, 6]


async def test_an_instance_that_cannot_be_had_back_is_an_environment_fault(notes_environment: Environment) -> None:
    class Closing(Scripted):
        async def act(self, view: Any) -> Action:
            await instance.close()
            return SEARCH

    instance = await aio.launch(notes_environment, task="overdue")
    trajectory = await attempt(instance, Closing())
    assert trajectory.termination == "environment_fault"
    assert trajectory.usage["error"]["type"] == "EpisodeError"
    assert (await aio.judge(trajectory)).outcome is Outcome.ENVIRONMENT_ERROR


@pytest.mark.parametrize(
    ("error", "termination"),
    [
        (RemoteError("the endpoint is away"), "endpoint_error"),
        (ContextFullError("too long"), "context_full"),
        (ZeroDivisionError("by zero"), "stopped"),
        (UsageError("no such thing"), "stopped"),
        (TimeoutError(), "stopped"),
    ],
)
async def test_what_a_policy_raises_ends_the_rollout_and_is_recorded(
    on_notes: Attempt, error: Exception, termination: str
) -> None:
    trajectory = await on_notes(Scripted(EDIT, error))
    assert trajectory.termination == termination
    assert trajectory.usage["error"]["type"] == type(error).__name__
    assert (len(trajectory.steps), trajectory.answer, trajectory.usage["turns"]) == (1, None, 1)


async def test_a_policy_that_gives_no_action_ends_the_rollout(on_notes: Attempt) -> None:
    trajectory = await on_notes(Scripted(EDIT, None))  # type: ignore[arg-type]
    assert trajectory.termination == "stopped"
    assert trajectory.usage["error"] == {"type": "UsageError", "message": "the policy gave a NoneType and no Action"}


async def test_the_last_turn_is_the_one_that_the_limit_allows(on_notes: Attempt) -> None:
    trajectory = await on_notes(Scripted(SEARCH, SEARCH, SEARCH), max_turns=2)
    assert (trajectory.termination, len(trajectory.steps)) == ("max_turns", 2)
    answered = await on_notes(Scripted(SEARCH, answering("x")), max_turns=2)
    assert answered.termination == "answered"
    with pytest.raises(UsageError, match="max_turns is 0"):
        await on_notes(Scripted(), max_turns=0)


async def test_an_attempt_needs_a_task(notes_environment: Environment) -> None:
    async with aio.launch(notes_environment) as instance:
        with pytest.raises(UsageError, match="needs a task"):
            await attempt(instance, Scripted())


@pytest.mark.parametrize("arguments", [{"query": "\ud83c"}, {"q\udf78": 1}, {"query": float("nan")}, "{}", None, [1]])
async def test_arguments_without_a_json_form_are_an_invalid_call_that_is_stored_and_replays(
    on_notes: Attempt, arguments: Any
) -> None:
    trajectory = await on_notes(Scripted(Action(calls=(Call(tool="search_notes", arguments=arguments),))))
    (step,) = trajectory.steps
    if arguments is not None:
        assert step.result.type == "invalid_call"
    read = trajectory_from(decoded(to_json(trajectory.to_dict()), "it"), "it")
    assert read.steps[0].arguments == step.arguments
    again = await on_notes(Scripted(Action(calls=(Call(tool="search_notes", arguments=step.arguments),))))
    assert again.steps[0].result.type == step.result.type
    assert again.database_delta == trajectory.database_delta


async def test_an_answer_with_half_a_character_is_stored_marked_and_judged_as_wrong(on_notes: Attempt) -> None:
    trajectory = await on_notes(Scripted(answering("1\ud83c")), task="overdue")
    assert (trajectory.answer, trajectory.usage["replaced_characters"]) == ("1\ufffd", ["answer"])
    assert (await aio.judge(trajectory)).outcome is Outcome.AGENT_ERROR
    to_json(trajectory.to_dict())


async def test_tokens_cost_and_messages_are_recorded(on_notes: Attempt) -> None:
    def spent(tokens: int) -> Usage:
        return Usage(prompt_tokens=100, completion_tokens=tokens, cost_usd=0.5, seconds=2.0, requests=1)

    message = {"role": "assistant", "content": "\ud83cfine"}
    two = (*SEARCH.calls, *SEARCH.calls)
    policy = Scripted(
        Action(calls=two, usage=spent(7), thought="t\ud83c", message=message), Action(answer="", usage=spent(3))
    )
    trajectory = await on_notes(policy)
    told = {k: v for k, v in trajectory.usage.items() if k != "seconds"}
    assert told == {
        "turns": 2,
        "prompt_tokens": 200,
        "completion_tokens": 10,
        "cost_usd": 1.0,
        "requests": 2,
        "policy_seconds": 4.0,
    }
    assert [(step.tokens, step.thought) for step in trajectory.steps] == [(7, "t\ufffd"), (None, None)]
    assert trajectory.messages == ({"role": "assistant", "content": "\ufffdfine"},)


@pytest.mark.parametrize(("is_strict", "termination"), [(True, "format_error"), (False, "max_turns")])
async def test_an_attempt_of_refused_calls_breaks_rule_5_when_its_turns_are_used_up(
    on_notes: Any, is_strict: bool, termination: str
) -> None:
    refused = [calling("get_note", note_id=99) for _ in range(2)]
    found = await on_notes(Scripted(*refused, is_strict=is_strict), max_turns=2)
    assert (found.termination, [v["name"] for v in found.violations]) == (termination, ["no_successful_call"])

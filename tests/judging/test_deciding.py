"""Verdicts by code: from the ending's database, the answer, and nothing else."""

import asyncio
import dataclasses
from collections import OrderedDict

import pytest
from making import make_environment

import awm_hub
from awm_hub import aio
from awm_hub.environment import Call, Environment, Quality, Task, TaskQuality, Verifier
from awm_hub.errors import JudgeError, UsageError
from awm_hub.judging import deciding, judge_async
from awm_hub.trajectory import Outcome, Trajectory, Verdict

CODE = '''
import sqlite3


def add_note(db: sqlite3.Connection, text: str) -> int:
    """Add a note.

    Args:
        text: Its text.
    """
    return db.execute("INSERT INTO notes (text) VALUES (?)", (text,)).lastrowid


def remove_note(db: sqlite3.Connection, note_id: int) -> bool:
    """Remove a note.

    Args:
        note_id: Which one.
    """
    return db.execute("DELETE FROM notes WHERE id = ?", (note_id,)).rowcount == 1


def count_notes(db: sqlite3.Connection) -> int:
    """Count the notes."""
    return db.execute("SELECT count(*) FROM notes").fetchone()[0]
'''
VERIFIERS = """
def signals_add(initial, final, changes):
    return {"texts": [row["text"] for row in final.execute("SELECT text FROM notes ORDER BY id")]}


def decide_any(initial, final, changes):
    added = [row["text"] for row in changes.get("notes", {}).get("added", [])]
    if added in (["tea"], ["coffee"]):
        return {"result": "complete", "reasons": []}
    return {"result": "partial" if added else "others", "reasons": ["added " + repr(added)]}


def decide_broken(initial, final, changes):
    return {"result": "splendid"}


def decide_raising(initial, final, changes):
    return 1 / 0


def decide_upstream(initial_db_path, final_db_path, final_answer=None):
    return {"result": "complete"}
"""


def task(slug: str, **fields: object) -> Task:
    return Task(id=f"made/{slug}", instruction="Do it.", **fields)  # type: ignore[arg-type]


def decision(function: str) -> Verifier:
    return Verifier(kind="decision", function=function)


ADD = (Call(tool="add_note", arguments={"text": "milk"}),)
TASKS = (
    task("add", kind="change", solution=ADD, verifiers=(Verifier(kind="signals", function="signals_add"),)),
    task("count", kind="query", answer=2, solution=(Call(tool="count_notes", arguments={}),)),
    task("both", kind="both", answer=3, solution=(*ADD, Call(tool="count_notes", arguments={}))),
    task("any", kind="change", solution=ADD, verifiers=(decision("decide_any"),)),
    task("asking", kind="query", answer=2, verifiers=(decision("decide_upstream"),)),
    task("free", kind="change", solution=ADD, free=("notes.text",)),
    task("broken", kind="change", verifiers=(decision("decide_broken"),)),
    task("raising", kind="change", verifiers=(decision("decide_raising"),)),
    task("missing", kind="change", verifiers=(decision("decide_nowhere"),)),
    task("nothing_known", kind="change"),
    task("upstream", verifiers=(decision("decide_upstream"),)),
    task("wrong_solution", kind="change", solution=(Call(tool="add_note", arguments={}),)),
)


@pytest.fixture(scope="module")
def environment() -> Environment:
    return asyncio.run(
        make_environment(CODE, tasks=TASKS, verifier_module=VERIFIERS, volatile_columns=("notes.made_at",))
    )


async def attempt(
    environment: Environment, slug: str, calls: list[tuple[str, dict]], answer: str | None = None
) -> Trajectory:
    async with await aio.launch(environment, task=slug) as instance:
        for tool, arguments in calls:
            await instance.call_tool(tool, arguments)
        await instance.submit(answer)
        return await instance.trajectory()


ADD_MILK, ADD_TEA, READ = ("add_note", {"text": "milk"}), ("add_note", {"text": "tea"}), ("count_notes", {})


@pytest.mark.parametrize(
    ("slug", "calls", "answer", "outcome"),
    [
        ("add", [ADD_MILK], None, Outcome.COMPLETED),
        ("add", [READ, READ, ADD_MILK, READ], "All done.", Outcome.COMPLETED),
        ("add", [], None, Outcome.AGENT_ERROR),
        ("add", [ADD_MILK, ADD_MILK], None, Outcome.AGENT_ERROR),
        ("add", [ADD_MILK, ("remove_note", {"note_id": 1})], None, Outcome.AGENT_ERROR),
        ("add", [ADD_TEA], None, Outcome.AGENT_ERROR),
        ("count", [READ], "2", Outcome.COMPLETED),
        ("count", [], "2", Outcome.COMPLETED),
        ("count", [READ], "There are 2 notes.", Outcome.AGENT_ERROR),
        ("count", [READ], None, Outcome.AGENT_ERROR),
        ("count", [ADD_MILK], "2", Outcome.AGENT_ERROR),
        ("both", [ADD_MILK], "3", Outcome.COMPLETED),
        ("both", [ADD_MILK], "2", Outcome.AGENT_ERROR),
        ("both", [], "3", Outcome.AGENT_ERROR),
        ("any", [ADD_TEA], None, Outcome.COMPLETED),
        ("any", [ADD_MILK], None, Outcome.PARTIALLY_COMPLETED),
        ("any", [], None, Outcome.AGENT_ERROR),
        ("asking", [READ], "2", Outcome.COMPLETED),
        ("asking", [ADD_TEA], "2", Outcome.AGENT_ERROR),
        ("free", [ADD_TEA], None, Outcome.COMPLETED),
        ("free", [ADD_TEA, ADD_TEA], None, Outcome.AGENT_ERROR),
    ],
)
async def test_verdicts(environment: Environment, slug: str, calls: list, answer: str | None, outcome: Outcome) -> None:
    trajectory = await attempt(environment, slug, calls, answer)
    verdict = await judge_async(trajectory)
    assert verdict.outcome is outcome, verdict.reasoning
    assert Verdict.from_dict(verdict.to_dict()) == verdict


async def test_evidence_holds_signals_changes_and_decision(environment: Environment) -> None:
    verdict = await judge_async(await attempt(environment, "add", [ADD_TEA]))
    evidence = verdict.evidence.to_dict()
    assert evidence["signals"] == {"texts": ["first", "second", "tea"]}
    assert evidence["diff"] == {"notes": {"added": [{"id": 3, "text": "tea"}], "removed": [], "changed": []}}
    assert evidence["decision"]["by"] == "solution"
    assert "tea" in verdict.reasoning


async def test_the_reference_judge_compares_even_where_there_is_a_function(environment: Environment) -> None:
    trajectory = await attempt(environment, "any", [ADD_TEA])
    assert (await judge_async(trajectory)).outcome is Outcome.COMPLETED
    assert (await judge_async(trajectory, judge="reference")).outcome is Outcome.AGENT_ERROR


@pytest.mark.parametrize(
    ("slug", "message"),
    [
        ("broken", "none of complete, partial, others"),
        ("raising", "ZeroDivisionError"),
        ("missing", "defines no function 'decide_nowhere'"),
        ("nothing_known", "no decision function and no solution"),
        ("wrong_solution", "the solution of made/wrong_solution fails at add_note"),
    ],
)
async def test_what_cannot_be_judged_raises_and_is_never_a_reward(environment, slug: str, message: str) -> None:
    trajectory = await attempt(environment, slug, [ADD_MILK])
    with pytest.raises(JudgeError, match=message):
        await judge_async(trajectory)


async def test_doing_nothing_fails_where_the_audit_found_that_it_passes(environment: Environment) -> None:
    nothing, something = await attempt(environment, "upstream", []), await attempt(environment, "upstream", [ADD_MILK])
    assert (await judge_async(nothing)).outcome is Outcome.COMPLETED
    found = TaskQuality(id="made/upstream", noop_rejected=False)
    audited = dataclasses.replace(environment, quality=Quality(tasks=(found,)))
    assert (await judge_async(nothing, environment=audited)).outcome is Outcome.AGENT_ERROR
    assert (await judge_async(something, environment=audited)).outcome is Outcome.COMPLETED


async def test_a_trajectory_without_its_environment_or_task_says_what_to_do(environment: Environment) -> None:
    trajectory = await attempt(environment, "add", [ADD_MILK])
    with pytest.raises(JudgeError, match="not at hand"):
        await judge_async(dataclasses.replace(trajectory, environment=None))
    with pytest.raises(JudgeError, match="another version"):
        await judge_async(dataclasses.replace(trajectory, environment_hash="0" * 64))
    with pytest.raises(JudgeError, match="has no task"):
        await judge_async(dataclasses.replace(trajectory, task_id=None))
    with pytest.raises(UsageError, match="no judge named 'coin'"):
        await judge_async(trajectory, judge="coin")


async def test_a_failed_environment_is_no_agent_error(environment: Environment) -> None:
    trajectory = dataclasses.replace(await attempt(environment, "add", []), termination="environment_fault")
    assert (await judge_async(trajectory)).outcome is Outcome.ENVIRONMENT_ERROR


def test_judging_works_synchronously(environment: Environment) -> None:
    with awm_hub.launch(environment, task="add") as instance:
        instance.call_tool(*ADD_MILK)
        assert awm_hub.judge(instance.trajectory()).outcome is Outcome.COMPLETED


async def test_an_answer_in_prose_is_told_why_it_was_not_read(environment: Environment) -> None:
    verdict = await judge_async(await attempt(environment, "count", [READ], "There are 2 notes."))
    assert verdict.reasoning.startswith("the database is right, but no answer was found: ")


async def test_judgements_at_the_same_time_share_one_run_of_the_solution(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    launched = []

    async def counted(*args: object, **more: object) -> object:
        launched.append(more["task"])
        return await launch(*args, **more)  # type: ignore[arg-type]

    launch = deciding.launch
    monkeypatch.setattr(deciding, "launch", counted)
    monkeypatch.setattr(deciding, "_endings", OrderedDict())
    trajectories = [await attempt(environment, "add", [call]) for call in (ADD_MILK, ADD_TEA, ADD_MILK)]

    verdicts = await asyncio.gather(*(judge_async(one, environment=environment) for one in trajectories))

    assert [v.outcome is Outcome.COMPLETED for v in verdicts] == [True, False, True]
    assert launched == ["made/add"]

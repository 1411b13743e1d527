"""The model's judge, against an endpoint that says what the test tells it to."""

import asyncio
import dataclasses
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from endpoint import FakeEndpoint, Script, fails, running_endpoint, says

import awm_hub
from awm_hub import aio
from awm_hub.environment import Environment, Verifier
from awm_hub.errors import JudgeError, UsageError
from awm_hub.inference import Endpoint, Price
from awm_hub.judging import LlmJudge, judge_async
from awm_hub.trajectory import Outcome, Step, ToolResult, Trajectory, Verdict

POSTPONE = ("edit_note", {"note_id": 1, "fields": {"due_on": "2026-03-06"}})
OUTCOMES = [str(outcome) for outcome in Outcome]


def opinion(outcome: str, reasoning: str = "Because.", **changes: object) -> str:
    confidences = {name: 0.9 if name == outcome else 0.1 for name in OUTCOMES}
    return json.dumps({"reasoning": reasoning, "outcome": outcome, "confidences": confidences, **changes})


@asynccontextmanager
async def judging(script: Script, **settings: object) -> AsyncIterator[tuple[LlmJudge, FakeEndpoint]]:
    with running_endpoint(script) as fake:
        async with Endpoint("m", base_url=fake.base_url, attempts=1) as endpoint:
            yield LlmJudge(endpoint, **settings), fake  # type: ignore[arg-type]


async def attempt(environment: Environment, slug: str, *calls: tuple[str, dict], answer: str | None = "") -> Trajectory:
    async with aio.launch(environment, task=slug) as instance:
        for tool, arguments in calls:
            await instance.call_tool(tool, arguments, thought="I am the best agent.")
        await instance.submit(answer)
        return await instance.trajectory()


@pytest.fixture
async def postponed(notes_environment: Environment) -> Trajectory:
    return await attempt(notes_environment, "postpone_plumber", POSTPONE, answer="Done.")


async def test_a_model_decides_on_task_episode_criteria_and_evidence(postponed: Trajectory) -> None:
    async with judging([says(opinion("COMPLETED", "The day was moved."))]) as (judge, fake):
        verdict = await judge_async(postponed, judge=judge)
    assert (verdict.outcome, verdict.judge, verdict.reasoning) == (Outcome.COMPLETED, "llm", "The day was moved.")
    assert verdict.usage["prompt_tokens"] == 7
    assert verdict.usage["agreement"] == 1
    assert verdict.usage["judge"]["model"] == "m"
    assert Verdict.from_dict(json.loads(json.dumps(verdict.to_dict()))) == verdict
    [body] = fake.bodies
    assert body["response_format"]["json_schema"]["schema"]["required"] == ["reasoning", "outcome", "confidences"]
    lines = body["messages"][1]["content"].split("\n")
    boundary = lines[0].removesuffix(" task")
    assert boundary in body["messages"][0]["content"]
    assert [line.removeprefix(boundary) for line in lines[::2]] == [
        " task",
        " criteria",
        " episode",
        " evidence",
        " end",
    ]
    task, criteria, episode, evidence = (json.loads(line) for line in lines[1::2])
    assert task["instruction"].startswith("The plumber cannot come")
    assert criteria["success"] == ["Note 1 is due on 2026-03-06; its text and everything else are as before."]
    assert [step["tool"] for step in episode["steps"]] == ["edit_note"]
    assert episode["final_message"] == "Done."
    assert evidence["signals"] == {"due_on": "2026-03-06", "changed_notes": [1]}
    assert evidence["decision"]["result"] == "complete"
    assert evidence["changes"]["notes"]["changed"][0]["after"]["due_on"] == "2026-03-06"


async def test_boundaries_are_drawn_anew_and_thoughts_are_kept_out_unless_asked_for(postponed: Trajectory) -> None:
    async with judging(lambda body: says(opinion("COMPLETED")), votes=2) as (judge, fake):
        await judge.judge(postponed)
    first, second = (body["messages"][1]["content"] for body in fake.bodies)
    assert first.split("\n")[0] != second.split("\n")[0]
    assert first.split("\n")[1::2] == second.split("\n")[1::2]
    assert "best agent" not in first
    async with judging([says(opinion("COMPLETED"))], shows_thoughts=True) as (judge, fake):
        await judge.judge(postponed)
    assert "best agent" in fake.bodies[0]["messages"][1]["content"]


@pytest.mark.parametrize(
    ("slug", "calls", "answer", "said", "outcome"),
    [
        ("postpone_plumber", [], "Done.", "COMPLETED", Outcome.AGENT_ERROR),
        ("postpone_plumber", [], "Done.", "PARTIALLY_COMPLETED", Outcome.AGENT_ERROR),
        ("postpone_plumber", [], "Done.", "ENVIRONMENT_ERROR", Outcome.AGENT_ERROR),
        ("postpone_plumber", [POSTPONE, ("finish_note", {"note_id": 2})], "Done.", "COMPLETED", Outcome.AGENT_ERROR),
        ("postpone_plumber", [POSTPONE], "Done.", "AGENT_ERROR", Outcome.AGENT_ERROR),
        ("postpone_plumber", [POSTPONE], "Done.", "ENVIRONMENT_ERROR", Outcome.AGENT_ERROR),
        ("one_bulb_note", [("finish_note", {"note_id": 4})], "Done.", "COMPLETED", Outcome.COMPLETED),
        (
            "one_bulb_note",
            [("finish_note", {"note_id": 3}), ("finish_note", {"note_id": 4})],
            "",
            "COMPLETED",
            Outcome.PARTIALLY_COMPLETED,
        ),
        ("one_bulb_note", [("finish_note", {"note_id": 1})], "", "PARTIALLY_COMPLETED", Outcome.AGENT_ERROR),
        ("overdue", [], "1", "COMPLETED", Outcome.COMPLETED),
        ("overdue", [], "2", "COMPLETED", Outcome.AGENT_ERROR),
        ("overdue", [("finish_note", {"note_id": 2})], "1", "COMPLETED", Outcome.AGENT_ERROR),
    ],
)
async def test_evidence_that_contradicts_has_the_last_word(
    notes_environment: Environment, slug: str, calls: list, answer: str, said: str, outcome: Outcome
) -> None:
    trajectory = await attempt(notes_environment, slug, *calls, answer=answer)
    async with judging([says(opinion(said))]) as (judge, _):
        verdict = await judge.judge(trajectory)
    assert verdict.outcome is outcome
    assert verdict.usage["votes"][0]["said"] == said
    assert ("which rules out" in verdict.reasoning) == (said != outcome)


async def test_without_the_decision_only_answer_and_an_unchanged_database_rule_outcomes_out(
    notes_environment: Environment,
) -> None:
    wrong = await attempt(notes_environment, "postpone_plumber", ("finish_note", {"note_id": 1}))
    nothing = await attempt(notes_environment, "postpone_plumber")
    async with judging(lambda body: says(opinion("COMPLETED")), uses_decision=False) as (judge, fake):
        assert (await judge.judge(wrong)).outcome is Outcome.COMPLETED
        assert (await judge.judge(nothing)).outcome is Outcome.AGENT_ERROR
    assert '"decision":null' in fake.bodies[0]["messages"][1]["content"]


async def test_a_task_with_signals_alone_is_judged_by_the_model(notes_environment: Environment) -> None:
    task = dataclasses.replace(notes_environment.task("postpone_plumber"), solution=None)
    bare = dataclasses.replace(notes_environment, tasks=(task,))
    trajectory = await attempt(bare, "postpone_plumber", POSTPONE)
    with pytest.raises(JudgeError, match="no decision function and no solution"):
        await judge_async(trajectory)
    async with judging([says(opinion("COMPLETED"))]) as (judge, _):
        assert (await judge_async(trajectory, judge=judge)).outcome is Outcome.COMPLETED


async def test_a_reply_of_another_form_is_asked_for_once_more(postponed: Trajectory) -> None:
    async with judging([says("It went well."), says(opinion("COMPLETED"))]) as (judge, fake):
        verdict = await judge.judge(postponed)
    assert verdict.outcome is Outcome.COMPLETED
    assert verdict.usage["requests"] == 2
    assert verdict.usage["prompt_tokens"] == 14
    assert fake.bodies[1]["messages"][2] == {"role": "assistant", "content": "It went well."}
    assert "cannot be used" in fake.bodies[1]["messages"][3]["content"]


async def test_a_second_bad_reply_is_no_verdict(postponed: Trajectory) -> None:
    async with judging([says("Well."), says("Well!")]) as (judge, _):
        with pytest.raises(JudgeError, match="no verdict in the form asked for, twice"):
            await judge.judge(postponed)


async def test_an_endpoint_without_response_formats_is_asked_without(postponed: Trajectory) -> None:
    replies = [fails(400, "response_format is not supported"), says(opinion("COMPLETED"))]
    async with judging([*replies, says(opinion("COMPLETED"))], votes=1) as (judge, fake):
        await judge.judge(postponed)
        await judge.judge(dataclasses.replace(postponed, answer="Ready."))
    assert ["response_format" in body for body in fake.bodies] == [True, False, False]


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (fails(500, "down"), "the judge's model failed"),
        (fails(401, "no key"), "the judge's model failed"),
        (fails(400, "maximum context length is 4096 tokens"), "maximum context length"),
    ],
)
async def test_an_endpoint_that_fails_gives_no_verdict(postponed: Trajectory, reply, message: str) -> None:
    async with judging(lambda body: reply) as (judge, _):
        with pytest.raises(JudgeError, match=message) as caught:
            await judge.judge(postponed)
    assert caught.value.next_step


async def test_the_most_frequent_outcome_wins_and_the_agreement_is_reported(postponed: Trajectory) -> None:
    said = iter(["AGENT_ERROR", "COMPLETED", "COMPLETED"])
    async with judging(lambda body: says(opinion(next(said))), votes=3) as (judge, _):
        verdict = await judge.judge(postponed)
    assert verdict.outcome is Outcome.COMPLETED
    assert verdict.usage["agreement"] == pytest.approx(2 / 3)
    assert sorted(vote["said"] for vote in verdict.usage["votes"]) == ["AGENT_ERROR", "COMPLETED", "COMPLETED"]


async def test_of_two_equally_frequent_outcomes_the_less_favourable_wins(postponed: Trajectory) -> None:
    said = iter(["COMPLETED", "PARTIALLY_COMPLETED"])
    async with judging(lambda body: says(opinion(next(said))), votes=2) as (judge, _):
        assert (await judge.judge(postponed)).outcome is Outcome.PARTIALLY_COMPLETED


async def test_equal_attempts_cost_one_request_and_a_folder_keeps_it_for_later(postponed: Trajectory, tmp_path) -> None:
    async with judging(lambda body: says(opinion("COMPLETED")), cache=tmp_path / "kept") as (judge, fake):
        first = await judge.judge(postponed)
        second = await judge.judge(dataclasses.replace(postponed, seed=7))
        later = await LlmJudge(judge.endpoint, cache=tmp_path / "kept").judge(postponed)
        assert len(fake.requests) == 1
        await judge.judge(dataclasses.replace(postponed, answer="Ready."))
        assert len(fake.requests) == 2
    assert [v.usage["kept"] for v in (first, second, later)] == [0, 1, 1]
    assert later.usage["requests"] == 0
    assert later.outcome is Outcome.COMPLETED


async def test_a_failed_environment_needs_no_model(postponed: Trajectory) -> None:
    failed = dataclasses.replace(postponed, termination="environment_fault")
    async with judging([]) as (judge, fake):
        assert (await judge.judge(failed)).outcome is Outcome.ENVIRONMENT_ERROR
    assert fake.requests == []


async def test_a_fault_on_the_way_lets_a_model_blame_the_environment(postponed: Trajectory) -> None:
    fault = Step(tool="x", arguments={}, result=ToolResult(type="fault", code="KeyError"), state_version=1)
    trajectory = dataclasses.replace(postponed, steps=(*postponed.steps, fault))
    async with judging([says(opinion("ENVIRONMENT_ERROR"))]) as (judge, _):
        assert (await judge.judge(trajectory)).outcome is Outcome.ENVIRONMENT_ERROR


async def test_a_failing_signals_verifier_is_an_error(notes_environment: Environment) -> None:
    task = dataclasses.replace(
        notes_environment.task("postpone_plumber"), verifiers=(Verifier(kind="signals", function="signals_nowhere"),)
    )
    broken = dataclasses.replace(notes_environment, tasks=(task,))
    trajectory = await attempt(broken, "postpone_plumber", POSTPONE)
    async with judging([]) as (judge, _):
        with pytest.raises(JudgeError, match="defines no function"):
            await judge.judge(trajectory)


async def test_half_of_a_surrogate_pair_in_the_episode_reaches_the_model_as_its_escape(postponed: Trajectory) -> None:
    broken = Step(tool="x", arguments={"a": "oops \ud83c"}, result=ToolResult(type="invalid_call"), state_version=0)
    trajectory = dataclasses.replace(postponed, steps=(broken,))
    async with judging([says(opinion("COMPLETED"))]) as (judge, fake):
        assert (await judge.judge(trajectory)).outcome is Outcome.COMPLETED
    assert r"oops \\ud83c" in fake.bodies[0]["messages"][1]["content"]


async def test_requests_run_at_once_as_far_as_the_endpoint_allows(postponed: Trajectory) -> None:
    others = [dataclasses.replace(postponed, answer=f"Done {n}.") for n in range(6)]
    with running_endpoint(lambda body: says(opinion("COMPLETED"))) as fake:
        async with Endpoint(
            "m",
            base_url=fake.base_url,
            concurrency=2,
            price=Price(prompt_per_million_usd=1, completion_per_million_usd=2),
        ) as endpoint:
            judge = LlmJudge(endpoint)
            verdicts = await asyncio.gather(*(judge.judge(t) for t in others))
        assert len(fake.requests) == 6
        assert fake.most_at_once <= 2
    assert verdicts[0].usage["cost_usd"] == pytest.approx(13e-6)
    assert endpoint.usage.requests == 6


def test_judging_by_a_model_works_synchronously(notes_environment: Environment) -> None:
    with (
        running_endpoint([says(opinion("COMPLETED"))]) as fake,
        awm_hub.launch(notes_environment, task="postpone_plumber") as instance,
    ):
        instance.call_tool(*POSTPONE)
        judge = LlmJudge(Endpoint("m", base_url=fake.base_url))
        assert awm_hub.judge(instance.trajectory(), judge=judge).outcome is Outcome.COMPLETED


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(UsageError, match="one vote"):
        LlmJudge(Endpoint("m", base_url="http://127.0.0.1:1/v1"), votes=0)

import asyncio
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from endpoint import calls, fails, playing, running_endpoint, says

from awm_hub.canonical import sha256_of
from awm_hub.environment import ToolSpec
from awm_hub.errors import AwmHubError, ContextFullError, RemoteError, UsageError
from awm_hub.history import Window
from awm_hub.inference import Endpoint, Price, Sampling
from awm_hub.policy import ChatPolicy
from awm_hub.policy.acting import Action, Call, Turn, View
from awm_hub.synthesis.asking import Budget, BudgetError, Desk, DeskEndpoint, Waiting
from awm_hub.synthesis.store import Store, read_store
from awm_hub.trajectory import ToolResult

MESSAGES = [{"role": "user", "content": "Write."}]
FOR = {"environment": "clinic", "stage": "code"}
TOOLS = [{"type": "function", "function": {"name": "add", "description": "", "parameters": {"type": "object"}}}]
PRICE = Price(prompt_per_million_usd=1e5, completion_per_million_usd=1e5)
"""A dollar for an answer of the test endpoint, which counts ten tokens."""


@pytest.fixture
def store(tmp_path):
    with Store.open(tmp_path, {}) as found:
        yield found


def endpoint(fake: Any, **more: Any) -> Endpoint:
    return Endpoint("m", base_url=fake.base_url, **{"attempts": 1, **more})


async def test_an_answer_is_asked_once_and_then_comes_from_the_store(tmp_path):
    with running_endpoint([says("code", reasoning="hm")]) as fake:
        for _ in range(2):
            async with endpoint(fake) as model:
                with Store.open(tmp_path, {}) as store:
                    desk = Desk(store, model, model="m")
                    reply = await desk.ask("clinic/code/1", MESSAGES, **FOR)
                    assert (reply.content, reply.reasoning, reply.finish_reason) == ("code", "hm", "stop")
                    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (7, 3)
                    assert desk.waiting == ()
        assert fake.bodies == [{**fake.bodies[0], "model": "m", "messages": MESSAGES}]
    with read_store(tmp_path) as found:
        assert found.body("clinic/code/1") == {"model": "m", "messages": MESSAGES}
        answer = next(found.records("answer"))
        assert (answer["model"], answer["source"]) == ("m", "live")
        assert answer["sha256"] == sha256_of({"messages": MESSAGES})


async def test_the_same_position_asked_at_the_same_time_is_one_request(store):
    with running_endpoint([says("code")]) as fake:
        async with endpoint(fake) as model:
            desk = Desk(store, model, model="m")
            replies = await asyncio.gather(*(desk.ask("clinic/code/1", MESSAGES, **FOR) for _ in range(5)))
    assert {reply.content for reply in replies} == {"code"}
    assert len(fake.requests) == 1


async def test_tool_calls_and_replies_without_anything_are_kept_as_they_are(store):
    with running_endpoint([calls(("add", {"a": 1})), says(None), says("cut", finish_reason="length")]) as fake:
        async with endpoint(fake) as model:
            desk = Desk(store, model, model="m")
            for key in ("a", "b", "c"):
                first = await desk.ask(key, MESSAGES, tools=TOOLS, **FOR)
                assert await desk.ask(key, MESSAGES, tools=TOOLS, **FOR) == first
            called, empty, cut = [await desk.ask(key, MESSAGES, tools=TOOLS, **FOR) for key in ("a", "b", "c")]
    assert [(c.name, c.arguments) for c in called.tool_calls] == [("add", '{"a": 1}')]
    assert (empty.content, empty.tool_calls) == (None, ())
    assert cut.finish_reason == "length"
    assert fake.bodies[0]["tools"] == TOOLS


async def test_without_an_endpoint_requests_are_recorded_and_wait(store):
    desk = Desk(store, None, model="big", sampling=Sampling(temperature=0.5, top_k=20))
    for key in ("b", "a", "b"):
        with pytest.raises(Waiting) as caught:
            await desk.ask(key, MESSAGES, **FOR)
        assert caught.value.key == key
    assert desk.waiting == ("b", "a")
    assert store.body("a") == {"model": "big", "messages": MESSAGES, "temperature": 0.5, "top_k": 20}


async def test_an_answer_to_another_wording_is_used_and_told(store):
    with running_endpoint([says("code")]) as fake:
        async with endpoint(fake) as model:
            desk = Desk(store, model, model="m")
            await desk.ask("a", MESSAGES, **FOR)
            assert desk.reworded == ()
            await desk.ask("a", MESSAGES, sampling=Sampling(temperature=0.1), **FOR)
            assert desk.reworded == ()
            reply = await desk.ask("a", [{"role": "user", "content": "Please write."}], **FOR)
    assert reply.content == "code"
    assert desk.reworded == ("a",)


async def test_sampling_is_the_desks_unless_a_request_has_its_own(store):
    with running_endpoint(playing(says("x"))) as fake:
        async with endpoint(fake, sampling=Sampling(temperature=1.0)) as model:
            await Desk(store, model, model="m").ask("a", MESSAGES, **FOR)
            desk = Desk(store, model, model="m", sampling=Sampling(seed=1, extra={"min_p": 0.1}))
            await desk.ask("b", MESSAGES, **FOR)
            await desk.ask("c", MESSAGES, sampling=Sampling(top_p=0.5), **FOR)
    for key, body in zip("abc", fake.bodies, strict=True):
        assert store.body(key).items() <= body.items()
    assert [set(store.body(k)) - {"model", "messages"} for k in "abc"] == [
        {"temperature"},
        {"seed", "min_p"},
        {"top_p"},
    ]


async def test_no_request_begins_once_the_budget_is_used_up(store):
    with running_endpoint(playing(says("x"))) as fake:
        async with endpoint(fake, concurrency=1) as model:
            desk = Desk(store, model, model="m", budget=Budget(tokens=15))
            asked = (desk.ask(str(i), MESSAGES, **FOR) for i in range(5))
            found = await asyncio.gather(*asked, return_exceptions=True)
            assert [type(f).__name__ for f in found] == ["Reply", "Reply"] + ["BudgetError"] * 3
            assert len(fake.requests) == 2
            assert desk.waiting == ()
            assert (await desk.ask("0", MESSAGES, **FOR)).content == "x"


async def test_what_a_run_spent_before_counts_and_a_larger_budget_goes_on(tmp_path):
    with running_endpoint(playing(says("x"))) as fake:
        async with endpoint(fake, price=PRICE) as model:
            with Store.open(tmp_path, {}) as store:
                await Desk(store, model, model="m", budget=Budget(usd=1)).ask("a", MESSAGES, **FOR)
            with Store.open(tmp_path, {}) as store:
                with pytest.raises(BudgetError, match=r"1\.00 US dollars is used up: 1\.00 are spent") as caught:
                    await Desk(store, model, model="m", budget=Budget(usd=1)).ask("b", MESSAGES, **FOR)
                await Desk(store, model, model="m", budget=Budget(usd=1.5)).ask("b", MESSAGES, **FOR)
    assert isinstance(caught.value, AwmHubError)
    assert caught.value.exit_code == 1
    assert len(fake.requests) == 2


def test_a_budget_in_dollars_needs_a_price_and_a_budget_is_positive(store):
    with pytest.raises(UsageError, match="is not known"):
        Desk(store, None, model="m", budget=Budget(usd=1))
    assert Desk(store, None, model="m", budget=Budget(usd=1), price=PRICE).spent.cost_usd == 0
    with pytest.raises(UsageError):
        Budget(tokens=0)


async def test_without_an_endpoint_too_nothing_waits_once_the_budget_is_used_up(store):
    with running_endpoint([says("x")]) as fake:
        async with endpoint(fake) as model:
            await Desk(store, model, model="m").ask("a", MESSAGES, **FOR)
    desk = Desk(store, None, model="m", budget=Budget(tokens=10))
    with pytest.raises(BudgetError, match="10 tokens is used up: 10 are spent"):
        await desk.ask("b", MESSAGES, **FOR)
    assert desk.waiting == ()


async def test_errors_of_the_endpoint_pass_and_the_request_is_asked_again_later(store):
    full = fails(400, "maximum context length is 10", code="context_length_exceeded")
    with running_endpoint([full, fails(401), says("x")]) as fake:
        async with endpoint(fake) as model:
            desk = Desk(store, model, model="m")
            with pytest.raises(ContextFullError):
                await desk.ask("a", MESSAGES, **FOR)
            with pytest.raises(RemoteError):
                await desk.ask("a", MESSAGES, **FOR)
            assert (await desk.ask("a", MESSAGES, **FOR)).content == "x"
            assert store.keys("request") == ("a",)


async def test_another_asks_when_the_first_is_cancelled(store):
    held = threading.Event()
    with running_endpoint([says("slow", waits_for=held), says("x")]) as fake:
        async with endpoint(fake) as model:
            desk = Desk(store, model, model="m")
            first = asyncio.create_task(desk.ask("a", MESSAGES, **FOR))
            second = asyncio.create_task(desk.ask("a", MESSAGES, **FOR))
            while not fake.requests:
                await asyncio.sleep(0.01)
            first.cancel()
            assert (await second).content == "x"
            held.set()


async def test_progress_tells_of_each_request(store):
    seen: list[dict[str, Any]] = []
    with running_endpoint([says("x")]) as fake:
        async with endpoint(fake) as model:
            desk = Desk(store, model, model="m", progress=lambda event: seen.append(dict(event)))
            await desk.ask("a", MESSAGES, **FOR)
            await desk.ask("a", MESSAGES, **FOR)
    seconds = seen[-1].pop("seconds")
    assert seconds > 0
    event = {"key": "a", **FOR}
    assert seen == [
        {"event": "asked", **event},
        {"event": "answered", **event, "prompt_tokens": 7, "completion_tokens": 3},
    ]


async def test_no_key_gets_into_the_store(tmp_path, monkeypatch):
    monkeypatch.setenv("AWM_HUB_API_KEY", "sk-secret")
    with running_endpoint([says("x")]) as fake:
        async with Endpoint("m", base_url=f"{fake.base_url}?token=hidden") as model:
            with Store.open(tmp_path, {}) as store:
                await Desk(store, model, model="m").ask("a", MESSAGES, **FOR)
        assert fake.requests[0].headers["authorization"] == "Bearer sk-secret"
    written = Path(tmp_path / "store.jsonl").read_text()
    assert "sk-secret" not in written
    assert "hidden" not in written


ADD = ToolSpec(name="add", description="Add.", input_schema={"type": "object", "properties": {}})


def view(*turns: Turn) -> View:
    return View(environment_id="e", task_id="e/t", briefing="", prompt="Add.", tools=(ADD,), turns=turns)


def turn() -> Turn:
    return Turn(action=Action(calls=(Call(tool="add"),)), results=(ToolResult(type="ok", value=1),))


async def test_a_chat_policy_asks_the_desk_turn_by_turn(store):
    with running_endpoint([calls(("add", {})), says("done")]) as fake:
        async with endpoint(fake) as model:
            desk = Desk(store, model, model="m")
            for _ in range(2):
                policy = ChatPolicy(DeskEndpoint(desk, "clinic/solution/t/1", "clinic", "solution"))
                assert (await policy.act(view())).calls == (Call(tool="add"),)
                assert (await policy.act(view(turn()))).answer == "done"
            assert policy.describe()["model"] == "m"
    assert store.keys("answer") == ("clinic/solution/t/1/1", "clinic/solution/t/1/2")
    assert len(fake.requests) == 2


async def test_a_chat_policy_waits_at_its_first_unanswered_turn(store):
    desk = Desk(store, None, model="big")
    found = DeskEndpoint(desk, "clinic/solution/t/1", "clinic", "solution")
    found.check_key()
    assert found.describe() == {"model": "big", "host": "batch", "sampling": {}}
    with pytest.raises(Waiting):
        await ChatPolicy(found).act(view())
    assert desk.waiting == ("clinic/solution/t/1/1",)


async def test_a_window_that_hides_turns_is_refused_where_turns_would_be_taken_for_others(store):
    with running_endpoint(playing(says("x"))) as fake:
        async with endpoint(fake) as model:
            found = DeskEndpoint(Desk(store, model, model="m"), "p", "clinic", "solution")
            policy = ChatPolicy(found, window=Window(turns=1, head_turns=0))
            await policy.act(view(turn()))
            with pytest.raises(UsageError, match="asked twice"):
                await policy.act(view(turn(), replace(turn(), results=(ToolResult(type="ok", value=2),))))

"""A model as a policy: what it is sent, how its replies are read, and what is recorded; over a real endpoint."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from endpoint import FakeEndpoint, Reply, Script, calls, fails, running_endpoint, says
from episodes import ADD_NOTE, LIST_NOTES, called, listed, ok, view_of

from awm_hub.canonical import from_json, to_json
from awm_hub.errors import ContextFullError, RemoteError, UsageError
from awm_hub.history import Window
from awm_hub.inference import Endpoint, Sampling
from awm_hub.policy import Action, Call, ChatPolicy, Turn, View
from awm_hub.policy.prompts import NATIVE, TEXT
from awm_hub.policy.rules import check_message
from awm_hub.trajectory import ToolResult

LISTING = '<think>what is there?</think>\n<tool_call>{"name": "list_tools", "arguments": {}}</tool_call>'


def call_text(tool: str, arguments: Any) -> str:
    called = to_json({"name": "call_tool", "arguments": {"tool_name": tool, "arguments": arguments}})
    return f"<think>now</think>\n<tool_call>\n{called}\n</tool_call>"


@contextlib.asynccontextmanager
async def chatting(script: Script, **settings: Any) -> AsyncIterator[tuple[ChatPolicy, FakeEndpoint]]:
    sampling = settings.pop("sampling", None)
    with running_endpoint(script) as fake:
        async with Endpoint("m", base_url=fake.base_url, backoff_s=0.001, attempts=2, sampling=sampling) as endpoint:
            yield ChatPolicy(endpoint, **settings), fake


async def acted(reply: Reply, view: View | None = None, **settings: Any) -> tuple[Action, dict[str, Any]]:
    """An action, and the request that it came of."""
    async with chatting([reply], **settings) as (policy, fake):
        return await policy.act(view or view_of()), fake.bodies[0]


def after(policy: ChatPolicy, view: View, action: Action, *results: ToolResult) -> View:
    """The view after an action."""
    turns = (*view.turns, Turn(action=action, results=results))
    return view_of(*turns, tools=view.tools, seed=view.seed)


async def test_native_tools_and_the_task_are_in_the_first_request() -> None:
    action, body = await acted(calls(("add_note", {"text": "hello"}), reasoning="easy"))
    assert body["messages"] == [
        {"role": "system", "content": f"{NATIVE}\n\n# System\n\nThe notes desk."},
        {"role": "user", "content": "Add a note that says hello."},
    ]
    assert body["tools"][0] == {
        "type": "function",
        "function": {
            "name": "add_note",
            "description": "Add a note.",
            "parameters": ADD_NOTE.input_schema,
        },
    }
    assert action.calls == (Call(tool="add_note", arguments={"text": "hello"}),)
    assert (action.thought, action.answer, action.violations) == ("easy", None, ())
    assert (action.usage.prompt_tokens, action.usage.completion_tokens, action.usage.requests) == (7, 3, 1)


async def test_native_calls_may_be_several() -> None:
    action, _ = await acted(calls(("list_notes", {}), ("list_notes", "")), is_strict=True)
    assert (action.calls, action.violations) == ((Call(tool="list_notes", arguments={}),) * 2, ())


async def test_native_results_go_back_under_the_ids_of_their_calls() -> None:
    async with chatting([calls(("list_notes", {}), ("add_note", {"text": "a"})), says("done")]) as (policy, fake):
        action = await policy.act(view_of())
        view = after(policy, view_of(), action, ok(["x"]), ToolResult(type="refused", code="conflict", message="no"))
        final = await policy.act(view)
    assert final.answer == "done"
    assert fake.bodies[1]["messages"][2:] == [
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {"id": "call_0", "type": "function", "function": {"name": "list_notes", "arguments": "{}"}},
                {"id": "call_1", "type": "function", "function": {"name": "add_note", "arguments": '{"text": "a"}'}},
            ],
        },
        {"role": "tool", "tool_call_id": "call_0", "content": '["x"]'},
        {
            "role": "tool",
            "tool_call_id": "call_1",
            "content": '{"error":{"code":"conflict","message":"no","type":"refused"}}',
        },
    ]


async def test_broken_native_arguments_are_a_violation_and_are_sent_again_as_json() -> None:
    async with chatting([calls(("add_note", '{"text": "a')), says("done")]) as (policy, fake):
        action = await policy.act(view_of())
        await policy.act(after(policy, view_of(), action, ToolResult(type="invalid_call", code="invalid_arguments")))
    assert action.calls == (Call(tool="add_note", arguments='{"text": "a'),)
    assert [v.rule for v in action.violations] == [3]
    sent = fake.bodies[1]["messages"][2]["tool_calls"][0]["function"]["arguments"]
    assert from_json(sent) == {"unreadable": '{"text": "a'}
    assert (
        policy.transcript(after(policy, view_of(), action))[2]["tool_calls"][0]["function"]["arguments"]
        == '{"text": "a'
    )


async def test_a_native_model_that_writes_its_call_as_text_is_understood() -> None:
    text = '<tool_call>{"name": "add_note", "arguments": {"text": "hello"}}</tool_call>'
    async with chatting([says(text), says("done")]) as (policy, fake):
        action = await policy.act(view_of())
        await policy.act(after(policy, view_of(), action, ok(3)))
    assert action.calls == (Call(tool="add_note", arguments={"text": "hello"}),)
    assert fake.bodies[1]["messages"][2:] == [
        {"role": "assistant", "content": text},
        {"role": "user", "content": "<tool_response>\n3\n</tool_response>"},
    ]


async def test_the_text_protocol_sends_no_tools_and_lists_them_when_asked() -> None:
    script = [says(LISTING), says(call_text("add_note", {"text": "hello"})), says("<think>ok</think>\nDone.")]
    async with chatting(script, protocol="text") as (policy, fake):
        listing = await policy.act(view_of())
        view = after(policy, view_of(), listing)
        call = await policy.act(view)
        view = after(policy, view, call, ok({"id": 3}))
        answer = await policy.act(view)
    assert (listing.lists_tools, listing.calls, listing.answer, listing.violations) == (True, (), None, ())
    assert call.calls == (Call(tool="add_note", arguments={"text": "hello"}),)
    assert (answer.answer, answer.thought) == ("Done.", "ok")
    assert "tools" not in fake.bodies[2]
    system, user, *rest = fake.bodies[2]["messages"]
    assert system["content"].startswith(TEXT)
    assert user["content"] == "Add a note that says hello."
    assert [m["role"] for m in rest] == ["assistant", "user", "assistant", "user"]
    assert rest[0]["content"] == LISTING.partition("\n")[2]
    shown = from_json(rest[1]["content"].removeprefix("<tool_response>\n").removesuffix("\n</tool_response>"))
    assert [tool["name"] for tool in shown] == ["add_note", "list_notes"]
    assert rest[3]["content"] == '<tool_response>\n{"id":3}\n</tool_response>'


@pytest.mark.parametrize(
    ("said", "rules", "lenient"),
    [
        (call_text("add_note", {"text": "a"}), [], (Call(tool="add_note", arguments={"text": "a"}),)),
        (
            '<think>x</think><tool_call>{"name": "add_note", "arguments": {"text": "a"}}</tool_call>',
            [2],
            (Call(tool="add_note", arguments={"text": "a"}),),
        ),
        (call_text("add_note", '{"text": "a"}'), [3], (Call(tool="add_note", arguments={"text": "a"}),)),
        (call_text("list_notes", None), [3], (Call(tool="list_notes", arguments={}),)),
        (call_text("add_note", [1]), [3], (Call(tool="add_note", arguments=[1]),)),
        ('<think>x</think><tool_call>{"name": "call_tool", "arguments": {"name": "a"}}</tool_call>', [3], ()),
        ('<think>x</think><tool_call>{"name": "list_tools", "arguments": {"a": 1}}</tool_call>', [3], ()),
        (
            '<think>x</think><tool_call>{"name": "call_tool", "arguments": {"tool_name": "list_notes"}}</tool_call>',
            [3],
            (Call(tool="list_notes", arguments={}),),
        ),
    ],
)
async def test_the_meta_tool_is_called_in_its_form(said: str, rules: list[int], lenient: tuple[Call, ...]) -> None:
    view = view_of(listed())
    strict_action, _ = await acted(says(said), view, protocol="text")
    lenient_action, _ = await acted(says(said), view, protocol="text", is_strict=False)
    assert [v.rule for v in strict_action.violations] == [v.rule for v in lenient_action.violations] == rules
    assert strict_action.calls == (() if rules else lenient)
    assert lenient_action.calls == lenient


async def test_strict_and_meta_tools_go_with_the_text_protocol() -> None:
    endpoint = Endpoint("m", base_url="http://127.0.0.1:9/v1")
    text, native = ChatPolicy(endpoint, protocol="text"), ChatPolicy(endpoint)
    assert (text.is_strict, text.uses_meta_tools) == (True, True)
    assert (native.is_strict, native.uses_meta_tools) == (False, False)
    assert not ChatPolicy(endpoint, protocol="text", is_strict=False).is_strict


@pytest.mark.parametrize("reply", [says("4", reasoning="two"), says("<think>two</think>4"), says("two</think>4")])
async def test_thoughts_count_wherever_a_server_puts_them(reply: Reply) -> None:
    action, _ = await acted(reply, view_of(listed()), protocol="text")
    assert (action.thought, action.answer) == ("two", "4")
    assert check_message(action, view_of(listed()), uses_meta_tools=True) == ()


@pytest.mark.parametrize(("keeps", "sent"), [(False, "4"), (True, "<think>\ntwo\n</think>\n\n4")])
@pytest.mark.parametrize("reply", [says("4", reasoning="two"), says("<think>two</think>\n4")])
async def test_earlier_thoughts_are_sent_again_only_if_they_are_kept(reply: Reply, keeps: bool, sent: str) -> None:
    async with chatting([reply, says("5")], keeps_thoughts=keeps) as (policy, fake):
        action = await policy.act(view_of())
        view = after(policy, view_of(), action)
        await policy.act(view)
    assert fake.bodies[1]["messages"][2] == {"role": "assistant", "content": sent}
    assert policy.transcript(view)[2] == reply.message  # the record keeps them in any case


async def test_a_message_that_cannot_be_read_is_answered_with_what_is_wrong() -> None:
    async with chatting([says("<tool_call>{</tool_call>"), says("4")]) as (policy, fake):
        action = await policy.act(view_of())
        await policy.act(after(policy, view_of(), action))
    assert (action.calls, action.answer, [v.rule for v in action.violations]) == ((), None, [3])
    told = fake.bodies[1]["messages"][-1]
    assert told["role"] == "user"
    assert "no well-formed JSON" in told["content"]


async def test_names_have_the_prefix_for_the_model_alone() -> None:
    said = calls(("mcp_tool_add_note", {"text": "a"}), ("list_notes", {}))
    action, body = await acted(said, tool_prefix="mcp_tool_")
    assert [tool["function"]["name"] for tool in body["tools"]] == ["mcp_tool_add_note", "mcp_tool_list_notes"]
    assert [call.tool for call in action.calls] == ["add_note", "list_notes"]
    assert [(v.rule, v.message) for v in action.violations] == [(2, "there is no tool 'list_notes'")]


async def test_the_prefix_is_in_the_text_protocol_too() -> None:
    view = view_of(listed())
    said = says(call_text("mcp_tool_add_note", {"text": "a"}))
    async with chatting([said], protocol="text", tool_prefix="mcp_tool_") as (policy, fake):
        action = await policy.act(view)
    assert action.calls == (Call(tool="add_note", arguments={"text": "a"}),)
    assert '"mcp_tool_add_note"' in fake.bodies[0]["messages"][3]["content"]


async def test_the_window_keeps_the_first_exchange_and_the_newest_turns() -> None:
    turns = [listed(), *[called(result=ok(f"result {i}")) for i in range(5)]]
    async with chatting([says("x")], protocol="text", window=Window(turns=2)) as (policy, fake):
        await policy.act(view_of(*turns))
        assert len(policy.transcript(view_of(*turns))) == 2 + 2 * 6
    told = [m["content"] for m in fake.bodies[0]["messages"] if m["role"] == "user"][1:]
    assert "add_note" in told[0]
    assert told[1:] == [f"<tool_response>\nresult {i}\n</tool_response>" for i in (3, 4)]


async def test_a_newest_turn_beyond_the_windows_tokens_is_a_full_context() -> None:
    view = view_of(listed(), called(result=ok("x" * 3000)))
    async with chatting([], window=Window(tokens=1200)) as (policy, fake):
        with pytest.raises(ContextFullError):
            await policy.act(view)
    assert fake.requests == []


async def test_long_results_are_shortened_and_say_so() -> None:
    async with chatting([calls(("list_notes", {})), says("x")], result_chars=10) as (policy, fake):
        action = await policy.act(view_of())
        await policy.act(after(policy, view_of(), action, ok("0123456789abcdef")))
    text, last = fake.bodies[1]["messages"][-1]["content"].split("\n")
    assert text == "0123456789"
    assert last.startswith("[cut: the first 10 of 16 characters; ")


async def test_endpoint_errors_pass_through() -> None:
    with pytest.raises(RemoteError):
        await acted(fails(401))
    with pytest.raises(ContextFullError):
        await acted(fails(400, "context_length_exceeded"))


async def test_a_seed_gives_every_turn_of_every_rollout_its_own() -> None:
    async with chatting(lambda body: says("x"), sampling=Sampling(seed=1, temperature=0.5)) as (policy, fake):
        for view in (view_of(), view_of(seed=1), view_of(listed()), view_of()):
            await policy.act(view)
    seeds = [body["seed"] for body in fake.bodies]
    assert len(set(seeds)) == 3
    assert seeds[0] == seeds[3]
    assert {body["temperature"] for body in fake.bodies} == {0.5}


async def test_lone_surrogates_reach_neither_the_wire_nor_the_record() -> None:
    async with chatting([says("oops \ud83c"), says("x")]) as (policy, fake):
        action = await policy.act(view_of())
        view = after(policy, view_of(), action)
        await policy.act(view)
    assert action.answer == "oops \\ud83c"
    to_json(list(policy.transcript(view)))
    assert fake.bodies[1]["messages"][2]["content"] == "oops \\ud83c"


def test_what_is_recorded_has_all_that_shapes_the_behaviour_and_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWM_HUB_API_KEY", "sk-planted")
    endpoint = Endpoint("m", base_url="http://127.0.0.1:9/v1?key=sk-planted", sampling=Sampling(top_k=20, stop=("x",)))
    policy = ChatPolicy(endpoint, protocol="text", window=Window(turns=10), tool_prefix="mcp_tool_")
    found = policy.describe()
    assert len(found.pop("system_prompt_sha256")) == 64
    assert found == {
        "kind": "chat",
        "model": "m",
        "host": "http://127.0.0.1:9",
        "sampling": {"top_k": 20, "stop": ["x"]},
        "protocol": "text",
        "is_strict": True,
        "window": {"turns": 10, "tokens": None, "head_turns": 1},
        "result_chars": 8000,
        "tool_prefix": "mcp_tool_",
        "keeps_thoughts": False,
    }
    to_json(found)


@pytest.mark.parametrize("wrong", [{"protocol": "xml"}, {"result_chars": 0}])
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        ChatPolicy(Endpoint("m", base_url="http://127.0.0.1:9/v1"), **wrong)


async def test_an_environment_without_tools_sends_none() -> None:
    _, body = await acted(says("x"), view_of(tools=()))
    assert "tools" not in body
    assert LIST_NOTES.name not in str(body)


ADDS = Action(calls=(Call(tool="add_note", arguments={"text": "a"}),))
UPSTREAM_FORMS = {
    to_json({"name": "list_tools", "arguments": None}): Action(lists_tools=True),
    to_json(
        {"name": "call_tool", "arguments": {"tool_name": "mcp_tool_add_note", "arguments": to_json({"text": "a"})}}
    ): ADDS,
    to_json({"name": "mcp_tool_add_note", "arguments": {"text": "a"}}): ADDS,
}


@pytest.mark.parametrize("text", UPSTREAM_FORMS)
async def test_forms_that_upstreams_checkpoints_were_taught_break_no_rule_with_their_prefix(text: str) -> None:
    reply = says(f"<think>now</think><tool_call>{text}</tool_call>")
    action, _ = await acted(reply, protocol="text", tool_prefix="mcp_tool_")
    wanted = UPSTREAM_FORMS[text]
    assert (action.violations, action.lists_tools, action.calls) == ((), wanted.lists_tools, wanted.calls)
    action, _ = await acted(reply, protocol="text")
    assert action.violations
    assert not action.calls


@pytest.mark.parametrize("protocol", ["native", "text"])
async def test_what_breaks_since_the_reply_was_cut_says_so(protocol: str) -> None:
    cut, _ = await acted(says("", finish_reason="length"), protocol=protocol)
    (broken,) = cut.violations
    assert broken.message == (
        "the message holds neither a call nor an answer; the reply was cut at its limit of tokens "
        "(finish_reason length): raise --max-tokens"
    )
    whole, _ = await acted(says("", finish_reason="stop"), protocol=protocol)
    assert [v.message for v in whole.violations] == ["the message holds neither a call nor an answer"]


async def test_two_calls_in_one_message_break_the_text_protocol_also_where_the_server_parsed_them() -> None:
    reply = calls(("list_tools", {}), ("list_tools", {}), reasoning="what is there?")
    action, _ = await acted(reply, protocol="text")
    assert [v.message for v in action.violations] == ["a message makes one call, this one makes 2"]
    assert not action.lists_tools or not action.calls

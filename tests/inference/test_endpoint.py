"""An endpoint asks a real server over loopback HTTP until there is a reply or asking again cannot help."""

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest
from endpoint import Body, FakeEndpoint, Reply, calls, drops, fails, garbage, running_endpoint, says, stalls, streamed

from awm_hub.errors import ContextFullError, RemoteError, UsageError
from awm_hub.inference import Endpoint, Price, Sampling, ToolCallText, Usage
from awm_hub.inference.endpoint import key_for

ASK = [{"role": "user", "content": "what is 2 + 2?"}]
KEY = "sk-planted-3f2a"
LOGIN = "hf_planted_login"


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Hugging Face login that must not leak, and no key for base URLs."""
    monkeypatch.setenv("HF_TOKEN", LOGIN)
    monkeypatch.delenv("AWM_HUB_API_KEY", raising=False)


def endpoint_of(fake: FakeEndpoint, **more: Any) -> Endpoint:
    return Endpoint("m", base_url=fake.base_url, **{"backoff_s": 0.001, "timeout_s": 20, **more})


async def asked(*script: Reply, **more: Any) -> tuple[Any, FakeEndpoint]:
    """What one question to a scripted server gives, a reply or a RemoteError."""
    with running_endpoint(script) as fake:
        async with endpoint_of(fake, **more) as endpoint:
            try:
                return await endpoint.chat(ASK), fake
            except RemoteError as error:
                return error, fake


async def test_a_text_comes_back_with_its_tokens_and_its_price() -> None:
    reply, _ = await asked(says("4"), price=Price(prompt_per_million_usd=1.0, completion_per_million_usd=2.0))
    assert (reply.content, reply.reasoning, reply.tool_calls, reply.finish_reason) == ("4", None, (), "stop")
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens, reply.attempts) == (7, 3, 1)
    assert reply.usage.cost_usd == pytest.approx(13e-6)
    assert reply.usage.seconds > 0
    assert reply.message() == {"role": "assistant", "content": "4"}


async def test_tool_calls_come_back_as_they_were_written() -> None:
    reply, _ = await asked(calls(("add", {"a": None}), ("sub", '{"a": 1,')))
    assert reply.content is None
    assert reply.tool_calls == (
        ToolCallText(id="call_0", name="add", arguments='{"a": null}'),
        ToolCallText(id="call_1", name="sub", arguments='{"a": 1,'),
    )
    assert reply.message()["tool_calls"][1] == {
        "id": "call_1",
        "type": "function",
        "function": {"name": "sub", "arguments": '{"a": 1,'},
    }


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
async def test_thoughts_are_found_under_either_name(name: str) -> None:
    reply, _ = await asked(Reply(message={"role": "assistant", "content": "4", name: "two and two"}))
    assert (reply.reasoning, reply.content) == ("two and two", "4")


async def test_a_stream_that_nobody_asked_for_is_understood() -> None:
    reply, _ = await asked(streamed(calls(("add", {"a": 11}), ("sub", {}), content="let me see", reasoning="hm hm")))
    assert (reply.content, reply.reasoning, reply.finish_reason) == ("let me see", "hm hm", "tool_calls")
    assert reply.tool_calls == (
        ToolCallText(id="call_0", name="add", arguments='{"a": 11}'),
        ToolCallText(id="call_1", name="sub", arguments="{}"),
    )
    assert reply.usage.completion_tokens == 3


async def test_a_request_says_what_it_was_told_and_nothing_else() -> None:
    sampling = Sampling(
        temperature=0.6, top_p=0.95, top_k=20, max_tokens=64, stop=("END",), seed=3, extra={"min_p": 0.1}
    )
    tool = {"type": "function", "function": {"name": "add", "description": "", "parameters": {"type": "object"}}}
    schema = {"type": "json_schema", "json_schema": {"name": "v", "schema": {"type": "object"}}}
    with running_endpoint([says("4"), says("5")]) as fake:
        async with endpoint_of(fake) as endpoint:
            await endpoint.chat(ASK)
            await endpoint.chat(ASK, tools=[tool], response_format=schema, sampling=sampling)
    plain, full = fake.bodies
    assert plain == {"model": "m", "messages": ASK, "stream": False}
    assert full == {
        "model": "m",
        "messages": ASK,
        "stream": False,
        "tools": [tool],
        "response_format": schema,
        "temperature": 0.6,
        "top_p": 0.95,
        "top_k": 20,
        "max_tokens": 64,
        "stop": ["END"],
        "seed": 3,
        "min_p": 0.1,
    }
    assert fake.requests[0].path == "/v1/chat/completions"


NO_COMPLETIONS = [
    b"<html>oops</html>",
    b"",
    b"[]",
    b"\xff\xfe",
    b"[" * 100_000,
    b'{"choices": []}',
    b'{"choices": [{"message": 1}]}',
    b'{"choices": [{"message": {"content": 7}}]}',
    b'data: {"choices": []}\n\n',
]
PASSING = [fails(429), fails(500), fails(503), fails(408), drops(), drops(b'{"id"'), *map(garbage, NO_COMPLETIONS)]


@pytest.mark.parametrize("bad", PASSING, ids=lambda reply: f"{reply.status}-{(reply.raw or b'dropped')[:24]!r}")
async def test_what_can_pass_is_asked_again(bad: Reply) -> None:
    reply, fake = await asked(bad, bad, says("4"))
    assert (reply.content, reply.attempts, len(fake.requests)) == ("4", 3, 3)


async def test_a_server_that_does_not_answer_in_time_is_asked_again() -> None:
    reply, fake = await asked(stalls(), says("4"), timeout_s=0.2)
    assert (reply.content, len(fake.requests)) == ("4", 2)


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 422])
async def test_what_cannot_pass_is_not_asked_again(status: int) -> None:
    error, fake = await asked(fails(status, "not like this"), says("4"))
    assert type(error) is RemoteError
    assert error.message == f"m at {fake.base_url.removesuffix('/v1')} answered {status}: not like this"
    assert error.next_step
    assert len(fake.requests) == 1


async def test_a_spent_quota_is_not_asked_again() -> None:
    error, fake = await asked(fails(429, "you exceeded your quota", code="insufficient_quota"), says("4"))
    assert (type(error), len(fake.requests)) == (RemoteError, 1)


async def test_after_the_last_attempt_the_error_says_how_many_there_were() -> None:
    error, fake = await asked(*[fails(503, "busy")] * 9, attempts=3)
    assert error.message.endswith("answered 503: busy (3 requests)")
    assert len(fake.requests) == 3


async def test_nobody_listening_is_a_remote_error_with_a_next_step() -> None:
    with running_endpoint([]) as fake:
        base_url = fake.base_url
    with pytest.raises(RemoteError, match="cannot be reached") as found:
        await Endpoint("m", base_url=base_url, attempts=2, backoff_s=0.001).chat(ASK)
    assert found.value.next_step == "is a server running there?"


async def test_a_conversation_that_is_too_long_is_an_error_of_its_own() -> None:
    said = "This model's maximum context length is 2048 tokens. However, you requested 3000 tokens."
    error, fake = await asked(fails(400, said), says("4"))
    assert type(error) is ContextFullError
    assert said in error.message
    assert len(fake.requests) == 1


async def test_an_error_inside_a_success_is_read() -> None:
    error, _ = await asked(garbage(b'{"error": {"message": "context_length_exceeded: too long"}}'))
    assert type(error) is ContextFullError


async def test_retry_after_is_waited_for_by_everyone() -> None:
    with running_endpoint([fails(429, headers={"Retry-After": "0.3"}), says("a"), says("b")]) as fake:
        async with endpoint_of(fake, concurrency=1) as endpoint:
            await asyncio.gather(endpoint.chat(ASK), endpoint.chat(ASK))
    limited, *later = [seen.at_s for seen in fake.requests]
    assert min(later) - limited >= 0.3


async def test_an_endpoint_that_wants_to_be_left_alone_for_long_is_given_up() -> None:
    error, fake = await asked(fails(429, "come back tomorrow", headers={"Retry-After": "86400"}), says("4"))
    assert (type(error), len(fake.requests)) == (RemoteError, 1)


async def test_requests_at_a_time_are_as_many_as_allowed() -> None:
    three = threading.Barrier(3)  # breaks, and with it the request, unless three are there at the same time

    def script(body: Body) -> Reply:
        three.wait(20)
        return says("4")

    with running_endpoint(script) as fake:
        async with endpoint_of(fake, concurrency=3, attempts=1) as endpoint:
            replies = await asyncio.gather(*[endpoint.chat(ASK) for _ in range(12)])
    assert [reply.content for reply in replies] == ["4"] * 12
    assert fake.most_at_once == 3


async def test_requests_a_minute_are_spread_evenly() -> None:
    with running_endpoint(lambda body: says("4")) as fake:
        async with endpoint_of(fake, requests_per_minute=600) as endpoint:
            await endpoint.chat(ASK)  # the first one pays for the imports
            await asyncio.gather(*[endpoint.chat(ASK) for _ in range(4)])
    times = sorted(seen.at_s for seen in fake.requests)
    assert times[4] - times[1] >= 0.25  # three pauses of 0.1 s, less what the loop and the server jitter


async def test_the_totals_are_the_sum_over_all_callers_and_failures() -> None:
    with running_endpoint([fails(500), says("a"), says("b", usage=None), fails(400)]) as fake:
        async with endpoint_of(fake, concurrency=1) as endpoint:
            await endpoint.chat(ASK)
            await endpoint.chat(ASK)
            with pytest.raises(RemoteError):
                await endpoint.chat(ASK)
    assert endpoint.usage.requests == 4
    assert (endpoint.usage.prompt_tokens, endpoint.usage.completion_tokens, endpoint.usage.cost_usd) == (7, 3, None)


def test_one_endpoint_serves_one_event_loop_after_the_other() -> None:
    with running_endpoint(lambda body: says("4")) as fake:
        endpoint = endpoint_of(fake, concurrency=1)

        async def both() -> list[str | None]:
            return [reply.content for reply in await asyncio.gather(endpoint.chat(ASK), endpoint.chat(ASK))]

        assert [asyncio.run(both()), asyncio.run(both())] == [["4", "4"]] * 2
    assert endpoint.usage.requests == 4


async def test_half_of_a_surrogate_pair_survives_both_ways_as_its_escape() -> None:
    with running_endpoint([says("oops \ud83c"), calls(("add", '{"t": "\udf78"}'))]) as fake:
        async with endpoint_of(fake) as endpoint:
            said = await endpoint.chat([{"role": "user", "content": "a \ud83c b"}])
            made = await endpoint.chat(ASK)
    assert fake.bodies[0]["messages"][0]["content"] == "a \\ud83c b"
    assert said.content == "oops \\ud83c"
    assert made.tool_calls[0].arguments == '{"t": "\\udf78"}'
    json.dumps(said.message(), ensure_ascii=False).encode()


async def test_the_hugging_face_login_goes_to_no_other_host() -> None:
    _, fake = await asked(says("4"))
    assert "authorization" not in fake.requests[0].headers
    assert LOGIN not in str(fake.requests)


async def test_the_key_of_a_base_url_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWM_HUB_API_KEY", f"{KEY}\n")
    _, fake = await asked(says("4"))
    assert fake.requests[0].headers["authorization"] == f"Bearer {KEY}"


async def test_a_key_that_the_server_quotes_is_in_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWM_HUB_API_KEY", KEY)
    with running_endpoint([fails(401, f"bad key {KEY} in /?token={KEY}")]) as fake:
        endpoint = Endpoint("m", base_url=f"{fake.base_url}?token=hidden-query")
        with pytest.raises(RemoteError, match="bad key … in") as found:
            await endpoint.chat(ASK)
    assert fake.requests[0].path == "/v1/chat/completions?token=hidden-query"
    shown = f"{found.value!r} {found.value} {found.value.__cause__!r} {endpoint!r} {endpoint.describe()}"
    assert KEY not in shown
    assert "hidden-query" not in shown


@pytest.mark.parametrize(
    ("base_url", "expected"),
    [
        (None, LOGIN),
        ("https://router.huggingface.co/v1", LOGIN),
        ("https://someones-space.hf.space/v1", None),
        ("https://x.endpoints.huggingface.cloud/v1", None),
        ("http://router.huggingface.co/v1", None),
        ("https://huggingface.co.example.com/v1", None),
        ("https://nothuggingface.co/v1", None),
        ("http://127.0.0.1:8000/v1", None),
    ],
)
def test_the_login_is_for_hugging_face_over_https_alone(base_url: str | None, expected: str | None) -> None:
    assert key_for(base_url) == expected


async def test_without_a_base_url_the_router_of_hugging_face_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub.inference import _providers

    with running_endpoint([says("4")]) as fake:
        router = _providers.CONVERSATIONAL_AUTO_ROUTER
        monkeypatch.setattr(router, "base_url", fake.base_url.removesuffix("/v1"))
        async with Endpoint("org/model") as endpoint:
            assert (await endpoint.chat(ASK)).content == "4"
    assert endpoint.describe() == {"model": "org/model", "host": "huggingface:auto", "sampling": {}}
    assert fake.bodies[0]["model"] == "org/model"
    assert fake.requests[0].headers["authorization"] == f"Bearer {LOGIN}"


async def test_providers_without_a_login_are_a_remote_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("HF_TOKEN")
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "token"))
    with pytest.raises(RemoteError, match="need a token"):
        await Endpoint("org/model").chat(ASK)


def test_a_missing_login_is_known_without_asking(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    Endpoint("org/model").check_key()
    monkeypatch.delenv("HF_TOKEN")
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "token"))
    Endpoint("m", base_url="http://127.0.0.1:8000/v1").check_key()
    with pytest.raises(UsageError, match="need a token") as found:
        Endpoint("org/model").check_key()
    assert found.value.next_step.startswith("set HF_TOKEN or run `hf auth login`")


def test_an_unknown_provider_is_a_usage_error() -> None:
    assert Endpoint("org/model", provider="together").provider == "together"
    with pytest.raises(UsageError, match="no provider 'no-such-provider'") as found:
        Endpoint("org/model", provider="no-such-provider")
    assert "together" in found.value.next_step


@pytest.mark.parametrize(
    ("reply", "step"),
    [
        (fails(401), "set AWM_HUB_API_KEY to a key of this server"),
        (fails(403), "set AWM_HUB_API_KEY to a key that may use this model"),
        (fails(400, '"auto" tool choice requires --enable-auto-tool-choice'), "take --protocol text, or start the"),
        (fails(400, "registry.ollama.ai/library/gemma does not support tools"), "take --protocol text, or start the"),
        (fails(404, "no model m"), "it has the models the-real-one"),
        (fails(422, "no"), "the server's message says what it does not take"),
    ],
)
async def test_the_next_step_after_a_refusal_is_what_mends_it(reply: Reply, step: str) -> None:
    with running_endpoint([reply], model="the-real-one") as fake, pytest.raises(RemoteError) as found:
        await Endpoint("m", base_url=fake.base_url).chat(ASK)
    assert found.value.next_step.startswith(step)


@pytest.mark.parametrize(
    "wrong",
    [
        {"base_url": "127.0.0.1:8000"},
        {"base_url": "ftp://example.com/v1"},
        {"base_url": "http://example.com:99999/v1"},
        {"base_url": "http://someone:secret@example.com/v1"},
        {"base_url": "http://example.com/v1", "provider": "together"},
        {"model": "http://example.com/v1"},
        {"attempts": 0},
        {"concurrency": 0},
        {"concurrency": 101},
        {"timeout_s": 0},
        {"requests_per_minute": 0},
        {"requests_per_minute": float("nan")},
    ],
    ids=str,
)
def test_arguments_that_make_no_sense_are_refused_without_quoting_secrets(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as found:
        Endpoint(**{"model": "m", **wrong})
    assert "secret" not in str(found.value)


def test_usage_counts_what_is_known() -> None:
    first = Usage(prompt_tokens=3, seconds=1.0, requests=1)
    second = Usage(prompt_tokens=4, completion_tokens=2, cost_usd=0.5, seconds=0.5, requests=2)
    assert first + second == Usage(prompt_tokens=7, completion_tokens=2, cost_usd=0.5, seconds=1.5, requests=3)
    assert (first + first).completion_tokens is None


@pytest.mark.parametrize("price", [-1.0, float("nan"), float("inf")])
def test_a_price_that_is_none_is_refused(price: float) -> None:
    with pytest.raises(UsageError):
        Price(prompt_per_million_usd=price, completion_per_million_usd=1.0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"temperature": -0.1},
        {"temperature": float("nan")},
        {"top_p": -1},
        {"top_p": 1.5},
        {"top_k": -2},
        {"max_tokens": 0},
    ],
    ids=str,
)
def test_sampling_that_no_endpoint_takes_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=f"{next(iter(wrong))} is "):
        Sampling(**wrong)
    assert Sampling(temperature=0, top_p=1, top_k=-1, max_tokens=1).to_dict()["top_k"] == -1

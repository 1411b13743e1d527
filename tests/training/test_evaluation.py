import asyncio
import json
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("trl")

import torch
from training.tiny import SOLVED, answering, library, listing_tools, thinking, tiny_model, tiny_tokenizer, using

import awm_hub as awm
from awm_hub import Window
from awm_hub.errors import ContextFullError, UsageError
from awm_hub.inference import Sampling
from awm_hub.policy import opening
from awm_hub.rollouts import open_run
from awm_hub.training.evaluation import ModelEndpoint, pass_at_1
from awm_hub.training.tokens import ChatTokens

OWED = "owed_by_ingeborg"


class Knowing:
    """A model that writes one message after the other, whichever turn it is at, and keeps the batches it is asked."""

    def __init__(self, tokenizer: Any, messages: Sequence[str]) -> None:
        self._tokenizer, self._messages = tokenizer, messages
        self.config = SimpleNamespace(name_or_path="knowing", max_position_embeddings=8192)
        self.generation_config = SimpleNamespace(eos_token_id=[tokenizer.eos_token_id])
        self.device, self.training = torch.device("cpu"), True
        self.batches: list[list[str]] = []
        self.modes: list[bool] = []

    def eval(self) -> None:
        self.training = False

    def train(self, mode: bool) -> None:
        self.training = mode

    def generate(self, *, input_ids: Any, attention_mask: Any, **_: Any) -> Any:
        self.modes.append(self.training)
        rows = [row[seen.bool()].tolist() for row, seen in zip(input_ids, attention_mask, strict=True)]
        prompts = [self._tokenizer.decode(row) for row in rows]
        self.batches.append(prompts)
        replies = [self._reply(prompt) for prompt in prompts]
        width = max(map(len, replies))
        padded = [reply + [self._tokenizer.pad_token_id] * (width - len(reply)) for reply in replies]
        return torch.cat([input_ids, torch.tensor(padded)], dim=1)

    def _reply(self, prompt: str) -> list[int]:
        turn = prompt.count("<|im_start|>assistant") - 1
        ids = self._tokenizer(self._messages[turn], add_special_tokens=False)["input_ids"]
        return [*ids, self._tokenizer.eos_token_id]


def evaluated(model: Any, tokenizer: Any, **settings: Any) -> Any:
    """The figures of one task of the library."""
    return pass_at_1(model, tokenizer, library(), **{"split": None, "tasks": [OWED], **settings})


def test_a_model_that_solves_a_task_is_counted_and_attempts_are_answered_in_one_batch(tmp_path: Path) -> None:
    tokenizer = tiny_tokenizer()
    model = Knowing(tokenizer, SOLVED)
    found = evaluated(model, tokenizer, rollouts_per_task=4, concurrency=4, out=tmp_path / "run")
    assert (found.overall.pass_at_1, found.overall.rollouts, found.overall.tasks) == (1.0, 4, 1)
    assert found.overall.pass_hat[4] == 1.0
    assert sum(map(len, model.batches)) == 4 * len(SOLVED)
    assert max(map(len, model.batches)) == 4
    assert (set(model.modes), model.training) == ({False}, True)
    policy = next(iter(open_run(tmp_path / "run").values())).trajectory.policy
    assert (policy["model"], policy["host"], policy["window"]["turns"]) == ("knowing", "memory", 10)
    assert policy["sampling"] == {"temperature": 0.6, "top_p": 0.95, "top_k": 20, "max_tokens": 2048, "seed": 0}


def test_the_model_sees_the_window_that_it_is_deployed_with() -> None:
    tokenizer = tiny_tokenizer()
    looks = [thinking(f"look {n}", using("get_member", member_id=n).partition("</think>\n\n")[2]) for n in range(1, 6)]
    model = Knowing(tokenizer, [listing_tools(), *looks, answering("8.55")])
    assert evaluated(model, tokenizer, window=Window()).overall.pass_at_1 == 1.0
    assert [prompts[0].count("\nlook ") for prompts in model.batches] == [0, 0, 1, 2, 3, 4, 5]
    cut = Knowing(tokenizer, [listing_tools(), *looks, answering("8.55")])
    evaluated(cut, tokenizer, window=Window(turns=2), max_turns=6)
    assert [prompts[0].count("\nlook ") for prompts in cut.batches][:4] == [0, 0, 1, 2]
    assert max(prompts[0].count("\nlook ") for prompts in cut.batches) == 2
    assert all("list_tools" in prompts[0].partition("\nlook ")[0] for prompts in cut.batches[1:])


def test_a_model_that_breaks_the_format_completes_nothing() -> None:
    tokenizer = tiny_tokenizer()
    model = tiny_model(tokenizer).train()
    found = evaluated(
        model,
        tokenizer,
        rollouts_per_task=2,
        concurrency=2,
        sampling=Sampling(temperature=1.0, max_tokens=6),
        window=Window(turns=1),
    )
    assert (found.overall.pass_at_1, found.overall.terminations) == (0.0, {"format_error": 2})
    assert found.overall.ledger.completion_tokens == 12
    assert model.training


def test_without_environments_of_the_split_nothing_is_evaluated_and_it_is_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tokenizer = tiny_tokenizer()
    model = Knowing(tokenizer, SOLVED)
    with caplog.at_level(logging.WARNING):
        assert pass_at_1(model, tokenizer, awm.load(ids=["public_library_1"])) is None
        assert pass_at_1(model, tokenizer, library()) is None
    assert model.batches == []
    assert caplog.messages == ["there is no environment of the split 'test': nothing is evaluated"] * 2


def talk(text: str) -> list[dict[str, str]]:
    return opening("text", "The notes desk.", text)


async def asked(endpoint: ModelEndpoint, *texts: str, **sampling: Any) -> list[str | None]:
    """Replies to several questions at the same time."""
    replies = await asyncio.gather(
        *(endpoint.chat(talk(t), sampling=Sampling(**{"max_tokens": 12, "seed": 7, **sampling})) for t in texts)
    )
    return [reply.content for reply in replies]


async def test_a_reply_does_not_depend_on_what_else_is_in_the_batch() -> None:
    tokenizer = tiny_tokenizer()
    endpoint = ModelEndpoint(tiny_model(tokenizer), tokenizer)
    (alone,) = await asked(endpoint, "What is there?")
    together = await asked(endpoint, "Something longer than that, with more words in it.", "What is there?", "No.")
    assert together[1] == alone
    assert alone != (await asked(endpoint, "What is there?", seed=8))[0]
    greedy = await asked(endpoint, "What is there?", "What is there?", temperature=0.0)
    assert greedy == (await asked(endpoint, "What is there?", seed=8, top_k=1)) * 2
    assert greedy == (await asked(endpoint, "What is there?", seed=9, top_p=0.0)) * 2


async def test_top_k_and_top_p_draw_from_the_likeliest_tokens_alone() -> None:
    from awm_hub.training.evaluation import _Drawing

    scores = torch.log(torch.tensor([[0.5, 0.3, 0.15, 0.05]])).repeat(400, 1)

    def drawn(**settings: Any) -> set[int]:
        seeds = [Sampling(seed=seed, **settings) for seed in range(len(scores))]
        return set(_Drawing(seeds)(None, scores).argmax(1).tolist())

    assert drawn() == {0, 1, 2, 3}
    assert drawn(top_k=2) == {0, 1}
    assert drawn(top_p=0.8) == {0, 1}
    assert drawn(top_p=0.81) == {0, 1, 2}
    assert drawn(top_k=3, top_p=0.4) == {0}
    assert drawn(temperature=0.02) == {0}


async def test_what_the_model_wrote_is_shown_again_as_the_tokens_that_it_wrote() -> None:
    tokenizer = tiny_tokenizer()
    text = thinking("so", "Hello.")
    letters = [token for c in "Hello." for token in tokenizer(c, add_special_tokens=False)["input_ids"]]
    split = [*tokenizer(thinking("so", ""), add_special_tokens=False)["input_ids"], *letters]
    assert split != tokenizer(text, add_special_tokens=False)["input_ids"]
    model = tiny_model(tokenizer)
    prompts: list[list[int]] = []

    def generate(*, input_ids: Any, **_: Any) -> Any:
        prompts.append(input_ids[0].tolist())
        return torch.cat([input_ids, torch.tensor([[*split, tokenizer.eos_token_id]])], dim=1)

    model.generate = generate
    endpoint = ModelEndpoint(model, tokenizer)
    begun = talk("Hello?")
    reply = await endpoint.chat(begun)
    assert (reply.content, reply.finish_reason, reply.usage.requests) == (text, "stop", 1)
    told = [{"role": "user", "content": "<tool_response>\n1\n</tool_response>"}]
    await endpoint.chat([*begun, {"role": "assistant", "content": text}, *told])
    await endpoint.chat([*begun, {"role": "assistant", "content": "Hello."}, *told])
    chat = ChatTokens(tokenizer)
    rest = [tokenizer.eos_token_id, *chat.told(told)]
    assert prompts[0] == chat.head(begun)
    assert prompts[1] == prompts[0] + split + rest
    assert prompts[2] == prompts[0] + letters + rest


async def test_a_prompt_without_room_for_a_reply_is_a_full_context() -> None:
    tokenizer = tiny_tokenizer()
    endpoint = ModelEndpoint(tiny_model(tokenizer), tokenizer, context_tokens=50)
    with pytest.raises(ContextFullError, match="and the context 50"):
        await endpoint.chat(talk("Hello?"))
    with pytest.raises(UsageError, match="no stop texts"):
        ModelEndpoint(tiny_model(tokenizer), tokenizer, sampling=Sampling(stop=("x",)))


async def test_a_model_that_fails_fails_those_who_asked_and_nobody_after_them() -> None:
    tokenizer = tiny_tokenizer()
    model = tiny_model(tokenizer)
    generate: Callable[..., Any] = model.generate
    failures = iter([RuntimeError("out of memory")])

    def failing(**given: Any) -> Any:
        for failure in failures:
            raise failure
        return generate(**given)

    model.generate = failing
    endpoint = ModelEndpoint(model, tokenizer)
    found = await asyncio.gather(endpoint.chat(talk("a")), endpoint.chat(talk("b")), return_exceptions=True)
    assert [str(error) for error in found] == ["out of memory"] * 2
    assert len(await asked(endpoint, "c")) == 1


async def test_native_tools_are_put_into_the_prompt_by_the_chat_template() -> None:
    tokenizer = tiny_tokenizer()
    call = thinking("so", '<tool_call>\n{"name": "get_member", "arguments": {"member_id": 1}}\n</tool_call>')
    model = Knowing(tokenizer, [call])
    tool = {"type": "function", "function": {"name": "get_member", "description": "", "parameters": {}}}
    reply = await ModelEndpoint(model, tokenizer).chat(talk("Who?"), tools=[tool])
    assert reply.content == call
    assert json.dumps(tool) in model.batches[0][0]

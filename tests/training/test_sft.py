import dataclasses
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from training.tiny import library

import awm_hub as awm
from awm_hub import Window
from awm_hub.environment import Environment, split_of
from awm_hub.errors import DataError
from awm_hub.inference import Reply, Sampling, ToolCallText
from awm_hub.policy import ChatPolicy, opening, protocols
from awm_hub.rollouts import Rollout, attempt
from awm_hub.training.sft import examples_of_messages, examples_of_rollouts, examples_of_solutions, message_text
from awm_hub.trajectory import Outcome

OWED = "public_library_1/owed_by_ingeborg"


class Saying:
    """An endpoint that gives replies one after the other, and keeps what it is asked."""

    sampling = Sampling()

    def __init__(self, replies: Iterable[Reply | str]) -> None:
        self._replies = [Reply(content=r) if isinstance(r, str) else r for r in replies]
        self.asked: list[list[dict[str, Any]]] = []

    def describe(self) -> dict[str, Any]:
        return {"model": "scripted"}

    def check_key(self) -> None: ...

    async def chat(self, messages: Sequence[Any], **_: Any) -> Reply:
        self.asked.append([dict(m) for m in messages])
        return self._replies[len(self.asked) - 1]


async def played(replies: Iterable[Reply | str], **policy: Any) -> tuple[Rollout, Saying]:
    """A judged rollout of what an endpoint says about what Ingeborg owes."""
    environment, endpoint = library(), Saying(replies)
    async with await awm.aio.launch(environment, task="owed_by_ingeborg") as instance:
        found = await attempt(instance, ChatPolicy(endpoint, **{"protocol": "text", **policy}))
    verdict = await awm.aio.judge(found, environment=environment)
    return Rollout(id="one", number=0, trajectory=dataclasses.replace(found, verdicts=(verdict,))), endpoint


def solved() -> list[dict[str, Any]]:
    """The rows of one solution."""
    return list(examples_of_solutions(library(), tasks=[OWED], requires=None))


SOLUTION = [
    message_text("First I look up which tools there are.", call=("list_tools", {})),
    message_text(
        "Next I call search_members.",
        call=("call_tool", {"tool_name": "search_members", "arguments": {"query": "Ingeborg Adeyemi-Holm"}}),
    ),
]


def test_a_solution_becomes_a_row_for_each_of_its_messages() -> None:
    rows = solved()
    environment = library()
    task = environment.task(OWED)
    calls = [c.tool for c in task.solution or ()]
    said = [row["completion"][0]["content"] for row in rows]
    assert said[0] == (
        "<think>\nFirst I look up which tools there are.\n</think>\n\n"
        '<tool_call>\n{"name": "list_tools", "arguments": {}}\n</tool_call>'
    )
    assert [json.loads(s.split("<tool_call>\n")[1].split("\n</tool_call>")[0])["name"] for s in said[:-1]] == [
        "list_tools",
        *["call_tool"] * len(calls),
    ]
    assert said[-1] == "<think>\nEverything is done, so I answer.\n</think>\n\n8.55"
    assert rows[0]["prompt"] == opening("text", environment.briefing, task.prompt)
    listing = protocols.listing(protocols.Naming(tools=environment.tools))
    assert rows[1]["prompt"][2:] == [
        {"role": "assistant", "content": said[0]},
        {"role": "user", "content": f"<tool_response>\n{listing}\n</tool_response>"},
    ]
    assert [len(row["prompt"]) for row in rows] == [2 + 2 * turn for turn in range(len(rows))]


@pytest.mark.parametrize("window", [Window(), Window(turns=1), Window(turns=1, head_turns=0), Window(tokens=3000)])
@pytest.mark.parametrize("keeps", [True, False])
async def test_rows_show_exactly_what_the_policy_is_shown_under_the_same_window(window: Window, keeps: bool) -> None:
    call = {"tool_name": "search_members", "arguments": {"query": "a"}}
    replies = [
        message_text("list", call=("list_tools", {})),
        *(message_text(f"look {n}", call=("call_tool", call)) for n in range(4)),
        message_text("done", answer="8.55"),
    ]
    done, endpoint = await played(replies, window=window, keeps_thoughts=keeps)
    rows = list(examples_of_rollouts([done], library(), window=window, keeps_thoughts=keeps))
    assert [row["prompt"] for row in rows] == endpoint.asked
    assert [row["completion"] for row in rows] == [[{"role": "assistant", "content": text}] for text in replies]


async def test_a_full_history_is_one_row() -> None:
    done, _ = await played(
        [message_text("list", call=("list_tools", {})), SOLUTION[1], message_text("done", answer="8.55")]
    )
    (row,) = examples_of_rollouts([done], library(), full_history=True)
    assert list(row) == ["messages"]
    assert row["messages"] == list(done.trajectory.messages)


async def test_a_rollout_of_native_calls_is_written_anew_in_the_text_protocol() -> None:
    def calling(name: str, arguments: str) -> Reply:
        return Reply(reasoning="I search.", tool_calls=(ToolCallText(id="1", name=name, arguments=arguments),))

    replies = [calling("search_members", '{"query": "Ingeborg"}'), Reply(content="8.55", reasoning="It is 8.55.")]
    done, _ = await played(replies, protocol="native")
    (row,) = examples_of_rollouts([done], library(), full_history=True)
    said = [m["content"] for m in row["messages"] if m["role"] == "assistant"]
    call = {"tool_name": "search_members", "arguments": {"query": "Ingeborg"}}
    assert said == [
        SOLUTION[0],
        message_text("I search.", call=("call_tool", call)),
        message_text("It is 8.55.", answer="8.55"),
    ]
    result = done.trajectory.steps[0].result.text()
    assert row["messages"][5]["content"] == f"<tool_response>\n{result}\n</tool_response>"


async def test_what_a_server_took_apart_is_put_together_again() -> None:
    arguments = json.dumps({"tool_name": "get_member", "arguments": {"member_id": 1}})
    replies = [
        Reply(reasoning="list", tool_calls=(ToolCallText(id="a", name="list_tools", arguments="{}"),)),
        Reply(reasoning="look", tool_calls=(ToolCallText(id="b", name="call_tool", arguments=arguments),)),
        Reply(reasoning="done", content="8.55"),
    ]
    done, _ = await played(replies)
    (row,) = examples_of_rollouts([done], library(), full_history=True)
    assert [m["role"] for m in row["messages"]] == ["system", "user", *["assistant", "user"] * 2, "assistant"]
    assert row["messages"][4] == {
        "role": "assistant",
        "content": message_text("look", call=("call_tool", {"tool_name": "get_member", "arguments": {"member_id": 1}})),
    }
    assert row["messages"][5]["content"].startswith("<tool_response>\n{")


async def test_only_completed_rollouts_in_good_format_are_learnt_from() -> None:
    listing, answer = message_text("list", call=("list_tools", {})), message_text("done", answer="8.55")
    good, _ = await played([listing, SOLUTION[1], answer])
    wrong, _ = await played([listing, SOLUTION[1], message_text("done", answer="1.00")])
    lenient, _ = await played([listing, "<tool_call>{</tool_call>", SOLUTION[1], answer], is_strict=False)
    assert (good.is_success, wrong.is_success, lenient.is_success) == (True, False, True)
    assert len(list(examples_of_rollouts([wrong, good, lenient], library()))) == 3
    with pytest.raises(DataError, match=r"no rollout can be learnt from \(not completed: 1; broke the format: 1\)"):
        list(examples_of_rollouts([wrong, lenient], library()))


async def test_rollouts_of_what_is_for_evaluation_or_of_another_version_are_not_learnt_from() -> None:
    done, _ = await played([*SOLUTION, message_text("done", answer="8.55")])
    barred = dataclasses.replace(library(), usage="eval_only")
    with pytest.raises(DataError, match="for evaluation only, or of another split: 1"):
        list(examples_of_rollouts([done], barred))
    with pytest.raises(DataError, match="for evaluation only, or of another split: 1"):
        list(examples_of_rollouts([done], library(), split="test"))
    with pytest.raises(DataError, match="of another environment: 1"):
        list(examples_of_rollouts([done], {}))
    with pytest.raises(DataError, match="another version of public_library_1"):
        list(examples_of_rollouts([done], dataclasses.replace(library(), content_hash="other")))


def test_a_solution_that_is_not_sound_or_not_there_is_no_example(renamed: Callable[..., Environment]) -> None:
    name = next(n for n in (f"n_{i}" for i in range(9)) if split_of(n) == "train")
    unaudited = renamed(name)
    with pytest.raises(DataError, match="no sound task has a reference solution"):
        next(examples_of_solutions(unaudited))
    without = dataclasses.replace(
        unaudited, tasks=tuple(dataclasses.replace(t, solution=None) for t in unaudited.tasks)
    )
    with pytest.raises(DataError, match="no sound task has a reference solution"):
        next(examples_of_solutions(without, requires=None))


def test_a_solution_whose_ending_is_not_completed_is_left_out(renamed: Callable[..., Environment]) -> None:
    name = next(n for n in (f"n_{i}" for i in range(9)) if split_of(n) == "train")
    found = renamed(name)
    half = {"postpone_plumber": 1}
    tasks = [dataclasses.replace(t, solution=(t.solution or ())[: half.get(t.slug)]) for t in found.tasks]
    wrong = dataclasses.replace(found, tasks=tuple(tasks))
    rows = list(examples_of_solutions(wrong, requires=None, full_history=True))
    prompts = {row["messages"][1]["content"] for row in rows}
    assert prompts == {t.prompt for t in wrong.tasks if t.slug != "postpone_plumber"}


def test_rows_end_where_the_window_holds_no_more() -> None:
    messages = [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "u"},
        *({"role": role, "content": "x" * 100} for _ in range(3) for role in ("assistant", "user")),
    ]
    rows = list(examples_of_messages(messages, window=Window(tokens=5), count=lambda found: len(found)))
    assert [len(row["prompt"]) for row in rows] == [2, 4]


def test_every_solution_of_a_bundled_environment_is_an_example_and_its_run_can_be_read_again(tmp_path: Path) -> None:
    environments = awm.load(ids=["field_service_1"])
    rows = list(examples_of_solutions(environments, full_history=True, out=tmp_path / "run"))
    assert len(rows) == 10
    again = examples_of_rollouts(tmp_path / "run", environments, full_history=True)
    assert list(again) == rows
    assert {r.verdict.outcome for r in awm.rollouts.open_run(tmp_path / "run").values() if r.verdict} == {
        Outcome.COMPLETED
    }


def test_sfttrainer_trains_the_completion_alone_on_the_tokens_of_a_rollout(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    trl = pytest.importorskip("trl")
    import datasets
    from training.tiny import tiny_model, tiny_tokenizer

    from awm_hub.training.tokens import ChatTokens, trainable_template

    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = trainable_template(tokenizer)
    model = tiny_model(tokenizer)
    rows = [*solved(), *examples_of_solutions(library(), tasks=[OWED], requires=None, window=Window(turns=1))]
    settings = trl.SFTConfig(
        output_dir=str(tmp_path),
        max_length=None,
        max_steps=1,
        per_device_train_batch_size=2,
        report_to=[],
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        save_strategy="no",
    )
    trainer = trl.SFTTrainer(
        model=model, args=settings, train_dataset=datasets.Dataset.from_list(rows), processing_class=tokenizer
    )
    chat = ChatTokens(tokenizer)
    encode: Callable[[str], list[int]] = lambda text: tokenizer(text, add_special_tokens=False)["input_ids"]  # noqa: E731
    newline = encode("\n")
    for row, prepared in zip(rows, trainer.train_dataset, strict=True):
        prompt = chat.head(row["prompt"][:2])
        for said, told in zip(row["prompt"][2::2], row["prompt"][3::2], strict=True):
            prompt += [*encode(said["content"]), tokenizer.eos_token_id, *chat.told([told])]
        output = [*encode(row["completion"][0]["content"]), tokenizer.eos_token_id]
        assert prepared["input_ids"] == prompt + output + newline
        trained = [label != -100 for label in trainer.data_collator([prepared])["labels"][0].tolist()]
        assert trained == [False] * len(prompt) + [True] * (len(output) + len(newline))
    before = [p.detach().clone() for p in model.parameters()]
    assert torch.isfinite(torch.tensor(trainer.train().training_loss))
    assert any(not torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))

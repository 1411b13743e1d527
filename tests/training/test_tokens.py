"""Token segments: the same tokens as the chat template gives, and never what a model wrote tokenised again."""

from typing import Any

import pytest
from training.scripted import Script, row_of

from awm_hub.errors import UsageError
from awm_hub.history import Window
from awm_hub.training.tokens import ChatTokens, trainable_template
from training import tiny


def test_the_head_is_the_opening_messages_and_the_beginning_of_the_models_own(tokenizer: Any) -> None:
    head = ChatTokens(tokenizer).head([{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hello"}])
    assert tokenizer.decode(head) == (
        "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n"
    )


def test_what_came_back_stands_between_two_messages_of_the_model(tokenizer: Any) -> None:
    told = ChatTokens(tokenizer).told([{"role": "user", "content": "<tool_response>\n8\n</tool_response>"}])
    assert tokenizer.decode(told) == (
        "\n<|im_start|>user\n<tool_response>\n8\n</tool_response><|im_end|>\n<|im_start|>assistant\n"
    )


def test_arguments_of_the_template_reach_it(tokenizer: Any) -> None:
    tokens = ChatTokens(tokenizer, arguments={"enable_thinking": False})
    assert tokenizer.decode(tokens.head([{"role": "user", "content": "?"}])).endswith("<think>\n\n</think>\n\n")
    assert tokenizer.decode(tokens.told([{"role": "user", "content": "?"}])).endswith("<think>\n\n</think>\n\n")


def test_a_message_without_its_thoughts_loses_whole_tokens_only(tokenizer: Any) -> None:
    output = [*tokenizer(tiny.thinking("why?", "8.55"), add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]
    rest = ChatTokens(tokenizer).without_thoughts(output)
    assert tokenizer.decode(rest) == "8.55<|im_end|>"
    assert output[-len(rest) :] == rest
    assert ChatTokens(tokenizer).without_thoughts(rest) == rest


def test_a_tokenizer_without_a_template_is_refused(tokenizer: Any) -> None:
    bare = tiny.tiny_tokenizer()
    bare.chat_template = None
    with pytest.raises(UsageError, match="has no chat template"):
        ChatTokens(bare)


def test_a_template_with_another_end_of_a_message_is_refused(tokenizer: Any) -> None:
    other = "{% for m in messages %}[{{ m.role }}]{{ m.content }}[end]{% endfor %}"
    with pytest.raises(UsageError, match=r"does not end an assistant's message with '<\|im_end\|>'"):
        ChatTokens(tokenizer, template=other)


def test_the_template_that_trl_knows_is_kept(tokenizer: Any) -> None:
    assert trainable_template(tokenizer) == tokenizer.chat_template


def test_a_fine_tune_of_qwen3_with_another_text_of_the_template_gets_the_one_trl_knows() -> None:
    pytest.importorskip("trl")
    changed = tiny.tiny_tokenizer()
    changed.chat_template = changed.chat_template + "{# a fine-tune #}"
    assert trainable_template(changed) == tiny.qwen3_template()


def test_an_unknown_template_of_another_family_is_refused() -> None:
    pytest.importorskip("trl")
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    other = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.BPE()), eos_token="</s>")
    other.chat_template = "{% for m in messages %}{{ m.content }}{% endfor %}"
    with pytest.raises(UsageError, match="TRL does not know"):
        trainable_template(other)


@pytest.mark.parametrize("keeps_thoughts", [True, False])
@pytest.mark.parametrize("turns", [None, 1])
async def test_a_turn_is_shown_the_tokens_that_the_template_makes_of_the_messages_a_deployed_policy_is_sent(
    play: Any, tokenizer: Any, keeps_thoughts: bool, turns: int | None
) -> None:
    import asyncio

    window = Window(turns=turns)
    played = await asyncio.to_thread(lambda: play(tiny.SOLVED, window=window, keeps_thoughts=keeps_thoughts))
    shown = [one.prompt for one in played.trainer.environments[0].turns]

    sent: list[Any] = []

    class Replaying:
        """An endpoint that gives the scripted replies and keeps what it is sent."""

        sampling = type("Sampling", (), {"seed": None})()

        def describe(self) -> dict[str, Any]:
            return {}

        async def chat(self, messages: Any, *, tools: Any, sampling: Any) -> Any:
            from awm_hub.inference import Reply

            sent.append(messages)
            return Reply(content=tiny.SOLVED[len(sent) - 1], finish_reason="stop")

    import awm_hub
    from awm_hub.rollouts import attempt

    environment = tiny.library()
    async with awm_hub.aio.launch(environment, task=row_of()["task_id"]) as instance:
        deployed = await attempt(instance, played.rollout.policy(Replaying()))
    assert [
        tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=True, return_dict=False)
        for messages in sent
    ] == shown
    trained = played.trainer.environments[0].trajectory
    assert deployed.messages == trained.messages
    assert [(s.tool, s.arguments, s.result) for s in deployed.steps] == [
        (s.tool, s.arguments, s.result) for s in trained.steps
    ]
    assert (deployed.answer, deployed.termination, deployed.database_delta) == (
        trained.answer,
        trained.termination,
        trained.database_delta,
    )


def test_what_a_model_wrote_is_never_tokenised_again(play: Any, tokenizer: Any) -> None:
    """The tokens of a message that no tokenizer would give it stay in the prompts of later turns as they were."""
    letters = [i for c in "search" for i in tokenizer(c, add_special_tokens=False)["input_ids"]]
    whole = tokenizer("search", add_special_tokens=False)["input_ids"]
    assert letters != whole

    class Spelling(Script):
        def _written(self, text: str) -> Any:
            found = super()._written(text)
            at = next(i for i in range(len(found.output)) if found.output[i : i + len(whole)] == whole)
            odd = found.output[:at] + letters + found.output[at + len(whole) :]
            assert tokenizer.decode(odd) == tokenizer.decode(found.output)
            return type(found)(output=odd)

    first = tiny.calling("list_tools", {}).replace("next", "I shall:search")
    script = Spelling(tokenizer, (first, tiny.thinking("I shall:search", "8.55")))
    from awm_hub.training.rollout import WindowedRollout

    played = play(tiny.SOLVED)
    rollout = WindowedRollout(generate=script)
    episode = played.trainer.environments[0]
    episode.reset(**row_of())
    output = rollout([row_of()["prompt"]], played.trainer)
    turns = episode.turns
    assert list(turns[1].prompt[: len(turns[0].prompt) + len(turns[0].output)]) == [*turns[0].prompt, *turns[0].output]
    assert len(output["prompt_ids"]) == 1

"""Rollouts: the paper's loop under a window, played by a script in the library."""

import threading
from typing import Any

import pytest
from training.scripted import Script, Trainer, row_of

from awm_hub.errors import CapacityError, UsageError
from awm_hub.history import Window
from awm_hub.training.episodes import Episodes
from awm_hub.training.rollout import BatchFacts, WindowedRollout
from training import tiny

ALL = Window()
LONG = (
    tiny.listing_tools(),
    tiny.using("search_members", query="Ingeborg"),
    tiny.using("get_member", member_id=1),
    tiny.using("get_member", member_id=2),
    tiny.using("get_member", member_id=3),
    tiny.answering("8.55"),
)


def texts(tokenizer: Any, output: dict[str, Any]) -> list[str]:
    """What each row trains."""
    return [
        "|".join(tokenizer.decode([t for t, m in zip(completion, mask, strict=True) if m]).split("<|im_end|>")[:-1])
        for completion, mask in zip(output["completion_ids"], output["env_mask"], strict=True)
    ]


def test_a_task_is_solved_in_one_row_while_nothing_is_cut(play: Any, tokenizer: Any) -> None:
    played = play(tiny.SOLVED, window=ALL)
    (episode,) = played.trainer.environments
    assert texts(tokenizer, played.output) == ["|".join(tiny.SOLVED)]
    assert played.trainer.row_owners == [0]
    trajectory = episode.trajectory
    assert (trajectory.termination, trajectory.answer) == ("answered", "8.55")
    assert [(s.tool, s.result.type) for s in trajectory.steps] == [("search_members", "ok"), ("get_member", "ok")]
    assert trajectory.usage["turns"] == 4
    assert [len(turn.output) for turn in episode.turns] == [
        len(tokenizer(text, add_special_tokens=False)["input_ids"]) + 1 for text in tiny.SOLVED
    ]
    assert trajectory.usage["completion_tokens"] == sum(len(turn.output) for turn in episode.turns)
    assert trajectory.policy["window"] == {"turns": None, "tokens": None, "head_turns": 1}
    assert (trajectory.policy["kind"], trajectory.policy["step"]) == ("training", 0)
    assert [m["role"] for m in trajectory.messages] == ["system", "user", *["assistant", "user"] * 3, "assistant"]
    assert played.output["logprobs"] is None


def test_a_window_shows_the_head_and_the_newest_turns_and_each_cut_begins_a_row(play: Any, tokenizer: Any) -> None:
    played = play(LONG, window=Window(turns=2))
    (episode,) = played.trainer.environments
    assert episode.seen == [(), (0,), (0, 1), (0, 1, 2), (0, 2, 3), (0, 3, 4)]
    assert texts(tokenizer, played.output) == ["|".join(LONG[:4]), LONG[4], LONG[5]]
    assert played.rollout.facts == BatchFacts(trajectories=1, turns=6, rows=3, padding=0, lost=0)
    shown = tokenizer.decode(played.output["prompt_ids"][2])
    assert [shown.count(text) for text in LONG] == [1, 0, 0, 1, 1, 0]


def test_a_window_of_tokens_cuts_by_the_tokens_of_the_turns(play: Any, tokenizer: Any) -> None:
    full = play(LONG, window=ALL).trainer.environments[0]
    room = len(full.turns[4].prompt)
    played = play(LONG, window=Window(tokens=room))
    (episode,) = played.trainer.environments
    assert episode.seen[:5] == [(), (0,), (0, 1), (0, 1, 2), (0, 1, 2, 3)]
    assert episode.seen[5] != (0, 1, 2, 3, 4)
    assert max(len(turn.prompt) for turn in episode.turns) <= room


def test_a_history_that_cannot_be_shown_ends_the_episode_and_nothing_else(play: Any) -> None:
    before_second = len(play(tiny.SOLVED, window=ALL).trainer.environments[0].turns[1].prompt)
    played = play(tiny.SOLVED, tiny.SOLVED, window=Window(tokens=before_second - 1))
    assert [e.termination for e in played.trainer.environments] == ["context_full", "context_full"]
    assert [len(e.turns) for e in played.trainer.environments] == [1, 1]


def test_a_prompt_as_long_as_the_models_context_ends_the_episode(play: Any) -> None:
    before_third = len(play(tiny.SOLVED, window=ALL).trainer.environments[0].turns[2].prompt)
    played = play(tiny.SOLVED, window=ALL, context_tokens=before_third)
    (episode,) = played.trainer.environments
    assert episode.termination == "context_full"
    assert len(episode.turns) == 2


@pytest.mark.parametrize(
    ("messages", "rule", "calls"),
    [
        ((tiny.listing_tools().split("</think>\n\n")[1], "never"), "think_missing", 0),
        ((tiny.listing_tools(), tiny.using("no_such_tool"), "never"), "unknown_tool", 0),
        ((tiny.listing_tools(), tiny.using("get_member", member_id="one"), "never"), "invalid_arguments", 1),
        ((*tiny.BROKEN, "never"), "invalid_arguments", 0),
        ((tiny.listing_tools(), tiny.SOLVED[1] + tiny.SOLVED[2], "never"), "invalid_arguments", 0),
        ((tiny.SOLVED[1], "never"), "list_tools_first", 0),
        ((tiny.listing_tools(), tiny.listing_tools(), "never"), "list_tools_first", 0),
        ((tiny.listing_tools(), tiny.answering("8.55")), "no_successful_call", 0),
        ((tiny.listing_tools(), tiny.thinking("hm", "The answer is 8") + "…"), "invalid_arguments", 0),
    ],
)
def test_the_first_broken_rule_ends_the_rollout(play: Any, messages: Any, rule: str, calls: int) -> None:
    played = play(messages, tiny.SOLVED, window=ALL)
    broken, solved = played.trainer.environments
    assert (broken.termination, [v["name"] for v in broken.violations]) == ("format_error", [rule])
    assert len(broken.trajectory.steps) == calls
    assert len(broken.turns) == len(messages) - ("never" in messages)
    assert solved.termination == "answered"


def test_a_lenient_rollout_records_broken_rules_and_goes_on(play: Any, tokenizer: Any) -> None:
    cut = tiny.thinking("hm", "The answer is 8") + "…"
    played = play((tiny.listing_tools(), cut, *tiny.SOLVED[1:]), window=ALL, is_strict=False)
    (episode,) = played.trainer.environments
    assert [v["name"] for v in episode.violations] == ["invalid_arguments"]
    assert episode.termination == "answered"
    (row,) = texts(tokenizer, played.output)
    assert row == "|".join([tiny.listing_tools(), cut.removesuffix("…") + tiny.SOLVED[1], *tiny.SOLVED[2:]])


def test_as_many_turns_as_are_allowed_end_the_rollout(play: Any) -> None:
    played = play(LONG, window=ALL, max_turns=3)
    (episode,) = played.trainer.environments
    assert (episode.termination, len(episode.turns)) == ("max_turns", 3)


def test_a_long_result_is_shortened_before_it_becomes_tokens(play: Any, tokenizer: Any) -> None:
    played = play(tiny.SOLVED, window=ALL, result_chars=40)
    shown = tokenizer.decode(played.output["completion_ids"][0])
    assert shown.count("[cut: the first 40 of") == 2
    assert played.trainer.environments[0].termination == "answered"


def test_without_thoughts_in_the_history_every_turn_is_a_row(play: Any, tokenizer: Any) -> None:
    played = play(tiny.SOLVED, window=ALL, keeps_thoughts=False)
    assert texts(tokenizer, played.output) == list(tiny.SOLVED)
    assert "next" not in tokenizer.decode(played.output["prompt_ids"][3])


def test_upstreams_prefix_of_tool_names_is_shown_and_taken_off(play: Any, tokenizer: Any) -> None:
    messages = [text.replace('"tool_name": "', '"tool_name": "mcp_tool_') for text in tiny.SOLVED]
    played = play(messages, window=ALL, tool_prefix="mcp_tool_")
    assert played.trainer.environments[0].termination == "answered"
    assert "mcp_tool_get_member" in tokenizer.decode(played.output["completion_ids"][0])


def test_all_attempts_of_a_turn_are_sampled_at_once_and_in_order(play: Any) -> None:
    played = play(tiny.SOLVED, tiny.BROKEN, tiny.FAILED, tiny.SOLVED, window=ALL)
    asked = [[(ask.position, ask.turn) for ask in batch] for batch in played.script.asked]
    assert asked == [
        [(0, 0), (1, 0), (2, 0), (3, 0)],
        [(0, 1), (1, 1), (2, 1), (3, 1)],
        [(0, 2), (2, 2), (3, 2)],
        [(0, 3), (3, 3)],
    ]


def test_the_calls_of_a_turn_go_to_the_pool_in_one_batch(play: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    original = Episodes.call

    async def call(self: Episodes, calls: Any) -> Any:
        sizes.append(len(calls))
        return await original(self, calls)

    monkeypatch.setattr(Episodes, "call", call)
    play(tiny.SOLVED, tiny.SOLVED, tiny.FAILED, window=ALL)
    assert sizes == [3, 2]


def test_logprobs_of_the_sampler_stand_beside_what_it_wrote(play: Any) -> None:
    played = play(tiny.SOLVED, tiny.BROKEN, window=ALL, logprob=-0.25, steps_per_generation=4)
    assert [row.count(-0.25) for row in played.output["logprobs"]] == [sum(m) for m in played.output["env_mask"]]
    assert [len(row) for row in played.output["logprobs"]] == [len(row) for row in played.output["completion_ids"]]


def test_rows_are_filled_up_to_what_the_trainer_splits(play: Any) -> None:
    played = play(LONG, tiny.BROKEN, window=Window(turns=2), steps_per_generation=3)
    assert played.trainer.row_owners == [0, 0, 0, 1, -1, -1]
    assert [sum(mask) > 0 for mask in played.output["env_mask"]] == [True, True, True, True, False, False]


def test_slots_hold_the_newest_rows_of_each_attempt(play: Any, tokenizer: Any) -> None:
    played = play(LONG, tiny.BROKEN, window=Window(turns=2), slots=2)
    first, second, *others = played.trainer.environments
    assert (first.leader, second.leader) == (first, first)
    assert [episode.leader for episode in others] == [others[0], others[0]]
    assert texts(tokenizer, played.output) == [LONG[4], LONG[5], "|".join(tiny.BROKEN), ""]
    assert played.rollout.facts == BatchFacts(trajectories=2, turns=8, rows=3, padding=1, lost=1)


def test_prompts_that_do_not_fill_the_slots_are_refused(play: Any) -> None:
    with pytest.raises(UsageError, match="3 prompts do not fill slots of 2"):
        play(tiny.SOLVED, rows=[row_of()] * 3, slots=2)


def test_an_environment_that_fails_is_a_fault_of_the_environment_and_not_of_the_policy(tokenizer: Any) -> None:
    import dataclasses

    broken = dataclasses.replace(tiny.library(), code="raise RuntimeError('no')")
    episodes = Episodes({"public_library_1": broken})
    episode = episodes.factory()()
    episode.reset(**row_of())
    rollout = WindowedRollout(generate=Script(tokenizer, tiny.SOLVED))
    output = rollout([row_of()["prompt"]], Trainer(tokenizer, [episode]))
    assert episode.termination == "environment_fault"
    assert output["env_mask"] == [[0]]
    episodes.close()


def test_a_full_pool_is_an_error_of_the_training_and_says_what_to_do(tokenizer: Any) -> None:
    episodes = Episodes({"public_library_1": tiny.library()}, most_instances=1, wait_s=0.1)
    made = [episodes.factory()() for _ in range(2)]
    for episode in made:
        episode.reset(**row_of())
    rollout = WindowedRollout(generate=Script(tokenizer, tiny.SOLVED))
    with pytest.raises(CapacityError, match="most_instances"):
        rollout([row_of()["prompt"]] * 2, Trainer(tokenizer, made))
    assert episodes.live_instances == 0
    episodes.close()


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError("out of memory")])
def test_an_interrupted_rollout_frees_its_instances(tokenizer: Any, episodes: Episodes, error: Any) -> None:
    held = []

    class Failing(Script):
        def __call__(self, asked: Any, trainer: Any) -> Any:
            if len(self.asked) == 2:
                held.append(episodes.live_instances)
                raise error
            return super().__call__(asked, trainer)

    made = [episodes.factory()() for _ in range(2)]
    for episode in made:
        episode.reset(**row_of())
    rollout = WindowedRollout(generate=Failing(tokenizer, tiny.SOLVED))
    with pytest.raises(error if isinstance(error, type) else type(error)):
        rollout([row_of()["prompt"]] * 2, Trainer(tokenizer, made))
    assert held == [2]
    assert episodes.live_instances == 0


def test_a_policy_that_cannot_render_its_prompt_fails_loudly(
    tokenizer: Any, episodes: Episodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    from awm_hub.training.tokens import ChatTokens

    monkeypatch.setattr(ChatTokens, "text", lambda self, output: 1 / 0)
    episode = episodes.factory()()
    episode.reset(**row_of())
    with pytest.raises(ZeroDivisionError):
        WindowedRollout(generate=Script(tokenizer, tiny.SOLVED))([row_of()["prompt"]], Trainer(tokenizer, [episode]))
    assert episodes.live_instances == 0


def test_a_trainer_without_episodes_is_refused(tokenizer: Any) -> None:
    with pytest.raises(UsageError, match="no episodes"):
        WindowedRollout()([row_of()["prompt"]], Trainer(tokenizer, [object()]))


@pytest.mark.parametrize("settings", [{"max_turns": 0}, {"slots": 0}, {"result_chars": 0}])
def test_numbers_that_allow_nothing_are_refused(settings: dict[str, int]) -> None:
    with pytest.raises(UsageError, match="is 0"):
        WindowedRollout(**settings)


def test_processes_that_sample_together_ask_equally_often_for_equally_many(
    tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two threads stand for two processes; a barrier stands for the gathering of their counts."""
    from awm_hub.training import generating

    barrier, counts, sizes = threading.Barrier(2, timeout=30), [0, 0], [[], []]

    def most(count: int) -> int:
        rank = int(threading.current_thread().name)
        barrier.wait()
        counts[rank] = count
        barrier.wait()
        return max(counts)

    monkeypatch.setattr(generating, "most_in_step", most)
    monkeypatch.setattr(generating, "in_step", lambda trainer: True)
    scripts = [[tiny.SOLVED, tiny.BROKEN], [tiny.BROKEN, tiny.BROKEN]]
    shared = [Episodes({"public_library_1": tiny.library()}) for _ in range(2)]
    outputs: list[Any] = [None, None]

    def work(rank: int) -> None:
        made = [shared[rank].factory()() for _ in range(2)]
        for episode in made:
            episode.reset(**row_of())
        said = Script(tokenizer, *scripts[rank])

        def generate(asked: Any, trainer: Any) -> Any:
            sizes[rank].append(len(asked))
            real = [ask for ask in asked if len(ask.prompt) > 1]
            return [*said(real, trainer), *[said._written("x")] * (len(asked) - len(real))]

        trainer = Trainer(tokenizer, made)
        trainer.accelerator.num_processes = 2
        outputs[rank] = WindowedRollout(generate=generate)([row_of()["prompt"]] * 2, trainer)

    threads = [threading.Thread(target=work, args=(rank,), name=str(rank)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sizes == [[2, 2, 1, 1], [2, 2, 1, 1]]
    assert [len(output["prompt_ids"]) for output in outputs] == [2, 2]
    for one in shared:
        one.close()

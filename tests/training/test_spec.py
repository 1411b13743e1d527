"""Specs: the arguments of a trainer, for the paper's training and for TRL's own tool loop."""

import inspect
from pathlib import Path
from typing import Any

import pytest
from training.scripted import Script, row_of

from awm_hub.errors import UsageError
from awm_hub.history import Window
from awm_hub.policy.prompts import TEXT
from awm_hub.training.episodes import Episodes
from awm_hub.training.rewards import HybridReward
from awm_hub.training.spec import TrainingSpec, history_aware, simple
from awm_hub.training.tool_loop import SIMPLE, ToolEpisode, simple_prompt
from training import tiny


def small() -> dict[str, Any]:
    """Where and on what the tests train."""
    return {"environments": {"public_library_1": tiny.library()}}


def rows() -> Any:
    return pytest.importorskip("datasets").Dataset.from_list([row_of()] * 4)


def tool_episode(**settings: Any) -> ToolEpisode:
    """A reset episode of TRL's tool loop."""
    episode = ToolEpisode(Episodes({"public_library_1": tiny.library()}), **settings)
    episode.reset(**row_of())
    return episode


def said(text: str, *calls: tuple[str, dict[str, Any]], thought: str | None = "hm") -> dict[str, Any]:
    """An assistant's message as TRL parses it."""
    found: dict[str, Any] = {"role": "assistant", "content": text}
    if thought is not None:
        found["reasoning_content"] = thought
    if calls:
        found["tool_calls"] = [{"type": "function", "function": {"name": n, "arguments": a}} for n, a in calls]
    return found


GET = {"tool_name": "get_member", "arguments": {"member_id": 1}}


def test_every_public_name_is_there() -> None:
    pytest.importorskip("trl")
    from awm_hub import training

    assert training.__all__ == sorted(training.__all__)
    assert [name for name in training.__all__ if getattr(training, name, None) is None] == []
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        training.nothing  # noqa: B018


def test_a_spec_names_the_arguments_of_the_trainer() -> None:
    trl = pytest.importorskip("trl")
    with history_aware(train_dataset=rows(), window=Window(turns=2), judge="reference", **small()) as spec:
        arguments = spec.arguments()
        assert set(arguments) <= set(inspect.signature(trl.GRPOTrainer.__init__).parameters)
        assert set(arguments) == {
            "train_dataset",
            "environment_factory",
            "rollout_func",
            "reward_funcs",
            "callbacks",
        }
        assert arguments["rollout_func"].manner.window == Window(turns=2)
        assert spec.reward_funcs[0].judge == "reference"
        assert issubclass(spec.trainer_cls, trl.GRPOTrainer)
        assert spec.trainer_cls is not trl.GRPOTrainer


def test_the_paper_s_window_is_the_default() -> None:
    spec = history_aware(train_dataset=[], **small())
    assert spec.rollout_func is not None
    assert spec.rollout_func.manner.window == Window(turns=3, head_turns=1)
    assert (spec.rollout_func.manner.max_turns, spec.rollout_func.manner.is_strict) == (20, True)


def test_slots_take_a_plain_trainer() -> None:
    trl = pytest.importorskip("trl")
    assert history_aware(train_dataset=[], slots=4, **small()).trainer_cls is trl.GRPOTrainer


def test_the_rows_come_from_the_dataset_where_none_are_given() -> None:
    pytest.importorskip("datasets")
    spec = history_aware()
    row = next(iter(spec.train_dataset))
    assert {"prompt", "environment_id", "task_id"} <= set(row)
    episode = spec.environment_factory()
    episode.reset(**row)
    assert episode.task.id == row["task_id"]


def test_leaving_a_spec_frees_its_instances_whatever_happened() -> None:
    from awm_hub.runtime import sync

    spec = history_aware(train_dataset=[], **small())

    def interrupted() -> None:
        with spec:
            episode = spec.environment_factory()
            episode.reset(**row_of())
            sync.run(spec.episodes.take, episode.place)
            assert spec.episodes.live_instances == 1
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert spec.episodes.live_instances == 0


def test_the_simple_episode_has_two_tools_and_a_prompt_that_does_not_declare_them_again() -> None:
    public = {n for n, _ in inspect.getmembers(ToolEpisode, inspect.isfunction) if not n.startswith("_")}
    assert public == {"reset", "list_tools", "call_tool"}
    row = row_of()
    system = simple_prompt(row)["prompt"][0]["content"]
    assert TEXT in row["prompt"][0]["content"]
    assert SIMPLE in system
    assert "<tools>" not in system
    assert system.endswith("It is Monday, 13 April 2026, 09:00 (UTC).")


def test_the_trainer_reads_the_two_tools_signatures() -> None:
    utils = pytest.importorskip("transformers.utils")
    episode = tool_episode()
    schema = utils.get_json_schema(episode.call_tool)["function"]
    assert schema["parameters"]["required"] == ["tool_name", "arguments"]
    assert schema["parameters"]["properties"]["arguments"]["type"] == "object"
    assert utils.get_json_schema(episode.list_tools)["function"]["parameters"]["properties"] == {}


def test_a_simple_episode_is_recorded_and_scored_like_any_other() -> None:
    import asyncio

    episode = tool_episode()
    assert "search_members" in episode.list_tools()
    assert "Ingeborg" in episode.call_tool("get_member", {"member_id": 1})
    completion = [
        said("", ("list_tools", {})),
        {"role": "tool", "content": "…"},
        said("", ("call_tool", GET)),
        {"role": "tool", "content": "…"},
        said("8.55"),
    ]
    assert asyncio.run(HybridReward()(environments=[episode], completions=[completion])) == [1.0]
    assert episode.trajectory is not None
    assert (episode.trajectory.termination, episode.trajectory.answer) == ("answered", "8.55")
    assert [step.tool for step in episode.trajectory.steps] == ["get_member"]
    assert episode.trajectory.usage == {"turns": 3}
    assert episode.episodes.live_instances == 0
    episode.episodes.close()


@pytest.mark.parametrize(
    ("calls", "completion", "rule"),
    [
        ([("call_tool", GET)], [said("", ("call_tool", GET))], "list_tools_first"),
        (
            [("list_tools", {}), ("list_tools", {})],
            [said("", ("list_tools", {})), said("", ("list_tools", {}))],
            "list_tools_first",
        ),
        (
            [("list_tools", {}), ("call_tool", {"tool_name": "nothing", "arguments": {}})],
            [said("", ("list_tools", {}))],
            "unknown_tool",
        ),
        (
            [("list_tools", {}), ("call_tool", {"tool_name": "get_member", "arguments": {}})],
            [said("", ("list_tools", {}))],
            "invalid_arguments",
        ),
        ([("list_tools", {})], [said("", ("list_tools", {}), thought=None)], "think_missing"),
        ([("list_tools", {})], [said("", ("list_tools", {})), said("8.55")], "no_successful_call"),
        ([("list_tools", {})], [said("", ("list_tools", {}), ("list_tools", {}))], "invalid_arguments"),
        ([("list_tools", {})], [said("", ("list_tools", {})), said("<tool_call>\n{")], "invalid_arguments"),
        ([("list_tools", {})], [said("", ("list_tools", {})), said("", ("get_member", {}))], "unknown_tool"),
    ],
)
def test_a_broken_rule_costs_a_simple_episode_the_same(calls: Any, completion: Any, rule: str) -> None:
    import asyncio

    episode = tool_episode()
    for name, arguments in calls:
        getattr(episode, name)(**arguments)
    assert asyncio.run(HybridReward()(environments=[episode], completions=[completion])) == [-1.0]
    assert episode.termination == "format_error"
    assert episode.violations[0]["name"] == rule
    episode.episodes.close()


def test_a_simple_episode_that_has_ended_says_so_or_ends_the_rollout_in_trl() -> None:
    episode = tool_episode()
    assert episode.call_tool(**GET) == "This episode has ended."
    assert episode.list_tools() == "This episode has ended."
    stopping = tool_episode(stop_tokens=50)
    assert stopping.call_tool(**GET).count("end") > 50


def test_a_simple_episode_without_an_answer_ran_out_of_turns() -> None:
    import asyncio

    episode = tool_episode(max_turns=2)
    episode.list_tools()
    episode.call_tool(**GET)
    assert episode.call_tool(**GET) == "This episode has ended."
    completion = [said("", ("list_tools", {})), said("", ("call_tool", GET))]
    assert asyncio.run(HybridReward()(environments=[episode], completions=[completion])) == [0.0]
    assert episode.termination == "max_turns"
    episode.episodes.close()


def train_simply(tmp_path: Path, tokenizer: Any, monkeypatch: pytest.MonkeyPatch, messages: Any) -> Any:
    """One step of TRL's own tool loop, in which every rollout writes the same messages."""
    torch, trl = pytest.importorskip("torch"), pytest.importorskip("trl")
    torch.manual_seed(0)
    script = Script(tokenizer, messages)
    turns = iter(range(len(messages)))

    def generate(self: Any, prompts: Any, *args: Any, **kwargs: Any) -> Any:
        turn = next(turns)
        return [script._written(messages[turn]).output for _ in prompts], None

    monkeypatch.setattr(trl.GRPOTrainer, "_generate_single_turn", generate)
    with simple(train_dataset=rows(), log=tmp_path / "log", **small()) as spec:
        assert isinstance(spec, TrainingSpec)
        trainer = spec.trainer(
            model=tiny.tiny_model(tokenizer, hidden=16, layers=1),
            processing_class=tiny.tiny_tokenizer(),
            args=trl.GRPOConfig(
                output_dir=str(tmp_path),
                per_device_train_batch_size=2,
                num_generations=2,
                max_completion_length=1024,
                max_steps=1,
                logging_steps=1,
                save_strategy="no",
                report_to="none",
                use_cpu=True,
                bf16=False,
                gradient_checkpointing=False,
                disable_tqdm=True,
            ),
        )
        trainer.train()
        (logged,) = [entry for entry in trainer.state.log_history if "loss" in entry]
    assert spec.episodes.live_instances == 0
    return logged, trainer.environments


def test_trl_s_own_tool_loop_plays_a_simple_episode_to_its_reward(
    tmp_path: Path, tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    logged, environments = train_simply(tmp_path, tokenizer, monkeypatch, tiny.SOLVED)
    assert (logged["reward"], logged["rollout/success"], logged["rollout/turns"]) == (1.0, 1.0, 4.0)
    assert [e.trajectory.answer for e in environments] == ["8.55", "8.55"]


def test_trl_s_own_tool_loop_gives_the_penalty_for_a_broken_format(
    tmp_path: Path, tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    logged, _ = train_simply(tmp_path, tokenizer, monkeypatch, tiny.BROKEN)
    assert (logged["reward"], logged["rollout/format_errors"]) == (-1.0, 1.0)


def test_rows_without_an_environment_are_refused_when_they_come() -> None:
    spec = history_aware(train_dataset=[], **small())
    with pytest.raises(UsageError, match="no environment_id and task_id"):
        spec.environment_factory().reset(prompt=[])

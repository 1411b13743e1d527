import dataclasses
import itertools
import json
from typing import Any

import pytest

import awm_hub as awm
from awm_hub import Window
from awm_hub.errors import DataError, UsageError
from awm_hub.history import visible
from awm_hub.policy import conversation, opening
from awm_hub.training.planning import QWEN3, DatasetFacts, ModelSize, Plan, RunNumbers, facts_of, plan
from awm_hub.training.rows import TurnTokens, rows_of

FACTS = DatasetFacts(environments=526, tasks=3315, head_tokens=1000, listing_tokens=7000, result_tokens=300)


def planned(**numbers: Any) -> Plan:
    return plan(RunNumbers(**numbers), FACTS, QWEN3["Qwen3-4B"])


def test_the_papers_numbers_give_sixteen_rows_a_rollout_and_under_two_epochs() -> None:
    found = planned()
    assert found.rollouts == 1024
    assert (found.rows_per_rollout, found.max_rows_per_rollout, found.rows) == (16, 16, 16 * 1024)
    assert round(found.epochs, 2) == 1.85
    assert found.generated_tokens == 1024 * 20 * 2048
    # head, the turn that lists the tools, three turns, and the response
    assert found.longest_context == 1000 + (2048 + 7000) + 3 * (2048 + 300) + 2048
    assert found.hours is None


@pytest.mark.parametrize(
    ("window", "rows"),
    [
        (Window(), 1),
        (Window(turns=3), 16),
        (Window(turns=10), 9),
        (Window(turns=3, head_turns=0), 17),
        (Window(turns=40), 1),
        (Window(tokens=20_000), 11),
    ],
)
def test_rows_and_their_lengths_are_those_of_a_rollout_with_such_turns(window: Window, rows: int) -> None:
    found = planned(window=window, max_response_tokens=1000)
    ids = itertools.count()
    head = [next(ids) for _ in range(1000)]
    outputs = [[next(ids) for _ in range(1000)] for _ in range(20)]
    told = [[next(ids) for _ in range(300 if turn else 7000)] for turn in range(20)]
    segments = [output + rest for output, rest in zip(outputs, told, strict=True)]
    turns = []
    for turn, output in enumerate(outputs):
        shown = visible([len(s) for s in segments[:turn]], window, head_size=len(head))
        turns.append(TurnTokens(prompt=head + [t for i in shown for t in segments[i]], output=output))
    real = rows_of(turns)
    assert found.rows_per_rollout == len(real) == rows
    lengths = [len(row.prompt) + len(row.completion) for row in real]
    assert (found.trained_tokens, found.longest_row) == (1024 * sum(lengths), max(lengths))
    assert found.prompt_tokens == 1024 * sum(len(turn.prompt) for turn in turns)


def test_means_shorten_the_estimate_and_leave_the_bounds() -> None:
    bound, usual = planned(), planned(mean_turns=6.5, mean_response_tokens=250)
    assert (usual.rows_per_rollout, usual.max_rows_per_rollout) == (3, 16)
    assert usual.generated_tokens == 1024 * 7 * 250
    assert (usual.longest_context, usual.longest_row) == (bound.longest_context, bound.longest_row)
    assert usual.memory == bound.memory


def test_memory_follows_its_formulae() -> None:
    model = QWEN3["Qwen3-4B"]
    assert model.parameters == 4_022_468_096
    assert model.kv_bytes == 147_456
    found = planned(sequences_at_once=8)
    assert found.memory == {
        "generation weights": 2 * 4_022_468_096,
        "KV cache": 147_456 * found.longest_context * 8,
        "trained state": 16 * 4_022_468_096,
        "reference weights": 2 * 4_022_468_096,
        "activations": found.longest_row * (2 * 36 + 34) * 2560,
        "logits": found.longest_row * 151_936 * 8,
        "instances": 64 * 35_600_000 + 1024 * 519_000,
    }
    sharded = planned(processes=8, is_sharded=True).memory
    assert sharded["trained state"] == 2 * 4_022_468_096
    adapted = planned(trainable_share=0.01).memory
    assert adapted["trained state"] == pytest.approx((2 + 0.16) * 4_022_468_096)
    assert adapted["reference weights"] == 0
    light = plan(RunNumbers(), dataclasses.replace(FACTS, environments=2, interface="functions"), model).memory
    assert light["instances"] == 2 * 10_500_000 + 1024 * 333_000


def test_hours_follow_from_the_speeds() -> None:
    found = planned(mean_turns=6, mean_response_tokens=200, generation_tokens_s=5000.0, training_tokens_s=20000.0)
    assert found.hours is not None
    assert found.hours["generation"] == pytest.approx(96 * 1024 * 6 * 200 / 5000 / 3600)
    assert found.hours["training"] == pytest.approx(96 * found.trained_tokens / 20000 / 3600)
    assert found.hours["total"] == found.hours["generation"] + found.hours["training"]


def test_what_will_not_fit_is_noted() -> None:
    (always,) = planned().notes
    assert "prepared" in always
    assert planned(window=Window()).notes[0] == (
        "contexts of up to 54,360 tokens do not fit into 32,000: give the window tokens"
    )
    assert planned(window=Window(tokens=8000)).notes[0] == (
        "the window of 8000 tokens ends rollouts at turn 1: give it more"
    )
    assert "each task comes more than ten times" in planned(steps=1000).notes[0]


def test_a_plan_is_a_table_with_formulae_and_a_json_object() -> None:
    found = planned(generation_tokens_s=5000.0, training_tokens_s=20000.0)
    lines = found.table().splitlines()
    assert lines[0] == "model               Qwen3-4B, 4.02 B parameters"
    assert "rows a rollout      16, at most 16" in found.table()
    assert "1 + turns beyond the first 5, 1 + 3 + 1" in found.table()
    assert lines[-2].startswith("total hours")
    assert "the history is never cut" in planned(window=Window()).table()
    assert "a row for each cut" in planned(window=Window(tokens=20000)).table()
    plain = json.loads(json.dumps(found.to_dict()))
    assert plain["numbers"]["window"] == {"turns": 3, "tokens": None, "head_turns": 1}
    assert plain["rows"] == 16384


def test_facts_are_measured_from_the_environments() -> None:
    environments = {name: awm.load()[name] for name in ("field_service_1", "public_library_1")}
    found = facts_of(environments)
    assert (found.environments, found.tasks, found.interface) == (2, 20, "functions")
    heads = [conversation.tokens(opening("text", e.briefing, t.prompt)) for e in environments.values() for t in e.tasks]
    assert min(heads) < found.head_tokens < max(heads)
    assert 7000 < found.listing_tokens < 8000
    mixed = [
        environments["public_library_1"],
        dataclasses.replace(environments["field_service_1"], interface="fastapi"),
    ]
    assert facts_of(mixed).interface == "fastapi"
    with pytest.raises(DataError, match="no task to plan with"):
        facts_of({})


def test_a_number_that_is_not_positive_is_refused() -> None:
    with pytest.raises(UsageError, match="prompts is 0"):
        RunNumbers(prompts=0)


@pytest.mark.parametrize("name", QWEN3)
def test_parameters_are_those_that_transformers_makes(name: str) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    size = QWEN3[name]
    config = transformers.Qwen3Config(
        vocab_size=size.vocabulary,
        hidden_size=size.hidden,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        num_key_value_heads=size.kv_heads,
        head_dim=size.head_dim,
        intermediate_size=size.intermediate,
        tie_word_embeddings=size.is_tied,
    )
    with torch.device("meta"):
        model = transformers.Qwen3ForCausalLM(config)
    assert sum(parameter.numel() for parameter in model.parameters()) == size.parameters
    assert dataclasses.replace(ModelSize.from_config(config), name=name) == size

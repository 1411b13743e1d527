"""Rows: every token trained once, after what it was sampled after."""

import os
import random
import warnings
from typing import Any

import pytest

from awm_hub.errors import UsageError
from awm_hub.history import Window, visible
from awm_hub.training.rows import NOBODY, Row, TurnTokens, padded, rows_of


def turn(prompt: list[int], output: list[int], logprobs: list[float] | None = None) -> TurnTokens:
    return TurnTokens(prompt=prompt, output=output, logprobs=logprobs)


def random_turns(seed: int) -> list[TurnTokens]:
    """An episode of random segments under a random window; now and then a prompt that has nothing to do with it."""
    rng = random.Random(seed)

    def tokens(least: int, most: int) -> list[int]:
        return [rng.randrange(4) for _ in range(rng.randint(least, most))]

    window = Window(
        turns=rng.choice([None, 1, 2, 3]), tokens=rng.choice([None, 60, 100]), head_turns=rng.choice([0, 1])
    )
    head, segments, found = tokens(1, 6), [], []
    for _ in range(rng.randint(1, 9)):
        try:
            shown = visible([len(s) for s in segments], window, head_size=len(head))
        except Exception:
            break
        prompt = head + [t for position in shown for t in segments[position]]
        if rng.random() < 0.1:
            prompt = tokens(1, 8)
        output = tokens(0 if rng.random() < 0.1 else 1, 5)
        found.append(turn(prompt, output, [-rng.random() for _ in output]))
        segments.append(output + tokens(1, 4))
    return found


def test_a_turn_that_extends_the_tokens_so_far_joins_their_row() -> None:
    rows = rows_of([turn([1, 2], [3], [-0.5]), turn([1, 2, 3, 4, 5], [6, 7], [-0.1, -0.2])])
    assert rows == [
        Row(prompt=[1, 2], completion=[3, 4, 5, 6, 7], mask=[1, 0, 0, 1, 1], logprobs=[-0.5, 0.0, 0.0, -0.1, -0.2])
    ]


def test_a_turn_whose_history_was_cut_begins_a_row_of_its_own() -> None:
    rows = rows_of([turn([1], [2]), turn([1, 2, 9], [3]), turn([1, 3, 9], [4])])
    assert rows == [
        Row(prompt=[1], completion=[2, 9, 3], mask=[1, 0, 1], logprobs=None),
        Row(prompt=[1, 3, 9], completion=[4], mask=[1], logprobs=None),
    ]


def test_a_turn_that_wrote_nothing_gives_no_row() -> None:
    assert rows_of([turn([1], [])]) == []
    assert rows_of([]) == []


def test_logprobs_of_another_length_are_refused() -> None:
    with pytest.raises(UsageError, match="1 logprobs of 2 tokens"):
        turn([1], [2, 3], [-0.5])


def test_every_token_is_trained_once_after_exactly_what_it_was_sampled_after() -> None:
    for turns in map(random_turns, range(500)):
        trained = []
        for row in rows_of(turns):
            logprobs = row.logprobs or []
            assert len(row.completion) == len(row.mask) == len(logprobs)
            for at, is_trained in enumerate(row.mask):
                if is_trained:
                    trained.append((row.prompt + row.completion[:at], row.completion[at], logprobs[at]))
        assert trained == [
            ([*one.prompt, *one.output[:at]], token, (one.logprobs or [])[at])
            for one in turns
            for at, token in enumerate(one.output)
        ]


def test_rows_equal_those_that_trl_chains_for_its_asynchronous_trainer() -> None:
    pytest.importorskip("trl")
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = pytest.importorskip("trl.experimental.async_grpo.async_rollout_worker")
    forked = joined = 0
    for seed in range(2000):
        turns = random_turns(seed)
        records = [theirs.TurnRecord(list(t.prompt), list(t.output), list(t.logprobs or ())) for t in turns]
        expected, tally = theirs._chain_to_sequences(records, "r", fork_threshold=0)
        assert [_as_theirs(row) for row in rows_of(turns)] == [
            (s.input_ids, s.completion_mask, s.old_log_probs) for s in expected
        ]
        forked, joined = forked + tally["fork"], joined + tally["clean"]
    assert forked > 1000
    assert joined > 1000


def _as_theirs(row: Row) -> tuple[list[int], list[int], list[Any]]:
    before = [0] * len(row.prompt)
    return row.prompt + row.completion, before + row.mask, [0.0] * len(row.prompt) + (row.logprobs or [])


def test_padding_fills_up_to_a_multiple_with_rows_of_nobody() -> None:
    rows = rows_of([turn([1], [2], [-1.0])])
    found, owners = padded(rows, [0], multiple=4, token=7)
    filler = Row(prompt=[7], completion=[7], mask=[0], logprobs=[0.0])
    assert found == [*rows, filler, filler, filler]
    assert owners == [0, NOBODY, NOBODY, NOBODY]


def test_padding_reaches_the_number_of_another_process() -> None:
    found, owners = padded(rows_of([turn([1], [2])]), [0], multiple=2, at_least=3)
    assert len(found) == len(owners) == 4
    assert found[-1].logprobs is None


def test_no_rows_become_one_multiple_of_nobody() -> None:
    assert padded([], [], multiple=2)[1] == [NOBODY, NOBODY]

"""What a policy sees of a long episode."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from awm_hub.errors import ContextFullError, UsageError
from awm_hub.history import Window, visible


def test_without_a_window_everything_is_seen() -> None:
    assert visible([5, 5, 5], Window()) == (0, 1, 2)


def test_the_first_turn_sees_no_turn() -> None:
    assert visible([], Window(turns=3, tokens=10), head_size=10) == ()


@pytest.mark.parametrize(
    ("count", "expected"),
    [(1, (0,)), (3, (0, 1, 2)), (4, (0, 1, 2, 3)), (5, (0, 2, 3, 4)), (9, (0, 6, 7, 8))],
)
def test_the_papers_three_turns_stand_beside_the_first_exchange(count: int, expected: tuple[int, ...]) -> None:
    assert visible([1] * count, Window(turns=3)) == expected


def test_no_head_turns_leave_the_newest_alone() -> None:
    assert visible([1] * 6, Window(turns=2, head_turns=0)) == (4, 5)


def test_the_newest_turns_that_fit_are_seen_without_gaps_among_them() -> None:
    # 10 for the head, 4 for the first turn, then 3 + 3; the turn of 9 does not fit, so the one before it is not asked
    assert visible([4, 1, 9, 3, 3], Window(tokens=21), head_size=10) == (0, 3, 4)


def test_turns_and_tokens_bind_together() -> None:
    assert visible([1, 1, 1, 1], Window(turns=1, tokens=100)) == (0, 3)
    assert visible([1, 1, 1, 1], Window(turns=3, tokens=3)) == (0, 2, 3)


@pytest.mark.parametrize("tokens", [1, 14, 16])
def test_a_newest_turn_that_does_not_fit_is_a_full_context(tokens: int) -> None:
    with pytest.raises(ContextFullError):
        visible([4, 1, 3], Window(tokens=tokens), head_size=10)


def test_a_head_that_does_not_fit_is_a_full_context() -> None:
    with pytest.raises(ContextFullError):
        visible([], Window(tokens=9), head_size=10)


@pytest.mark.parametrize("wrong", [{"turns": 0}, {"tokens": 0}, {"head_turns": -1}])
def test_a_window_through_which_nothing_is_seen_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(UsageError):
        Window(**wrong)


@given(
    st.lists(st.integers(0, 50), max_size=12),
    st.one_of(st.none(), st.integers(1, 5)),
    st.one_of(st.none(), st.integers(1, 200)),
    st.integers(0, 3),
)
def test_what_is_seen_is_the_head_and_a_run_up_to_now_within_the_budget(
    sizes: list[int], turns: int | None, tokens: int | None, head_turns: int
) -> None:
    window = Window(turns=turns, tokens=tokens, head_turns=head_turns)
    try:
        seen = visible(sizes, window)
    except ContextFullError:
        assert tokens is not None
        assert sum(sizes[:head_turns]) + (sizes[-1] if len(sizes) > head_turns else 0) > tokens
        return
    head = min(head_turns, len(sizes))
    rest = seen[head:]
    assert seen[:head] == tuple(range(head))
    assert rest == tuple(range(len(sizes) - len(rest), len(sizes)))
    assert bool(rest) == (len(sizes) > head)
    assert turns is None or len(rest) <= turns
    assert tokens is None or sum(sizes[i] for i in seen) <= tokens

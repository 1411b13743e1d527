"""Agreement of raters, by the definitions that are cited."""

import pytest

from awm_hub.judging.agreement import fleiss_kappa, pairwise_agreement, self_consistency

FLEISS_1971_COUNTS = [
    (0, 0, 0, 0, 14), (0, 2, 6, 4, 2), (0, 0, 3, 5, 6), (0, 3, 9, 2, 0), (2, 2, 8, 1, 1),
    (7, 7, 0, 0, 0), (3, 2, 6, 3, 0), (2, 5, 3, 2, 2), (6, 5, 2, 1, 0), (0, 2, 2, 3, 7),
]  # fmt: skip
"""The worked example that textbooks give for Fleiss' kappa: ten subjects, fourteen raters, κ = 0.210."""


def test_kappa_of_the_worked_example() -> None:
    ratings = [[str(label) for label, count in enumerate(row) for _ in range(count)] for row in FLEISS_1971_COUNTS]
    assert pairwise_agreement(ratings) == pytest.approx(0.378, abs=5e-4)
    assert fleiss_kappa(ratings) == pytest.approx(0.210, abs=5e-4)


def test_unanimous_votes_agree_fully() -> None:
    ratings = [["a", "a", "a"], ["b", "b", "b"]]
    assert (self_consistency(ratings), pairwise_agreement(ratings), fleiss_kappa(ratings)) == (1.0, 1.0, 1.0)


def test_one_dissenter_of_three_leaves_a_third_of_the_pairs() -> None:
    ratings = [["a", "a", "b"], ["b", "b", "b"]]
    assert self_consistency(ratings) == pytest.approx(5 / 6)
    assert pairwise_agreement(ratings) == pytest.approx(2 / 3)
    assert fleiss_kappa(ratings) == pytest.approx((2 / 3 - 5 / 9) / (4 / 9))


def test_kappa_is_not_defined_where_one_label_is_all_there_is() -> None:
    assert fleiss_kappa([["a", "a"], ["a", "a"]]) is None
    assert pairwise_agreement([["a", "a"], ["a", "a"]]) == 1.0


@pytest.mark.parametrize("ratings", [[], [["a"], ["b"]], [["a", "b"], ["a"]]])
def test_fewer_than_two_votes_or_uneven_rows_say_nothing(ratings: list[list[str]]) -> None:
    assert self_consistency(ratings) is None
    assert pairwise_agreement(ratings) is None
    assert fleiss_kappa(ratings) is None

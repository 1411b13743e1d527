"""How far raters agree: several votes of one judge, or several judges, on the same attempts.

A rating is a label; `ratings` holds one row per attempt and in it one label per vote, all rows of equal length.
"""

from collections import Counter
from collections.abc import Sequence

Ratings = Sequence[Sequence[str]]


def self_consistency(ratings: Ratings) -> float | None:
    """The mean share of an attempt's votes that its most frequent outcome gets; 1.0 is unanimous.

    The majority vote of Wang et al., *Self-Consistency Improves Chain of Thought Reasoning* (arXiv 2203.11171). None
    where there are fewer than two votes.
    """
    if not _is_rateable(ratings):
        return None
    return _mean([Counter(row).most_common(1)[0][1] / len(row) for row in ratings])


def pairwise_agreement(ratings: Ratings) -> float | None:
    """The mean share of pairs of votes on one attempt that agree: the observed agreement P̄ of Fleiss (1971, eq. 3)."""
    if not _is_rateable(ratings):
        return None
    return _mean([_agreeing(row) for row in ratings])


def fleiss_kappa(ratings: Ratings) -> float | None:
    """Agreement beyond chance, (P̄ − P̄e) / (1 − P̄e): Fleiss, *Psychological Bulletin* 76 (1971) 378–382, eq. 7.

    None where there are fewer than two votes, or only one label ever occurs, for which it is not defined.
    """
    observed = pairwise_agreement(ratings)
    if observed is None:
        return None
    labels = Counter(label for row in ratings for label in row)
    chance = sum((count / labels.total()) ** 2 for count in labels.values())
    return None if len(labels) == 1 else (observed - chance) / (1 - chance)


def _is_rateable(ratings: Ratings) -> bool:
    lengths = {len(row) for row in ratings}
    return len(lengths) == 1 and min(lengths) >= 2


def _agreeing(row: Sequence[str]) -> float:
    """Fleiss's P_i: the share of the ordered pairs of votes that agree."""
    agreeing = sum(count * (count - 1) for count in Counter(row).values())
    return agreeing / (len(row) * (len(row) - 1))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)

"""Diversity: how different the scenarios of a pool are, and how that changes as the pool grows.

A pool that grows by repeating itself has a falling distance and a rising likeness of nearest neighbours. The figures
are taken at each tenth of the pool, in the order in which it grew, so that they show where more of it adds nothing new.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from awm_hub.errors import UsageError
from awm_hub.synthesis.embedding import Embedder, vectors
from awm_hub.synthesis.scenarios import Scenario, text_of

_POINTS = 10


@dataclass(frozen=True, kw_only=True)
class DiversityPoint:
    """Figures of the first `size` scenarios; those of pairs are null where there is no pair."""

    size: int
    distance_mean: float | None
    """Mean of 1 − cosine over all pairs."""
    nearest_mean: float | None
    """Mean over scenarios of the cosine with the one that is most like it."""
    nearest_max: float | None
    """Cosine of the two that are most alike."""
    categories: int
    """Distinct ones."""


@dataclass(frozen=True, kw_only=True)
class Diversity:
    """Diversity of a pool as it grew; figures are comparable between pools of one embedder only."""

    embedder: str
    points: tuple[DiversityPoint, ...]

    def to_dict(self) -> dict[str, Any]:
        """JSON form; figures have four decimals."""
        return {"embedder": self.embedder, "points": [_rounded(asdict(point)) for point in self.points]}


def diversity(scenarios: Sequence[Scenario], embedder: Embedder) -> Diversity:
    """How diverse a pool is at each tenth of it; at each size from two on where it is smaller than that.

    Raises:
        UsageError: numpy, which comes with `wordllama`, is missing.
    """
    try:
        import numpy as np
    except ImportError as error:
        message = f"figures of diversity need numpy: {error}"
        raise UsageError(message, next_step="pip install 'awm-hub[synthesis]'") from error
    found = np.array(vectors(embedder, [text_of(s) for s in scenarios]))
    likeness = found @ found.T if len(scenarios) else found
    points = []
    for size in _sizes(len(scenarios)):
        categories = len({s.category for s in scenarios[:size]})
        if size < 2:
            figures: tuple[float | None, ...] = (None, None, None)
        else:
            part = likeness[:size, :size].copy()
            mean = float((part.sum() - np.trace(part)) / (size * (size - 1)))
            np.fill_diagonal(part, -1.0)
            nearest = part.max(axis=1)
            figures = (1.0 - mean, float(nearest.mean()), float(nearest.max()))
        distance_mean, nearest_mean, nearest_max = figures
        points.append(
            DiversityPoint(
                size=size,
                distance_mean=distance_mean,
                nearest_mean=nearest_mean,
                nearest_max=nearest_max,
                categories=categories,
            )
        )
    return Diversity(embedder=embedder.name, points=tuple(points))


def _sizes(total: int) -> list[int]:
    """Each tenth, rounded up; one scenario alone is a point only where there is no other."""
    least = min(total, 2)
    return sorted({max(least, math.ceil(total * k / _POINTS)) for k in range(1, _POINTS + 1)}) if total else []


def _rounded(point: dict[str, Any]) -> dict[str, Any]:
    return {key: round(value, 4) if isinstance(value, float) else value for key, value in point.items()}

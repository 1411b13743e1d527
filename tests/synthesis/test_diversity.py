"""Figures of diversity, on vectors whose cosines are plain to see."""

import math
import sys
from collections.abc import Sequence

import pytest

from awm_hub.errors import UsageError
from awm_hub.synthesis.diversity import diversity
from awm_hub.synthesis.embedding import WordLlamaEmbedder
from awm_hub.synthesis.scenarios import Scenario
from awm_hub.synthesis.seeds import default_seeds


class Compass:
    """A name is an angle in degrees."""

    name = "compass"

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [[math.cos(math.radians(float(text))), math.sin(math.radians(float(text)))] for text in texts]


def pool(names: Sequence[str], categories: Sequence[str] = ("food",)) -> list[Scenario]:
    return [
        Scenario(
            id=f"s_{i}",
            name=name,
            outline="",
            category=categories[i % len(categories)],
            suitability="high",
            origin="seed",
            round=0,
        )
        for i, name in enumerate(names)
    ]


def test_figures_are_of_all_pairs_and_of_nearest_neighbours_at_each_size() -> None:
    found = diversity(pool(["0", "90", "60"], ["food", "legal", "food"]), Compass()).to_dict()
    assert found == {
        "embedder": "compass",
        "points": [
            {"size": 2, "distance_mean": 1.0, "nearest_mean": 0.0, "nearest_max": 0.0, "categories": 2},
            # cosines: 0-90 0, 0-60 0.5, 60-90 0.8660
            {"size": 3, "distance_mean": 0.5447, "nearest_mean": 0.744, "nearest_max": 0.866, "categories": 2},
        ],
    }


def test_a_pool_that_repeats_itself_loses_distance() -> None:
    points = diversity(pool(["0", "90", *["0"] * 18]), Compass()).points
    assert [point.size for point in points] == [2, 4, 6, 8, 10, 12, 14, 16, 18, 20]
    distances = [point.distance_mean or 0.0 for point in points]
    assert distances == sorted(distances, reverse=True)
    assert (round(distances[0], 4), round(distances[-1], 4)) == (1.0, 0.1)


def test_one_scenario_has_no_pairs_and_no_scenario_no_points() -> None:
    (point,) = diversity(pool(["0"]), Compass()).points
    assert (point.size, point.distance_mean, point.nearest_mean, point.nearest_max, point.categories) == (
        1, None, None, None, 1,
    )  # fmt: skip
    assert diversity([], Compass()).points == ()


def test_the_domains_of_the_package_stay_far_apart() -> None:
    points = diversity(pool([seed.name for seed in default_seeds()]), WordLlamaEmbedder()).points
    assert [point.size for point in points] == [10, 20, 30, 40, 50, 60, 70, 80, 90, 100]
    assert (points[-1].distance_mean or 0) > 0.85
    assert (points[-1].nearest_max or 1) < 0.6


def test_without_numpy_the_extra_is_the_next_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numpy", None)
    with pytest.raises(UsageError) as caught:
        diversity(pool(["0", "90"]), Compass())
    assert caught.value.next_step == "pip install 'awm-hub[synthesis]'"

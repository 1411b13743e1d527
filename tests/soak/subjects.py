"""The environments that a soak plays, and calls for them that nobody has written."""

import random
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ledgers import INTERFACES, make_ledger
from upstream.example_arguments import Filling, Seed

import awm_hub
from awm_hub import packing
from awm_hub.environment import Environment
from awm_hub.runtime import jobs

Call = tuple[str, dict[str, Any]]
RENTAL = Path(awm_hub.__file__).parent / "bench" / "environments" / "equipment_rental_1"
ROUGH: dict[str, list[Call]] = {
    "functions": [
        ("spin", {}),
        ("spin_in_sql", {"expression": "random() != 0"}),
        ("spin_elsewhere", {}),
        ("cling", {}),
        ("die", {}),
        ("say", {"size": 100_000_000}),
        ("take", {"size": 4 * 2**30}),
        ("grow", {"size": 3_000_000}),
        ("refuse", {"text": "r"}),
        ("fail", {"text": "f"}),
        ("scratch", {"text": "s"}),
        ("make_table", {"name": "t"}),
    ],
    "fastapi": [
        ("spin", {"text": "s"}),
        ("spin", {"text": "s", "is_fast": True}),
        ("spin_in_sql", {}),
        ("die", {}),
        ("say", {"size": 100_000_000}),
        ("take", {"size": 4 * 2**30}),
        ("grow", {"size": 3_000_000}),
        ("leak", {"text": "l", "commits": 1}),
        ("fail", {"text": "f", "how": 422}),
        ("fail", {"text": "f", "how": 0}),
        ("make_table", {"name": "t"}),
    ],
}
"""Calls that end badly, or leave something behind, in every way."""


@dataclass(frozen=True)
class Subject:
    """An environment and how to call it."""

    environment: Environment
    seed: Seed
    rough: list[Call]

    @property
    def tasks(self) -> list[str | None]:
        return [None, *(task.slug for task in self.environment.tasks)]

    def call(self, chance: random.Random) -> Call:
        """Any call: sensible, senseless, or rough."""
        if self.rough and chance.random() < 0.15:
            return chance.choice(self.rough)
        solutions = [call for task in self.environment.tasks for call in task.solution or ()]
        if solutions and chance.random() < 0.3:
            found = chance.choice(solutions)
            return found.tool, dict(found.arguments)
        smooth = [t for t in self.environment.tools if t.name not in {name for name, _ in self.rough}]
        tool = chance.choice(smooth)
        if chance.random() < 0.05:
            return chance.choice([("nope", {}), (tool.name, {"nope": 1}), (tool.name, {"text": 5})])
        return tool.name, self._filling(chance).arguments(tool)

    def _filling(self, chance: random.Random) -> Filling:
        row, roll = chance.randrange(8), chance.random()
        return Filling(
            self.seed, row=row, only_required=roll < 0.3, nulls=0.3 < roll < 0.4, absent_keys=roll > 0.9
        )  # fmt: skip


async def subjects() -> list[Subject]:
    """All environments at hand: the bundled ones, the one of the benchmark, and the two ledgers."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "rental"
        await _in_thread(packing.pack, RENTAL, out)
        rental = next(iter(awm_hub.load(out).values()))
        found = [await _subject(environment, []) for environment in (*awm_hub.load().values(), rental)]
    return [*found, *[await _subject(await make_ledger(i), ROUGH[i]) for i in INTERFACES]]


async def _in_thread(work: Callable[..., Any], *arguments: Any) -> None:
    import asyncio

    await asyncio.to_thread(work, *arguments)


async def _subject(environment: Environment, rough: list[Call]) -> Subject:
    return Subject(environment=environment, seed=Seed(await jobs.dump(environment.database)), rough=rough)

"""The scenario stage: a pool of scenarios, grown from seeds (paper §1, after Self-Instruct).

Seeds are names of applications. A model judges whether the data of each can be made up; what is unsuitable is dropped.
Where more scenarios are wanted, the model invents them in rounds, shown a few of the pool. What it invents is judged
likewise, dropped where it is too like a scenario of the pool, and capped by category, so that the pool stays broad.

The pool follows from the answers alone. Requests are numbered by place: batch of names b has the numbers 2b − 1 and,
to ask again, 2b, whatever became of the others. So requests can be made abreast, and a larger target goes on from the
same answers.
"""

import asyncio
import json
import math
import random
from collections import Counter
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from awm_hub.errors import UsageError
from awm_hub.schema import CATEGORIES
from awm_hub.synthesis.embedding import Embedder, Vector, WordLlamaEmbedder, cosine, same_from, vectors
from awm_hub.synthesis.prompting import fill
from awm_hub.synthesis.scenario_answers import BATCH, Ask, Dropped, Judgement, invent, judge
from awm_hub.synthesis.seeds import Seed, default_seeds, free_id, key_of, read_seeds

__all__ = ["Ask", "Dropped", "Pool", "Scenario", "Seed", "default_seeds", "grow", "read_seeds", "text_of"]

SHARE = 0.1
"""Of the target that one category may have."""
_LEAST_CAP = 2
_INVENTED = 10
"""Scenarios asked for in a request."""
_ABREAST = 10
"""Requests of a round: all are made before their answers are taken in."""
_EXAMPLES, _INVENTED_EXAMPLES = 6, 2
_THIN_SHOWN = 8
_STALLED_AFTER = 3
"""Rounds in a row that added nothing."""
_T = TypeVar("_T")
_UNUSABLE = "the classifier gave no usable answer"


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One scenario of a pool."""

    id: str
    """The environment's: a slug of the name and a number."""
    name: str
    outline: str
    """What is known beside the name; may be empty for a seed."""
    category: str
    """Of `awm_hub.schema.CATEGORIES`, as the classifier has it."""
    suitability: str
    """`high` or `medium`."""
    origin: str
    """`seed` or `invented`."""
    round: int
    """In which it was invented; 0 for a seed."""


@dataclass(frozen=True, kw_only=True)
class Pool:
    """The scenarios of a run, seeds first."""

    scenarios: tuple[Scenario, ...]
    dropped: tuple[Dropped, ...]
    notes: tuple[str, ...]
    """Answers that could not be read, by the keys of their requests."""
    rounds: int
    """Of invention."""
    is_stalled: bool
    """Whether it stayed below the target: nothing new came any more, every category is full, or no seed is suitable."""
    full: tuple[str, ...]
    """Categories that have as many scenarios as they may."""

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return asdict(self)


async def grow(
    seeds: Sequence[Seed],
    ask: Ask,
    *,
    target: int | None = None,
    embedder: Embedder | None = None,
    threshold: float | None = None,
    share: float = SHARE,
) -> Pool:
    """The pool of some seeds.

    Args:
        seeds: First scenarios of the pool, those of them that are suitable.
        ask: Asks the model.
        target: How many scenarios are wanted; None for just the suitable seeds.
        embedder: Finds scenarios that are too alike; `wordllama` if None. Only where some are invented.
        threshold: Cosine from which on they are; the embedder's own if None.
        share: Of the target that one category may have, though never less than two. Seeds count but are never dropped.

    Raises:
        UsageError: an argument makes no sense, or the embedder is not there.
    """
    if target is not None and target < 1:
        raise UsageError(f"the target is {target}", next_step="ask for at least one scenario")
    if not 0 < share <= 1:
        raise UsageError(f"the share of a category is {share}", next_step="give a number above 0 and up to 1")
    if threshold is not None and not 0 < threshold <= 1:
        raise UsageError(f"the threshold is {threshold}", next_step="give a cosine above 0 and up to 1")
    growing = _Growing(target, embedder or WordLlamaEmbedder(), threshold, share)
    if target is not None and target > len(seeds):
        growing.likeness.embed(seeds)  # what is missing is missed before anything was paid for
    batches = [seeds[i : i + BATCH] for i in range(0, len(seeds), BATCH)]
    begun = 0
    while begun < len(batches) and growing.missing:
        wave = range(begun, min(len(batches), begun + math.ceil(growing.missing / BATCH)))
        for b, judged in zip(wave, await _all([judge(batches[b], b + 1, ask) for b in wave]), strict=True):
            growing.take(batches[b], judged, 0)
        begun = wave.stop
    if target is not None:
        await _invent(growing, ask, len(batches))
    return growing.pool()


async def _invent(growing: "_Growing", ask: Ask, batches: int) -> None:
    """Rounds of invention, until the target is reached or nothing new comes; `batches` of names were judged before."""
    asked = idle = 0
    while growing.missing and growing.scenarios and growing.open and idle < _STALLED_AFTER:
        growing.rounds += 1
        before = len(growing.scenarios)
        numbers = range(asked + 1, asked + 1 + min(_ABREAST, math.ceil(growing.missing / _INVENTED)))
        for made in await _all([invent(growing.prompt(n), n, batches + n, ask) for n in numbers]):
            growing.notes += made.notes
            growing.dropped += made.dropped
            growing.take(made.found, made.judged, growing.rounds)
        asked = numbers.stop - 1
        idle = 0 if len(growing.scenarios) > before else idle + 1


class _Growing:
    """A pool while it grows."""

    def __init__(self, target: int | None, embedder: Embedder, threshold: float | None, share: float) -> None:
        self.scenarios: list[Scenario] = []
        self.dropped: tuple[Dropped, ...] = ()
        self.notes: tuple[str, ...] = ()
        self.rounds = 0
        self.likeness = _Likeness(embedder, same_from(embedder) if threshold is None else threshold)
        self._target = target
        self._cap = None if target is None else max(_LEAST_CAP, math.ceil(round(target * share, 6)))
        self._counts = Counter[str]()
        self._ids: set[str] = set()
        self._keys: set[str] = set()

    @property
    def missing(self) -> int:
        """How many scenarios are still wanted; without a target, all that come."""
        return 10**6 if self._target is None else self._target - len(self.scenarios)

    @property
    def open(self) -> list[str]:
        """Categories that have room."""
        return [c for c in CATEGORIES if self._cap is None or self._counts[c] < self._cap]

    def take(self, seeds: Sequence[Seed], judged: Mapping[str, Judgement], round: int) -> None:
        """Take in what is suitable, new and not too much of its category, in order, as far as there is room."""
        for seed in seeds:
            if not self.missing:
                return
            judgement = judged.get(key_of(seed.name))
            reason = self._objection(seed, judgement, is_invented=round > 0)
            if reason or judgement is None:
                self.dropped += (Dropped(name=seed.name, reason=reason),)
            else:
                self._add(seed, judgement, round)

    def _objection(self, seed: Seed, judgement: Judgement | None, *, is_invented: bool) -> str:
        if judgement is None:
            return _UNUSABLE
        if judgement.suitability == "low":
            return f"unsuitable: {judgement.reason or 'no reason is given'}"
        if key_of(seed.name) in self._keys:
            return "the name is in the pool already"
        if is_invented and (twin := self.likeness.twin(seed, self.scenarios)):
            return twin
        if is_invented and judgement.category not in self.open:
            return f"enough of the category {judgement.category}"
        return ""

    def _add(self, seed: Seed, judgement: Judgement, round: int) -> None:
        scenario = Scenario(
            id=free_id(seed.name, self._ids),
            name=seed.name,
            outline=seed.outline,
            category=judgement.category,
            suitability=judgement.suitability,
            origin="invented" if round else "seed",
            round=round,
        )
        self.scenarios.append(scenario)
        self._ids.add(scenario.id)
        self._keys.add(key_of(seed.name))
        self._counts[scenario.category] += 1

    def prompt(self, number: int) -> str:
        """The request for new scenarios of this number: each shows other examples and thin categories."""
        chance = random.Random(number)
        thin = sorted(chance.sample(self.open, len(self.open)), key=lambda c: self._counts[c])[:_THIN_SHOWN]
        return fill(
            "invent",
            examples="\n".join(_example(s) for s in self._examples(chance)),
            count=str(_INVENTED),
            categories=", ".join(self.open),
            thin=", ".join(thin),
            full=", ".join(c for c in CATEGORIES if c not in self.open) or "none so far",
        )

    def _examples(self, chance: random.Random) -> list[Scenario]:
        """Four seeds and two invented ones, or as near to that as the pool comes (Self-Instruct)."""
        invented = [s for s in self.scenarios if s.origin == "invented"]
        seeds = [s for s in self.scenarios if s.origin == "seed"]
        few = min(len(invented), max(_INVENTED_EXAMPLES, _EXAMPLES - len(seeds)))
        return chance.sample(seeds, min(len(seeds), _EXAMPLES - few)) + chance.sample(invented, few)

    def pool(self) -> Pool:
        """The pool as it is."""
        return Pool(
            scenarios=tuple(self.scenarios),
            dropped=self.dropped,
            notes=self.notes,
            rounds=self.rounds,
            is_stalled=self._target is not None and self.missing > 0,
            full=tuple(c for c in CATEGORIES if c not in self.open),
        )


class _Likeness:
    """Which scenario of a pool another one is too like.

    Names with outlines are compared where both have one; else names alone, since an outline on one side only would
    hide that the names say the same.
    """

    def __init__(self, embedder: Embedder, threshold: float) -> None:
        self._embedder, self._threshold = embedder, threshold
        self._known: dict[str, Vector] = {}
        self._pool: list[tuple[Vector, Vector]] = []

    def embed(self, seeds: Sequence[Seed | Scenario]) -> list[tuple[Vector, Vector]]:
        """Of each the vectors of its text and of its name."""
        texts = dict.fromkeys(text for seed in seeds for text in (seed.name, text_of(seed)))
        new = [text for text in texts if text not in self._known]
        self._known.update(zip(new, vectors(self._embedder, new), strict=True))
        return [(self._known[text_of(seed)], self._known[seed.name]) for seed in seeds]

    def twin(self, seed: Seed, pool: Sequence[Scenario]) -> str:
        """Why it is too like the one of the pool, which only grows, that it is most like; empty if it is not."""
        self._pool += self.embed(pool[len(self._pool) :])
        ((text, name),) = self.embed([seed])
        likeness, nearest = -1.0, ""
        for other, (its_text, its_name) in zip(pool, self._pool, strict=True):
            found = cosine(text, its_text) if seed.outline and other.outline else cosine(name, its_name)
            if found > likeness:
                likeness, nearest = found, other.name
        return f"too like {nearest} (cosine {likeness:.2f})" if likeness >= self._threshold else ""


def text_of(seed: Seed | Scenario) -> str:
    """What is embedded: name and outline."""
    return f"{seed.name}: {seed.outline}" if seed.outline else seed.name


def _example(scenario: Scenario) -> str:
    outline = {"outline": scenario.outline} if scenario.outline else {}
    return json.dumps({scenario.name: {**outline, "category": scenario.category}}, ensure_ascii=False)


async def _all(requests: Iterable[Coroutine[Any, Any, _T]]) -> list[_T]:
    """All results. An error is raised when all have ended, so that a batch gets every request of a round."""
    found = await asyncio.gather(*requests, return_exceptions=True)
    for outcome in found:
        if isinstance(outcome, BaseException):
            raise outcome
    return [outcome for outcome in found if not isinstance(outcome, BaseException)]

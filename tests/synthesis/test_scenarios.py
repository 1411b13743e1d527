"""Pools of scenarios, grown over scripted models: what is asked, kept and dropped follows from the answers alone."""

import asyncio
import json
import random
import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from awm_hub.errors import UsageError
from awm_hub.inference import Reply
from awm_hub.schema import CATEGORIES, ID_PATTERN
from awm_hub.synthesis.embedding import WordLlamaEmbedder
from awm_hub.synthesis.scenarios import Pool, Seed, grow

Judge = Callable[[str, str], Any]
"""Name and key of the request → the value in the answer; None leaves the name out."""


class Apart:
    """No two texts are alike."""

    name = "apart"

    def embed(self, texts: Any) -> list[list[float]]:
        return [[chance.gauss(0, 1) for _ in range(64)] for chance in map(random.Random, texts)]


class Missing:
    name = "missing"

    def embed(self, texts: Any) -> list[list[float]]:
        raise UsageError("it is not installed", next_step="install it")


def suits(name: str, key: str, category: str = "") -> dict[str, str]:
    chosen = category or CATEGORIES[sum(name.encode()) % len(CATEGORIES)]
    return {"suitability": "high", "reason": "records", "category": chosen}


def inventions(number: int) -> dict[str, Any]:
    """Ten new scenarios."""
    return {f"Kind {number} {letter}": invention(f"{letter} {number}") for letter in "abcdefghij"}


def invention(outline: str = "Keeps records.", category: str = "food") -> dict[str, str]:
    return {"outline": outline, "category": category}


class Model:
    """Judges by a function and invents from a script; notes every request."""

    def __init__(
        self,
        judge: Judge = suits,
        invent: Callable[[int], Any] = inventions,
        texts: Mapping[str, str] | None = None,
    ) -> None:
        self.judge, self.invent, self.texts = judge, invent, texts or {}
        self.asked: dict[str, str] = {}

    async def __call__(self, key: str, messages: list[dict[str, Any]], *, stage: str, environment: str) -> Reply:
        assert (stage, environment, [m["role"] for m in messages]) == ("scenario", "", ["system", "user"])
        assert key not in self.asked
        self.asked[key] = prompt = messages[1]["content"]
        if key in self.texts:
            return Reply(content=self.texts[key])
        if key.startswith("scenarios/invent/"):
            answer = self.invent(int(key.rsplit("/", 1)[1]))
        else:
            judged = {name: self.judge(name, key) for name in names_in(prompt)}
            answer = {name: value for name, value in judged.items() if value is not None}
        return Reply(content=answer if isinstance(answer, str) else f"Here:\n```json\n{json.dumps(answer)}\n```")

    @property
    def keys(self) -> list[str]:
        return [key.removeprefix("scenarios/") for key in self.asked]


def names_in(prompt: str) -> list[str]:
    return [json.loads(line)["name"] for line in prompt.splitlines() if line.startswith('{"name"')]


def seeds(*names: str) -> list[Seed]:
    return [Seed(name=name) for name in names]


def numbered(count: int) -> list[Seed]:
    return seeds(*(f"Seed number {i}" for i in range(1, count + 1)))


def names(pool: Pool) -> list[str]:
    return [scenario.name for scenario in pool.scenarios]


def reasons(pool: Pool) -> dict[str, str]:
    return {dropped.name: dropped.reason for dropped in pool.dropped}


# --- Judging seeds


async def test_without_a_target_the_pool_is_the_suitable_seeds() -> None:
    def judge(name: str, key: str) -> dict[str, str]:
        if name == "Photo editing":
            return {"suitability": "low", "reason": "lives on pictures", "category": "media"}
        return {"suitability": "Medium", "reason": "", "category": "Field Service"}

    model = Model(judge)
    pool = await grow([Seed(name="Lift rounds", outline="visits"), *seeds("Photo editing", "Lift-rounds")], model)
    assert [(s.id, s.name, s.outline, s.category, s.suitability, s.origin, s.round) for s in pool.scenarios] == [
        ("lift_rounds_1", "Lift rounds", "visits", "field_service", "medium", "seed", 0),
        ("lift_rounds_2", "Lift-rounds", "", "field_service", "medium", "seed", 0),
    ]
    assert reasons(pool) == {"Photo editing": "unsuitable: lives on pictures"}
    assert (model.keys, pool.rounds, pool.is_stalled, pool.full) == (["suitability/1"], 0, False, ())


async def test_twenty_names_are_judged_in_a_request_and_batches_have_fixed_numbers() -> None:
    model = Model()
    pool = await grow(numbered(45), model)
    assert [len(names_in(prompt)) for prompt in model.asked.values()] == [20, 20, 5]
    assert (model.keys, len(pool.scenarios)) == (["suitability/1", "suitability/3", "suitability/5"], 45)


async def test_names_are_matched_whatever_their_case_and_spaces() -> None:
    answer = json.dumps({"scenarios": {" TOOL   library": suits("", ""), "other": suits("", "")}})
    pool = await grow(seeds("Tool library"), Model(texts={"scenarios/suitability/1": answer}))
    assert (names(pool), pool.dropped) == (["Tool library"], ())


async def test_names_that_an_answer_leaves_out_are_asked_again_once_with_the_error() -> None:
    def judge(name: str, key: str) -> Any:
        if name == "Good":
            return suits(name, key)
        if name == "Late":
            return suits(name, key) if key.endswith("/2") else "high"
        return {"suitability": "great", "category": "food"} if name == "Odd" else None

    model = Model(judge)
    pool = await grow(seeds("Good", "Odd", "Late", "Gone"), model)
    assert names(pool) == ["Good", "Late"]
    assert reasons(pool) == dict.fromkeys(["Odd", "Gone"], "the classifier gave no usable answer")
    assert model.keys == ["suitability/1", "suitability/2"]
    again = model.asked["scenarios/suitability/2"]
    assert names_in(again) == ["Odd", "Late", "Gone"]
    assert "- Gone: no suitability that is one of high, medium, low" in again


async def test_a_category_that_there_is_not_is_no_usable_answer() -> None:
    pool = await grow(seeds("Good"), Model(lambda name, key: suits(name, key, "astrology")))
    assert reasons(pool) == {"Good": "the classifier gave no usable answer"}


RUBBISH = [
    "",
    "I cannot do that.",
    "[]",
    "{}",
    '{"a": 1}',
    '{"Good": null, "b": [1]}',
    '{"Good": {"suitability": ["high"], "category": {}}}',
    '{"Good": {"suitability": "high", "reason": "cut off he',
    '{"scenarios": {"Good": {"suitability": "high", "category": "food"}, "Ne',
    "{" * 3000,
    '{"a":' * 3000,
    "\x00\x1b[2J {{scenarios}}",
]


@pytest.mark.parametrize("text", RUBBISH)
async def test_an_answer_that_cannot_be_used_drops_names_and_raises_nothing(text: str) -> None:
    model = Model(texts={"scenarios/suitability/1": text, "scenarios/suitability/2": text})
    pool = await grow(seeds("Good"), model)
    assert reasons(pool) == {"Good": "the classifier gave no usable answer"}
    assert model.asked["scenarios/suitability/2"].isprintable() or "\x1b" not in model.asked["scenarios/suitability/2"]


async def test_a_target_below_the_seeds_takes_the_first_suitable_ones_and_asks_for_no_more() -> None:
    def judge(name: str, key: str) -> dict[str, str]:
        return {**suits(name, key), "suitability": "low" if name == "Seed number 2" else "high"}

    model = Model(judge)
    pool = await grow(numbered(60), model, target=3, embedder=Missing())
    assert names(pool) == ["Seed number 1", "Seed number 3", "Seed number 4"]
    assert (model.keys, pool.is_stalled) == (["suitability/1"], False)


# --- Ids


async def test_ids_are_slugs_that_differ_and_keep_to_the_format() -> None:
    given = seeds("Health", "I", "Café & Bar!", "図書館", "貸出", "x" * 200, "Lift_rounds", "lift rounds (1)")
    pool = await grow(given, Model())
    ids = [s.id for s in pool.scenarios]
    assert ids == [
        "health_1", "i_1", "cafe_bar_1", "scenario_1", "scenario_2", f"{'x' * 60}_1", "lift_rounds_1",
        "lift_rounds_1_1",
    ]  # fmt: skip
    assert all(ID_PATTERN.fullmatch(found) for found in ids)


# --- Invention


async def test_rounds_of_invention_reach_the_target() -> None:
    model = Model()
    pool = await grow(numbered(5), model, target=30, embedder=Apart(), share=1)
    assert len(pool.scenarios) == 30
    assert [(s.origin, s.round) for s in pool.scenarios] == [("seed", 0)] * 5 + [("invented", 1)] * 25
    assert sorted(model.keys) == sorted(
        [*(f"invent/{n}" for n in (1, 2, 3)), *(f"suitability/{n}" for n in (1, 3, 5, 7))]
    )
    assert (pool.rounds, pool.is_stalled, pool.dropped, pool.notes) == (1, False, (), ())


async def test_a_request_shows_four_seeds_and_two_inventions_and_which_categories_have_room() -> None:
    def invent(number: int) -> Any:
        return {f"Kind {number}": invention()}

    model = Model(lambda name, key: suits(name, key, "food" if name.startswith("Seed") else "legal"), invent)
    pool = await grow(numbered(8), model, target=11, embedder=Apart(), share=0.2)
    assert [s.round for s in pool.scenarios[8:]] == [1, 2, 3]
    first, third = model.asked["scenarios/invent/1"], model.asked["scenarios/invent/3"]
    assert (first.count('{"Seed number'), first.count('{"Kind')) == (6, 0)
    assert (third.count('{"Seed number'), third.count('{"Kind')) == (4, 2)
    assert "Closed, since we have enough of them: food." in first
    assert "Invent 10 new ones" in first
    thin = re.search(r"few or none yet in: ([^.]*)\.", third)
    assert thin is not None
    assert len(thin[1].split(", ")) == 8
    assert not {"food", "legal"} & set(thin[1].split(", "))


async def test_a_model_s_inventions_are_checked_for_form() -> None:
    answer = {
        "Ferry desk": invention(),
        "FERRY  desk": invention(),
        "../../etc/passwd": invention(),
        "<b>Bold desk</b>": invention(),
        ".hidden desk": invention(),
        "Red \x1b[31m desk": invention(),
        "Turned \u202e desk": invention(),
        "n" * 201: invention(),
        "12": invention(),
        "Long desk": invention("o" * 2001),
        "Bare desk": invention(" "),
        "Starry desk": invention(category="astrology"),
        "Listed desk": ["outline"],
        "Numbered desk": {"outline": 7, "category": "food"},
    }
    model = Model(invent=lambda number: answer if number == 1 else {})
    pool = await grow(seeds("Good"), model, target=3, embedder=Apart())
    assert names(pool) == ["Good", "Ferry desk"]
    told = reasons(pool)
    assert told == {
        "FERRY desk": "the name is in the answer twice",
        "../../etc/passwd": "the name looks like a path or like markup",
        "<b>Bold desk</b>": "the name looks like a path or like markup",
        ".hidden desk": "the name looks like a path or like markup",
        "Red \\x1b[31m desk": "it has characters that cannot be printed",
        "Turned \\u202e desk": "it has characters that cannot be printed",
        "n" * 79 + "…": "the name has 201 characters, at most 200 are allowed",
        "12": "the name has no letter",
        "Long desk": "the outline has 2001 characters, at most 2000 are allowed",
        "Bare desk": "it has no outline",
        "Starry desk": "its category is none of the list",
        "Listed desk": "it has no outline",
        "Numbered desk": "it has no outline",
    }


async def test_inventions_are_judged_like_seeds() -> None:
    def judge(name: str, key: str) -> Any:
        return {"suitability": "low", "category": "media"} if name.endswith("a") else suits(name, key)

    pool = await grow(numbered(1), Model(judge), target=10, embedder=Apart(), share=1)
    assert names(pool) == ["Seed number 1", *(f"Kind 1 {letter}" for letter in "bcdefghij")]
    assert reasons(pool) == {"Kind 1 a": "unsuitable: no reason is given"}


async def test_what_is_too_like_a_scenario_of_the_pool_is_dropped() -> None:
    answer = {
        "Tool lending library": invention("Something else."),
        "Box office of a community theatre": invention("Shows, seats, ticket sales and refunds of a small theatre."),
        "Neighbourhood tool library": invention("Members borrow tools; loans, returns and late fees are recorded."),
        "Harbour pilots": invention("Pilots, ships, tides and pilotage orders of a port."),
        "Port pilot orders": invention("Pilots, ships, tides and orders for pilotage in a harbour."),
    }
    model = Model(invent=lambda number: answer if number == 1 else {})
    known = [Seed(name="Tool lending library", outline="Members, tools, loans, returns and late fees.")]
    pool = await grow([*known, *seeds("Community theatre box office")], model, target=9, embedder=WordLlamaEmbedder())
    assert names(pool) == ["Tool lending library", "Community theatre box office", "Harbour pilots"]
    told = reasons(pool)
    assert told.pop("Tool lending library") == "the name is in the pool already"
    assert {name: re.sub(r" \(cosine 0\.[789]\d\)", "", reason) for name, reason in told.items()} == {
        "Box office of a community theatre": "too like Community theatre box office",
        "Neighbourhood tool library": "too like Tool lending library",
        "Port pilot orders": "too like Harbour pilots",
    }


async def test_the_threshold_can_be_given() -> None:
    answer = {"Box office of a community theatre": invention()}
    model = Model(invent=lambda number: answer)
    pool = await grow(seeds("Community theatre box office"), model, target=2, threshold=0.99)
    assert len(pool.scenarios) == 2


async def test_a_category_is_capped_for_inventions_and_seeds_count() -> None:
    def judge(name: str, key: str) -> Any:
        return suits(name, key, "food" if name.startswith("Seed") or name.endswith(("a", "b")) else "legal")

    pool = await grow(numbered(3), Model(judge), target=20, embedder=Apart())
    assert names(pool) == ["Seed number 1", "Seed number 2", "Seed number 3", "Kind 1 c", "Kind 1 d"]
    assert reasons(pool)["Kind 1 a"] == "enough of the category food"
    assert (pool.full, pool.is_stalled) == (("food", "legal"), True)


async def test_a_share_of_a_target_is_rounded_up_and_never_below_two() -> None:
    def judge(name: str, key: str) -> Any:
        return suits(name, key, "food")

    found = {}
    for target in (10, 21, 30):
        pool = await grow(numbered(1), Model(judge), target=target, embedder=Apart())
        found[target] = len(pool.scenarios)
    assert found == {10: 2, 21: 3, 30: 3}


async def test_three_rounds_that_add_nothing_end_the_stage() -> None:
    model = Model(invent=lambda number: inventions(1) if number <= 2 else "I have no more ideas.")
    pool = await grow(numbered(1), model, target=12, embedder=Apart(), share=1)
    assert (len(pool.scenarios), pool.rounds, pool.is_stalled) == (11, 4, True)
    assert [note.split(":")[0] for note in pool.notes] == [f"scenarios/invent/{n}" for n in (3, 4, 5)]


async def test_it_ends_at_once_when_every_category_is_full() -> None:
    def judge(name: str, key: str) -> Any:
        return suits(name, key, CATEGORIES[int(name.split()[-1]) % len(CATEGORIES)])

    model = Model(judge)
    pool = await grow(numbered(70), model, target=80, embedder=Apart(), share=0.01)
    assert (len(pool.scenarios), pool.rounds, pool.is_stalled, pool.full) == (70, 0, True, CATEGORIES)
    assert not any(key.startswith("invent") for key in model.keys)


async def test_without_a_suitable_seed_nothing_is_invented() -> None:
    pool = await grow(seeds("Bad"), Model(lambda name, key: None), target=5, embedder=Apart())
    assert (pool.scenarios, pool.rounds, pool.is_stalled) == ((), 0, True)


async def test_a_missing_embedder_is_found_before_anything_is_asked() -> None:
    model = Model()
    with pytest.raises(UsageError, match="it is not installed"):
        await grow(numbered(2), model, target=5, embedder=Missing())
    assert model.keys == []


@pytest.mark.parametrize("settings", [{"target": 0}, {"share": 0.0}, {"share": 1.5}, {"threshold": 0.0}])
async def test_an_argument_that_makes_no_sense_is_a_usage_error(settings: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as caught:
        await grow(numbered(1), Model(), **settings)
    assert caught.value.next_step


# --- Replay


def messy(name: str, key: str) -> Any:
    """Judges by chance, the same way each time; leaves names out and says what is no answer."""
    chance = random.Random(name + key)
    return chance.choice([
        suits(name, key), suits(name, key), {**suits(name, key), "suitability": "low"}, None, {"suitability": 1},
    ])  # fmt: skip


def messy_inventions(number: int) -> Any:
    chance = random.Random(number)
    if chance.random() < 0.3:
        return chance.choice(RUBBISH)
    found = {f"Kind {chance.randrange(150)}": invention() for _ in range(8)}
    return {**found, "../x": invention(), "Odd": invention(category="none")}


class Stopped(Exception):
    """There is no answer yet."""


async def pool_of(ask: Any, target: int = 60) -> Pool:
    return await grow(numbered(45), ask, target=target, embedder=Apart())


async def test_the_same_answers_give_the_same_pool_in_whatever_order_they_come() -> None:
    async def dawdling(key: str, messages: list[dict[str, Any]], *, stage: str, environment: str) -> Reply:
        for _ in range(random.Random(key[::-1]).randrange(20)):
            await asyncio.sleep(0)
        return await model(key, messages, stage=stage, environment=environment)

    model = Model(messy, messy_inventions)
    late, prompt = await pool_of(dawdling), await pool_of(straight := Model(messy, messy_inventions))
    assert late == prompt
    assert (model.asked, len(late.scenarios)) == (straight.asked, 60)


async def test_a_run_that_stops_for_every_answer_comes_to_the_same_pool() -> None:
    model = Model(messy, messy_inventions)
    known: dict[str, Reply] = {}

    async def replaying(key: str, messages: list[dict[str, Any]], *, stage: str, environment: str) -> Reply:
        if key in known:
            return known[key]
        waiting[key] = messages
        raise Stopped(key)

    rounds: list[list[str]] = []
    while True:
        waiting: dict[str, list[dict[str, Any]]] = {}
        try:
            pool = await pool_of(replaying)
            break
        except Stopped:
            rounds.append(list(waiting))
            for key, messages in waiting.items():
                known[key] = await model(key, messages, stage="scenario", environment="")
    assert pool == await pool_of(Model(messy, messy_inventions))
    assert rounds[:2] == [
        [f"scenarios/suitability/{n}" for n in (1, 3, 5)],
        [f"scenarios/suitability/{n}" for n in (2, 4, 6)],
    ]


async def test_a_larger_target_goes_on_from_the_same_answers() -> None:
    model = Model(messy, messy_inventions)
    known: dict[str, Reply] = {}

    async def storing(key: str, messages: list[dict[str, Any]], *, stage: str, environment: str) -> Reply:
        if key not in known:
            known[key] = await model(key, messages, stage=stage, environment=environment)
        return known[key]

    small = await pool_of(storing, target=50)
    asked = len(known)
    large = await pool_of(storing, target=70)
    assert names(large)[:50] == names(small)
    assert (len(large.scenarios), len(known) > asked) == (70, True)


async def test_a_pool_has_a_json_form() -> None:
    pool = await grow(seeds("Lift rounds", "Bad"), Model(lambda n, k: suits(n, k, "food") if n != "Bad" else None))
    assert json.loads(json.dumps(pool.to_dict())) == {
        "scenarios": [{
            "id": "lift_rounds_1", "name": "Lift rounds", "outline": "", "category": "food",
            "suitability": "high", "origin": "seed", "round": 0,
        }],
        "dropped": [{"name": "Bad", "reason": "the classifier gave no usable answer"}],
        "notes": [], "rounds": 0, "is_stalled": False, "full": [],
    }  # fmt: skip

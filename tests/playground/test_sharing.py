"""A share link repeats an attempt exactly, and is checked like a file of unknown origin."""

import base64
import dataclasses
import json
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import awm_hub
from awm_hub.environment import Call
from awm_hub.errors import UsageError
from awm_hub.playground.sharing import MAX_LINK_CHARS, Shared, ShareError
from awm_hub.playground.visits import Visit, Visits
from awm_hub.trajectory import Outcome

HASH = "0" * 64
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters(codec="utf-8"), max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


def packed(value: object) -> str:
    return base64.urlsafe_b64encode(zlib.compress(json.dumps(value).encode())).decode().rstrip("=")


async def tables(visit: Visit) -> dict[str, Any]:
    """The tables as they are."""
    return (await visit.picture(since_beginning=True))[0]


async def test_every_reference_solution_fits_a_link_and_repeats_to_its_verdict() -> None:
    visits = Visits(capacity=2, idle_timeout_s=60)
    environment = awm_hub.load()["field_service_1"]
    for task in environment.tasks[:4]:
        visit = await visits.open("ann", "play", environment, task=task.slug, seed=7)
        for call in task.solution or ():
            await visit.call(call.tool, call.arguments)
        verdict = await visit.submit(None if task.answer is None else json.dumps(task.answer))

        read = Shared.read(Shared.of(visit, None).text())
        read.check(environment)
        twin = await visits.open("bob", "play", environment, task=read.task, seed=read.seed)
        await read.repeat(twin)

        assert verdict is not None
        assert verdict.outcome is Outcome.COMPLETED
        assert twin.verdict == verdict
        assert twin.moves == visit.moves
        assert await tables(twin) == await tables(visit)
    await visits.instances.close_all()


@given(
    arguments=st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=5), JSON, max_size=4),
    answer=st.none() | st.text(st.characters(codec="utf-8")),
)
def test_whatever_was_called_and_answered_comes_back(arguments: dict[str, object], answer: str | None) -> None:
    shared = Shared(
        dataset="owner/name",
        environment="shop_1",
        content_hash=HASH,
        task=None,
        seed=3,
        calls=(Call(tool="t", arguments=arguments),),
        is_ended=True,
        answer=answer,
    )
    assert Shared.read(shared.text()) == shared


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "é" * 9,
        "A" * 3 * MAX_LINK_CHARS,
        packed([]),
        packed({"a": 1}),
        packed([2, None, "shop_1", HASH, None, 0, [], []]),
        packed([1, None, "../etc", HASH, None, 0, [], []]),
        packed([1, 5, "shop_1", HASH, None, 0, [], []]),
        packed([1, None, "shop_1", HASH, None, True, [], []]),
        packed([1, None, "shop_1", HASH, None, 0, [["t", [1]]], []]),
        packed([1, None, "shop_1", HASH, None, 0, [["t", {}]] * 201, []]),
        packed([1, None, "shop_1", HASH, None, 0, 7, []]),
        packed(["x" * 2**19]),
        packed([1, None, "shop_1", HASH, None, 0, [], []])[:-9],
    ],
)
def test_a_text_that_is_no_attempt_is_refused_in_words(text: str) -> None:
    with pytest.raises(ShareError, match="cannot be read"):
        Shared.read(text)


def test_an_environment_that_has_changed_is_named() -> None:
    environment = awm_hub.load()["field_service_1"]
    shared = Shared(dataset=None, environment=environment.id, content_hash=HASH, task=None)
    with pytest.raises(ShareError, match="field_service_1 has changed"):
        shared.check(environment)


def test_an_attempt_that_fits_no_link_is_refused() -> None:
    shared = Shared(dataset=None, environment="shop_1", content_hash=HASH, task=None)
    many = dataclasses.replace(shared, calls=(Call(tool="t", arguments={}),) * 201)
    with pytest.raises(UsageError, match="201 calls"):
        many.text()

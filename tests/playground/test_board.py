"""What the play view shows of a visit: moves to go back to, the verdict in plain words, and texts as texts."""

import dataclasses
import re
from collections.abc import AsyncIterator

import pytest
from playground.hostile import ATTACK

import awm_hub
from awm_hub.environment import Environment
from awm_hub.playground import board
from awm_hub.playground.visits import Visit, Visits


@pytest.fixture(scope="module")
def library() -> Environment:
    return awm_hub.load()["public_library_1"]


@pytest.fixture
async def visits() -> AsyncIterator[Visits]:
    found = Visits(capacity=3, idle_timeout_s=60)
    yield found
    await found.instances.close_all()


@pytest.fixture
async def visit(visits: Visits, library: Environment) -> Visit:
    task = next(t for t in library.tasks if t.kind == "change")
    return await visits.open("ann", "play", library, task=task.slug)


def text_of(html: str) -> str:
    return re.sub("<.*?>", " ", html)


async def test_each_call_but_the_last_can_be_gone_back_to_until_the_end(visit: Visit) -> None:
    assert "No calls yet." in board.moves_list(visit.moves, is_ended=False)
    await visit.call("list_branches", {})
    await visit.call("get_member", {"member_id": 10**6})
    await visit.call("no_such_tool", {"text": ATTACK})
    shown = board.moves_list(visit.moves, is_ended=False)
    assert re.findall('data-to="(.)"', shown) == ["1", "2", "0"]
    assert re.findall('data-to="(.)"', board.moves_list(visit.moves, is_ended=True)) == ["1", "2", "3", "0"]
    assert re.findall('awm-label awm-(.*?)">(.*?)<', shown) == [
        ("good", "ok"),
        ("doubtful", "refused not_found"),
        ("bad", "invalid_call unknown_tool"),
    ]
    assert set(re.findall("<([a-z]+)", shown)) == {"div", "ol", "li", "code", "span", "button"}


async def test_a_verdict_is_told_in_plain_words_with_all_of_it_behind_a_fold(visit: Visit, visits: Visits) -> None:
    assert board.verdict_card(visit) == ""
    await visit.submit("Nothing was done.")
    shown = board.verdict_card(visit)
    assert "✗ Not completed" in text_of(shown)
    assert "AGENT_ERROR" in text_of(shown)
    reason = visit.verdict.reasoning.split("{")[0]
    assert reason in shown[: shown.index("<details")]
    assert reason in shown[shown.index("<details") :]
    assert shown.index("awm-outcome awm-bad") < shown.index("<summary>Why this verdict</summary>")
    solved = await visits.open("ben", "play", visit.environment, task=visit.task.slug)
    for call in visit.task.solution:
        await solved.call(call.tool, call.arguments)
    await solved.submit("Done.")
    assert "<h2>✓ Completed</h2>" in board.verdict_card(solved)
    roaming = await visits.open("cat", "play", visit.environment, task=None)
    await roaming.submit("")
    assert "there is no task to judge" in board.verdict_card(roaming)


def test_hostile_texts_of_an_environment_and_its_task_stay_texts(library: Environment) -> None:
    task = dataclasses.replace(library.tasks[0], instruction=ATTACK, kind=ATTACK)
    shown = board.task_card(dataclasses.replace(library, title=ATTACK), task, is_live=False)
    assert set(re.findall("<([a-z0-9]+)", shown)) == {"section", "h2", "h3", "span", "p", "b", "details", "summary"}
    assert shown.count("&lt;script&gt;alert(1)&lt;/script&gt;") == 3
    assert "\u202e" not in shown
    assert "Press <b>Start</b>" in shown

"""A visitor's instance: moves, what they changed, the way back, the verdict, and the places that are left."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

import awm_hub
from awm_hub.environment import Environment, Task
from awm_hub.errors import AwmHubError, EpisodeError
from awm_hub.playground.visits import Visit, Visits
from awm_hub.serving.refusals import ServerFullError
from awm_hub.trajectory import Outcome, StateDiff


@pytest.fixture(scope="module")
def library() -> Environment:
    return awm_hub.load()["public_library_1"]


@pytest.fixture(scope="module")
def task(library: Environment) -> Task:
    """One whose solution changes rows in more than one call."""
    return next(t for t in library.tasks if t.kind == "change" and len(t.solution or ()) >= 3)


@pytest.fixture
async def visits() -> AsyncIterator[Visits]:
    found = Visits(capacity=3, idle_timeout_s=60)
    yield found
    await found.instances.close_all()


async def tables(visit: Visit) -> dict[str, Any]:
    """The tables as they are."""
    return (await visit.picture(since_beginning=True))[0]


async def whole_diff(visit: Visit) -> StateDiff:
    """The rows that differ from the beginning."""
    return (await visit.picture(since_beginning=True))[1]


async def solve(visit: Visit, calls: int | None = None) -> None:
    assert visit.task is not None
    for call in (visit.task.solution or ())[:calls]:
        assert (await visit.call(call.tool, call.arguments)).step.result.is_ok


async def test_a_task_that_is_played_by_its_hints_is_completed(
    visits: Visits, library: Environment, task: Task
) -> None:
    visit = await visits.open("ann", "play", library, task=task.slug)
    while hint := visit.hint():
        await visit.call(hint.tool, hint.arguments)
    assert len(visit.moves) == len(task.solution or ())
    verdict = await visit.submit("Done.")
    assert verdict is not None
    assert verdict.outcome is Outcome.COMPLETED
    assert (await visit.trajectory()).verdicts == (verdict,)
    with pytest.raises(EpisodeError):
        await visit.call("list_tools", {})


async def test_the_changes_of_moves_add_up_to_the_whole(visits: Visits, library: Environment, task: Task) -> None:
    visit = await visits.open("ann", "play", library, task=task.slug)
    await solve(visit)
    changed = [await visit.changes(m.number) for m in visit.moves]
    counts = {m.step.tool: diff for m, diff in zip(visit.moves, changed, strict=True) if diff}
    assert counts
    assert await whole_diff(visit) != StateDiff()


async def test_undoing_gives_the_state_of_then_and_another_way_on(
    visits: Visits, library: Environment, task: Task
) -> None:
    visit = await visits.open("ann", "play", library, task=task.slug)
    seen, versions = [await tables(visit)], [visit.version]
    for call in task.solution or ():
        await visit.call(call.tool, call.arguments)
        seen.append(await tables(visit))
        versions.append(visit.version)
    await visit.submit("Done.")
    versions.append(visit.version)
    for to in reversed(range(len(seen))):
        await visit.undo(to)
        versions.append(visit.version)
        assert await tables(visit) == seen[to]
        assert (len(visit.moves), visit.is_ended, visit.verdict) == (to, False, None)
    assert versions == sorted(set(versions))
    await solve(visit)
    assert await tables(visit) == seen[-1]


async def test_calls_that_others_made_are_moves_that_can_be_undone(
    visits: Visits, library: Environment, task: Task
) -> None:
    visit = await visits.open("ann", "play", library, task=task.slug)
    lease = visits.instances[visit.id]
    before, calls = await tables(visit), list(task.solution or ())
    for call in calls:
        await lease.call(call.tool, dict(call.arguments))
    after = await tables(visit)
    assert [m.step.tool for m in visit.moves] == [call.tool for call in calls]
    found = [await visit.changes(m.number) for m in visit.moves]
    await visit.undo(1)
    await visit.undo(0)
    assert await tables(visit) == before
    await solve(visit)
    assert await tables(visit) == after
    assert [await visit.changes(m.number) for m in visit.moves] == found


async def test_visitors_of_one_environment_see_nothing_of_each_other(
    visits: Visits, library: Environment, task: Task
) -> None:
    ann = await visits.open("ann", "play", library, task=task.slug)
    bob = await visits.open("bob", "play", library, task=task.slug)
    before = await tables(bob)
    await solve(ann)
    assert ann.id != bob.id
    assert (await tables(bob), bob.moves) == (before, ())
    assert await tables(ann) != before


async def test_a_slot_holds_one_instance_and_leaving_frees_them_all(visits: Visits, library: Environment) -> None:
    first = await visits.open("ann", "play", library)
    second = await visits.open("ann", "play", library)
    await visits.open("ann", "left", library)
    assert (first.is_open, second.is_open, len(visits)) == (False, True, 2)
    assert visits.get("ann", "play") is second
    await visits.leave("ann")
    assert (len(visits), visits.get("ann", "play")) == (0, None)


async def test_a_full_playground_says_so_and_has_room_again(visits: Visits, library: Environment) -> None:
    for name in ("ann", "bob", "cyd"):
        await visits.open(name, "play", library)
    with pytest.raises(ServerFullError) as caught:
        await visits.open("dan", "play", library)
    assert isinstance(caught.value, AwmHubError)
    await visits.leave("bob")
    assert await visits.open("dan", "play", library)


async def test_an_instance_that_nobody_uses_is_closed(library: Environment) -> None:
    visits = Visits(capacity=1, idle_timeout_s=0.05)
    await visits.open("ann", "play", library)
    await asyncio.sleep(0.1)
    assert await visits.instances.sweep() == 1
    assert visits.get("ann", "play") is None
    assert await visits.open("bob", "play", library)
    await visits.instances.close_all()


async def test_roaming_ends_without_a_verdict(visits: Visits, library: Environment) -> None:
    visit = await visits.open("ann", "play", library)
    assert (visit.task, visit.hint()) == (None, None)
    assert await visit.submit("Bye.") is None
    assert visit.judge_error is None

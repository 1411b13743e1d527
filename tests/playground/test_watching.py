"""A watched attempt is told step by step, can be ended at any time, and is judged as what it is."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

import pytest

import awm_hub
from awm_hub.environment import Environment, Task
from awm_hub.errors import EpisodeError, RemoteError, UsageError
from awm_hub.inference import Reply, Sampling, ToolCallText
from awm_hub.playground.visits import Visit, Visits
from awm_hub.playground.watching import Asked, Ended, Event, Judging, Moved, Said, Watch
from awm_hub.policy import ChatPolicy, RandomPolicy, SolutionPolicy
from awm_hub.rollouts.attempts import attempt
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
    found = Visits(capacity=4, idle_timeout_s=60)
    yield found
    await found.instances.close_all()


class Model:
    """A model that answers by a function, as soon as it returns."""

    sampling = Sampling()

    def __init__(self, answer: Callable[[int], Any]) -> None:
        self._answer = answer
        self.asked = 0

    def describe(self) -> dict[str, Any]:
        return {"model": "scripted"}

    def check_key(self) -> None:
        pass

    async def chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        sampling: Sampling | None = None,
    ) -> Reply:
        self.asked += 1
        found = self._answer(self.asked)
        return await found if asyncio.iscoroutine(found) else found


def calling(*made: tuple[str, str], thought: str | None = None) -> Reply:
    calls = tuple(ToolCallText(id=str(n), name=name, arguments=text) for n, (name, text) in enumerate(made))
    return Reply(tool_calls=calls, reasoning=thought)


async def told(watch: Watch) -> list[Event]:
    return [event async for event in watch.events()]


def ending(events: list[Event]) -> Ended:
    assert isinstance(events[-1], Ended)
    return events[-1]


async def test_the_reference_solution_is_told_call_by_call_with_its_rows_and_completed(
    visits: Visits, library: Environment, task: Task
) -> None:
    visit = await visits.open("ann", "left", library, task=task.slug)
    seen: list[Event] = []
    async for event in Watch(visit, SolutionPolicy({library.id: library})).events():
        seen.append(event)
        if isinstance(event, Moved):
            assert len(visit.moves) == event.move.number

    solution = task.solution or ()
    kinds = [type(event) for event in seen]
    assert kinds == [*(Asked, Said, Moved) * len(solution), Asked, Said, Judging, Ended]
    moves = [event for event in seen if isinstance(event, Moved)]
    assert [(m.move.step.tool, m.move.step.arguments) for m in moves] == [(c.tool, c.arguments) for c in solution]
    assert [m.diff for m in moves] == [await visit.changes(m.move.number) for m in moves]
    assert any(m.diff for m in moves)
    end = ending(seen)
    assert end.verdict is not None
    assert end.verdict.outcome is Outcome.COMPLETED
    assert end.verdict == visit.verdict
    assert end.trajectory is not None
    assert (end.trajectory.termination, end.trajectory.policy) == ("answered", {"kind": "solution"})
    assert end.trajectory.verdicts == (end.verdict,)


async def test_a_watched_attempt_is_the_one_that_nobody_watches(
    visits: Visits, library: Environment, task: Task
) -> None:
    visit = await visits.open("ann", "left", library, task=task.slug, seed=5)
    end = ending(await told(Watch(visit, RandomPolicy(calls=6))))
    async with await awm_hub.aio.launch(library, task=task.slug, seed=5) as instance:
        alone = await attempt(instance, RandomPolicy(calls=6))
    assert end.trajectory is not None
    assert end.trajectory.steps == alone.steps
    assert end.trajectory.database_delta == alone.database_delta
    assert end.verdict is not None
    assert end.verdict.outcome is not Outcome.COMPLETED


async def test_a_model_is_told_with_its_thoughts_and_several_calls_a_message(
    visits: Visits, library: Environment, task: Task
) -> None:
    visit = await visits.open("ann", "left", library, task=task.slug)
    first = (task.solution or ())[0]
    model = Model(
        lambda n: (
            calling((first.tool, "{}"), ("no_such_tool", "{}"), thought="hm")
            if n == 1
            else Reply(content="<b>I give up</b>")
        )
    )
    seen = await told(Watch(visit, ChatPolicy(model)))
    assert [type(event) for event in seen] == [Asked, Said, Moved, Moved, Asked, Said, Judging, Ended]
    said = [event.action for event in seen if isinstance(event, Said)]
    assert (said[0].thought, [c.tool for c in said[0].calls]) == ("hm", [first.tool, "no_such_tool"])
    assert said[1].answer == "<b>I give up</b>"
    assert [e.move.step.result.type for e in seen if isinstance(e, Moved)][1] == "invalid_call"
    trajectory = ending(seen).trajectory
    assert trajectory is not None
    assert [m["role"] for m in trajectory.messages] == ["system", "user", "assistant", "tool", "tool", "assistant"]


async def test_a_model_that_is_waited_for_can_be_stopped_and_what_it_did_is_judged(
    visits: Visits, library: Environment, task: Task
) -> None:
    visit = await visits.open("ann", "left", library, task=task.slug)
    cancelled = asyncio.Event()

    async def thinks_for_ever() -> Reply:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        raise AssertionError

    watch = Watch(visit, ChatPolicy(Model(lambda n: thinks_for_ever())))
    seen: list[Event] = []
    async for event in watch.events():
        seen.append(event)
        if isinstance(event, Asked):
            watch.stop()
    end = ending(seen)
    assert cancelled.is_set()
    assert (end.termination, end.cause) == ("stopped", "It was stopped.")
    assert end.trajectory is not None
    assert end.trajectory.usage["stopped_by"] == "visitor"
    assert "error" not in end.trajectory.usage
    assert end.verdict is not None
    assert end.verdict.outcome is Outcome.AGENT_ERROR
    assert visit.is_ended


async def test_time_and_turns_are_limited(visits: Visits, library: Environment, task: Task) -> None:
    tool = (task.solution or ())[0].tool

    async def never() -> Reply:
        await asyncio.Event().wait()
        raise AssertionError

    visit = await visits.open("ann", "left", library, task=task.slug)
    end = ending(await told(Watch(visit, ChatPolicy(Model(lambda n: never())), time_limit_s=0.05)))
    assert (end.termination, end.cause) == ("stopped", "The time for one attempt was up.")

    visit = await visits.open("ann", "left", library, task=task.slug)
    model = Model(lambda n: calling((tool, "{}")))
    end = ending(await told(Watch(visit, ChatPolicy(model), max_turns=3)))
    assert (end.termination, model.asked) == ("max_turns", 3)
    assert end.verdict is not None


async def test_an_endpoint_that_fails_is_told_and_nothing_is_concluded(
    visits: Visits, library: Environment, task: Task
) -> None:
    def fails(n: int) -> Reply:
        raise RemoteError("m answered 401: no", next_step="check the key")

    visit = await visits.open("ann", "left", library, task=task.slug)
    seen = await told(Watch(visit, ChatPolicy(Model(fails))))
    assert [type(event) for event in seen] == [Asked, Ended]
    end = ending(seen)
    assert (end.termination, end.cause, end.next_step) == ("endpoint_error", "m answered 401: no", "check the key")
    assert end.verdict is None


async def test_a_policy_that_breaks_is_an_ending_and_no_crash(visits: Visits, library: Environment, task: Task) -> None:
    def breaks(n: int) -> Reply:
        raise ZeroDivisionError("secret of the server")

    visit = await visits.open("ann", "left", library, task=task.slug)
    end = ending(await told(Watch(visit, ChatPolicy(Model(breaks)))))
    assert (end.termination, end.cause, end.verdict) == ("stopped", "ZeroDivisionError", None)


async def test_a_visitor_who_leaves_ends_the_attempt(visits: Visits, library: Environment, task: Task) -> None:
    visit = await visits.open("ann", "left", library, task=task.slug)
    released = asyncio.Event()

    async def thinks() -> Reply:
        await visits.leave("ann")
        await released.wait()
        return Reply(content="done")

    end = ending(await told(Watch(visit, ChatPolicy(Model(lambda n: thinks())))))
    assert (end.termination, end.verdict) == ("environment_fault", None)
    assert len(visits) == 0


async def test_whoever_stops_listening_ends_the_attempt(visits: Visits, library: Environment, task: Task) -> None:
    visit = await visits.open("ann", "left", library, task=task.slug)
    before = asyncio.all_tasks()
    events = Watch(visit, SolutionPolicy({library.id: library})).events()
    async for event in events:
        if isinstance(event, Moved):
            break
    await events.aclose()  # type: ignore[attr-defined]
    assert asyncio.all_tasks() == before
    assert len(visit.moves) == 1
    await visit.submit(None)


async def test_two_runs_of_a_task_at_once_do_not_touch_each_other(
    visits: Visits, library: Environment, task: Task
) -> None:
    left = await visits.open("ann", "left", library, task=task.slug)
    right = await visits.open("ann", "right", library, task=task.slug)
    solved, tried = await asyncio.gather(
        told(Watch(left, SolutionPolicy({library.id: library}))), told(Watch(right, RandomPolicy(calls=4)))
    )
    assert [len(left.moves), len(right.moves)] == [len(task.solution or ()), 4]
    verdicts = [ending(events).verdict for events in (solved, tried)]
    assert [v is not None and v.outcome is Outcome.COMPLETED for v in verdicts] == [True, False]


async def test_a_scripted_policy_takes_its_time(visits: Visits, library: Environment, task: Task) -> None:
    visit = await visits.open("ann", "left", library, task=task.slug)
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    await told(Watch(visit, RandomPolicy(calls=2), pace_s=0.1))
    assert loop.time() - began_s >= 0.3


async def test_what_cannot_be_watched_is_refused(visits: Visits, library: Environment, task: Task) -> None:
    roaming = await visits.open("ann", "left", library)
    with pytest.raises(UsageError, match="needs a task"):
        await told(Watch(roaming, RandomPolicy()))
    with pytest.raises(UsageError, match="is a class"):
        Watch(roaming, RandomPolicy)  # type: ignore[arg-type]
    ended = await visits.open("ann", "right", library, task=task.slug)
    await ended.submit("x")
    with pytest.raises(EpisodeError):
        await told(Watch(ended, RandomPolicy()))


async def test_a_call_of_somebody_else_is_told_too(visits: Visits, library: Environment, task: Task) -> None:
    visit: Visit = await visits.open("ann", "left", library, task=task.slug)
    tool = library.tools[0].name

    async def meanwhile() -> Reply:
        await visit.call(tool, {"no": "such argument"})
        return Reply(content="done")

    seen = await told(Watch(visit, ChatPolicy(Model(lambda n: meanwhile()))))
    (moved,) = [event for event in seen if isinstance(event, Moved)]
    assert (moved.move.step.tool, moved.diff) == (tool, StateDiff())

from collections.abc import Callable
from dataclasses import replace

from awm_hub import aio
from awm_hub.environment import Environment
from awm_hub.trajectory import StateDiff, ToolResult, Trajectory
from awm_hub.viewing import RowChanges, row_changes


async def found(trajectory: Trajectory, environment: Environment) -> RowChanges:
    changes = await row_changes(trajectory, environment)
    assert changes is not None
    return changes


async def test_each_step_is_told_with_the_rows_that_its_call_changed(
    trajectory: Trajectory, notes_environment: Environment
) -> None:
    changes = await found(trajectory, notes_environment)
    assert [sorted(diff) for diff in changes.steps] == [["notes"], [], [], ["notes", "tags"]]
    (edited,) = changes.steps[0]["notes"].changed
    assert (edited.key, edited.after["due_on"]) == ({"id": 1}, "2026-03-06")
    assert [row["title"] for row in changes.steps[3]["notes"].added] == ["Extra"]


async def test_the_whole_is_what_the_judge_saw(trajectory: Trajectory, notes_environment: Environment) -> None:
    changes = await found(trajectory, notes_environment)
    seen = trajectory.verdicts[0].evidence.diff
    assert changes.whole["tags"] == seen["tags"]
    assert [c.key for c in changes.whole["notes"].changed] == [c.key for c in seen["notes"].changed] == [{"id": 1}]
    assert [row["id"] for row in changes.whole["notes"].added] == [row["id"] for row in seen["notes"].added] == [8]


async def test_where_a_replay_ends_elsewhere_only_the_end_is_told(
    changed: Callable[..., Trajectory], trajectory: Trajectory, notes_environment: Environment
) -> None:
    changes = await found(changed(steps=trajectory.steps[1:]), notes_environment)
    assert changes.steps == ()
    assert sorted(changes.whole) == ["notes", "tags"]


async def test_a_call_that_ran_out_of_time_is_not_repeated(
    changed: Callable[..., Trajectory], trajectory: Trajectory, notes_environment: Environment
) -> None:
    slow = replace(trajectory.steps[1], result=ToolResult(type="fault", code="deadline", message="too slow"))
    changes = await found(changed(steps=(trajectory.steps[0], slow, *trajectory.steps[2:])), notes_environment)
    assert changes.steps == ()


async def test_a_trajectory_that_cannot_be_put_on_this_database_has_no_rows(
    changed: Callable[..., Trajectory], notes_environment: Environment
) -> None:
    assert await row_changes(changed(environment_hash="0" * 64), notes_environment) is None
    assert await row_changes(changed(database_delta="no delta"), notes_environment) is None
    assert await row_changes(changed(task_id="notes/no_such"), notes_environment) is None
    assert await row_changes(changed(seed="x"), notes_environment) is None


async def test_nothing_done_is_no_row(changed: Callable[..., Trajectory], notes_environment: Environment) -> None:
    async with aio.launch(notes_environment) as instance:
        changes = await found(await instance.trajectory(), notes_environment)
    assert changes == RowChanges(whole=StateDiff())

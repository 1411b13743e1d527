"""A plan says what a run will do, down to every seed."""

from collections.abc import Callable

import pytest

from awm_hub.environment import Environment
from awm_hub.errors import DataError, RecordError, UnknownNameError
from awm_hub.rollouts.plans import Plan, PlannedEnvironment, derived_seed, planned

TWO = (
    PlannedEnvironment(id="a_1", content_hash="0" * 64, tasks=("t0", "t1")),
    PlannedEnvironment(id="b_1", content_hash="1" * 64, tasks=("t0",)),
)


def test_slots_go_environment_by_environment_and_task_by_task() -> None:
    plan = Plan(environments=TWO, rollouts_per_task=2, max_turns=20, judge=None)
    assert [slot.id for slot in plan.slots()] == [
        "a_1__t0__0",
        "a_1__t0__1",
        "a_1__t1__0",
        "a_1__t1__1",
        "b_1__t0__0",
        "b_1__t0__1",
    ]
    assert len(plan) == 6


def test_a_seed_follows_from_the_place_alone() -> None:
    few = Plan(environments=TWO[1:], rollouts_per_task=1, seed=7, max_turns=20, judge=None)
    many = Plan(environments=TWO, rollouts_per_task=5, seed=7, max_turns=20, judge=None)
    seeds = {slot.id: slot.seed for slot in many.slots()}
    assert next(iter(few.slots())).seed == seeds["b_1__t0__0"] == derived_seed(7, "b_1", "t0", 0)
    assert len(set(seeds.values())) == 15
    assert all(0 <= seed < 2**63 for seed in seeds.values())
    assert derived_seed(7, "b_1", "t0", 0) == 4603313307123534382


def test_a_replay_takes_the_seed_of_what_it_replays() -> None:
    plan = Plan(environments=TWO, replayed_seed=11, max_turns=20, judge=None)
    assert {slot.seed for slot in plan.slots()} == {11}


def test_a_plan_is_read_back_from_json() -> None:
    plan = Plan(environments=TWO, rollouts_per_task=2, max_turns=20, judge="decision", options={"lenient": True})
    assert Plan.from_dict(plan.to_dict()) == plan


@pytest.mark.parametrize("change", [{"environments": [{"id": "../x", "content_hash": "", "tasks": []}]}, {"odd": 1}])
def test_what_is_no_plan_is_refused(change: dict[str, object]) -> None:
    plan = Plan(environments=TWO, max_turns=20, judge=None).to_dict()
    with pytest.raises(RecordError, match="no plan"):
        Plan.from_dict({**plan, **change})


def test_tasks_are_chosen_by_slug_or_id_wherever_they_are(renamed: Callable[..., Environment]) -> None:
    environments = {name: renamed(name) for name in ("one_1", "two_1")}
    every = planned(environments, ["overdue"])
    assert [(e.id, e.tasks) for e in every] == [("one_1", ("overdue",)), ("two_1", ("overdue",))]
    single = planned(environments, ["two_1/overdue"])
    assert [(e.id, e.tasks) for e in single] == [("two_1", ("overdue",))]


def test_a_task_that_no_environment_has_is_refused_with_what_is_close(renamed: Callable[..., Environment]) -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'overdue'"):
        planned({"one_1": renamed("one_1")}, ["overduee"])
    with pytest.raises(UnknownNameError, match="Did you mean 'overdue'"):
        planned({"one_1": renamed("one_1"), "two_1": renamed("two_1")}, ["overdue", "overduee"])


def test_environments_without_tasks_are_left_out(renamed: Callable[..., Environment]) -> None:
    environments = {"one_1": renamed("one_1"), "bare_1": renamed("bare_1", tasks=())}
    assert [e.id for e in planned(environments, None)] == ["one_1"]
    with pytest.raises(DataError, match="no task"):
        planned({"bare_1": renamed("bare_1", tasks=())}, None)

"""The leases of a server: found, shared, counted and swept."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from awm_hub import aio
from awm_hub.environment import Environment
from awm_hub.errors import AwmHubError, UnknownNameError
from awm_hub.serving.instances import Instances
from awm_hub.serving.refusals import ServerFullError


class Clock:
    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def make(environments: dict[str, Environment], clock: Clock) -> AsyncIterator[Callable[..., Instances]]:
    async with contextlib.AsyncExitStack() as stack:

        def make(**settings: Any) -> Instances:
            found = Instances(
                environments,
                launch=settings.pop("launch", aio.launch),
                now=clock,
                **{"capacity": 10, "idle_timeout_s": 60.0, **settings},
            )
            stack.push_async_callback(found.close_all)
            return found

        yield make


async def test_what_nobody_used_for_long_enough_is_closed(make: Callable[..., Instances], clock: Clock) -> None:
    instances = make()
    old = await instances.open("made", opened_by="controller")
    clock.seconds += 40
    used = await instances.open("made", opened_by="session")
    await instances.shared("made", "a")
    await instances.shared("other", None)
    clock.seconds += 40
    await used.call("list_notes", {})
    assert await instances.sweep() == 1
    assert {(lease.environment.id, lease.opened_by) for lease in instances} == {
        ("made", "session"),
        ("made", "key"),
        ("other", "single"),
    }
    with pytest.raises(AwmHubError, match="nobody used it for 60 s"):
        instances[old.id]
    clock.seconds += 61
    assert await instances.sweep() == 2
    assert [lease.opened_by for lease in instances] == ["single"]
    again = await instances.shared("made", "a")
    assert not again.instance.is_ended


async def test_an_instance_with_a_running_call_is_not_idle(make: Callable[..., Instances], clock: Clock) -> None:
    instances = make()
    lease = await instances.open("made", opened_by="controller")
    call = asyncio.create_task(lease.call("list_notes", {}))
    await asyncio.sleep(0)
    clock.seconds += 1000
    assert lease.is_busy
    assert await instances.sweep() == 0
    assert (await call).value == ["first", "second"]
    assert lease.idle_s == 0
    clock.seconds += 61
    assert await instances.sweep() == 1


async def test_sweeping_can_be_turned_off(make: Callable[..., Instances], clock: Clock) -> None:
    instances = make(idle_timeout_s=None)
    await instances.open("made", opened_by="controller")
    clock.seconds += 10**9
    assert await instances.sweep() == 0
    await asyncio.wait_for(instances.sweep_forever(), 5)


async def test_the_sweep_runs_by_itself(environments: dict[str, Environment]) -> None:
    instances = Instances(environments, launch=aio.launch, capacity=10, idle_timeout_s=0.05)
    await instances.open("made", opened_by="controller")
    async with asyncio.timeout(10):
        sweeping = asyncio.create_task(instances.sweep_forever())
        while len(instances):
            await asyncio.sleep(0.01)
        sweeping.cancel()


async def test_many_who_come_at_once_with_one_key_share_one_instance(make: Callable[..., Instances]) -> None:
    instances = make()
    found = await asyncio.gather(*(instances.shared("made", "a") for _ in range(20)))
    assert len(instances) == 1
    assert len({lease.id for lease in found}) == 1


async def test_a_shared_instance_that_failed_to_open_is_tried_again(
    make: Callable[..., Instances], environments: dict[str, Environment]
) -> None:
    failures = [OSError("no memory"), OSError("no memory")]

    async def launch(environment: Environment, **settings: Any) -> aio.Instance:
        if failures:
            raise failures.pop()
        return await aio.launch(environment, **settings)

    instances = make(launch=launch, capacity=1)
    with pytest.raises(OSError, match="no memory"):
        await instances.open("made", opened_by="controller")
    first = await asyncio.gather(*(instances.shared("made", "a") for _ in range(3)), return_exceptions=True)
    assert [type(x) for x in first] == [OSError] * 3
    lease = await instances.shared("made", "a")
    assert lease is await instances.shared("made", "a")


async def test_instances_being_opened_count(make: Callable[..., Instances], clock: Clock) -> None:
    instances = make(capacity=2)
    opened = await asyncio.gather(
        *(instances.open("made", opened_by="controller") for _ in range(5)), return_exceptions=True
    )
    refused = [x for x in opened if isinstance(x, ServerFullError)]
    assert len(instances) == 2
    assert len(refused) == 3
    clock.seconds += 50
    with pytest.raises(ServerFullError) as full:
        await instances.open("made", opened_by="controller")
    assert full.value.retry_after_s == 10


async def test_a_caller_that_goes_away_leaves_the_call_to_end_by_itself(make: Callable[..., Instances]) -> None:
    instances = make()
    lease = await instances.open("made", opened_by="controller")
    caller = asyncio.create_task(lease.call("add_note", {"text": "third"}))
    await asyncio.sleep(0)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert (await lease.call("list_notes", {})).value == ["first", "second", "third"]
    assert not lease.is_busy


async def test_an_environment_is_read_once_for_all_its_instances(
    environments: dict[str, Environment], make: Callable[..., Instances]
) -> None:
    instances = make()
    one = await instances.open("made", opened_by="controller")
    two = await instances.open("made", opened_by="controller")
    assert one.environment is two.environment
    with pytest.raises(UnknownNameError, match="Did you mean 'made'"):
        await instances.environment("mode")
    with pytest.raises(UnknownNameError):
        await instances.environment("m" * 10**6)


async def test_closing_all_leaves_no_instance_open(make: Callable[..., Instances]) -> None:
    instances = make()
    leases = [await instances.open("made", opened_by="controller"), await instances.shared("made", "a")]
    await instances.close_all()
    assert len(instances) == 0
    assert all(isinstance(x.instance, aio.Instance) and x.instance.is_closed for x in leases)

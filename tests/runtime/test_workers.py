"""Workers come and go with what they host, and nobody waits or is surprised because of it."""

import asyncio
import dataclasses
import gc
import os
import signal
from collections import Counter
from pathlib import Path

import pytest
from ledgers import make_ledger

from awm_hub import aio
from awm_hub.environment import Environment
from awm_hub.errors import EpisodeError
from awm_hub.runtime.pool import LocalPool, PoolCall


@pytest.fixture(scope="module")
def environment() -> Environment:
    return asyncio.run(make_ledger("functions"))


def descriptors() -> Counter[str]:
    """What this process has open, by kind."""
    gc.collect()
    return Counter(os.readlink(entry).partition(":")[0] for entry in Path("/proc/self/fd").iterdir() if entry.exists())


async def test_an_instance_that_is_closed_by_its_user_makes_room(environment: Environment) -> None:
    async with LocalPool(most_instances=1, wait_s=60) as pool:
        async with await pool.acquire(environment):
            waiting = [asyncio.ensure_future(pool.acquire(environment)) for _ in range(2)]
            while pool.usage.waiting < 2:
                await asyncio.sleep(0)
        done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        assert (len(done), pool.usage.instances, pool.usage.waiting) == (1, 1, 1)
        await pool.release([await done.pop()])
        await asyncio.wait(waiting)
        assert pool.usage.instances == 1


async def test_a_batch_with_an_ended_episode_calls_nothing_on_any_worker(environment: Environment) -> None:
    other = dataclasses.replace(environment, id="other", content_hash="1" * 64)
    async with LocalPool() as pool:
        going, ended = await pool.acquire(environment), await pool.acquire(other)
        await ended.submit()
        with pytest.raises(EpisodeError, match="has ended"):
            await pool.call([PoolCall(instance=i, tool="add", arguments={"text": "x"}) for i in (going, ended)])
        assert (going.steps, await going.image()) == ((), environment.database)


async def test_a_fork_does_not_outlive_the_pool(environment: Environment) -> None:
    async with LocalPool() as pool:
        twin = await (await pool.acquire(environment)).fork()
    result = await twin.call_tool("list_notes")
    assert (result.code, "have been ended" in result.message) == ("worker_died", True)
    assert pool.usage.workers == 0


async def test_a_worker_killed_between_two_calls_costs_none_of_them(environment: Environment) -> None:
    async with await aio.launch(environment) as instance:
        await instance.call_tool("add", {"text": "a"})
        process = instance._residence.worker._process
        assert process is not None
        os.kill(process.pid, signal.SIGKILL)
        while not process.is_dead:
            await asyncio.sleep(0)
        assert [note["text"] for note in (await instance.call_tool("list_notes")).value] == ["first", "second", "a"]


def test_a_loop_that_ends_leaves_no_descriptor(environment: Environment) -> None:
    async def use() -> None:
        instance = await aio.launch(environment)
        assert (await instance.call_tool("list_notes")).is_ok

    async def use_and_kill() -> None:
        async with await aio.launch(environment) as instance:
            await instance.call_tool("die")

    asyncio.run(use())
    before = descriptors()
    for _ in range(3):
        asyncio.run(use())
        asyncio.run(use_and_kill())
    assert descriptors() - before == Counter()

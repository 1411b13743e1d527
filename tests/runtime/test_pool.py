"""Many instances at once, within limits."""

import asyncio
import dataclasses

import pytest
from making import make_environment

import awm_hub
from awm_hub.environment import Environment
from awm_hub.errors import CapacityError, EpisodeError, UnknownNameError, UsageError
from awm_hub.runtime import Limits
from awm_hub.runtime.pool import LocalPool, PoolCall

CODE = '''
import os
import sqlite3


def add(db: sqlite3.Connection, text: str) -> int:
    """Add a note.

    Args:
        text: Its text.
    """
    return db.execute("INSERT INTO notes (text) VALUES (?)", (text,)).lastrowid


def texts(db: sqlite3.Connection) -> list:
    """All texts."""
    return [row["text"] for row in db.execute("SELECT text FROM notes ORDER BY id")]


def die(db: sqlite3.Connection) -> None:
    """End the process."""
    os._exit(1)


def cling(db: sqlite3.Connection) -> int:
    """Hold on in C."""
    return sum(range(10**13))


def grow(db: sqlite3.Connection) -> int:
    """Take memory and keep it."""
    db.execute("INSERT INTO notes (text) VALUES (hex(zeroblob(4000000)))")
    return 1


def pid(db: sqlite3.Connection) -> int:
    """The worker."""
    return os.getpid()
'''
FAST = Limits(call_soft_s=0.3, call_hard_s=1.0)


@pytest.fixture(scope="module")
def environments() -> dict[str, Environment]:
    made = asyncio.run(make_environment(CODE))
    return {f"e{n}": dataclasses.replace(made, id=f"e{n}", content_hash=f"{n:064x}") for n in range(4)}


@pytest.fixture
async def pool(environments):
    async with LocalPool(environments, limits=FAST, wait_s=0.2) as live:
        yield live


async def test_a_batch_gives_what_calling_one_after_another_gives(pool) -> None:
    instances = [await pool.acquire(f"e{n % 4}") for n in range(12)]
    calls = [PoolCall(instance=i, tool="add", arguments={"text": f"{n}"}) for n, i in enumerate(instances)]
    calls += [PoolCall(instance=i, tool="add", arguments={"text": 5}) for i in instances]
    calls += [PoolCall(instance=i, tool="nope", thought="hm") for i in instances]
    calls += [PoolCall(instance=i, tool="add", arguments={"text": "\ud800"}) for i in instances]
    calls += [PoolCall(instance=i, tool="texts") for i in instances]
    results = await pool.call(calls)
    assert [r.type for r in results] == ["ok"] * 12 + ["invalid_call"] * 36 + ["ok"] * 12
    assert [r.value for r in results[-12:]] == [["first", "second", f"{n}"] for n in range(12)]
    assert [s.tool for s in instances[0].steps] == ["add", "add", "nope", "add", "texts"]
    assert instances[0].steps[2].thought == "hm"
    assert await pool.call([]) == []


@pytest.mark.parametrize("tool", ["die", "cling"])
async def test_a_call_that_kills_its_worker_costs_only_itself(pool, tool: str) -> None:
    instances = [await pool.acquire("e0") for _ in range(3)]
    await pool.call([PoolCall(instance=i, tool="add", arguments={"text": "before"}) for i in instances])
    batch = [
        PoolCall(instance=instances[0], tool="add", arguments={"text": "same batch"}),
        PoolCall(instance=instances[1], tool=tool),
        PoolCall(instance=instances[2], tool="add", arguments={"text": "after"}),
        PoolCall(instance=instances[1], tool="texts"),
    ]
    results = await pool.call(batch)
    assert [r.type for r in results] == ["ok", "fault", "ok", "ok"]
    assert results[3].value == ["first", "second", "before"]
    ends = await pool.call([PoolCall(instance=i, tool="texts") for i in instances])
    assert [r.value[2:] for r in ends] == [["before", "same batch"], ["before"], ["before", "after"]]


async def test_concurrent_calls_beside_a_dying_worker_are_never_faults(pool) -> None:
    instances = [await pool.acquire("e0") for _ in range(6)]
    work = [instances[0].call_tool("die")]
    work += [i.call_tool("add", {"text": "x"}) for i in instances[1:]]
    results = await asyncio.gather(*work)
    assert [r.type for r in results] == ["fault"] + ["ok"] * 5


async def test_instances_are_spread_over_workers_on_demand(environments) -> None:
    async with LocalPool(environments, workers_per_environment=2) as pool:
        instances = [await pool.acquire("e0") for _ in range(6)]
        pids = [(await i.call_tool("pid")).value for i in instances]
        assert sorted(pids.count(p) for p in set(pids)) == [3, 3]
        assert pool.usage.workers == 2


async def test_a_full_pool_makes_callers_wait_and_then_refuses(environments) -> None:
    async with LocalPool(environments, most_instances=2, wait_s=0.2) as pool:
        first, _ = await pool.acquire("e0"), await pool.acquire("e1")
        with pytest.raises(CapacityError, match="2 instances are live"):
            await pool.acquire("e2")
    async with LocalPool(environments, most_instances=1, wait_s=30) as pool:
        first = await pool.acquire("e0")
        waiting = asyncio.ensure_future(pool.acquire("e1"))
        await asyncio.sleep(0.05)
        assert pool.usage.waiting == 1
        await pool.release([first])
        assert (await waiting).environment.id == "e1"


async def test_idle_workers_end_when_memory_runs_short(environments) -> None:
    async with LocalPool(environments, memory_bytes=5 * 2**20, wait_s=0.2) as pool:
        for name in environments:
            instance = await pool.acquire(name)
            await instance.call_tool("grow")
            await pool.release([instance])
        assert 0 < pool.usage.workers < 4
        held = await pool.acquire("e0")
        await held.call_tool("grow")
        with pytest.raises(CapacityError, match="MB, over the limit of 5 MB"):
            await pool.acquire("e1")
        assert (await held.call_tool("pid")).is_ok


async def test_closing_the_pool_ends_every_worker(environments) -> None:
    async with LocalPool(environments) as pool:
        instance = await pool.acquire("e0")
        with pytest.raises(UnknownNameError):
            await pool.acquire("e9")
    assert (pool.usage.instances, pool.usage.workers, instance.is_closed) == (0, 0, True)
    with pytest.raises(EpisodeError):
        await instance.call_tool("texts")
    with pytest.raises(UsageError, match="pool is closed"):
        await pool.acquire("e0")


def test_the_pool_works_synchronously(environments) -> None:
    with awm_hub.LocalPool(environments, most_instances=3) as pool:
        instances = [pool.acquire("e0", seed=n) for n in range(3)]
        added = pool.call([awm_hub.PoolCall(instance=i, tool="add", arguments={"text": "x"}) for i in instances])
        assert [r.value for r in added] == [3, 3, 3]
        pool.reset(instances[:1])
        assert [len(i.steps) for i in instances] == [0, 1, 1]
        pool.release(instances[1:])
        assert (pool.usage.instances, pool.usage.workers) == (1, 1)

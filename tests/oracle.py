"""What an instance must be like: its episode, told call by call to a fresh instance.

An episode is the sequence of calls since the last reset. The oracle repeats it, one call after another and with nothing
else going on, and compares every result and the database. A call that its process did not survive left nothing behind,
but counts. A call that was interrupted at its time limit left nothing either where calls are transactions; where they
are not, what it left cannot be repeated, and the oracle goes on from a snapshot of it.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from awm_hub.runtime import Snapshot, jobs
from awm_hub.runtime.instance import Instance
from awm_hub.runtime.pool import LocalPool
from awm_hub.trajectory import ToolResult

LOST, INTERRUPTED = "worker_died", ("deadline", "memory_limit")


class OracleDied(Exception):
    """The oracle's own process was killed; ask another one."""


@dataclass(frozen=True)
class Told:
    """One call of an episode, and how it ended."""

    tool: str
    arguments: Mapping[str, Any]
    result: ToolResult
    left: Snapshot | None = None
    """The state after this call, where it may not be possible to repeat what led there."""


def ending(result: ToolResult) -> tuple[Any, ...]:
    """What must be the same whenever a call is repeated: everything but the time it took."""
    return (result.type, result.value, result.code, result.message)


async def retell(oracle: Instance, episode: list[Told]) -> None:
    """Repeat an episode in a fresh instance, comparing every result that can be repeated."""
    is_transaction, is_known = oracle.environment.interface == "functions", True
    for number, told in enumerate(episode):
        is_interrupted = told.result.code in INTERRUPTED
        if told.result.code == LOST or (is_interrupted and is_transaction):
            await _lose(oracle)
        elif is_interrupted:
            is_known = False
        elif is_known:
            found = await oracle.call_tool(told.tool, told.arguments)
            if found.code == LOST:
                raise OracleDied
            assert ending(found) == ending(told.result), f"call {number} of {described(episode)}"
        if told.left is not None:
            await oracle.restore(told.left)
            is_known = True
    assert is_known


async def _lose(instance: Instance) -> None:
    """Let a call pass that nothing is left of."""
    snapshot = await instance.snapshot()
    await instance.restore(dataclasses.replace(snapshot, calls_count=snapshot.calls_count + 1))


def described(episode: list[Told]) -> str:
    """An episode in one line."""
    return ", ".join(f"{t.tool}{dict(t.arguments)} -> {t.result.code or t.result.type}" for t in episode)


async def check(instance: Instance, episode: list[Told], oracles: LocalPool) -> None:
    """See that an instance is where its episode leads to.

    Databases that differ in bytes are compared by what they hold: in an instance that has been rebuilt, unused pages
    may hold other remains of transactions that were rolled back.
    """
    task = instance.task.slug if instance.task else None
    oracle = await oracles.acquire(instance.environment, task=task, seed=instance.seed)
    try:
        await retell(oracle, episode)
        expected, found = await oracle.image(), await instance.image()
        if expected != found:
            assert await jobs.logical_hash(expected) == await jobs.logical_hash(found), described(episode)
            assert len(expected) == len(found)
        assert oracle._residence.calls_count == instance._residence.calls_count
    finally:
        await oracles.release([oracle])

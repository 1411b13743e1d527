"""Hours of training in minutes: random episodes over all environments, with everything failing now and then.

Many episodes run at once in one pool, more than it has room for. Meanwhile workers and the zygote are killed and
sockets dropped; calls overrun their deadlines, say too much, take too much memory, or are given up by their callers.
Every finished episode is compared with the oracle. In the end nothing may be left: no process, no descriptor, no
memory. `AWM_HUB_SOAK_S` sets the duration, `AWM_HUB_SOAK_SEED` the chances.
"""

import asyncio
import contextlib
import dataclasses
import gc
import os
import random
import signal
import statistics
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from oracle import INTERRUPTED, OracleDied, Told, check, ending
from processes import descendants
from soak.subjects import Subject, subjects

from awm_hub.errors import CapacityError, EpisodeError, WorkerError
from awm_hub.runtime import Limits, Snapshot, processes
from awm_hub.runtime.instance import Instance
from awm_hub.runtime.pool import LocalPool, PoolCall
from awm_hub.trajectory import ToolResult

SECONDS = float(os.environ.get("AWM_HUB_SOAK_S", "600"))
SEED = int(os.environ.get("AWM_HUB_SOAK_SEED", str(time.time_ns())))
PLAYERS, ROOM = 20, 16
TIGHT = {"output_bytes": 16 * 2**10, "database_bytes": 6 * 2**20, "call_steps": 3_000_000}
LIMITS = Limits(call_soft_s=0.5, call_hard_s=1.5, **TIGHT)
PATIENT = Limits(call_soft_s=60, call_hard_s=120, **TIGHT)


@dataclass
class Tally:
    """What has happened."""

    counts: Counter[str] = field(default_factory=Counter)
    endings: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    """Processes and descriptors that are still there in the end."""
    memory: list[tuple[float, float]] = field(default_factory=list)
    """MB of the host and of the zygote, once a second."""

    def line(self) -> str:
        counts = ", ".join(f"{n} {what}" for what, n in sorted(self.counts.items()))
        endings = ", ".join(f"{code} {n}" for code, n in self.endings.most_common())
        return f"seed {SEED}: {counts}; results: {endings}; wrong: {len(self.wrong)}, left: {self.left}"


class Player:
    """Plays one episode after another."""

    def __init__(self, number: int, found: list[Subject], pool: LocalPool, oracles: LocalPool, tally: Tally) -> None:
        self.chance = random.Random(f"{SEED}:{number}")
        self.subjects, self.pool, self.oracles, self.tally = found, pool, oracles, tally

    async def play(self, ends_at: float) -> None:
        while time.monotonic() < ends_at and not self.tally.wrong:
            try:
                await self.episode(self.chance.choice(self.subjects))
            except Exception:
                self.tally.wrong.append(traceback.format_exc())

    async def episode(self, subject: Subject) -> None:
        """One episode, and its comparison; what cannot be rebuilt has to say so."""
        task, seed = self.chance.choice(subject.tasks), self.chance.randrange(3)
        instance = await self.pool.acquire(subject.environment, task=task, seed=seed)
        episode = Episode(self, subject, instance)
        try:
            for _ in range(self.chance.randrange(3, 40)):
                await episode.step()
            await episode.end()
            self.tally.counts["episodes"] += 1
        except (EpisodeError, WorkerError) as error:
            if "could not be rebuilt" not in str(error):
                raise
            self.tally.counts["instances given up"] += 1
        finally:
            await self.pool.release([episode.instance])


class Episode:
    """One instance and its calls."""

    def __init__(self, player: Player, subject: Subject, instance: Instance) -> None:
        self.player, self.subject, self.instance = player, subject, instance
        self.chance, self.tally = player.chance, player.tally
        self.told: list[Told] = []
        self.kept: tuple[Snapshot, list[Told]] | None = None

    async def step(self) -> None:
        """Do one of the things that can be done with an instance."""
        roll = self.chance.random()
        if roll < 0.7:
            await self.call()
        elif roll < 0.83:
            await self.batch()
        elif roll < 0.87:
            await self.give_up_a_call()
        elif roll < 0.91:
            self.kept = await self.instance.snapshot(), list(self.told)
        elif roll < 0.94 and self.kept is not None:
            await self.instance.restore(self.kept[0])
            self.told = list(self.kept[1])
        elif roll < 0.97:
            await self.go_on_in_a_fork()
        elif roll < 0.98:
            await self.instance.reset()
            self.told = []

    async def call(self) -> None:
        tool, arguments = self.subject.call(self.chance)
        await self.tell([(tool, arguments, await self.instance.call_tool(tool, arguments))])

    async def batch(self) -> None:
        calls = [self.subject.call(self.chance) for _ in range(self.chance.randrange(1, 12))]
        found = await self.player.pool.call([PoolCall(instance=self.instance, tool=t, arguments=a) for t, a in calls])
        await self.tell([(*call, result) for call, result in zip(calls, found, strict=True)])

    async def give_up_a_call(self) -> None:
        """The caller goes; the call takes place all the same."""
        tool, arguments = self.subject.call(self.chance)
        work = asyncio.ensure_future(self.instance.call_tool(tool, arguments))
        await asyncio.sleep(self.chance.choice([0, 0.001, 0.01]))
        work.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await work
        await self.instance.image()
        await self.tell([(tool, arguments, self.instance.steps[-1].result)])

    async def go_on_in_a_fork(self) -> None:
        try:
            origin, self.instance = self.instance, await self.instance.fork()
        except CapacityError:
            return
        await self.player.pool.release([origin])

    async def tell(self, calls: list[tuple[str, dict[str, Any], ToolResult]]) -> None:
        """Note calls; after some that cannot be repeated, what they have left."""
        codes = [result.code or result.type for _, _, result in calls]
        self.tally.counts["calls"] += len(calls)
        self.tally.endings.update(codes)
        left = await self.instance.snapshot() if set(codes) & set(INTERRUPTED) else None
        *former, last = [Told(*call) for call in calls]
        self.told += [*former, dataclasses.replace(last, left=left)]

    async def end(self) -> None:
        """Submit, and compare with the oracle."""
        await self.instance.submit("done")
        assert [ending(s.result) for s in self.instance.steps] == [ending(t.result) for t in self.told]
        while True:
            with contextlib.suppress(OracleDied):
                return await check(self.instance, self.told, self.player.oracles)
            self.tally.counts["oracles killed"] += 1


async def break_things(pool: LocalPool, tally: Tally, ends_at: float) -> None:
    """Kill workers and drop their sockets; now and then the zygote, and with it everything."""
    chance = random.Random(f"{SEED}:breaking")
    while time.monotonic() < ends_at:
        await asyncio.sleep(chance.expovariate(2))
        workers = pool._workers._all()
        process = chance.choice(workers)._process if workers else None
        if chance.random() < 0.03:
            tally.counts["zygotes killed"] += 1
            processes.zygote()._process.kill()
        elif process is not None and not process.is_dead:
            if chance.random() < 0.7:
                tally.counts["workers killed"] += 1
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(process._handle, signal.SIGKILL)
            else:
                tally.counts["sockets dropped"] += 1
                process._transport.abort()


async def watch_memory(tally: Tally, ends_at: float) -> None:
    """Note how much memory host and zygote hold, once a second."""
    while time.monotonic() < ends_at:
        await asyncio.sleep(1)
        child = processes.zygote()._process
        if child is not None:
            tally.memory.append((resident_mb(os.getpid()), resident_mb(child.pid)))


def resident_mb(pid: int) -> float:
    """Memory of a process; 0 if there is none."""
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    return 0.0


def descriptors() -> list[str]:
    """What this process has open."""
    found = []
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found.append(os.readlink(entry).partition(":")[0])
    return sorted(found)


async def until(is_true: Callable[[], bool], within_s: float = 20.0) -> bool:
    """Whether something comes true in time."""
    ends_at = time.monotonic() + within_s
    while not is_true() and time.monotonic() < ends_at:
        gc.collect()
        await asyncio.sleep(0.05)
    return is_true()


async def soak(seconds: float) -> Tally:
    """Play for so long; nothing may be left."""
    tally, found = Tally(), await subjects()
    before = descriptors()
    ends_at = time.monotonic() + seconds
    async with (
        LocalPool(most_instances=ROOM, workers_per_environment=2, limits=LIMITS, wait_s=600) as pool,
        LocalPool(most_instances=PLAYERS, limits=PATIENT, wait_s=600) as oracles,
    ):
        players = [Player(n, found, pool, oracles, tally) for n in range(PLAYERS)]
        work = [break_things(pool, tally, ends_at), watch_memory(tally, ends_at)]
        await asyncio.gather(*work, *(player.play(ends_at) for player in players))
        if pool.usage.instances or oracles.usage.instances:
            tally.left.append(f"{pool.usage}, {oracles.usage}")
    zygote = processes.zygote()._process.pid
    if not await until(lambda: descendants(os.getpid()) <= {zygote}):
        tally.left.append(f"processes {descendants(os.getpid()) - {zygote}}")
    if not await until(lambda: len(descriptors()) <= len(before)):
        tally.left.append(f"descriptors {Counter(descriptors()) - Counter(before)}")
    return tally


@pytest.mark.slow
def test_nothing_goes_wrong_and_nothing_is_left_however_much_fails() -> None:
    tally = asyncio.run(soak(SECONDS))
    print(f"\n{tally.line()}")
    assert tally.wrong == [], tally.wrong[0]
    assert tally.left == []
    assert tally.counts["instances given up"] <= tally.counts["episodes"] / 50
    quarter = len(tally.memory) // 4
    for number, name in enumerate(("host", "zygote")):
        held = [at_once[number] for at_once in tally.memory]
        first_mb, last_mb = (statistics.median(part) for part in (held[quarter : 2 * quarter], held[-quarter:]))
        print(f"{name}: {first_mb:.0f} MB, later {last_mb:.0f} MB")
        assert last_mb < first_mb * 1.1 + 16, f"{name} grows"

"""This package's own figures: one instance's verbs, and many instances at once."""

import asyncio
import dataclasses
import os
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

from awm_hub import aio
from awm_hub.bench.figures import Figure, Meter, descendants, private_mb
from awm_hub.environment import Environment
from awm_hub.judging import judge_async
from awm_hub.runtime import Limits
from awm_hub.runtime.pool import LocalPool, PoolCall
from awm_hub.runtime.workers import Workers, current_workers


@dataclass(frozen=True, kw_only=True)
class Subject:
    """An environment and the calls it is measured with."""

    environment: Environment
    read: tuple[str, dict[str, Any]]
    """A call that reads a few rows."""
    task: str
    """A task whose solution writes."""

    @property
    def interface(self) -> str:
        """`functions` or `fastapi`."""
        return self.environment.interface


def our_processes() -> list[int]:
    """The zygote and the workers."""
    return descendants(os.getpid())


async def verbs(subject: Subject, *, repeat: int) -> AsyncIterator[Figure]:
    """Cold load, then every verb of one instance."""
    environment, task = subject.environment, subject.environment.task(subject.task)

    def figure(name: str, meter: Meter, note: str = "") -> Figure:
        return meter.figure(name, "ours", subject.interface, note)

    async def cold() -> None:
        workers = Workers()
        async with await aio.launch(environment, task=subject.task, workers=workers):
            pass
        workers.stop()

    yield figure("load an environment", await our_meter().repeat(5, cold), "first instance, zygote warm")
    async with await aio.launch(environment, task=subject.task) as instance:
        opened: list[aio.Instance] = []

        async def new() -> None:
            opened.append(await aio.launch(environment, task=subject.task))

        yield figure("new instance", await our_meter().repeat(min(repeat, 100), new))
        await asyncio.gather(*(other.close() for other in opened))
        yield figure("reset", await our_meter().repeat(repeat, instance.reset))
        tool, arguments = subject.read
        yield figure("call", await our_meter().repeat(repeat, lambda: instance.call_tool(tool, arguments)))
        await instance.reset()
        for call in task.solution or ():
            await instance.call_tool(call.tool, call.arguments)
        snapshot = await instance.snapshot()
        yield figure("snapshot", await our_meter().repeat(repeat, instance.snapshot))
        yield figure("restore", await our_meter().repeat(repeat, lambda: instance.restore(snapshot)))

        async def fork() -> None:
            await (await instance.fork()).close()

        yield figure("fork", await our_meter().repeat(min(repeat, 100), fork), "with closing it")
        yield figure("diff", await our_meter().repeat(min(repeat, 50), instance.diff))
        await instance.submit(None)
        trajectory = await instance.trajectory()
        await judge_async(trajectory)
        yield figure("judge", await our_meter().repeat(min(repeat, 30), lambda: judge_async(trajectory)))
    current_workers().stop()


async def density(subject: Subject, counts: Sequence[int]) -> AsyncIterator[Figure]:
    """Memory per live instance of one environment, as their number grows; each has answered one call."""
    for count in counts:
        before = private_mb(our_processes())
        async with LocalPool(most_instances=count) as pool:
            started = time.perf_counter()
            instances = await asyncio.gather(*(pool.acquire(subject.environment, seed=n) for n in range(count)))
            seconds = time.perf_counter() - started
            await pool.call([_read(subject, instance) for instance in instances])
            used = private_mb(our_processes())
            workers = pool.usage.workers
        yield Figure(
            name="memory per instance",
            way="ours",
            environment=subject.interface,
            unit="MB",
            value=(used - before) / count,
            count=count,
            note=f"{workers} workers; all processes {used:.0f} MB; opened in {seconds:.2f} s",
        )


async def throng(subject: Subject, *, environments: int, instances: int, calls: int) -> AsyncIterator[Figure]:
    """Many instances over many environments: copies under other ids, each with processes of its own."""
    copies = [
        dataclasses.replace(subject.environment, id=f"copy_{n}", content_hash=f"{n:064x}") for n in range(environments)
    ]
    async with LocalPool(limits=Limits(instances_per_worker=max(1, instances // environments))) as pool:
        started = time.perf_counter()
        live = await asyncio.gather(*(pool.acquire(copies[n % environments], seed=n) for n in range(instances)))
        opened_s = time.perf_counter() - started
        note = f"{instances} over {environments} environments, loading included"
        yield _amount("open instances", subject, "s", opened_s, instances, note)
        meter = our_meter()
        await meter.repeat(calls, lambda: pool.call([_read(subject, instance) for instance in live]))
        total = instances * calls
        cpu = meter.cpu_s / total * 1e3
        yield dataclasses.replace(
            _amount("calls per second", subject, "1/s", total / sum(meter.times), total, f"{instances} live instances"),
            cpu=cpu,
        )
        yield _amount("calls per second and core", subject, "1/s", 1e3 / cpu, total, "from CPU time")
        yield _amount("memory of all processes", subject, "MB", private_mb(our_processes()), instances, note)


def _amount(name: str, subject: Subject, unit: str, value: float, count: int, note: str) -> Figure:
    return Figure(name=name, way="ours", environment=subject.interface, unit=unit, value=value, count=count, note=note)


def _read(subject: Subject, instance: aio.Instance) -> PoolCall:
    tool, arguments = subject.read
    return PoolCall(instance=instance, tool=tool, arguments=arguments)


def our_meter() -> Meter:
    """A meter over this process, the zygote and the workers."""
    return Meter(our_processes)

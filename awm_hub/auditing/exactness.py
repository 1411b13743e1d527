"""Whether instances are exact: alone, in turn with another, restored, reset, and in a second process.

One series of calls, without resets in between, is carried out in several ways; results and databases must be the same
each time. State that a module keeps outside its database shows here, however well it hides.

Most environments are exact: all ways are first tried at once, in one second process. Only where something differs there
is each way gone by itself, to find out which one it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from awm_hub import aio
from awm_hub.auditing.case import Case, Probe
from awm_hub.runtime.workers import Workers
from awm_hub.trajectory import ToolResult

_MOST_CALLS = 80


@dataclass(frozen=True, kw_only=True)
class Exactness:
    """What was found; None where there was nothing to call."""

    is_deterministic: bool | None
    has_hidden_state: bool | None
    final: bytes
    """The database after the series."""


async def check_exactness(case: Case, probes: Sequence[Probe]) -> Exactness:
    """Carry a series out in five ways, with findings."""
    series = _series(probes)
    # where hidden state is known, the runtime gives each instance a process; here they are to share one
    shared = replace(case, environment=replace(case.environment, quality=None))
    first, final = await _alone(shared, series)
    if await _is_exact(shared, series, first, final):
        _hear(case, series, first)
        is_known = bool(series)
        return Exactness(
            is_deterministic=True if is_known else None, has_hidden_state=False if is_known else None, final=final
        )
    second, again = await _in_new_process(shared, series)
    is_deterministic = first == second and final == again
    if not is_deterministic:
        case.note("nondeterministic", _culprit(series, first, second), "the same calls in two processes differ")
    if not is_deterministic:
        return Exactness(is_deterministic=False, has_hidden_state=None, final=final)
    is_separate = await _check_in_turn(shared, series, first)
    await _check_restore(shared, series, first)
    if not series:
        return Exactness(is_deterministic=None, has_hidden_state=None, final=final)
    return Exactness(is_deterministic=True, has_hidden_state=not is_separate, final=final)


async def _is_exact(case: Case, series: Sequence[Probe], expected: Sequence[ToolResult], final: bytes) -> bool:
    """Whether everything is the same in a second process, where instances take turns, are restored and reset."""
    unheard = replace(case.unheard(), workers=Workers())
    half = len(series) // 2
    try:
        async with await unheard.launch() as one, await unheard.launch() as other:
            begun = await one.image()
            results: tuple[list[ToolResult], list[ToolResult]] = ([], [])
            snapshot = await one.snapshot()
            for at, probe in enumerate(series):
                if at == half:
                    snapshot = await one.snapshot()
                results[0].append(await unheard.call(one, probe.tool, probe.arguments))
                if at:
                    results[1].append(await unheard.call(other, series[at - 1].tool, series[at - 1].arguments))
            are_same = results[0] == list(expected) and results[1] == list(expected[: len(results[1])])
            if not are_same or await one.image() != final:
                return False
            await one.restore(snapshot)
            if await _run(unheard, one, series[half:]) != list(expected[half:]):
                return False
            await one.reset()
            return await one.image() == begun and await _run(unheard, one, series[:half]) == list(expected[:half])
    finally:
        unheard.workers.stop()


def _hear(case: Case, series: Sequence[Probe], results: Sequence[ToolResult]) -> None:
    """Count the calls of all ways, in the order in which they are made one by one."""
    pairs = list(zip(series, results, strict=True))
    half = len(pairs) // 2
    turns = [pair for at, found in enumerate(pairs) for pair in (found, pairs[at - 1])[: 2 if at else 1]]
    for probe, result in (*pairs, *turns, *pairs, *pairs[half:], *pairs[:half]):
        case.hear(probe.tool, probe.arguments, result)


def _series(probes: Sequence[Probe]) -> list[Probe]:
    """Calls worth repeating: every tool's first ones, spread over the series."""
    by_tool: dict[str, list[Probe]] = {}
    for probe in probes:
        by_tool.setdefault(probe.tool, []).append(probe)
    rounds = [[found[n] for found in by_tool.values() if n < len(found)] for n in range(4)]
    return [probe for calls in rounds for probe in calls][:_MOST_CALLS]


async def _run(case: Case, instance: aio.Instance, series: Sequence[Probe]) -> list[ToolResult]:
    return [await case.call(instance, probe.tool, probe.arguments) for probe in series]


async def _alone(case: Case, series: Sequence[Probe]) -> tuple[list[ToolResult], bytes]:
    async with await case.launch() as instance:
        return await _run(case, instance, series), await instance.image()


async def _in_new_process(case: Case, series: Sequence[Probe]) -> tuple[list[ToolResult], bytes]:
    elsewhere = replace(case, workers=Workers())
    try:
        found = await _alone(elsewhere, series)
    finally:
        elsewhere.workers.stop()
    return found


async def _check_in_turn(case: Case, series: Sequence[Probe], expected: Sequence[ToolResult]) -> bool:
    """Two instances of one process, the second a call behind the first."""
    async with await case.launch() as one, await case.launch() as other:
        results: tuple[list[ToolResult], list[ToolResult]] = ([], [])
        for at, probe in enumerate(series):
            results[0].append(await case.call(one, probe.tool, probe.arguments))
            if at:
                before = series[at - 1]
                results[1].append(await case.call(other, before.tool, before.arguments))
    is_same = results[0] == list(expected) and results[1] == list(expected[: len(results[1])])
    if not is_same:
        differing = results[0] if results[0] != list(expected) else results[1]
        case.note("instances_mix", _culprit(series, expected, differing), "it answers otherwise beside a twin")
    return is_same


async def _check_restore(case: Case, series: Sequence[Probe], expected: Sequence[ToolResult]) -> None:
    half = len(series) // 2
    async with await case.launch() as instance:
        begun = await instance.image()
        await _run(case, instance, series[:half])
        snapshot = await instance.snapshot()
        await _run(case, instance, series[half:])
        await instance.restore(snapshot)
        again = await _run(case, instance, series[half:])
        if again != list(expected[half:]):
            case.note("restore_inexact", _culprit(series[half:], expected[half:], again), "after a restore it differs")
        await instance.reset()
        is_new = await instance.image() == begun
        if not is_new or await _run(case, instance, series[:half]) != list(expected[:half]):
            case.note("reset_inexact", "", "after a reset it differs")


def _culprit(series: Sequence[Probe], one: Sequence[ToolResult], other: Sequence[ToolResult]) -> str:
    """The tool whose result differs first; empty where only the databases do."""
    pairs = zip(series, one, other, strict=False)
    return next((probe.tool for probe, first, second in pairs if first != second), "")

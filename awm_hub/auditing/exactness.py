"""Whether instances are exact: alone, in turn with another, restored, reset, and in a second process.

One series of calls, without resets in between, is carried out in several ways; results and databases must be the same
each time. State that a module keeps outside its database shows here, however well it hides.
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

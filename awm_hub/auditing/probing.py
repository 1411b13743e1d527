"""Every tool is called: with plausible arguments, then with odd ones.

Each call begins from the seed, so that one cannot spoil the next. A fault is the environment's failure whatever the
arguments were; a refusal is an answer.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from awm_hub import aio
from awm_hub.auditing.case import Case, Probe
from awm_hub.auditing.examples import example_calls, further_calls, odd_calls
from awm_hub.canonical import to_json
from awm_hub.environment import ToolSpec
from awm_hub.trajectory import ToolResult

_READ_ONLY = "readonly database"
_MAX_ODD_CALLS = 60
_SHOWN_CHARS = 160


async def probe_tools(case: Case) -> list[Probe]:
    """Call every tool with its examples; findings on faults and effects."""
    probes: list[Probe] = []
    async with await case.launch() as instance:
        for tool in case.environment.tools:
            calls = example_calls(case.environment, tool, case.seed)
            found = [await _probe(case, instance, tool, arguments) for arguments in calls]
            for arguments in further_calls(tool, case.seed):
                if tool.name in case.answered:
                    break
                found.append(await _probe(case, instance, tool, arguments))
            _note_tool(case, tool, found)
            probes += found
    return probes


async def _probe(case: Case, instance: aio.Instance, tool: ToolSpec, arguments: Mapping[str, Any]) -> Probe:
    await instance.reset()
    return Probe(tool=tool.name, arguments=arguments, result=await case.call(instance, tool.name, arguments))


def note_untried(case: Case, probes: Iterable[Probe]) -> None:
    """Say which tools never answered, whether to examples or in a solution; to be called when all has been tried."""
    for probe in probes:
        name = probe.tool
        if (
            name not in case.answered
            and not case.has("tool_never_answers", name)
            and not case.has("tool_untried", name)
        ):
            case.note("tool_untried", name, f"for example {_shown(probe)}")


def _note_tool(case: Case, tool: ToolSpec, probes: Sequence[Probe]) -> None:
    faults = [p for p in probes if p.result.type == "fault"]
    note_false_effect(case, tool, faults)
    faults = [p for p in faults if not is_write_attempt(p.result)]
    answered = any(p.result.type == "ok" for p in probes)
    is_broken = any(p.result.code != "IntegrityError" for p in faults)  # what exists already may still be added anew
    if is_broken and not answered:
        case.note("tool_never_answers", tool.name, _shown(faults[0]))
    elif faults:
        case.note("tool_fault", tool.name, _shown(faults[0]), severity=None if case.is_own_form else "warning")


def note_false_effect(case: Case, tool: ToolSpec, faults: Iterable[Probe]) -> None:
    """Say where a read tool tried to write."""
    for probe in faults:
        if tool.effect == "read" and is_write_attempt(probe.result):
            case.note("false_effect", tool.name, _shown(probe))
            return


def is_write_attempt(result: ToolResult) -> bool:
    """Whether a call failed because it may not write: the runtime opens the database for reading only then."""
    return result.type == "fault" and _READ_ONLY in result.message


async def probe_oddly(case: Case, probes: Sequence[Probe]) -> list[Probe]:
    """Call every tool that answered once with one odd argument at a time."""
    found: list[Probe] = []
    if not case.is_own_form:
        return found
    async with await case.launch() as instance:
        for tool in case.environment.tools:
            plain = next((p.arguments for p in probes if p.tool == tool.name and p.result.is_ok), None)
            if plain is not None:
                found += await _probe_one_oddly(case, instance, tool, plain)
    return found


async def _probe_one_oddly(case: Case, instance: aio.Instance, tool: ToolSpec, plain: Mapping[str, Any]) -> list[Probe]:
    found = []
    for name, arguments in list(odd_calls(tool, plain))[:_MAX_ODD_CALLS]:
        await instance.reset()
        result = await case.call(instance, tool.name, arguments)
        probe = Probe(tool=tool.name, arguments=arguments, result=result, odd=name)
        found.append(probe)
        note_false_effect(case, tool, [probe])
        if result.type == "fault" and not is_write_attempt(result):
            case.note("fuzz_fault", tool.name, _shown(probe))
            break
    return found


def _shown(probe: Probe) -> str:
    arguments = to_json(dict(probe.arguments))
    arguments = arguments if len(arguments) <= _SHOWN_CHARS else arguments[: _SHOWN_CHARS - 1] + "…"
    return f"{probe.tool}({arguments}) is {probe.result.type} {probe.result.code}: {probe.result.message}"

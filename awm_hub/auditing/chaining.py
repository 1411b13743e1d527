"""Tools that refuse every example may need a state that the sample data does not hold.

An order is resumed once it is on hold, a reservation released once it is made. So each tool that never answered is
called after another tool that writes did its work, with the arguments and the ids that the two have in common, and
with today and later days where it asks for days. One step of preparation is tried, and all from the seed each time.
"""

import datetime as dt
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from awm_hub import aio
from awm_hub.auditing.case import Case, Probe
from awm_hub.auditing.examples import further_calls, properties_of, singular
from awm_hub.environment import ToolSpec

_EXAMPLES = 24
"""Of a tool's own, with and without a step before."""
_PREPARED = 3
"""Of a tool's own, after each step before."""
_STEPS = 4
"""Of each writing tool."""


async def probe_after_others(case: Case, probes: Iterable[Probe]) -> None:
    """Try the tools that never answered again; one that answers is no longer untried."""
    if not case.is_own_form:
        return
    untried = [tool for tool in case.environment.tools if tool.name not in case.answered]
    steps = list(_steps(case, probes))
    async with await case.launch() as instance:
        for tool in untried:
            await _try(case, instance, tool, steps)


def _steps(case: Case, probes: Iterable[Probe]) -> Iterator[Probe]:
    """Calls of each writing tool that were answered; those of solutions are among them."""
    writing = {tool.name for tool in case.environment.tools if tool.effect == "write"}
    seen = Counter[str]()
    for probe in probes:
        if probe.tool in writing and probe.result.is_ok and seen[probe.tool] < _STEPS:
            seen[probe.tool] += 1
            yield probe


async def _try(case: Case, instance: aio.Instance, tool: ToolSpec, steps: Sequence[Probe]) -> None:
    own = [*itertools.islice(further_calls(tool, case.seed), _EXAMPLES)]
    for arguments in own:
        await instance.reset()
        if (await case.call(instance, tool.name, _soon(case, tool, arguments))).is_ok:
            return
    for step in steps:
        for arguments in own[:_PREPARED]:
            await instance.reset()
            done = await instance.call_tool(step.tool, step.arguments)
            shared = _shared(tool, step, done.value)
            if not done.is_ok or not shared:
                break
            if (await case.call(instance, tool.name, _soon(case, tool, {**arguments, **shared}))).is_ok:
                return


def _soon(case: Case, tool: ToolSpec, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments with days from today on, three apart, so that what ends comes after what begins."""
    days = [
        name
        for name, schema in properties_of(tool.input_schema).items()
        if schema.get("type") == "string" and "YYYY-MM-DD" in str(schema.get("description", "")) and name in arguments
    ]
    soon = {name: (case.seed.today + dt.timedelta(days=3 * i)).isoformat() for i, name in enumerate(days)}
    return {**arguments, **soon}


def _shared(tool: ToolSpec, step: Probe, made: Any) -> dict[str, Any]:
    """What a tool's arguments have in common with those of the step before, and with what that made."""
    names = properties_of(tool.input_schema)
    found = {name: value for name, value in step.arguments.items() if name in names}
    if isinstance(made, Mapping):
        found |= {name: value for name, value in made.items() if name in names and name.endswith("_id")}
        key = made.get("id")
        nouns = {singular(word) for word in step.tool.split("_")}
        found |= {n: key for n in names if key is not None and n.endswith("_id") and singular(n[:-3]) in nouns}
    return found

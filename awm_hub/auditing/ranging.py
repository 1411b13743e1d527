"""What parameters say of their values, tried at the edges: `1 to 50`, `not in the future`, `today or later`.

A value within what is said must not be refused as invalid, one beyond it must not be accepted. Other refusals are
answers of the business and tell nothing about the range. Refusals state ranges too (`title must be a text of 1 to 80
characters`): those are held to their own words.
"""

import datetime as dt
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from awm_hub import aio
from awm_hub.auditing.asking import is_day, plain_type, stated_range
from awm_hub.auditing.case import Case, Probe
from awm_hub.auditing.examples import LONGEST, properties_of
from awm_hub.environment import ToolSpec
from awm_hub.trajectory import ToolResult

_NOT_FUTURE = re.compile(r"\bnot in the future\b|\btoday or earlier\b", re.IGNORECASE)
_NOT_PAST = re.compile(r"\bnot in the past\b|\btoday or later\b", re.IGNORECASE)
_REFUSALS = {
    "characters": re.compile(r"\b(\d{1,9}) to (\d{1,9}) characters"),
    "years": re.compile(r"\bYYYY\S* between (\d{4}) and (\d{4})\b"),
    "numbers": re.compile(r"\bmust be between (\d{1,9}) and (\d{1,9})\b"),
}
_EDGES: dict[str, Callable[[int], Any]] = {
    "characters": lambda number: "x" * number,
    "years": lambda number: f"{number:04}-06-15",
    "numbers": lambda number: number,
}


async def check_ranges(case: Case, probes: Sequence[Probe], odd: Sequence[Probe] = ()) -> None:
    """Try the edges of every stated range, from calls that were answered; those in `odd` may have been refused."""
    if not case.is_own_form:
        return
    async with await case.launch() as instance:
        for refused in _stating(odd):
            await _check_refusal(case, instance, refused)
        for tool in case.environment.tools:
            plain = next((p.arguments for p in probes if p.tool == tool.name and p.result.is_ok), None)
            if plain is None:
                continue
            for name, value, is_within in _edges(case, tool):
                await instance.reset()
                result = await case.call(instance, tool.name, {**plain, name: value})
                if _contradicts(result, is_within):
                    told = str(properties_of(tool.input_schema)[name].get("description", ""))
                    what = f"refused: {result.message}" if is_within else "accepted"
                    case.note("range_wrong", tool.name, f"{name}={value!r} is {what}; it says: {told}")


def _stating(odd: Sequence[Probe]) -> list[Probe]:
    """Refusals that state a range, one for each parameter."""
    found: dict[tuple[str, str | None], Probe] = {}
    for probe in odd:
        if probe.result.code == "invalid" and _refusal_range(probe.result.message):
            found.setdefault((probe.tool, probe.odd), probe)
    return list(found.values())


def _refusal_range(message: str) -> tuple[str, int, int] | None:
    """What a refusal states: `characters`, `years` or `numbers`, the least and the most."""
    for what, pattern in _REFUSALS.items():
        if stated := pattern.search(message):
            return what, int(stated[1]), int(stated[2])
    return None


async def _check_refusal(case: Case, instance: aio.Instance, refused: Probe) -> None:
    stated, name = _refusal_range(refused.result.message), refused.odd
    is_text = isinstance(refused.arguments.get(str(name)), str)
    if stated is None or name is None or is_text == (stated[0] == "numbers"):
        return
    what, least, most = stated
    if what == "characters" and most > LONGEST:
        return
    for number, is_within in ((least, True), (most, True), (least - 1, False), (most + 1, False)):
        if what != "numbers" and number < 1:  # an empty text may stand for none at all
            continue
        value = _EDGES[what](number)
        await instance.reset()
        result = await case.call(instance, refused.tool, {**refused.arguments, name: value})
        is_refused_so = result.type == "refused" and _refusal_range(result.message) == stated
        if is_refused_so if is_within else result.is_ok:
            shown = repr(value) if len(str(value)) < 40 else f"a text of {number} characters"
            told = (
                f"{name}={shown} is {'refused' if is_within else 'accepted'}; a refusal says: {refused.result.message}"
            )
            case.note("range_wrong", refused.tool, told)
            return


def _contradicts(result: ToolResult, is_within: bool) -> bool:
    if is_within:
        return result.type == "invalid_call" or (result.type == "refused" and result.code == "invalid")
    return result.is_ok


def _edges(case: Case, tool: ToolSpec) -> Iterator[tuple[str, Any, bool]]:
    """Parameter, value, and whether the value is within what the description says."""
    for name, schema in properties_of(tool.input_schema).items():
        kind = plain_type(schema)
        if kind in ("integer", "number") and (stated := stated_range(schema)):
            least, most = stated
            yield from ((name, value, True) for value in (least, most))
            yield from ((name, value, False) for value in (least - 1, most + 1))
        elif kind == "string" and is_day(schema):
            yield from ((name, value, is_within) for value, is_within in _days(case, schema))


def _days(case: Case, schema: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
    told = str(schema.get("description", ""))
    today = case.environment.clock.date()
    one = dt.timedelta(days=1)
    if _NOT_FUTURE.search(told):
        yield from ((today.isoformat(), True), ((today + one).isoformat(), False))
    if _NOT_PAST.search(told):
        yield from ((today.isoformat(), True), ((today - one).isoformat(), False))

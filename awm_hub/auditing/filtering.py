"""Filters, bounds and limits: answers of one tool compared with each other.

A filter gives a part of what there is without it: the part in which the field of its name has its value. A bound is a
comparison with some field of the rows; which one shows when it is moved from row to row. A limit cuts the list and
changes nothing else. Nothing here knows what a tool is for, only what its parameters are called and say.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from awm_hub.auditing.asking import Asker, Row, choices_of, is_day, plain_type, widest
from awm_hub.auditing.case import Case
from awm_hub.auditing.examples import ABSENT_NUMBER, ABSENT_TEXT, example_calls
from awm_hub.canonical import to_json

_MOST_VALUES = 10
_SMALL_NUMBERS = (1, 5, 10, 20, 50)
_NARROWING = re.compile(r"^(only|needs|requires|must|is|has)_")
_INCLUSIVE = re.compile(
    r"\b(on or|at (least|most)|last|first|up to|until|not before|not after|from|earliest|latest|since|to include)\b",
    re.I,
)
_STRICT = re.compile(
    r"(?<!on or )(?<!not )\b(before|after|earlier than|later than|more than|less than|fewer than)\b", re.I
)
_FILTERING = re.compile(rf"\bonly\b|{_INCLUSIVE.pattern}|{_STRICT.pattern}", re.IGNORECASE)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


async def check_answers(case: Case) -> None:
    """Compare the answers of every tool that only reads and lists rows."""
    tools = case.read_tools()
    if not tools:
        return
    async with await case.launch() as instance:
        for tool in tools:
            asker = Asker(case, instance, tool)
            base = await widest(asker, example_calls(case.environment, tool, case.seed))
            if base is None:
                continue
            whole = await asker.rows(base) or []
            await _check_limit(asker, base, whole)
            for name, schema in asker.properties.items():
                if name != asker.limit and plain_type(schema) in ("string", "integer", "number", "boolean"):
                    await _check_filter(asker, base, whole, name)


async def _check_limit(asker: Asker, base: Mapping[str, Any], whole: Sequence[Row]) -> None:
    name = asker.limit
    if name is None or len(whole) < 2:
        return
    for limit in {1, 2, len(whole) - 1, len(whole)}:
        found = await asker.rows({**base, name: limit})
        if found is None:
            continue
        if len(found) != limit:
            told = f"{name}={limit} gives {len(found)} of {len(whole)} rows"
            asker.case.note("limit_wrong", asker.tool.name, told)
            return
        if list(found) != list(whole[:limit]):
            asker.case.note("limit_wrong", asker.tool.name, f"{name}={limit} gives other rows than the first ones")
            return


async def _check_filter(asker: Asker, base: Mapping[str, Any], whole: Sequence[Row], name: str) -> None:
    answers: dict[str, list[Row]] = {}
    values = _values(asker, whole, name)
    for value in values:
        found = await asker.rows({**base, name: value})
        if found is not None:
            answers[to_json(value)] = list(found)
    pairs = [(value, answers[to_json(value)]) for value in values if to_json(value) in answers]
    if name in base:
        whole = _union(rows for _, rows in pairs)
    if _is_ignored(asker, name, pairs, whole):
        told = f"{name} is ignored: {len(pairs)} values give the same {len(pairs[0][1])} rows"
        asker.case.note("filter_ignored", asker.tool.name, told)
        return
    if name not in base and not _check_part(asker, base, whole, name, pairs):
        return
    if not _check_field(asker, name, pairs, whole, is_cut=_is_cut(asker, base, whole)):
        return
    await _check_bound(asker, base, whole, name)


def _values(asker: Asker, whole: Sequence[Row], name: str) -> list[Any]:
    """Values to filter by: all of an enumeration, else some that rows have and one that none has."""
    schema = asker.properties[name]
    if choices := choices_of(schema):
        return choices[:_MOST_VALUES]
    kind = plain_type(schema)
    if kind == "boolean":
        return [False, True]
    seen = [row[field] for row in whole if (field := _field(name, whole)) and row.get(field) is not None]
    columns = (value for column in asker.case.seed.values(name, asker.tool.name) for value in column)
    fitting = [value for value in (*seen, *columns) if _is_of(kind, value)]
    found = list(dict.fromkeys(fitting))[:_MOST_VALUES]
    if is_day(schema):
        return [*found, "2000-01-01", "2099-12-31"]
    return [*found, ABSENT_TEXT] if kind == "string" else [*(found or _SMALL_NUMBERS), ABSENT_NUMBER]


def _is_of(kind: str | None, value: Any) -> bool:
    if kind == "string":
        return isinstance(value, str)
    return isinstance(value, int | float) and not isinstance(value, bool) and (kind == "number" or type(value) is int)


def _field(name: str, rows: Sequence[Row]) -> str | None:
    """The field of the rows that a parameter is about: the one with its name, or a code or id of it."""
    fields = rows[0].keys() if rows else ()
    return next((field for field in (name, f"{name}_code", f"{name}_id") if field in fields), None)


def _union(groups: Any) -> list[Row]:
    found: dict[str, Row] = {}
    for rows in groups:
        for row in rows:
            found.setdefault(to_json(row), row)
    return list(found.values())


def _is_ignored(asker: Asker, name: str, pairs: Sequence[tuple[Any, list[Row]]], whole: Sequence[Row]) -> bool:
    """Whether every value gives the same rows, and at least two of them would have to differ."""
    if len(pairs) < 2 or len(whole) < 2:
        return False
    schema = asker.properties[name]
    if is_day(schema) and not _FILTERING.search(str(schema.get("description", ""))):
        return False
    first = pairs[0][1]
    if not first or any(rows != first for _, rows in pairs):
        return False
    return plain_type(schema) != "boolean" or bool(_NARROWING.match(name))


def _is_cut(asker: Asker, base: Mapping[str, Any], whole: Sequence[Row]) -> bool:
    """Whether the widest answer may have been cut by its limit."""
    return asker.limit is not None and len(whole) >= int(base.get(asker.limit, 0) or 0)


def _check_part(
    asker: Asker, base: Mapping[str, Any], whole: Sequence[Row], name: str, pairs: Sequence[tuple[Any, list[Row]]]
) -> bool:
    """A filter that is left out by default gives rows that are there without it."""
    default = asker.properties[name].get("default")
    is_flag = plain_type(asker.properties[name]) == "boolean"
    if default not in (None, "", False) or _is_cut(asker, base, whole) or (is_flag and not _NARROWING.match(name)):
        return True
    known = {_identity(row) for row in whole}
    for value, rows in pairs:
        beyond = [row for row in rows if _identity(row) not in known]
        if beyond:
            told = f"{name}={to_json(value)} gives rows that are not there without it: {to_json(beyond[0])[:200]}"
            asker.case.note("filter_mismatch", asker.tool.name, told)
            return False
    return True


def _identity(row: Row) -> str:
    return to_json(row["id"]) if "id" in row else to_json(dict(row))


def _check_field(
    asker: Asker, name: str, pairs: Sequence[tuple[Any, list[Row]]], whole: Sequence[Row], *, is_cut: bool
) -> bool:
    """Rows have the value that was asked for, and rows that have it are there."""
    field = _field(name, whole)
    if field is None or plain_type(asker.properties[name]) == "boolean":
        return True
    is_search = plain_type(asker.properties[name]) == "string" and not choices_of(asker.properties[name])
    for value, rows in pairs:
        wrong = [row for row in rows if not _fits(row.get(field), value, is_search)]
        if wrong:
            told = f"{name}={to_json(value)} gives a row with {field} {to_json(wrong[0].get(field))}"
            asker.case.note("filter_mismatch", asker.tool.name, told)
            return False
        given = {_identity(row) for row in rows}
        missed = [row for row in whole if row.get(field) == value and _identity(row) not in given]
        if missed and not is_cut:
            told = f"{name}={to_json(value)} leaves out a row that has it: {to_json(missed[0])[:200]}"
            asker.case.note("filter_mismatch", asker.tool.name, told)
            return False
    return True


def _fits(found: Any, value: Any, is_search: bool) -> bool:
    if isinstance(found, list):
        return value in found
    if is_search and isinstance(found, str):
        return str(value).casefold() in found.casefold()
    return bool(found == value)


async def _check_bound(asker: Asker, base: Mapping[str, Any], whole: Sequence[Row], name: str) -> None:
    """Find the field that a parameter bounds, and whether a row on the bound is there as the description says."""
    told = str(asker.properties[name].get("description", ""))
    kind = plain_type(asker.properties[name])
    inclusive, strict = bool(_INCLUSIVE.search(told)), bool(_STRICT.search(told))
    is_bound = is_day(asker.properties[name]) or (kind in ("integer", "number") and (inclusive or strict))
    if not is_bound or inclusive == strict or len(whole) < 3:
        return
    found = {}
    for field in whole[0]:
        values = [_comparable(row.get(field), kind) for row in whole]
        if len({v for v in values if v is not None}) >= 3:
            operators = await _operators(asker, base, whole, name, field)
            if operators:
                found[field] = operators
    is_wrong = {o in ("<", ">") for o in found.values()} == {inclusive}
    if found and is_wrong:
        field, operator = next(iter(found.items()))
        asker.case.note("bound_wrong", asker.tool.name, f"{name}: rows have {field} {operator} it; it says: {told}")


async def _operators(asker: Asker, base: Mapping[str, Any], whole: Sequence[Row], name: str, field: str) -> str | None:
    """The comparison with this field that explains all answers; None where none does."""
    kind = plain_type(asker.properties[name])
    values = sorted({v for row in whole if (v := _comparable(row.get(field), kind)) is not None})
    possible = set(_COMPARISONS)
    for value in values[:: max(1, len(values) // 6)]:
        rows = await asker.rows({**base, name: value})
        if rows is None:
            return None
        given = {_identity(row) for row in rows}
        for operator in list(possible):
            wanted = {_identity(row) for row in whole if _holds(operator, _comparable(row.get(field), kind), value)}
            if wanted != given:
                possible.discard(operator)
    return possible.pop() if len(possible) == 1 else None


_COMPARISONS = {
    "<=": lambda one, other: one <= other,
    "<": lambda one, other: one < other,
    ">=": lambda one, other: one >= other,
    ">": lambda one, other: one > other,
}


def _holds(operator: str, one: Any, other: Any) -> bool:
    return one is not None and bool(_COMPARISONS[operator](one, other))


def _comparable(value: Any, kind: str | None) -> Any:
    """A day, or a number, to compare with; None for anything else."""
    if kind == "string":
        return value[:10] if isinstance(value, str) and _DATE.match(value) else None
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None

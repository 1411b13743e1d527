"""What calls leave in the database: broken links, rows that refer to nothing, dates in another form.

Where all sample rows of a table agree in something (a payment's member is its charge's member), rows that a call adds
should agree too. Ids that do not belong together are tried on purpose: a check that is missing, or looks at the wrong
owner, lets them pass.
"""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from awm_hub.auditing.case import Case, Probe
from awm_hub.auditing.examples import Filling, properties_of
from awm_hub.canonical import to_json
from awm_hub.environment import ToolSpec
from awm_hub.runtime import jobs

_ALL_ROWS = 2**31
_LEAST_ROWS = 4
_MOST_PAIRS = 24
_LINKS = """
SELECT m.name AS child, f."from" AS link, f."table" AS parent, f."to" AS target FROM sqlite_master m
JOIN pragma_foreign_key_list(m.name) f WHERE m.type = 'table'"""
_DANGLING = 'SELECT "table" AS child, parent, count(*) AS count FROM pragma_foreign_key_check GROUP BY 1, 2'
_FORMS = {
    "YYYY-MM-DD": r"\d{4}-\d{2}-\d{2}",
    "YYYY-MM-DDTHH:MM": r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}",
    "YYYY-MM-DD HH:MM": r"\d{4}-\d{2}-\d{2} \d{2}:\d{2}",
    "YYYY-MM-DDTHH:MM:SS": r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}",
    "YYYY-MM-DD HH:MM:SS": r"\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}",
    "with fractions or zone": r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:?\d{2})?",
}


async def check_ending(case: Case, final: bytes) -> None:
    """Look at the database after a long series of calls."""
    dumped = await jobs.dump(final, max_rows=_ALL_ROWS, trust_remote_code=case.is_trusted, fork=case.reading)
    for table, rows in dumped.items():
        for at, column in enumerate(rows["columns"]) if table in case.seed.tables else ():
            _check_form(case, table, column, [row[at] for row in rows["rows"]])
    for found in await _query(case, final, _DANGLING):
        told = f"{found['count']} rows of {found['child']} refer to rows of {found['parent']} that are not there"
        if not case.has("foreign_key"):
            case.note("dangling_write", str(found["child"]), told)


def _check_form(case: Case, table: str, column: str, values: Sequence[Any]) -> None:
    before = {_form(value) for value in case.seed.column(table, column)}
    if len(before) != 1 or None in before:
        return
    for value in values:
        if value is not None and (form := _form(value)) not in before:
            told = f"{column} holds {value!r} ({form or 'no date'}) beside {', '.join(map(str, before))}"
            case.note("format_drift", f"{table}.{column}", told)
            return


def _form(value: Any) -> str | None:
    """The form of a date or time."""
    text = value if isinstance(value, str) else ""
    return next((name for name, pattern in _FORMS.items() if re.fullmatch(pattern, text)), None)


async def check_links(case: Case, probes: Sequence[Probe]) -> None:
    """Call tools that write with ids that do not belong together."""
    rules = [rule async for rule in _agreements(case)] if case.is_own_form else []
    if not rules:
        return
    async with await case.launch() as instance:
        for tool in case.environment.tools:
            for arguments in _mismatched(case, tool, probes) if tool.effect == "write" else ():
                await instance.reset()
                result = await case.call(instance, tool.name, arguments)
                if result.is_ok:
                    await _note_broken(case, tool, arguments, await instance.image(), rules)


async def _note_broken(
    case: Case, tool: ToolSpec, arguments: Mapping[str, Any], image: bytes, rules: Sequence[tuple[str, str]]
) -> None:
    every = " UNION ALL ".join(sql for _, sql in rules)
    for row in await _query(case, image, every):
        told = f"after {tool.name}({to_json(dict(arguments))[:160]}), {row['rule']} no longer holds"
        case.note("broken_link", tool.name, told)
        return


async def _agreements(case: Case) -> Any:
    """Rules that all sample rows keep: two ways from a row lead to the same parent."""
    links = await _query(case, case.environment.database, _LINKS)
    by_child: dict[str, list[Mapping[str, Any]]] = {}
    for link in links:
        by_child.setdefault(str(link["child"]), []).append(link)
    for child, own in by_child.items():
        for direct, via in itertools.permutations(own, 2):
            for far in by_child.get(str(via["parent"]), ()):
                if far["parent"] == direct["parent"]:
                    name = f"{child}.{direct['link']} = {child}.{via['link']} → {via['parent']}.{far['link']}"
                    if await _always_holds(case, rule := _rule(name, child, direct, via, far)):
                        yield rule


def _rule(
    name: str, child: str, direct: Mapping[str, Any], via: Mapping[str, Any], far: Mapping[str, Any]
) -> tuple[str, str]:
    words = [str(w).replace('"', '""') for w in (child, via["parent"], via["link"], via["target"] or "id")]
    one, other = str(direct["link"]).replace('"', '""'), str(far["link"]).replace('"', '""')
    told = name.replace("'", "''")
    table, parent, link, target = words
    return name, (
        f'SELECT \'{told}\' AS rule, count(*) AS count FROM "{table}" t JOIN "{parent}" p ON t."{link}" = p."{target}"'
        f' WHERE t."{one}" <> p."{other}" HAVING count(*) > 0'
    )


async def _always_holds(case: Case, rule: tuple[str, str]) -> bool:
    """Whether no sample row breaks a rule, and enough of them are under it."""
    _, sql = rule
    counted = sql.replace(" <> ", " = ")
    found = await _query(case, case.environment.database, counted)
    enough = bool(found) and int(found[0]["count"]) >= _LEAST_ROWS
    return enough and not await _query(case, case.environment.database, sql)


async def _query(case: Case, image: bytes, sql: str) -> list[dict[str, Any]]:
    try:
        return await jobs.query(
            image, sql, clock=case.environment.clock, trust_remote_code=case.is_trusted, fork=case.reading
        )
    except jobs.ImageError:
        return []


def _mismatched(case: Case, tool: ToolSpec, probes: Sequence[Probe]) -> Iterator[dict[str, Any]]:
    """A tool's plain arguments with every pair of its ids replaced by others of the seed."""
    plain = next((p.arguments for p in probes if p.tool == tool.name and p.result.is_ok), None)
    if plain is None:
        return
    names = [name for name in properties_of(tool.input_schema) if name.endswith("_id") and name in plain]
    if len(names) < 2:
        return
    tried = 0
    for one, other in itertools.permutations(names, 2):
        for row in range(_MOST_PAIRS // 2):
            made = Filling(case.seed, row=row).arguments(tool)
            turned = Filling(case.seed, row=row + 1 + tried % 5).arguments(tool)
            tried += 1
            if tried <= _MOST_PAIRS and one in made and other in turned:
                yield {**plain, one: made[one], other: turned[other]}

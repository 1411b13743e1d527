"""Answers compared with the tables: rows of other owners, and rows that say something else than the table.

An answer's list is taken for rows of a table where it bears the table's name and all its ids are there. What the agent
asked for by id (`customer_id=3`) must then be what those rows refer to, and fields named like columns must be equal.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from awm_hub.auditing.case import Case, Probe
from awm_hub.auditing.examples import singular
from awm_hub.canonical import to_json

_LEAST_SHARED = 2
"""Columns that rows without an id must share with a table to be taken for its rows."""

_LEAST_ANSWERS = 5


def check_rows(case: Case, probes: Sequence[Probe]) -> None:
    """Compare the answers of tools that only read, from the seed, with the tables."""
    reading = {tool.name for tool in case.read_tools()}
    for probe in probes:
        if probe.tool in reading and probe.result.is_ok:
            for table, rows in _lists(case, probe):
                _check_owner(case, probe, table, rows)
                _check_values(case, probe, table, rows)
            _check_parts(case, probe)
    for tool in case.read_tools():
        _check_constant(case, [p for p in probes if p.tool == tool.name and p.result.is_ok])


def _check_constant(case: Case, probes: Sequence[Probe]) -> None:
    """A count or a list of something's answer that is the same for every id that was asked for."""
    asked = {to_json(dict(p.arguments)): p.result.value for p in probes if len(p.arguments) == 1}
    answers = list(asked.values())
    if len(answers) < _LEAST_ANSWERS or not all(isinstance(value, dict) and "id" in value for value in answers):
        return
    columns = {name for table in case.seed.tables.values() for name in table["columns"]}
    for name, value in answers[0].items():
        is_told = (type(value) is int and value > 0) or (isinstance(value, list) and value)
        if is_told and name not in columns and all(other.get(name) == value for other in answers):
            case.note(
                "answer_constant", probes[0].tool, f"{name} is {to_json(value)[:120]} for all {len(answers)} asked"
            )
            return


def _lists(case: Case, probe: Probe) -> Iterator[tuple[str, list[Mapping[str, Any]]]]:
    """Lists of rows in an answer, with the table that they are rows of."""
    words = probe.tool.split("_")
    name = "_".join(words[1:])
    value = probe.result.value
    if isinstance(value, dict):
        yield from _known(case, name, [value])
        for key, part in value.items():
            yield from _known(case, key, [part] if isinstance(part, dict) else part)
    else:
        yield from _known(case, name, value)


def _known(case: Case, name: str, rows: Any) -> Iterator[tuple[str, list[Mapping[str, Any]]]]:
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) and "id" in row for row in rows):
        return
    for table in case.seed.tables:
        if singular(table) == singular(name) or singular(table).endswith(f"_{singular(name)}"):
            ids = set(map(to_json, case.seed.column(table, "id")))
            if ids and all(to_json(row["id"]) in ids for row in rows):
                yield table, rows
                return


def _check_owner(case: Case, probe: Probe, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
    stored = {to_json(row.get("id")): row for row in case.seed.rows(table)}
    columns = case.seed.tables[table]["columns"]
    for name, value in probe.arguments.items():
        if name.endswith("_id") and name in columns and isinstance(value, int | str):
            for row in rows:
                owner = stored[to_json(row["id"])][name]
                if owner != value:
                    told = f"{name}={value!r} gives a row of {table}, id {row['id']!r}, whose {name} is {owner!r}"
                    case.note("foreign_rows", probe.tool, told)
                    return


def _check_parts(case: Case, probe: Probe) -> None:
    """Lists inside an answer whose rows have no id: they are found in a table by what they hold."""
    value = probe.result.value
    for key, rows in value.items() if isinstance(value, dict) else ():
        if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) and "id" not in row for row in rows):
            continue
        for name, owner in probe.arguments.items():
            for table in _tables_of(case, key, name):
                shared = [c for c in case.seed.tables[table]["columns"] if c in rows[0] and c != name]
                stored = case.seed.rows(table)
                own = {_told(row, shared) for row in stored if row[name] == owner}
                every = {_told(row, shared) for row in stored}
                shown = [_told(row, shared) for row in rows]
                is_close = len(shared) >= _LEAST_SHARED or (shared and singular(key) == singular(table))
                if is_close and set(shown) <= every and not set(shown) <= own:
                    told = f"{name}={owner!r} gives rows of {table} in {key} whose {name} is another"
                    case.note("foreign_rows", probe.tool, told)
                    return


def _told(row: Mapping[str, Any], columns: Sequence[str]) -> str:
    """Some cells of a row; SQLite has no booleans, answers may."""
    cells = (row.get(column) for column in columns)
    return to_json([int(cell) if isinstance(cell, bool) else cell for cell in cells])


def _tables_of(case: Case, key: str, owner: str) -> Iterator[str]:
    """Tables with a column for the owner, whose name ends with the list's."""
    for table, found in case.seed.tables.items():
        if owner.endswith("_id") and owner in found["columns"] and singular(table).endswith(singular(key)):
            yield table


def _check_values(case: Case, probe: Probe, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
    stored = {to_json(row.get("id")): row for row in case.seed.rows(table)}
    for row in rows:
        kept = stored[to_json(row["id"])]
        for name, value in row.items():
            if name in kept and _differs(kept[name], value):
                told = (
                    f"{name} of {table}, id {row['id']!r}, is {kept[name]!r} in the table and {value!r} in the answer"
                )
                case.note("row_contradicts", probe.tool, told)
                return


def _differs(stored: Any, shown: Any) -> bool:
    """Whether two cells differ beyond their form: 0 and 1 are shown as booleans, texts as parts of themselves."""
    if isinstance(shown, bool | dict | list) or isinstance(stored, dict):
        return False
    if isinstance(stored, int | float) and isinstance(shown, int | float):
        return bool(stored != shown)
    return type(stored) is type(shown) and stored != shown

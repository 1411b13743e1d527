"""Asking read tools: calls without a trace, remembered, and the rows in their answers.

The rules about answers compare many calls of one tool with each other and with the tables. A tool that only reads
leaves the database as it is, so one instance serves them all.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from awm_hub import aio
from awm_hub.auditing.case import Case
from awm_hub.auditing.examples import properties_of, required_of
from awm_hub.canonical import to_json
from awm_hub.environment import ToolSpec
from awm_hub.trajectory import ToolResult

Row = Mapping[str, Any]
_LIMIT = re.compile(r"^(limit|max_results|page_size|per_page|top_n)$")
_SEARCH = re.compile(r"^(query|q|text|search|term|keyword)s?$")
_RANGE = re.compile(r"(?<![\d-])(\d{1,9}) to (\d{1,9})(?![\d-])")
_MOST = (1000, 200, 100, 50, 20)
EARLIEST, LATEST = "2000-01-01", "2099-12-31"


@dataclass
class Asker:
    """One tool that reads, and what it has answered."""

    case: Case
    instance: aio.Instance
    tool: ToolSpec
    _known: dict[str, ToolResult] = field(default_factory=dict)

    async def ask(self, arguments: Mapping[str, Any]) -> ToolResult:
        """The answer to a call; the same call is made once."""
        key = to_json(dict(arguments))
        if key not in self._known:
            self._known[key] = await self.case.call(self.instance, self.tool.name, arguments)
        return self._known[key]

    async def rows(self, arguments: Mapping[str, Any]) -> list[Row] | None:
        """The rows of an answer; none where the call was refused; None where the answer is no list of rows."""
        result = await self.ask(arguments)
        if result.type == "refused" and result.code == "not_found":
            return []
        return rows_of(result) if result.is_ok else None

    @property
    def properties(self) -> dict[str, Mapping[str, Any]]:
        """Schemas of its parameters."""
        return properties_of(self.tool.input_schema)

    @property
    def required(self) -> Sequence[str]:
        """Its required parameters."""
        return required_of(self.tool.input_schema)

    @property
    def limit(self) -> str | None:
        """The parameter that limits the number of rows."""
        known = self.properties.items()
        return next((name for name, schema in known if _LIMIT.match(name) and plain_type(schema) == "integer"), None)


def rows_of(result: ToolResult) -> list[Row] | None:
    """The answer as a list of objects; None where it is something else."""
    value = result.value
    if isinstance(value, list) and all(isinstance(row, dict) for row in value):
        return value
    return None


def stated_range(schema: Mapping[str, Any]) -> tuple[int, int] | None:
    """The range that a description states, as in `1 to 50`."""
    found = _RANGE.search(str(schema.get("description", "")))
    return (int(found[1]), int(found[2])) if found else None


def plain_type(schema: Mapping[str, Any]) -> str | None:
    """The JSON type of a parameter, null aside; None where there is no single one."""
    options = schema.get("anyOf")
    kinds = [o.get("type") for o in options if isinstance(o, Mapping)] if isinstance(options, list) else []
    kinds = [kind for kind in kinds if kind != "null"] or [schema.get("type")]
    return kinds[0] if len(kinds) == 1 and isinstance(kinds[0], str) else None


def choices_of(schema: Mapping[str, Any]) -> list[Any]:
    """The members of a parameter's enumeration."""
    options = schema.get("anyOf")
    for part in (schema, *(options if isinstance(options, list) else ())):
        if isinstance(part, Mapping) and isinstance(part.get("enum"), list):
            return list(part["enum"])
    return []


def is_day(schema: Mapping[str, Any]) -> bool:
    """Whether a parameter is a day, by its description or format."""
    told = str(schema.get("description", ""))
    return ("YYYY-MM-DD" in told and "YYYY-MM-DDT" not in told) or schema.get("format") == "date"


async def widest(asker: Asker, examples: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Arguments that give the most rows: required ones only, periods as wide as they can be, the largest limit.

    None where no answer is a list of rows.
    """
    best: dict[str, Any] | None = None
    count = -1
    for example in examples:
        for arguments in _widened(asker, example):
            found = await asker.rows(arguments)
            if found is not None and len(found) > count:
                best, count = arguments, len(found)
    return best


def _widened(asker: Asker, example: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    plain = {name: example[name] for name in asker.required if name in example}
    for name in plain:
        if _SEARCH.match(name) and not choices_of(asker.properties.get(name, {})):
            for letter in ("a", "e"):
                yield from _widened_plain(asker, {**plain, name: letter})
    yield from _widened_plain(asker, plain)


def _widened_plain(asker: Asker, plain: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    days = [name for name in plain if is_day(asker.properties.get(name, {}))]
    wide = {**plain, **dict.fromkeys(days, LATEST)}
    if len(days) == 2:
        wide[days[0]] = EARLIEST
    for arguments in (dict(plain), wide) if wide != plain else (wide,):
        yield arguments
        if asker.limit is not None:
            stated = stated_range(asker.properties[asker.limit])
            for most in (stated[1],) if stated else _MOST:
                yield {**arguments, asker.limit: most}

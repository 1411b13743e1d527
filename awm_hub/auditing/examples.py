"""Arguments for tools: from the schema's examples, from seed columns by parameter name, from types.

Random values alone leave tools untouched: nearly every call needs the id of a row that exists. So a parameter takes its
value from the column that has its name, else from the key of the table that it names (`owner_user_id` from `users.id`),
else from its type and description. A `Filling` is one way to fill any schema; all are tried.
"""

import datetime as dt
import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from awm_hub.environment import Environment, ToolSpec

ABSENT_NUMBER, ABSENT_TEXT = 987_654_321, "no-such-thing-9f3"
_KEY = re.compile(r"(^|_)(id|code|slug|key|uuid|number|barcode|sku)s?$")
_OLD = re.compile(r"(_id|_on|_at|date|day)$")
"""Names of texts that are taken from the seed even where new ones are wanted."""
_AHEAD = re.compile(r"\btoday or later\b|\bnot in the past\b|\bfrom today\b", re.IGNORECASE)
_MAX_DEPTH = 12
LONGEST = 10_000
"""Characters of a made text: schemas and refusals are hostile, and the text is made outside the seal."""
_FURTHER_ROWS = 60


@dataclass(frozen=True)
class Seed:
    """The tables of an image, as `jobs.dump` gives them, and the day of the clock."""

    tables: Mapping[str, Mapping[str, Any]]
    today: dt.date = field(default=dt.date(2026, 2, 10))
    choices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Texts that a CHECK of the schema allows, by column."""

    @functools.cached_property
    def text(self) -> str:
        """Every text of the tables, folded."""
        cells = (cell for table in self.tables.values() for row in table["rows"] for cell in row)
        return "\n".join(cell.casefold() for cell in cells if isinstance(cell, str))

    def column(self, table: str, name: str) -> list[Any]:
        """The values of a column that are not null, in the order of the rows."""
        columns = self.tables[table]["columns"]
        if name not in columns:
            return []
        at = columns.index(name)
        return [row[at] for row in self.tables[table]["rows"] if row[at] is not None]

    def rows(self, table: str) -> list[dict[str, Any]]:
        """Rows by column name."""
        found = self.tables[table]
        return [dict(zip(found["columns"], row, strict=True)) for row in found["rows"]]

    def values(self, name: str, hint: str = "", *, keys_first: bool = False) -> Iterator[list[Any]]:
        """Columns that a parameter may take its value from, the likeliest first.

        With `keys_first` the key of the table that it names comes before columns of its own name: of all orders, and
        not of those alone that a charge refers to.
        """
        if keys_first and (found := _KEY_OF.fullmatch(name)):
            yield from (self.column(t, found[2]) for t in self.tables if singular(t) == singular(found[1]))
        words = name.split("_")
        for start in range(len(words)):
            part = "_".join(words[start:])
            holding = [t for t, table in self.tables.items() if part in table["columns"]]
            for table in sorted(holding, key=lambda t: t.rstrip("s") not in hint):
                yield self.column(table, part)
            if part.endswith(("_id", "_code")):
                noun, _, key = part.rpartition("_")
                yield from (self.column(t, key) for t in self.tables if singular(t) == singular(noun))
            yield from (self.column(t, "code") for t in self.tables if singular(t) == singular(part))


_KEY_OF = re.compile(r"(\w+)_(id|code)")
_CHECK = re.compile(r"""CHECK\s*\(\s*["`\[]?(\w+)["`\]]?\s+IN\s*\(([^()]*)\)""", re.IGNORECASE)
_QUOTED = re.compile(r"'((?:[^']|'')*)'")


def choices_in(ddl: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Texts that columns may hold, as `CHECK (column IN ('a', 'b'))` says it."""
    found: dict[str, tuple[str, ...]] = {}
    for text in ddl:
        for column, listed in _CHECK.findall(text):
            if texts := tuple(_QUOTED.findall(listed)):
                found.setdefault(column, texts)
    return found


def singular(noun: str) -> str:
    """A noun without its plural ending, roughly."""
    if noun.endswith("ies"):
        return noun[:-3] + "y"
    return noun[:-1] if noun.endswith("s") and not noun.endswith("ss") else noun


@dataclass(frozen=True)
class Filling:
    """One way to fill a schema."""

    seed: Seed
    row: int = 0
    only_required: bool = False
    prefers_examples: bool = False
    keys_from_seed: bool = False
    """With `prefers_examples`: ids and codes come from the seed all the same."""
    keys_first: bool = False
    """Ids come from the table that they are the key of."""
    is_fresh: bool = False
    """Texts that are no keys are new ones: a name or an address of the seed may have to stay the only one."""

    def arguments(self, tool: ToolSpec) -> dict[str, Any]:
        """Arguments for a tool."""
        found = self.value("", tool.input_schema, tool.name)
        return found if isinstance(found, dict) else {}

    def value(self, name: str, schema: Any, hint: str, depth: int = 0) -> Any:
        """A value for one schema; an untrusted one gives whatever it gives."""
        if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
            return None
        for alternative in _alternatives(schema):
            beside = {k: v for k, v in schema.items() if k not in ("anyOf", "oneOf", "allOf")}
            return self.value(name, {**beside, **alternative}, hint, depth + 1)
        if isinstance(schema.get("properties"), Mapping):
            return dict(self._fields(schema, hint, depth))
        examples = schema.get("examples")
        is_key = bool(_KEY.search(name))
        if self.prefers_examples and isinstance(examples, list) and examples and not (self.keys_from_seed and is_key):
            return examples[0]
        return self._made(name, schema, hint, depth)

    def _fields(self, schema: Mapping[str, Any], hint: str, depth: int) -> Iterator[tuple[str, Any]]:
        required = required_of(schema)
        for name, part in schema["properties"].items():
            if name in required or not self.only_required:
                yield name, self.value(str(name), part, hint, depth + 1)

    def _made(self, name: str, schema: Mapping[str, Any], hint: str, depth: int) -> Any:
        if "const" in schema:
            return schema["const"]
        choices = schema.get("enum")
        if isinstance(choices, list) and choices:
            return choices[self.row % len(choices)]
        kind = schema.get("type")
        if kind == "array":
            return [self.value(singular(name), schema.get("items"), hint, depth + 1)]
        if kind == "object":
            return {}
        if kind == "boolean":
            return self.row % 2 == 0
        return self._fitted(name, schema, hint)

    def _fitted(self, name: str, schema: Mapping[str, Any], hint: str) -> Any:
        kind = schema.get("type")
        fits = _FITS.get(kind if isinstance(kind, str) else "string", _FITS["string"])
        if kind == "string" and (allowed := self._allowed(name)):
            return allowed[self.row % len(allowed)]
        if kind == "string" and _AHEAD.search(str(schema.get("description", ""))):
            return self._text(name, schema)
        is_new = self.is_fresh and kind == "string" and not _OLD.search(name)
        for column in () if is_new else self.seed.values(name, hint, keys_first=self.keys_first):
            if fitting := [v for v in column if fits(v, schema)]:
                return fitting[self.row % len(fitting)]
        if kind in ("integer", "number"):
            least = schema.get("minimum", 1)
            number = max(least if isinstance(least, int | float) else 1, self.row + 1)
            return int(number) if kind == "integer" else float(number)
        return self._text(name, schema)

    def _allowed(self, name: str) -> tuple[str, ...]:
        """What a CHECK allows for the column of this name, or the one column whose name ends with it."""
        known = self.seed.choices
        if name in known:
            return known[name]
        close = {known[c] for c in known if c.endswith(f"_{name}") or name.endswith(f"_{c}")}
        return close.pop() if len(close) == 1 else ()

    def _text(self, name: str, schema: Mapping[str, Any]) -> str:
        form, told = schema.get("format"), str(schema.get("description", ""))
        day = (self.seed.today + dt.timedelta(days=1 + self.row)).isoformat()
        if "DDTHH:MM" in told:
            return f"{day}T1{self.row % 10}:00"
        if form == "date" or "YYYY-MM-DD" in told:
            return day
        if form == "date-time":
            return f"{day}T10:00:00"
        if form == "time" or "HH:MM" in told:
            return f"1{self.row % 10}:00"
        if form == "email" or "mail" in name:
            return f"person{self.row}@example.org"
        if "date" in name or name.endswith(("_at", "_on")):
            return day
        least, most = schema.get("minLength", 0), schema.get("maxLength", 1000)
        text = f"new {self.row}" if self.is_fresh else f"text {self.row}"
        return text.ljust(min(least, LONGEST), "x")[:most] if isinstance(least, int) and isinstance(most, int) else text


def _alternatives(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for keyword in ("anyOf", "oneOf", "allOf"):
        options = schema.get(keyword)
        for option in options if isinstance(options, list) else ():
            if isinstance(option, Mapping) and option.get("type") != "null":
                yield option


def required_of(schema: Any) -> Sequence[str]:
    """The required properties of an object's schema."""
    found = schema.get("required") if isinstance(schema, Mapping) else None
    return [name for name in found if isinstance(name, str)] if isinstance(found, list) else []


def properties_of(schema: Any) -> dict[str, Mapping[str, Any]]:
    """The properties of an object's schema that have a schema themselves."""
    found = schema.get("properties") if isinstance(schema, Mapping) else None
    return {k: v for k, v in found.items() if isinstance(v, Mapping)} if isinstance(found, Mapping) else {}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _within(value: Any, least: Any, most: Any) -> bool:
    return (not _is_number(least) or value >= least) and (not _is_number(most) or value <= most)


_FITS: dict[str, Callable[[Any, Mapping[str, Any]], bool]] = {
    "integer": lambda v, s: type(v) is int and _within(v, s.get("minimum"), s.get("maximum")),
    "number": lambda v, s: _is_number(v) and _within(v, s.get("minimum"), s.get("maximum")),
    "string": lambda v, s: isinstance(v, str) and _within(len(v), s.get("minLength"), s.get("maxLength")),
}


def fillings(seed: Seed) -> Iterator[Filling]:
    """The ways to fill the tools of an environment."""
    yield Filling(seed, prefers_examples=True, keys_from_seed=True)
    for row in range(4):
        yield Filling(seed, row=row, only_required=row % 2 == 1)
    yield Filling(seed, row=4, only_required=True)
    yield Filling(seed, row=7, only_required=True)
    yield Filling(seed, row=1, is_fresh=True)


def example_calls(environment: Environment, tool: ToolSpec, seed: Seed) -> list[dict[str, Any]]:
    """Arguments to try a tool with, no two alike: those of solutions first."""
    found: list[dict[str, Any]] = []
    solved = [c.arguments for t in environment.tasks for c in t.solution or () if c.tool == tool.name]
    for arguments in (*solved, *(filling.arguments(tool) for filling in fillings(seed))):
        if arguments not in found:
            found.append(arguments)
    return found


def further_calls(tool: ToolSpec, seed: Seed) -> Iterator[dict[str, Any]]:
    """More arguments, for a tool that has refused all examples: rules of the business leave few rows that will do."""
    for row in range(_FURTHER_ROWS):
        yield Filling(seed, row=row, only_required=True, keys_first=True).arguments(tool)


_ODD_TEXTS = (
    "",
    " ",
    "'",
    '"; --',
    "%",
    "_",
    "\\",
    "é漢字🙂",
    "a" * 5000,
    "a\0b",
    "null",
    "9999-12-31",
    "0001-01-01",
    "-1",
)
_ODD_NUMBERS = (0, -1, 2**31, 2**53, 2**63 - 1, -(2**63), 2**63, 10**30)
_ODD_DATES = ("9999-12-31", "0001-01-01", "2024-02-29", "2023-02-29", "2026-13-45", "10000-01-01")


def odd_calls(tool: ToolSpec, plain: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """A working call with one argument replaced by an odd value of its type: what a person or a model may send.

    Yields:
        The parameter, and the arguments.
    """
    for name, schema in properties_of(tool.input_schema).items():
        shown = next(_alternatives(schema), schema)
        if "enum" in shown or "const" in shown:
            continue
        for odd in _odd_values(shown, str(schema.get("description", ""))):
            yield name, {**plain, name: odd}


def _odd_values(schema: Mapping[str, Any], told: str) -> Sequence[Any]:
    match schema.get("type"):
        case "string":
            return _ODD_DATES + _ODD_TEXTS[:4] if "YYYY" in told else _ODD_TEXTS
        case "integer":
            return _ODD_NUMBERS
        case "number":
            return (0.0, -1.5, 1e308, 5e-324)
        case "array":
            return ([],)
    return ()

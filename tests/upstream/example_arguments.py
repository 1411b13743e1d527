"""Arguments for tools nobody wrote examples for: from the schema's own examples, from seed columns, from types.

A parameter takes its value from the column with its name, else from the key of the table it names (`owner_user_id`
from `users.id`), else from its type. Each variant fills all tools in another way.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from awm_hub.environment import ToolSpec

ABSENT_NUMBER, ABSENT_TEXT = 987_654, "no-such-thing"
_KEY = re.compile(r"(^|_)(id|code|slug|key|uuid|number)s?$")
_TEXTS = {
    "date-time": "2026-02-1{}T10:00:00",
    "date": "2026-02-1{}",
    "time": "1{}:00:00",
    "email": "person{}@example.org",
}


@dataclass(frozen=True)
class Seed:
    """Tables as `jobs.dump` gives them."""

    tables: Mapping[str, Mapping[str, Any]]

    def values(self, name: str, path_hint: str = "") -> Iterator[list[Any]]:
        """Columns that a parameter may take its value from, the likeliest first."""
        words = name.split("_")
        for start in range(len(words)):
            part = "_".join(words[start:])
            yield from self._columns(part, path_hint)
            if part.endswith("_id"):
                yield from (self._column(t, "id") for t in self.tables if t.rstrip("s") == part[:-3].rstrip("s"))

    def _columns(self, name: str, path_hint: str) -> Iterator[list[Any]]:
        holding = [t for t, table in self.tables.items() if name in table["columns"]]
        for table in sorted(holding, key=lambda t: t not in path_hint):
            yield self._column(table, name)

    def _column(self, table: str, name: str) -> list[Any]:
        columns = self.tables[table]["columns"]
        position = columns.index(name) if name in columns else 0
        return [row[position] for row in self.tables[table]["rows"] if row[position] is not None]


@dataclass(frozen=True)
class Filling:
    """One way to fill a schema."""

    seed: Seed
    row: int = 0
    only_required: bool = False
    prefers_examples: bool = False
    keys_from_seed: bool = False
    """With `prefers_examples`: ids and codes come from the seed all the same."""
    absent_keys: bool = False
    nulls: bool = False
    """Null for whatever is optional and may be null."""

    def arguments(self, tool: ToolSpec) -> dict[str, Any]:
        """Arguments for a tool."""
        found: dict[str, Any] = self._value("", tool.input_schema, tool.name)
        return found

    def _value(self, name: str, schema: Mapping[str, Any], hint: str) -> Any:
        for alternative in schema.get("anyOf") or schema.get("oneOf") or ():
            if alternative.get("type") != "null":
                beside = {k: v for k, v in schema.items() if k not in ("anyOf", "oneOf")}
                return self._value(name, {**beside, **alternative}, hint)
        if "allOf" in schema:
            return self._value(name, {**schema["allOf"][0], **{k: v for k, v in schema.items() if k != "allOf"}}, hint)
        if "properties" in schema:
            return dict(self._fields(schema, hint))
        is_key = bool(_KEY.search(name))
        if self.absent_keys and is_key and "enum" not in schema and schema.get("type") in ("integer", "string"):
            return ABSENT_NUMBER if schema["type"] == "integer" else ABSENT_TEXT
        if self.prefers_examples and schema.get("examples") and not (self.keys_from_seed and is_key):
            return schema["examples"][0]
        return self._made(name, schema, hint)

    def _fields(self, schema: Mapping[str, Any], hint: str) -> Iterator[tuple[str, Any]]:
        required = schema.get("required", ())
        for name, part in schema["properties"].items():
            if name in required:
                yield name, self._value(name, part, hint)
            elif self.nulls:
                if any(a.get("type") == "null" for a in part.get("anyOf", ())):
                    yield name, None
            elif not self.only_required:
                yield name, self._value(name, part, hint)

    def _made(self, name: str, schema: Mapping[str, Any], hint: str) -> Any:
        if "const" in schema:
            return schema["const"]
        if schema.get("enum"):
            return schema["enum"][self.row % len(schema["enum"])]
        kind = schema.get("type")
        if kind == "array":
            singular = name.removesuffix("s")
            return [self._value(singular, schema.get("items", {}), hint)]
        if kind == "object":
            return {"note": f"value {self.row}"}
        if kind == "boolean":
            return self.row % 2 == 0
        return self._fitted(name, schema, hint)

    def _fitted(self, name: str, schema: Mapping[str, Any], hint: str) -> Any:
        fits = _FITS.get(schema.get("type", "string"), _FITS["string"])
        for column in self.seed.values(name, hint):
            fitting = [v for v in column if fits(v, schema)]
            if fitting:
                return fitting[self.row % len(fitting)]
        if schema.get("type") == "integer":
            return max(int(schema.get("minimum", 1)), self.row + 1)
        if schema.get("type") == "number":
            return max(float(schema.get("minimum", 1)), self.row + 1.5)
        return self._text(name, schema)

    def _text(self, name: str, schema: Mapping[str, Any]) -> str:
        form = schema.get("format") or ("date" if "date" in name or name.endswith(("_at", "from", "to")) else "")
        text = _TEXTS.get(form, "text {}").format(self.row)
        return text.ljust(schema.get("minLength", 0), "x")[: schema.get("maxLength", 1000)]


_FITS: dict[str, Callable[[Any, Mapping[str, Any]], bool]] = {
    "integer": lambda v, s: type(v) is int and s.get("minimum", v) <= v <= s.get("maximum", v),
    "number": lambda v, s: type(v) in (int, float) and s.get("minimum", v) <= v <= s.get("maximum", v),
    "string": lambda v, s: isinstance(v, str) and s.get("minLength", 0) <= len(v) <= s.get("maxLength", len(v)),
}


def variants(seed: Seed) -> dict[str, Filling]:
    """Every way to fill the tools of an environment, by name."""
    return {
        "examples": Filling(seed, prefers_examples=True),
        "examples, keys from the seed": Filling(seed, prefers_examples=True, keys_from_seed=True),
        "seed row 0": Filling(seed),
        "seed row 1": Filling(seed, row=1),
        "seed row 2, required only": Filling(seed, row=2, only_required=True),
        "nulls": Filling(seed, row=3, nulls=True),
        "absent keys": Filling(seed, absent_keys=True, prefers_examples=True),
    }

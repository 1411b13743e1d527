"""What was filled into a form, as a call's arguments; and arguments, filled into a form.

An optional field that was left alone is absent from the arguments. Null, an empty text and an empty list are chosen, by
`how`. What comes from a browser is data of anybody: it is read within limits, and what does not fit is a `FormError`
that names its field.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from awm_hub.canonical import from_json, to_json
from awm_hub.errors import AwmHubError, RecordError
from awm_hub.parts import ToolSpec
from awm_hub.playground.forms import Field, FormError, form_of
from awm_hub.safetext import clean, readable_json

HOWS = ("typed", "null", "empty")
_MAX_DEPTH = 16
_MAX_ROWS = 1_000
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_INTEGER_RANGE = range(-(2**63), 2**63)
_TEXTS = ("text", "long_text")

Path = tuple[str | int, ...]


class _LeftOut:
    """Nothing: the field was left alone."""


class _UnfitError(Exception):
    """The form cannot show these arguments."""


_LEFT_OUT = _LeftOut()


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What one field holds."""

    how: str = "typed"
    """`typed`: what is in it; `null`, or `empty` (text, list, object) whatever is in it."""
    text: str = ""
    """As typed; of a choice the position from 0, of a boolean `true` or `false`. Empty: left alone."""
    rows: tuple[Self, ...] = ()
    """Of a list."""
    fields: Mapping[str, Self] = field(default_factory=dict)
    """Of an object, by property name."""

    @property
    def is_blank(self) -> bool:
        """Whether nothing in it was touched."""
        parts = (*self.rows, *self.fields.values())
        return self.how == "typed" and not self.text and not self.rows and all(part.is_blank for part in parts)

    @classmethod
    def read(cls, found: Any, depth: int = 0) -> Self:
        """From what a browser sent; what is no entry is a blank one."""
        if not isinstance(found, Mapping) or depth > _MAX_DEPTH:
            return cls()
        how, text, rows, fields = (found.get(name) for name in ("how", "text", "rows", "fields"))
        return cls(
            how=how if how in HOWS else "typed",
            text=text if isinstance(text, str) else "",
            rows=tuple(cls.read(r, depth + 1) for r in rows[:_MAX_ROWS]) if isinstance(rows, list) else (),
            fields={str(k): cls.read(v, depth + 1) for k, v in fields.items()} if isinstance(fields, Mapping) else {},
        )


def arguments_from(tool: ToolSpec, entry: Entry, *, is_partial: bool = False) -> dict[str, Any]:
    """The arguments of a filled form.

    Args:
        tool: The tool.
        entry: What the form holds.
        is_partial: Whether required fields may still be blank.

    Raises:
        FormError: a required field is blank, or one holds what it does not take.
    """
    value = _value(form_of(tool), entry, (), is_partial)
    return _object_of(value)


def arguments_from_json(text: str) -> dict[str, Any]:
    """Arguments written as JSON, whatever the schema says about them.

    Raises:
        FormError: the text is no JSON object.
    """
    return _object_of(_json(text, ()) if text.strip() else {})


def prefilled(tool: ToolSpec, arguments: Mapping[str, Any] | None = None) -> Entry | None:
    """A form that holds these arguments, or none yet; None where no form of this tool can hold exactly them."""
    form = form_of(tool)
    if arguments is None:
        return _blank(form)
    try:
        entry = _entry(form, dict(arguments))
        same = to_json(_value(form, entry, (), False)) == to_json(dict(arguments))
    except (_UnfitError, AwmHubError):
        return None
    return entry if same else None


def shown_arguments(arguments: Mapping[str, Any]) -> str:
    """Arguments as JSON to be read and edited; every unsafe character is an escape that reads back the same."""
    return readable_json(dict(arguments), 60)


def _value(form: Field, entry: Entry, path: Path, is_partial: bool) -> Any:
    """What a field stands for; `_LEFT_OUT` for nothing."""
    if entry.how == "null":
        if not form.is_nullable:
            raise FormError(path, "does not take null")
        return None
    if form.kind == "object":
        return _fields(form, entry, path, is_partial)
    if form.kind == "list":
        return _rows(form, entry, path, is_partial)
    if form.kind in _TEXTS and (entry.text or entry.how == "empty"):
        return _text(form, "" if entry.how == "empty" else entry.text, path)
    if not entry.text.strip():
        if form.is_required and not is_partial and path:
            raise FormError(path, "is required", next_step="Fill it in.")
        return {} if not path else _LEFT_OUT
    return _READERS[form.kind](form, entry.text.strip(), path)


def _fields(form: Field, entry: Entry, path: Path, is_partial: bool) -> Any:
    if not form.is_required and entry.is_blank:
        return _LEFT_OUT
    given = {} if entry.how == "empty" else entry.fields
    found = {}
    for part in form.fields:
        name = part.path[-1]
        value = _value(part, given.get(name, Entry()), (*path, name), is_partial)
        if value is not _LEFT_OUT:
            found[name] = value
    return found


def _rows(form: Field, entry: Entry, path: Path, is_partial: bool) -> Any:
    rows = () if entry.how == "empty" else entry.rows
    if not rows and not form.is_required and entry.how != "empty":
        return _LEFT_OUT
    assert form.item is not None
    found = [_value(form.item, row, (*path, i), is_partial) for i, row in enumerate(rows)]
    found = [value for value in found if value is not _LEFT_OUT]
    _check(form, len(found), path, "entries" if form.bounds.most != 1 else "entry")
    return found


def _text(form: Field, text: str, path: Path) -> str:
    _check(form, len(text), path, "characters")
    return text


def _integer(form: Field, text: str, path: Path) -> int:
    if not _INTEGER.fullmatch(text) or int(text) not in _INTEGER_RANGE:
        raise FormError(path, "must be a whole number", next_step="Write it in digits, as 42.")
    _check(form, int(text), path)
    return int(text)


def _number(form: Field, text: str, path: Path) -> int | float:
    found = _json(text.removeprefix("+"), path, "must be a number", "Write it in digits, as 42 or 0.5.")
    if not isinstance(found, int | float) or isinstance(found, bool) or not math.isfinite(found):
        raise FormError(path, "must be a number", next_step="Write it in digits, as 42 or 0.5.")
    _check(form, found, path)
    return found


def _boolean(_form: Field, text: str, path: Path) -> bool:
    if text not in ("true", "false"):
        raise FormError(path, "must be true or false")
    return text == "true"


def _choice(form: Field, text: str, path: Path) -> Any:
    if not re.fullmatch("[0-9]{1,4}", text) or int(text) >= len(form.choices):
        raise FormError(path, "must be one of the choices")
    return form.choices[int(text)]


def _any_json(_form: Field, text: str, path: Path) -> Any:
    return _json(text, path)


_READERS = {"integer": _integer, "number": _number, "boolean": _boolean, "choice": _choice, "json": _any_json}


def _json(text: str, path: Path, problem: str = "", next_step: str = "") -> Any:
    try:
        found = from_json(text)
        to_json(found)  # a number that is too large reads as an infinity, which no call can carry
        return found
    except RecordError as error:
        step = next_step or 'Texts stand in double quotes, as {"name": "Ada"}.'
        raise FormError(path, problem or error.message, next_step=step) from error


def _object_of(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise FormError((), "the arguments must be one JSON object", next_step='Write it as {"name": value}.')
    return value


def _check(form: Field, number: float, path: Path, noun: str = "") -> None:
    if problem := form.bounds.broken_by(number, noun):
        raise FormError(path, problem)


def _blank(form: Field) -> Entry:
    """Nothing filled in: required lists with one row, and what can only have one value with it."""
    if form.kind == "object" and form.is_required:
        return Entry(fields={part.path[-1]: _blank(part) for part in form.fields})
    if form.kind == "list" and form.item is not None and form.is_required:
        return Entry(rows=(_blank(form.item),))
    if form.kind == "choice" and form.is_required and len(form.choices) == 1 and not form.is_nullable:
        return Entry(text="0")
    return Entry()


def _entry(form: Field, value: Any) -> Entry:
    """What a field holds for a value; that it stands for exactly this value is checked afterwards."""
    if form.kind == "json":
        return Entry(text=readable_json(value, 60))
    if value is None:
        return Entry(how="null")
    if form.kind == "choice":
        return Entry(text=str(_position(form, value)))
    if form.kind == "object" and isinstance(value, Mapping):
        if value.keys() - {part.path[-1] for part in form.fields}:
            raise _UnfitError
        parts = {p.path[-1]: _entry(p, value[p.path[-1]]) if p.path[-1] in value else Entry() for p in form.fields}
        return Entry(fields=parts, how="typed" if value or form.is_required else "empty")
    if form.kind == "list" and isinstance(value, list):
        assert form.item is not None
        rows = tuple(_entry(form.item, part) for part in value)
        return Entry(rows=rows, how="typed" if rows or form.is_required else "empty")
    if form.kind in _TEXTS and isinstance(value, str):
        return _of_text(value)
    if form.kind in ("integer", "number", "boolean") and isinstance(value, int | float):
        return Entry(text=to_json(value))
    raise _UnfitError


def _of_text(value: str) -> Entry:
    """A text; one that a browser's field would change (it drops carriage returns, and escapes stand for the unsafe)."""
    if clean(value) != value or "\ufffe" in value or "\uffff" in value:
        raise _UnfitError
    return Entry(text=value, how="typed" if value else "empty")


def _position(form: Field, value: Any) -> int:
    wanted = to_json(value)
    for i, choice in enumerate(form.choices):
        if to_json(choice) == wanted:
            return i
    raise _UnfitError

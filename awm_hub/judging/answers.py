"""Reads the answer out of an agent's final message and compares it with the expected one.

Verifiers and judges alike compare answers here and nowhere else. Only the text after `</think>` counts. The given
answer is the JSON value that ends it, fenced or not: an object or a list wherever it starts, any other value on a line
of its own, perhaps after the prompt's word `JSON:`. Where none of the expected kind ends it, the *whole* text, trimmed
of punctuation and emphasis, must be the value: a number, a text, a list or `key: value` lines. A number or a word in
a sentence is never an answer, so that neither "100" nor "10 or 12" nor a list of all candidates can stand for 10.

The kind must be the one that the prompt asks for: `{"answer": 25}` is no number. In plain form `1,250` is one number
where a number is expected, and two items where a list of numbers is, unless line ends or semicolons part the items.
An object that names a key twice is no answer at all, whatever else the message says.
"""

import itertools
import json
import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from awm_hub.canonical import MAX_JSON_BYTES, MAX_JSON_DEPTH, depth

TOLERANCE = 0.005
_SLACK = 1e-9  # 168.555 - 168.55 is 0.00500000000000966 in binary
_MAX_NUMBER_LENGTH = 64
_MAX_MARKS = 30

_EMPHASIS = "*_`\"'“”‘’„«»"
_PUNCTUATION = ".,;:!?"
_BULLET = re.compile(r"\A\s*[-*•–]\s+")
_FENCE = "```"
_LANGUAGE = re.compile(r"[\w+-]*[ \t\r]*\n")
_LINE_END = re.compile(r"[\r\n]+")
_GROUP = r"[,'’\u00a0\u2009\u202f ]"
_NUMBER = re.compile(rf"([+-]?)(\d{{1,3}}(?:({_GROUP})\d{{3}}(?:\3\d{{3}})*)|\d+|(?=\.\d))(\.\d+)?", re.ASCII)
_LABEL = re.compile(r"\A[\s*_`]*JSON[*_`]*\s*:[*_`]*(?=\s)", re.ASCII)
"""What the prompt says of the form (`End with JSON: <number>`), which agents like to repeat before the value."""
_WORDS = {"true": True, "false": False, "null": None}


@dataclass(frozen=True)
class NoAnswer:
    """The message holds no answer of the expected kind, and why."""

    reason: str


class _RepeatedKey(Exception):
    """An object names a key twice: no reading of the message can be right."""


def answer_matches(expected: Any, order: str, message: str | None) -> bool:
    """Whether a final message gives the expected answer.

    Args:
        expected: A number, a text, a list of these or a flat object; not None, which stands for no answer asked for.
        order: Of lists: `any` or `exact`.
        message: The agent's final message; None where there was none.
    """
    given = given_answer(message, expected)
    return not isinstance(given, NoAnswer) and is_same_answer(expected, given, order)


def given_answer(message: str | None, expected: Any) -> Any:
    """The value that a final message gives as its answer, or a `NoAnswer`.

    `expected` tells the kind of value to look for, the types of the parts of a plain list or object, and which
    punctuation at the ends of a plain text belongs to it; its values are not compared.
    """
    if message is None:
        return NoAnswer("there is no final message")
    text = message.rpartition("</think>")[2].strip()
    if "<think>" in text:
        return NoAnswer("the message ends within its thoughts")
    if not text:
        return NoAnswer("the message is empty")
    try:
        for value in _json_values(text):
            if _kind(value) == _kind(expected):
                return value
        return _plain(text, expected)
    except _RepeatedKey:
        return NoAnswer("an object names a key twice")


def is_same_answer(expected: Any, given: Any, order: str = "any") -> bool:
    """Whether two values are the same answer.

    Integers are exact (3.0 counts as 3, a boolean is no number), other numbers within 0.005. Texts are equal after NFC,
    trimming, runs of whitespace as one blank, and case folding. Lists have no extra and no missing items; objects have
    exactly the same keys.
    """
    if _kind(expected) != _kind(given):
        return False
    match expected:
        case str():
            return folded(expected) == folded(given)
        case float():
            return bool(expected - TOLERANCE - _SLACK <= given <= expected + TOLERANCE + _SLACK)
        case list():
            return _is_same_list(expected, given, order)
        case dict():
            if expected.keys() != given.keys():
                return False
            return all(is_same_answer(value, given[key], order) for key, value in expected.items())
    return bool(expected == given)


def folded(text: str) -> str:
    """A text in the form in which answers are compared."""
    text = " ".join(text.split())
    return (unicodedata.normalize("NFC", text) if _has_only_short_runs(text) else text).casefold()


def _has_only_short_runs(text: str) -> bool:
    """Whether no more than 30 combining marks follow each other (UAX #15, Stream-Safe Text Format).

    No writing has more, and the time to normalise a run grows with the square of its length.
    """
    run = 0
    for char in text if not text.isascii() else "":
        run = run + 1 if unicodedata.combining(char) else 0
        if run > _MAX_MARKS:
            return False
    return True


def _is_same_list(expected: list[Any], given: list[Any], order: str) -> bool:
    if len(expected) != len(given):
        return False
    if order != "exact":
        expected, given = sorted(expected, key=_rank), sorted(given, key=_rank)
    return all(map(is_same_answer, expected, given, itertools.repeat(order)))


def _kind(value: Any) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return "number"
    return type(value).__name__


def _rank(value: Any) -> tuple[str, float, str]:
    """Sort key that puts the items of two equal lists side by side."""
    kind = _kind(value)
    if kind == "number":
        return kind, value, ""
    return kind, 0, folded(value) if kind == "str" else json.dumps(value, sort_keys=True)


def _json_values(text: str) -> Iterator[Any]:
    """The JSON value that ends a text, if one does; else the one that the trimmed text is."""
    source = _fenced(text) if text.endswith(_FENCE) else text
    last = _LABEL.sub("", source.rpartition("\n")[2])
    for candidate in (_closing_part(source), last, _trimmed(text)):
        try:
            yield _parsed(candidate.strip())
        except ValueError:
            continue
        return


def _parsed(text: str) -> Any:
    """Untrusted JSON within the limits of the record format; a ValueError for everything else."""
    if len(text) > MAX_JSON_BYTES or depth(text) > MAX_JSON_DEPTH:
        raise ValueError("too long or too deep")
    return json.loads(text, parse_constant=_refuse, object_pairs_hook=_unique)


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no JSON value")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _RepeatedKey
    return found


def _fenced(text: str) -> str:
    """What the last fence of a text encloses."""
    block = text.removesuffix(_FENCE).rpartition(_FENCE)[2]
    language = _LANGUAGE.match(block)
    return (block[language.end() :] if language else block).strip()


def _closing_part(text: str) -> str:
    """The end of a text from the bracket that its last character closes; empty where it closes none.

    Read backwards once, strings skipped, so that a long run of brackets costs no more than its length.
    """
    if not text.endswith(("]", "}")):
        return ""
    level, at = 0, len(text)
    while at > 0:
        at -= 1
        char = text[at]
        if char == '"':
            at = _string_start(text, at)
        elif char in "]}":
            level += 1
        elif char in "[{":
            level -= 1
            if level == 0:
                return text[at:]
    return ""


def _string_start(text: str, end: int) -> int:
    """Where the JSON string starts whose closing quote is at `end`; -1 where none does."""
    at = text.rfind('"', 0, end)
    while at > 0:
        backslashes = at
        while backslashes > 0 and text[backslashes - 1] == "\\":
            backslashes -= 1
        if (at - backslashes) % 2 == 0:
            break
        at = text.rfind('"', 0, at)
    return at


def _trimmed(text: str) -> str:
    """A text without emphasis, quotes and closing punctuation around it."""
    return _stripped(text, _EMPHASIS, _EMPHASIS + _PUNCTUATION)


def _stripped(text: str, left: str, right: str) -> str:
    start, end = 0, len(text)
    while start < end and (text[start] in left or text[start].isspace()):
        start += 1
    while end > start and (text[end - 1] in right or text[end - 1].isspace()):
        end -= 1
    return text[start:end]


def _plain(text: str, expected: Any) -> Any:
    """The whole text as a value of the expected kind."""
    if isinstance(expected, dict):
        return _plain_object(text, expected)
    if isinstance(expected, list):
        return _plain_list(text, expected)
    return _plain_scalar(text, _wanted([expected]))


@dataclass(frozen=True)
class _Wanted:
    kinds: frozenset[str]
    texts: frozenset[str]
    """Folded; they only tell which punctuation belongs to a given text."""


def _wanted(expected: Iterable[Any]) -> _Wanted:
    expected = list(expected)
    texts = frozenset(folded(value) for value in expected if isinstance(value, str))
    return _Wanted(kinds=frozenset(map(_kind, expected)), texts=texts)


def _plain_scalar(text: str, wanted: _Wanted) -> Any:
    """A text as a value of one of the wanted kinds."""
    trimmed = _trimmed(text)
    if "number" in wanted.kinds and (number := _number(trimmed)) is not None:
        return number
    if wanted.kinds & {"bool", "NoneType"} and trimmed.casefold() in _WORDS:
        return _WORDS[trimmed.casefold()]
    if "str" in wanted.kinds:
        unquoted = _stripped(text, _EMPHASIS, _EMPHASIS)  # the full stop of `Jr.` belongs to it
        return next((form for form in (text, unquoted) if folded(form) in wanted.texts), trimmed)
    return NoAnswer(f"the message is not just a {' or '.join(sorted(wanted.kinds))}")


def _number(text: str) -> int | float | None:
    """The number that a text is, with thousands separators and one currency or percent sign allowed."""
    if len(text) > _MAX_NUMBER_LENGTH:
        return None
    bare = text.replace("\u2212", "-")
    sign = re.match(r"[+-]?", bare)
    head, bare = (sign.group(), bare[sign.end() :]) if sign else ("", bare)
    if bare and unicodedata.category(bare[0]) == "Sc":
        bare = bare[1:].lstrip()
    elif bare and (bare[-1] == "%" or unicodedata.category(bare[-1]) == "Sc"):
        bare = bare[:-1].rstrip()
    found = _NUMBER.fullmatch(head + bare)
    if found is None:
        return None
    value = Decimal(re.sub(_GROUP, "", head + bare))
    return int(value) if value == value.to_integral_value() else float(value)


def _plain_list(text: str, expected: list[Any]) -> Any:
    """A list from a text split into its items."""
    parts = [_BULLET.sub("", part, count=1) for part in _parts(text, expected)]
    wanted = _wanted(expected)
    items = [_plain_scalar(part, wanted) for part in parts if _trimmed(part)]
    return next((item for item in items if isinstance(item, NoAnswer)), items)


def _parts(text: str, expected: list[Any]) -> list[str]:
    """Split at line ends and semicolons, and at commas unless an item holds one."""
    coarse = [part for part in re.split(r"[\r\n;]+", text) if part.strip()]
    if any("," in value for value in expected if isinstance(value, str)):
        return coarse
    if len(coarse) > 1 and all(_number(_trimmed(_BULLET.sub("", part, count=1))) is not None for part in coarse):
        return coarse
    return re.split(r"[\r\n;,]+", text)


def _plain_object(text: str, expected: dict[str, Any]) -> Any:
    """An object from lines of the form `key: value`, of which there is nothing else."""
    found: dict[str, Any] = {}
    for line in filter(str.strip, _LINE_END.split(text)):
        name, colon, value = _BULLET.sub("", line, count=1).partition(":")
        key = name.strip() if name.strip() in expected else _trimmed(name)
        if not colon or key not in expected:
            return NoAnswer("the message is no JSON object, and not just `key: value` lines with the keys asked for")
        if key in found:
            raise _RepeatedKey
        found[key] = _plain_scalar(value, _wanted([expected[key]]))
    return next((value for value in found.values() if isinstance(value, NoAnswer)), found)

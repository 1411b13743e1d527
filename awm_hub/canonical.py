"""Canonical JSON: one text per value, so that equal values have equal hashes.

Sorted keys, separators `,` and `:`, raw Unicode, no NaN or infinity, no lone surrogates. Every JSON string column of
the record holds this form; everything that is hashed is hashed in it. Lines on a framed stream (JSONL, stdio) use
`to_line`, which also escapes the three characters that some readers take for the end of a line.
"""

import hashlib
import json
import re
from typing import Any

from awm_hub.errors import LimitError, RecordError

Json = None | bool | int | float | str | list[Any] | dict[str, Any]

MAX_JSON_BYTES = 8 * 2**20
MAX_JSON_DEPTH = 64
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[\]{}]', re.DOTALL)  # a string that never ends is scanned once
_LINE_ENDS = {0x0085: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"}


def to_json(value: Any) -> str:
    """Write `value` as canonical JSON.

    Raises:
        RecordError: the value holds something that JSON has no form for, or a lone surrogate.
    """
    try:
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        text.encode("utf-8")
    except (TypeError, ValueError, RecursionError) as error:
        raise RecordError(f"no canonical JSON for this value: {error}") from error
    return text


def to_line(value: Any) -> str:
    """Write `value` as JSON that holds no character any reader takes for the end of a line."""
    return to_json(value).translate(_LINE_ENDS)


def from_json(text: str, what: str = "JSON") -> Any:
    """Read untrusted JSON within the limits of the record format (8 MB, depth 64).

    Raises:
        LimitError: the text is too long or nested too deeply.
        RecordError: the text is no JSON, or holds NaN, an infinity or a repeated key.
    """
    if len(text) > MAX_JSON_BYTES or len(text.encode("utf-8", "surrogatepass")) > MAX_JSON_BYTES:
        raise LimitError(f"{what} is longer than {MAX_JSON_BYTES} bytes")
    if depth(text) > MAX_JSON_DEPTH:
        raise LimitError(f"{what} is nested deeper than {MAX_JSON_DEPTH}")
    try:
        return STRICT_DECODER.decode(text)
    except ValueError as error:
        raise RecordError(f"{what} is not valid JSON: {error}") from error


def depth(text: str) -> int:
    """Nesting depth of a JSON text (or an upper bound within the limit), found without recursion."""
    brackets = text.count("[") + text.count("{")
    if brackets <= MAX_JSON_DEPTH:
        return brackets
    deepest = level = 0
    for token in _TOKEN.findall(text):
        if token in ("[", "{"):
            level += 1
            deepest = max(deepest, level)
        elif token in ("]", "}"):
            level -= 1
    return deepest


def sha256_of(value: Any) -> str:
    """Hex SHA-256 of a value's canonical JSON."""
    return hashlib.sha256(to_json(value).encode()).hexdigest()


def unique_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An `object_pairs_hook` that refuses repeated keys with a ValueError."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("repeated key in an object")
    return found


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON value")


STRICT_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, object_pairs_hook=unique_pairs)
"""Refuses NaN, infinities and repeated keys with a ValueError; it has no limits."""

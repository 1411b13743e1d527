"""Text that is safe to show: what could act on a terminal or hide in a page is written as an escape.

Everything an environment or a model wrote is hostile text. An escape sequence could repaint a screen; a bidi override
could show another command than the one that is copied; an invisible tag could carry text that only a model reads.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 without tab and line feed, DEL, C1
    "\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f"  # direction marks, overrides and isolates, invisible signs
    "\u2028\u2029\ufeff\ufff9-\ufffb"  # line ends that are none, invisible marks
    "\ud800-\udfff\U000e0000-\U000e0fff]"  # lone surrogates, invisible tags and variation selectors
)


def clean(text: str) -> str:
    """Text with everything that could act on a terminal replaced by its escape; line feeds and tabs stay."""
    return _UNSAFE.sub(_escape, text)


def clean_line(text: str, width: int | None = None) -> str:
    """`clean`, on one line, cut to `width` characters."""
    line = clean(text.replace("\n", "⏎").replace("\t", " "))
    return line if width is None or len(line) <= width else line[: width - 1] + "…"


def json_text(value: Any, *, indent: int | None = None) -> str:
    """JSON that is safe to print: it reads back as the same value, with unsafe characters written as escapes."""
    separators = (",", ":") if indent is None else None
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent, separators=separators)
    return _UNSAFE.sub(_json_escape, text)


def readable_json(value: Any, width: int = 88, indent: int = 0) -> str:
    """JSON for reading, as safe as `json_text`: what fits a line stays on one, other values are taken apart."""
    line = _UNSAFE.sub(_json_escape, json.dumps(value, ensure_ascii=False, allow_nan=False))
    if not value or not isinstance(value, Mapping | list | tuple) or len(line) + indent <= width:
        return line
    inner = " " * (indent + 2)
    if isinstance(value, Mapping):
        parts = [f"{json_text(str(k))}: {readable_json(v, width, indent + 2)}" for k, v in value.items()]
    else:
        parts = [readable_json(v, width, indent + 2) for v in value]
    opening, closing = "{}" if isinstance(value, Mapping) else "[]"
    body = f",\n{inner}".join(parts)
    return f"{opening}\n{inner}{body}\n{' ' * indent}{closing}"


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _json_escape(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))

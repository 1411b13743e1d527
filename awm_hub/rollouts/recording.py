"""What a model wrote, in a form that can be stored.

A model may write half of a surrogate pair, numbers that JSON does not have, or objects nested a thousand deep. Records
are canonical JSON, which refuses all of that, and a bad rollout is data and no crash. So texts get a replacement
character in place of what UTF-8 cannot hold, and arguments without a JSON form are kept as the text they were: a
replay then makes the same invalid call, where a mended argument could be a valid one.
"""

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from awm_hub.canonical import MAX_JSON_DEPTH, depth, to_json
from awm_hub.errors import RecordError

_HALVES = re.compile("[\ud800-\udfff]")
_MAX_MESSAGE_DEPTH = 48
"""Of a chat message inside a trajectory, so that the whole stays within what readers accept."""


def text(value: Any) -> str:
    """A text that UTF-8 can hold: a replacement character stands for each half of a pair."""
    return _HALVES.sub("\ufffd", str(value))


def arguments(value: Any) -> Any:
    """Arguments as they are, or as text where they have no JSON form or are nested too deeply."""
    try:
        written = to_json(value)
        if depth(written) <= MAX_JSON_DEPTH:
            return value if not isinstance(value, Mapping) else dict(value)
    except RecordError:
        pass
    try:
        return json.dumps(value, default=repr)
    except (ValueError, TypeError, RecursionError):
        return f"<{type(value).__name__} that has no JSON form>"


def plain(value: Any, level: int = 0) -> Any:
    """JSON that can be stored, from any value: what has no JSON form becomes a text."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        return text(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if level >= _MAX_MESSAGE_DEPTH:
        return "…"
    if isinstance(value, Mapping):
        return {text(k): plain(v, level + 1) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v, level + 1) for v in value]
    return text(value)

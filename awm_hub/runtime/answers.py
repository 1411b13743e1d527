"""What a worker may answer. Code of a row may have run there, so that every byte may be a lie.

A frame is measured before it is decoded: a few megabytes of empty lists would become gigabytes of objects, and seconds
of the host's event loop. Then what an operation answers has to be of the operation's type, so that nothing behind this
module meets anything else. Whether a claim of the right type is true is another matter: a row's code may always lie
about its own results.
"""

import math
import re
from typing import Any

from awm_hub.runtime import builds
from awm_hub.sandbox import frames
from awm_hub.trajectory import RESULT_TYPES

MAX_ITEMS = 500_000
_SMALL_BYTES = 64 * 2**10
_LENGTH_BYTES = 4
_MAX_KIND, _MAX_MESSAGE = 100, 4000
_LARGE_CLAIM = re.compile(rb"[\xdc-\xdf]")
_PAYLOAD = {0xA0 + size: size for size in range(32)} | {
    0xCA: 4, 0xCB: 8, 0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8, 0xD0: 1, 0xD1: 2, 0xD2: 4, 0xD3: 8,
    0xD4: 2, 0xD5: 3, 0xD6: 5, 0xD7: 9, 0xD8: 17,
}  # fmt: skip
"""msgpack's first byte to the bytes that follow; for every other one it is 0, or stands in the next table."""
_SIZED = {0xC4: (1, 0), 0xC5: (2, 0), 0xC6: (4, 0), 0xC7: (1, 1), 0xC8: (2, 1), 0xC9: (4, 1)} | {
    0xD9: (1, 0), 0xDA: (2, 0), 0xDB: (4, 0),
}  # fmt: skip
"""First byte to the width of the length that follows it, and what comes on top of that length."""
_CLAIMS = {0xDC: 2, 0xDD: 4, 0xDE: 2, 0xDF: 4}
"""First byte to the width of the number of items that follows it."""
_TEXTS = {"compare", "diff", "dump", "hash", "query", "verify"}


def take(buffer: bytearray) -> dict[str, Any] | None:
    """Take the first answer from a buffer; None while it is not complete.

    Raises:
        FrameError: what is in the buffer is no frame, or would grow out of measure.
    """
    if len(buffer) < _LENGTH_BYTES:
        return None
    end = _LENGTH_BYTES + frames.frame_length(buffer[:_LENGTH_BYTES])
    if len(buffer) < end:
        return None
    body = bytes(memoryview(buffer)[_LENGTH_BYTES:end])
    del buffer[:end]
    if len(body) > _SMALL_BYTES or _LARGE_CLAIM.search(body):
        _measure(body)
    return frames.decode(body)


def _measure(body: bytes) -> None:
    """Refuse a body of more items than any honest answer has, counting those that it claims to have."""
    position = items = 0
    while position < len(body):
        head = body[position]
        position += 1
        items += 1
        if head in _SIZED:
            width, more = _SIZED[head]
            position += width + more + int.from_bytes(body[position : position + width], "big")
        elif head in _CLAIMS:
            width = _CLAIMS[head]
            items += int.from_bytes(body[position : position + width], "big")
            position += width
        else:
            position += _PAYLOAD.get(head, 0)
        if items > MAX_ITEMS:
            raise frames.FrameError(f"a message of more than {MAX_ITEMS} items")


def failure(answer: dict[str, Any]) -> tuple[str, str] | None:
    """Kind and message of an answer that says that the operation failed; both are short texts.

    Raises:
        ValueError: they are no texts.
    """
    if "error" not in answer:
        return None
    kind, message = answer["error"], answer.get("message", "")
    if not isinstance(kind, str) or not isinstance(message, str):
        raise ValueError("an error that is no text")
    return kind[:_MAX_KIND], message[:_MAX_MESSAGE]


def checked(operation: str, value: Any) -> Any:
    """What an operation answered, if it is of the operation's type; texts about a call are cut to a sane length.

    Raises:
        ValueError: it is not.
    """
    if not _is_fit(operation, value):
        raise ValueError(f"no answer to {operation}")
    if operation == "call":
        return _cut(value)
    if operation == "calls" and isinstance(value, list):
        return [_cut(answer) for answer in value]
    return value


def _cut(answer: Any) -> Any:
    if isinstance(answer, dict):
        answer = {"value": None, "code": None, "image": None, **answer}
        for name, most in (("code", _MAX_KIND), ("message", _MAX_MESSAGE)):
            text = answer.get(name)
            if isinstance(text, str) and len(text) > most:
                answer[name] = text[:most]
    return answer


def _is_fit(operation: str, value: Any) -> bool:
    if operation in _TEXTS:
        return isinstance(value, str)
    if operation == "setup":
        return isinstance(value, bytes)
    if operation == "summary":
        return _is_summary(value)
    return True


def _is_summary(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("logical_hash"), str):
        return False
    counts = value.get("row_counts")
    return isinstance(counts, dict) and all(isinstance(k, str) and type(n) is int for k, n in counts.items())


def is_call_answer(found: Any) -> bool:
    """Whether what a worker sent is an answer to a call at all: code of the row ran there."""
    return (
        isinstance(found, dict)
        and found.get("type") in RESULT_TYPES
        and isinstance(found.get("value"), str | None)
        and isinstance(found.get("code"), str | None)
        and isinstance(found.get("message"), str)
        and isinstance(found.get("changed"), bool)
        and isinstance(found.get("coerced"), list)
        and all(isinstance(text, str) for text in found["coerced"])
        and isinstance(found.get("seconds"), float)
        and math.isfinite(found["seconds"])
        and (found.get("image") is None or builds.is_image(found["image"]))
    )

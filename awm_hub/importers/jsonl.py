"""Reading JSON lines of unknown quality: one record at a time, as bytes, without trusting a single line.

A line ends at a line feed and nowhere else: U+2028 and its kin are ordinary characters inside a JSON text. A carriage
return before the line feed and a byte-order mark at the start of the file are tolerated, blank lines are counted, and
text is UTF-8 whatever the locale says. A line that cannot be used is handed out with its `fault` instead of its value,
so that its neighbours survive it and a report can name its number.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from awm_hub.canonical import MAX_JSON_BYTES, from_json
from awm_hub.errors import LimitError, RecordError, SourceError

_BOM = b"\xef\xbb\xbf"
_CHUNK = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Fault:
    """Why a line or a record cannot be used."""

    kind: str
    """`limit`, `encoding` or `json` from this module; readers of records add `shape` and others."""
    message: str


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line of a file: where it lies, and either its value or its fault."""

    number: int
    """From 1."""
    offset: int
    """First byte of the line in the file."""
    size: int
    """Bytes up to the line end, which is not counted."""
    value: Any = None
    fault: Fault | None = None
    is_blank: bool = False


def read_lines(path: Path, *, max_bytes: int = MAX_JSON_BYTES) -> Iterator[Line]:
    """Read a file line by line; at most `max_bytes` of a line are ever in memory.

    Raises:
        SourceError: the file cannot be opened or read.
    """
    try:
        with path.open("rb") as stream:
            yield from _lines(stream, max_bytes)
    except OSError as error:
        raise SourceError(f"cannot read {path.name}: {error.strerror}", next_step="check the file") from error


def read_at(path: Path, line: Line) -> Any:
    """Read the value of a line again, by its place in the file.

    Raises:
        SourceError: the file cannot be read, or no longer holds this line.
    """
    try:
        with path.open("rb") as stream:
            stream.seek(line.offset)
            return _value(stream.read(line.size))
    except (OSError, ValueError, RecordError) as error:
        raise SourceError(
            f"{path.name} line {line.number} changed while it was read: {error}", next_step="import again"
        ) from error


def _lines(stream: BinaryIO, max_bytes: int) -> Iterator[Line]:
    number = offset = 0
    while raw := stream.readline(max_bytes + 2):
        number += 1
        content = raw.rstrip(b"\r\n")
        if offset == 0 and content.startswith(_BOM):
            content = content[len(_BOM) :]
            offset = len(_BOM)
        is_whole = raw.endswith(b"\n") or len(raw) < max_bytes + 2
        end = stream.tell() if is_whole else _skip(stream)
        if is_whole and len(content) <= max_bytes:
            yield _line(number, offset, content, is_last=not raw.endswith(b"\n"))
        else:
            fault = Fault(kind="limit", message=f"the line is longer than {max_bytes} bytes")
            yield Line(number=number, offset=offset, size=end - offset, fault=fault)
        offset = end


def _skip(stream: BinaryIO) -> int:
    """Move past the line's end without keeping it; the position there."""
    while chunk := stream.readline(_CHUNK):
        if chunk.endswith(b"\n"):
            break
    return stream.tell()


def _line(number: int, offset: int, content: bytes, *, is_last: bool) -> Line:
    if not content.strip():
        return Line(number=number, offset=offset, size=len(content), is_blank=True)
    value, fault = None, None
    try:
        value = _value(content)
    except UnicodeDecodeError as error:
        fault = Fault(kind="encoding", message=f"no UTF-8 at byte {error.start} of the line")
    except LimitError as error:
        fault = Fault(kind="limit", message=error.message)
    except RecordError as error:
        hint = "; the file ends inside this line, is it complete?" if is_last else ""
        fault = Fault(kind="json", message=error.message + hint)
    return Line(number=number, offset=offset, size=len(content), value=value, fault=fault)


def _value(content: bytes) -> Any:
    value = from_json(content.decode("utf-8"), "the line")
    if b"\\ud" in content.lower():
        _refuse_lone_surrogates(value)
    return value


def _refuse_lone_surrogates(value: Any) -> None:
    """Half of a surrogate pair has no UTF-8 and would fail wherever the text is stored."""
    match value:
        case str():
            try:
                value.encode("utf-8")
            except UnicodeEncodeError as error:
                raise RecordError("the line holds half of a surrogate pair") from error
        case list():
            for item in value:
                _refuse_lone_surrogates(item)
        case dict():
            for key, item in value.items():
                _refuse_lone_surrogates(key)
                _refuse_lone_surrogates(item)

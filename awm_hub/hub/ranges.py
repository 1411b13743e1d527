"""One file of the Hub, read by ranges: what is asked for is fetched, and kept.

A reader of Parquet looks at the footer and then at one row group; both together are a megabyte or two where the whole
file is twenty. Each range that was fetched is kept beside the Hub's own cache (`HF_HOME/assets/awm-hub`), under the
SHA-256 that the Hub states for the file: the same file of another revision is not fetched again, and what was read once
works offline. A kept range carries its own SHA-256; one that no longer has it is fetched again.
"""

import hashlib
import io
import json
import os
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

Fetch = Callable[[int, int], bytes]
"""Gives the bytes from a start up to, and without, an end."""

_DIGEST_BYTES = 32


@dataclass(frozen=True, kw_only=True)
class FileFacts:
    """What the Hub says about a file at a commit."""

    etag: str
    """SHA-256 of the content for large files, the Git blob's id for others."""
    size: int


def kept_facts(place: Path) -> FileFacts | None:
    """The facts kept in this file, or None."""
    try:
        found = json.loads(place.read_bytes())
        return FileFacts(etag=str(found["etag"]), size=int(found["size"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def keep_facts(place: Path, facts: FileFacts) -> None:
    """Keep facts in this file."""
    _write(place, json.dumps(asdict(facts)).encode())


class RangeFile(io.RawIOBase):
    """A file of known size whose ranges come from a folder of kept ones, or else from `fetch`."""

    def __init__(self, size: int, folder: Path, fetch: Fetch) -> None:
        self._size, self._folder, self._fetch = size, folder, fetch
        self._position = 0
        self._held = (0, b"")

    @property
    def size(self) -> int:
        """Bytes of the whole file."""
        return self._size

    def hold(self, start: int, end: int) -> None:
        """Get a range at once, and have the next reads within it from memory.

        Raises:
            RemoteError: the range is not kept, and cannot be fetched.
        """
        start, end = max(0, start), min(self._size, end)
        self._held = (start, self._range(start, end))

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True

    def tell(self) -> int:
        """The position."""
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to a position."""
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        self._position = max(0, start + offset)
        return self._position

    def read(self, size: int | None = -1) -> bytes:
        """Read from the position on.

        Raises:
            RemoteError: the range is not kept, and cannot be fetched.
        """
        start = self._position
        end = self._size if size is None or size < 0 else min(self._size, start + size)
        data = self._range(start, end) if end > start else b""
        self._position = start + len(data)
        return data

    def readinto(self, buffer: Any) -> int:
        """Read into a buffer.

        Raises:
            RemoteError: the range is not kept, and cannot be fetched.
        """
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def _range(self, start: int, end: int) -> bytes:
        first, held = self._held
        if first <= start and end <= first + len(held):
            return held[start - first : end - first]
        place = self._folder / f"{start}-{end}"
        kept = _checked(place)
        if kept is not None and len(kept) == end - start:
            return kept
        data = self._fetch(start, end)
        _write(place, hashlib.sha256(data).digest() + data)
        return data


def _checked(place: Path) -> bytes | None:
    """What is kept in this file, if it is still what was put there."""
    try:
        content = place.read_bytes()
    except OSError:
        return None
    data = content[_DIGEST_BYTES:]
    return data if hashlib.sha256(data).digest() == content[:_DIGEST_BYTES] else None


def _write(place: Path, content: bytes) -> None:
    """Write a file as a whole, or not at all; a cache that cannot be written to is no cache."""
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=place.parent)
    except OSError:
        return
    written = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        written.replace(place)
    except OSError:
        written.unlink(missing_ok=True)

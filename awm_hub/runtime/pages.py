"""Differences between two database images as lists of pages: small, exact, and made without opening either image.

A delta is base64 of zlib of: page size, page count of the new image, then number and bytes of every page that differs.
It is what a trajectory stores and what a snapshot holds. Images are opaque bytes here, never opened by SQLite.
"""

import base64
import binascii
import struct
import zlib

from awm_hub.errors import RecordError

_HEAD = struct.Struct("<4sIQ")
_NUMBER = struct.Struct("<I")
_MAGIC = b"AWP1"
_PAGE_BYTES = 1024
MAX_IMAGE_BYTES = 64 * 2**20


def delta(initial: bytes, final: bytes) -> str:
    """What turns `initial` into `final`."""
    parts = [_HEAD.pack(_MAGIC, _PAGE_BYTES, len(final))]
    for number in range((len(final) + _PAGE_BYTES - 1) // _PAGE_BYTES):
        start = number * _PAGE_BYTES
        page = final[start : start + _PAGE_BYTES]
        if page != initial[start : start + _PAGE_BYTES]:
            parts += [_NUMBER.pack(number), page.ljust(_PAGE_BYTES, b"\0")]
    return base64.b64encode(zlib.compress(b"".join(parts), 6)).decode()


def apply(initial: bytes, text: str) -> bytes:
    """The image that a delta describes, against the image it was made from.

    Raises:
        RecordError: the text is no delta, or describes an image over 64 MB.
    """
    try:
        inflater = zlib.decompressobj()
        data = inflater.decompress(base64.b64decode(text, validate=True), MAX_IMAGE_BYTES * 2)
        magic, page_bytes, size = _HEAD.unpack_from(data)
        if not inflater.eof:
            raise ValueError("it is cut short or too large")
    except (binascii.Error, ValueError, zlib.error, struct.error) as error:
        raise RecordError(f"no database delta: {error}") from error
    step = _NUMBER.size + page_bytes
    if magic != _MAGIC or page_bytes != _PAGE_BYTES or size > MAX_IMAGE_BYTES or (len(data) - _HEAD.size) % step:
        raise RecordError("no database delta: bad head")
    image = bytearray(initial[:size].ljust(size, b"\0"))
    for offset in range(_HEAD.size, len(data), step):
        start = _NUMBER.unpack_from(data, offset)[0] * page_bytes
        if start >= size:
            raise RecordError("no database delta: page out of range")
        page = data[offset + _NUMBER.size : offset + step]
        image[start : start + page_bytes] = page[: size - start]
    return bytes(image)

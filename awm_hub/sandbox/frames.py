"""Frames between host and sandboxed processes: a 32-bit length, then one msgpack map.

Both sides set explicit limits: what comes from a worker is untrusted. There is no pickle anywhere.
"""

import socket
import struct
from typing import Any

import msgpack

MAX_FRAME_BYTES = 160 * 2**20
"""Two database images and some text."""
_READ_BYTES = 64 * 2**10
_LENGTH = struct.Struct("<I")


class FrameError(Exception):
    """The other side sent something that is no frame."""


def encode(message: dict[str, Any]) -> bytes:
    """One message as a frame."""
    body: bytes = msgpack.packb(message, use_bin_type=True)
    if len(body) > MAX_FRAME_BYTES:
        raise FrameError(f"a message of {len(body)} bytes is over the limit of {MAX_FRAME_BYTES}")
    return _LENGTH.pack(len(body)) + body


def decode(body: bytes | bytearray) -> dict[str, Any]:
    """One message from a frame's body.

    Raises:
        FrameError: the body is no msgpack map.
    """
    try:
        message = msgpack.unpackb(body, raw=False, max_array_len=10**6, max_map_len=10**6)
    except Exception as error:
        raise FrameError(f"no message: {type(error).__name__}") from error
    if not isinstance(message, dict):
        raise FrameError("no message: not a map")
    return message


def frame_length(head: bytes | bytearray) -> int:
    """Length of the body that follows a four-byte head.

    Raises:
        FrameError: the length is over the limit.
    """
    (length,) = _LENGTH.unpack(head)
    if length > MAX_FRAME_BYTES:
        raise FrameError(f"a frame of {length} bytes is over the limit of {MAX_FRAME_BYTES}")
    return int(length)


def send(connection: socket.socket, message: dict[str, Any]) -> None:
    """Send one message (worker side, blocking)."""
    connection.sendall(encode(message))


class Reader:
    """Receives messages from a socket (worker side, blocking), as many as have come with one read."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._buffer = bytearray()

    def receive(self) -> dict[str, Any]:
        """The next message.

        Raises:
            EOFError: the other side has closed.
            FrameError: what came is no frame.
        """
        self._fill(_LENGTH.size)
        end = _LENGTH.size + frame_length(self._buffer[: _LENGTH.size])
        self._fill(end)
        body = bytes(memoryview(self._buffer)[_LENGTH.size : end])
        del self._buffer[:end]
        return decode(body)

    def _fill(self, size: int) -> None:
        while (missing := size - len(self._buffer)) > 0:
            part = self._connection.recv(min(max(missing, _READ_BYTES), 2**20))
            if not part:
                raise EOFError
            self._buffer += part

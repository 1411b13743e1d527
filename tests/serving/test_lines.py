"""Lines cut from what a descriptor delivers."""

import asyncio
import os

import pytest

from awm_hub.serving.lines import LineReader, LineWriter, split_lines


def cut(*chunks: bytes, max_bytes: int = 10) -> list[bytes | None]:
    found: list[bytes | None] = []
    rest = [*chunks, b""]
    split_lines(lambda: rest.pop(0), found.append, max_bytes)
    return found


def test_lines_end_at_line_feeds_alone() -> None:
    text = "a\u2028b\u0085c\rd\ve"
    assert cut(text.encode() + b"\nnext\n", max_bytes=100) == [text.encode(), b"next"]


def test_a_line_may_come_in_pieces_and_the_last_needs_no_end() -> None:
    assert cut(b"on", b"e\ntw", b"o\n\nthree") == [b"one", b"two", b"", b"three"]


def test_a_line_over_the_limit_is_dropped_as_a_whole_and_the_next_is_read() -> None:
    assert cut(b"0123456789\n", b"0123456789X\n", b"ok\n") == [b"0123456789", None, b"ok"]
    assert cut(b"012345", b"678", b"9X", b"more and more", b"\nok\n", b"0123456789", b"X") == [None, b"ok", None]


async def test_what_is_written_to_a_pipe_is_read_from_it_line_by_line() -> None:
    source, sink = os.pipe()
    writer = LineWriter(sink)
    lines = LineReader(source, max_bytes=2**20)
    sent = [f"{n} {'ü' * 50_000}" for n in range(5)]

    async def read() -> list[str]:
        return [line.decode() async for line in lines if line is not None]

    reading = asyncio.create_task(read())
    for line in sent:
        await writer.write(line)
    writer.close()
    os.close(sink)
    assert await reading == sent
    os.close(source)


async def test_writing_to_nobody_is_an_error() -> None:
    source, sink = os.pipe()
    writer = LineWriter(sink)
    os.close(source)
    with pytest.raises(BrokenPipeError):
        await writer.write("hello")
    writer.close()
    os.close(sink)

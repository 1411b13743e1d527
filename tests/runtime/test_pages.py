"""Deltas between images."""

import random

import pytest

from awm_hub.errors import RecordError
from awm_hub.runtime import pages


@pytest.mark.parametrize("sizes", [(0, 0), (4096, 4096), (4096, 8192), (8192, 4096), (4096, 5000), (0, 3)])
def test_a_delta_rebuilds_the_image(sizes: tuple[int, int]) -> None:
    source = random.Random(1)
    initial, final = (source.randbytes(size) for size in sizes)
    shared = min(sizes) // 2
    final = initial[:shared] + final[shared:]
    assert pages.apply(initial, pages.delta(initial, final)) == final


def test_a_delta_holds_only_what_changed() -> None:
    initial = random.Random(2).randbytes(2**20)
    final = initial[:5000] + b"changed" + initial[5007:]
    assert len(pages.delta(initial, final)) < 2000


@pytest.mark.parametrize("text", ["", "no base64", "eJwDAAAAAAE=", pages.delta(b"", b"x" * 2048)[:-8]])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(RecordError, match="no database delta"):
        pages.apply(b"", text)

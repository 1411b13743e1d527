"""What a model wrote can be stored, whatever it is."""

import json
from typing import Any

import pytest

from awm_hub.canonical import to_json
from awm_hub.rollouts import recording


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def test_sound_arguments_stay_as_they_are() -> None:
    assert recording.arguments({"a": [1, 2.5, None, "é"]}) == {"a": [1, 2.5, None, "é"]}


@pytest.mark.parametrize(
    "value",
    [{"a": "\ud83c"}, {"a": float("nan")}, {"a": deep(70)}, {"a": deep(20_000)}, {"a": {1, 2}}, {(1, 2): 3}],
    ids=["half a pair", "no number", "deep", "endless", "a set", "a tuple as key"],
)
def test_arguments_without_a_json_form_are_kept_as_text(value: Any) -> None:
    kept = recording.arguments(value)
    assert isinstance(kept, str)
    assert kept.isascii()
    to_json(kept)


def test_arguments_with_half_a_pair_can_be_read_off_the_text() -> None:
    assert json.loads(recording.arguments({"a": "oops \ud83c"})) == {"a": "oops \ud83c"}


def test_texts_lose_only_what_utf_8_cannot_hold() -> None:
    assert recording.text("a\ud83cb 🍸\x00") == "a\ufffdb 🍸\x00"


def test_messages_become_json_that_can_be_stored() -> None:
    message = {"role": "assistant", "content": "\ud83c", "n": float("inf"), "raw": b"x", 3: (1, None, True)}
    assert recording.plain(message) == {
        "role": "assistant",
        "content": "\ufffd",
        "n": "inf",
        "raw": "b'x'",
        "3": [1, None, True],
    }


def test_messages_are_cut_where_they_are_too_deep() -> None:
    assert to_json(recording.plain(deep(5_000))).count("[") == 48

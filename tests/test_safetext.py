import json

import pytest

from awm_hub.safetext import clean, json_text, readable_json


def test_what_acts_on_a_terminal_is_written_as_its_escape() -> None:
    assert clean("a\x1b[2Jb\u202ec\ud800") == "a\\x1b[2Jb\\u202ec\\ud800"


@pytest.mark.parametrize(
    "value",
    [
        {"a": [], "b": {}, "c": None, "d": [[1, "x" * 90], {"e": {"f": "\x1b\u202eü"}}]},
        list(range(1000)),
        "x" * 200,
        {"\x1b": ["y" * 100]},
    ],
)
def test_readable_json_reads_back_as_the_same_value(value: object) -> None:
    text = readable_json(value)
    assert json.loads(text) == value
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_what_fits_a_line_stays_on_one() -> None:
    assert readable_json({"id": 1, "tags": ["a", "b"]}) == '{"id": 1, "tags": ["a", "b"]}'
    expected = '{\n  "id": 1,\n  "tags": ["a", "b"]\n}'
    assert readable_json({"id": 1, "tags": ["a", "b"]}, width=20) == expected


def test_values_that_json_lacks_are_refused() -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        json_text(float("nan"))

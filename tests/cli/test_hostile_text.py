"""Whatever a row says, the terminal only shows it."""

import re
from typing import Any

import pytest

from awm_hub.cli import main

ACTING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


@pytest.mark.parametrize(
    "words",
    [
        "list",
        "show parcel_desk_1",
        "show parcel_desk_1 --tools",
        "show parcel_desk_1 --tool register",
        "show parcel_desk_1 --task label_it",
        "show parcel_desk_1 --tables",
        "show parcel_desk_1 --code",
        "call parcel_desk_1 read",
        "call parcel_desk_1 register code=b label=\x1b[2J",
        "call parcel_desk_1 register code=b label=x weight_g=-1",
        "call parcel_desk_1 register code=b label=x weight_g=\x1b[2J",
        "call parcel_desk_1 fail",
        "call parcel_desk_1 \x1b[2J",
        "show \x1b[2J",
        "demo parcel_desk_1",
    ],
)
@pytest.mark.parametrize("form", ["text", "json"])
def test_no_character_that_acts_on_a_terminal_is_printed(words: str, form: str, cli: Any, hostile: str) -> None:
    options = ["--json"] if form == "json" else []
    _, out, err = cli(*words.split(" "), "--dataset", hostile, *options)
    printed = out if form == "text" else ""
    assert ACTING.findall(printed + err) == []
    assert printed + err or form == "json"


def test_the_raw_json_text_holds_none_either(hostile: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["show", "parcel_desk_1", "--json", "--dataset", hostile])
    assert ACTING.findall(capsys.readouterr().out) == []


def test_text_survives_json_output_unchanged(cli: Any, hostile: str, hostile_text: str) -> None:
    _, found, _ = cli("call", "parcel_desk_1", "read", "--json", "--dataset", hostile)
    assert found["data"]["result"]["value"] == hostile_text

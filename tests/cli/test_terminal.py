import io
import json
import shlex
import sys
from pathlib import Path

import pytest

from awm_hub.cli.terminal import Console, OutputClosedError, clean, clean_line, counted, json_text, own_name, table


def test_escape_sequences_and_bidi_overrides_are_shown_not_sent() -> None:
    assert clean("a\x1b[2Jb\u202ec\x07") == "a\\x1b[2Jb\\u202ec\\x07"


def test_line_feeds_tabs_and_other_scripts_stay() -> None:
    text = "één\tשלום\n漢字 👩‍👩‍👧"
    assert clean(text) == text


def test_a_carriage_return_cannot_overwrite_the_line() -> None:
    assert clean("safe\revil") == "safe\\x0devil"


def test_line_separators_lone_surrogates_and_invisible_tags_are_escaped() -> None:
    assert clean("\u2028\ud800\U000e0041") == "\\u2028\\ud800\\U000e0041"


def test_clean_line_is_one_line_of_the_given_width() -> None:
    assert clean_line("one\ntwo\tthree", 8) == "one⏎two…"


def test_json_text_reads_back_as_the_same_value() -> None:
    value = {"a": "x\x1b\x85\u2028\u202e\U000e0041ü", "b": [1, None, 2**70]}
    text = json_text(value)
    assert json.loads(text) == value
    assert all(ord(c) >= 0x20 and ord(c) not in (0x85, 0x2028, 0x202E, 0xE0041) for c in text)
    assert "ü" in text


def test_table_aligns_all_columns_but_the_last() -> None:
    assert table([("a", "bb", "c"), ("aaa", "b", "a long one")]) == ["a    bb  c", "aaa  b   a long one"]


def test_an_empty_table_has_no_lines() -> None:
    assert table([]) == []


def test_text_is_silent_with_json() -> None:
    out = io.StringIO()
    Console(is_json=True, out=out).say("hello")
    assert out.getvalue() == ""


def test_progress_is_json_lines_with_json_and_text_otherwise() -> None:
    err = io.StringIO()
    Console(is_json=True, err=err).progress("packed", id="notes", position=1, total=3)
    Console(is_json=False, err=err).progress("packed", id="no\x1btes", position=1, total=3)
    assert err.getvalue() == '{"event":"packed","id":"notes","position":1,"total":3}\npacked no\\x1btes (1 of 3)\n'


def test_colours_only_reach_a_terminal_that_wants_them(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.delenv("NO_COLOR", raising=False)
    assert Console(is_json=False, out=Terminal()).style("x", "bold", "red") == "\x1b[1;31mx\x1b[0m"
    assert Console(is_json=False, out=io.StringIO()).style("x", "bold") == "x"
    monkeypatch.setenv("NO_COLOR", "1")
    assert Console(is_json=False, out=Terminal()).style("x", "bold") == "x"


def test_prose_is_wrapped_on_a_terminal_only_and_ids_stay_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("COLUMNS", "30")
    text = "a shelf with well-known books\n" + "f" * 40 + "\x1b"
    expected = "a shelf with well-known\n     books\n     " + "f" * 40 + "\\x1b"
    assert Console(is_json=False, out=Terminal()).wrapped(text, indent=5) == expected
    piped = "a shelf with well-known books\n     " + "f" * 40 + "\\x1b"
    assert Console(is_json=False, out=io.StringIO()).wrapped(text, indent=5) == piped


@pytest.mark.parametrize(
    ("script", "on_path", "expected"),
    [
        ("/x/awm-hub", True, "awm-hub"),
        ("{folder}/my bin/awm-hub", False, "'{folder}/my bin/awm-hub'"),
        ("/x/awm_hub/__main__.py", False, "{python} -m awm_hub"),
    ],
)
def test_the_program_names_itself_so_that_the_shell_finds_it(
    script: str, on_path: bool, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "my bin" / "awm-hub"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    values = {"folder": str(tmp_path), "python": shlex.quote(sys.executable)}
    monkeypatch.setenv("PATH", str(program.parent) if on_path else str(tmp_path))
    monkeypatch.setattr("sys.argv", [script.format(**values)])
    assert own_name() == expected.format(**values)


def test_one_is_singular() -> None:
    assert [counted(n, "row") for n in (0, 1, 2)] == ["0 rows", "1 row", "2 rows"]


def test_a_reader_that_has_gone_is_told_apart_from_other_broken_pipes() -> None:
    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    with pytest.raises(OutputClosedError):
        Console(is_json=False, out=Gone()).say("hello")

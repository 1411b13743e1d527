from pathlib import Path

import pytest

from awm_hub.canonical import MAX_JSON_BYTES
from awm_hub.errors import SourceError
from awm_hub.importers.jsonl import Line, read_at, read_lines


def lines_of(tmp_path: Path, content: bytes, **options: int) -> list[Line]:
    path = tmp_path / "some.jsonl"
    path.write_bytes(content)
    return list(read_lines(path, **options))


def test_only_a_line_feed_ends_a_line(tmp_path: Path) -> None:
    text = '{"a":"x\u2028y\u2029z\u0085\u000b"}'.replace("\u000b", "\\u000b")
    found = lines_of(tmp_path, f'{text}\n{{"a":"second"}}\n'.encode())
    assert [line.value for line in found] == [{"a": "x\u2028y\u2029z\u0085\u000b"}, {"a": "second"}]


def test_text_is_utf_8_whatever_the_locale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "C")
    assert [line.value for line in lines_of(tmp_path, '["Ærø – 雨"]'.encode())] == [["Ærø – 雨"]]


def test_a_carriage_return_and_a_byte_order_mark_are_no_part_of_the_value(tmp_path: Path) -> None:
    found = lines_of(tmp_path, b"\xef\xbb\xbf[1]\r\n[2]\r\n")
    assert [(line.number, line.value, line.offset, line.size) for line in found] == [(1, [1], 3, 3), (2, [2], 8, 3)]


def test_blank_lines_are_told_and_keep_the_numbers_right(tmp_path: Path) -> None:
    found = lines_of(tmp_path, b"\n  \r\n[1]\n\n")
    assert [(line.number, line.is_blank, line.value) for line in found] == [
        (1, True, None),
        (2, True, None),
        (3, False, [1]),
        (4, True, None),
    ]


def test_an_empty_file_has_no_lines(tmp_path: Path) -> None:
    assert lines_of(tmp_path, b"") == []


def test_a_truncated_line_is_reported_with_its_number_and_its_neighbours_survive(tmp_path: Path) -> None:
    first, second, third, last = lines_of(tmp_path, b'{"a":1}\n{"a":\n{"a":3}\n{"a":"4')
    assert (first.value, third.value) == ({"a": 1}, {"a": 3})
    assert second.number == 2
    assert second.fault is not None
    assert second.fault.kind == "json"
    assert last.number == 4
    assert last.fault is not None
    assert last.fault.message.endswith("the file ends inside this line, is it complete?")


def test_bytes_that_are_no_utf_8_are_a_fault_of_their_line(tmp_path: Path) -> None:
    bad, good = lines_of(tmp_path, b'["\xff"]\n["ok"]\n')
    assert good.value == ["ok"]
    assert bad.fault is not None
    assert (bad.fault.kind, bad.fault.message) == ("encoding", "no UTF-8 at byte 2 of the line")


@pytest.mark.parametrize("text", ['["\\ud83d"]', '{"\\uDE00": 1}'])
def test_half_a_surrogate_pair_is_refused(tmp_path: Path, text: str) -> None:
    (line,) = lines_of(tmp_path, text.encode() + b"\n")
    assert line.fault is not None
    assert line.fault.message == "the line holds half of a surrogate pair"


def test_a_whole_surrogate_pair_is_one_character(tmp_path: Path) -> None:
    assert [line.value for line in lines_of(tmp_path, b'["\\ud83d\\ude00"]')] == [["😀"]]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b""])
def test_a_line_of_exactly_the_limit_is_read(tmp_path: Path, end: bytes) -> None:
    assert [line.value for line in lines_of(tmp_path, b'"' + b"x" * 98 + b'"' + end, max_bytes=100)] == ["x" * 98]


@pytest.mark.parametrize("extra", [1, 2, 3, 5_000_000])
def test_a_line_beyond_the_limit_is_refused_and_the_next_one_read(tmp_path: Path, extra: int) -> None:
    long, short = lines_of(tmp_path, b'"' + b"x" * (98 + extra) + b'"\n[1]\n', max_bytes=100)
    assert long.fault is not None
    assert (long.fault.kind, long.fault.message) == ("limit", "the line is longer than 100 bytes")
    assert (short.number, short.value, short.offset) == (2, [1], 101 + extra)


def test_a_line_of_carriage_returns_beyond_the_limit_does_not_pass_for_short(tmp_path: Path) -> None:
    long, short = lines_of(tmp_path, b"1" * 100 + b"\r\r\r9\n[1]\n", max_bytes=100)
    assert long.fault is not None
    assert short.value == [1]


def test_an_endless_last_line_is_refused_without_being_kept(tmp_path: Path) -> None:
    path = tmp_path / "endless.jsonl"
    with path.open("wb") as stream:
        stream.truncate(3 * MAX_JSON_BYTES)
    (line,) = read_lines(path)
    assert line.fault is not None
    assert (line.fault.kind, line.size) == ("limit", 3 * MAX_JSON_BYTES)


def test_nesting_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    (line,) = lines_of(tmp_path, b"[" * 5000 + b"]" * 5000)
    assert line.fault is not None
    assert line.fault.kind == "limit"


def test_a_line_can_be_read_again_by_its_place(tmp_path: Path) -> None:
    found = lines_of(tmp_path, '\ufeff["ä"]\r\n\n["ö"]\n["ü"]'.encode())
    again = [read_at(tmp_path / "some.jsonl", line) for line in found if not line.is_blank]
    assert again == [["ä"], ["ö"], ["ü"]]


def test_a_file_that_changed_meanwhile_is_told(tmp_path: Path) -> None:
    _, second = lines_of(tmp_path, b"[1]\n[2]\n")
    (tmp_path / "some.jsonl").write_bytes(b"[1]")
    with pytest.raises(SourceError, match=r"some\.jsonl line 2 changed while it was read"):
        read_at(tmp_path / "some.jsonl", second)


def test_a_missing_file_is_a_source_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="cannot read none"):
        list(read_lines(tmp_path / "none.jsonl"))

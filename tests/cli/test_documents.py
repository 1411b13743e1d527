import io

import pytest

from awm_hub.cli.documents import BRIEF, FULL, Extent, document_lines
from awm_hub.cli.terminal import Console
from awm_hub.trajectory import StateDiff, TableDiff
from awm_hub.viewing.document import Cell, Data, Document, Facts, Grid, Label, Prose, Rows, Section


def lines(*blocks: object, extent: Extent = BRIEF) -> list[str]:
    document = Document(title="A title", labels=(Label(text="COMPLETED", tone="good"),), blocks=blocks)  # type: ignore[arg-type]
    return list(document_lines(document, Console(is_json=False, out=io.StringIO()), extent))


def test_every_kind_of_block_has_its_lines() -> None:
    diff = StateDiff({"notes": TableDiff(added=({"id": 1},))})
    grid = Grid(label="Rules", columns=("turn", "name"), rows=((Cell(text="0"), Cell(text="unknown_tool")),))
    assert lines(
        Facts(pairs=(("seed", "7"),)),
        Prose(text="one"),
        Prose(text="one\ntwo", label="thought"),
        Data(value={"a": 1}, label="arguments"),
        Section(title="1. get", labels=(Label(text="ok", tone="good"),), blocks=(Rows(diff=diff), grid)),
    ) == [
        "A title  COMPLETED",
        "seed              7",
        "one",
        "thought",
        "  one",
        "  two",
        'arguments {"a": 1}',
        "",
        "1. get  ok",
        "   notes",
        "     + id=1",
        "   turn  name",
        "   0     unknown_tool",
    ]


def test_folded_sections_are_named_and_left_out() -> None:
    inner = Section(title="Signals", blocks=(Prose(text="long"),), is_folded=True)
    outer = Section(title="Verdict", blocks=(inner,))
    rules = Section(title="Rules", blocks=(Prose(text="long"),), is_folded=True)
    assert lines(outer, rules) == [
        "A title  COMPLETED", "", "Verdict", "", "not shown: Signals, Rules (--full, --html and --json show all)",
    ]  # fmt: skip


def test_in_full_folded_sections_and_long_texts_are_shown() -> None:
    text = "\n".join(str(n) for n in range(3_000))
    section = Section(title="Rules", blocks=(Prose(text=text),), is_folded=True)
    assert [line.strip() for line in lines(section, extent=FULL)] == ["A title  COMPLETED", "", "Rules", *text.split()]


def test_what_is_too_long_loses_its_middle_and_says_how_to_see_it() -> None:
    many = lines(Prose(text="\n".join(str(n) for n in range(100))))[1:]
    assert many == [*map(str, range(15)), "… 80 more lines (--full shows all)", *map(str, range(95, 100))]
    long = lines(Prose(text="x" * 3_000 + "end"))[1:]
    assert long == ["x" * 1_500, "… 1003 more characters (--full shows all)", "x" * 497 + "end"]


@pytest.mark.parametrize("text", ["\n".join("abc" * 10), "x" * 2_600, "", "\n" * 29])
def test_a_short_rest_is_not_cut(text: str) -> None:
    assert lines(Prose(text=text))[1:] == text.split("\n")


def test_an_extent_says_how_much_is_shown() -> None:
    extent = Extent(lines=4, characters=1_000, rest="`result 1` shows all")
    shown = lines(Data(value=["a" * 80] * 20), extent=extent)[1:]
    assert shown == ["[", *[f'  "{"a" * 80}",'] * 2, "… 18 more lines (`result 1` shows all)", "]"]

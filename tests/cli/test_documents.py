import io

from awm_hub.cli.documents import document_lines
from awm_hub.cli.terminal import Console
from awm_hub.trajectory import StateDiff, TableDiff
from awm_hub.viewing.document import Cell, Data, Document, Facts, Grid, Label, Prose, Rows, Section


def lines(*blocks: object) -> list[str]:
    document = Document(title="A title", labels=(Label(text="COMPLETED", tone="good"),), blocks=blocks)  # type: ignore[arg-type]
    return list(document_lines(document, Console(is_json=False, out=io.StringIO())))


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
        "A title  COMPLETED", "", "Verdict", "", "not shown: Signals, Rules (--html and --json show all)",
    ]  # fmt: skip


def test_what_is_too_long_is_cut_and_says_so() -> None:
    assert lines(Prose(text="\n".join("abc"[n % 3] for n in range(20))))[-2:] == ["b", "… 12 more characters"]
    assert lines(Prose(text="x" * 2_001))[-1] == "… 1 more character"

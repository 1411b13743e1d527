"""Texts of rows as Markdown."""

import pytest
from markdown_it import MarkdownIt

from awm_hub.card.markdown import column_table, number, text


@pytest.mark.parametrize(
    "shown",
    [
        "plain (words), 1 & 2",
        "*a* _b_ `c` <b> [d](e) # f",
        "a | b \\| c",
        "1. x",
        "- x",
        "&lt; $x$ ~~y~~",
        "Ü „ü“ 日本",
    ],
)
def test_a_text_is_shown_as_it_is(shown):
    page = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render
    rendered = page(f"| a | b |\n|---|---|\n| {text(shown)} | c |\n")
    escaped = shown.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
    assert f"<td>{escaped}</td>\n<td>c</td>" in rendered


def test_long_texts_and_line_ends_stay_in_their_cell():
    assert text("a\nb\tc") == "a⏎b c"
    assert len(text("x" * 500)) == 80


@pytest.mark.parametrize(
    ("value", "shown"), [(None, "–"), (3, "3"), (3.0, "3"), (18.46, "18.5"), (1985, "1,985"), (1985.4, "1,985")]
)
def test_figures_are_rounded_for_reading(value, shown):
    assert number(value) == shown


def test_types_of_columns_are_code_and_fields_of_structs_stand_apart():
    lines = column_table("environments").splitlines()
    assert "| `categories` | `list<string>` |" in "\n".join(lines)
    (tables,) = [line for line in lines if line.startswith("| `tables` ")]
    assert tables.startswith("| `tables` | `list<struct>` | ")
    assert tables.endswith(" Fields: name, ddl, indexes. |")

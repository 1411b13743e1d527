import pytest

from awm_hub.packing import references

RESULTS = [[{"id": 7, "tags": ["a", "b"]}], {"total": {"cents": 120}}, 42]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("$1[0].id", 7),
        ("$1[0].tags[1]", "b"),
        ("$2.total.cents", 120),
        ("$2.total", {"cents": 120}),
        ("$3", 42),
        ({"lines": [{"id": "$1[0].id", "note": "costs $3"}]}, {"lines": [{"id": 7, "note": "costs $3"}]}),
    ],
)
def test_a_reference_stands_for_a_part_of_an_earlier_result(value, expected):
    assert references.resolve(value, RESULTS) == expected


@pytest.mark.parametrize("text", ["$1.50", "$0.99 each", "$", "US$1", "$1 each", "$a"])
def test_a_text_of_another_form_stands_for_itself(text):
    assert references.misspelt([text]) is None
    assert not references.holds_reference({"nested": [text]})
    assert references.resolve(text, RESULTS) == text


@pytest.mark.parametrize("text", ["$0", "$0[0].x", "$1[-1]", "$2[-1].x", "$1[x]", "$2[0]x", "$1.", "$1.a b", "$01"])
def test_what_begins_like_a_reference_and_is_none_is_found(text):
    assert references.misspelt({"nested": ["$1.id", text]}) == text
    assert references.holds_reference([text])


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ("$4", "refers to step 4, which has not run yet"),
        ("$1[1]", r"step 1 returned nothing at \[1\]"),
        ("$1.id", r"step 1 returned nothing at \.id"),
        ("$2.total.euros", r"step 2 returned nothing at \.euros"),
        ("$1[0].tags[0][0]", r"step 1 returned nothing at \[0\]"),
    ],
)
def test_a_part_that_does_not_exist_is_named(reference, reason):
    with pytest.raises(references.PartError, match=reason):
        references.resolve(reference, RESULTS)

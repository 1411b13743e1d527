import json

import pytest
from synthesis.rowing import TOOLS, written

from awm_hub.synthesis.problems import AnswerError
from awm_hub.synthesis.stages import notation

BOOK = """
write book_boat(
    boat_id: int,
    day: str = '2026-06-01',
    crew: list[int] | None = None,
):
Book a boat
for one day.
boat_id: Id of the boat.
day: A day, YYYY-MM-DD,
today or later.
crew: Ids of members; none: only whoever books.
-> id, boat_id,
-> day
! no such boat: not found
! in repair: not in the right state
@ boats, bookings
@ members
"""


def read(text: str) -> dict[str, object]:
    return {name: json.loads(part) for name, part in notation.read(text).parts.items()}


def plain(tools: dict[str, dict[str, object]]) -> dict[str, object]:
    return {name: {key: value for key, value in tool.items() if key != "tasks"} for name, tool in tools.items()}


def test_what_is_rendered_reads_back() -> None:
    assert read(notation.render(written(TOOLS))) == plain(TOOLS)


def test_a_signature_and_texts_may_go_on_in_further_lines() -> None:
    assert read(f"Here you are:\n```tools\n{BOOK}```\nGood luck.") == {
        "book_boat": {
            "effect": "write",
            "description": "Book a boat for one day.",
            "parameters": {
                "boat_id": {"type": "int", "description": "Id of the boat."},
                "day": {"type": "str", "description": "A day, YYYY-MM-DD, today or later.", "default": "2026-06-01"},
                "crew": {
                    "type": "list[int] | None",
                    "description": "Ids of members; none: only whoever books.",
                    "default": None,
                },
            },
            "returns": "id, boat_id, day",
            "refuses": ["no such boat: not found", "in repair: not in the right state"],
            "tables": ["boats", "bookings", "members"],
        }
    }


def test_blocks_without_a_language_and_bare_text_are_read_too() -> None:
    assert list(read(f"```\n{BOOK}```")) == ["book_boat"]
    assert list(read(BOOK)) == ["book_boat"]
    assert list(read(f"```tools\n{BOOK}```\n```tools\nread list_days()\nList days.\n```")) == ["book_boat", "list_days"]


def test_a_correction_names_what_goes_in_a_block_of_json() -> None:
    answer = notation.read(f'```tools\n{BOOK}```\n```json\n{{"remove": ["sail_away"]}}\n```')
    assert (list(answer.parts), answer.removed) == (["book_boat"], ("sail_away",))
    assert notation.read('```json\n{"remove": ["sail_away"]}\n```').removed == ("sail_away",)


def test_an_answer_in_json_is_read_as_before() -> None:
    assert read(json.dumps(TOOLS)) == TOOLS


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("read find(query: str", "the signature of find cannot be read"),
        ("read find(*query: str)", "may hold named parameters only"),
        ("read find(query: str = open('x'))", "the default of query in find is no plain value"),
        ("read find(limit: float = 1e999)", "the default of limit in find is no plain value"),
    ],
)
def test_a_signature_that_is_none_is_told(line: str, message: str) -> None:
    with pytest.raises(AnswerError, match=message):
        notation.read(f"```tools\n{line}\nFind.\n```")


def test_prose_is_no_toolset() -> None:
    with pytest.raises(AnswerError):
        notation.read("I would read from (or write to) the tables.")


def test_a_part_that_does_not_fit_the_notation_is_shown_as_json() -> None:
    assert "odd: 3" in notation.render({"odd": "3"})

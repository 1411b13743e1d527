"""How often right answers are rejected for their form, and wrong ones accepted (`prose_answers.jsonl`, by hand).

`as_asked` ends with the value, as the prompt says; `value_only` is the value in other dress; `prose` states it in a
sentence; `after_json` says something after it, or wraps it.
"""

import json
from collections import Counter
from pathlib import Path

from awm_hub.judging.answers import answer_matches

ROWS = [json.loads(line) for line in Path(__file__).with_name("prose_answers.jsonl").read_text("utf-8").splitlines()]


def accepted(*, is_right: bool) -> dict[str, tuple[int, int]]:
    """Per form: how many are accepted, of how many."""
    counts: Counter[tuple[str, bool]] = Counter(
        (row["form"], answer_matches(row["answer"], row["answer_order"], row["message"]))
        for row in ROWS
        if row["is_right"] is is_right
    )
    forms = sorted({form for form, _ in counts})
    return {form: (counts[form, True], counts[form, True] + counts[form, False]) for form in forms}


def test_right_answers_are_read_where_the_prompt_is_followed_and_never_out_of_a_sentence() -> None:
    assert accepted(is_right=True) == {
        "after_json": (0, 4),
        "as_asked": (11, 11),
        "prose": (0, 16),
        "value_only": (12, 22),
    }


def test_no_wrong_answer_is_accepted_in_any_form() -> None:
    assert accepted(is_right=False) == {
        "after_json": (0, 2),
        "as_asked": (0, 5),
        "prose": (0, 8),
        "value_only": (0, 4),
    }

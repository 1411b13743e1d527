"""What a model's reply says, or why it says nothing."""

import json

import pytest

from awm_hub.inference import Reply
from awm_hub.judging.opinions import Opinion, opinion_of
from awm_hub.trajectory import Outcome

CONFIDENCES = {"COMPLETED": 0.8, "PARTIALLY_COMPLETED": 0.1, "AGENT_ERROR": 0.1, "ENVIRONMENT_ERROR": 0.0}
RIGHT = {"reasoning": "All is done.", "outcome": "COMPLETED", "confidences": CONFIDENCES}
TEXT = json.dumps(RIGHT)
EXPECTED = Opinion(outcome=Outcome.COMPLETED, reasoning="All is done.", confidences=CONFIDENCES)


@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        f"```json\n{TEXT}\n```",
        f"<think>AGENT_ERROR? No.</think>\n{TEXT}",
        f"My verdict:\n\n{json.dumps(RIGHT, indent=2)}",
        TEXT.replace('"COMPLETED"', '"Completed"'),
        TEXT.replace("PARTIALLY_COMPLETED", "Partially Completed"),
    ],
)
def test_an_opinion_is_read_in_the_forms_models_write(text: str) -> None:
    assert opinion_of(Reply(content=text)) == EXPECTED


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "the message is empty"),
        (None, "no final message"),
        ("COMPLETED", "no JSON object"),
        (TEXT + "\nI hope this helps.", "no JSON object"),
        (TEXT.replace('"COMPLETED"', '"SUPERB"', 1), "'SUPERB' is not one of"),
        (TEXT.replace("0.8", "8"), "greater than the maximum of 1"),
        (TEXT.replace("0.8", "NaN"), "no JSON object"),
        (TEXT.replace("0.8", '"high"'), "not of type 'number'"),
        (json.dumps({**RIGHT, "reasoning": ""}), "non-empty|too short"),
        (json.dumps({**RIGHT, "reward": 1}), "Additional properties"),
        (json.dumps({"outcome": "COMPLETED"}), "required property"),
        (json.dumps({**RIGHT, "outcome": ["COMPLETED"]}), "not of type 'string'"),
        (json.dumps({**RIGHT, "confidences": None}), "not of type 'object'"),
        (TEXT[:-1] + ', "outcome": "AGENT_ERROR"}', "names a key twice"),
        (TEXT.replace("All is done.", r"oops \ud83c"), "surrogate"),
        (f"<think>{TEXT}", "ends within its thoughts"),
    ],
)
def test_every_other_reply_is_refused_with_what_is_wrong(text: str | None, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        opinion_of(Reply(content=text))


def test_a_reply_that_was_cut_off_is_no_opinion() -> None:
    with pytest.raises(ValueError, match="cut off"):
        opinion_of(Reply(content=TEXT, finish_reason="length"))


def test_an_opinion_survives_its_json_form() -> None:
    assert Opinion.from_dict(EXPECTED.to_dict()) == EXPECTED

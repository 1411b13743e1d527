import json

import pytest
from climbing import SCENARIO, climbing, with_values

from awm_hub.synthesis.stages.scenario import check, prompt, read, render


async def test_a_good_scenario_passes() -> None:
    assert await check(climbing()) == ()


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"title": None}, "[missing_key: title] the scenario has no title"),
        ({"title": 3}, "[wrong_type: title] must be a text"),
        ({"title": "x" * 61}, "[title_length: title] has 61 characters; one line of 3 to 60 is wanted"),
        ({"title": "Two\nlines"}, "[title_length: title] has several lines; one line of 3 to 60 is wanted"),
        (
            {"title": "half \ud800"},
            "[broken_text: title] the text holds half of a surrogate pair, which is no character: leave it out",
        ),
        ({"title": "nul \0"}, "[broken_text: title] the text holds a NUL character: leave it out"),
        ({"description": "Short."}, "[description_length: description] has 6 characters; 200 to 1500 are wanted"),
        ({"categories": "sports"}, "[wrong_type: categories] must be a list of texts"),
        ({"categories": []}, "[categories_count: categories] holds 0; 1 to 6 are wanted"),
        (
            {"categories": ["sport"]},
            "[unknown_category: categories] 'sport' is none of the list; did you mean 'sports'?",
        ),
        ({"rules": {"a": 1}}, "[wrong_type: rules] must be one text of lines that begin with '- '"),
        ({"rules": "Be nice."}, "[no_rules: rules] holds no line that begins with '- ' and says a rule"),
        ({"rules": "- Never book for paused members."}, "[few_rules: rules] holds 1; 3 to 6 are wanted"),
        (
            {"mood": "sunny"},
            "[unknown_key: mood] there is no such key: name it under remove; known are title, "
            "description, categories, rules",
        ),
    ],
)  # fmt: skip
async def test_each_slip_is_one_problem(values: dict[str, object], expected: str) -> None:
    assert [str(p) for p in await check(with_values(climbing(), "scenario", **values))] == [expected]


def test_rules_in_a_list_become_lines() -> None:
    answer = read(json.dumps({**SCENARIO, "rules": ["- One.", "Two."]}))
    assert json.loads(answer.parts["rules"]) == "- One.\n- Two."


def test_the_product_is_shown_in_the_form_of_an_answer() -> None:
    parts = climbing().parts("scenario")
    assert read(render(parts)).parts == parts


def test_the_prompt_names_the_scenario_and_the_categories() -> None:
    text = prompt(climbing())
    assert "- Name: climbing gym\n- What is known of it: A desk that books courses." in text
    assert "field_service" in text

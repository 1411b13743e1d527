import datetime as dt

import pytest

from awm_hub.synthesis import prompting
from awm_hub.synthesis.prompting import clock_text, fill


@pytest.fixture
def template(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompting, "_read", lambda name: "{{one}} and {{other}}, {{one}} again, not {this}")


@pytest.mark.usefixtures("template")
def test_every_gap_is_filled() -> None:
    assert fill("any", one="1", other="2") == "1 and 2, 1 again, not {this}"


@pytest.mark.usefixtures("template")
def test_filled_text_is_not_searched_for_gaps() -> None:
    assert fill("any", one="{{other}}", other=r"\1") == r"{{other}} and \1, {{other}} again, not {this}"


@pytest.mark.usefixtures("template")
def test_a_gap_without_a_value_and_a_value_without_a_gap_are_mistakes() -> None:
    with pytest.raises(KeyError, match=r"gaps without a value: \['other'\]; values without a gap: \['third'\]"):
        fill("any", one="1", third="3")


def test_a_prompt_that_does_not_exist_is_a_mistake() -> None:
    with pytest.raises(KeyError, match="no prompts/nowhere"):
        fill("nowhere")


def test_the_common_prompt_has_no_gaps_and_is_short() -> None:
    assert len(fill("common").split()) < 900


def test_a_moment_is_named_with_its_weekday() -> None:
    assert clock_text(dt.datetime(2026, 6, 1, 8, tzinfo=dt.UTC)) == "2026-06-01 08:00 (a Monday)"

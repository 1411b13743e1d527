"""The stage of verification: its two blocks, and a gate that runs them on the untouched database."""

import json
from typing import Any

import pytest
from synthesis.drafting import VERIFIERS, draft_of, facts, verification_answer

from awm_hub.synthesis import products
from awm_hub.synthesis.drafts import TASK, Draft
from awm_hub.synthesis.problems import AnswerError, Problem
from awm_hub.synthesis.stages import verification

FERN = "move_and_water_the_fern"


def _draft(told: dict[str, Any] | None = None, code: str = VERIFIERS) -> Draft:
    return draft_of(verification=dict(verification.read(verification_answer(told, code)).parts))


async def _found(told: dict[str, Any] | None = None, code: str = VERIFIERS) -> dict[tuple[str, str], str]:
    """Messages of the gate by rule and subject."""
    return {(p.rule, p.subject): p.message for p in await verification.check(_draft(told, code))}


def _with(slug: str, **changes: Any) -> dict[str, Any]:
    return facts() | {slug: facts()[slug] | changes}


def _instead(function: str, body: str) -> str:
    parts = products.python_parts(VERIFIERS)
    return products.write_python(parts | {function: f"def {function}(initial, final, changes):\n    {body}"})


async def test_right_verification_passes() -> None:
    assert await verification.check(draft_of()) == ()


def test_both_blocks_are_read_and_shown_again() -> None:
    answer = verification.read(verification_answer())
    assert list(answer.parts) == [
        *(TASK + slug for slug in facts()),
        "imports",
        "_unexpected",
        "signals_due_today",
        f"signals_{FERN}",
    ]
    assert verification.read(verification.render(answer.parts)) == answer


def test_python_alone_is_no_facts() -> None:
    answer = verification.read(products.fenced("python", 'def signals_a(initial):\n    return {"problems": []}'))
    assert list(answer.parts) == ["signals_a"]


def test_names_of_facts_and_of_functions_can_be_removed() -> None:
    answer = verification.read('```json\n{"remove": ["old_task", "signals_old_task"]}\n```')
    before = {"task:old_task": "{}", "signals_old_task": "def …", "task:other": "{}"}
    assert products.merged(before, answer) == {"task:other": "{}"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("I cannot do this.", "a ```json block"),
        ('```json\n{"a": {}}\n```\n```python\ndef signals_a(', "has no end"),
        ('```json\n{"a": {"success": \n```', "no complete JSON object"),
        ('```json\n{"a": {"success": "s", "answer": NaN}, "b": {"success": "s"}}\n```', "no complete JSON object"),
        ("```python\ndef signals_a(:\n```", "does not parse at line 1"),
    ],
)
def test_an_answer_that_cannot_be_read_is_refused(text: str, message: str) -> None:
    with pytest.raises(AnswerError, match=message):
        verification.read(text)


@pytest.mark.parametrize(
    ("slug", "changes", "message"),
    [
        ("due_today", {"answer": None}, "give its answer"),
        ("due_today", {"answer": []}, "is empty"),
        ("due_today", {"answer": [None]}, "holds null"),
        ("due_today", {"answer": {"a": {"b": 1}}}, 'holds {"b": 1}'),
        ("due_today", {"answer": 2**63}, "beyond 64 bits"),
        ("due_today", {"answer_sql": ""}, "give answer_sql"),
        ("due_today", {"answer_order": "sorted"}, "not one of any, exact"),
        ("due_today", {"success": 3}, "'success' is no text"),
        ("due_today", {"anwser": 1}, "did you mean 'answer'?"),
        (FERN, {"answer": 1, "answer_sql": "SELECT 1"}, "leave answer and answer_sql out"),
        (FERN, {"free": ["plants.rooms"]}, "did you mean 'plants.room'?"),
        (FERN, {"free": "plants.room"}, "no list of texts"),
    ],
)
async def test_facts_of_a_wrong_form_are_problems(slug: str, changes: dict[str, Any], message: str) -> None:
    found = await _found(_with(slug, **changes))
    assert list(found) == [("wrong_facts", slug)]
    assert message in found["wrong_facts", slug]


async def test_missing_and_strange_facts_are_problems() -> None:
    found = await _found({"due_todays": facts()["due_today"], FERN: "moved"})
    assert found["no_facts", "due_today"] == "task due_today has no facts: give them under this key in the JSON block"
    assert "no object" in found["no_facts", FERN]
    assert "did you mean due_today?" in found["unknown_task", "due_todays"]


async def test_an_answer_that_the_sample_data_do_not_give_is_a_problem() -> None:
    found = await _found(_with("due_today", answer=["Fern", "Aloe"]))
    assert list(found) == [("answer_differs", "due_today")]
    assert (
        'answer_sql gives ["Monstera", "Fern"], but answer is ["Fern", "Aloe"]' in found["answer_differs", "due_today"]
    )


async def test_an_answer_query_that_fails_is_a_problem() -> None:
    found = await _found(_with("due_today", answer_sql="SELECT nme FROM plants"))
    assert "no such column: nme" in found["answer_sql_fails", "due_today"]


async def test_an_answer_query_cannot_write() -> None:
    assert ("answer_sql_fails", "due_today") in await _found(_with("due_today", answer_sql="DELETE FROM plants"))


async def test_functions_that_are_missing_or_belong_to_nothing_are_problems() -> None:
    code = VERIFIERS.replace("signals_due_today", "signal_due_today")
    found = await _found(code=code)
    assert ("no_signals", "due_today") in found
    assert any("signal_due_today is no verifier" in message for message in found.values())


async def test_a_change_that_is_found_done_in_the_seed_is_a_problem() -> None:
    found = await _found(code=_instead(f"signals_{FERN}", 'return {"problems": []}'))
    assert list(found) == [("noop_passes", FERN)]
    assert "Either it accepts that nothing is done, or the sample data" in found["noop_passes", FERN]


async def test_a_query_that_is_found_wrong_in_the_seed_is_a_problem() -> None:
    found = await _found(code=_instead("signals_due_today", 'return {"problems": ["no watering"]}'))
    assert found == {
        ("noop_rejected", "due_today"): (
            "signals_due_today objects to the untouched database, which is right for a query: no watering"
        )
    }


async def test_a_query_whose_verifier_sees_no_change_is_a_problem() -> None:
    found = await _found(code=_instead("signals_due_today", 'return {"problems": []}'))
    assert found == {
        ("blind_to_damage", "due_today"): (
            "signals_due_today finds nothing wrong where the last row of waterings is deleted besides: "
            "in a query any change is a problem"
        )
    }


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("raise RuntimeError('no')", "no"),
        ("raise RuntimeError(repr(object()))", "<object object at 0x…>"),
        ("return []", "no dict"),
        ('return {"problems": "none"}', "no dict with a list"),
        ('return {"problems": [1]}', "holds 1, which is no text"),
        ('return {"problems": [], "at": object()}', "no JSON form"),
        ('return {"problems": [open("/etc/passwd").read()]}', ""),
        ("import os; os._exit(1)", ""),
        ('return final.execute("SELECT * FROM nowhere")', "no such table"),
    ],
)
async def test_code_that_fails_or_misbehaves_is_a_problem(body: str, message: str) -> None:
    found = await _found(code=_instead(f"signals_{FERN}", body))
    assert list(found) == [("signals_fail", FERN)]
    assert message in found["signals_fail", FERN]


async def test_a_flood_of_problems_is_cut() -> None:
    body = 'return {"problems": ["x" * 1000] * 3_000}'
    found = await _found(code=_instead("signals_due_today", body))
    assert len(found["noop_rejected", "due_today"]) < 1_700


async def test_a_database_is_not_changed_by_a_verifier() -> None:
    found = await _found(code=_instead(f"signals_{FERN}", 'final.execute("DELETE FROM plants")'))
    assert list(found) == [("signals_fail", FERN)]


async def test_problems_are_the_same_every_time() -> None:
    draft = _draft(_with("due_today", answer=3), _instead(f"signals_{FERN}", "return [object()]"))
    first: tuple[Problem, ...] = await verification.check(draft)
    assert first == await verification.check(draft)
    assert first


async def test_text_that_no_file_can_hold_is_a_problem() -> None:
    parts = {**_draft().parts("verification"), f"{TASK}{FERN}": json.dumps({"success": "\ud800"}, ensure_ascii=False)}
    found = await verification.check(draft_of(verification=parts))
    assert [p.rule for p in found] == ["broken_text"]


def test_the_prompt_stays_short() -> None:
    assert len(verification.STAGE.prompt(draft_of()).split()) <= 800


@pytest.mark.slow
async def test_an_endless_function_is_a_problem() -> None:
    code = _instead("signals_due_today", "while True: pass")
    found = await _found(code=code)
    assert found == {
        ("signals_fail", "due_today"): "signals_due_today on the untouched database: it did not end within 30 seconds"
    }

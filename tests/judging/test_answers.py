"""Answers are read from the end of a message or from the whole of it, never from a sentence."""

import time
from typing import Any

import pytest

from awm_hub.judging.answers import NoAnswer, answer_matches, given_answer, is_same_answer


def outcomes(expected: Any, messages: list[str], order: str = "any") -> dict[str, bool]:
    return {message: answer_matches(expected, order, message) for message in messages}


def every(value: bool, messages: list[str]) -> dict[str, bool]:
    return dict.fromkeys(messages, value)


def test_a_number_may_be_plain_emphasised_or_the_json_value_on_the_last_line() -> None:
    messages = [
        "42",
        " 42\n",
        "42.",
        "**42**",
        "`42`",
        '"42"',
        "42.0",
        "4.2e1",
        "+42",
        "```\n42\n```",
        "Room 7 holds it.\n42",
    ]
    assert outcomes(42, messages) == every(True, messages)


def test_a_number_may_carry_separators_a_currency_or_a_percent_sign() -> None:
    messages = ["3,400", "3 400", "3’400", "3\u202f400", "$3,400", "3400 €", "£ 3,400.00", "3400%", "3400 %"]
    assert outcomes(3400, messages) == every(True, messages)
    assert outcomes(-3400, ["-3,400", "\u22123400", "-$3,400", "$-3,400"]) == every(
        True, ["-3,400", "\u22123400", "-$3,400", "$-3,400"]
    )


def test_a_number_is_never_picked_out_of_a_sentence() -> None:
    messages = [
        "It is 42.", "42 books", "42 or 43", "not 42", "142", "420", "4 2", "42-50", "42 (I counted 42 twice)",
        "Loan 42",
        "- 42", "Total: 42", "42,0", "[42]", '{"answer": 42}', "42 = 42", "", "   \n", "--42", "$$42", "42 % %", "4,2",
        "It is 43.\n42.",
    ]  # fmt: skip
    assert outcomes(42, messages) == every(False, messages)


def test_a_sign_a_bullet_and_a_leading_point_keep_their_meaning() -> None:
    assert not answer_matches(-8, "any", "8")
    assert not answer_matches(-8, "any", "- 8")
    assert not answer_matches(8, "any", "-8")
    assert answer_matches(0.5, "any", ".5")
    assert not answer_matches(5, "any", ".5")


def test_integers_are_exact_and_booleans_are_no_numbers() -> None:
    assert not answer_matches(7, "any", "7.004")
    assert not answer_matches(9007199254740993, "any", "9007199254740992.0")
    assert answer_matches(9007199254740993, "any", "9007199254740993")
    assert not answer_matches(1, "any", "true")
    assert not answer_matches(True, "any", "1")
    assert answer_matches(True, "any", "True.")
    assert not is_same_answer({"n": 1}, {"n": True})


@pytest.mark.parametrize(
    ("given", "matches"), [("19.95", True), ("19.954", True), ("19.955", True), ("19.945", True), ("19.96", False)]
)
def test_other_numbers_are_equal_within_half_a_cent(given: str, matches: bool) -> None:
    assert answer_matches(19.95, "any", given) is matches


@pytest.mark.parametrize("given", ["1e999", "-1e999", "9" * 500, "9" * 5000, "NaN", "Infinity", "-Infinity"])
def test_numbers_beyond_every_type_are_wrong_and_not_a_crash(given: str) -> None:
    assert not answer_matches(19.95, "any", given)
    assert not answer_matches(19, "any", given)
    assert not answer_matches([19.95], "any", f"[{given}]")


def test_a_text_is_the_whole_message_or_a_json_string_on_its_last_line() -> None:
    messages = [
        "Marlow",
        "marlow ",
        "MARLOW.",
        '"Marlow"',
        "**Marlow**.",
        "_Marlow_!",
        "“Marlow”",
        'It is theirs.\n"marlow"',
    ]
    assert outcomes("Marlow", messages) == every(True, messages)


def test_a_text_is_never_found_inside_another() -> None:
    messages = [
        "It is Marlow", "Marlow, Quill", "Marlow or Quill", '"Marlow" or "Quill"', "Marlow2", "Marlows", "Not\nMarlow",
        '["Marlow"]', '{"name": "Marlow"}', "", "**", '""',
    ]  # fmt: skip
    assert outcomes("Marlow", messages) == every(False, messages)


def test_punctuation_that_belongs_to_a_text_is_not_trimmed_away() -> None:
    assert answer_matches("Ray Orr Jr.", "any", "**Ray Orr Jr.**")
    assert not answer_matches("Ray Orr Jr.", "any", "Ray Orr Jr")
    assert answer_matches("Room [1]", "any", "Room [1]")
    assert answer_matches('"Red" Ada', "any", '"Red" Ada')
    assert answer_matches("007", "any", "007")
    assert answer_matches("25", "any", "25")
    assert answer_matches(["Ray Orr Jr.", "Ada"], "any", "Ada, Ray Orr Jr.")


@pytest.mark.parametrize(
    ("expected", "given", "matches"),
    [
        ("Zoé Groß", "zoe\u0301 GROSS", True),
        ("Zoé", "Zoe", False),
        (" North\n Hall ", "north hall", True),
        ("North\u00a0Hall", "North Hall", True),
        ("North\u200bHall", "NorthHall", False),
        ("Ｂen", "Ben", False),
        ("İzmir", "izmir", False),
        ("Οδυσσεύς", "ΟΔΥΣΣΕΎΣ", True),
        ("Unit 4.b", "Unit 4. b", False),
    ],
)
def test_texts_are_equal_after_nfc_whitespace_and_case_folding_only(expected: str, given: str, matches: bool) -> None:
    assert answer_matches(expected, "any", given) is matches
    assert is_same_answer(expected, given) is matches


def test_a_list_may_be_json_lines_semicolons_or_commas() -> None:
    messages = [
        '["Ada", "Bo"]', "Ada, Bo", "bo;ada", "- Bo\n- **Ada**\n", "* Ada\r\n* Bo.", "Ada\nBo",
        "Found them: [\"Bo\", \"Ada\"]",
        "```json\n[\"Ada\",\n \"Bo\"]\n```", "`[\"Ada\", \"Bo\"]`",
    ]  # fmt: skip
    assert outcomes(["Ada", "Bo"], messages) == every(True, messages)


def test_a_list_has_no_item_too_many_or_too_few() -> None:
    messages = ["Ada", "Ada, Bo, Cy", '["Ada"]', '["Ada", "Bo", "Bo"]', "Ada and Bo", "These: Ada, Bo", "[Ada, Bo]", ""]
    assert outcomes(["Ada", "Bo"], messages) == every(False, messages)
    assert not answer_matches(["Ada", "Ada"], "any", "Ada")
    assert not answer_matches(["Ada", "Ada", "Bo"], "any", "Ada, Bo, Bo")
    assert answer_matches([], "any", "[]")
    assert not answer_matches([], "any", "")


def test_order_counts_only_where_it_is_asked_for() -> None:
    assert answer_matches(["Ada", "Bo"], "any", '["Bo", "Ada"]')
    assert not answer_matches(["Ada", "Bo"], "exact", '["Bo", "Ada"]')
    assert answer_matches(["Ada", "Bo"], "exact", "Ada; Bo")
    assert answer_matches([1.004, 1.0], "any", "[1.003, 1.008]")


def test_a_comma_parts_items_only_where_none_holds_one() -> None:
    assert answer_matches(["Orr, Ray", "Lee, Ann"], "any", "Lee, Ann; Orr, Ray")
    assert answer_matches(["Orr, Ray"], "any", "Orr, Ray")
    assert not answer_matches(["Orr, Ray", "Lee, Ann"], "any", "Lee, Ann, Orr, Ray")
    assert answer_matches([1, 250], "any", "1,250")
    assert not answer_matches([1250], "any", "1,250")
    assert answer_matches([1250, 3400], "any", "- $1,250\n- $3,400")
    assert answer_matches([2, 3.5, "x"], "any", "x, 3.5, 2")
    assert not answer_matches(["2"], "any", "[2]")


def test_an_object_may_be_json_or_key_value_lines() -> None:
    messages = [
        '{"name": "Ada", "fines": 250}', 'Here it is: {"fines": 250, "name": "ada"}', "name: Ada\nfines: 250",
        "- **name**: Ada\n- **fines:** 250", '```json\n{"name": "Ada", "fines": 250}\n```',
        "fines: 250.\n\nname: `Ada`",
        '**{"name": "Ada", "fines": 250}**',
    ]  # fmt: skip
    assert outcomes({"name": "Ada", "fines": 250}, messages) == every(True, messages)


def test_an_object_has_exactly_the_keys_asked_for() -> None:
    messages = [
        '{"name": "Ada"}', '{"name": "Ada", "fines": 250, "more": 1}', '{"Name": "Ada", "fines": 250}', "name: Ada",
        "Here you are.\nname: Ada\nfines: 250", "name: Ada\nfines: 250\ntotal: 2", '{"name": "Ada", "fines": "250"}',
        '{"name": "Ada", "fines": NaN}', '{"name": "Ada", "fines": 250} or so', "{'name': 'Ada', 'fines': 250}",
        '[{"name": "Ada", "fines": 250}]', "name: Ada, fines: 250",
    ]  # fmt: skip
    assert outcomes({"name": "Ada", "fines": 250}, messages) == every(False, messages)


def test_a_repeated_key_is_no_answer_in_either_form() -> None:
    for message in ('{"n": 1, "n": 2}', '{"n": 2, "n": 2}', "n: 1\nn: 2", 'n: 2\n[{"n": 1, "n": 1}]'):
        assert given_answer(message, {"n": 2}) == NoAnswer("an object names a key twice")


def test_only_what_follows_the_thoughts_counts() -> None:
    messages = ["<think>41? no</think>42", "41 or 42</think>\n42", "<think>a</think>41<think>b</think>42"]
    assert outcomes(42, messages) == every(True, messages)
    messages = ["<think>42", "<think>42</think>", "42 <think>", "42 <think>sure</think>", "x</think>42<think>"]
    assert outcomes(42, messages) == every(False, messages)
    assert given_answer("<think>42", 42) == NoAnswer("the message ends within its thoughts")
    assert given_answer("<think>42</think>", 42) == NoAnswer("the message is empty")
    assert given_answer(None, 42) == NoAnswer("there is no final message")


def test_the_json_value_at_the_end_is_found_behind_brackets_and_quotes_in_prose() -> None:
    assert given_answer('He said "[ok" and {x: ["a\\"]", {"b": "]"}]', []) == ['a"]', {"b": "]"}]
    assert given_answer("see [1], [2]", []) == [2]
    assert given_answer('{"a": "\\\\"}', {}) == {"a": "\\"}
    assert given_answer('"a" [1', 1) == NoAnswer("the message is not just a number")


@pytest.mark.parametrize(
    "message",
    [
        "[" * 40_000, "[" * 20_000 + "]" * 20_000, "]" * 40_000, '{"a":' * 8_000 + "1" + "}" * 8_000, '"' * 40_000,
        '\\"' * 20_000 + "]", "[" * 65 + '"' + '\\"' * 20_000, "\\" * 40_000 + '"]', "*" * 40_000, "a: 1\n" * 8_000,
        "1,111" * 8_000, "a" + "\u0301\u0323" * 20_000, '"a' + "\u0301\u0323" * 20_000 + '"', "\u00a0" * 40_000 + ".",
    ],
)  # fmt: skip
def test_hostile_messages_are_judged_in_time_that_grows_with_their_length(message: str) -> None:
    start = time.process_time()
    for expected in (1, 1.5, "Marlow", [1], ["Marlow"], {"a": 1}):
        assert not answer_matches(expected, "any", message)
    assert time.process_time() - start < 4


@pytest.mark.parametrize(
    ("message", "expected", "given"),
    [
        ("The rooms cost 1,265.80 euros.\n\nJSON: 1265.80", 100.0, 1265.8),
        ("**JSON:** 12", 1, 12),
        ('Done.\nJSON: "A2"', "x", "A2"),
        ("```\nJSON: true\n```", False, True),
    ],
)
def test_a_value_may_follow_the_word_of_the_prompt_on_its_line(message: str, expected: Any, given: Any) -> None:
    assert given_answer(message, expected) == given


@pytest.mark.parametrize(
    "message", ["The JSON: value is 12", "JSON: about 12", "JSON: 12 or 13", "JSON:12x", "JSON: 12\nor so"]
)
def test_the_word_of_the_prompt_makes_no_answer_of_prose(message: str) -> None:
    assert isinstance(given_answer(message, 1), NoAnswer)

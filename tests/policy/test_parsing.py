"""An assistant's text becomes calls or an answer; what is wrong with its form is a violation and never an exception."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from awm_hub.canonical import to_json
from awm_hub.policy import Call, parse
from awm_hub.policy.parsing import split_thoughts

KNOWN = ("search_products", "place_order")
SEARCH = '{"name": "search_products", "arguments": {"query": "lamp"}}'
LAMP = Call(tool="search_products", arguments={"query": "lamp"})
ORDER = Call(tool="place_order", arguments={"product_id": 3})
BROKEN = "format error"
ANSWER = "answer"

# text → what strict and lenient mode find in it
FORMS: dict[str, tuple[str, Any, Any]] = {
    "tagged": (f"<think>look</think>\n<tool_call>{SEARCH}</tool_call>", [LAMP], [LAMP]),
    "bare": (SEARCH, BROKEN, [LAMP]),
    "fenced": (f"Let me look.\n```json\n{SEARCH}\n```", BROKEN, [LAMP]),
    "a list in a fence": (f"```\n[{SEARCH}]\n```", BROKEN, [LAMP]),
    "a fence that the text goes on after": (f"Send this:\n```json\n{SEARCH}\n```\nto look.", ANSWER, ANSWER),
    "an unknown tool in prose": ('Send {"name": "make_tea", "arguments": {}} to it. The answer is 4.', ANSWER, ANSWER),
    "an unknown tool, bare": ('{"name": "make_tea", "arguments": {}}', ANSWER, ANSWER),
    "an answer with a name": ('{"name": "Otis", "phone": "555-0142"}', ANSWER, ANSWER),
    "a known tool without arguments, bare": ('{"name": "search_products"}', ANSWER, ANSWER),
    "an answer in a fence": ('```json\n{"total": 4}\n```', ANSWER, ANSWER),
    "two calls": (
        f"<tool_call>{SEARCH}</tool_call>\n"
        '<tool_call>{"name": "place_order", "arguments": {"product_id": 3}}</tool_call>',
        BROKEN,
        [LAMP, ORDER],
    ),
    "arguments as a text": (
        '<tool_call>{"name": "search_products", "arguments": "{\\"query\\": \\"lamp\\"}"}</tool_call>',
        BROKEN,
        [LAMP],
    ),
    "an array": (f"<tool_call>[{SEARCH}]</tool_call>", BROKEN, [LAMP]),
    "cut off in the call": (f"<tool_call>{SEARCH[:-1]}", BROKEN, BROKEN),
    "cut off before the closing tag": (f"<tool_call>{SEARCH}", BROKEN, [LAMP]),
    "a closing tag alone": (f"{SEARCH}</tool_call>", BROKEN, BROKEN),
    "single quotes": ("<tool_call>{'name': 'search_products', 'arguments': {}}</tool_call>", BROKEN, BROKEN),
    "a repeated key": (
        '<tool_call>{"name": "search_products", "arguments": {"query": "a", "query": "lamp"}}</tool_call>',
        BROKEN,
        BROKEN,
    ),
    "no number": ('<tool_call>{"name": "search_products", "arguments": {"query": NaN}}</tool_call>', BROKEN, BROKEN),
    "parameters": ('<tool_call>{"name": "search_products", "parameters": {"query": "a"}}</tool_call>', BROKEN, BROKEN),
    "no name": ('<tool_call>{"arguments": {}}</tool_call>', BROKEN, BROKEN),
    "a call in the thoughts": (f"<think><tool_call>{SEARCH}</tool_call></think>\nDone: 4", ANSWER, ANSWER),
    "braces in a text": (
        '<tool_call>{"name": "search_products", "arguments": {"query": "} ] {\\"x\\""}}</tool_call>',
        [Call(tool="search_products", arguments={"query": '} ] {"x"'})],
        [Call(tool="search_products", arguments={"query": '} ] {"x"'})],
    ),
    "tags in a text": (
        '<tool_call>{"name": "search_products", "arguments": {"query": "</tool_call><tool_call>"}}</tool_call>',
        [Call(tool="search_products", arguments={"query": "</tool_call><tool_call>"})],
        [Call(tool="search_products", arguments={"query": "</tool_call><tool_call>"})],
    ),
    "text after the call": (f"<tool_call>{SEARCH}</tool_call>\nI will wait.", [LAMP], [LAMP]),
    "null arguments": (
        '<tool_call>{"name": "search_products", "arguments": null}</tool_call>',
        BROKEN,
        [Call(tool="search_products", arguments={})],
    ),
    "no arguments": (
        '<tool_call>{"name": "search_products"}</tool_call>',
        BROKEN,
        [Call(tool="search_products", arguments={})],
    ),
    "a list of arguments": (
        '<tool_call>{"name": "search_products", "arguments": [1]}</tool_call>',
        BROKEN,
        [Call(tool="search_products", arguments="[1]")],
    ),
    "an unknown tool, tagged": (
        '<tool_call>{"name": "make_tea", "arguments": {}}</tool_call>',
        [Call(tool="make_tea", arguments={})],
        [Call(tool="make_tea", arguments={})],
    ),
    "nothing": ("", BROKEN, BROKEN),
    "thoughts alone": ("<think>hm</think>", BROKEN, BROKEN),
    "thoughts that never end": ("<think>hm, the answer is 4", BROKEN, BROKEN),
    "nested too deeply": (f"<tool_call>{'[' * 100_000}</tool_call>", BROKEN, BROKEN),
    "a number beyond all bounds": (
        '<tool_call>{"name": "place_order", "arguments": {"product_id": 1e999}}</tool_call>',
        BROKEN,
        [Call(tool="place_order", arguments='{"product_id": Infinity}')],
    ),
}


def found(text: str, *, is_strict: bool) -> Any:
    action = parse(text, KNOWN, is_strict=is_strict)
    if action.calls:
        return list(action.calls)
    return BROKEN if action.answer is None else ANSWER


@pytest.mark.parametrize("form", FORMS)
def test_a_form_is_read_as_its_mode_reads_it(form: str) -> None:
    text, strict, lenient = FORMS[form]
    assert found(text, is_strict=True) == strict
    assert found(text, is_strict=False) == lenient


@pytest.mark.parametrize("form", FORMS)
def test_both_modes_name_the_same_violations(form: str) -> None:
    text, strict, _ = FORMS[form]
    violations = parse(text, KNOWN, is_strict=True, turn=3).violations
    assert violations == parse(text, KNOWN, is_strict=False, turn=3).violations
    assert bool(violations) == (strict == BROKEN)
    assert {(v.rule, v.name, v.turn) for v in violations} <= {(3, "invalid_arguments", 3)}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (r'{"body": "cheers \ud83c\udf78"}', {"body": "cheers 🍸"}),
        (r'{"body": "\u0041\/\u00e9"}', {"body": "A/é"}),
        (r'{"body": "\\ud83c"}', {"body": r"\ud83c"}),
        (r'{"body": "a\u0000b"}', {"body": "a\0b"}),
    ],
)
def test_escapes_are_the_characters_they_stand_for(arguments: str, expected: dict[str, str]) -> None:
    action = parse(f'<tool_call>{{"name": "place_order", "arguments": {arguments}}}</tool_call>', KNOWN, is_strict=True)
    assert (action.calls, action.violations) == ((Call(tool="place_order", arguments=expected),), ())


@pytest.mark.parametrize("arguments", [r'{"body": "oops \ud83c"}', r'{"bo\udf78dy": "x"}', r'{"body": "\udf78\ud83c"}'])
def test_half_of_a_surrogate_pair_is_a_violation_and_stays_an_escape(arguments: str) -> None:
    text = f'<tool_call>{{"name": "place_order", "arguments": {arguments}}}</tool_call>'
    assert not parse(text, KNOWN, is_strict=True).calls
    action = parse(text, KNOWN, is_strict=False)
    assert [v.rule for v in action.violations] == [3]
    assert action.calls == (Call(tool="place_order", arguments=arguments),)
    to_json([v.message for v in action.violations])


@pytest.mark.parametrize(
    ("text", "thought", "said"),
    [
        ("4", None, "4"),
        ("<think>a</think>4", "a", "4"),
        ("<think> </think>4", None, "4"),
        ("a</think>\n4", "a", "4"),  # the template opened the block
        ("<think>a</think>4<think>b</think>5", "a\nb", "45"),
        ("<think>a", "a", ""),
        ("4</think>5</think>6", "4", "5</think>6"),
    ],
)
def test_thoughts_are_told_from_what_is_said(text: str, thought: str | None, said: str) -> None:
    assert split_thoughts(text) == (thought, said)


PIECES = [
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    "```",
    "```json\n",
    SEARCH,
    "{",
    "}",
    "[",
    '"',
    "\n",
    "a",
]


@settings(max_examples=60)
@given(st.lists(st.sampled_from(PIECES), max_size=12))
def test_any_text_is_read(pieces: list[str]) -> None:
    for is_strict in (True, False):
        action = parse("".join(pieces), KNOWN, is_strict=is_strict)
        assert action.violations or action.calls or action.answer
        assert not (action.calls and action.answer is not None)
        to_json([[c.tool, c.arguments] for c in action.calls])


@given(st.dictionaries(st.text(max_size=5), st.one_of(st.text(), st.integers(), st.none()), max_size=4))
def test_what_is_written_by_the_rules_is_read_back(arguments: dict[str, Any]) -> None:
    text = f"<think>x</think>\n<tool_call>\n{json.dumps({'name': 'n', 'arguments': arguments})}\n</tool_call>"
    action = parse(text, (), is_strict=True)
    assert (action.calls, action.violations) == ((Call(tool="n", arguments=arguments),), ())


@pytest.mark.parametrize(
    "text", ["<think>" * 200_000, "<tool_call>" * 100_000, "<think></think>" * 100_000, "```" * 200_000]
)
def test_a_model_that_repeats_itself_is_read_in_no_time(text: str) -> None:
    parse(text, KNOWN, is_strict=False)

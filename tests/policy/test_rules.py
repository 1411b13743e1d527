"""Each of the paper's six rules, where it holds and where it is broken."""

import pytest
from episodes import called, listed, ok, view_of

from awm_hub.policy import Action, Call, Turn, View, Violation
from awm_hub.policy.rules import RULES, check_ending, check_message, check_result
from awm_hub.trajectory import ToolResult

ADD = Call(tool="add_note", arguments={"text": "hello"})
LIST = Action(lists_tools=True, thought="what is there?")


def broken(action: Action, view: View, *, uses_meta_tools: bool = True) -> list[tuple[int, str, int]]:
    return [(v.rule, v.name, v.turn) for v in check_message(action, view, uses_meta_tools=uses_meta_tools)]


def test_the_rules_have_the_papers_numbers() -> None:
    assert dict(RULES) == {
        1: "think_missing",
        2: "unknown_tool",
        3: "invalid_arguments",
        4: "list_tools_first",
        5: "no_successful_call",
        6: "server_error",
    }


def test_a_rollout_by_the_protocol_breaks_no_rule() -> None:
    turns: list[Turn] = []
    for turn in (listed(), called(), Turn(action=Action(answer="done", thought="that is it"))):
        view = view_of(*turns)
        assert check_message(turn.action, view, uses_meta_tools=True) == ()
        for call, result in zip(turn.action.calls, turn.results, strict=True):
            assert check_result(call, result, view) == ()
        turns.append(turn)
    assert check_ending(view_of(*turns)) == ()


@pytest.mark.parametrize("thought", [None, "", " \n"])
def test_rule_1_a_message_without_thoughts(thought: str | None) -> None:
    action = Action(calls=(ADD,), thought=thought)
    assert broken(action, view_of(listed())) == [(1, "think_missing", 1)]
    assert broken(action, view_of(listed()), uses_meta_tools=False) == []


def test_rule_2_an_unknown_tool() -> None:
    action = Action(calls=(Call(tool="drop_notes"),), thought="x")
    assert broken(action, view_of(listed())) == [(2, "unknown_tool", 1)]
    assert broken(action, view_of(), uses_meta_tools=False) == [(2, "unknown_tool", 0)]


def test_rule_3_arguments_that_are_no_object() -> None:
    action = Action(calls=(Call(tool="add_note", arguments="{"),), thought="x")
    assert broken(action, view_of(listed())) == [(3, "invalid_arguments", 1)]


def test_rule_3_arguments_that_the_schema_refuses() -> None:
    result = ToolResult(type="invalid_call", code="invalid_arguments", message="'text' is a required property")
    call = Call(tool="add_note", arguments={})
    assert check_message(Action(calls=(call,), thought="x"), view_of(listed()), uses_meta_tools=True) == ()
    assert check_result(call, result, view_of(listed())) == (
        Violation(rule=3, name="invalid_arguments", turn=1, message="add_note: 'text' is a required property"),
    )


def test_rule_4_the_first_message_does_something_else() -> None:
    assert broken(Action(calls=(ADD,), thought="x"), view_of()) == [(4, "list_tools_first", 0)]
    assert broken(Action(answer="4", thought="x"), view_of()) == [(4, "list_tools_first", 0)]
    assert broken(Action(calls=(ADD,)), view_of(), uses_meta_tools=False) == []


def test_rule_4_tools_are_listed_twice() -> None:
    assert broken(LIST, view_of(listed(), called())) == [(4, "list_tools_first", 2)]


def test_rule_4_listing_late_is_said_once() -> None:
    assert broken(LIST, view_of(called())) == []


def test_rule_5_several_turns_without_a_successful_call() -> None:
    refused = called(result=ToolResult(type="refused", code="not_found"))
    answer = Turn(action=Action(answer="done"))
    assert [(v.rule, v.turn) for v in check_ending(view_of(listed(), answer))] == [(5, 2)]
    assert [(v.rule, v.turn) for v in check_ending(view_of(listed(), refused, answer))] == [(5, 3)]
    assert check_ending(view_of(refused, called(result=ok()), answer)) == ()
    assert check_ending(view_of(answer)) == ()


def test_rule_6_a_fault_of_the_environment() -> None:
    fault = ToolResult(type="fault", code="KeyError", message="'id'")
    assert check_result(ADD, fault, view_of(listed())) == (
        Violation(rule=6, name="server_error", turn=1, message="add_note: KeyError: 'id'"),
    )


def test_a_refusal_breaks_no_rule() -> None:
    assert check_result(ADD, ToolResult(type="refused", code="conflict"), view_of()) == ()


@pytest.mark.parametrize(
    ("call", "code"),
    [(Call(tool="drop_notes"), "unknown_tool"), (Call(tool="add_note", arguments="{"), "invalid_arguments")],
)
def test_what_the_message_showed_is_not_said_again_of_the_result(call: Call, code: str) -> None:
    assert len(broken(Action(calls=(call,), thought="x"), view_of(listed()))) == 1
    assert check_result(call, ToolResult(type="invalid_call", code=code), view_of(listed())) == ()

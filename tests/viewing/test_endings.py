from collections.abc import Callable
from typing import Any

import pytest

from awm_hub.trajectory import Step, ToolResult, Trajectory
from awm_hub.viewing import rollout_document
from awm_hub.viewing.document import Data, Grid, Label, Prose, Section
from awm_hub.viewing.endings import (
    broken_at_steps,
    ending_labels,
    ending_section,
    message_blocks,
    rules_section,
)

Changed = Callable[..., Trajectory]

UNKNOWN = {"rule": 2, "name": "unknown_tool", "turn": 1, "message": "there is no tool 'get_nte'"}
THINK = {"rule": 1, "name": "think_missing", "turn": 1, "message": "the message has no thoughts"}
WHOLE = {"rule": 5, "name": "no_successful_call", "turn": 2, "message": "no call of a tool succeeded"}
MESSAGES = (
    {"role": "system", "content": "Be good."},
    {"role": "assistant", "content": "One.", "reasoning_content": "First."},
    {"role": "assistant", "content": '<tool_call>{"name": "get_nte"', "reasoning_content": "Second."},
)


def texts(labels: tuple[Label, ...]) -> list[str]:
    return [label.text for label in labels]


@pytest.mark.parametrize(
    ("termination", "violations", "usage", "labels"),
    [
        ("format_error", (UNKNOWN,), {}, ["ended at message 2 by rule 2, unknown_tool"]),
        ("format_error", (THINK, UNKNOWN), {}, ["ended at message 2 by rule 1, think_missing", "2 broken rules"]),
        ("format_error", (WHOLE,), {}, ["ended at message 2 by rule 5, no_successful_call"]),
        (
            "environment_fault",
            ({"rule": 6, "name": "server_error", "turn": 0, "message": "x"},),
            {},
            ["ended at message 1 by rule 6, server_error"],
        ),
        ("environment_fault", (UNKNOWN,), {"error": {"message": "gone"}}, ["1 broken rule"]),
        ("answered", (UNKNOWN,), {}, ["1 broken rule"]),
        ("answered", (), {}, []),
    ],
)
def test_the_rule_that_ended_a_rollout_is_named_with_its_message(
    termination: str, violations: Any, usage: Any, labels: list[str], changed: Changed
) -> None:
    assert texts(ending_labels(changed(termination=termination, violations=violations, usage=usage))) == labels


def test_what_the_model_wrote_is_quoted_under_the_broken_rule(changed: Changed) -> None:
    (section,) = rules_section(changed(violations=(UNKNOWN,), messages=MESSAGES, termination="format_error"))
    grid, quote = section.blocks
    assert isinstance(grid, Grid)
    assert [[cell.text for cell in row] for row in grid.rows] == [
        ["2", "2", "unknown_tool", "there is no tool 'get_nte'"]
    ]
    assert quote == Section(
        title="Message 2, as the model wrote it",
        labels=(Label(text="breaks rule 2", tone="bad"),),
        blocks=(Prose(label="thought", text="Second."), Prose(text='<tool_call>{"name": "get_nte"')),
    )


def test_of_many_broken_messages_the_last_are_quoted(changed: Changed) -> None:
    messages = tuple({"role": "assistant", "content": str(n)} for n in range(9))
    violations = tuple({**UNKNOWN, "turn": n} for n in range(9))
    (section,) = rules_section(changed(violations=violations, messages=messages))
    assert [s.title.partition(",")[0] for s in section.blocks if isinstance(s, Section)] == [
        "Message 7", "Message 8", "Message 9",
    ]  # fmt: skip


def test_a_rule_that_the_whole_rollout_breaks_has_no_message(changed: Changed) -> None:
    (section,) = rules_section(changed(violations=(WHOLE,), messages=MESSAGES))
    (grid,) = section.blocks
    assert isinstance(grid, Grid)
    assert grid.rows[0][0].text == "all"


@pytest.mark.parametrize(
    ("termination", "usage", "told"),
    [
        ("max_turns", {"turns": 20}, ["No answer came within the 20 messages that were allowed."]),
        (
            "context_full",
            {"error": {"type": "ContextFullError", "message": "4096 tokens"}},
            ["The conversation no longer fits what the model takes.", "ContextFullError: 4096 tokens"],
        ),
        (
            "endpoint_error",
            {"error": {"type": "RemoteError", "message": "no answer"}},
            ["The endpoint of the model failed.", "RemoteError: no answer"],
        ),
        ("stopped", {"error": "boom"}, ["It was left without an answer.", "boom"]),
        ("environment_fault", {}, ["The environment failed."]),
    ],
)
def test_why_a_rollout_ended_is_told_in_words(termination: str, usage: Any, told: list[str], changed: Changed) -> None:
    (section,) = ending_section(changed(termination=termination, usage=usage, violations=()))
    assert (section.title, texts(section.labels)) == ("Why it ended", [termination])
    assert [block.text for block in section.blocks if isinstance(block, Prose)] == told


@pytest.mark.parametrize("termination", ["answered", "format_error", "something_new"])
def test_an_answer_or_a_broken_rule_needs_no_further_cause(termination: str, changed: Changed) -> None:
    assert list(ending_section(changed(termination=termination))) == []


def test_a_call_that_breaks_a_rule_is_marked(changed: Changed) -> None:
    def step(result: ToolResult) -> Step:
        return Step(tool="get", arguments={}, result=result, state_version=0)

    invalid = ToolResult(type="invalid_call", code="invalid_arguments", message="no integer")
    fault = ToolResult(type="fault", code="KeyError", message="'x'")
    steps = tuple(map(step, (invalid, ToolResult(type="ok", value=1), invalid, fault)))
    violations = (
        {"rule": 3, "name": "invalid_arguments", "turn": 1, "message": "get: no integer"},
        {"rule": 6, "name": "server_error", "turn": 2, "message": "get: KeyError: 'x'"},
        UNKNOWN,
    )
    found = changed(steps=steps, violations=violations, verdicts=())
    assert broken_at_steps(found) == {0: [violations[0]], 3: [violations[1]]}
    shown = [b for b in rollout_document(found).blocks if isinstance(b, Section)]
    assert texts(shown[2].labels) == ["invalid_call", "invalid_arguments", "breaks rule 3"]


@pytest.mark.parametrize(
    ("message", "blocks"),
    [
        ({"role": "assistant"}, [Prose(text="(the message is empty)")]),
        ({"content": "", "reasoning": "Hm."}, [Prose(label="thought", text="Hm.")]),
        ({"content": [1], "tool_calls": [2]}, [Data(value=[1]), Data(label="calls", value=[2])]),
        ({"content": "a", "tool_call_id": "x"}, [Prose(text="a"), Data(label="more", value={"tool_call_id": "x"})]),
    ],
)
def test_a_message_is_shown_part_by_part(message: dict[str, Any], blocks: list[Any]) -> None:
    assert list(message_blocks(message)) == blocks

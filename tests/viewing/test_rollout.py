from collections.abc import Callable, Iterator
from typing import Any

import pytest

from awm_hub.environment import Environment
from awm_hub.runtime import sync
from awm_hub.trajectory import ToolResult, Trajectory
from awm_hub.viewing import Document, RowChanges, rollout_document, row_changes
from awm_hub.viewing.document import Block, Data, Facts, Label, Prose, Rows, Section
from awm_hub.viewing.rollout import policy_name, result_blocks, result_labels


def sections(document: Document) -> dict[str, Section]:
    return {b.title: b for b in document.blocks if isinstance(b, Section)}


def of_kind(blocks: tuple[Block, ...], kind: type[Any]) -> Iterator[Any]:
    return (b for b in blocks if isinstance(b, kind))


def test_a_rollout_is_told_in_the_order_it_happened(trajectory: Trajectory) -> None:
    document = rollout_document(trajectory)
    assert document.title == "notes/postpone_plumber"
    assert document.labels == (Label(text="AGENT_ERROR", tone="bad"), Label(text="1 broken rule", tone="bad"))
    assert list(sections(document)) == [
        "Task", "Rules", "1. edit_note", "2. get_note", "3. get_note", "4. create_note", "Broken rules",
        "Answer", "What changed in the database", "Verdict by decision", "Usage", "Conversation", "Policy and options",
    ]  # fmt: skip


def test_the_overview_names_who_did_what_where(trajectory: Trajectory) -> None:
    (overview,) = of_kind(rollout_document(trajectory).blocks, Facts)
    assert dict(overview.pairs) == {
        "environment": "notes", "task": "notes/postpone_plumber", "policy": "some/model", "seed": "7",
        "tier": trajectory.tier, "clock": trajectory.clock, "termination": "answered", "steps": "4", "reward": "0",
    }  # fmt: skip


def test_a_step_shows_thought_arguments_result_and_rows(trajectory: Trajectory, notes_environment: Environment) -> None:
    changes = sync.run(row_changes, trajectory, notes_environment)
    step = sections(rollout_document(trajectory, changes=changes))["1. edit_note"]
    thought, arguments, result, rows = step.blocks
    assert thought == Prose(label="thought", text="The note about the plumber is note 1.")
    assert arguments == Data(label="arguments", value={"note_id": 1, "fields": {"due_on": "2026-03-06"}})
    assert (result.label, result.value["due_on"]) == ("result", "2026-03-06")  # type: ignore[union-attr]
    assert isinstance(rows, Rows)
    assert list(rows.diff) == ["notes"]


@pytest.mark.parametrize(
    ("result", "labels", "block"),
    [
        (ToolResult(type="ok", value=[1]), [("ok", "good")], Data(label="result", value=[1])),
        (
            ToolResult(type="refused", code="not_found", message="no note 9"),
            [("refused", "doubtful"), ("not_found", "")],
            Prose(label="refusal", text="no note 9"),
        ),
        (
            ToolResult(type="invalid_call", code="unknown_tool", message="unknown tool 'x'"),
            [("invalid_call", "doubtful"), ("unknown_tool", "")],
            Prose(label="error", text="unknown tool 'x'"),
        ),
        (
            ToolResult(type="fault", code="KeyError", message="KeyError: 'x'"),
            [("fault", "bad"), ("KeyError", "")],
            Prose(label="error", text="KeyError: 'x'"),
        ),
    ],
)
def test_results_are_shown_by_their_type(result: ToolResult, labels: list[tuple[str, str]], block: Block) -> None:
    assert [(found.text, found.tone) for found in result_labels(result)] == labels
    assert result_blocks(result) == (block,)


def test_a_verdict_shows_reasoning_and_evidence(trajectory: Trajectory) -> None:
    section = sections(rollout_document(trajectory))["Verdict by decision"]
    assert section.labels == (Label(text="AGENT_ERROR", tone="bad"),)
    assert next(of_kind(section.blocks, Prose)).text == trajectory.verdicts[0].reasoning
    assert [s.title for s in of_kind(section.blocks, Section)] == ["Decision", "Signals"]


def test_what_was_used_is_told_in_words_and_short_numbers(changed: Callable[..., Trajectory]) -> None:
    usage = {
        "turns": 3, "prompt_tokens": 12345, "cost_usd": 0.0005751234, "policy_seconds": 0.16522418999920774,
        "seconds": 1234.5678, "error": {"message": "x"}, "replaced_characters": ["answer"], "other": None,
    }  # fmt: skip
    (found,) = sections(rollout_document(changed(usage=usage)))["Usage"].blocks
    assert isinstance(found, Facts)
    assert dict(found.pairs) == {
        "messages": "3", "prompt tokens": "12,345", "cost in USD": "0.000575", "policy seconds": "0.1652",
        "seconds": "1,235", "characters replaced in": "answer",
    }  # fmt: skip


def test_messages_of_the_model_are_numbered_and_marked_where_they_break_a_rule(trajectory: Trajectory) -> None:
    conversation = sections(rollout_document(trajectory))["Conversation"]
    assert [(s.title, [x.text for x in s.labels]) for s in of_kind(conversation.blocks, Section)] == [
        ("system", []),
        ("assistant, message 1", ["breaks rule 3"]),
    ]


def test_without_changes_the_rows_of_the_last_verdict_are_shown(changed: Callable[..., Trajectory]) -> None:
    trajectory = changed()
    (rows,) = sections(rollout_document(trajectory))["What changed in the database"].blocks
    assert rows == Rows(diff=trajectory.verdicts[-1].evidence.diff)
    assert "What changed in the database" not in sections(rollout_document(changed(verdicts=())))


def test_where_only_the_end_is_known_it_says_so(trajectory: Trajectory) -> None:
    whole = trajectory.verdicts[0].evidence.diff
    rows, note = sections(rollout_document(trajectory, changes=RowChanges(whole=whole)))[
        "What changed in the database"
    ].blocks
    assert rows == Rows(diff=whole)
    assert isinstance(note, Prose)
    assert note.text.startswith("Which call changed which row is not known")


def test_an_unjudged_rollout_says_so_and_has_no_reward(changed: Callable[..., Trajectory]) -> None:
    document = rollout_document(changed(verdicts=(), violations=()))
    assert document.labels == (Label(text="not judged"),)
    (overview,) = of_kind(document.blocks, Facts)
    assert "reward" not in dict(overview.pairs)


def test_a_failed_judge_is_told(trajectory: Trajectory) -> None:
    error = {"judge": "llm", "type": "JudgeError", "message": "no JSON"}
    section = sections(rollout_document(trajectory, judge_error=error))["No verdict by llm"]
    assert section.blocks == (Prose(text="no JSON"),)


def test_an_attempt_without_a_call_says_so(changed: Callable[..., Trajectory]) -> None:
    assert "No call was made" in sections(rollout_document(changed(steps=())))


def test_without_the_environment_the_task_is_named_but_not_told(changed: Callable[..., Trajectory]) -> None:
    assert "Task" not in sections(rollout_document(changed(environment=None)))


@pytest.mark.parametrize(
    ("policy", "name"),
    [({"kind": "noop"}, "noop"), ({"kind": "chat", "model": "a/b"}, "a/b"), ({}, ""), ({"kind": 3}, "3")],
)
def test_a_policy_is_named_by_its_model_or_its_kind(policy: dict[str, Any], name: str) -> None:
    assert policy_name(policy) == name

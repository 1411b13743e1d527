"""Attempts made from a solution, as data."""

from collections import Counter

import pytest

from awm_hub.environment import Environment
from awm_hub.errors import UsageError
from awm_hub.variants import KINDS, Attempt, attempts_at


def named(environment: Environment, slug: str, **settings: object) -> dict[str, Attempt]:
    made = attempts_at(environment, environment.task(slug), **settings)  # type: ignore[arg-type]
    assert all(count == 1 for count in Counter(a.name for a in made).values())
    return {a.name: a for a in made}


def test_the_solution_comes_first_with_the_right_answer(notes_environment: Environment) -> None:
    first = attempts_at(notes_environment, notes_environment.task("jars_for_jam"))[0]
    assert (first.kind, first.answer, first.should_pass) == ("solution", '{"note":8,"shop":4}', True)
    assert [call.tool for call in first.calls] == ["create_note", "search_notes"]


def test_every_kind_is_made_where_a_task_changes_and_asks(notes_environment: Environment) -> None:
    made = named(notes_environment, "jars_for_jam")
    assert {a.kind for a in made.values()} == set(KINDS)
    assert made["nothing but the answer"].should_pass is False


def test_every_argument_of_a_write_is_perturbed_and_none_of_a_read(notes_environment: Environment) -> None:
    made = named(notes_environment, "jars_for_jam", kinds=("mutant",))
    changed = {name.partition(": ")[2].partition(",")[0] for name in made if name.startswith("step 1 (create_note): ")}
    assert changed == {"notebook", "title", "body", "due_on", "tags"}
    assert made["step 1 (create_note): due_on, the next day"].calls[0].arguments["due_on"] == "2026-03-10"
    assert made["step 1 (create_note): tags, without the last item"].calls[0].arguments["tags"] == ["kitchen"]
    assert not any(name.startswith("step 2") for name in made)


def test_a_write_is_dropped_repeated_and_joined_by_those_of_other_tasks(notes_environment: Environment) -> None:
    made = named(notes_environment, "postpone_plumber", kinds=("mutant", "sibling"))
    assert [call.tool for call in made["step 2 (edit_note) dropped"].calls] == ["search_notes"]
    assert [call.tool for call in made["extra write: edit_note again"].calls][-2:] == ["edit_note", "edit_note"]
    assert {"extra write: create_note", "extra write: finish_note"} <= made.keys()
    assert [c.tool for c in made["solution of one_bulb_note"].calls] == ["search_notes", "finish_note"]


def test_answers_are_negated_hedged_enumerated_and_swapped(notes_environment: Environment) -> None:
    made = named(notes_environment, "jars_for_jam", kinds=("wrong_answer",))
    answers = {name.removeprefix("answer: "): a.answer for name, a in made.items()}
    assert answers["negated"] == 'The answer is not {"note":8,"shop":4}.'
    assert answers["fields swapped"] == '{"note":4,"shop":8}'
    assert answers["note: one more"] == '{"note":9,"shop":4}'
    assert answers["hedged"].startswith('{"note":8,"shop":4} or perhaps ')
    assert answers["none"] is None


def test_a_task_without_an_answer_has_no_wrong_ones(notes_environment: Environment) -> None:
    assert named(notes_environment, "postpone_plumber", kinds=("wrong_answer",)) == {}


def test_planted_texts_reach_answers_rows_and_thoughts(notes_environment: Environment) -> None:
    made = named(notes_environment, "jars_for_jam", kinds=("injection",))
    assert len(made) == 12
    planted = made["an order in a row"].calls[0]
    assert "COMPLETED" in planted.arguments["title"] + planted.arguments["body"]
    assert "COMPLETED" in (made["a verdict in a thought"].thought or "")
    assert not any(a.should_pass for a in made.values())


def test_what_cannot_be_made_is_said(notes_environment: Environment) -> None:
    with pytest.raises(UsageError, match="no kind of attempt named 'monster'"):
        attempts_at(notes_environment, notes_environment.tasks[0], kinds=("monster",))

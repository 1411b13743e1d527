"""What a card counts of an environment."""

import dataclasses

import pytest

from awm_hub.card import facts_of
from awm_hub.card.facts import rows_in
from awm_hub.environment import Quality


@pytest.mark.parametrize(
    ("statement", "rows"),
    [
        ("INSERT INTO notes (id, text) VALUES (1, 'a'), (2, 'b');", 2),
        ("insert into notes values (1, 'it''s (one) row'), (2, ')(')", 2),
        ("INSERT INTO notes (id) VALUES (max(1, (2))), (abs(-3)) -- and (4)", 2),
        ("INSERT INTO \"odd (name)\" (id) /* VALUES (1) */ VALUES (1)", 1),
        ("INSERT INTO notes SELECT id + 100, text FROM notes", 1),
        ("", 1),
    ],
)  # fmt: skip
def test_rows_are_counted_by_what_stands_after_values(statement, rows):
    assert rows_in([statement]) == rows


def test_an_audit_of_another_content_does_not_count(notes_environment):
    here = Quality(audited_hash=notes_environment.content_hash, seed_errors=0)
    elsewhere = Quality(audited_hash="0" * 64)
    assert facts_of(dataclasses.replace(notes_environment, quality=here)).quality == here
    assert facts_of(dataclasses.replace(notes_environment, quality=elsewhere)).quality is None


def test_solutions_are_counted_by_calls_and_by_tools(notes_environment):
    found = facts_of(notes_environment)
    solutions = [t.solution for t in notes_environment.tasks]
    assert [t.calls for t in found.tasks] == [None if s is None else len(s) for s in solutions]
    assert [t.tools for t in found.tasks] == [None if s is None else len({c.tool for c in s}) for s in solutions]
    assert (found.tables, found.tools) == (len(notes_environment.tables), len(notes_environment.tools))

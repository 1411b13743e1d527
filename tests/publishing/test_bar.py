"""Which environments reach which bar."""

import pytest

from awm_hub.card import facts_of
from awm_hub.environment import Provenance, TaskQuality
from awm_hub.publishing import below_bar
from awm_hub.publishing.bar import without_license


@pytest.mark.parametrize(
    ("results", "reasons"),
    [
        ({}, []),
        ({"schema_errors": 1, "tool_faults": 3}, ["schema_errors: 1", "tool_faults: 3"]),
        ({"foreign_key_violations": None, "hidden_state": None, "deterministic": None}, []),
        ({"dropped_tools": ("list_x", "get_x")}, ["dropped_tools: list_x, get_x"]),
        ({"hidden_state": True, "false_effects": ("peek",)}, ["false_effects: peek", "hidden_state"]),
        ({"tasks": (TaskQuality(id="a_1/x", noop_rejected=False, solution_passes=None),)}, ["x: not noop_rejected"]),
        (
            {"tasks": (TaskQuality(id="a_1/x", equivalents_accepted=3, equivalents_tried=4),)},
            ["x: equivalents_accepted: 3 of 4"],
        ),
        (
            {"tasks": (TaskQuality(id="a_1/x", mutants_rejected=37, mutants_tried=40),)},
            ["mutants_rejected: 37 of 40"],
        ),
        ({"tasks": (TaskQuality(id="a_1/x", mutants_rejected=38, mutants_tried=40),)}, []),
    ],
)
def test_each_fault_is_a_reason_and_a_check_that_was_not_made_is_none(audited, results, reasons):
    found = below_bar([facts_of(audited("a_1", results=results))], "sound")
    assert [list(b.reasons) for b in found] == ([reasons] if reasons else [])


def test_imported_rows_only_have_to_be_audited(audited, renamed):
    imported = Provenance(source="somebody/else", license="mit")
    faulty = audited("a_1", results={"seed_errors": 1}, provenance=imported)
    bare = renamed("b_1", provenance=imported)
    assert [b.id for b in below_bar(map(facts_of, (faulty, bare)))] == ["b_1"]
    assert [b.id for b in below_bar(map(facts_of, (faulty, bare)), "sound")] == ["a_1", "b_1"]
    assert below_bar(map(facts_of, (faulty, bare)), "none") == ()


def test_only_an_unknown_licence_is_nobodys(renamed):
    stated = [renamed(f"e_{i}", provenance=Provenance(license=n)) for i, n in enumerate((None, "mit", " Unknown", "x"))]
    assert [b.id for b in without_license(map(facts_of, stated))] == ["e_2"]

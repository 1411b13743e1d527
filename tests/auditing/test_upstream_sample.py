"""Real upstream rows, where `AWM_HUB_UPSTREAM_SAMPLE` names them: known defects are found, none is invented."""

import os
from pathlib import Path

import pytest

from awm_hub.auditing import AuditedEnvironment, audit, write_quality
from awm_hub.importers import import_awm1k

SAMPLE = os.environ.get("AWM_HUB_UPSTREAM_SAMPLE")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(SAMPLE is None, reason="AWM_HUB_UPSTREAM_SAMPLE names no folder of upstream rows"),
]
Audited = dict[str, AuditedEnvironment]


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Audited:
    found: Audited = {}
    for name in ("official_awm1k", "user_run"):
        folder = tmp_path_factory.mktemp(name)
        import_awm1k(Path(str(SAMPLE)) / name, folder / "out")
        report = audit(folder / "out", run_file=folder / "run.jsonl")
        assert report.unaudited == ()
        assert write_quality(report)
        found |= {e.id: e for e in report.environments}
    return found


def subjects(audited: Audited, *rules: str) -> dict[str, list[str]]:
    found = {name: sorted({f.subject for f in e.findings if f.rule in rules}) for name, e in audited.items()}
    return {name: found[name] for name in sorted(found) if found[name]}


def test_decisions_that_accept_doing_nothing_are_these_two(audited: Audited) -> None:
    assert subjects(audited, "noop_passes") == {
        "docusign_e_signature_agreement_workflow": ["t9"],
        "surveymonkey_apply": ["t9"],
    }
    rejected = [t.noop_rejected for e in audited.values() for t in e.quality.tasks]
    assert rejected.count(False) == 2
    assert rejected.count(True) == 38


def test_the_one_seed_that_already_holds_what_a_task_asks_for(audited: Audited) -> None:
    """The other verifier that accepts doing nothing does so with empty tables too."""
    assert subjects(audited, "seed_satisfies") == {"docusign_e_signature_agreement_workflow": ["t9"]}


def test_statements_that_fail(audited: Audited) -> None:
    assert subjects(audited, "schema_error") == {"surveymonkey_apply": ["form_questions"]}
    assert subjects(audited, "seed_error") == {
        "etsy_digital_downloads": ["messages"],
        "surveymonkey_apply": ["form_question_options", "form_questions", "submission_answers"],
    }
    counts = {e.id: (e.quality.schema_errors, e.quality.seed_errors) for e in audited.values()}
    assert counts["surveymonkey_apply"] == (3, 22)


def test_tools_that_another_route_takes_the_place_of(audited: Audited) -> None:
    assert subjects(audited, "dropped_tool") == {
        "docusign_e_signature_agreement_workflow": [
            "add_envelope_recipient",
            "add_envelope_tab",
            "add_reusable_tab_to_template",
            "send_envelope",
        ]
    }


def test_tools_that_never_answer_are_those_whose_table_did_not_load(audited: Audited) -> None:
    never = subjects(audited, "tool_never_answers")
    assert set(never) <= {"surveymonkey_apply"}, never
    faults = subjects(audited, "tool_fault", "tool_never_answers")
    assert set(faults) >= {"docusign_e_signature_agreement_workflow", "rover", "surveymonkey_apply"}


def test_nothing_else_is_said_to_be_wrong(audited: Audited) -> None:
    # the sample holds no verifiers of the official row
    assert set(subjects(audited, "no_verifier")) == {"content_platform_1"}
    known = {
        "no_verifier", "noop_passes", "seed_satisfies", "schema_error", "seed_error", "dropped_tool", "shadowed_tool",
        "tool_fault", "tool_never_answers",
    }  # fmt: skip
    errors = {(e.id, f.rule, f.subject) for e in audited.values() for f in e.findings if f.severity == "error"}
    assert {entry for entry in errors if entry[1] not in known} == set()
    assert all(e.quality.deterministic for e in audited.values())
    assert not any(e.quality.hidden_state for e in audited.values())

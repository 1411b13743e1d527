"""Real upstream rows, where `AWM_HUB_UPSTREAM_SAMPLE` names a folder that holds them."""

import os
from collections import Counter
from pathlib import Path

import pytest

import awm_hub as awm
from awm_hub.importers import Finding, Imported, ImportReport, import_awm1k

SAMPLE = os.environ.get("AWM_HUB_UPSTREAM_SAMPLE")
pytestmark = pytest.mark.skipif(SAMPLE is None, reason="AWM_HUB_UPSTREAM_SAMPLE names no folder of upstream rows")

Import = tuple[dict[str, Imported], ImportReport, Path]


def import_sample(name: str, tmp_path_factory: pytest.TempPathFactory) -> Import:
    out = tmp_path_factory.mktemp("imported") / name
    report = import_awm1k(Path(str(SAMPLE)) / name, out)
    return {e.id: e for e in report.environments}, report, out


@pytest.fixture(scope="module")
def official(tmp_path_factory: pytest.TempPathFactory) -> Import:
    return import_sample("official_awm1k", tmp_path_factory)


@pytest.fixture(scope="module")
def user_run(tmp_path_factory: pytest.TempPathFactory) -> Import:
    return import_sample("user_run", tmp_path_factory)


def of_kind(entry: Imported, kind: str) -> list[Finding]:
    return [finding for finding in entry.findings if finding.kind == kind]


def test_the_official_environment_runs_with_its_34_tools(official: Import) -> None:
    entries, _, out = official
    assert list(entries) == ["content_platform_1"]
    entry = entries["content_platform_1"]
    assert (entry.tools_count, entry.tasks_count, entry.tables_count, entry.rows_count) == (34, 10, 14, 154)
    assert (entry.schema_errors, entry.seed_errors, entry.dropped_tools, entry.shadowed_tools) == (0, 0, (), ())
    assert [f.subject for f in of_kind(entry, "missing")] == ["scenario", "specification", "verifiers"]
    with awm.launch(awm.load(out)["content_platform_1"]) as instance:
        assert len(instance.list_tools()) == 34


def test_partial_official_rows_are_left_out_with_what_there_is(official: Import) -> None:
    _, report, _ = official
    assert {e.id: (e.has, e.reason) for e in report.left_out} == {
        "booking_and_appointments_1": (("scenario",), "it has no tables and no code"),
        "booking_marketplace_1": (("scenario",), "it has no tables and no code"),
        "code_hosting_2": (("tasks",), "it has no tables and no code"),
        "e_commerce_33": (("tasks", "tables", "verifiers"), "it has no code"),
        "marketplace_1": (("scenario",), "it has no tables and no code"),
    }
    assert report.problems == ()
    assert all(count.lines == count.imported + count.left_out for count in report.files)


def test_a_users_run_gives_all_its_environments_under_their_display_names(user_run: Import) -> None:
    entries, report, _ = user_run
    assert {e.id: (e.title, e.tools_count, e.tasks_count) for e in entries.values()} == {
        "docusign_e_signature_agreement_workflow": ("DocuSign (E-Signature & Agreement Workflow)", 17, 10),
        "etsy_digital_downloads": ("Etsy Digital Downloads", 18, 10),
        "rover": ("Rover", 17, 10),
        "surveymonkey_apply": ("SurveyMonkey Apply", 26, 10),
    }
    assert (report.left_out, report.problems, report.license) == ((), (), "unknown")
    assert all(count.lines == count.imported for count in report.files)


def test_failing_statements_of_a_users_run_are_counted_and_named(user_run: Import) -> None:
    entries, _, out = user_run
    assert {e.id: (e.schema_errors, e.seed_errors) for e in entries.values()} == {
        "docusign_e_signature_agreement_workflow": (0, 0),
        "etsy_digital_downloads": (0, 1),
        "rover": (0, 0),
        "surveymonkey_apply": (3, 22),
    }
    survey = entries["surveymonkey_apply"]
    assert Counter(f.subject for f in of_kind(survey, "schema")) == {"form_questions": 3}
    assert Counter(f.subject for f in of_kind(survey, "seed")) == {
        "form_questions": 8,
        "form_question_options": 6,
        "submission_answers": 8,
    }
    assert [f.subject for f in of_kind(entries["etsy_digital_downloads"], "seed")] == ["messages"]
    row = awm.load(out)["surveymonkey_apply"]
    assert sum(len(seed.inserts) for seed in row.seed) == 105


def test_routes_that_replace_one_another_are_named(user_run: Import) -> None:
    entries, _, out = user_run
    entry = entries["docusign_e_signature_agreement_workflow"]
    assert sorted(entry.dropped_tools) == [
        "add_envelope_recipient",
        "add_envelope_tab",
        "add_reusable_tab_to_template",
        "send_envelope",
    ]
    assert len(entry.shadowed_tools) == 4
    quality = awm.load(out)[entry.id].quality
    assert quality is not None
    assert quality.dropped_tools == entry.dropped_tools


def test_deciding_verifiers_under_the_signals_name_are_known_for_what_they_are(user_run: Import) -> None:
    entries, _, _ = user_run
    assert {(e.signals, e.decisions) for e in entries.values()} == {(0, 10)}
    done = [
        (e.id, f.subject) for e in entries.values() for f in of_kind(e, "verifier") if "untouched database" in f.message
    ]
    assert done == [("docusign_e_signature_agreement_workflow", "t9"), ("surveymonkey_apply", "t9")]

"""The shapes of `--json` output are promises: this file changes only when a field is added, or with a major version."""

import dataclasses
import datetime as dt
from pathlib import Path

import pytest

from awm_hub import auditing, importers, packing
from awm_hub.cli import judge, outcomes, play, reports, rollout, view
from awm_hub.trajectory import StateDiff

SHAPES = [
    (
        reports.ListedEnvironment,
        "id split title categories interface usage tables_count tools_count tasks_count image_bytes content_hash",
    ),
    (reports.ListReport, "source revision total environments"),
    (reports.ShownTool, "name description effect input_schema output_schema"),
    (reports.ShownTask, "id kind instruction prompt answer answer_order answer_sql free setup solution verifiers"),
    (reports.ShownTable, "name columns rows total"),
    (
        reports.ShowReport,
        "id split title description categories rules usage interface requires clock content_hash "
        "tables_count tools_count tasks_count quality provenance tools tasks tables code",
    ),
    (reports.CallReport, "environment task seed tier tool arguments result diff"),
    (reports.NewReport, "folder files"),
    (reports.ServeReport, "url"),
    (reports.DemoCall, "tool arguments is_error result"),
    (reports.DemoReport, "environment task instruction mcp_version tier tools calls diff verdict seconds next"),
    (packing.PackReport, "environments dataset"),
    (
        packing.PackedEnvironment,
        "id split content_hash image_sha256 tables_count tools_count tasks_count volatile_columns warnings",
    ),
    (packing.DatasetReport, "out environments tasks splits files bytes"),
    (packing.UnpackReport, "out environments"),
    (importers.ImportReport, "source source_revision license environments left_out problems files"),
    (
        importers.Imported,
        "id title tools_count tasks_count tables_count rows_count signals decisions schema_errors seed_errors "
        "foreign_key_violations dropped_tools shadowed_tools hidden_state findings",
    ),
    (importers.Finding, "kind subject message statement"),
    (importers.LeftOut, "id title reason has"),
    (importers.Problem, "file line kind message"),
    (rollout.RolloutReport, "directory policy planned stored unscored metrics dataset plot"),
    (judge.JudgeReport, "source judge judged skipped unjudged outcomes agreement disagreements usage written"),
    (view.ViewReport, "source rollouts rollout changes pages planned unreadable metrics"),
    (play.PlayReport, "environment task trajectory verdict"),
    (
        reports.SubsetReport,
        "out source revision environments_count tasks_count sound_environments sound_tasks left_out fingerprint",
    ),
    (auditing.AuditReport, "source revision audit_version environments unaudited taken_over seconds"),
    (
        auditing.AuditedEnvironment,
        "id content_hash findings survivors rejected held_out coverage fingerprints setting calls_count seconds "
        "quality",
    ),
    (auditing.Finding, "rule severity subject message next_step"),
    (importers.FileCount, "file lines blank refused repeated collided imported unused left_out problems_not_listed"),
]


@pytest.mark.parametrize(("record", "names"), SHAPES, ids=lambda v: getattr(v, "__name__", ""))
def test_the_shape_of_a_report_is_as_promised(record: type, names: str) -> None:
    assert [f.name for f in dataclasses.fields(record)] == names.split()


@pytest.mark.parametrize("record", [r for r, _ in SHAPES], ids=lambda r: r.__name__)
def test_reports_are_frozen(record: type) -> None:
    assert record.__dataclass_params__.frozen  # type: ignore[attr-defined]


def test_plain_turns_records_into_json() -> None:
    found = outcomes.plain(
        {
            "report": reports.NewReport(folder="x", files=("a", "b")),
            "when": dt.datetime(2026, 3, 2, 9, tzinfo=dt.UTC),
            "where": Path("x/y"),
            "diff": StateDiff(),
            1: (True, None, 2.5),
        }
    )
    assert found == {
        "report": {"folder": "x", "files": ["a", "b"]},
        "when": "2026-03-02T09:00:00+00:00",
        "where": "x/y",
        "diff": {},
        "1": [True, None, 2.5],
    }

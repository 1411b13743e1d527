"""Audits of many environments: side by side, resumable, comparable with an earlier one."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from awm_hub.auditing import AuditedEnvironment, AuditReport, audit, running
from awm_hub.environment import Environment
from awm_hub.errors import DataError, UnknownNameError, UsageError
from awm_hub.packing import write_dataset

TASKS = 1
"""Tasks of each environment here: these tests are about many environments, not about tasks."""


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory, renamed: Callable[..., Environment]) -> Path:
    """A dataset of four environments."""
    out = tmp_path_factory.mktemp("several") / "out"
    found = [renamed(f"notes_{n}") for n in range(4)]
    write_dataset((replace(e, tasks=e.tasks[:TASKS]) for e in found), out)
    return out


@pytest.fixture(scope="module")
def finished(several: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, AuditReport, list[Any]]:
    """The run file of two audits in turn, of two of the environments and of all; the first report, and its events."""
    run_file = tmp_path_factory.mktemp("finished") / "run.jsonl"
    events: list[Any] = []
    first = audit(several, ids=["notes_0", "notes_2"], run_file=run_file, progress=events.append)
    whole = audit(several, run_file=run_file)
    assert (len(whole.environments), whole.taken_over) == (4, 2)
    assert first.environments == (whole.environments[0], whole.environments[2])
    return run_file.read_text(), whole, events


def timeless(report: AuditReport) -> list[dict[str, Any]]:
    """What a report says, without times."""
    return [_timeless(environment) for environment in report.environments]


def _timeless(environment: AuditedEnvironment) -> dict[str, Any]:
    quality = replace(environment.quality, audited_at=None)
    return replace(environment, seconds=0.0, quality=quality).to_dict()


def test_finished_environments_are_taken_over_and_fresh_ones_are_the_same(
    several: Path, finished: tuple[str, AuditReport, list[Any]], tmp_path: Path
) -> None:
    kept, whole, events = finished
    run_file = tmp_path / "run.jsonl"
    run_file.write_text(kept)
    assert [(e["id"], e["is_kept"]) for e in sorted(events, key=lambda e: e["id"])] == [
        ("notes_0", False),
        ("notes_2", False),
    ]
    again = audit(several, run_file=run_file)
    assert (again.taken_over, again.environments) == (4, whole.environments)
    fresh = audit(several, ids=["notes_0"], run_file=run_file, is_fresh=True)
    assert timeless(fresh) == timeless(whole)[:1]


def test_half_a_line_of_a_killed_run_is_passed_over(
    several: Path, finished: tuple[str, AuditReport, list[Any]], tmp_path: Path
) -> None:
    run_file = tmp_path / "run.jsonl"
    text = finished[0]
    run_file.write_text(text[: -len(text.splitlines()[-1]) // 2])
    assert audit(several, run_file=run_file).taken_over == 3
    assert audit(several, run_file=run_file).taken_over == 4


def test_a_row_that_states_the_hash_of_another_is_audited_itself(
    tmp_path: Path, renamed: Callable[..., Environment]
) -> None:
    good = replace(renamed("notes_0"), tasks=())
    claims = replace(good, code=good.code.replace("'done'", "'open'"))
    out = tmp_path / "out"
    for environment, expected in ((good, 0), (claims, 0)):
        write_dataset([environment], out)
        assert audit(out, run_file=tmp_path / "run.jsonl").taken_over == expected


@pytest.mark.slow
def test_an_audit_that_is_killed_anywhere_goes_on_where_it_was(several: Path, tmp_path: Path) -> None:
    run_file = tmp_path / "run.jsonl"
    words = ["audit", str(several), "--run", str(run_file), "--jobs", "1", "--json", "--fail-on", "never"]
    command = [sys.executable, "-m", "awm_hub", *words]
    for _ in range(3):
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            process.stderr.readline()  # one environment is done, the next one has begun
            os.kill(process.pid, signal.SIGKILL)
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    data = json.loads(done.stdout)["data"]
    assert data["totals"]["environments"] == 4
    assert data["taken_over"] >= 1
    assert len(run_file.read_text().splitlines()) == 4
    whole = audit(several, run_file=tmp_path / "other.jsonl")
    killed = AuditReport(
        source=data["source"],
        revision=None,
        audit_version=data["audit_version"],
        environments=tuple(map(AuditedEnvironment.from_dict, data["environments"])),
    )
    assert timeless(killed) == timeless(whole)


def test_a_tool_that_does_otherwise_than_in_the_baseline_is_named(
    tmp_path: Path, renamed: Callable[..., Environment]
) -> None:
    before = replace(renamed("notes_0"), tasks=())
    code = before.code.replace("status = 'done', updated_at", "status = 'done', body = '', updated_at")
    assert code != before.code
    write_dataset([before], tmp_path / "before")
    write_dataset([replace(before, code=code)], tmp_path / "after")
    report = audit(tmp_path / "before", run_file=tmp_path / "run.jsonl")
    (tmp_path / "report.json").write_text(json.dumps(report.to_dict(), default=str))
    after = audit(tmp_path / "after", run_file=tmp_path / "run.jsonl", baseline=tmp_path / "report.json")
    changed = {f.subject for f in after.environments[0].findings if f.rule == "behaviour_changed"}
    assert changed == {"finish_note", "search_notes"}  # and what finds a note that was finished before
    same = audit(tmp_path / "before", run_file=tmp_path / "run.jsonl", baseline=tmp_path / "report.json")
    assert [f for f in same.environments[0].findings if f.rule == "behaviour_changed"] == []


def test_what_cannot_be_audited_is_said(several: Path, tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'notes_1'"):
        audit(several, ids=["notes_11"], run_file=tmp_path / "run.jsonl")
    with pytest.raises(UsageError, match="0 environments"):
        audit(several, jobs=0, run_file=tmp_path / "run.jsonl")
    with pytest.raises(DataError, match="no report"):
        audit(several, baseline=tmp_path / "none.json", run_file=tmp_path / "run.jsonl")


def test_a_row_that_breaks_the_audit_itself_costs_only_its_own(
    several: Path, finished: tuple[str, AuditReport, list[Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_file = tmp_path / "run.jsonl"
    done = {json.loads(line)["result"]["id"]: line for line in finished[0].splitlines(keepends=True)}
    run_file.write_text(done["notes_0"] + done["notes_2"])
    found = running.audit_one

    async def one(environment: Environment, **settings: Any) -> AuditedEnvironment:
        if environment.id == "notes_1":
            raise ZeroDivisionError("of the row")
        return await found(environment, **settings)

    monkeypatch.setattr(running, "audit_one", one)
    report = audit(several, run_file=run_file)
    assert [e.id for e in report.environments] == ["notes_0", "notes_2", "notes_3"]
    assert [(u.id, u.type, u.message) for u in report.unaudited] == [
        ("notes_1", "ZeroDivisionError", "ZeroDivisionError: of the row")
    ]


def test_a_run_file_that_cannot_be_written_is_an_error_of_the_system(several: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError):
        audit(several, ids=["notes_0"], run_file=tmp_path / "file" / "run.jsonl")

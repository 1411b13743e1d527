"""Results where trainers find them."""

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import awm_hub
from awm_hub.auditing import audit, write_quality
from awm_hub.errors import UsageError
from awm_hub.packing import pack, read_source


@pytest.fixture(scope="module")
def run_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shared, so that the environment is audited once."""
    return tmp_path_factory.mktemp("run") / "run.jsonl"


def test_a_dataset_gets_its_quality_column_and_the_flags_of_its_tasks(
    notes_dataset: Path, tmp_path: Path, run_file: Path
) -> None:
    out = tmp_path / "out"
    shutil.copytree(notes_dataset, out)
    before = awm_hub.load(out)["notes"]
    report = audit(out, run_file=run_file)
    assert sorted(Path(p).parent.name for p in write_quality(report)) == ["environments", "tasks"]
    after = awm_hub.load(out)["notes"]
    assert after.quality == report.environments[0].quality
    assert after.content_hash == before.content_hash
    assert [p.name for p in out.rglob("*.tmp")] == []
    (tasks,) = (out / "tasks").glob("*.parquet")
    rows = pq.read_table(tasks).to_pylist()
    assert {(r["noop_rejected"], r["solution_passes"], r["deterministic"], r["hidden_state"]) for r in rows} == {
        (True, True, True, False)
    }
    assert write_quality(report) == ()  # what is there already is not written again


def test_rows_that_changed_since_the_audit_keep_their_quality(
    notes_dataset: Path, tmp_path: Path, run_file: Path
) -> None:
    out = tmp_path / "out"
    shutil.copytree(notes_dataset, out)
    report = audit(out, run_file=run_file)
    source = tmp_path / "notes"
    shutil.copytree(Path(__file__).parent.parent / "fixtures" / "notes", source)
    tools = source / "tools.py"
    tools.write_text(tools.read_text().replace("is done already", "was done before"))
    pack(source, out)
    assert write_quality(report) == ()
    assert awm_hub.load(out)["notes"].quality is None


def test_sources_get_a_quality_file_that_pack_takes_in(notes_source: Path, tmp_path: Path, run_file: Path) -> None:
    source = tmp_path / "notes"
    shutil.copytree(notes_source, source)
    report = audit(tmp_path, run_file=run_file)
    assert write_quality(report) == (str(source / "quality.json"),)
    assert read_source(source).quality == report.environments[0].quality
    assert json.loads((source / "quality.json").read_text())["deterministic"] is True
    packed = pack(source, tmp_path / "packed")
    assert packed.environments[0].warnings == ()
    assert awm_hub.load(tmp_path / "packed")["notes"].quality == report.environments[0].quality


def test_what_is_not_on_this_machine_cannot_be_written_to(notes_dataset: Path, run_file: Path) -> None:
    from dataclasses import replace

    report = replace(audit(notes_dataset, run_file=run_file), source="awm/envs-1k")
    with pytest.raises(UsageError, match="cannot be written to"):
        write_quality(report)

import hashlib
import os
import subprocess
import sys

import pytest

import awm_hub
from awm_hub import packing
from awm_hub.errors import DataError, SourceError, UsageError


def digests(folder):
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    return {p.relative_to(folder).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def test_the_same_sources_give_the_same_bytes(notes_source, notes_dataset, tmp_path):
    packing.pack(notes_source, tmp_path / "again")
    assert digests(tmp_path / "again") == digests(notes_dataset)


def test_a_report_says_what_was_packed(notes_source, notes_environment, tmp_path):
    events = []
    report = packing.pack(notes_source, tmp_path / "out", progress=events.append)
    assert events == [{"event": "building", "id": "notes", "position": 1, "total": 1}]
    assert report.environments == (
        packing.PackedEnvironment(
            id="notes",
            split="train",
            content_hash=notes_environment.content_hash,
            image_sha256=notes_environment.image_sha256,
            tables_count=3,
            tools_count=6,
            tasks_count=4,
            volatile_columns=("notes.updated_at",),
            warnings=(),
        ),
    )
    assert report.dataset.files == (
        "README.md",
        "environment.yaml",
        "environments/train-00000-of-00001.parquet",
        "index.parquet",
        "tasks/train-00000-of-00001.parquet",
    )
    assert report.dataset.bytes == sum(p.stat().st_size for p in (tmp_path / "out").rglob("*") if p.is_file())


def test_a_folder_of_sources_becomes_one_dataset_sorted_by_id(shelf, tmp_path):
    folder = shelf("b_shelf").parent
    shelf("a_shelf")
    packing.pack(folder, tmp_path / "out")
    assert list(awm_hub.load(tmp_path / "out")) == ["a_shelf", "b_shelf"]


def test_a_dataset_is_replaced_and_what_is_not_ours_stays(shelf, tmp_path):
    out = tmp_path / "out"
    packing.pack(shelf("one"), out)
    (out / "report.json").write_text("{}")
    (out / ".git").mkdir()
    packing.pack(shelf("two"), out)
    assert list(awm_hub.load(out)) == ["two"]
    assert sorted(p.name for p in out.iterdir()) == [
        ".git", "README.md", "environment.yaml", "environments", "index.parquet", "report.json",
    ]  # fmt: skip


def test_an_error_leaves_the_output_as_it_was(shelf, tmp_path):
    out = tmp_path / "out"
    packing.pack(shelf("one"), out)
    before = digests(out)
    with pytest.raises(SourceError):
        packing.pack(shelf("two", seed_sql="INSERT INTO items (id) VALUES (1);"), out)
    assert digests(out) == before
    with pytest.raises(SourceError):
        packing.pack(tmp_path / "sources" / "two", tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_folder_that_is_no_dataset_is_not_written_to(shelf, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").write_text("")
    with pytest.raises(UsageError, match=r"holds something other than a dataset \(thesis.tex\)"):
        packing.pack(shelf(), tmp_path / "out")
    with pytest.raises(UsageError, match="is a file"):
        packing.pack(shelf("other"), tmp_path / "out" / "thesis.tex")


def test_a_dataset_beside_sources_is_passed_over(shelf, tmp_path):
    folder = shelf("one").parent
    packing.pack(folder, folder / "out")
    packing.pack(folder, folder / "out")
    assert list(awm_hub.load(folder / "out")) == ["one"]
    with pytest.raises(SourceError, match=r"this is a packed dataset, not sources\n  next: give the folder"):
        packing.pack(folder / "out", tmp_path / "again")


def test_a_dropped_audit_is_reported(shelf, tmp_path):
    folder = shelf()
    (folder / "quality.json").write_text('{"audited_hash": "x"}')
    report = packing.pack(folder, tmp_path / "out")
    assert report.environments[0].warnings == ("shelf/quality.json is of other content, and is left out: audit again",)


def test_two_environments_of_one_id_are_refused(notes_environment, tmp_path):
    with pytest.raises(DataError, match="two environments have the id 'notes'"):
        packing.write_dataset([notes_environment, notes_environment], tmp_path / "out")
    with pytest.raises(DataError, match="there is no environment to write"):
        packing.write_dataset([], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_public_names_are_sorted_and_real():
    assert list(packing.__all__) == sorted(packing.__all__)
    assert all(hasattr(packing, name) for name in packing.__all__)


def test_the_hosts_time_zone_does_not_matter(shelf, tmp_path):
    schema = """CREATE TABLE shifts (
        id INTEGER PRIMARY KEY,
        day TEXT,
        today TEXT DEFAULT (date('now', 'localtime')),
        at TEXT DEFAULT CURRENT_TIMESTAMP
    );"""
    seed = "INSERT INTO shifts (id, day) VALUES (1, date('now', 'start of month', '+1 month', '-1 day'));"
    folder = shelf("rota", schema_sql=schema, seed_sql=seed)
    here = packing.pack(folder, tmp_path / "here").environments[0]
    program = "import sys; from awm_hub import packing; print(packing.pack(*sys.argv[1:]).environments[0].image_sha256)"
    done = subprocess.run(
        [sys.executable, "-c", program, folder, tmp_path / "there"],
        env={**os.environ, "TZ": "Pacific/Auckland"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == here.image_sha256


def test_a_source_without_sample_data_and_tasks_is_packed(shelf, tmp_path):
    report = packing.pack(shelf(seed_sql="-- none yet\n", tasks_toml=""), tmp_path / "out")
    assert report.dataset.tasks == 0
    assert awm_hub.load(tmp_path / "out")["shelf"].seed == ()


def test_upstreams_form_of_environment_survives_a_round_trip(shelf, tmp_path):
    """Imported rows keep what does not load, count it in `quality`, and have no solutions."""
    tools = """
from fastapi import FastAPI
from sqlalchemy import create_engine, text

engine = create_engine("sqlite:///./test.db")
app = FastAPI()


@app.get("/items", operation_id="list_items", summary="List items")
async def list_items() -> list[str]:
    with engine.connect() as connection:
        return [row[0] for row in connection.execute(text("SELECT name FROM items"))]
"""
    scenario = "title = 'S'\ncategories = ['shelf']\nclock = 2026-02-10T00:00:00Z\ninterface = 'fastapi'"
    folder = shelf(
        scenario_toml=scenario, tools_py=tools, tasks_toml="[t0]\ninstruction = 'Look.'\n",
        seed_sql="INSERT INTO items (id, name, stock) VALUES (1, 'bolt', 1), (1, 'nut', 2);",
    )  # fmt: skip
    packing.pack(folder, tmp_path / "out")
    before = awm_hub.load(tmp_path / "out")["shelf"]
    assert before.quality is not None
    assert (before.quality.seed_errors, before.quality.hidden_state) == (1, False)
    assert [(t.name, t.effect) for t in before.tools] == [("list_items", "unknown")]
    packing.unpack(tmp_path / "out", tmp_path / "unpacked")
    packing.pack(tmp_path / "unpacked", tmp_path / "again")
    assert awm_hub.load(tmp_path / "again")["shelf"] == before

import datetime as dt
import json
from pathlib import Path

import pytest

from awm_hub import schema
from awm_hub.environment import Provenance, Quality, SeedTable, TaskQuality
from awm_hub.errors import SourceError
from awm_hub.packing import read_source, source_folders
from awm_hub.packing.sources import PROVENANCE_KEYS, SCENARIO_KEYS
from awm_hub.packing.tasktables import TASK_KEYS

PAGE = Path(__file__).parents[2] / "docs" / "write-an-environment.md"


def test_a_source_folder_is_read_as_it_is_written(notes_source):
    source = read_source(notes_source)
    assert (source.id, source.title, source.interface, source.usage) == ("notes", "Notes", "functions", "train")
    assert source.clock == dt.datetime(2026, 3, 2, 9, tzinfo=dt.UTC)
    assert [t.name for t in source.tables] == ["notebooks", "notes", "tags"]
    assert [len(t.indexes) for t in source.tables] == [0, 1, 0]
    assert [s.table for s in source.seed] == ["notebooks", "notes", "tags"]
    assert [t.slug for t in source.tasks] == ["overdue", "postpone_plumber", "jars_for_jam", "one_bulb_note"]
    assert source.tasks[1].solution[1].arguments["note_id"] == "$1[0].id"
    assert source.warnings == ()


def test_all_keys_of_a_scenario_are_read(shelf):
    source = read_source(
        shelf(
            scenario_toml="""
title = "Shelf"
description = "What lies where."
categories = ["inventory", "logistics"]
rules = "Never sell."
usage = "eval_only"
clock = 2026-03-02T10:00:00+01:00
volatile_columns = ["items.stock"]

[provenance]
source = "handmade"
created_at = 2026-01-01T00:00:00Z
attempts = { schema = 2 }
tokens = '{"total": null}'
cost_usd = 1
license = "Apache-2.0"
"""
        )
    )
    assert (source.description, source.rules, source.usage) == ("What lies where.", "Never sell.", "eval_only")
    assert source.categories == ("inventory", "logistics")
    assert source.clock == dt.datetime(2026, 3, 2, 9, tzinfo=dt.UTC)
    assert source.volatile_columns == ("items.stock",)
    assert source.provenance == Provenance(
        source="handmade",
        created_at=dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
        attempts={"schema": 2},
        tokens={"total": None},
        cost_usd=1.0,
        license="Apache-2.0",
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("rule = 'x'", r"shelf/scenario.toml: unknown key 'rule'\n  next: did you mean 'rules'\?"),
        ("zzz = 1", r"unknown key 'zzz'\n  next: known keys: categories, clock"),
        ("title = 5", r"title must be a text, not an integer"),
        ("title = ' '", r"title is empty"),
        ("categories = ['inventry']", r"categories holds 'inventry'\n  next: did you mean 'inventory'\?"),
        ("categories = 'inventory'", r"categories must be a list of texts"),
        ("clock = '2026-03-02'", r"clock must be a date and time with an offset"),
        ("clock = 2026-03-02T09:00:00", r"clock must be a date and time with an offset"),
        ("clock = 2026-03-02", r"clock must be a date and time with an offset"),
        ("interface = 'function'", r"interface is 'function'\n  next: did you mean 'functions'\?"),
        ("usage = 'test'", r"usage is 'test'\n  next: one of train, eval_only"),
        ("requires = ['numpy']", r"requires must be empty"),
        ("provenance = {origin = 'x'}", r"shelf/scenario.toml, \[provenance\]: unknown key 'origin'"),
        ("provenance = {cost_usd = '1'}", r"cost_usd must be a number"),
    ],
)
def test_a_wrong_key_or_value_of_a_scenario_is_named(shelf, line, message):
    key = line.partition(" ")[0]
    lines = {"title": "title = 'Shelf'", "clock": "clock = 2026-03-02T09:00:00Z", key: line}
    with pytest.raises(SourceError, match=message) as caught:
        read_source(shelf(scenario_toml="\n".join(lines.values())))
    assert caught.value.next_step
    assert caught.value.exit_code == 3


@pytest.mark.parametrize("key", ["title", "clock"])
def test_a_missing_key_is_named(shelf, key):
    lines = {"title": "title = 'Shelf'", "clock": "clock = 2026-03-02T09:00:00Z"}
    del lines[key]
    with pytest.raises(SourceError, match=rf"shelf/scenario.toml: {key} is missing\n  next: add {key} = "):
        read_source(shelf(scenario_toml="\n".join(lines.values())))


@pytest.mark.parametrize("file", ["scenario.toml", "schema.sql", "seed.sql", "tools.py", "tasks.toml"])
def test_a_missing_file_is_named(shelf, file):
    folder = shelf()
    (folder / file).unlink()
    with pytest.raises(SourceError, match=rf"shelf/{file} is missing\n  next: `awm-hub new NAME`"):
        read_source(folder)


def test_a_misspelt_file_is_refused(notes_copy):
    (notes_copy / "verifiers.py").rename(notes_copy / "verifier.py")
    with pytest.raises(
        SourceError, match=r"notes/verifier.py is no file of a source\n  next: did you mean 'verifiers.py'"
    ):
        read_source(notes_copy)


def test_files_beside_the_source_are_left_alone(notes_copy):
    (notes_copy / "README.md").write_text("About notes.")
    (notes_copy / "__pycache__").mkdir()
    assert read_source(notes_copy).id == "notes"


@pytest.mark.parametrize("name", ["My-Shelf", "x" * 65, "instances", "health"])
def test_a_folder_whose_name_is_no_id_is_refused(shelf, name):
    with pytest.raises(SourceError, match=f"'{name}' is (no environment id|a reserved id)"):
        read_source(shelf(name))


def test_broken_toml_is_reported_with_its_line(shelf):
    with pytest.raises(SourceError, match=r"shelf/tasks.toml is no TOML: .*line 2"):
        read_source(shelf(tasks_toml="[a]\nb =\n"))


def test_a_file_that_is_no_utf8_is_named(shelf):
    folder = shelf()
    (folder / "seed.sql").write_bytes(b"-- caf\xe9")
    with pytest.raises(SourceError, match=r"shelf/seed.sql is no UTF-8: .* position 6"):
        read_source(folder)


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        (
            "schema_sql",
            "CREATE TABLE a (x);\nDROP TABLE a;",
            r"schema.sql, line 2: only CREATE .*: DROP TABLE a\n  next: mend",
        ),
        (
            "schema_sql",
            "CREATE TABLE a (x)",
            r"schema.sql, line 1: this statement has no end: .*: CREATE TABLE a \(x\)",
        ),
        ("seed_sql", "DELETE FROM items;", r"seed.sql, line 1: only INSERT INTO .*: DELETE FROM items"),
    ],
)
def test_a_wrong_statement_is_shown(shelf, file, text, message):
    with pytest.raises(SourceError, match=message):
        read_source(shelf(**{file: text}))


def test_schema_and_seed_can_be_given_as_json(shelf):
    folder = shelf()
    tables = [{"name": "a", "ddl": "CREATE TABLE a (x", "indexes": ["CREATE INDEX"]}]
    (folder / "schema.json").write_text(json.dumps({"tables": tables, "further_ddl": ["CREATE VIEW"]}))
    (folder / "seed.json").write_text(json.dumps({"seed": [{"table": "a", "inserts": ["INSERT 'x"]}]}))
    source = read_source(folder)
    assert (source.tables[0].ddl, source.tables[0].indexes) == ("CREATE TABLE a (x", ("CREATE INDEX",))
    assert source.further_ddl == ("CREATE VIEW",)
    assert source.seed == (SeedTable(table="a", inserts=("INSERT 'x",)),)


@pytest.mark.parametrize(
    "text", ['{"tables": [{"name": 1, "ddl": "", "indexes": []}], "further_ddl": []}', '{"tables": []}', "[]", "{"]
)
def test_broken_json_in_place_of_sql_is_reported(shelf, text):
    folder = shelf()
    (folder / "schema.json").write_text(text)
    with pytest.raises(SourceError, match=r"shelf/schema.json"):
        read_source(folder)


def test_quality_is_read_with_its_moment(shelf):
    folder = shelf()
    at = dt.datetime(2026, 5, 1, 12, tzinfo=dt.UTC)
    quality = Quality(
        deterministic=True, tasks=(TaskQuality(id="shelf/a", noop_rejected=True),), audited_hash="ab", audited_at=at
    )
    (folder / "quality.json").write_text(json.dumps(quality.to_dict()))
    assert read_source(folder).quality == quality


def test_a_folder_of_sources_is_taken_apart_by_name(shelf):
    second, first = shelf("b_shelf"), shelf("a_shelf")
    (first.parent / ".git").mkdir()
    (first.parent / "README.md").write_text("")
    assert source_folders(first.parent) == (first, second)
    assert source_folders(first) == (first,)


def test_a_folder_among_sources_without_a_scenario_is_refused(shelf):
    (shelf().parent / "drafts").mkdir()
    with pytest.raises(SourceError, match=r"drafts/scenario.toml is missing"):
        source_folders(shelf("other").parent)


@pytest.mark.parametrize("name", ["absent", "empty"])
def test_a_folder_without_sources_says_how_to_start_one(tmp_path, name):
    (tmp_path / "empty").mkdir()
    with pytest.raises(SourceError, match="awm-hub new NAME"):
        source_folders(tmp_path / name)


@pytest.mark.parametrize("name", sorted({*SCENARIO_KEYS, *PROVENANCE_KEYS, *TASK_KEYS, *schema.CATEGORIES}))
def test_every_key_and_category_is_on_the_page_for_authors(name):
    text = PAGE.read_text()
    assert f"`{name}`" in text or f"`[{name}]`" in text


def test_what_is_no_json_in_the_provenance_is_named(shelf):
    lines = "title = 'S'\nclock = 2026-03-02T09:00:00Z\nprovenance = { tokens = '{' }"
    with pytest.raises(SourceError, match=r"tokens is .* valid JSON: .*\n  next: write JSON in quotes"):
        read_source(shelf(scenario_toml=lines))

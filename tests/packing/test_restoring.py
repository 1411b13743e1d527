import datetime as dt
import json

import pytest

import awm_hub
from awm_hub import packing
from awm_hub.environment import Call, Provenance, Quality, SeedTable, Table, Task, TaskQuality, Verifier
from awm_hub.errors import DataError, SourceError, UnknownNameError, UsageError

EVERY_CHARACTER = 'tab\tquote"\'\'\'""" back\\slash \x01\x7f\x85\u2028é😀\r\n#; [x] = $1\n'
SPLIT = """
-- first
CREATE TABLE items (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, stock INTEGER NOT NULL, at TEXT);
CREATE TRIGGER touch AFTER UPDATE ON items BEGIN UPDATE items SET at = datetime('now') WHERE id = NEW.id; END;
CREATE VIEW few AS SELECT * FROM items WHERE stock < 5; -- a view
CREATE INDEX items_by_stock ON items (stock);
"""
TASKS = """
[a]
instruction = '''
Two
lines'''
kind = "both"
setup = ["DELETE FROM items WHERE id = 2"]
answer = { zeta = 1, alpha = "bolt" }
answer_sql = '''
SELECT 1 AS zeta,
       'bolt' AS alpha'''
free = ["items.name"]
solution = [{ tool = "list_items" }, { tool = "set_stock", arguments = { item_id = "$1[0].id", stock = 3 } }]
success = "Right."
failure = '''
Wrong:
- all'''
"""
VERIFIERS = (
    "def signals_a(initial, final): return {}\n\n\n"
    'def decide_a(changes): return {"result": "complete" if changes else "others"}\n'
)


def repack(out, tmp_path):
    packing.unpack(out, tmp_path / "unpacked")
    packing.pack(tmp_path / "unpacked", tmp_path / "repacked")
    return awm_hub.load(tmp_path / "repacked")


def same_source(environment, tmp_path):
    """The source that a row is written to, read again."""
    packing.write_source(environment, tmp_path / environment.id)
    return packing.read_source(tmp_path / environment.id)


def test_a_round_trip_keeps_hash_image_and_bytes(shelf, tmp_path):
    packing.pack(shelf(schema_sql=SPLIT, tasks_toml=TASKS, verifiers_py=VERIFIERS), tmp_path / "out")
    before = awm_hub.load(tmp_path / "out")["shelf"]
    after = repack(tmp_path / "out", tmp_path)["shelf"]
    assert after == before
    assert before.volatile_columns == ("items.at",)
    assert [s.partition(" AFTER")[0] for s in before.further_ddl] == [
        "CREATE TRIGGER touch",
        "CREATE VIEW few AS SELECT * FROM items WHERE stock < 5",
    ]
    assert before.tables[0].ddl.startswith("-- first\nCREATE TABLE items")
    for file in ("environments", "tasks"):
        shard = f"{file}/test-00000-of-00001.parquet"
        assert (tmp_path / "repacked" / shard).read_bytes() == (tmp_path / "out" / shard).read_bytes()


def test_unpacked_sources_are_pleasant_to_read(notes_dataset, tmp_path):
    report = packing.unpack(notes_dataset, tmp_path / "out")
    assert report == packing.UnpackReport(out=str(tmp_path / "out"), environments=("notes",))
    folder = tmp_path / "out" / "notes"
    assert sorted(p.name for p in folder.iterdir()) == [
        "scenario.toml", "schema.sql", "seed.sql", "tasks.toml", "tools.py", "verifiers.py",
    ]  # fmt: skip
    assert (folder / "scenario.toml").read_text().splitlines()[2:] == [
        'categories = ["productivity"]',
        'rules = "Never put anything into the archive."',
        "clock = 2026-03-02T09:00:00Z",
        'interface = "functions"',
        'volatile_columns = ["notes.updated_at"]',
    ]
    assert (folder / "tasks.toml").read_text().split("\n\n")[1] == "\n".join(
        [
            "[postpone_plumber]",
            'instruction = "The plumber cannot come before Friday. Set the due day of the note about calling him to'
            ' 6 March 2026."',
            'kind = "change"',
            "solution = [",
            '    {tool = "search_notes", arguments = {query = "plumber"}},',
            '    {tool = "edit_note", arguments = {fields = {due_on = "2026-03-06"}, note_id = 1}},',
            "]",
            'success = "Note 1 is due on 2026-03-06; its text and everything else are as before."',
            'failure = "Another day or another note, a changed text, or a new note."',
        ]
    )


def test_every_character_survives_in_every_text(renamed, tmp_path):
    text = EVERY_CHARACTER
    task = Task(
        id="odd/a",
        instruction=text,
        kind="change",
        setup=(text,),
        solution=(Call(tool=text, arguments={text: [text, {"": text}], "n": -0.5}),),
        verifiers=(Verifier(kind="signals", function="f", code=text, success_criteria=text, failure_criteria=text),),
    )
    environment = renamed(
        "odd", title=text, description=text, rules=text, tasks=(task,), code=text, verifier_module=None,
        provenance=Provenance(source=text, attempts={"a": [None, text]}, tokens=text, cost_usd=0.1),
    )  # fmt: skip
    source = same_source(environment, tmp_path)
    assert source.tasks == environment.tasks
    assert source.provenance == environment.provenance
    assert (source.title, source.description, source.rules, source.code) == (text,) * 4


@pytest.mark.parametrize("text", ["\n", "\n\n", " x ", "\nx", "x\n", "\\", "\\\n", "a\\", '"', '"""', "'" * 5, '\n"'])
def test_difficult_ends_of_texts_survive(renamed, tmp_path, text):
    assert same_source(renamed("odd", description=text, rules=text), tmp_path).description == text


def test_arguments_that_toml_cannot_hold_are_written_as_json(renamed, tmp_path):
    calls = (Call(tool="t", arguments={"a": None, "b": "$1", "c": [{"d": "$2.id"}]}),)
    environment = renamed("odd", tasks=(Task(id="odd/a", instruction="Do.", solution=calls),), verifier_module=None)
    source = same_source(environment, tmp_path)
    assert source.tasks[0].solution == calls
    assert source.literal_tasks == {"a"}


def test_a_null_inside_an_answer_is_refused(renamed, tmp_path):
    task = Task(id="odd/a", instruction="Do.", answer={"a": None}, answer_sql="SELECT NULL AS a")
    with pytest.raises(DataError, match="the answer of task odd/a holds null"):
        packing.write_source(renamed("odd", tasks=(task,), verifier_module=None), tmp_path / "odd")


@pytest.mark.parametrize(
    ("tables", "seed"),
    [
        ((Table(name="a", ddl="CREATE TABLE a (x TEXT DEFAULT 'open"),), ()),
        ((Table(name="other", ddl="CREATE TABLE a (x);"),), ()),
        ((), (SeedTable(table="a", inserts=("INSERT INTO a VALUES ('it\\'s')",)),)),
        ((), (SeedTable(table="a", inserts=()), SeedTable(table="b", inserts=("INSERT INTO a (x) VALUES (1)",)))),
    ],
)
def test_statements_that_sql_text_cannot_hold_are_written_as_json(renamed, tmp_path, tables, seed):
    source = same_source(renamed("odd", interface="fastapi", tables=tables, further_ddl=(), seed=seed), tmp_path)
    assert (source.tables, source.seed) == (tables, seed)
    files = {p.name for p in (tmp_path / "odd").iterdir()}
    assert ("schema.json" in files) == bool(tables)
    assert ("seed.json" in files) == bool(seed)


def test_verifiers_with_code_of_their_own_are_written_to_files(renamed, tmp_path):
    verifiers = (
        Verifier(
            kind="signals", function="verify", code="def verify(): ...", success_criteria="A", failure_criteria="B"
        ),
        Verifier(kind="decision", function="verify", code="def verify(): return 1", success_criteria="C"),
        Verifier(kind="signals", function="again", code="def again(): ..."),
    )
    task = Task(id="odd/t0", instruction="Do.", verifiers=verifiers)
    source = same_source(renamed("odd", interface="fastapi", tasks=(task,), verifier_module=None), tmp_path)
    assert source.tasks[0].verifiers == verifiers
    assert {p.name: p.read_text() for p in (tmp_path / "odd" / "verifiers").iterdir()} == {
        "t0.signals.py": "def verify(): ...",
        "t0.decision.py": "def verify(): return 1",
        "t0.signals.2.py": "def again(): ...",
    }


def test_functions_of_verifiers_that_no_task_uses_stay_unused(renamed, tmp_path):
    task = Task(id="odd/a", instruction="Do.")
    environment = renamed("odd", tasks=(task,), verifier_module="def signals_a(): ...\n")
    assert same_source(environment, tmp_path).tasks == (task,)


def test_quality_survives_with_the_content_it_is_about(shelf, tmp_path):
    folder = shelf()
    packing.pack(folder, tmp_path / "first")
    content_hash = awm_hub.load(tmp_path / "first")["shelf"].content_hash
    at = dt.datetime(2026, 5, 1, 12, 30, tzinfo=dt.UTC)
    tasks = (TaskQuality(id="shelf/a", mutants_tried=3),)
    quality = Quality(false_effects=("x",), tasks=tasks, audited_hash=content_hash, audited_at=at)
    (folder / "quality.json").write_text(json.dumps(quality.to_dict()))
    packing.pack(folder, tmp_path / "out")
    assert repack(tmp_path / "out", tmp_path)["shelf"].quality == quality


def test_only_the_chosen_environments_are_unpacked(renamed, tmp_path):
    packing.write_dataset([renamed("a_1"), renamed("b_1")], tmp_path / "data")
    events = []
    packing.unpack(tmp_path / "data", tmp_path / "out", ["b_1"], progress=events.append)
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["b_1"]
    assert events == [{"event": "unpacking", "id": "b_1", "position": 1, "total": 1}]


def test_nothing_that_exists_is_overwritten(notes_dataset, tmp_path):
    (tmp_path / "notes").mkdir()
    with pytest.raises(UsageError, match="notes exists"):
        packing.unpack(notes_dataset, tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="is a file"):
        packing.unpack(notes_dataset, tmp_path / "file")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "notes"]


def test_an_unknown_id_leaves_nothing_behind(notes_dataset, tmp_path):
    with pytest.raises(UnknownNameError, match=r"no environment named 'nots'. Did you mean 'notes'\?"):
        packing.unpack(notes_dataset, tmp_path / "out", ["notes", "nots"])
    assert not (tmp_path / "out").exists()


def test_a_row_that_a_source_cannot_hold_is_refused(renamed, tmp_path):
    environment = renamed("odd", categories=("no such category",))
    with pytest.raises(SourceError, match="categories holds"):
        packing.write_source(environment, tmp_path / "odd")
    verifier = Verifier(kind="signals", function="f", code="\ufeffx = 1")
    task = Task(id="odd_2/a", instruction="Do.", verifiers=(verifier,))
    with pytest.raises(DataError, match="a source cannot hold its tasks as they are"):
        packing.write_source(renamed("odd_2", tasks=(task,), verifier_module=None), tmp_path / "odd_2")


@pytest.mark.parametrize("text", ["x = 1\r\ny = 2\r\n", "x = 1\r", "x = 1  # \r\n"])
def test_modules_with_carriage_returns_are_written_as_json(renamed, tmp_path, text):
    environment = renamed("odd", code=text, verifier_module=text, tasks=())
    source = same_source(environment, tmp_path)
    assert (source.code, source.verifier_module) == (text, text)
    files = {p.name for p in (tmp_path / "odd").iterdir()}
    assert {"tools.json", "verifiers.json"} <= files
    assert not {"tools.py", "verifiers.py"} & files


def test_carriage_returns_inside_values_survive(renamed, tmp_path):
    seed = (SeedTable(table="a", inserts=("INSERT INTO a (x) VALUES ('one\r\ntwo')",)),)
    tables = (Table(name="a", ddl="CREATE TABLE a (x TEXT DEFAULT '\r')"),)
    source = same_source(renamed("odd", tables=tables, further_ddl=(), seed=seed), tmp_path)
    assert (source.tables, source.seed) == (tables, seed)

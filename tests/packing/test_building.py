import shutil

import pytest

import awm_hub
from awm_hub import aio, packing
from awm_hub.environment import Call
from awm_hub.errors import SourceError
from awm_hub.packing import build_environment, read_source
from awm_hub.runtime import jobs

CLOCKED = """
import sqlite3
import time


def stamp(db: sqlite3.Connection, item_id: int) -> dict:
    \"\"\"Stamp an item.

    Args:
        item_id: Which item.
    \"\"\"
    db.execute("UPDATE items SET at = datetime('now'), nr = nr + 1, done = 1 WHERE id = ?", (item_id,))
    return {"at": time.time()}


def add_when_even(db: sqlite3.Connection) -> None:
    \"\"\"Add an item in even seconds.\"\"\"
    if int(time.time()) % 2 == 1:
        db.execute("INSERT INTO items (nr) VALUES (9)")
"""
CLOCKED_SCHEMA = "CREATE TABLE items (id INTEGER PRIMARY KEY, nr INTEGER NOT NULL DEFAULT 0, at TEXT, done INTEGER);"
STAMP = "[a]\ninstruction = 'x'\nkind = 'change'\nsolution = [{tool = 'stamp', arguments = {item_id = 1}}]"


async def build(folder):
    return await build_environment(read_source(folder))


def task(*, kind="change", solution="[]", rest=""):
    return f"[a]\ninstruction = 'Do.'\nkind = '{kind}'\nsolution = {solution}\n{rest}"


SET_STOCK = "[{tool = 'set_stock', arguments = {item_id = 1, stock = 3}}]"


def test_a_solution_is_stored_with_literal_arguments(notes_environment):
    assert notes_environment.task("postpone_plumber").solution == (
        Call(tool="search_notes", arguments={"query": "plumber"}),
        Call(tool="edit_note", arguments={"note_id": 1, "fields": {"due_on": "2026-03-06"}}),
    )


def test_effects_are_measured(notes_environment):
    assert {t.name: t.effect for t in notes_environment.tools} == {
        "list_notebooks": "read",
        "search_notes": "read",
        "get_note": "read",
        "create_note": "write",
        "edit_note": "write",
        "finish_note": "write",
    }


def test_columns_that_depend_on_the_moment_are_volatile(notes_environment):
    assert notes_environment.volatile_columns == ("notes.updated_at",)


async def test_measured_and_declared_volatile_columns_are_joined(shelf):
    scenario = "title = 'S'\nclock = 2026-03-02T09:00:00Z\nvolatile_columns = ['ITEMS.NR']"
    folder = shelf(
        scenario_toml=scenario, schema_sql=CLOCKED_SCHEMA, seed_sql="INSERT INTO items (id) VALUES (1);",
        tools_py=CLOCKED, tasks_toml=STAMP,
    )  # fmt: skip
    assert (await build(folder)).volatile_columns == ("items.at", "items.nr")


async def test_a_solution_that_works_only_at_its_second_is_refused(shelf):
    folder = shelf(
        schema_sql=CLOCKED_SCHEMA, seed_sql="", tools_py=CLOCKED, tasks_toml=task(solution="[{tool='add_when_even'}]")
    )
    with pytest.raises(
        SourceError,
        match=r"7 seconds later and with another seed, the solution of shelf/a leaves 0 rows in items, not 1",
    ):
        await build(folder)


async def test_a_tool_that_writes_without_sql_in_its_text_is_measured_as_writing(shelf):
    tools = '''
import sqlite3


def sneak(db: sqlite3.Connection) -> int:
    """Write."""
    verb = "".join(["upd", "ate"])
    return db.execute(verb + " items set stock = 0").rowcount
'''
    environment = await build(shelf(tools_py=tools, tasks_toml=task(solution="[{tool = 'sneak'}]")))
    assert environment.tool("sneak").effect == "write"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            task(solution="[{tool = 'set_stok'}]"),
            r"task shelf/a, step 1: there is no tool 'set_stok'\n  next: did you mean",
        ),
        (
            task(solution="[{tool = 'set_stock', arguments = {item_id = 'one', stock = 3}}]"),
            r"task shelf/a, step 1: set_stock\(item_id='one', stock=3\) is invalid_call",
        ),
        (
            task(solution="[{tool='list_items'}, {tool='set_stock', arguments={item_id='$1[5].id', stock=3}}]"),
            r"task shelf/a, step 2 \(set_stock\): \$1\[5\]\.id: step 1 returned nothing at \[5\]",
        ),
        (
            task(kind="query", solution=SET_STOCK, rest="answer = 3\nanswer_sql = 'SELECT 3'"),
            r"is a query, but .* items",
        ),
        (task(solution="[{tool = 'list_items'}]"), r"of kind change, but its solution changes nothing"),
        (task(kind="both", solution=SET_STOCK, rest="answer = 4\nanswer_sql = 'SELECT 3'"), r"gives 3, not 4"),
        (
            task(kind="both", solution=SET_STOCK, rest="answer = 3\nanswer_sql = 'SELECT x'"),
            r"shelf/tasks.toml, \[a\]: answer_sql fails: no such column: x\n",
        ),
        (
            task(kind="both", solution=SET_STOCK, rest="answer = 3\nanswer_sql = 'DELETE FROM items'"),
            r"answer_sql fails: attempt to write a readonly database",
        ),
        (
            task(solution=SET_STOCK, rest="free = ['items.stok']"),
            r"free holds 'items.stok', which is no column\n  next: did",
        ),
        (
            task(solution=SET_STOCK, rest="setup = ['DELETE FROM absent']"),
            r"shelf/tasks.toml, \[a\]: setup fails: no such table: absent",
        ),
    ],
)
async def test_a_task_that_is_not_as_it_claims_is_refused(shelf, text, message):
    with pytest.raises(SourceError, match=message):
        await build(shelf(tasks_toml=text))


@pytest.mark.parametrize(
    ("answer", "order", "sql"),
    [
        ("3", "any", "SELECT stock FROM items WHERE id = 1"),
        ("3.0", "any", "SELECT stock FROM items WHERE id = 1"),
        ("'bolt'", "any", "SELECT name FROM items WHERE id = 1"),
        ("['nut', 'bolt']", "any", "SELECT name FROM items ORDER BY id"),
        ("['bolt', 'nut']", "exact", "SELECT name FROM items ORDER BY id"),
        ("[]", "any", "SELECT name FROM items WHERE id = 9"),
        ("{name = 'bolt', stock = 3}", "any", "SELECT stock, name FROM items WHERE id = 1"),
        ("true", "any", "SELECT stock = 3 FROM items WHERE id = 1"),
        ("'2026-03-02 09:00:01'", "any", "SELECT datetime('now')"),
    ],
)
async def test_answer_sql_gives_the_answer_in_its_shape(shelf, answer, order, sql):
    rest = f'answer = {answer}\nanswer_order = "{order}"\nanswer_sql = """{sql}"""'
    environment = await build(shelf(tasks_toml=task(kind="both", solution=SET_STOCK, rest=rest)))
    assert environment.task("a").answer_sql == sql


@pytest.mark.parametrize(
    ("answer", "order", "sql"),
    [
        ("['nut', 'bolt']", "exact", "SELECT name FROM items ORDER BY id"),
        ("['bolt']", "any", "SELECT name FROM items"),
        ("'bolt'", "any", "SELECT name FROM items"),
        ("3", "any", "SELECT stock, id FROM items WHERE id = 1"),
        ("3", "any", "SELECT stock FROM items WHERE id = 9"),
        ("{name = 'bolt'}", "any", "SELECT stock, name FROM items WHERE id = 1"),
        ("{name = 'bolt', stock = 3}", "any", "SELECT stock, name FROM items"),
    ],
)
async def test_answer_sql_of_another_shape_or_order_is_refused(shelf, answer, order, sql):
    rest = f'answer = {answer}\nanswer_order = "{order}"\nanswer_sql = """{sql}"""'
    with pytest.raises(SourceError, match=r"shelf/tasks.toml, \[a\]: answer_sql gives"):
        await build(shelf(tasks_toml=task(kind="both", solution=SET_STOCK, rest=rest)))


async def test_setup_is_applied_before_the_solution_runs(shelf):
    rest = "setup = ['UPDATE items SET stock = 3 WHERE id = 1']"
    with pytest.raises(SourceError, match="its solution changes nothing"):
        await build(shelf(tasks_toml=task(solution=SET_STOCK, rest=rest)))


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            {"schema_sql": "CREATE TABLE items (id INTEGER PRIMARY KEY, id TEXT);"},
            r"shelf/schema.sql, line 1: items: duplicate column",
        ),
        (
            {"seed_sql": "INSERT INTO items (id, name, stock) VALUES (1, 'a', 1), (1, 'b', 2);"},
            r"shelf/seed.sql, line 1: items: UNIQUE",
        ),
        ({"seed_sql": "INSERT INTO absent (id) VALUES (1);"}, r"shelf/seed.sql, line 1: absent: no such table"),
        (
            {"tools_py": "import absent\n"},
            r"shelf/tools.py does not load: ModuleNotFoundError: .* \(line 1\)\n  next: tools use the standard",
        ),
        ({"tools_py": "def (:\n"}, r"shelf/tools.py does not load: SyntaxError: invalid syntax \(line 1\)\n"),
        ({"tools_py": "_x = 1\n"}, r"shelf/tools.py has no tools"),
        (
            {"scenario_toml": "title='S'\nclock=2026-03-02T09:00:00Z\nvolatile_columns=['items.x']"},
            r"volatile_columns holds",
        ),
        (
            {"seed_sql": "INSERT INTO items (id, name, stock) VALUES (1, CAST(x'FF41' AS TEXT), 1);"},
            r"items.name holds text that",
        ),
    ],
)
async def test_a_source_that_does_not_load_is_refused(shelf, files, message):
    with pytest.raises(SourceError, match=message):
        await build(shelf(**files))


async def test_a_seed_row_for_a_generated_column_is_refused_with_its_statement(shelf):
    schema = "CREATE TABLE items (id INTEGER PRIMARY KEY, net INTEGER, gross INTEGER AS (net * 2));"
    good = "INSERT INTO items (id, net) VALUES (1, 10);"
    with pytest.raises(SourceError, match=r"cannot INSERT into generated column .gross.[\s\S]*VALUES \(9, 1, 2\)"):
        await build(
            shelf("bad", schema_sql=schema, seed_sql=f"{good}\nINSERT INTO items (id, net, gross) VALUES (9, 1, 2);")
        )


async def test_triggers_and_views_work_and_their_rows_are_in_the_diff(shelf):
    schema = """
CREATE TABLE items (id INTEGER PRIMARY KEY, name TEXT NOT NULL, stock INTEGER NOT NULL);
CREATE TABLE alerts (id INTEGER PRIMARY KEY, text TEXT NOT NULL);
CREATE TRIGGER low AFTER UPDATE OF stock ON items WHEN NEW.stock < 5
BEGIN
    INSERT INTO alerts (text) VALUES ('low; reorder ' || NEW.name);
END;
CREATE VIEW few AS SELECT id, name FROM items WHERE stock < 5;
CREATE INDEX items_by_name ON items (name);
"""
    seed = "INSERT INTO items (id, name, stock) VALUES (1, 'x''); DROP TABLE alerts; --', 10);"
    environment = await build(shelf(schema_sql=schema, seed_sql=seed, tasks_toml=task(solution=SET_STOCK)))
    assert len(environment.further_ddl) == 2
    async with await aio.launch(environment, task="a") as instance:
        await instance.call_tool("set_stock", {"item_id": 1, "stock": 3})
        diff = await instance.diff()
    assert diff["alerts"].added == ({"id": 1, "text": "low; reorder x'); DROP TABLE alerts; --"},)
    assert [c.after["stock"] for c in diff["items"].changed] == [3]


async def test_relative_dates_in_the_seed_follow_the_frozen_clock(shelf):
    schema = """CREATE TABLE shifts (id INTEGER PRIMARY KEY, starts_on TEXT NOT NULL DEFAULT (date('now')),
                created_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP);"""
    seed = "INSERT INTO shifts (id, starts_on) VALUES (1, date('now', '+2 days')), (2, date('now', 'start of month'));"
    environment = await build(shelf(schema_sql=schema, seed_sql=seed))
    assert (await jobs.dump(environment.database))["shifts"]["rows"] == [
        [1, "2026-03-04", "2026-03-02 09:00:00"],
        [2, "2026-03-01", "2026-03-02 09:00:00"],
    ]
    assert (await build(shelf("again", schema_sql=schema, seed_sql=seed))).image_sha256 == environment.image_sha256


async def test_quality_of_the_same_content_is_kept(shelf):
    folder = shelf()
    environment = await build(folder)
    assert environment.quality is None
    (folder / "quality.json").write_text(f'{{"deterministic": true, "audited_hash": "{environment.content_hash}"}}')
    kept = await build(folder)
    assert kept.quality is not None
    assert kept.quality.deterministic is True
    assert kept.content_hash == environment.content_hash


async def test_quality_of_other_content_is_dropped(shelf):
    folder = shelf()
    (folder / "quality.json").write_text(f'{{"deterministic": true, "audited_hash": "{"0" * 64}"}}')
    assert (await build(folder)).quality is None


async def test_the_hash_is_of_content_and_not_of_prose(shelf):
    plain = await build(shelf("one"))
    scenario = "title = 'Other'\ndescription = 'More.'\nclock = 2026-03-02T09:00:00Z"
    prose = await build(shelf("two", scenario_toml=scenario))
    assert prose.content_hash == plain.content_hash
    later = await build(shelf("three", scenario_toml="title = 'Shelf'\nclock = 2026-03-03T09:00:00Z"))
    assert later.content_hash != plain.content_hash


@pytest.mark.parametrize(
    ("verifiers", "message"),
    [
        ("def signals_a(initial): return 1 / 0\n", r"verifier signals_a failed: ZeroDivisionError.*\n  next: mend it"),
        (
            "def decide_a(changes): return {}\n",
            r'decide_a returns {} on the solution\n  next: return {"result": one of "complete", "partial", "others"',
        ),
        ("def decide_a(changes): return {'result': 'others'}\n", r"decide_a finds the solution 'others'"),
        ("def decide_a(changes): return {'result': 'complete'}\n", r"decide_a finds doing nothing 'complete'"),
    ],
)
async def test_verifiers_that_fail_or_decide_wrongly_are_refused(shelf, verifiers, message):
    with pytest.raises(SourceError, match=message):
        await build(shelf(tasks_toml=task(solution=SET_STOCK), verifiers_py=verifiers))


async def test_changes_read_as_json_and_as_attributes(shelf):
    verifiers = (
        "def decide_a(changes):\n"
        "    row = changes['items'].changed[0]\n"
        "    assert changes['items']['changed'][0]['key'] == row.key == {'id': 1}\n"
        "    assert (row.before['stock'], row.after['stock']) == (10, 3)\n"
        "    assert changes['other'].added == [] and sorted(changes.tables) == sorted(changes) == ['items']\n"
        "    return {'result': 'complete'}\n"
    )
    verifiers = verifiers.replace("    row =", "    if not changes:\n        return {'result': 'others'}\n    row =")
    environment = await build(shelf(tasks_toml=task(solution=SET_STOCK), verifiers_py=verifiers))
    assert environment.task("a").verifier("decision") is not None


async def test_state_outside_the_database_is_refused(shelf):
    tools = '_seen = []\n\n\ndef look(db) -> int:\n    """Look."""\n    _seen.append(1)\n    return len(_seen)\n'
    with pytest.raises(SourceError, match=r"shelf/tools.py, line 6: look changes _seen, .*\n  next: keep all state"):
        await build(shelf(tools_py=tools))


UUIDS = '''
import random
import sqlite3
import uuid


def place_order(db: sqlite3.Connection, names: list[str]) -> dict:
    """Place an order.

    Args:
        names: What to order.
    """
    order = str(uuid.uuid4())
    db.execute("INSERT INTO orders (id, code) VALUES (?, ?)", (order, random.randrange(10**9)))
    for name in names:
        db.execute("INSERT INTO lines (id, order_id, name) VALUES (?, ?, ?)", (str(uuid.uuid4()), order, name))
    return {"id": order}


def rename_line(db: sqlite3.Connection, order_id: str, name: str) -> int:
    """Rename the lines of an order.

    Args:
        order_id: Which order.
        name: New name.
    """
    found = db.execute("UPDATE lines SET name = ? WHERE order_id = ?", (name, order_id)).rowcount
    if not found:
        raise LookupError(f"no order {order_id}")
    return found
'''
UUID_SCHEMA = """
CREATE TABLE orders (id TEXT PRIMARY KEY, code INTEGER NOT NULL);
CREATE TABLE lines (id TEXT PRIMARY KEY, order_id TEXT NOT NULL REFERENCES orders, name TEXT NOT NULL);
"""
ORDER = "{ tool = 'place_order', arguments = { names = ['a', 'b', 'c', 'd'] } }"


def ordering(shelf, name, solution, **files):
    tasks = task(solution=f"[{solution}]")
    return shelf(name, schema_sql=UUID_SCHEMA, seed_sql="", tools_py=UUIDS, tasks_toml=tasks, **files)


async def test_columns_that_depend_on_chance_are_volatile_and_foreign_keys_to_them_are_not(shelf):
    environment = await build(ordering(shelf, "orders", ORDER))
    assert environment.volatile_columns == ("lines.id", "orders.code", "orders.id")


async def test_another_seed_gives_an_ending_that_is_right_too(shelf):
    environment = await build(ordering(shelf, "orders", ORDER))
    async with await aio.launch(environment, task="a", seed=5) as instance:
        await instance.call_tool("place_order", {"names": ["d", "c", "b", "a"]})
        await instance.submit(None)
        trajectory = await instance.trajectory()
    assert (await awm_hub.judging.judge_async(trajectory, environment=environment)).outcome == "COMPLETED"


async def test_a_solution_that_names_what_another_seed_does_not_give_is_refused(shelf):
    made = (await build(ordering(shelf, "first", ORDER))).database
    assert made
    environment = await build(ordering(shelf, "second", ORDER))
    async with await aio.launch(environment, task="a") as instance:
        order = (await instance.call_tool("place_order", {"names": ["a", "b", "c", "d"]})).value["id"]
    rename = f"{{ tool = 'rename_line', arguments = {{ order_id = '{order}', name = 'x' }} }}"
    with pytest.raises(SourceError, match=r"with another seed, task third/a, step 2: .* no order .*\n.*as \$1\.id"):
        await build(ordering(shelf, "third", f"{ORDER}, {rename}"))
    by_reference = rename.replace(order, "$1.id")
    assert (await build(ordering(shelf, "fourth", f"{ORDER}, {by_reference}"))).task("a").solution[1].arguments == {
        "order_id": order,
        "name": "x",
    }


async def test_solutions_with_random_ids_survive_unpacking(shelf, tmp_path):
    rename = "{ tool = 'rename_line', arguments = { order_id = '$1.id', name = 'x' } }"
    environment = await build(ordering(shelf, "orders", f"{ORDER}, {rename}"))
    packing.write_source(environment, tmp_path / "orders")
    built = await packing.building.build_with_advice(read_source(tmp_path / "orders"))
    assert built.environment == environment
    assert len(built.warnings) == 1


@pytest.mark.parametrize(
    ("schema", "seed", "message"),
    [
        (
            "CREATE TABLE items (id INTEGER PRIMARY KEY, shelf_id INTEGER REFERENCES shelfs (id));",
            "INSERT INTO items (id, shelf_id) VALUES (1, 1);",
            r"shelf/schema.sql: a REFERENCES .* of items leads nowhere: no such table: main.shelfs \(found at",
        ),
        (
            "CREATE TABLE a (x INTEGER);\nCREATE TABLE items (id INTEGER PRIMARY KEY, a INTEGER REFERENCES a (x));",
            "INSERT INTO items (id, a) VALUES (1, 1);",
            r"shelf/schema.sql: .* of items leads nowhere: foreign key mismatch .*\n  next: name a table of schema.sql",
        ),
        (
            "CREATE TABLE a (x INTEGER);\nCREATE TABLE items (id INTEGER PRIMARY KEY, a INTEGER REFERENCES a (x));",
            "",
            r"shelf/schema.sql: .* of the database leads nowhere: foreign key mismatch",
        ),
        (
            "CREATE TABLE items (id INTEGER PRIMARY KEY, up INTEGER REFERENCES items (id));",
            "INSERT INTO items (id, up) VALUES\n    (1, NULL),\n    (2, 7);",
            r"shelf/seed.sql, line 3: items: FOREIGN KEY constraint failed\n  in: .*\n  next: the row that it",
        ),
        (
            "CREATE TABLE items (id INTEGER PRIMARY KEY, n INTEGER NOT NULL);",
            "INSERT INTO items (id, n) VALUES (1, 1);\n-- more\nINSERT INTO items (id, n) VALUES (1, 1);",
            r"shelf/seed.sql, line 3: items: UNIQUE",
        ),
    ],
)
async def test_a_problem_of_schema_or_seed_is_named_where_it_is_mended(shelf, schema, seed, message):
    with pytest.raises(SourceError, match=message):
        await build(shelf(schema_sql=schema, seed_sql=seed))


@pytest.mark.parametrize(
    ("tools", "message"),
    [
        ("def find(db, day: bytes):\n    'Find.'\n", r"find\(day\), line 1: bytes has no JSON form; use int, str"),
        ("\ndef find(db, day):\n    'Find.'\n", r"find\(day\), line 2: a parameter needs an annotation"),
        ("def find(db, *days: str):\n    'Find.'\n", r"find\(days\), line 1: \*args and \*\*kwargs are no"),
        ("def find(db, day: 'Day'):\n    'Find.'\n", r"find, line 1: an annotation cannot be read: name 'Day'"),
        ("def find(db):\n    pass\n", r"find, line 1: a tool needs a docstring"),
        ("def find(day: str):\n    'Find.'\n", r"find, line 1: the first parameter of a tool is `db`"),
        ("async def find(db):\n    'Find.'\n", r"find, line 1: tools are plain functions"),
        ("def find(db):\n    'Find.'\n    yield 1\n", r"find, line 1: tools are plain functions"),
    ],
)
async def test_a_function_that_cannot_be_a_tool_is_named_with_parameter_and_line(shelf, tools, message):
    with pytest.raises(SourceError, match=f"^shelf/tools.py does not load: {message}.*\n  next: mend tools.py"):
        await build(shelf(tools_py=tools))


async def test_a_fault_of_a_step_is_named_once_with_its_line(shelf):
    tools = 'def fail(db) -> int:\n    """Fail."""\n    return db.execute("SELECT y FROM items").fetchone()[0]\n'
    with pytest.raises(SourceError) as caught:
        await build(shelf(tools_py=tools, tasks_toml=task(solution="[{ tool = 'fail' }]")))
    assert str(caught.value) == (
        "task shelf/a, step 1: fail() is fault in tools.py: OperationalError: no such column: y (line 3)\n"
        "  next: mend this step of the solution, or the tool"
    )


async def test_an_error_in_answer_sql_names_file_and_task(shelf):
    rest = "answer = 3\nanswer_sql = 'SELEC 3'"
    with pytest.raises(SourceError) as caught:
        await build(shelf(tasks_toml=task(kind="both", solution=SET_STOCK, rest=rest)))
    assert str(caught.value) == (
        'shelf/tasks.toml, [a]: answer_sql fails: near "SELEC": syntax error\n  next: mend the query'
    )


@pytest.mark.parametrize("found", ["None", "'complete'", "{'result': 'completed'}", "[]"])
async def test_a_decision_in_other_words_is_told_what_to_return(shelf, found):
    with pytest.raises(SourceError, match=r'decide_a returns .* on the solution\n  next: return \{"result": one of'):
        await build(shelf(tasks_toml=task(solution=SET_STOCK), verifiers_py=f"def decide_a(changes): return {found}\n"))


async def test_line_ends_of_other_systems_and_a_byte_order_mark_do_not_change_the_hash(shelf, notes_source, tmp_path):
    plain = await build(shutil.copytree(notes_source, tmp_path / "plain" / "notes"))
    other = shutil.copytree(notes_source, tmp_path / "other" / "notes")
    for path in other.iterdir():
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    assert await build(other) == plain

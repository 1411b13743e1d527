import pytest

from awm_hub.packing import pack
from awm_hub.packing.advice import fits

TOOLS = '''
import sqlite3
from typing import Literal


def find(
    db: sqlite3.Connection,
    name: str = None,
    shelf: Literal["a", "b"] = "c",
    limit: int = 5,
) -> list:
    """Find items.

    Args:
        name: A part of the name.
        shelf: Where.
        size: How large.
    """
    return [dict(row) for row in db.execute("SELECT * FROM items")]
'''


def warnings(shelf, tmp_path, **files):
    return list(pack(shelf(**files), tmp_path / "out").environments[0].warnings)


def test_docstrings_and_defaults_that_mislead_agents_are_named(shelf, tmp_path):
    place = "shelf/tools.py, line 6: find"
    assert warnings(shelf, tmp_path, tools_py=TOOLS) == [
        f"{place}: Args names 'size', which is no parameter",
        f"{place}(limit): the parameter has no description; add it to Args in the docstring",
        f"{place}(name): the default None breaks the parameter's own type; write the type as … | None",
        f"{place}(shelf): the default 'c' breaks the parameter's own type; mend the default or the type",
    ]


def test_a_task_that_code_cannot_judge_is_named(shelf, tmp_path):
    tasks = "[a]\ninstruction = 'Do.'\n[b]\ninstruction = 'Do.'\n"
    assert warnings(
        shelf, tmp_path, tasks_toml=tasks, verifiers_py="def decide_b(changes): return {'result': 'others'}\n"
    ) == ["shelf/tasks.toml: [a] cannot be judged by code: it has no solution and no decide_a in verifiers.py"]


def test_a_table_that_has_used_up_its_ids_is_named(shelf, tmp_path):
    seed = "INSERT INTO items (id, name, stock) VALUES (9223372036854775807, 'bolt', 1);"
    (found,) = warnings(shelf, tmp_path, seed_sql=seed)
    assert found.startswith("shelf/seed.sql: items.id holds 9223372036854775807, the largest there is")


@pytest.mark.parametrize(
    ("answer", "sql", "number"),
    [
        ("30", "SELECT sum(stock) * 1.0 FROM items", 30.0),
        ("[10, 20]", "SELECT stock * 1.0 FROM items WHERE id = 1 UNION ALL SELECT 20", 10.0),
        ("{ bolts = 10 }", "SELECT stock / 1.0 AS bolts FROM items WHERE id = 1", 10.0),
    ],
)
def test_an_integer_whose_query_gives_another_number_is_named(shelf, tmp_path, answer, sql, number):
    tasks = f'[a]\ninstruction = "How many?"\nkind = "query"\nanswer = {answer}\nanswer_sql = "{sql}"\n'
    (found,) = warnings(shelf, tmp_path, tasks_toml=f"{tasks}solution = [{{ tool = 'list_items' }}]")
    assert found == (
        f"shelf/tasks.toml: [a] answer is the integer {number:g}, but answer_sql gives {number!r}: "
        f"agents are asked for an integer; write {number!r}, or CAST(… AS INTEGER)"
    )


@pytest.mark.parametrize(
    ("value", "schema", "expected"),
    [
        (None, {"type": "string"}, False),
        (None, {"anyOf": [{"type": "string"}, {"type": "null"}]}, True),
        (True, {"type": "integer"}, False),
        (1, {"type": "number"}, True),
        (1.5, {"type": "integer"}, False),
        (["a", 1], {"type": "array", "items": {"type": "string"}}, False),
        ([], {"type": "array", "items": {"type": "string"}}, True),
        ({}, {"type": "object"}, True),
        ("x", {}, True),
        (True, {"enum": [1, "a"]}, False),
    ],
)
def test_a_value_fits_the_schema_of_a_signature_or_not(value, schema, expected):
    assert fits(value, schema) is expected

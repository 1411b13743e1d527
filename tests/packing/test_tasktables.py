import re

import pytest

from awm_hub.environment import Call, Verifier
from awm_hub.errors import SourceError
from awm_hub.packing import read_source

FULL = """
[count]
instruction = "How many?"
kind = "both"
setup = ["DELETE FROM items WHERE id = 2"]
answer = { zeta = 1, alpha = " " }
answer_order = "exact"
answer_sql = "SELECT 1 AS zeta, ' ' AS alpha"
free = ["items.stock"]
solution = [{ tool = "set_stock", arguments = { stock = 1, item_id = "$1" } }, { tool = "list_items" }]
success = "Right."
failure = "Wrong."
"""
VERIFIERS = "def _shared(): ...\ndef decide_count(initial, final): ...\ndef signals_count(initial): ...\n"


def test_all_keys_of_a_task_are_read(shelf):
    task = read_source(shelf(tasks_toml=FULL, verifiers_py=VERIFIERS)).tasks[0]
    assert (task.id, task.slug, task.instruction, task.kind) == ("shelf/count", "count", "How many?", "both")
    assert task.setup == ("DELETE FROM items WHERE id = 2",)
    assert task.answer == {"alpha": " ", "zeta": 1}
    assert (task.answer_order, task.answer_sql) == ("exact", "SELECT 1 AS zeta, ' ' AS alpha")
    assert task.free == ("items.stock",)
    assert task.solution == (
        Call(tool="set_stock", arguments={"item_id": "$1", "stock": 1}),
        Call(tool="list_items", arguments={}),
    )
    assert task.verifiers == (
        Verifier(kind="signals", function="signals_count", success_criteria="Right.", failure_criteria="Wrong."),
        Verifier(kind="decision", function="decide_count", success_criteria="Right.", failure_criteria="Wrong."),
    )


def test_absent_keys_are_null(shelf):
    task = read_source(shelf(tasks_toml='[a]\ninstruction = "Do."')).tasks[0]
    assert (task.kind, task.answer, task.answer_sql, task.solution) == (None, None, None, None)
    assert (task.setup, task.free, task.verifiers, task.answer_order) == ((), (), (), "any")


def test_the_order_of_keys_in_an_answer_is_that_of_the_row(shelf):
    task = read_source(shelf(tasks_toml=FULL, verifiers_py=VERIFIERS)).tasks[0]
    assert task.prompt == 'How many?\n\nEnd with JSON: {"alpha": "<text>", "zeta": <integer>}'


def test_a_solution_in_json_may_hold_null_and_has_no_references(shelf):
    text = """[a]\ninstruction = "Do."\nsolution = '[{"tool": "t", "arguments": {"x": null, "y": "$1"}}]'"""
    source = read_source(shelf(tasks_toml=text))
    assert source.tasks[0].solution == (Call(tool="t", arguments={"x": None, "y": "$1"}),)
    assert source.literal_tasks == {"a"}


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("instrucion = 'x'", r"tasks.toml, \[a\]: unknown key 'instrucion'\n  next: did you mean 'instruction'\?"),
        ("kind = 'query'", r"answer is missing: a task of kind query asks for one"),
        ("kind = 'both'", r"answer is missing: a task of kind both asks for one"),
        ("kind = 'queries'", r"kind is 'queries'\n  next: did you mean 'query'\?"),
        ("kind = 'change'\nanswer = 1\nanswer_sql = 'SELECT 1'", r"answer is set, but the kind is change"),
        ("answer = 1", r"answer_sql is missing: nothing would verify the answer"),
        ("answer_sql = 'SELECT 1'", r"answer is missing, and answer_sql is set"),
        ("answer = [[1]]\nanswer_sql = 'SELECT 1'", r"answer holds a list"),
        ("answer = {a = {b = 1}}\nanswer_sql = 'SELECT 1'", r"answer holds a table"),
        (
            "answer = 2026-03-02\nanswer_sql = 'SELECT 1'",
            r"answer holds the date or time 2026-03-02\n  next: put it in quo",
        ),
        (
            "answer = 12345678901234567890123\nanswer_sql = 'SELECT 1'",
            r"answer holds 12345678901234567890123, beyond 64 b",
        ),
        ("answer = inf\nanswer_sql = 'SELECT 1'", r"answer holds inf, which is no JSON value"),
        ("answer_order = 'none'", r"answer_order is 'none'\n  next: one of any, exact"),
        ("setup = 'DELETE FROM items'", r"setup must be a list of texts"),
        ("solution = {tool = 'x'}", r"solution must be a list of steps"),
        ("solution = [{tol = 'x'}]", r"solution step 1 has the unknown key 'tol'\n  next: did you mean 'tool'\?"),
        (
            "solution = [{tool = 'x', arguments = [1]}]",
            r"solution step 1: arguments is a list, not a table\n  next: a step is",
        ),
        ("solution = [{arguments = {}}]", r"solution step 1 names no tool"),
        ("solution = ['x']", r"solution step 1 is a text"),
        ("solution = [{tool = 1}]", r"solution step 1: tool is an integer, not a text"),
        *(
            (f"solution = [{{tool = 'x', arguments = {{ n = '{text}' }}}}]", f"{re.escape(repr(text))} is no reference")
            for text in ("$2[-1].x", "$0[0].x", "$2[0]x", "$0")
        ),
        ("kind = 'change'\nanswer = 1", r"answer is set, but the kind is change\n  next: set kind = \"both\", or drop"),
        ("[a.b]\ninstruction = 'Do.'", r"\[a\.b\]: the name of a task holds no dot\n  next: rename it to \[a_b\]"),
        (
            "solution = [{tool = 'x', arguments = {n = 12345678901234567890123}}]",
            r"solution holds 1234.*, beyond 64 bits",
        ),
        (
            "solution = [{tool = 'x', arguments = {d = 2026-03-02T09:00:00Z}}]",
            r"solution holds the date or time 2026-03",
        ),
        (
            """solution = '[{"tool": "x", "arguments": {"n": 12345678901234567890123}}]'""",
            r"solution holds 1234.*, beyond 64",
        ),
        ("solution = '[{'", r"solution is no JSON"),
        ("verifiers = 3", r"verifiers must be a list of tables"),
        ("verifiers = [{kind = 'signals', function = 'f', file = '../x.py'}]", r"file is '../x.py'"),
        ("verifiers = [{kind = 'signals', function = 'f', file = 'verifiers/x.py'}]", r"verifiers/x.py is missing"),
        ("verifiers = [{kind = 'judge', function = 'f'}]", r"kind is 'judge'\n  next: one of signals, decision"),
        ("verifiers = [{kind = 'signals', function = 'f-g'}]", r"function is 'f-g', no name of a function"),
        ("verifiers = [{kind = 'signals', function = 'f'}]", r"verifiers.py: there is no function f"),
    ],
)
def test_a_wrong_key_or_value_of_a_task_is_named(shelf, lines, message):
    with pytest.raises(SourceError, match=message) as caught:
        read_source(shelf(tasks_toml=f"[a]\ninstruction = 'Do.'\n{lines}"))
    assert caught.value.next_step


def test_a_key_outside_a_task_and_an_empty_instruction_are_named(shelf):
    with pytest.raises(SourceError, match=r"tasks.toml, \[title\]: a table of keys is expected, not a text\n  next: "):
        read_source(shelf(tasks_toml="title = 'x'"))
    with pytest.raises(SourceError, match=r"tasks.toml, \[a\]: instruction is empty\n  next: "):
        read_source(shelf("other", tasks_toml="[a]\ninstruction = ' '"))


def test_a_text_like_a_reference_may_stand_in_a_solution_of_json(shelf):
    text = """[a]\ninstruction = "Do."\nsolution = '[{"tool": "t", "arguments": {"x": "$2[-1].x"}}]'"""
    assert read_source(shelf(tasks_toml=text)).tasks[0].solution[0].arguments == {"x": "$2[-1].x"}


def test_a_slug_with_other_characters_is_refused(shelf):
    with pytest.raises(SourceError, match=r"tasks.toml, \[a-b\]: bad name"):
        read_source(shelf(tasks_toml="['a-b']\ninstruction = 'Do.'"))


def test_a_verifier_of_no_task_is_refused(shelf):
    tasks = "[count]\ninstruction = 'Do.'"
    with pytest.raises(SourceError, match=r"signals_cuont belongs to no task\n  next: did you mean signals_count\?"):
        read_source(shelf(tasks_toml=tasks, verifiers_py="def signals_cuont(): ..."))


def test_verifiers_that_are_no_python_are_reported_with_their_line(shelf):
    with pytest.raises(SourceError, match=r"shelf/verifiers.py: line 2: "):
        read_source(shelf(verifiers_py="x = 1\ndef ("))


def test_a_verifier_name_too_long_for_the_record_is_refused(shelf):
    slug = "x" * 60
    with pytest.raises(SourceError, match="longer than 64 characters"):
        read_source(shelf(tasks_toml=f"[{slug}]\ninstruction = 'Do.'", verifiers_py=f"def signals_{slug}(): ..."))


def test_criteria_without_a_verifier_are_left_out_with_a_warning(shelf):
    source = read_source(shelf(tasks_toml="[a]\ninstruction = 'Do.'\nsuccess = 'Done.'"))
    assert source.warnings == (
        "shelf/tasks.toml: [a] success and failure are left out: they belong to a verifier, and it has none; "
        "write signals_a in verifiers.py",
    )


def test_verifiers_listed_one_by_one_carry_their_own_code_and_criteria(shelf):
    folder = shelf(
        tasks_toml="""
[t0]
instruction = "Do."
success = "Shared."

[[t0.verifiers]]
kind = "signals"
function = "verify_task"
file = "verifiers/t0.signals.py"

[[t0.verifiers]]
kind = "decision"
function = "other"
success = "Own."
""",
        verifiers_py="def other(): ...",
    )
    (folder / "verifiers").mkdir()
    (folder / "verifiers" / "t0.signals.py").write_text("def verify_task(): ...")
    assert read_source(folder).tasks[0].verifiers == (
        Verifier(kind="signals", function="verify_task", code="def verify_task(): ...", success_criteria="Shared."),
        Verifier(kind="decision", function="other", success_criteria="Own."),
    )

import ast

from synthesis.rowing import TOOLS, rowing

from awm_hub.synthesis import products
from awm_hub.synthesis.dressing import arguments_of, dressed

BARE = '''
from datetime import date


# books
def book_boat(db, day, member_id, boat_id):
    # the day is checked first
    if day < date.today().isoformat():
        raise ValueError("the day is in the past")
    return {"boat_id": boat_id, "member_id": member_id, "day": day}


def get_boat(db, boat_id): return {"id": boat_id}


def search_members(db, query, level, limit):
    """Something else."""
    return []


def _private(db):
    return 1
'''


def test_a_bare_function_gets_its_signature_and_documentation_and_keeps_its_body() -> None:
    parts = dressed(products.python_parts(BARE), TOOLS)
    assert (
        parts["book_boat"]
        == '''# books
def book_boat(db, boat_id: int, member_id: int, day: str):
    """Book a boat for a member for one day.

    Args:
        boat_id: Id of the boat.
        member_id: Id of the member.
        day: A day, YYYY-MM-DD, today or later.
    """
    # the day is checked first
    if day < date.today().isoformat():
        raise ValueError("the day is in the past")
    return {"boat_id": boat_id, "member_id": member_id, "day": day}'''
    )
    assert parts["get_boat"].endswith('    """\n    return {"id": boat_id}')
    assert "Something else" not in parts["search_members"]
    assert 'level: Literal["novice", "racing"] | None = None' in parts["search_members"]
    assert parts["_private"] == "def _private(db):\n    return 1"


def test_what_the_annotations_need_is_imported() -> None:
    parts = dressed(products.python_parts(BARE), TOOLS)
    assert parts["imports"] == "from datetime import date\nfrom typing import Literal"
    module = ast.parse(products.write_python(parts))
    compile(module, "tools.py", "exec")


def test_a_function_with_other_parameters_is_left_as_it_is() -> None:
    text = "def get_boat(db, boat):\n    return {}"
    assert dressed({"get_boat": text}, TOOLS) == {"get_boat": text}


def test_a_typed_dict_of_the_code_says_more_than_dict() -> None:
    tool = {"description": "Add lines.", "parameters": {"lines": {"type": "list[dict]", "description": "Lines."}}}
    parts = dressed({"add_lines": "def add_lines(db, lines: list[Line]):\n    return []"}, {"add_lines": tool})
    assert parts["add_lines"].startswith("def add_lines(db, lines: list[Line]):")


def test_texts_that_would_end_a_docstring_do_not() -> None:
    told = {"type": "str", "description": 'Ends with "quotes"', "default": 'it\'s "so"'}
    tool = {"description": 'A """ and a \\ in it, "said"', "parameters": {"note": told}}
    parts = dressed({"add": "def add(db, note):\n    return note"}, {"add": tool})
    (function,) = ast.parse(parts["add"]).body
    assert isinstance(function, ast.FunctionDef)
    assert ast.get_docstring(function) == 'A """ and a \\ in it, "said\n\nArgs:\n    note: Ends with "quotes'
    assert ast.literal_eval(function.args.defaults[0]) == 'it\'s "so"'


def test_a_whole_draft_is_dressed_and_one_of_another_interface_is_not() -> None:
    bare = "def get_boat(db, boat_id):\n    return {}\n"
    draft = rowing(code=bare)
    assert '"""Show a boat and its bookings.' in draft.code
    assert rowing(code=bare, interface="fastapi").code == bare


def test_hostile_parameters_of_a_toolset_change_no_code() -> None:
    text = "def add(db, x):\n    return x"
    tool = {"description": "Add.", "parameters": {"x": {"type": "int): import os #", "description": "X."}}}
    shown = dressed({"add": text}, {"add": tool})["add"]
    assert arguments_of(text, "add") == ["x"]
    assert "import os" not in shown

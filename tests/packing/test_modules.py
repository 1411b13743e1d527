import pytest

from awm_hub.errors import SourceError
from awm_hub.packing import modules, read_source

TASK = "[count]\ninstruction = 'Count.'\n"
HEAD = 'def look(db) -> int:\n    """Look."""\n'


def check(shelf, *, tools=None, verifiers=None, tasks=TASK):
    files = {"tools_py": tools} if tools else {}
    files |= {"verifiers_py": verifiers} if verifiers else {}
    source = read_source(shelf(tasks_toml=tasks, **files))
    modules.check_tools(source)
    modules.check_verifiers(source)


def refused(shelf, **texts):
    with pytest.raises(SourceError) as caught:
        check(shelf, **texts)
    assert caught.value.next_step
    return str(caught.value)


@pytest.mark.parametrize(
    ("tools", "message"),
    [
        (f"_calls = 0\n\n\n{HEAD}    global _calls\n    _calls += 1\n", "line 6: look rebinds _calls (global)"),
        (f"_CACHE = {{}}\n\n\n{HEAD}    _CACHE[1] = 2\n", "line 6: look changes _CACHE"),
        (
            f"import functools\n\n\n@functools.lru_cache\n{HEAD}    return 1\n",
            "line 4: look caches results (lru_cache)",
        ),
        (f"import functools\n\n\n@functools.cache\n{HEAD}    return 1\n", "line 4: look caches results (cache)"),
        (f"{HEAD}    look.count = 1\n", "line 3: look changes look"),
        (
            "def look(db, tags: list = []):\n    tags.append(1)\n",
            "line 2: look changes the default of its parameter tags",
        ),
    ],
)
def test_state_of_the_module_is_refused_with_name_and_line(shelf, tools, message):
    found = refused(shelf, tools=tools)
    assert found.startswith(f"shelf/tools.py, {message}, which no reset takes back\n")
    assert found.endswith("next: keep all state in the database")


def test_state_of_the_verifiers_is_harmless(shelf):
    check(shelf, verifiers="_seen = []\n\n\ndef signals_count():\n    _seen.append(1)\n    return {}\n")


def test_two_tools_of_one_name_are_refused_with_both_lines(shelf):
    found = refused(shelf, tools=f"{HEAD}    return 1\n\n\n{HEAD}    return 2\n")
    assert found.startswith("shelf/tools.py: look is defined in line 1 and in line 6\n  next: rename one of them")


def test_two_verifiers_of_one_name_are_refused_with_both_lines(shelf):
    found = refused(shelf, verifiers="def signals_count(): ...\n\n\ndef signals_count(): ...\n")
    assert found.startswith("shelf/verifiers.py: signals_count is defined in line 1 and in line 4\n")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("signal_count", "did you mean signals_count? "),
        ("decision_count", "did you mean decide_count? "),
        ("verify_the_count", "did you mean signals_count? "),
        ("helper", ""),
    ],
)
def test_a_public_function_that_is_no_verifier_is_refused_with_what_was_meant(shelf, name, hint):
    assert refused(shelf, verifiers=f"def _own(): ...\n\n\ndef {name}(): ...\n") == (
        f"shelf/verifiers.py, line 4: {name} is no verifier, and nothing calls it\n"
        f"  next: {hint}verifiers are called signals_<task> or decide_<task>, helpers begin with _"
    )


def test_a_verifier_that_tasks_toml_names_may_have_any_name(shelf):
    tasks = f"{TASK}\n[[count.verifiers]]\nkind = 'signals'\nfunction = 'other'\n"
    check(shelf, tasks=tasks, verifiers="def other(): ...\n")


def test_an_async_verifier_is_refused(shelf):
    found = refused(shelf, verifiers="async def signals_count(): ...\n")
    assert found.startswith("shelf/verifiers.py, line 1: signals_count is an async function\n")


@pytest.mark.parametrize(
    ("tools", "message"),
    [
        (
            f'{HEAD}    return sum([1])\n\n\ndef sum(db) -> int:\n    """Sum up."""\n    return 1\n',
            "line 6: the tool sum hides Python's own sum, which line 3 uses",
        ),
        (
            'from datetime import date\n\n\ndef date(db) -> str:\n    """Give the day."""\n    return date.today()\n',
            "line 4: the tool date hides an import date, which line 6 uses",
        ),
        (
            f'{HEAD}    return 1\n\n\ndef list(db, ids: list[int]) -> int:\n    """List."""\n    return 1\n',
            "line 6: the tool list hides Python's own list, which line 6 uses",
        ),
    ],
)
def test_a_tool_that_hides_what_the_module_uses_is_refused(shelf, tools, message):
    assert refused(shelf, tools=tools) == f"shelf/tools.py, {message}\n  next: give the tool another name"


def test_a_tool_may_have_the_name_of_what_the_module_does_not_use(shelf):
    tools = 'def filter(db, kind: str) -> str:\n    """Filter."""\n    input = kind\n    return input\n'
    check(shelf, tools=tools + '\n\ndef input(db) -> int:\n    """Put in."""\n    return 1\n')

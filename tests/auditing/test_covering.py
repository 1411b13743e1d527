"""Which lines a call may reach: calls are left out only where they cannot add any."""

import dataclasses

from making import make_environment

from awm_hub.auditing import audit_one, covering
from awm_hub.auditing.findings import Counts
from awm_hub.environment import Environment

CODE = '''
LABELS = {"long": "_long"}


def _short(text):
    return text[:3]


def _long(text):
    return text


def _hook():
    return 0


def shorten(db, text: str) -> str:
    """Shorten a text."""
    return _short(text)


def label(db, text: str, kind: str) -> str:
    """Label a text."""
    name = LABELS[kind]
    return f"{name} {text}"


def any_of(db, name: str) -> int:
    """Find out by name."""
    return len(globals()[name].__name__)
'''


async def lines_of(environment: Environment) -> dict[str, set[str]]:
    """By tool, the lines that its calls may reach, as they read."""
    made = covering._instrumented(environment)
    assert made is not None
    read = environment.code.splitlines()
    return {tool: {read[n - 1].strip() for n in lines} for tool, lines in made.reach.items()}


async def test_a_tool_may_reach_what_it_names_directly_or_not_and_what_no_tool_names() -> None:
    found = await lines_of(await make_environment(CODE))
    hook = {"return 0"}
    assert found["shorten"] == {"return _short(text)", "return text[:3]"} | hook
    # a text may be the name of a function
    assert found["label"] == {"name = LABELS[kind]", 'return f"{name} {text}"', "return text"} | hook


async def test_a_tool_that_looks_functions_up_may_reach_everything() -> None:
    environment = await make_environment(CODE)
    found = await lines_of(environment)
    assert found["any_of"] == set().union(*found.values()) >= {"return 0", "return text[:3]", "return text"}


async def test_coverage_is_that_of_all_calls() -> None:
    halving = [
        "def halve(db, n: int) -> int:",
        '    """Halve."""',
        "    if n == 0:",
        "        return 0",
        "    return n // 2",
    ]
    environment = await make_environment("\n".join([CODE, *halving]))
    result = await audit_one(dataclasses.replace(environment, id="lines"))
    # not those of `_long` and `_hook`, and no text is a label's kind
    assert result.coverage == Counts(right=7, tried=10)

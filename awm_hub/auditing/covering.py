"""Line coverage of tools, measured in the sandbox without a tracer.

A copy of the module notes which of its lines ran, in a set that the copy keeps itself; one more tool gives the set
away. The calls of the audit, each once, and the solutions are made again with that copy; those of a tool only as long
as a line is missing that it may reach.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from awm_hub import aio
from awm_hub.auditing.case import Case
from awm_hub.auditing.findings import Counts
from awm_hub.environment import Environment, ToolSpec
from awm_hub.errors import AwmHubError

_TOOL = "awm_covered_lines"
_KEPT = "_awm_lines"
_LEAST_SHARE = 0.5
_MOST_CALLS = 1200
_FIRST_CALLS = 1
_INDIRECT = {"globals", "locals", "vars", "getattr", "eval", "exec", "__dict__"}
"""Where one of these names stands, a function may be called that is not named there."""
_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class _Copy:
    """A module that notes its lines, and the lines that there are, by function."""

    code: str
    lines: dict[str, frozenset[int]]
    reach: dict[str, frozenset[int]]
    """By tool, all lines that its calls may reach."""


async def measure_coverage(case: Case) -> Counts:
    """Lines that some call reached, of all lines in functions; findings on tools that were hardly reached."""
    try:
        made = _instrumented(case.environment)
        if made is None:
            return Counts()
        reached = await _reached(case, made)
    except (AwmHubError, SyntaxError, RecursionError):
        return Counts()
    for tool in case.environment.tools:
        lines = made.lines.get(tool.name, frozenset())
        hit = len(lines & reached)
        if lines and hit / len(lines) < _LEAST_SHARE:
            case.note("uncovered_code", tool.name, f"{hit} of its {len(lines)} lines were reached")
    every = frozenset().union(*made.lines.values())
    return Counts(right=len(every & reached), tried=len(every))


async def _reached(case: Case, copy: _Copy) -> frozenset[int]:
    alone = case.unheard(_with_code(case.environment, copy.code))
    calls = list(case.made.values())[:_MOST_CALLS]
    solved = [call for task in case.environment.tasks for call in task.solution or ()]
    case.tally["calls"] += len(calls) + len(solved) + 1
    async with await alone.launch() as instance:
        for task in case.environment.tasks:
            await instance.reset()
            for call in task.solution or ():
                await alone.call(instance, call.tool, call.arguments)
        waiting: dict[str, list[Mapping[str, Any]]] = {}
        for tool, arguments in calls:
            waiting.setdefault(tool, []).append(arguments)
        reached = await _lines_of(alone, instance)
        count = _FIRST_CALLS
        every = frozenset().union(*copy.lines.values())
        while waiting:
            for tool, left in list(waiting.items()):
                if copy.reach.get(tool, every) <= reached:
                    left = []
                for arguments in left[:count]:
                    await instance.reset()
                    await alone.call(instance, tool, arguments)
                waiting[tool] = left[count:]
                if not waiting[tool]:
                    del waiting[tool]
            reached |= await _lines_of(alone, instance)  # another process, after a call that ended one, has none
            count *= 2
    return reached


async def _lines_of(case: Case, instance: aio.Instance) -> frozenset[int]:
    """Lines that have run in the process of an instance so far."""
    found = (await case.call(instance, _TOOL, {})).value
    return frozenset(line for line in found if isinstance(line, int)) if isinstance(found, list) else frozenset()


def _with_code(environment: Environment, code: str) -> Environment:
    tool = ToolSpec(name=_TOOL, description="Lines that ran.", input_schema={"type": "object"}, effect="read")
    tools = (*environment.tools, tool)
    return replace(
        environment, code=code, tools=tools, quality=None, content_hash=f"covering-{environment.content_hash}"
    )


def _instrumented(environment: Environment) -> _Copy | None:
    tree = ast.parse(environment.code)
    named = _named(tree)
    lines = {node.name: frozenset(_noting(node)) for node in tree.body if isinstance(node, _Function)}
    if environment.interface == "functions":
        giving = f'def {_TOOL}(db):\n    """Lines that ran."""\n    return sorted({_KEPT})'
    else:
        app = next((name for name in _apps(tree)), None)
        if app is None:
            return None
        route = f'@{app}.get("/{_TOOL}", operation_id="{_TOOL}")'
        giving = f"{route}\nasync def {_TOOL}():\n    return sorted({_KEPT})"
    first = next((at for at, node in enumerate(tree.body) if not _stays_first(node)), len(tree.body))
    tree.body[first:first] = ast.parse(f"{_KEPT} = set()").body
    last = next((at for at, node in enumerate(tree.body) if isinstance(node, ast.If)), len(tree.body))
    tree.body[last:last] = ast.parse(giving).body
    lines = {k: v for k, v in lines.items() if v}
    reach = _reach(named, lines, [tool.name for tool in environment.tools])
    return _Copy(ast.unparse(ast.fix_missing_locations(tree)), lines, reach)


def _named(tree: ast.Module) -> dict[str, frozenset[str]]:
    """By name that the module defines, the names that its definition mentions; a text may be one as well."""
    found: dict[str, frozenset[str]] = {}
    for statement in tree.body:
        mentioned = frozenset(_names_in(statement))
        if isinstance(statement, _Function | ast.ClassDef):
            defined = {statement.name}
        else:
            defined = {n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        for name in defined:
            found[name] = found.get(name, frozenset()) | mentioned
    return found


def _names_in(statement: ast.stmt) -> Iterator[str]:
    for node in ast.walk(statement):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _reach(
    named: Mapping[str, frozenset[str]], lines: Mapping[str, frozenset[int]], tools: Iterable[str]
) -> dict[str, frozenset[int]]:
    """Lines of what each tool names, directly or not, and of what no tool names: hooks may run in any call."""
    tools = [name for name in tools if name in named]
    within = {tool: _closure(named, tool) for tool in tools}
    hooks = lines.keys() - frozenset().union(*within.values())
    every = frozenset().union(*lines.values())
    hooked = frozenset().union(*(_closure(named, name) for name in hooks)) | hooks
    found = {}
    for tool, names in within.items():
        is_plain = not (names | hooked) & _INDIRECT
        found[tool] = frozenset().union(*(lines.get(n, ()) for n in names | hooked)) if is_plain else every
    return found


def _closure(named: Mapping[str, frozenset[str]], name: str) -> frozenset[str]:
    found = new = frozenset({name})
    while new:
        new = frozenset().union(*(named.get(n, frozenset()) for n in new)) - found
        found |= new
    return found


def _stays_first(node: ast.stmt) -> bool:
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return is_text or (isinstance(node, ast.ImportFrom) and node.module == "__future__")


def _apps(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            called = node.value.func
            if (called.id if isinstance(called, ast.Name) else getattr(called, "attr", "")) == "FastAPI":
                yield from (target.id for target in node.targets if isinstance(target, ast.Name))


def _noting(function: _Function) -> Iterator[int]:
    """Let every statement of a function note its line first."""
    for node in list(ast.walk(function)):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if not isinstance(block, list) or not block or not isinstance(block[0], ast.stmt):
                continue
            noted: list[ast.stmt] = []
            for at, statement in enumerate(block):
                if not (at == 0 and node is function and _stays_first(statement)):
                    noted += ast.parse(f"{_KEPT}.add({statement.lineno})").body
                    yield statement.lineno
                noted.append(statement)
            setattr(node, name, noted)

"""Line coverage of tools, measured in the sandbox without a tracer.

A copy of the module notes which of its lines ran, in a set that the copy keeps itself; one more tool gives the set
away. The calls of the audit, each once, and the solutions are made again with that copy.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace

from awm_hub.auditing.case import Case
from awm_hub.auditing.findings import Counts
from awm_hub.environment import Environment, ToolSpec
from awm_hub.errors import AwmHubError

_TOOL = "awm_covered_lines"
_KEPT = "_awm_lines"
_LEAST_SHARE = 0.5
_MOST_CALLS = 1200
_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class _Copy:
    """A module that notes its lines, and the lines that there are, by function."""

    code: str
    lines: dict[str, frozenset[int]]


async def measure_coverage(case: Case) -> Counts:
    """Lines that some call reached, of all lines in functions; findings on tools that were hardly reached."""
    try:
        made = _instrumented(case.environment)
        if made is None:
            return Counts()
        reached = await _reached(case, _with_code(case.environment, made.code))
    except (AwmHubError, SyntaxError, RecursionError):
        return Counts()
    for tool in case.environment.tools:
        lines = made.lines.get(tool.name, frozenset())
        hit = len(lines & reached)
        if lines and hit / len(lines) < _LEAST_SHARE:
            case.note("uncovered_code", tool.name, f"{hit} of its {len(lines)} lines were reached")
    every = frozenset().union(*made.lines.values())
    return Counts(right=len(every & reached), tried=len(every))


async def _reached(case: Case, copy: Environment) -> frozenset[int]:
    alone = replace(case, answered=set(), made={}, _heard={})
    async with await case.launch(environment=copy) as instance:
        for tool, arguments in list(case.made.values())[:_MOST_CALLS]:
            await instance.reset()
            await alone.call(instance, tool, arguments)
        for task in case.environment.tasks:
            await instance.reset()
            for call in task.solution or ():
                await alone.call(instance, call.tool, call.arguments)
        result = await alone.call(instance, _TOOL, {})
    found = result.value if isinstance(result.value, list) else []
    return frozenset(line for line in found if isinstance(line, int))


def _with_code(environment: Environment, code: str) -> Environment:
    tool = ToolSpec(name=_TOOL, description="Lines that ran.", input_schema={"type": "object"}, effect="read")
    tools = (*environment.tools, tool)
    return replace(
        environment, code=code, tools=tools, quality=None, content_hash=f"covering-{environment.content_hash}"
    )


def _instrumented(environment: Environment) -> _Copy | None:
    tree = ast.parse(environment.code)
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
    return _Copy(ast.unparse(ast.fix_missing_locations(tree)), {k: v for k, v in lines.items() if v})


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

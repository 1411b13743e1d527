"""What `tools.py` and `verifiers.py` of our own sources must not do, found by reading them.

Each of these would run and be wrong silently: a second function of the same name replaces the first, a misspelt
verifier is never called, a tool named `sum` is what the module calls from then on, and state outside the database
outlives a reset. Every refusal names the line.
"""

import ast
import builtins
import difflib
from collections.abc import Iterator, Sequence

from awm_hub.errors import SourceError
from awm_hub.packing import analysis
from awm_hub.packing.sources import Source
from awm_hub.packing.tasktables import PREFIXES
from awm_hub.sandbox.modulestate import module_state

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def check_tools(source: Source) -> None:
    """Refuse what a module of tools must not do; a module that is no Python is left to the sandbox to report.

    Raises:
        SourceError: it defines a tool twice, hides a name that it uses, or keeps state of its own.
    """
    place = f"{source.id}/tools.py"
    try:
        module = analysis.parse(source.code)
    except analysis.CodeError:
        return
    _check_repeated(place, module)
    _check_hidden(place, module)
    for state in module_state(source.code):
        message = f"{place}, line {state.line}: {state.what}, which no reset takes back"
        raise SourceError(message, next_step="keep all state in the database")


def check_verifiers(source: Source) -> None:
    """Refuse functions of `verifiers.py` that nothing calls.

    Raises:
        SourceError: two functions have the same name, or one is called by no task and does not begin with `_`.
    """
    place = f"{source.id}/verifiers.py"
    module = analysis.parse(source.verifier_module or "")
    _check_repeated(place, module)
    named = {v.function for t in source.tasks for v in t.verifiers if v.code is None}
    for function in _public(module):
        if isinstance(function, ast.AsyncFunctionDef):
            message = f"{place}, line {function.lineno}: {function.name} is an async function"
            raise SourceError(message, next_step="verifiers are plain functions: write def")
        if function.name not in named:
            message = f"{place}, line {function.lineno}: {function.name} is no verifier, and nothing calls it"
            raise SourceError(message, next_step=_better(function.name, [t.slug for t in source.tasks]))


def _better(name: str, slugs: Sequence[str]) -> str:
    """The name that was meant, as far as one can tell."""
    possible = [prefix + slug for slug in slugs for prefix in PREFIXES.values()]
    close = difflib.get_close_matches(name, possible, n=1, cutoff=0.7)
    ending = [f"signals_{slug}" for slug in slugs if name.endswith(slug)]
    hint = f"did you mean {(close or ending)[0]}? " if close or ending else ""
    return f"{hint}verifiers are called signals_<task> or decide_<task>, helpers begin with _"


def _public(module: ast.Module) -> list[_Function]:
    return [n for n in module.body if isinstance(n, _Function) and not n.name.startswith("_")]


def _check_repeated(place: str, module: ast.Module) -> None:
    lines: dict[str, int] = {}
    for function in _public(module):
        if function.name in lines:
            message = (
                f"{place}: {function.name} is defined in line {lines[function.name]} and in line {function.lineno}"
            )
            raise SourceError(message, next_step="rename one of them: only the second would be there")
        lines[function.name] = function.lineno


def _check_hidden(place: str, module: ast.Module) -> None:
    """Refuse a tool with the name of a builtin or an import that the module uses."""
    imported = {
        (alias.asname or alias.name).partition(".")[0]
        for node in module.body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    tools = {f.name: f.lineno for f in _public(module) if f.name in imported or hasattr(builtins, f.name)}
    for name, line in _uses(module) if tools else ():
        if name in tools:
            what = "an import" if name in imported else "Python's own"
            message = f"{place}, line {tools[name]}: the tool {name} hides {what} {name}, which line {line} uses"
            raise SourceError(message, next_step="give the tool another name")


def _uses(node: ast.AST) -> Iterator[tuple[str, int]]:
    """Names of the module, or of Python, that code reads, with their lines."""
    own: set[str] = set()
    if isinstance(node, _Function | ast.Lambda):
        own = {a.arg for a in ast.walk(node.args) if isinstance(a, ast.arg)}
        own |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        yield node.id, node.lineno
    for child in ast.iter_child_nodes(node):
        yield from (use for use in _uses(child) if use[0] not in own)

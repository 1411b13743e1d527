"""What a module's text says about its functions, found by parsing it and never by running it.

Two things are read from source code: which functions a `verifiers.py` defines, and which tools can reach a statement
that writes. A tool reaches what its function, and the functions and constants that it names directly or through one
another, hold in texts; docstrings do not count.
"""

import ast
import re
from collections.abc import Iterator

_STATEMENT = re.compile(
    r"\bINSERT\s+(OR\s+\w+\s+)?INTO\b|\bREPLACE\s+INTO\b|\bDELETE\s+FROM\b"
    r"|\bUPDATE\s+(OR\s+\w+\s+)?(\"[^\"]+\"|\S+)(\s+AS\s+\w+)?\s+SET\b"
    r"|\b(CREATE|DROP|ALTER)\s+(TABLE|INDEX|VIEW|TRIGGER)\b",
    re.IGNORECASE,
)
_FRAGMENT = re.compile(r"\s*(INSERT|REPLACE|DELETE|UPDATE)\b")
_HOLE = "x"
"""Stands for a part of a text that is only known when the code runs."""


class CodeError(ValueError):
    """The text is no Python module."""


def parse(code: str) -> ast.Module:
    """The module's syntax tree.

    Raises:
        CodeError: the text is no Python.
    """
    try:
        return ast.parse(code)
    except SyntaxError as error:
        raise CodeError(f"line {error.lineno}: {error.msg}") from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise CodeError(f"it cannot be parsed: {error}") from error


def functions(code: str) -> tuple[str, ...]:
    """Names of the module's top-level functions, in their order.

    Raises:
        CodeError: the text is no Python.
    """
    return tuple(dict.fromkeys(n.name for n in parse(code).body if isinstance(n, ast.FunctionDef)))


def writing_functions(code: str) -> frozenset[str]:
    """Names of the top-level functions that can reach a statement that writes.

    Raises:
        CodeError: the text is no Python.
    """
    module = parse(code)
    parts = _definitions(module)
    named = {name: _names(nodes) & parts.keys() for name, nodes in parts.items()}
    reached = {name for name, nodes in parts.items() if any(_writes(node) for node in nodes)}
    while more := {name for name, uses in named.items() if name not in reached and uses & reached}:
        reached |= more
    return frozenset(reached & set(functions(code)))


def _definitions(module: ast.Module) -> dict[str, list[ast.AST]]:
    """What each top-level name is made from: functions, classes and assigned values."""
    found: dict[str, list[ast.AST]] = {}
    for node in module.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.setdefault(node.name, []).append(node)
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for name in {n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)}:
                found.setdefault(name, []).append(node.value)
    return found


def _names(nodes: list[ast.AST]) -> set[str]:
    return {n.id for node in nodes for n in ast.walk(node) if isinstance(n, ast.Name)}


def _writes(node: ast.AST) -> bool:
    return any(_STATEMENT.search(text) or _FRAGMENT.match(text) for text in _texts(node))


def _texts(node: ast.AST) -> Iterator[str]:
    """Texts in a piece of code, joined ones as one, without docstrings and messages of exceptions."""
    text = _text(node) if isinstance(node, ast.expr) else None
    if text is not None:
        yield text
    for child in ast.iter_child_nodes(node):
        if not _is_prose(child):
            yield from _texts(child)


def _is_prose(node: ast.AST) -> bool:
    return isinstance(node, ast.Raise) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))


def _text(node: ast.expr) -> str | None:
    """The text that an expression makes, with a letter for what is not known; None where it makes none."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(_text(p) or _HOLE for p in parts)
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            before, after = _text(left), _text(right)
            return None if before is None and after is None else (before or _HOLE) + (after or _HOLE)
    return None

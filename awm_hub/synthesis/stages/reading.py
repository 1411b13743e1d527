"""What shows in the text of `tools.py` before any of it runs.

Each of these would also show later, or never: a module that needs the disk dies in the sandbox, an exception that is no
refusal is a crash only when its line is reached, and state outside the database survives a reset. Reading finds them
all at once and at the right function, so that one correction is enough.
"""

import ast
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

from awm_hub.errors import SourceError
from awm_hub.packing import Source, modules, read_source
from awm_hub.sandbox.modulestate import module_state
from awm_hub.synthesis.drafts import Draft, write_draft
from awm_hub.synthesis.problems import Problem

_MODULES = {
    "__future__", "abc", "array", "base64", "binascii", "bisect", "calendar", "collections", "colorsys", "copy", "csv",
    "dataclasses", "datetime", "decimal", "difflib", "enum", "fractions", "functools", "hashlib", "heapq", "hmac",
    "html", "ipaddress", "itertools", "json", "math", "numbers", "operator", "re", "sqlite3", "statistics",
    "string", "struct", "textwrap", "types", "typing", "unicodedata", "zlib", "zoneinfo",
}  # fmt: skip
"""What a tool may import: it computes and uses its database."""
_CALLS = {"open", "exec", "eval", "compile", "__import__", "input", "breakpoint", "exit", "quit", "globals", "print"}
_REFUSALS = ("LookupError", "ValueError", "PermissionError", "RuntimeError")
_BROAD = {"Exception", "BaseException", "Error", "DatabaseError", "IntegrityError", "OperationalError"}
_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_LINE = re.compile(r"\bline (\d+)\b")
_FILE = re.compile(r"/(scenario\.toml|schema\.sql|seed\.sql|tools\.py)\b")
_STAGE_OF_FILE = {"scenario.toml": "scenario", "schema.sql": "database", "seed.sql": "sample_data", "tools.py": "code"}
UNSAFE = frozenset({"import", "call", "top_level"})
"""Rules on code that is not run at all."""


def read(code: str) -> list[Problem]:
    """What the text of a module of functions shows."""
    tree = ast.parse(code)
    found = [*_of_module(tree)]
    for state in module_state(code):
        message = f"line {state.line}: {state.what}, which no reset takes back; keep all state in the database"
        found.append(problem("hidden_state", definition_at(code, state.line), message))
    return found


def of_source(source: Source) -> list[Problem]:
    """What packing refuses to read, but for state: that is among what `read` finds."""
    if module_state(source.code):
        return []
    try:
        modules.check_tools(source)
    except SourceError as error:
        return [problem_of_error(error, source.code)]
    return []


def source_of(draft: Draft) -> Source:
    """The draft as a source without tasks: what stands before the verification. Its folder is gone afterwards.

    Raises:
        SourceError: something of it breaks the form of a source.
    """
    bare = draft.having("task", {}).having("verification", {}).having("solution", {})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / draft.id
        write_draft(bare, path)
        for name in ("tasks.toml", "schema.sql", "seed.sql", "tools.py"):
            (path / name).touch()
        return read_source(path)


def problem_of_error(error: SourceError, code: str) -> Problem:
    """An error of packing as a problem of the stage whose file it names, on the definition at the line it names."""
    file, line = _FILE.search(error.message), _LINE.search(error.message)
    stage = _STAGE_OF_FILE[file[1]] if file else "code"
    subject = definition_at(code, int(line[1])) if line and stage == "code" else ""
    message = error.message if not error.next_step else f"{error.message}; {error.next_step}"
    return Problem(stage=stage, rule="does_not_build", subject=subject, message=message)


def problem(rule: str, subject: str, message: str, severity: str = "error") -> Problem:
    """A problem for the code to mend."""
    return Problem(stage="code", rule=rule, subject=subject, message=message, severity=severity)


def definition_at(code: str, line: int) -> str:
    """The top-level definition that a line belongs to; empty where it belongs to none."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ""
    for node in tree.body:
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
        if isinstance(node, _Definition) and first <= line <= (node.end_lineno or first):
            return node.name
    return ""


def _of_module(tree: ast.Module) -> Iterator[Problem]:
    for node in tree.body:
        subject = node.name if isinstance(node, _Definition) else ""
        if not _belongs_at_top(node):
            told = f"line {node.lineno}: only imports, constants and definitions may stand outside of functions"
            yield problem("top_level", subject, told)
        for inner in ast.walk(node):
            yield from _of_imports(inner, subject)
            yield from _of_calls(inner, subject)
            yield from _of_exceptions(inner, subject)


def _belongs_at_top(node: ast.stmt) -> bool:
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    named = _Definition | ast.Import | ast.ImportFrom | ast.Assign | ast.AnnAssign | ast.Pass
    return is_text or isinstance(node, named)


def _of_imports(node: ast.AST, subject: str) -> Iterator[Problem]:
    names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
    if isinstance(node, ast.ImportFrom):
        names = [node.module or "."]
    for name in names:
        if name.partition(".")[0] not in _MODULES:
            told = f"import of {name}: tools compute and use their database, with the standard library's means for that"
            yield problem("import", subject, told)


def _of_calls(node: ast.AST, subject: str) -> Iterator[Problem]:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _CALLS:
        told = f"line {node.lineno}: {node.func.id}(…) has no place in a tool, which uses only its database"
        yield problem("call", subject, told)
    if isinstance(node, ast.Attribute) and node.attr.startswith("__") and node.attr != "__name__":
        yield problem("call", subject, f"line {node.lineno}: {node.attr} has no place in a tool")


def _of_exceptions(node: ast.AST, subject: str) -> Iterator[Problem]:
    if isinstance(node, ast.Raise) and (name := _raised(node)) is not None and name not in _REFUSALS:
        told = f"line {node.lineno}: {name} is a crash for the agent; refuse with one of {', '.join(_REFUSALS)}"
        yield problem("no_refusal", subject, told)
    if isinstance(node, ast.ExceptHandler):
        caught = {n.attr if isinstance(n, ast.Attribute) else n.id for n in _names(node.type)}
        if node.type is None or caught & _BROAD:
            told = f"line {node.lineno}: this handler hides faults of the database; check before writing, and let go"
            yield problem("broad_except", subject, told)


def _names(node: ast.expr | None) -> list[ast.Name | ast.Attribute]:
    parts = node.elts if isinstance(node, ast.Tuple) else [node]
    return [part for part in parts if isinstance(part, ast.Name | ast.Attribute)]


def _raised(node: ast.Raise) -> str | None:
    """The class that a statement raises; None where it is no class that one can tell."""
    raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
    name = raised.attr if isinstance(raised, ast.Attribute) else raised.id if isinstance(raised, ast.Name) else ""
    return name if name[:1].isupper() else None

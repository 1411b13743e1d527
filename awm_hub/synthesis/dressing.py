"""Tools dressed in their specification: signature and docstring come from the toolset, the body from the code.

The toolset says what each tool takes and what its documentation is. Writing that again in the code costs a third of its
tokens and is one more thing that can differ, so the stage `code` writes functions with bare names, and what is known is
put there: annotations, defaults, description, `Args:`.
"""

import ast
import json
import re
import textwrap
from collections.abc import Mapping
from typing import Any

from awm_hub.synthesis.products import IMPORTS, Parts

_WIDTH = 110
_LITERAL = re.compile(r"\bLiteral\b")


def dressed(parts: Parts, toolset: Mapping[str, Any]) -> dict[str, str]:
    """The parts of a module with every tool dressed; what cannot be is left as it is.

    Args:
        parts: Of the stage `code`.
        toolset: Name of a tool → its specification.
    """
    found = {name: _dressed(name, text, toolset.get(name)) for name, text in parts.items()}
    imports = found.get(IMPORTS, "")
    needs_literal = any(_LITERAL.search(text) for name, text in found.items() if name != IMPORTS)
    if needs_literal and not _LITERAL.search(imports):
        found[IMPORTS] = f"{imports}\nfrom typing import Literal".strip("\n")
    return found


def arguments_of(text: str, name: str) -> list[str] | None:
    """Names of a function's parameters but the first; None where the text is no such function."""
    function = _function(text, name)
    if function is None or not function.args.args or function.args.vararg or function.args.kwarg:
        return None
    return [a.arg for a in (*function.args.args[1:], *function.args.kwonlyargs)]


def _dressed(name: str, text: str, tool: Any) -> str:
    parameters = tool.get("parameters") if isinstance(tool, dict) else None
    given = arguments_of(text, name)
    if given is None or not isinstance(parameters, dict) or set(given) != set(parameters):
        return text
    function = _function(text, name)
    assert function is not None
    lines = text.splitlines()
    body = _body(function, lines)
    above = "\n".join(lines[: min([function.lineno, *(d.lineno for d in function.decorator_list)]) - 1])
    head = _signature(function, parameters)
    found = "\n".join(part for part in (above, head, _docstring(tool, parameters), body) if part)
    # what a model calls a type may be anything
    return found if set(arguments_of(found, name) or ()) == set(given) and _has_types(parameters) else text


def _has_types(parameters: Mapping[str, Any]) -> bool:
    try:
        for told in parameters.values():
            ast.parse(str(_told(told).get("type", "object")).strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _function(text: str, name: str) -> ast.FunctionDef | None:
    try:
        found = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if len(found) == 1 and isinstance(found[0], ast.FunctionDef) and found[0].name == name:
        return found[0]
    return None


def _body(function: ast.FunctionDef, lines: list[str]) -> str:
    """The statements without the docstring, as they were written."""
    has_docstring = ast.get_docstring(function) is not None
    statements = function.body[1:] if has_docstring else function.body
    if not statements:
        return "    pass"
    first = statements[0].lineno
    if first == function.lineno:  # the whole function in one line
        return "    " + lines[first - 1][statements[0].col_offset :]
    begin = function.body[0].end_lineno or first if has_docstring else first - 1
    while begin > function.lineno and not has_docstring and lines[begin - 1].lstrip().startswith("#"):
        begin -= 1
    return "\n".join(lines[begin : function.end_lineno])


def _signature(function: ast.FunctionDef, parameters: Mapping[str, Any]) -> str:
    own = {a.arg: a.annotation for a in (*function.args.args, *function.args.kwonlyargs)}
    first = ast.unparse(function.args.args[0])
    ordered = sorted(parameters, key=lambda name: "default" in _told(parameters[name]))
    shown = [first, *(_parameter(name, _told(parameters[name]), own.get(name)) for name in ordered)]
    returns = f" -> {ast.unparse(function.returns)}" if function.returns is not None else ""
    decorators = "".join(f"@{ast.unparse(d)}\n" for d in function.decorator_list)
    line = f"def {function.name}({', '.join(shown)}){returns}:"
    if len(line) > _WIDTH:
        line = f"def {function.name}(\n    {(',' + chr(10) + '    ').join(shown)},\n){returns}:"
    return decorators + line


def _told(parameter: Any) -> Mapping[str, Any]:
    return parameter if isinstance(parameter, dict) else {}


def _parameter(name: str, told: Mapping[str, Any], own: ast.expr | None) -> str:
    annotation = str(told.get("type", ""))
    if own is not None and re.search(r"\bdict\b", annotation):  # a TypedDict says more
        annotation = ast.unparse(own)
    shown = f"{name}: {annotation}" if annotation else name
    return f"{shown} = {_literal(told['default'])}" if "default" in told else shown


def _literal(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def _docstring(tool: Mapping[str, Any], parameters: Mapping[str, Any]) -> str:
    described = {name: str(_told(told).get("description", "")) for name, told in parameters.items()}
    lines = textwrap.wrap(_plain(str(tool.get("description", ""))), _WIDTH, initial_indent='    """', **_INDENT)
    if not described:
        lines[-1:] = [f'{lines[-1]}"""'] if lines else []
        return "\n".join(lines)
    told = [
        line
        for name, text in described.items()
        for line in textwrap.wrap(
            f"{name}: {_plain(text)}", _WIDTH, initial_indent=" " * 8, subsequent_indent=" " * 12, **_UNBROKEN
        )
    ]
    return "\n".join([*lines, "", "    Args:", *told, '    """'])


_UNBROKEN: Any = {"break_long_words": False, "break_on_hyphens": False}
_INDENT: Any = {"subsequent_indent": "    ", **_UNBROKEN}


def _plain(text: str) -> str:
    r"""A text that can stand in a docstring: in one line, its backslashes and triple quotes escaped."""
    return " ".join(text.split()).replace("\\", "\\\\").replace('"""', '\\"\\"\\"').rstrip('"') or "-"

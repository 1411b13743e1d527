"""The notation of a toolset: a signature, then a line for everything that is to be said of the tool.

JSON spends as many tokens on braces, quotes and keys as on what they hold. This holds the same and reads like the
documentation that agents get::

    read search_members(query: str = "", level: Literal["novice", "racing"] | None = None)
    Find members of the rowing club by name, in the order of their names.
    query: Part of the name; case does not matter.
    level: Only members of this level.
    -> id, full_name, level of each
    ! query is longer than 100 characters: invalid
    @ members

An answer in JSON, as other stages have it, is read as well.
"""

import ast
import json
import re
from collections.abc import Mapping
from typing import Any

from awm_hub.synthesis import products
from awm_hub.synthesis.problems import AnswerError
from awm_hub.synthesis.products import Answer, Parts

_HEAD = re.compile(r"^(read|write)[ \t]+([A-Za-z_]\w*)[ \t]*\(", re.MULTILINE)
_LINE = re.compile(r"^(?:(->|!|@)[ \t]*(.*)|([A-Za-z_]\w*):[ \t]+(.*))$")
_LANGUAGES = ("tools", "text", "txt", "", "python")


def read(text: str) -> Answer:
    """The toolset of an answer.

    Raises:
        AnswerError: there is none, or a signature cannot be read.
    """
    blocks = [body for body in products.blocks_of(text, _LANGUAGES) if _HEAD.search(body)]
    source = "\n".join(blocks) if blocks else products.unfenced(text)
    heads = list(_HEAD.finditer(source))
    if not heads:
        removed = products.removed_in(text)
        return Answer(parts={}, removed=tuple(removed)) if removed else products.read_records(text)
    ends = [head.start() for head in heads[1:]] + [len(source)]
    parts = {}
    for head, end in zip(heads, ends, strict=True):
        tool = _tool(head[1], head[2], source[head.start() : end].strip())
        parts[head[2]] = json.dumps(tool, ensure_ascii=False)
    return Answer(parts=parts, removed=tuple(products.removed_in(text)))


def render(parts: Parts) -> str:
    """A toolset in the notation; a part that does not fit it as JSON."""
    return products.fenced("tools", "\n\n".join(_rendered(name, json.loads(text)) for name, text in parts.items()))


def _tool(effect: str, name: str, text: str) -> dict[str, Any]:
    signature, rest = _signature(name, text)
    tool: dict[str, Any] = {"effect": effect, "description": "", "parameters": signature, "returns": ""}
    tool |= {"refuses": [], "tables": []}
    said: list[str] = []
    last: dict[str, Any] | None = None
    for line in filter(None, (line.strip() for line in rest.splitlines())):
        found = _LINE.match(line)
        if found is None or (found[3] and found[3] not in signature):
            if last is not None:  # a description that goes on in the next line
                last["description"] = f"{last['description']} {line}".strip()
            else:
                said.append(line)
        elif found[3]:
            last = signature[found[3]]
            last["description"] = found[4].strip()
        else:
            last = None
            _note(tool, found[1], found[2].strip())
    return {**tool, "description": " ".join(said)}


def _note(tool: dict[str, Any], sign: str, text: str) -> None:
    if sign == "->":
        tool["returns"] = f"{tool['returns']} {text}".strip()
    elif sign == "!":
        tool["refuses"] += [text] if text else []
    else:
        tool["tables"] += [word for word in re.split(r"[,\s]+", text) if word]


def _signature(name: str, text: str) -> tuple[dict[str, dict[str, Any]], str]:
    """The parameters, and the lines that follow."""
    lines = text.splitlines()
    for end in range(1, min(len(lines), 60) + 1):
        inner = " ".join(line.strip() for line in lines[:end])
        inner = inner[inner.index("(") :]
        try:
            function = ast.parse(f"def f{inner.rstrip().rstrip(':')}: pass").body[0]
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        assert isinstance(function, ast.FunctionDef)
        return _parameters(name, function.args), "\n".join(lines[end:])
    raise AnswerError(f"the signature of {name} cannot be read: {lines[0][:160]}")


def _parameters(name: str, given: ast.arguments) -> dict[str, dict[str, Any]]:
    if given.vararg or given.kwarg or given.posonlyargs:
        raise AnswerError(f"the signature of {name} may hold named parameters only")
    listed = [*given.args, *given.kwonlyargs]
    defaults = [None] * (len(given.args) - len(given.defaults)) + [*given.defaults, *given.kw_defaults]
    found: dict[str, dict[str, Any]] = {}
    for parameter, default in zip(listed, defaults, strict=True):
        told: dict[str, Any] = {"type": _annotation(parameter), "description": ""}
        if default is not None:
            told["default"] = _value(name, parameter.arg, default)
        found[parameter.arg] = told
    return found


def _annotation(parameter: ast.arg) -> str:
    return "" if parameter.annotation is None else ast.unparse(parameter.annotation).replace("'", '"')


def _value(name: str, parameter: str, node: ast.expr) -> Any:
    if isinstance(node, ast.Name) and node.id in ("null", "true", "false"):
        return json.loads(node.id)
    try:
        value = ast.literal_eval(node)
        json.dumps(value, allow_nan=False)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        raise AnswerError(f"the default of {parameter} in {name} is no plain value: {ast.unparse(node)[:80]}") from None
    return value


def _rendered(name: str, tool: Any) -> str:
    try:
        return _written(name, tool)
    except (KeyError, TypeError, AttributeError):
        return f"{name}: {json.dumps(tool, ensure_ascii=False)}"


def _written(name: str, tool: Mapping[str, Any]) -> str:
    parameters = tool["parameters"].items()
    shown = [f"{p}: {t['type']}" + (f" = {t['default']!r}" if "default" in t else "") for p, t in parameters]
    lines = [f"{tool['effect']} {name}({', '.join(shown)})", tool["description"]]
    lines += [f"{parameter}: {told['description']}" for parameter, told in parameters]
    lines += [f"-> {tool['returns']}", *(f"! {text}" for text in tool["refuses"])]
    return "\n".join([*lines, f"@ {', '.join(tool['tables'])}"])

"""Products: what a stage made, as named parts.

A table, a tool's function, one task: a product is a mapping from names to texts, in order. That lets a correction be
short, since a later answer gives only the parts that change and the names of those that go (the paper's pipeline
writes every product again as a whole).

Answers are read leniently, as models write them: JSON bare, fenced or in prose; SQL and Python in fenced blocks or as
the whole text. What cannot be read is an `AnswerError` that says what is expected.
"""

import ast
import itertools
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from awm_hub.packing import statements
from awm_hub.synthesis.problems import AnswerError

Parts = Mapping[str, str]
IMPORTS = "imports"
"""Name of the part that holds a module's docstring and imports."""
REMOVED = "remove"
"""Key under which an answer lists parts that go."""

_FENCE = re.compile(
    r"^[ \t]*(`{3,}|~{3,})[ \t]*([A-Za-z0-9_+-]*)[^\n]*\n(.*?)^[ \t]*\1[ \t]*$", re.DOTALL | re.MULTILINE
)
_OPEN_FENCE = re.compile(r"^[ \t]*(?:`{3,}|~{3,})[ \t]*([A-Za-z0-9_+-]*)[^\n]*\n", re.MULTILINE)
_THOUGHTS = re.compile(r"^\s*<think>.*?</think>", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What an answer gives: parts that are new or changed, and names of parts that go."""

    parts: Parts
    removed: tuple[str, ...] = ()


def merged(before: Parts, answer: Answer) -> dict[str, str]:
    """The product after an answer: changed parts keep their place, new ones come last."""
    kept = {name: answer.parts.get(name, text) for name, text in before.items() if name not in answer.removed}
    return {**kept, **{name: text for name, text in answer.parts.items() if name not in kept}}


def read_records(text: str) -> Answer:
    """An answer that is one JSON object: each key a part; null removes it.

    Raises:
        AnswerError: there is no such object.
    """
    found = read_object(text)
    gone = found.pop(REMOVED, None)
    removed = [str(name) for name in gone] if isinstance(gone, list) else []
    removed += [name for name, value in found.items() if value is None]
    parts = {name: json.dumps(value, ensure_ascii=False) for name, value in found.items() if value is not None}
    return _answer(parts, removed, "a JSON object with one key for each part")


def read_object(text: str) -> dict[str, Any]:
    """The JSON object of an answer: its only one, or the last of those in fenced blocks.

    Small slips are repaired: trailing commas, comments, a text that was cut off is not.

    Raises:
        AnswerError: there is none.
    """
    blocks = [body for language, body in _blocks(text) if language in ("json", "jsonc", "json5", "")]
    for candidate in (*reversed(blocks), unfenced(text)):
        found = _object_in(candidate)
        if found is not None:
            return found
    raise AnswerError(f"no complete JSON object is found; {_seen(text)}")


def read_sql(text: str) -> Answer:
    """An answer in SQL: each CREATE statement a part, or all INSERTs of a table together.

    A JSON block may list parts that go: `{"remove": ["table visits"]}`.

    Raises:
        AnswerError: there is no SQL, or it cannot be taken apart.
    """
    sql = "\n".join(_code_of(text, ("sql", "sqlite", "sqlite3"), r"\b(?:CREATE|INSERT)\b"))
    try:
        found = statements.split(sql)
    except statements.StatementError as error:
        raise AnswerError(f"{error}: {statements.shown(error.statement)}; {_seen(text)}") from error
    parts: dict[str, str] = {}
    for statement in found:
        name = _sql_name(statement)
        parts[name] = f"{parts[name]}\n{statement};" if name in parts else f"{statement};"
    return _answer(parts, removed_in(text), "SQL statements in a ```sql block")


def read_python(text: str) -> Answer:
    """An answer in Python: each top-level definition a part, docstring and imports together one.

    Raises:
        AnswerError: there is no Python, or it does not parse.
    """
    code = "\n\n".join(_code_of(text, ("python", "py", "python3"), r"^(?:def|class|import|from|[A-Z_]+\s*=)\b"))
    return _answer(python_parts(code, text), removed_in(text), "Python in a ```python block")


def python_parts(code: str, text: str = "") -> dict[str, str]:
    """The parts of a module: `imports`, then each definition with the comments above it.

    Raises:
        AnswerError: it does not parse.
    """
    try:
        module = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        place = f" at line {error.lineno}" if isinstance(error, SyntaxError) else ""
        raise AnswerError(f"the Python does not parse{place}: {error}; {_seen(text or code)}") from error
    lines, parts, end = code.splitlines(keepends=True), dict[str, str](), 0
    for node in module.body:
        start, end = end, node.end_lineno or node.lineno
        segment = "".join(lines[start:end]).strip("\n")
        name = _python_name(node)
        parts[name] = f"{parts[name]}\n{segment}" if name in parts else segment
    if rest := "".join(lines[end:]).strip():
        last = next(reversed(parts), IMPORTS)
        parts[last] = f"{parts.get(last, '')}\n{rest}"
    return parts


def write_python(parts: Parts) -> str:
    """The module of its parts: imports first, two empty lines between definitions."""
    ordered = [parts[IMPORTS]] if IMPORTS in parts else []
    ordered += [text for name, text in parts.items() if name != IMPORTS]
    return "\n\n\n".join(text.strip("\n") for text in ordered) + "\n"


def write_sql(parts: Parts) -> str:
    """The statements of its parts, indexes after the tables."""
    return "\n\n".join(text for _, text in sorted(parts.items(), key=lambda p: _rank(p[0]))) + "\n"


def parents_first(parts: Parts) -> dict[str, str]:
    """The parts of a schema with each table after those that it refers to, else in their order.

    A correction's new tables come last, and rows are written in the order of the tables.
    """
    placed: dict[str, str] = {}

    def place(name: str, above: tuple[str, ...]) -> None:
        for parent in _parents(parts[name]):
            if parent in parts and parent not in placed and parent not in above:
                place(parent, (*above, parent))
        placed.setdefault(name, parts[name])

    for name in parts:
        place(name, (name,))
    return placed


def write_records(parts: Parts) -> str:
    """The JSON object of its parts, a line for each."""
    return "{\n" + ",\n".join(f"{json.dumps(k, ensure_ascii=False)}: {v}" for k, v in parts.items()) + "\n}"


def fenced(language: str, text: str) -> str:
    """The text in a fenced block that its own content cannot end."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def blocks_of(text: str, languages: Sequence[str]) -> list[str]:
    """Contents of the fenced blocks in one of these languages."""
    return [body for language, body in _blocks(text) if language in languages]


def _answer(parts: Parts, removed: Iterable[str], expected: str) -> Answer:
    gone = tuple(dict.fromkeys(removed))
    if not parts and not gone:
        raise AnswerError(f"{expected} is expected, and nothing of it is there")
    return Answer(parts=parts, removed=gone)


def removed_in(text: str) -> list[str]:
    """Names of the parts that an answer takes out, by a JSON block of its own."""
    for body in blocks_of(text, ("json",)):
        found = _object_in(body)
        if found is not None and isinstance(found.get(REMOVED), list):
            return [str(name) for name in found[REMOVED]]
    return []


def unfenced(text: str) -> str:
    """The text without the thoughts before it."""
    return _THOUGHTS.sub("", text)


def _blocks(text: str) -> list[tuple[str, str]]:
    """Language and content of each fenced block."""
    return [(language.lower(), body) for _, language, body in _FENCE.findall(unfenced(text))]


def _code_of(text: str, languages: Sequence[str], sign: str) -> list[str]:
    """The code in an answer: blocks of the language, else blocks without one, else the text itself."""
    blocks = _blocks(text)
    for wanted in (languages, ("",)):
        if found := [body for language, body in blocks if language in wanted]:
            return found
    said = unfenced(text)
    if blocks or not re.search(sign, said, re.MULTILINE):
        return []
    opened = _OPEN_FENCE.search(said)
    if opened is not None:  # a block that was never closed was cut off
        raise AnswerError(f"the block that opens with {opened[0].strip()} has no end; {_seen(text)}")
    return [said]


def _seen(text: str) -> str:
    """How the answer ends, for a message: what was cut off shows there."""
    end = " ".join(text[-160:].split())
    return f"the answer ends with: …{end[-80:]}" if end else "the answer is empty"


def _object_in(text: str) -> dict[str, Any] | None:
    """The object of a text: the whole, or the first that begins at a brace and ends properly."""
    for candidate in (text, re.sub(r",(\s*[}\]])", r"\1", text)):
        start = candidate.find("{")
        while 0 <= start <= _MAX_SEARCHED:
            try:
                return dict(_DECODER.raw_decode(candidate, start)[0])
            except json.JSONDecodeError as error:
                # what begins before the fault is a part of the broken object
                start = candidate.find("{", max(error.pos, start + 1))
            except (ValueError, RecursionError):
                break
    return None


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _refuse(text)


_DECODER = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite, strict=False)
_MAX_SEARCHED = 2_000
"""Characters of prose that may stand before the object."""


def _sql_name(statement: str) -> str:
    """`table x`, `index y`, … of a CREATE statement; the table of an INSERT."""
    words = [t for t in statements.tokens(statement) if t.value != "."][:12]
    values = [w.value.upper() for w in words]
    if values[:1] == ["INSERT"] and "INTO" in values:
        return words[values.index("INTO") + 1].name.lower()
    kinds = [i for i, v in enumerate(values) if v in ("TABLE", "INDEX", "TRIGGER", "VIEW")]
    if values[:1] == ["CREATE"] and kinds:
        at = kinds[0] + 1
        at += 3 if values[at : at + 3] == ["IF", "NOT", "EXISTS"] else 0
        if at < len(words):
            return f"{values[kinds[0]].lower()} {words[at].name.lower()}"
    raise AnswerError(f"a CREATE or INSERT statement is expected, not: {statements.shown(statement)}")


def _parents(ddl: str) -> list[str]:
    found = list(statements.tokens(ddl))
    return [f"table {b.name.lower()}" for a, b in itertools.pairwise(found) if a.is_word("REFERENCES")]


def _rank(name: str) -> int:
    return ("table", "index", "view", "trigger").index(name.split()[0]) if " " in name else 0


def _python_name(node: ast.stmt) -> str:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return node.name
    if isinstance(node, ast.Import | ast.ImportFrom) or (isinstance(node, ast.Expr) and _is_text(node.value)):
        return IMPORTS
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return node.target.id
    return "statements"


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)

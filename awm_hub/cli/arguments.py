"""The arguments of a tool call on the command line: `key=value` by the tool's schema, or JSON.

A parameter that takes text gets the characters after `=` as they are: `code=00123` keeps its zeros, and `note=null` is
four letters. Any other parameter takes JSON: `quantity=3`, `tags='["a"]'`, `due=null`. What is not JSON is passed on as
text, and the tool's schema refuses it. A text parameter that takes null or an object besides is given those through
`--arguments`.
"""

import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from awm_hub.canonical import from_json
from awm_hub.errors import DataError, RecordError, UsageError

if TYPE_CHECKING:
    from awm_hub.environment import ToolSpec

_EXAMPLE = """--arguments '{"key": "value"}'"""
_UNIONS = ("anyOf", "oneOf", "allOf")


def read_arguments(tool: "ToolSpec", pairs: Sequence[str], text: str | None) -> dict[str, Any]:
    """The arguments of a call, from `key=value` words or from `--arguments`.

    Raises:
        UsageError: both forms are given, a word is not `key=value`, a key comes twice, or JSON is misquoted.
        DataError: the file or the stdin of `--arguments` holds no JSON object, or the file cannot be read.
    """
    if text is not None:
        found = _from_file(text[1:]) if text.startswith("@") else _from_words(text)
        if pairs:
            raise UsageError("give key=value words or --arguments, not both", next_step="awm-hub call --help")
        return found
    properties = tool.input_schema.get("properties")
    properties = properties if isinstance(properties, dict) else {}
    found = {}
    for number, pair in enumerate(pairs):
        key, equals, value = pair.partition("=")
        if not equals or not key:
            known = f"parameters: {', '.join(properties) or 'none'}"
            raise UsageError(f"{pair!r} is not key=value", next_step=_quoting(pairs[:number], pair) + known)
        if key in found:
            raise UsageError(f"{key!r} is given twice", next_step="pass a list as JSON: key='[1, 2]'")
        found[key] = _value(_utf8(value, key), properties.get(key), tool.input_schema)
    return found


def takes_text(schema: Any, root: Mapping[str, Any]) -> bool:
    """Whether a parameter with this schema accepts text. `root` is the untrusted schema that references point into."""
    return _takes_text(schema, root, set())


def _takes_text(schema: Any, root: Mapping[str, Any], seen: set[str]) -> bool:
    if not isinstance(schema, Mapping):
        return False
    if isinstance(reference := schema.get("$ref"), str):
        if reference in seen:
            return False
        seen.add(reference)
        return _takes_text(_resolve(reference, root), root, seen)
    if "string" in _listed(schema.get("type")):
        return True
    if any(isinstance(v, str) for v in [*_listed(schema.get("enum")), schema.get("const")]):
        return True
    return any(_takes_text(s, root, seen) for union in _UNIONS for s in _listed(schema.get(union)))


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _value(text: str, schema: Any, root: Mapping[str, Any]) -> Any:
    if takes_text(schema, root):
        return text
    try:
        return from_json(text)
    except DataError:
        return text


def _resolve(reference: str, root: Mapping[str, Any]) -> Any:
    """The target of a local reference, None where there is none."""
    found: Any = root
    for part in reference.removeprefix("#/").split("/"):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def _quoting(before: Sequence[str], word: str) -> str:
    """How the value before a stray word would have been quoted, if it was split at a blank."""
    split_from = next((pair for pair in reversed(before) if "=" in pair), None)
    return "" if split_from is None else f"quote a value that holds blanks, {shlex.quote(f'{split_from} {word}')}; "


def _from_words(text: str) -> dict[str, Any]:
    """An object as it stands on the command line, where a shell may have taken it apart."""
    text = _utf8(text, "--arguments")
    try:
        found = from_json(text, "--arguments")
    except RecordError as error:
        raise UsageError(error.message, next_step=f"double quotes in JSON, single ones round it: {_EXAMPLE}") from error
    if not isinstance(found, dict):
        raise UsageError("--arguments is not a JSON object", next_step=_EXAMPLE)
    return found


def _from_file(name: str) -> dict[str, Any]:
    source, step = "stdin" if name == "-" else name, 'it holds one JSON object, {"key": "value"}'
    try:
        found = from_json(_utf8(_read(name), source), source)
    except RecordError as error:
        raise DataError(error.message, next_step=step) from error
    if not isinstance(found, dict):
        raise DataError(f"{source} is not a JSON object", next_step=step)
    return found


def _read(name: str) -> str:
    try:
        return sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{name} is not UTF-8 text: {error}", next_step="save it as UTF-8") from error


def _utf8(text: str, what: str) -> str:
    """The text, unless the shell passed bytes that are not UTF-8 (they arrive as lone surrogates)."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise UsageError(f"the value of {what} is not UTF-8 text") from error
    return text

"""The arguments of a tool call on the command line: `key=value` by the tool's schema, or JSON.

A parameter that takes text gets the characters after `=` as they are: `code=00123` keeps its zeros, and `note=null` is
four letters. Any other parameter takes JSON: `quantity=3`, `tags='["a"]'`, `due=null`. What is no JSON is passed on as
text, and the tool's schema refuses it. A text parameter that takes null or an object besides is given those through
`--arguments`.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from awm_hub.canonical import from_json
from awm_hub.errors import DataError, UsageError

if TYPE_CHECKING:
    from awm_hub.environment import ToolSpec

_UNIONS = ("anyOf", "oneOf", "allOf")


def read_arguments(tool: "ToolSpec", pairs: Sequence[str], text: str | None) -> dict[str, Any]:
    """The arguments of a call, from `key=value` words or from `--arguments`.

    Raises:
        UsageError: both forms are given, or a word is no `key=value`, or a key comes twice.
        DataError: `--arguments` is no JSON object, or its file cannot be read.
    """
    if text is not None and pairs:
        raise UsageError("give key=value words or --arguments, not both", next_step="awm-hub call --help")
    if text is not None:
        return _from_json(text)
    properties = tool.input_schema.get("properties")
    properties = properties if isinstance(properties, dict) else {}
    found: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise UsageError(f"{pair!r} is no key=value", next_step=f"parameters: {', '.join(properties) or 'none'}")
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


def _from_json(text: str) -> dict[str, Any]:
    found = from_json(_utf8(_read(text[1:]) if text.startswith("@") else text, "--arguments"), "--arguments")
    if not isinstance(found, dict):
        raise DataError("--arguments is no JSON object", next_step="""--arguments '{"key": "value"}'""")
    return found


def _read(name: str) -> str:
    try:
        return sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{name} is no UTF-8 text: {error}") from error


def _utf8(text: str, what: str) -> str:
    """The text, unless the shell passed bytes that are no UTF-8 (they arrive as lone surrogates)."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise UsageError(f"the value of {what} is no UTF-8 text") from error
    return text

"""What an image is built from, and the report on it.

A report comes from a process in which the row's code has run: every part of it is checked for what it should be before
anything relies on it, and the facts about the image are found out again elsewhere.
"""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from awm_hub.canonical import from_json, to_json
from awm_hub.environment import SeedTable, Table, ToolSpec
from awm_hub.errors import SourceError
from awm_hub.schema import MAX_IMAGE_BYTES

_MAX_COUNT = 2**31


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One thing that went wrong while an image was built."""

    stage: str
    """`schema`, `seed`, `foreign_keys` or `code`."""
    subject: str
    """Table or tool."""
    statement: str
    message: str
    rows: int = 1


@dataclass(frozen=True, kw_only=True)
class BuildRequest:
    """What an image is built from."""

    interface: str
    code: str | None
    clock: dt.datetime
    tables: tuple[Table, ...]
    further_ddl: tuple[str, ...] = ()
    seed: tuple[SeedTable, ...] = ()
    strict: bool = True
    """Raise on the first problem (our own sources) instead of collecting them (imports)."""


@dataclass(frozen=True, kw_only=True)
class BuildReport:
    """An image, the toolset, and everything that went wrong on the way."""

    image: bytes = field(default=b"", repr=False)
    image_sha256: str = ""
    logical_hash: str = ""
    row_counts: dict[str, int] = field(default_factory=dict)
    schema_errors: int
    seed_errors: int
    """Rows that did not load."""
    foreign_key_violations: int
    problems: tuple[Problem, ...]
    tools: tuple[ToolSpec, ...]
    dropped_tools: tuple[str, ...]
    """Operations that another one with the same method and path replaced."""
    shadowed_tools: tuple[str, ...]
    """Tools whose requests reach another route that was declared before."""
    hidden_state: bool
    """Functions of the module change its globals."""
    load_error: str | None
    """Why the code does not load; `tools` is empty then."""

    def raise_first(self) -> None:
        """Raise the first problem, if there is one.

        Raises:
            SourceError: a statement failed, or the code does not load.
        """
        for problem in self.problems:
            where = f"{problem.stage} of {problem.subject or 'the database'}"
            raise SourceError(
                f"{where}: {problem.message}\n  in: {problem.statement[:300]}",
                next_step=f"mend this statement in {'schema.sql' if problem.stage == 'schema' else 'seed.sql'}",
            )
        if self.load_error:
            raise SourceError(f"tools.py does not load: {self.load_error}", next_step="mend tools.py")


def image_of(found: Mapping[str, Any]) -> bytes:
    """The image of an untrusted answer.

    Raises:
        ValueError: it is none, or too large.
    """
    image: bytes = found["image"]
    if not is_image(image):
        raise ValueError("no image of at most 64 MB")
    return image


def is_image(value: Any) -> bool:
    """Whether an untrusted value can be an image at all."""
    return isinstance(value, bytes) and len(value) <= MAX_IMAGE_BYTES


def report_of(found: Mapping[str, Any]) -> BuildReport:
    """The report of an untrusted answer, without the facts about the image.

    Raises:
        KeyError: a part is missing.
        ValueError: a part is not what it should be.
        RecordError: a schema is no JSON within the limits.
    """
    return BuildReport(
        schema_errors=_count(found["schema_errors"]),
        seed_errors=_count(found["seed_errors"]),
        foreign_key_violations=_count(found["foreign_key_violations"]),
        problems=tuple(_problem(p) for p in _list(found["problems"])),
        tools=tuple(_tool(t) for t in _list(found["tools"])),
        dropped_tools=_texts(found["dropped_tools"]),
        shadowed_tools=_texts(found["shadowed_tools"]),
        hidden_state=found["hidden_state"] is True,
        load_error=None if found["load_error"] is None else _text(found["load_error"]),
    )


def _problem(found: Mapping[str, Any]) -> Problem:
    texts = {name: _text(found[name]) for name in ("stage", "subject", "statement", "message")}
    return Problem(rows=_count(found["rows"]), **texts)


def _tool(found: Mapping[str, Any]) -> ToolSpec:
    name, output = _text(found["name"]), found["output_schema"]
    input_schema = from_json(to_json(found["input_schema"]), f"schema of {name[:100]}")
    if not isinstance(input_schema, dict):
        raise ValueError(f"the schema of {name[:100]} is no object")
    return ToolSpec(
        name=name,
        description=_text(found["description"]),
        input_schema=input_schema,
        output_schema=None if output is None else from_json(to_json(output), f"schema of {name[:100]}"),
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"a text is expected, not a {type(value).__name__}")
    return value


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(_text(v) for v in _list(value))


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"a list is expected, not a {type(value).__name__}")
    return value


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _MAX_COUNT:
        raise ValueError("a count is expected")
    return value

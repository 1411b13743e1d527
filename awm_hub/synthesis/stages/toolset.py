"""The stage `toolset`: the specification of the tools, which is also the documentation that agents read.

Nothing of it can run yet. Its gate sees that the code can be made from it word for word: names and annotations that
the `functions` interface has, defaults of their types, tables that are there, and a way to every id.
"""

import builtins
import json
import keyword
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from awm_hub.auditing.examples import singular
from awm_hub.packing.advice import fits
from awm_hub.synthesis.drafts import Draft
from awm_hub.synthesis.problems import Problem
from awm_hub.synthesis.prompting import fill
from awm_hub.synthesis.stages import notation
from awm_hub.synthesis.stages.annotations import AnnotationError, schema_of
from awm_hub.synthesis.stages.base import Stage
from awm_hub.synthesis.stages.reporting import reported, unstorable

_NAME = re.compile(r"[a-z][a-z0-9_]*")
_MAX_NAME = 64
_KEYS = ("effect", "description", "parameters", "returns", "refuses", "tables")


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """One parameter of a tool, as the toolset says it."""

    schema: Mapping[str, Any]
    """JSON Schema of its annotation."""
    is_required: bool
    default: Any = None


async def check(draft: Draft) -> tuple[Problem, ...]:
    """The gate: what keeps the code from being written after this toolset."""
    if broken := unstorable("toolset", draft.parts("toolset")):
        return reported(broken)
    tools = draft.records("toolset")
    well_formed = {name: tool for name, tool in tools.items() if isinstance(tool, dict)}
    return reported(
        [
            *_of_all(draft, tools),
            *(p for name, tool in tools.items() for p in _of_one(draft, name, tool)),
            *_of_ids(draft, well_formed),
        ]
    )


def parameters_of(tool: Any) -> dict[str, Parameter]:
    """The parameters of a tool that has passed the gate; those that break the form are left out."""
    found = {}
    for name, told in _mapping(tool, "parameters").items():
        if isinstance(told, dict) and isinstance(told.get("type"), str):
            try:
                schema = schema_of(told["type"])
            except AnnotationError:
                continue
            found[name] = Parameter(schema=schema, is_required="default" not in told, default=told.get("default"))
    return found


def _prompt(draft: Draft) -> str:
    return fill("toolset", tools=str(draft.sizes.tools))


def _problem(rule: str, subject: str, message: str) -> Problem:
    return Problem(stage="toolset", rule=rule, subject=subject, message=message)


def _of_all(draft: Draft, tools: Mapping[str, Any]) -> Iterator[Problem]:
    if len(tools) < draft.sizes.tools:
        yield _problem("too_few_tools", "", f"there are {len(tools)} tools; at least {draft.sizes.tools} are needed")
    effects = {tool.get("effect") for tool in tools.values() if isinstance(tool, dict)}
    for effect in ("read", "write"):
        if effect not in effects:
            yield _problem("effects", "", f'no tool has the effect "{effect}"; both kinds are needed')
    first: dict[str, str] = {}
    for name, tool in tools.items():
        told = " ".join(_text(tool, "description").casefold().split())
        if told and told in first:
            yield _problem("same_description", name, f"{first[told]} has the same description; say what is different")
        first.setdefault(told, name)


def _of_one(draft: Draft, name: str, tool: Any) -> Iterator[Problem]:
    if fault := _name_fault(name):
        yield _problem("tool_name", name, fault)
    if not isinstance(tool, dict):
        yield _problem("tool_form", name, f"its value must be an object with the keys {', '.join(_KEYS)}")
        return
    if tool.get("effect") not in ("read", "write"):
        yield _problem("tool_form", name, 'effect must be "read" or "write"')
    for key in ("description", "returns"):
        if not _text(tool, key).strip():
            yield _problem("tool_form", name, f"{key} must be a text that is not empty")
    for key in ("refuses", "tables"):
        if not _is_texts(tool.get(key)):
            yield _problem("tool_form", name, f"{key} must be a list of texts; [] where there is none")
    yield from _of_tables(draft, name, tool)
    if not isinstance(tool.get("parameters"), dict):
        yield _problem("tool_form", name, "parameters must be an object; {} where it takes none")
    for parameter, told in _mapping(tool, "parameters").items():
        if message := _parameter_fault(parameter, told):
            yield _problem("parameter", name, f"{parameter}: {message}")


def _name_fault(name: str) -> str | None:
    if not _NAME.fullmatch(name) or len(name) > _MAX_NAME:
        return f"a name is snake_case, begins with a letter and has at most {_MAX_NAME} characters"
    if keyword.iskeyword(name) or hasattr(builtins, name):
        return "the name is a word of Python's own; use a verb and a noun"
    return None


def _of_tables(draft: Draft, name: str, tool: Any) -> Iterator[Problem]:
    known = set(_tables(draft))
    for word in _listed(tool, "tables"):
        if word.lower() not in known:
            yield _problem("unknown_tables", name, f"tables names {word!r}, which is no table or view of the schema")


def _parameter_fault(name: str, told: Any) -> str | None:
    """What is wrong with one parameter, if anything."""
    if not _NAME.fullmatch(name) or keyword.iskeyword(name) or name in ("db", "self") or len(name) > _MAX_NAME:
        return "a parameter's name is snake_case, no word of Python's own, and not db"
    if not isinstance(told, dict) or not isinstance(told.get("type"), str):
        return 'its value must be {"type": "…", "description": "…"}, with "default" where it is optional'
    if not _text(told, "description").strip():
        return "it needs a description: meaning, unit or form, range"
    try:
        schema = schema_of(told["type"])
    except AnnotationError as error:
        return f"the type {told['type'][:100]!r} is not allowed: {error}"
    if "default" in told and not fits(told["default"], schema):
        step = "write the type as … | None" if told["default"] is None else "mend the default or the type"
        return f"the default {json.dumps(told['default'])[:100]} is not of the type {told['type'][:100]}; {step}"
    return None


def _of_ids(draft: Draft, tools: Mapping[str, Any]) -> Iterator[Problem]:
    """Ids that tools take can be found: some tool reads the table that they belong to."""
    named = {t.lower() for tool in tools.values() if tool.get("effect") == "read" for t in _listed(tool, "tables")}
    readable = named | {table for view in named for table in _tables_behind(draft, view)}
    by_noun = {singular(table): table for table in _tables(draft)}
    for name, tool in tools.items():
        for parameter in _mapping(tool, "parameters"):
            table = by_noun.get(singular(parameter.removesuffix("_id"))) if parameter.endswith("_id") else None
            if table is not None and table not in readable:
                told = f"no read tool names the table {table}, so that an agent cannot find the {parameter} it needs"
                yield _problem("id_not_found", name, told)


def _tables_behind(draft: Draft, view: str) -> set[str]:
    """Tables that the statement of a view names."""
    words = set(re.findall(r"[a-z_][a-z0-9_]*", draft.parts("database").get(f"view {view}", "").lower()))
    return words & set(_tables(draft))


def _tables(draft: Draft) -> list[str]:
    """Names of the tables and views, in lower case."""
    kinds = (part.split(maxsplit=1) for part in draft.parts("database"))
    return [words[1].lower() for words in kinds if len(words) == 2 and words[0] in ("table", "view")]


def _text(tool: Any, key: str) -> str:
    found = tool.get(key) if isinstance(tool, dict) else None
    return found if isinstance(found, str) else ""


def _mapping(tool: Any, key: str) -> dict[str, Any]:
    found = tool.get(key) if isinstance(tool, dict) else None
    return found if isinstance(found, dict) else {}


def _listed(tool: Any, key: str) -> list[str]:
    found = tool.get(key)
    return found if _is_texts(found) else []


def _is_texts(found: Any) -> bool:
    return isinstance(found, list) and all(isinstance(text, str) for text in found)


STAGE = Stage(
    name="toolset",
    prompt=_prompt,
    shows=("scenario", "task", "database"),
    read=notation.read,
    render=notation.render,
    check=check,
)

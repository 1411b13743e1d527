"""Whether the code has the tools that the toolset promises: names, parameters, types, defaults and effects.

Both sides are compared as the JSON Schemas that the runtime makes of them, so that `Optional[int]` and `int | None` are
one. Where the toolset says `dict`, the code may say more of it with a TypedDict. Operations of a FastAPI module bring
constraints and models of their own; of those only the kinds of value have to agree.
"""

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from awm_hub.environment import ToolSpec
from awm_hub.synthesis.drafts import Draft
from awm_hub.synthesis.dressing import arguments_of
from awm_hub.synthesis.problems import Problem
from awm_hub.synthesis.stages.reading import problem
from awm_hub.synthesis.stages.toolset import Parameter, parameters_of

_NOTES = ("description", "default", "examples", "title")


def compare(draft: Draft, tools: Sequence[ToolSpec]) -> Iterator[Problem]:
    """Where the tools of the code are not those of the toolset."""
    wanted = draft.records("toolset")
    built = {tool.name: tool for tool in tools}
    for name in wanted:
        if name not in built:
            yield problem("tool_missing", name, f"the toolset has {name}, and the code does not{_near(name, built)}")
    for name, tool in built.items():
        if name not in wanted:
            step = "begin the names of private functions with _" if draft.interface == "functions" else "take it out"
            yield problem("tool_extra", name, f"the toolset has no {name}; {step}")
        else:
            yield from _compare_one(draft.interface, wanted[name], tool)


def parameters(draft: Draft) -> Iterator[Problem]:
    """Where the parameters of a written function are not those of its tool, before anything of it is built."""
    for name, tool in draft.records("toolset").items():
        wanted = parameters_of(tool)
        given = arguments_of(draft.parts("code").get(name, ""), name)
        if given is None:
            continue
        for parameter in sorted(wanted.keys() - set(given)):
            yield problem("parameter_differs", name, f"it lacks the parameter {parameter}, which the toolset has")
        for parameter in sorted(set(given) - wanted.keys()):
            yield problem(
                "parameter_differs", name, f"it has the parameter {parameter}, which the toolset does not have"
            )


def _near(name: str, built: Mapping[str, ToolSpec]) -> str:
    close = difflib.get_close_matches(name, built, n=1)
    return f"; it has {close[0]}" if close else ""


def _compare_one(interface: str, wanted: Mapping[str, Any], tool: ToolSpec) -> Iterator[Problem]:
    parameters = parameters_of(wanted)
    properties = tool.input_schema.get("properties", {})
    for name in sorted(parameters.keys() - properties.keys()):
        yield problem("parameter_differs", tool.name, f"it lacks the parameter {name}, which the toolset has")
    for name in sorted(properties.keys() - parameters.keys()):
        yield problem("parameter_differs", tool.name, f"it has the parameter {name}, which the toolset does not have")
    required = tool.input_schema.get("required", ())
    for name, parameter in parameters.items():
        if name in properties:
            told = _difference(interface, parameter, properties[name], name in required)
            if told:
                yield problem("parameter_differs", tool.name, f"{name}: {told}")
    if interface == "functions":
        yield from _compare_effect(wanted.get("effect"), tool)


def _difference(interface: str, wanted: Parameter, built: Any, is_required: bool) -> str | None:
    """What is different about one parameter, if anything."""
    agrees = covers if interface == "functions" else _is_like
    if not agrees(wanted.schema, built):
        return f"the toolset says {_shown(wanted.schema)}, the code {_shown(built)}"
    if wanted.is_required != is_required:
        should = "is required, and has a default in the code" if wanted.is_required else "has the default"
        default = "" if wanted.is_required else f" {json.dumps(wanted.default)}, and none in the code"
        return f"in the toolset it {should}{default}"
    found = built.get("default") if isinstance(built, Mapping) else None
    if not is_required and found != wanted.default:
        return f"the default is {json.dumps(wanted.default)} in the toolset and {json.dumps(found)} in the code"
    return None


def _compare_effect(stated: Any, tool: ToolSpec) -> Iterator[Problem]:
    if stated != tool.effect:
        found = "reaches a statement that writes, itself or through a function that it calls"
        told = found if tool.effect == "write" else "reaches no statement that writes"
        yield problem("effect_differs", tool.name, f"the toolset says {stated}, and its code {told}")


def covers(wanted: Mapping[str, Any], built: Any) -> bool:
    """Whether a schema is the wanted one, where plain objects and lists may be said more closely."""
    if not isinstance(built, Mapping):
        return False
    wanted, built = _plain(wanted), _plain(built)
    if wanted == {"type": "object"}:
        return str(built.get("type")) == "object"
    if "anyOf" in wanted:
        options, found = wanted["anyOf"], built.get("anyOf", [])
        every = len(options) == len(found) and all(any(covers(w, b) for b in found) for w in options)
        return every and all(any(covers(w, b) for w in options) for b in found)
    if "enum" in wanted or "enum" in built:
        return _members(wanted) == _members(built)
    if wanted.get("type") == "array" == built.get("type"):
        return covers(wanted.get("items", {}), built.get("items", {}))
    return bool(wanted == built)


def _plain(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key not in _NOTES}


def _members(schema: Mapping[str, Any]) -> set[str]:
    return {json.dumps(member) for member in schema.get("enum", ())}


def _is_like(wanted: Mapping[str, Any], built: Any) -> bool:
    """Whether two schemas take the same kinds of value and the same members; null aside."""
    return _kinds(wanted) == _kinds(built) and _all_members(wanted) == _all_members(built)


def _options(schema: Any) -> list[Mapping[str, Any]]:
    if not isinstance(schema, Mapping):
        return []
    inner = [option for key in ("anyOf", "oneOf", "allOf") for option in schema.get(key, ())]
    return [schema, *(o for option in inner for o in _options(option))]


def _kinds(schema: Any) -> set[str]:
    return {str(o["type"]) for o in _options(schema) if "type" in o} - {"null"}


def _all_members(schema: Any) -> set[str]:
    found = {member for option in _options(schema) for member in _members(option)}
    constants = {json.dumps(option["const"]) for option in _options(schema) if "const" in option}
    return found | constants


def _shown(schema: Any) -> str:
    """A schema in a few words."""
    if not isinstance(schema, Mapping):
        return "nothing that is known"
    if "anyOf" in schema:
        return " or ".join(_shown(option) for option in schema["anyOf"])
    if "enum" in schema:
        return "one of " + ", ".join(json.dumps(member, ensure_ascii=False) for member in schema["enum"])
    if schema.get("type") == "array":
        return f"a list of {_shown(schema.get('items', {}))}"
    return str(schema.get("type", "anything"))

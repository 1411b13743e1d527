"""Grounding: what a solution says must have come from somewhere.

Every id, code or text argument is in the instruction, in what the agent is told of the environment, in the tool's own
schema, or in an earlier result; else no agent could know it. Dates and amounts may be worked out, and are not checked.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from awm_hub.auditing.asking import choices_of
from awm_hub.auditing.case import Case
from awm_hub.auditing.examples import properties_of
from awm_hub.canonical import to_json
from awm_hub.environment import Task
from awm_hub.trajectory import Step

_MOMENT = re.compile(r"\d{4}-\d{2}-\d{2}([Tt ]\d{2}:\d{2}(:\d{2})?)?|\d{2}:\d{2}")
_QUOTATION = re.compile(r"""(?<!\w)'([^'\n]{3,80})'(?!\w)|"([^"\n]{3,80})"|“([^”\n]{3,80})”""")
_WORD = re.compile(r"[\w@.+-]+")


def check(case: Case, task: Task, steps: Sequence[Step]) -> None:
    """Look at a solution as it ran, with findings."""
    told = f"{case.environment.briefing}\n{task.instruction}".casefold()
    free = {column.rpartition(".")[2] for column in task.free}
    seen: list[Any] = []
    for number, step in enumerate(steps, 1):
        schema = to_json(case.environment.tool(step.tool).input_schema).casefold()
        for name, value in _arguments(step.arguments):
            if name not in free and not _is_known(name, value, told + schema, seen):
                told_of = f"step {number}, {step.tool}: {name} is {value!r}, which nothing before it says"
                case.note("ungrounded", task.slug, told_of)
        if step.result.value == [] and _is_search(step.arguments, case.environment.tool(step.tool).input_schema):
            case.note("matches_nothing", task.slug, f"step {number}, {step.tool}: {to_json(step.arguments)[:200]}")
        seen.extend(leaf for leaf in _leaves(step.result.value))
    for value in _leaves(task.answer):
        if isinstance(value, str) and not _is_known("", value, told, seen):
            case.note("answer_unseen", task.slug, f"no result holds {value!r}")


def check_literals(case: Case, task: Task) -> None:
    """Texts that an instruction quotes: each is in the sample data, or something that the solution writes."""
    written = to_json([call.arguments for call in task.solution or ()]).casefold()
    for found in _QUOTATION.finditer(task.instruction):
        text = next(part for part in found.groups() if part is not None)
        if text.casefold() not in case.seed.text and text.casefold() not in written:
            case.note("literal_unknown", task.slug, f"the sample data does not hold {text!r}")


def _arguments(arguments: Any) -> Iterator[tuple[str, Any]]:
    """Name and value of every scalar that is an id or a text."""
    for name, value in arguments.items() if isinstance(arguments, Mapping) else ():
        items = value if isinstance(value, list) else [value]
        for item in items:
            if isinstance(item, Mapping):
                yield from _arguments(item)
            elif isinstance(item, str) or (type(item) is int and name.endswith("id")):
                yield name, item


def _is_search(arguments: Any, schema: Any) -> bool:
    """Whether a text is searched for: neither a choice of the schema nor a moment."""
    properties = properties_of(schema)
    texts = [(name, value) for name, value in _arguments(arguments) if isinstance(value, str) and value]
    return any(not choices_of(properties.get(name, {})) and not _MOMENT.fullmatch(value) for name, value in texts)


def _is_known(name: str, value: Any, told: str, seen: Sequence[Any]) -> bool:
    if isinstance(value, int):
        return any(type(leaf) is int and leaf == value for leaf in seen) or re.search(rf"\b{value}\b", told) is not None
    text = value.casefold().strip()
    if not text or _MOMENT.fullmatch(text) or text in told:
        return True
    texts = [str(leaf).casefold() for leaf in seen]
    if any(text in other for other in texts):
        return True
    words = set(_WORD.findall(text))
    return words <= set(_WORD.findall(told)).union(*(_WORD.findall(other) for other in texts))


def _leaves(value: Any) -> Iterator[Any]:
    """The scalars of a JSON value; keys are not among them."""
    if isinstance(value, Mapping):
        for part in value.values():
            yield from _leaves(part)
    elif isinstance(value, list):
        for part in value:
            yield from _leaves(part)
    elif value is not None:
        yield value

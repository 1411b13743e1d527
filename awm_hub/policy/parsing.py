"""Reading an assistant's text: thoughts, calls, or an answer.

The protocol is Qwen3's: `<tool_call>{"name": …, "arguments": {…}}</tool_call>`, one to a message, thoughts in
`<think>` before it. Models that were not trained on it write calls bare, fenced, several at once or with arguments as a
text. Such calls are still read, but each deviation is a violation of rule 3, so strict and lenient mode see the same
text alike and differ in what they do about it: in strict mode a message with a violation does nothing. Outside the tags
only an object that names a known tool and has arguments is a call; any other JSON is an answer. A text after the call
breaks no rule. What cannot be read is a violation and never an exception.
"""

import json
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from awm_hub.canonical import MAX_JSON_BYTES, MAX_JSON_DEPTH, STRICT_DECODER, depth, from_json, to_json
from awm_hub.errors import RecordError
from awm_hub.inference.replies import escaped
from awm_hub.policy.acting import Action, Call
from awm_hub.policy.rules import INVALID_ARGUMENTS, violation

OPENING, CLOSING = "<tool_call>", "</tool_call>"
_FENCE = "```"
_MAX_CALLS = 64
"""Read of one message; a model that repeats itself writes any number."""


@dataclass(kw_only=True)
class Reading:
    """What a text was found to say, and what is wrong with how it says it."""

    calls: list[Call] = field(default_factory=list)
    answer: str | None = None
    complaints: list[str] = field(default_factory=list)
    allows_null: bool = False


def parse(text: str, known: Collection[str], *, is_strict: bool, turn: int = 0) -> Action:
    """Take an assistant's text apart.

    Args:
        text: The message's content.
        known: Names that a call outside the tags may have.
        is_strict: A message that breaks the format has neither calls nor an answer.
        turn: Position of the message, for its violations.
    """
    thought, said = split_thoughts(text)
    found = read(said, known)
    violations = tuple(violation(INVALID_ARGUMENTS, turn, complaint) for complaint in found.complaints)
    if violations and is_strict:
        return Action(thought=thought, violations=violations)
    return Action(calls=tuple(found.calls), answer=found.answer, thought=thought, violations=violations)


def split_thoughts(text: str) -> tuple[str | None, str]:
    """The thoughts of a text and what remains.

    Some chat templates open the block in the prompt, so that a text may close one that it never opened. A block that is
    never closed was cut off: all that follows is thought.
    """
    said, thoughts, position = [], [], 0
    first_end = text.find("</think>")
    if first_end >= 0 and "<think>" not in text[:first_end]:
        thoughts.append(text[:first_end])
        position = first_end + len("</think>")
    while (start := text.find("<think>", position)) >= 0:
        said.append(text[position:start])
        end = text.find("</think>", start)
        thoughts.append(text[start + len("<think>") : end if end >= 0 else None])
        position = end + len("</think>") if end >= 0 else len(text)
    thought = "\n".join(part.strip() for part in thoughts).strip()
    return thought or None, "".join([*said, text[position:]]).strip()


def read(said: str, known: Collection[str], *, allows_null: bool = False) -> Reading:
    """Find the calls or the answer in a text without its thoughts; `allows_null` of a call's arguments."""
    if len(said) > MAX_JSON_BYTES:
        return Reading(complaints=[f"the message is longer than {MAX_JSON_BYTES} characters"])
    if OPENING in said and depth(said) > MAX_JSON_DEPTH:
        return Reading(complaints=[f"the message is nested deeper than {MAX_JSON_DEPTH}"])
    if OPENING in said or CLOSING in said:
        return _tagged(said, Reading(allows_null=allows_null))
    untagged = _untagged(said, known)
    if untagged.calls:
        untagged.complaints.insert(0, f"a call stands outside {OPENING}")
        return untagged
    return Reading(answer=said) if said else Reading(complaints=["the message holds neither a call nor an answer"])


def read_arguments(text: str) -> tuple[Any, str | None]:
    """Arguments from their JSON text, and what is wrong with it; then they are the text itself."""
    try:
        found = from_json(text, "the text of the arguments")
        to_json(found)
    except RecordError as error:
        return text, error.message
    return (found, None) if isinstance(found, dict) else (text, "the arguments are no object")


def _tagged(said: str, found: Reading) -> Reading:
    position = said.find(OPENING)
    if position < 0:
        found.complaints.append(f"{CLOSING} closes nothing")
    for _ in range(_MAX_CALLS):
        if position < 0:
            break
        value, end, complaint = _value_at(said, position + len(OPENING))
        if complaint is not None:
            found.complaints.append(complaint)
        else:
            _take(value, found)
            if not said[end:].lstrip().startswith(CLOSING):
                found.complaints.append(f"the call does not end with {CLOSING}")
        position = said.find(OPENING, end)
    if len(found.calls) > 1:
        found.complaints.append(f"a message makes one call, this one makes {len(found.calls)}")
    return found


def _value_at(said: str, start: int) -> tuple[Any, int, str | None]:
    """The JSON value at a position, where it ends, and what is wrong with it."""
    while start < len(said) and said[start].isspace():
        start += 1
    try:
        value, end = STRICT_DECODER.raw_decode(said, start)
    except ValueError as error:
        return None, start, f"the call is no well-formed JSON: {error}"
    return value, end, None


def _take(value: Any, found: Reading) -> None:
    """Add the calls that a tagged value makes."""
    if isinstance(value, list):
        found.complaints.append("the calls stand in an array")
    for item in value if isinstance(value, list) else [value]:
        if not isinstance(item, dict) or not isinstance(item.get("name"), str):
            found.complaints.append("the call is no object with a name")
        elif "arguments" not in item and len(item) > 1:
            found.complaints.append(f"the call has {', '.join(sorted(escaped(list(item))))} but no arguments")
        else:
            _add(item["name"], item.get("arguments"), found)


def _add(name: str, arguments: Any, found: Reading) -> None:
    """Add one call, its arguments an object wherever they can be read as one."""
    complaint: str | None = None
    if arguments is None:
        arguments, complaint = {}, None if found.allows_null else "the call has no arguments"
    elif isinstance(arguments, str):
        (arguments, worse), complaint = read_arguments(arguments), "the arguments are a text"
        complaint = worse or complaint
    else:
        arguments, complaint = read_arguments(json.dumps(arguments))
    if complaint is not None:
        found.complaints.append(complaint)
    found.calls.append(Call(tool=escaped(name), arguments=arguments))


def _untagged(said: str, known: Collection[str]) -> Reading:
    """Calls of known tools in a text that is nothing but JSON, or that ends with fenced JSON."""
    found = Reading()
    items = _objects(said) or _objects(_last_fence(said))
    if all(item.get("name") in known and isinstance(item.get("arguments"), dict | str) for item in items):
        for item in items:
            _add(item["name"], item["arguments"], found)
    return found


def _last_fence(said: str) -> str:
    """What is inside the fence that ends a text; nothing where none does."""
    if not said.endswith(_FENCE):
        return ""
    start = said.rfind(_FENCE, 0, -len(_FENCE))
    return "" if start < 0 else said[start : -len(_FENCE)].partition("\n")[2]


def _objects(text: str) -> list[dict[str, Any]]:
    """The named objects of a JSON text that is one, or a list of them."""
    if text.strip()[:1] not in ("{", "["):
        return []
    try:
        value = from_json(text)
    except RecordError:
        return []
    items = value if isinstance(value, list) else [value]
    return items if all(isinstance(item, dict) and isinstance(item.get("name"), str) for item in items) else []

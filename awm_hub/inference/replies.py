"""A model's reply, read from whatever an OpenAI-compatible server made of the form.

Servers differ in where thoughts go (`reasoning_content`, `reasoning`, or in the text), some send arguments as an object
in place of a text, and some stream although nobody asked. Half of a surrogate pair, which some models write and no
UTF-8 holds, becomes its JSON escape: inside a JSON text that means the same, and elsewhere it can be seen and stored.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from awm_hub.inference.usage import Usage

_HALF = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, kw_only=True)
class ToolCallText:
    """A tool call as the model wrote it: the arguments are an unread text."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, kw_only=True)
class Reply:
    """One assistant message."""

    content: str | None = None
    reasoning: str | None = None
    """Thoughts that the server keeps apart from the content."""
    tool_calls: tuple[ToolCallText, ...] = ()
    finish_reason: str | None = None
    """`stop`, `tool_calls`, `length` and the like."""
    usage: Usage = field(default_factory=Usage)

    @property
    def attempts(self) -> int:
        """Requests that it took."""
        return self.usage.requests

    def message(self) -> dict[str, Any]:
        """The message in chat form."""
        found: dict[str, Any] = {"role": "assistant", "content": self.content}
        if self.reasoning is not None:
            found["reasoning_content"] = self.reasoning
        if self.tool_calls:
            found["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                for call in self.tool_calls
            ]
        return found


def reply_of(completion: Any) -> Reply:
    """Read a chat completion, an object or a mapping; its usage holds the tokens.

    Raises:
        ValueError: it is none.
    """
    choices = _field(completion, "choices")
    if not isinstance(choices, list) or not choices:
        raise ValueError(_complaint(completion))
    message = _field(choices[0], "message")
    if not isinstance(message, Mapping):
        raise ValueError("the choice has no message")
    counted = _field(completion, "usage")
    return Reply(
        content=_text(_field(message, "content")),
        reasoning=_text(_field(message, "reasoning_content") or _field(message, "reasoning")),
        tool_calls=tuple(_tool_call(i, call) for i, call in enumerate(_field(message, "tool_calls") or ())),
        finish_reason=_text(_field(choices[0], "finish_reason")),
        usage=Usage(
            prompt_tokens=_count(_field(counted, "prompt_tokens")),
            completion_tokens=_count(_field(counted, "completion_tokens")),
        ),
    )


def joined_stream(text: str) -> dict[str, Any]:
    """A completion from its server-sent events.

    Raises:
        ValueError: the text is no such stream, or one that was cut off.
    """
    message: dict[str, Any] = {"role": "assistant", "content": None}
    calls: dict[int, dict[str, Any]] = {}
    found: dict[str, Any] = {"finish_reason": None, "message": message}
    usage = None
    for chunk in _chunks(text):
        usage = chunk.get("usage") or usage
        for choice in chunk.get("choices", ())[:1]:
            _add(choice.get("delta") or {}, message, calls)
            found["finish_reason"] = choice.get("finish_reason") or found["finish_reason"]
    if found["finish_reason"] is None:
        raise ValueError("the stream was cut off")
    message["tool_calls"] = list(calls.values())
    return {"choices": [found], "usage": usage}


def escaped(value: Any) -> Any:
    """The same JSON value, each half of a surrogate pair as its escape."""
    if isinstance(value, str):
        return _HALF.sub(lambda match: f"\\u{ord(match[0]):04x}", value)
    if isinstance(value, Mapping):
        return {escaped(key): escaped(part) for key, part in value.items()}
    return [escaped(part) for part in value] if isinstance(value, list | tuple) else value


def _chunks(text: str) -> Iterator[dict[str, Any]]:
    for line in text.split("\n"):
        data = line.removeprefix("data:").strip() if line.startswith("data:") else ""
        if data and data != "[DONE]":
            chunk = json.loads(data)
            if not isinstance(chunk, dict) or "error" in chunk:
                raise ValueError(_complaint(chunk))
            yield chunk


def _add(delta: dict[str, Any], message: dict[str, Any], calls: dict[int, dict[str, Any]]) -> None:
    for name in ("content", "reasoning_content", "reasoning"):
        if delta.get(name):
            message[name] = (message.get(name) or "") + delta[name]
    for part in delta.get("tool_calls") or ():
        call = calls.setdefault(part.get("index", 0), {"id": None, "function": {"name": "", "arguments": ""}})
        call["id"] = part.get("id") or call["id"]
        for name in ("name", "arguments"):
            call["function"][name] += (part.get("function") or {}).get(name) or ""


def _field(found: Any, name: str) -> Any:
    """A field of an object or a mapping; the client's records are both, and hold unknown fields as attributes only."""
    value = getattr(found, name, None)
    return found.get(name) if value is None and isinstance(found, Mapping) else value


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return None if value is None else str(escaped(value))
    if isinstance(value, list):  # content in parts
        return "".join(str(escaped(part.get("text", ""))) for part in value if isinstance(part, Mapping))
    raise ValueError(f"a text of the reply is {type(value).__name__}")


def _tool_call(position: int, call: Any) -> ToolCallText:
    function = _field(call, "function")
    name, arguments = _field(function, "name"), _field(function, "arguments")
    if not isinstance(name, str):
        raise ValueError("a tool call of the reply has no name")
    text = arguments if isinstance(arguments, str) else json.dumps({} if arguments is None else arguments)
    return ToolCallText(id=str(_field(call, "id") or f"call_{position}"), name=escaped(name), arguments=escaped(text))


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _complaint(found: Any) -> str:
    """What a body that is no completion says went wrong, if it does."""
    error = _field(found, "error")
    said = _field(error, "message") or error
    return said if isinstance(said, str) else "there are no choices in it"

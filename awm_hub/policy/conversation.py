"""An episode as a chat: what was said and what came back, for the endpoint and for the record.

The record keeps assistant messages as they were written. What an endpoint is sent again has the thoughts taken out,
unless the policy keeps them, and holds no text that a server would choke on.
"""

import math
from collections.abc import Iterable
from typing import Any

from awm_hub.canonical import to_json
from awm_hub.inference.replies import escaped
from awm_hub.policy import prompts
from awm_hub.policy.acting import Message, Turn
from awm_hub.policy.parsing import read_arguments, split_thoughts

_BYTES_PER_TOKEN = 3
"""Of JSON and English in current tokenizers there are 3 to 4; fewer make the estimate a cautious one."""


def tokens(messages: Iterable[Message]) -> int:
    """Tokens of some messages or tools, estimated from their length as JSON."""
    return sum(math.ceil(len(to_json(escaped(message)).encode()) / _BYTES_PER_TOKEN) for message in messages)


def told(turn: Turn, *, listing: str, result_chars: int) -> list[Message]:
    """What a model was told after one of its messages.

    Args:
        turn: The message and its results.
        listing: What `list_tools` answers.
        result_chars: Longer results are shortened.
    """
    texts = [shortened(result.text(), result_chars) for result in turn.results]
    if turn.action.lists_tools:
        texts.insert(0, listing)
    called = (turn.action.message or {}).get("tool_calls", [])
    if called:
        return [
            {"role": "tool", "tool_call_id": call["id"], "content": text}
            for call, text in zip(called, texts, strict=False)
        ]
    if texts:
        answers = "\n".join(f"<tool_response>\n{text}\n</tool_response>" for text in texts)
        return [{"role": "user", "content": answers}]
    if turn.action.answer is None and turn.action.violations:
        complaints = "; ".join(broken.message for broken in turn.action.violations)
        return [{"role": "user", "content": prompts.UNREADABLE.format(complaints=complaints)}]
    return []


def written(turn: Turn) -> Message:
    """The assistant message of a turn as it was written."""
    return turn.action.message or {"role": "assistant", "content": turn.action.answer or ""}


def repeated(turn: Turn, *, keeps_thoughts: bool) -> Message:
    """The assistant message of a turn as the endpoint is sent it again."""
    message = written(turn)
    thought, said = split_thoughts(message.get("content") or "")
    thought = turn.action.thought or thought
    if keeps_thoughts and thought:
        said = f"<think>\n{thought}\n</think>\n\n{said}"
    found: Message = {"role": "assistant", "content": said}
    if message.get("tool_calls"):
        found["tool_calls"] = [_readable(call) for call in message["tool_calls"]]
    return found


def shortened(text: str, limit: int) -> str:
    """A text of a limited length; the last line of a shortened one says so."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}\n{prompts.CUT.format(shown=limit, size=len(text))}"


def _readable(call: dict[str, Any]) -> dict[str, Any]:
    """The call with arguments that a chat template can read: some read them as JSON, and fail if they are none."""
    function = call["function"]
    _, complaint = read_arguments(function["arguments"])
    if complaint is None:
        return call
    arguments = to_json({"unreadable": function["arguments"]} if function["arguments"].strip() else {})
    return {**call, "function": {**function, "arguments": arguments}}

"""The two ways in which a model reaches an environment's tools, each from a reply to an action.

*native*: every tool is a tool of the request, and calls come back taken apart by the server. *text*: the paper's
protocol; the request has no tools, and the text calls one of two meta-tools, `list_tools` and `call_tool`. Two
meta-tools keep a prompt short where an environment has thirty-five tools. Upstream's checkpoints know tools by names
with a prefix, which is put before every name the model sees and taken off every name it says. They were also taught
other forms of a call (arguments of `call_tool` as JSON text, null for none, a tool called by its own name), which break
no rule where there is a prefix.
"""

from dataclasses import dataclass, field, replace
from typing import Any

from awm_hub.canonical import to_json
from awm_hub.environment import ToolSpec
from awm_hub.inference import Reply
from awm_hub.policy.acting import Action, Call
from awm_hub.policy.parsing import Reading, read, read_arguments, split_thoughts
from awm_hub.policy.rules import INVALID_ARGUMENTS, UNKNOWN_TOOL, violation

LIST_TOOLS, CALL_TOOL = "list_tools", "call_tool"
_CALL_KEYS = {"tool_name", "arguments"}
_CUT = "; the reply was cut at its limit of tokens (finish_reason length): raise --max-tokens"


@dataclass(frozen=True, kw_only=True)
class Naming:
    """The tools' names as the model knows them."""

    tools: tuple[ToolSpec, ...]
    prefix: str = ""

    def shown(self) -> list[dict[str, Any]]:
        """What a model is told of the tools."""
        return [
            {"name": self.prefix + t.name, "description": t.description, "parameters": t.input_schema}
            for t in self.tools
        ]

    def known(self) -> set[str]:
        """The names it may say."""
        return {self.prefix + tool.name for tool in self.tools}

    def meant(self, name: str) -> tuple[str, bool]:
        """The tool that a name means, and whether the model said it as it was told."""
        return name.removeprefix(self.prefix), not self.prefix or name.startswith(self.prefix)


def native_tools(naming: Naming) -> list[dict[str, Any]]:
    """The tools of a request."""
    return [{"type": "function", "function": tool} for tool in naming.shown()]


def listing(naming: Naming) -> str:
    """What `list_tools` answers."""
    return to_json(naming.shown())


def action_of(reply: Reply, naming: Naming, *, is_text: bool, is_strict: bool, turn: int) -> Action:
    """A reply as an action.

    Args:
        reply: What the endpoint gave.
        naming: The tools' names.
        is_text: Whether the text protocol is spoken.
        is_strict: A message that breaks the format has neither calls nor an answer.
        turn: Position of the message, for its violations.
    """
    thought, reading = _reading(reply, naming, is_text=is_text)
    found = [_meant(call, naming, is_text=is_text) for call in reading.calls]
    complaints = [(INVALID_ARGUMENTS, text) for text in reading.complaints] + [c for m in found for c in m.complaints]
    cut = _CUT if reply.finish_reason == "length" else ""
    violations = tuple(violation(rule, turn, text + cut) for rule, text in complaints)
    said = Action(
        lists_tools=any(m.lists_tools for m in found),
        thought=thought,
        violations=violations,
        message=reply.message(),
        usage=reply.usage,
    )
    if violations and is_strict:
        return said
    return replace(said, calls=tuple(m.call for m in found if m.call is not None), answer=reading.answer)


@dataclass(frozen=True, kw_only=True)
class _Meaning:
    """What a call means to the environment, and which rules it breaks."""

    call: Call | None = None
    lists_tools: bool = False
    complaints: list[tuple[int, str]] = field(default_factory=list)


def _meant(call: Call, naming: Naming, *, is_text: bool) -> _Meaning:
    complaints: list[tuple[int, str]] = []
    if is_text and call.tool == LIST_TOOLS:
        if call.arguments != {}:
            complaints.append((INVALID_ARGUMENTS, f"{LIST_TOOLS} takes no arguments"))
        return _Meaning(lists_tools=True, complaints=complaints)
    if is_text and call.tool == CALL_TOOL:
        inner, wrong = _inner(call.arguments, takes_text=bool(naming.prefix))
        complaints += [(INVALID_ARGUMENTS, text) for text in wrong]
        if inner is None:
            return _Meaning(complaints=complaints)
        call = inner
    elif is_text and not (naming.prefix and call.tool in naming.known()):
        complaints.append((UNKNOWN_TOOL, f"there is no function {call.tool!r}"))
    tool, is_as_told = naming.meant(call.tool)
    if not is_as_told:
        complaints.append((UNKNOWN_TOOL, f"there is no tool {call.tool!r}"))
    return _Meaning(call=Call(tool=tool, arguments=call.arguments), complaints=complaints)


def _reading(reply: Reply, naming: Naming, *, is_text: bool) -> tuple[str | None, Reading]:
    """Thoughts and calls, the latter from the text where the server took none out of it."""
    written, said = split_thoughts(reply.content or "")
    thought = "\n".join(part for part in (reply.reasoning and reply.reasoning.strip(), written) if part) or None
    if not reply.tool_calls:
        known = naming.known() | ({LIST_TOOLS, CALL_TOOL} if is_text else set())
        return thought, read(said, known, allows_null=bool(naming.prefix))
    found = Reading()
    for call in reply.tool_calls:
        arguments, complaint = read_arguments(call.arguments) if call.arguments.strip() else ({}, None)
        found.calls.append(Call(tool=call.name, arguments=arguments))
        found.complaints += [] if complaint is None else [complaint]
    if is_text and len(found.calls) > 1:
        found.complaints.append(f"a message makes one call, this one makes {len(found.calls)}")
    return thought, found


def _inner(arguments: Any, *, takes_text: bool) -> tuple[Call | None, list[str]]:
    """The call that `call_tool` is to make, and what is wrong with how it is said; its arguments may be JSON text."""
    if not isinstance(arguments, dict) or not isinstance(arguments.get("tool_name"), str):
        return None, [f"{CALL_TOOL} takes tool_name, a text, and arguments"]
    inner: Any = arguments.get("arguments")
    complaints: list[str] = []
    if arguments.keys() != _CALL_KEYS:
        complaints.append(f"{CALL_TOOL} takes tool_name and arguments, and nothing else")
    if isinstance(inner, str):
        if not takes_text:
            complaints.append("the arguments are a text")
        inner, worse = read_arguments(inner)
        complaints += [] if worse is None else [worse]
    elif inner is None:
        inner, complaints = {}, complaints or ["the arguments are null"]
    elif not isinstance(inner, dict):
        complaints.append("the arguments are no object")
    return Call(tool=arguments["tool_name"], arguments=inner), complaints

"""The paper's six format rules (§4), checked at each step of a rollout.

1. `think_missing`: every assistant message has a non-empty think block.
2. `unknown_tool`: no unknown tool is called.
3. `invalid_arguments`: arguments are well-formed JSON that conforms to the tool's schema. The form of the whole call
   counts here too: a message makes one well-formed call in the protocol's form, or gives an answer.
4. `list_tools_first`: `list_tools` is called exactly once, and first.
5. `no_successful_call`: a rollout of several turns has a successful call beyond `list_tools`.
6. `server_error`: every call gets a response that is no error of the server. A refusal is a response.

Rules 1 to 5 are the policy's, 6 is the environment's. In strict mode the first broken rule ends the rollout; in lenient
mode the same rules are recorded and the rollout goes on, which is how models are evaluated that were never trained on
the protocol. Rules 1 and 4 only apply where a policy reaches its tools through `list_tools` and `call_tool`. Nothing is
recorded twice: what a message shows is not said again of its results.
"""

from collections.abc import Iterable, Mapping

from awm_hub.policy.acting import Action, Call, View, Violation
from awm_hub.trajectory import ToolResult

THINK_MISSING, UNKNOWN_TOOL, INVALID_ARGUMENTS, LIST_TOOLS_FIRST, NO_SUCCESSFUL_CALL, SERVER_ERROR = range(1, 7)
RULES: Mapping[int, str] = {
    THINK_MISSING: "think_missing",
    UNKNOWN_TOOL: "unknown_tool",
    INVALID_ARGUMENTS: "invalid_arguments",
    LIST_TOOLS_FIRST: "list_tools_first",
    NO_SUCCESSFUL_CALL: "no_successful_call",
    SERVER_ERROR: "server_error",
}
"""Names of the rules by their numbers in the paper."""


def violation(rule: int, turn: int, message: str) -> Violation:
    """A broken rule under its name."""
    return Violation(rule=rule, name=RULES[rule], turn=turn, message=message)


def check_message(action: Action, view: View, *, uses_meta_tools: bool) -> tuple[Violation, ...]:
    """What an assistant message breaks before its calls are made: its own violations, and rules 1 to 4."""
    turn = len(view.turns)
    found = list(action.violations)
    if uses_meta_tools:
        found += _protocol(action, view)
    if INVALID_ARGUMENTS not in _numbers(found) and any(not isinstance(c.arguments, Mapping) for c in action.calls):
        found.append(violation(INVALID_ARGUMENTS, turn, "the arguments of a call are no object"))
    if UNKNOWN_TOOL not in _numbers(found):
        unknown = [call.tool for call in action.calls if not _is_known(call, view)]
        found += [violation(UNKNOWN_TOOL, turn, f"there is no tool {name!r}") for name in unknown]
    return tuple(found)


def check_result(call: Call, result: ToolResult, view: View) -> tuple[Violation, ...]:
    """What the result of a call breaks, beyond what the message showed: rules 2, 3 and 6.

    Args:
        call: What was called.
        result: What came of it.
        view: What the policy saw before its message.
    """
    turn = len(view.turns)
    if result.type == "fault":
        return (violation(SERVER_ERROR, turn, f"{call.tool}: {result.code}: {result.message}"),)
    if result.type != "invalid_call" or not _is_known(call, view) or not isinstance(call.arguments, Mapping):
        return ()
    rule = UNKNOWN_TOOL if result.code == "unknown_tool" else INVALID_ARGUMENTS
    return (violation(rule, turn, f"{call.tool}: {result.message}"),)


def check_ending(view: View) -> tuple[Violation, ...]:
    """What a rollout breaks as a whole, once its last turn is in the view: rule 5."""
    if len(view.turns) < 2 or any(result.is_ok for turn in view.turns for result in turn.results):
        return ()
    return (violation(NO_SUCCESSFUL_CALL, len(view.turns), "no call of a tool succeeded"),)


def _protocol(action: Action, view: View) -> Iterable[Violation]:
    turn = len(view.turns)
    if not (action.thought or "").strip():
        yield violation(THINK_MISSING, turn, "the message has no thoughts")
    if turn == 0 and not action.lists_tools:
        yield violation(LIST_TOOLS_FIRST, turn, "the first message does not call list_tools")
    if action.lists_tools and any(earlier.action.lists_tools for earlier in view.turns):
        yield violation(LIST_TOOLS_FIRST, turn, "list_tools is called again")


def _numbers(found: Iterable[Violation]) -> set[int]:
    return {broken.rule for broken in found}


def _is_known(call: Call, view: View) -> bool:
    return any(tool.name == call.tool for tool in view.tools)

"""Views of an episode, made without an environment behind them."""

from typing import Any

from awm_hub.environment import ToolSpec
from awm_hub.policy import Action, Call, Turn, View
from awm_hub.trajectory import ToolResult

ADD_NOTE = ToolSpec(
    name="add_note",
    description="Add a note.",
    input_schema={"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
)
LIST_NOTES = ToolSpec(name="list_notes", description="All notes.", input_schema={"type": "object", "properties": {}})


def view_of(*turns: Turn, tools: tuple[ToolSpec, ...] = (ADD_NOTE, LIST_NOTES), seed: int = 0) -> View:
    """A view of the notes desk after some turns."""
    return View(
        environment_id="notes",
        task_id="notes/t0",
        briefing="The notes desk.",
        prompt="Add a note that says hello.",
        tools=tools,
        seed=seed,
        turns=turns,
    )


def ok(value: Any = None) -> ToolResult:
    """A call that returned."""
    return ToolResult(type="ok", value=value)


def listed(thought: str | None = "what is there?") -> Turn:
    """A turn that listed the tools."""
    return Turn(action=Action(lists_tools=True, thought=thought))


def called(tool: str = "add_note", arguments: Any = None, *, result: ToolResult | None = None) -> Turn:
    """A turn with one call."""
    call = Call(tool=tool, arguments={"text": "hello"} if arguments is None else arguments)
    return Turn(action=Action(calls=(call,), thought="now"), results=(result or ok({"id": 3}),))

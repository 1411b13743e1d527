"""What `awm-hub play` offers: its commands, what it lists, and what the tab key completes."""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from awm_hub.cli.terminal import Console, clean_line, json_text, summary, table

if TYPE_CHECKING:
    from awm_hub.environment import Environment, ToolSpec

COMMANDS = {
    "help": "what can be done; help TOOL shows a tool's parameters",
    "tools": "list the tools; tools WORD only those with this word",
    "briefing": "what an agent is told: the scenario, who asks, the rules, the date",
    "tasks": "list the tasks",
    "task": "show the task again; task NAME or a number begins one",
    "call": "call TOOL key=value …, for a tool named like a command",
    "result": "the last result whole; result N that of call N",
    "diff": "rows that differ from the beginning",
    "undo": "take the last call or answer back",
    "reset": "begin again",
    "submit": "submit ANSWER ends the episode and shows the verdict",
    "save": "save FILE writes the episode as a trajectory",
    "quit": "leave",
}
"""Words that are no tools, with what they do."""

_WIDTH = 80


def help_lines(console: Console) -> Iterator[str]:
    """What can be done."""
    yield 'TOOL key=value … calls a tool; quote values with blanks: title="Pocket Atlas"'
    yield 'TOOL {"key": "value"} does too'
    yield from table([(console.style(name, "bold"), text) for name, text in COMMANDS.items()])


def tools_lines(environment: "Environment", word: str) -> Iterator[str]:
    """The tools whose name or description holds a word."""
    asked = word.casefold()
    tools = [t for t in environment.tools if asked in f"{t.name} {t.description}".casefold()]
    if not tools:
        yield f"no tool speaks of {clean_line(word)!r}"
    yield from table([(t.name, t.effect, summary(t.description, _WIDTH)) for t in tools])


def task_lines(environment: "Environment") -> Iterator[str]:
    """The tasks with their numbers."""
    rows = [(str(n), t.slug, summary(t.instruction, _WIDTH)) for n, t in enumerate(environment.tasks, 1)]
    yield from table(rows) if rows else ["there are no tasks"]


def tool_lines(tool: "ToolSpec", console: Console) -> Iterator[str]:
    """A tool with its parameters."""
    yield f"{console.style(tool.name, 'bold')}  {console.style(tool.effect, 'dim')}"
    yield console.wrapped(tool.description.strip())
    required = tool.input_schema.get("required")
    needed = required if isinstance(required, list) else []
    rows = [
        ("  " + clean_line(name), kind_of(schema), "required" if name in needed else "", _described(schema))
        for name, schema in parameters(tool).items()
    ]
    yield from table(rows) if rows else ["  it takes no arguments"]


def parameters(tool: "ToolSpec") -> Mapping[str, Any]:
    """The parameters of a tool, from its untrusted schema."""
    found = tool.input_schema.get("properties")
    return found if isinstance(found, dict) else {}


def kind_of(schema: Any) -> str:
    """What a parameter takes, in a few words."""
    if values := choices(schema):
        return clean_line("|".join(values), 40)
    found = schema.get("type") if isinstance(schema, Mapping) else None
    if isinstance(found, str):
        return clean_line(found, 20)
    kinds = [kind_of(option) for option in _options(schema)]
    return clean_line("|".join(dict.fromkeys(kinds)), 40) or "any"


def choices(schema: Any) -> tuple[str, ...]:
    """The values that a parameter may have, as they are typed, where the schema lists them."""
    if not isinstance(schema, Mapping):
        return ()
    if schema.get("type") == "boolean":
        return ("true", "false")
    values = schema.get("enum")
    if isinstance(values, list):
        return tuple(clean_line(v if isinstance(v, str) else json_text(v)) for v in values)
    return tuple(dict.fromkeys(value for option in _options(schema) for value in choices(option)))


def completer(environment: "Environment") -> Callable[[str], list[str]]:
    """Finds what the last word of an unfinished line may become: a tool, a command, a parameter, one of its values."""
    tools = {t.name: t for t in environment.tools}

    def find(line: str) -> list[str]:
        *before, last = line.lstrip().split(" ")
        if before[:1] == ["call"] and len(before) > 1:
            before = before[1:]
        return [word for word in _candidates(before, last, environment, tools) if word.startswith(last)]

    return find


def _candidates(before: list[str], last: str, environment: "Environment", tools: Mapping[str, "ToolSpec"]) -> list[str]:
    if not before:
        return [f"{word} " for word in (*tools, *COMMANDS)]
    if before[0] in ("call", "help") and len(before) == 1:
        return [f"{name} " for name in tools]
    if before == ["task"]:
        return [task.slug for task in environment.tasks]
    if before[0] not in tools:
        return []
    known = parameters(tools[before[0]])
    name, equals, _ = last.partition("=")
    if equals:
        return [f"{name}={value} " for value in choices(known.get(name))]
    given = {word.partition("=")[0] for word in before}
    return [f"{clean_line(name)}=" for name in known if name not in given]


def _options(schema: Any) -> list[Any]:
    found = schema.get("anyOf") if isinstance(schema, Mapping) else None
    return found if isinstance(found, list) else []


def _described(schema: Any) -> str:
    text = schema.get("description") if isinstance(schema, Mapping) else None
    return summary(text, _WIDTH) if isinstance(text, str) else ""

"""`awm-hub call`: one tool call on a fresh instance, its result and the rows it changed."""

import argparse
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from awm_hub.cli.arguments import read_arguments
from awm_hub.cli.choosing import chosen_environment, in_dataset, naming_dataset
from awm_hub.cli.diffs import diff_lines
from awm_hub.cli.options import Verbs, add_dataset, add_launch, add_verb
from awm_hub.cli.outcomes import Failure, Finished
from awm_hub.cli.terminal import Console, clean, json_text
from awm_hub.errors import UsageError

if TYPE_CHECKING:
    from awm_hub.cli.reports import CallReport
    from awm_hub.environment import Environment, ToolSpec
    from awm_hub.runtime import Instance
    from awm_hub.trajectory import ToolResult

_EXIT_CODES = {"invalid_call": 3, "fault": 4}
_DETAILS = """A parameter that takes text gets the characters after = as they are; any other takes JSON.

Exit code 1 says that the environment refused the call, 3 that the call breaks the tool's schema, 4 that the environment
failed."""


def add(verbs: Verbs) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "call",
        "Call one tool of a fresh instance and show what it changed.",
        details=_DETAILS,
        examples=(
            "awm-hub call public_library_1 search_members query=Mateo limit=1",
            """awm-hub call public_library_1 search_members --arguments '{"query": "Mateo"}'""",
            "awm-hub call public_library_1 search_members --arguments @call.json --json",
        ),
    )
    parser.add_argument("environment", metavar="ENV", help="id of the environment")
    parser.add_argument("tool", metavar="TOOL", nargs="?", help="name of the tool; awm-hub show ENV --tools lists them")
    parser.add_argument("pairs", metavar="key=value", nargs="*", help="arguments of the tool")
    parser.add_argument("--arguments", metavar="JSON", help="all arguments as a JSON object; @FILE reads one, @- stdin")
    parser.add_argument("--task", metavar="TASK", help="start from the state that this task sets up")
    add_dataset(parser)
    add_launch(parser)
    parser.usage = "%(prog)s ENV TOOL [key=value ...] [options]"
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace, console: Console) -> Finished | Failure:
    """Call a tool."""
    from awm_hub.cli.reports import CallReport

    environment = chosen_environment(arguments)
    if arguments.tool is None:
        raise UsageError("call needs the name of a tool", next_step=f"awm-hub show {environment.id} --tools")
    with naming_dataset(arguments):
        tool = environment.tool(arguments.tool)
        values = read_arguments(tool, arguments.pairs, arguments.arguments)
        instance = _launched(environment, arguments)
    with instance:
        result = instance.call_tool(tool.name, values)
        report = CallReport(
            environment=environment.id,
            task=None if instance.task is None else instance.task.id,
            seed=arguments.seed,
            tier=instance.tier,
            tool=tool.name,
            arguments=values,
            result=result.to_dict(),
            diff=instance.diff().to_dict(),
        )
    if result.type in _EXIT_CODES:
        next_step = in_dataset(f"awm-hub show {environment.id} --tool {tool.name}", arguments)
        return _failure(result, _hint(tool, values) + next_step)
    for line in _lines(report, result, console):
        console.say(line)
    return Finished(data=report, exit_code=0 if result.is_ok else 1)


def _launched(environment: "Environment", arguments: argparse.Namespace) -> "Instance":
    from awm_hub.runtime import launch

    trust = arguments.trust_remote_code
    return launch(environment, task=arguments.task, seed=arguments.seed, trust_remote_code=trust)


def _hint(tool: "ToolSpec", values: Mapping[str, Any]) -> str:
    """How a boolean is written, where another word was given for one."""
    properties = tool.input_schema.get("properties")
    known = properties if isinstance(properties, dict) else {}
    for name, value in values.items():
        if isinstance(value, str) and _takes_boolean(known.get(name)):
            return f"write true or false, {name}=true; "
    return ""


def _takes_boolean(schema: Any) -> bool:
    """Whether a parameter with this untrusted schema takes true and false."""
    options = schema.get("anyOf") if isinstance(schema, dict) else None
    if isinstance(options, list):
        return any(_takes_boolean(option) for option in options)
    return isinstance(schema, dict) and schema.get("type") == "boolean"


def _failure(result: "ToolResult", next_step: str) -> Failure:
    is_named = not result.code or result.message.startswith(result.code)
    message = result.message if is_named else f"{result.code}: {result.message}"
    return Failure(type=result.type, message=message, next=next_step, exit_code=_EXIT_CODES[result.type])


def _lines(report: "CallReport", result: "ToolResult", console: Console) -> Iterator[str]:
    if result.is_ok:
        yield console.style("ok", "green", "bold")
        yield clean(result.value) if isinstance(result.value, str) else json_text(result.value, indent=2)
    else:
        yield console.style(f"{result.type}: {result.code}", "yellow", "bold")
        yield clean(result.message)
    yield ""
    yield from diff_lines(report.diff, console)

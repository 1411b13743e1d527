"""`awm-hub show`: one environment, whole or one aspect of it.

Nothing is run. The tables come from the stored image, which only a sealed process opens.
"""

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from awm_hub.cli.choosing import chosen_environment, naming_dataset
from awm_hub.cli.options import Verbs, add_dataset, add_verb
from awm_hub.cli.outcomes import Finished, plain
from awm_hub.cli.terminal import Console, clean, clean_line, json_text, summary, table

if TYPE_CHECKING:
    from awm_hub.cli.reports import ShownTable, ShownTask, ShownTool, ShowReport
    from awm_hub.environment import Environment, Task, ToolSpec

_CELL_WIDTH = 24
_SHOWN_ROWS = 5


def add(verbs: Verbs) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "show",
        "Show one environment: scenario, tools, tasks, tables or code.",
        examples=(
            "awm-hub show public_library_1",
            "awm-hub show public_library_1 --tool search_members",
            "awm-hub show public_library_1 --tables --json",
        ),
    )
    parser.add_argument("environment", metavar="ENV", help="id of the environment")
    part = parser.add_mutually_exclusive_group()
    part.add_argument("--tools", action="store_true", help="all tools with their parameters")
    part.add_argument("--tool", metavar="NAME", help="one tool with its schema")
    part.add_argument("--task", metavar="TASK", help="one task with answer, solution and verifiers")
    part.add_argument("--tables", action="store_true", help="the tables of the initial database and their rows")
    part.add_argument("--code", action="store_true", help="the module that implements the tools")
    add_dataset(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace, console: Console) -> Finished:
    """Show an environment."""
    environment = chosen_environment(arguments)
    with naming_dataset(arguments):
        report = _report(environment, arguments)
    for line in _lines(report, arguments, console):
        console.say(line)
    return Finished(data=report)


def _report(environment: "Environment", arguments: argparse.Namespace) -> "ShowReport":
    from awm_hub.cli.reports import ShowReport

    e = environment
    tools = [e.tool(arguments.tool)] if arguments.tool is not None else e.tools
    tasks = [e.task(arguments.task)] if arguments.task is not None else e.tasks
    is_overview = not (arguments.tools or arguments.tool or arguments.task or arguments.tables or arguments.code)
    return ShowReport(
        **{name: getattr(e, name) for name in _PLAIN_FIELDS},
        clock=e.clock.isoformat(),
        tables_count=len(e.tables),
        tools_count=len(e.tools),
        tasks_count=len(e.tasks),
        quality=None if e.quality is None else plain(e.quality),
        provenance=plain(e.provenance),
        tools=tuple(map(_tool, tools)) if arguments.tools or arguments.tool is not None or is_overview else None,
        tasks=tuple(map(_task, tasks)) if arguments.task is not None or is_overview else None,
        tables=_tables(e) if arguments.tables else None,
        code=e.code if arguments.code else None,
    )


_PLAIN_FIELDS = (
    "id", "split", "title", "description", "categories", "rules", "usage", "interface", "requires", "content_hash",
)  # fmt: skip


def _tool(tool: "ToolSpec") -> "ShownTool":
    from awm_hub.cli.reports import ShownTool

    return ShownTool(**plain(tool))


def _task(task: "Task") -> "ShownTask":
    from awm_hub.cli.reports import ShownTask

    return ShownTask(**{**plain(task), "prompt": task.prompt})


def _tables(environment: "Environment") -> tuple["ShownTable", ...]:
    from awm_hub.cli.reports import ShownTable
    from awm_hub.runtime import jobs, sync

    found = sync.run(jobs.dump, environment.database)
    return tuple(
        ShownTable(name=name, columns=tuple(t["columns"]), rows=tuple(map(tuple, t["rows"])), total=t["total"])
        for name, t in found.items()
    )


def _lines(report: "ShowReport", arguments: argparse.Namespace, console: Console) -> Iterator[str]:
    if report.code is not None:
        yield clean(report.code)
    elif report.tables is not None:
        for shown in report.tables:
            yield from _table_lines(shown, console)
    elif arguments.tool is not None and report.tools:
        yield from _tool_lines(report.tools[0], console)
    elif arguments.tools and report.tools is not None:
        for tool in report.tools:
            yield from _signature_lines(tool, console)
    elif arguments.task is not None and report.tasks:
        yield from _task_lines(report.tasks[0], console)
    else:
        yield from _overview(report, console)


def _overview(report: "ShowReport", console: Console) -> Iterator[str]:
    yield console.style(f"{report.id}: {clean_line(report.title)}", "bold")
    if report.description:
        yield console.wrapped(report.description.strip())
    yield ""
    facts = {
        "split": report.split,
        "categories": ", ".join(report.categories),
        "interface": report.interface,
        "clock": report.clock,
        "database": f"{report.tables_count} tables",
        "rules": report.rules.strip(),
        "licence": str(report.provenance.get("license") or ""),
        "content hash": report.content_hash,
    }
    for name, value in facts.items():
        if value:
            yield f"{name:13} {console.wrapped(value, indent=14)}"
    yield ""
    yield console.style(f"{report.tools_count} tools", "bold")
    yield from table([("  " + t.name, _effect(t), summary(t.description, 80)) for t in report.tools or ()])
    yield ""
    yield console.style(f"{report.tasks_count} tasks", "bold")
    yield from table(
        [("  " + t.id.partition("/")[2], t.kind or "", summary(t.instruction, 80)) for t in report.tasks or ()]
    )


def _signature_lines(tool: "ShownTool", console: Console) -> Iterator[str]:
    yield f"{console.style(tool.name, 'bold')}({_parameters(tool)})  {console.style(_effect(tool), 'dim')}"
    yield f"    {summary(tool.description, 110)}"


def _effect(tool: "ShownTool") -> str:
    return "" if tool.effect == "unknown" else tool.effect


def _parameters(tool: "ShownTool") -> str:
    required = tool.input_schema.get("required", [])
    names = sorted(tool.input_schema.get("properties", {}), key=lambda name: name not in required)
    return ", ".join(clean_line(n if n in required else f"{n}?") for n in names)


def _tool_lines(tool: "ShownTool", console: Console) -> Iterator[str]:
    yield f"{console.style(tool.name, 'bold')}  {console.style(_effect(tool), 'dim')}"
    yield console.wrapped(tool.description.strip())
    yield ""
    yield json_text(tool.input_schema, indent=2)


def _task_lines(task: "ShownTask", console: Console) -> Iterator[str]:
    yield f"{console.style(task.id, 'bold')}  {console.style(task.kind or '', 'dim')}"
    yield console.wrapped(task.prompt.strip())
    for name in ("answer", "answer_sql", "setup", "free"):
        value: Any = getattr(task, name)
        if value:
            yield f"\n{name}: {json_text(value)}"
    if task.solution is not None:
        yield "\nsolution:"
        for step in task.solution:
            yield f"  {step['tool']} {json_text(step['arguments'])}"
    for verifier in task.verifiers:
        yield f"\n{verifier['kind']} verifier {verifier['function']}"
        yield f"  success: {console.wrapped(verifier['success_criteria'], indent=11)}"
        yield f"  failure: {console.wrapped(verifier['failure_criteria'], indent=11)}"


def _table_lines(shown: "ShownTable", console: Console) -> Iterator[str]:
    yield console.style(f"{clean_line(shown.name)}: {shown.total} rows", "bold")
    rows = [shown.columns, *shown.rows[:_SHOWN_ROWS]]
    for line in table([["  ", *(_cell(v) for v in row)] for row in rows]):
        yield line.rstrip()
    yield ""


def _cell(value: Any) -> str:
    return clean_line(value if isinstance(value, str) else json_text(value), _CELL_WIDTH)

"""`awm-hub demo`: the whole path in one go, from a row of a Parquet file to a verdict on a database.

A server is started in this process on a free loopback port; a real MCP client connects to it over HTTP, lists the tools
and replays the reference solution of a task that changes something; the controller's routes tell difference and
verdict.
"""

import argparse
import json
import textwrap
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from awm_hub import errors
from awm_hub.cli.choosing import in_dataset
from awm_hub.cli.diffs import diff_lines
from awm_hub.cli.options import Verbs, add_dataset, add_launch, add_verb
from awm_hub.cli.outcomes import Finished
from awm_hub.cli.terminal import Console, clean, clean_line, json_text, own_name, summary, table
from awm_hub.errors import DataError, SandboxError

if TYPE_CHECKING:
    from mcp import ClientSession

    from awm_hub.cli.reports import DemoCall, DemoReport
    from awm_hub.environment import Call, Environment, Task
    from awm_hub.hub import Environments
    from awm_hub.serving import Address

_TOOLS_SHOWN = 8
_RESULT_WIDTH = 110
_TIMEOUT_S = 60
_KINDS = ("change", "both", None, "query")
"""Kinds of tasks, the most telling first."""
_SHORTEST = 3
"""A shorter solution shows too little."""


def add(verbs: Verbs) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "demo",
        "Show the whole path: a row, a live MCP server, an agent's calls, the verdict.",
        examples=("awm-hub demo", "awm-hub demo public_library_1 --json"),
    )
    parser.add_argument("environment", metavar="ENV", nargs="?", help="id of the environment (default: the first)")
    parser.add_argument("--task", metavar="TASK", help="task to replay (default: one that changes something)")
    add_dataset(parser)
    add_launch(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace, console: Console) -> Finished:
    """Run the demo."""
    import asyncio

    from awm_hub.hub import load

    started = time.monotonic()
    environments = load(arguments.dataset, revision=arguments.revision)
    environment = environments[arguments.environment or next(iter(environments))]
    task = _choose(environment, arguments.task)
    demo = _Demo(environments, environment, task, arguments, console)
    report = asyncio.run(demo.run(started))
    return Finished(data=report, exit_code=0 if report.verdict["outcome"] == "COMPLETED" else 1)


def _choose(environment: "Environment", name: str | None) -> "Task":
    if name is not None:
        return environment.task(name)
    solved = [t for t in environment.tasks if t.solution]
    ranked = sorted(
        solved, key=lambda t: (_KINDS.index(t.kind), len(t.solution or ()) < _SHORTEST, len(t.solution or ()))
    )
    if not ranked:
        raise DataError(
            f"{environment.id} has no task with a solution to replay",
            next_step="without ENV and --dataset the demo replays a bundled one",
        )
    return ranked[0]


class _Demo:
    """One run of the demo; each method is one step and says what it did."""

    def __init__(
        self,
        environments: "Environments",
        environment: "Environment",
        task: "Task",
        arguments: argparse.Namespace,
        console: Console,
    ) -> None:
        self._environments, self._environment, self._task = environments, environment, task
        self._arguments, self._console = arguments, console
        self._steps = 0

    async def run(self, started: float) -> "DemoReport":
        from awm_hub.cli.reports import DemoReport
        from awm_hub.serving import ServerSettings, running_server

        self._show_row()
        settings = ServerSettings(port=0, trust_remote_code=self._arguments.trust_remote_code)
        async with running_server(self._environments, settings=settings) as address:
            opened = await self._open(address)
            tools, calls = await self._work(opened["url"])
            diff = (await _ask(address, "GET", f"/instances/{opened['id']}/diff"))["diff"]
            self._show_diff(diff)
            verdict = await self._judge(address, opened["id"])
        report = DemoReport(
            environment=self._environment.id,
            task=self._task.id,
            instruction=self._task.instruction,
            mcp_version=_mcp_version(),
            tier=opened["tier"],
            tools=tools,
            calls=calls,
            diff=diff,
            verdict=verdict,
            seconds=round(time.monotonic() - started, 3),
            next=self._next(),
        )
        self._show_next(report)
        return report

    def _show_row(self) -> None:
        e = self._environment
        self._head("A row of a Parquet file is an environment")
        self._say(f"{e.id}: {clean_line(e.title)}")
        counts = f"{len(e.tables)} tables, {len(e.tools)} tools, {len(e.tasks)} tasks"
        self._say(f"{counts}, {len(e.database) // 1024} KB of SQLite; the clock stands at {e.clock:%Y-%m-%d %H:%M}")

    async def _open(self, address: "Address") -> dict[str, Any]:
        task = self._task
        body = {"environment": self._environment.id, "task": task.id, "seed": self._arguments.seed}
        opened = await _ask(address, "POST", "/instances", body)
        self._head("Launched, it is an MCP server with a database of its own")
        self._say(f"{opened['url']}  (mcp {_mcp_version()}, sandbox: {opened['tier']})")
        self._say(f"task {task.slug}:")
        for paragraph in clean(task.prompt).split("\n"):
            for line in textwrap.wrap(paragraph, 96):
                self._say(f"  {line}")
        return opened

    async def _work(self, url: str) -> tuple[tuple[str, ...], tuple["DemoCall", ...]]:
        """What an agent does, with a real MCP client."""
        from mcp import ClientSession
        from mcp.client.streamable_http import streamable_http_client

        async with (
            streamable_http_client(url) as streams,
            ClientSession(streams[0], streams[1]) as session,
        ):
            await session.initialize()
            tools = await self._list_tools(session)
            self._head("It calls tools; these calls are the task's reference solution")
            calls = [await self._call(session, call) for call in self._task.solution or ()]
        return tools, tuple(calls)

    async def _list_tools(self, session: "ClientSession") -> tuple[str, ...]:
        found = (await session.list_tools()).model_dump(by_alias=True, exclude_none=True)["tools"]
        used = {call.tool for call in self._task.solution or ()}
        shown = sorted(found, key=lambda t: t["name"] not in used)[:_TOOLS_SHOWN]
        self._head(f"An MCP client lists {len(found)} tools")
        for line in table([(clean_line(t["name"]), summary(t.get("description", ""), 76)) for t in shown]):
            self._say(line)
        if len(found) > len(shown):
            self._say(self._console.style(f"… and {len(found) - len(shown)} more", "dim"))
        return tuple(t["name"] for t in found)

    async def _call(self, session: "ClientSession", call: "Call") -> "DemoCall":
        from awm_hub.cli.reports import DemoCall

        answered = (await session.call_tool(call.tool, call.arguments)).model_dump(by_alias=True, exclude_none=True)
        text = "".join(part.get("text", "") for part in answered["content"])
        made = DemoCall(tool=call.tool, arguments=call.arguments, is_error=bool(answered.get("isError")), result=text)
        self._say(f"{self._console.style(clean_line(call.tool), 'cyan')} {clean_line(json_text(call.arguments), 90)}")
        self._say(f"  {'✗' if made.is_error else '→'} {clean_line(text, _RESULT_WIDTH)}")
        return made

    def _show_diff(self, diff: Mapping[str, Any]) -> None:
        self._head("What changed in the database")
        for line in diff_lines(diff, self._console):
            self._say(line)

    async def _judge(self, address: "Address", instance_id: str) -> dict[str, Any]:
        answer = None if self._task.answer is None else json_text(self._task.answer)
        verdict = await _ask(address, "POST", f"/instances/{instance_id}/judge", {"answer": answer})
        self._head("The judge looks at the database, not at what was said")
        style = "green" if verdict["outcome"] == "COMPLETED" else "red"
        self._say(f"{self._console.style(verdict['outcome'], style, 'bold')}  {clean_line(verdict['reasoning'], 90)}")
        return verdict

    def _next(self) -> tuple[str, ...]:
        name, e = own_name(), self._environment
        here = [f"{name} list", f"{name} show {e.id} --task {self._task.slug}", f"{name} serve --stdio {e.id}"]
        return (*(in_dataset(command, self._arguments) for command in here), f"{name} new my_environment_1")

    def _show_next(self, report: "DemoReport") -> None:
        self._console.say(f"\n{report.seconds:.1f} s. Next:")
        for command in report.next:
            self._say(clean_line(command))

    def _head(self, text: str) -> None:
        self._steps += 1
        self._console.say(f"\n{self._console.style(f'{self._steps}. {text}', 'bold')}")

    def _say(self, text: str) -> None:
        self._console.say(f"   {text}")


def _mcp_version() -> str:
    from importlib.metadata import version

    return version("mcp")


async def _ask(address: "Address", method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """One request of the controller, on a thread: the server runs in this one."""
    import asyncio

    return await asyncio.to_thread(_request, address, method, path, body)


def _request(address: "Address", method: str, path: str, body: Mapping[str, Any] | None) -> dict[str, Any]:
    import http.client

    connection = http.client.HTTPConnection(urlsplit(address.url).netloc, timeout=_TIMEOUT_S)
    try:
        headers = {"Authorization": f"Bearer {address.token}", "Content-Type": "application/json"}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        found: dict[str, Any] = json.loads(response.read())
    finally:
        connection.close()
    if response.status >= http.client.BAD_REQUEST:
        error = found["error"]
        kind = getattr(errors, error["type"], SandboxError)
        raise kind(error["message"], next_step=error["next"])
    return found

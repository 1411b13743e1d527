"""Whether an environment answers as its module does when it is run upstream's way: the same calls, one by one.

Both sides start from the same image and work on their own database; answers are compared by kind and content, and in
the end the two databases row by row.
"""

import collections
import datetime as dt
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from upstream.example_arguments import Seed, variants
from upstream.own_process import Reply, Served, served

from awm_hub import aio
from awm_hub.environment import Environment
from awm_hub.runtime import Options, jobs
from awm_hub.trajectory import ToolResult

_SHOWN = 500
"""Messages of results are cut at this length."""


@dataclass(frozen=True)
class Call:
    """One call of a series."""

    tool: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class Compared:
    """One call and both answers."""

    series: str
    call: Call
    ours: ToolResult
    reply: Reply

    @property
    def is_equal(self) -> bool:
        """Whether the answers mean and say the same."""
        return self.ours.type == self.theirs and self._says_the_same()

    @property
    def theirs(self) -> str:
        """The type that the HTTP answer stands for."""
        if self.reply.status < 300:
            return "ok"
        if self.reply.status >= 500:
            return "fault"
        is_validation = self.reply.status == 422 and isinstance(self._detail, list)
        return "invalid_call" if is_validation else "refused"

    @property
    def _detail(self) -> Any:
        body = self.reply.body
        return body.get("detail", body) if isinstance(body, dict) else body

    def _says_the_same(self) -> bool:
        if self.ours.type == "ok":
            return bool(self.ours.value == self.reply.body)
        if self.ours.type == "fault":
            return self.ours.code == (self.reply.raised or f"http_{self.reply.status}")
        if self.ours.code == "invalid_arguments" or self.reply.status < 400:
            return True  # our own words: for what our check finds before the app does, and for a redirect
        text = self._detail if isinstance(self._detail, str) else json.dumps(self._detail)
        return self.ours.message == text[:_SHOWN]


@dataclass(frozen=True)
class Parity:
    """All compared calls of an environment, and the series that left different databases."""

    calls: tuple[Compared, ...]
    different_databases: tuple[str, ...]

    @property
    def differing(self) -> list[Compared]:
        """Calls with unequal answers."""
        return [c for c in self.calls if not c.is_equal]

    @property
    def types(self) -> collections.Counter[str]:
        """How our side answered."""
        return collections.Counter(c.ours.type for c in self.calls)


async def example_series(environment: Environment) -> dict[str, list[Call]]:
    """A series per way to fill arguments; each calls every tool once, in the toolset's order."""
    fillings = variants(Seed(await jobs.dump(environment.database)))
    return {
        name: [Call(tool.name, filling.arguments(tool)) for tool in environment.tools]
        for name, filling in fillings.items()
    }


async def compare(
    environment: Environment,
    series: Mapping[str, Iterable[Call]],
    folder: Path,
    *,
    options: Options | None = None,
    their_code: str | None = None,
) -> Parity:
    """Run every series on both sides, each from the environment's initial state."""
    compared: list[Compared] = []
    different = []
    with served(their_code or environment.code, environment.database, environment.clock, folder) as upstream:
        async with await aio.launch(environment, options=options) as instance:
            for name, calls in series.items():
                await instance.reset()
                upstream.start_from(environment.database)
                compared += await _run(name, calls, instance, upstream)
                if await jobs.dump(await instance.image()) != await jobs.dump(upstream.database.read_bytes()):
                    different.append(name)
    return Parity(tuple(compared), tuple(different))


async def _run(name: str, calls: Iterable[Call], instance: aio.Instance, upstream: Served) -> list[Compared]:
    compared = []
    dispatched = 0
    for call in calls:
        ours = await instance.call_tool(call.tool, call.arguments)
        moment = instance.environment.clock + dt.timedelta(seconds=dispatched + 1)
        dispatched += ours.type != "invalid_call"
        compared.append(Compared(name, call, ours, upstream.call(call.tool, call.arguments, moment)))
    return compared

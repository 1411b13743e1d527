"""Whether an environment answers as its module does when it is run upstream's way: the same calls, one by one.

Both sides start from the same image and work on their own database; answers are compared by kind and content, and in
the end the two databases row by row.
"""

import collections
import datetime as dt
import json
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from upstream.example_arguments import Seed, variants
from upstream.own_process import Served, served

from awm_hub import aio
from awm_hub.environment import Environment
from awm_hub.runtime import jobs
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
    status: int
    body: Any

    @property
    def is_equal(self) -> bool:
        """Whether the answers mean and say the same."""
        return self.ours.type == self.theirs and self._says_the_same()

    @property
    def theirs(self) -> str:
        """The type that the HTTP answer stands for."""
        if self.status < 300:
            return "ok"
        if self.status >= 500:
            return "fault"
        details = self.body.get("detail") if isinstance(self.body, dict) else None
        return "invalid_call" if self.status == 422 and isinstance(details, list) else "refused"

    def _says_the_same(self) -> bool:
        if self.ours.type == "ok":
            return bool(self.ours.value == self.body)
        if self.ours.type == "fault" or self.ours.code == "invalid_arguments":
            return True  # what was raised is in upstream's log only; our own check words its messages itself
        detail = self.body.get("detail", self.body) if isinstance(self.body, dict) else self.body
        return self.ours.message == (detail if isinstance(detail, str) else json.dumps(detail))[:_SHOWN]


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


async def compare(environment: Environment, series: Mapping[str, Iterable[Call]], folder: Path) -> Parity:
    """Run every series on both sides, each from the environment's initial state."""
    compared: list[Compared] = []
    different = []
    async with await aio.launch(environment) as instance:
        for number, (name, calls) in enumerate(series.items()):
            place = folder / str(number)
            place.mkdir()
            await instance.reset()
            with served(environment.code, environment.database, environment.clock, place) as upstream:
                compared += await _run(name, calls, instance, upstream)
            image = await instance.image()
            if await jobs.dump(image) != await jobs.dump((place / "final.db").read_bytes()):
                different.append(name)
    return Parity(tuple(compared), tuple(different))


async def _run(name: str, calls: Iterable[Call], instance: aio.Instance, upstream: Served) -> list[Compared]:
    compared = []
    dispatched = 0
    for call in calls:
        ours = await instance.call_tool(call.tool, call.arguments)
        moment = instance.environment.clock + dt.timedelta(seconds=dispatched + 1)
        dispatched += ours.type != "invalid_call"
        response = upstream.call(call.tool, call.arguments, moment)
        compared.append(Compared(name, call, ours, response.status_code, _body(response)))
    return compared


def _body(response: httpx.Response) -> Any:
    if response.headers.get("content-type", "").startswith("application/json"):
        return response.json()
    return response.text or None


def rows(image: bytes, sql: str) -> list[tuple[Any, ...]]:
    """Rows of a query on an image of our own making."""
    db = sqlite3.connect(":memory:")
    db.deserialize(image)
    return db.execute(sql).fetchall()

"""The `fastapi` interface inside the sandbox: upstream's modules, unmodified, over in-memory databases.

While the module is executed, `sqlalchemy.create_engine` makes engines on the current instance's database
(`awm_hub.sandbox.engines`). A tool is an operation of the app's OpenAPI document; a call is a real ASGI request to the
app, so that routing, validation, response models and errors are the framework's own. Two routes with the same method
and path leave one tool, and a call reaches the route that matches first, exactly as behind a web server.
"""

import asyncio
import contextlib
import json
import os
import sys
import types
from collections.abc import Iterator
from typing import Any

import fastapi.routing
from fastapi import FastAPI
from fastapi.routing import APIRoute
from sqlalchemy.exc import DBAPIError
from starlette.routing import Match

from awm_hub.sandbox import engines, operations
from awm_hub.sandbox.database import InstanceConnection
from awm_hub.sandbox.deadline import CallDeadline
from awm_hub.sandbox.results import Answer, OutputLimit, fault, fault_from

FILENAME = "<environment>"
_REFUSED = {401: "forbidden", 402: "failed_precondition", 403: "forbidden", 404: "not_found", 409: "conflict",
            410: "not_found", 412: "failed_precondition", 423: "failed_precondition", 424: "failed_precondition",
            425: "failed_precondition", 428: "failed_precondition", 429: "failed_precondition"}  # fmt: skip
"""Codes of statuses below 500; the others are `invalid`."""
_SETTLING_ROUNDS = 100


class EndpointsCode:
    """A loaded module, its app and its operations."""

    isolation_level = "DEFERRED"
    foreign_keys = False

    def __init__(self, code: str, db: InstanceConnection, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        module = types.ModuleType("awm_environment")
        sys.modules[module.__name__] = module
        os.environ["DATABASE_PATH"] = "sqlite:///:memory:"
        with engines.using(db), engines.replaced():
            exec(compile(code, FILENAME, "exec"), module.__dict__)
            self.app = _app_of(module)
            self._lifespan = _Lifespan()
            self._kept_tasks = {loop.run_until_complete(self._lifespan.start(self.app))}
            self._end_tasks()
        self.operations = operations.from_openapi(self.app.openapi())

    def specifications(self) -> list[dict[str, Any]]:
        """Name, description and schemas of every tool."""
        return [
            {
                "name": o.name,
                "description": o.description,
                "input_schema": o.input_schema,
                "output_schema": o.output_schema,
            }
            for o in self.operations.values()
        ]

    def routes_without_tool(self) -> list[str]:
        """Operations pushed out of the toolset by another one with the same method and path, or the same name."""
        pushed_out = {_operation_id(route) for route in self._routes()} - set(self.operations)
        return sorted(pushed_out | operations.repeated_names(self.app.openapi()))

    def shadowed_tools(self) -> list[str]:
        """Tools whose requests another route, declared before, answers."""
        routes = list(self._routes())
        found = set()
        for route in routes:
            path = operations.example_path(route.path)
            scope = {"type": "http", "method": sorted(route.methods or ())[0], "path": path, "root_path": ""}
            first = next((r for r in routes if r.matches(scope)[0] == Match.FULL), route)
            if first is not route and _operation_id(route) in self.operations:
                found.add(_operation_id(route))
        return sorted(found)

    def close(self) -> None:
        """End the task that start-up left behind; the app is not called after this."""
        self._kept_tasks.clear()
        self._end_tasks(at_once=True)

    def forget(self, db: InstanceConnection) -> None:
        """Nothing: no connection is kept between calls."""

    def call(self, db: InstanceConnection, tool: str, arguments: dict[str, Any], max_bytes: int) -> Answer:
        """Send one request to the app."""
        request = self.operations[tool].request(arguments)
        scope = {**request.scope(), "state": dict(self._lifespan.state)}
        exchange = _Exchange(request.body, max_bytes)
        with engines.using(db):
            try:
                with db.untrusted():
                    self._loop.run_until_complete(self.app(scope, exchange.receive, exchange.send))
                    self._end_tasks()
            except BaseException as error:
                if isinstance(error, CallDeadline):
                    self._end_tasks(at_once=True)
                # after a complete response only the server's log hears of an error
                if isinstance(error, CallDeadline) or not exchange.is_success:
                    return _fault_from(error)
        return exchange.answer()

    def _routes(self) -> Iterator[APIRoute]:
        # newer releases keep included routers as they are, and have this to look into them
        iterate: Any = getattr(fastapi.routing, "iter_route_contexts", iter)
        for route in iterate(self.app.routes):
            if isinstance(getattr(route, "original_route", route), APIRoute) and route.include_in_schema:
                yield route

    def _end_tasks(self, *, at_once: bool = False) -> None:
        """Let tasks that a request started end with it, so that none goes on in the next one."""
        left = asyncio.all_tasks(self._loop) - self._kept_tasks
        if left:
            self._loop.run_until_complete(_settle(left, 0 if at_once else _SETTLING_ROUNDS))


async def _settle(tasks: set[asyncio.Task[Any]], rounds: int) -> None:
    """Run tasks as far as they come without time passing, then cancel them."""
    with _time_standing_still(asyncio.get_running_loop()):
        for _ in range(rounds):
            if all(task.done() for task in tasks):
                break
            await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@contextlib.contextmanager
def _time_standing_still(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """No timer comes due, so that how far tasks come does not depend on how fast the machine is."""
    vars(loop)["time"] = lambda: 0.0
    try:
        yield
    finally:
        del vars(loop)["time"]


class _Lifespan:
    """The app's start-up by the ASGI protocol. Shutdown never comes: the process just ends."""

    def __init__(self) -> None:
        self.state: dict[str, Any] = {}
        self._is_started = asyncio.Event()
        self._is_asked = False

    async def start(self, app: FastAPI) -> asyncio.Task[None]:
        """Start up; the task that stays behind.

        Raises:
            Exception: whatever start-up raised.
        """
        scope = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}, "state": self.state}
        task = asyncio.ensure_future(app(scope, self._receive, self._send))
        started = asyncio.ensure_future(self._is_started.wait())
        await asyncio.wait({task, started}, return_when=asyncio.FIRST_COMPLETED)
        if not started.done():
            started.cancel()
            await task
        return task

    async def _receive(self) -> dict[str, Any]:
        if self._is_asked:
            await asyncio.get_running_loop().create_future()
        self._is_asked = True
        return {"type": "lifespan.startup"}

    async def _send(self, message: Any) -> None:
        if message["type"] == "lifespan.startup.complete":
            self._is_started.set()


class _Exchange:
    """One request's body and the response to it."""

    def __init__(self, body: bytes, max_bytes: int) -> None:
        self._body, self._max_bytes = body, max_bytes
        self._status, self._size = 0, 0
        self._parts: list[bytes] = []
        self._headers: dict[str, str] = {}
        self._is_received = False
        self._is_complete = asyncio.Event()
        self._limit: OutputLimit | None = None

    @property
    def is_success(self) -> bool:
        """Whether a whole response has come, and no server error."""
        return self._is_complete.is_set() and self._status < 500

    async def receive(self) -> dict[str, Any]:
        """The request; then, once it is answered, that the client has gone."""
        if self._is_received:
            await self._is_complete.wait()
            return {"type": "http.disconnect"}
        self._is_received = True
        return {"type": "http.request", "body": self._body, "more_body": False}

    async def send(self, message: Any) -> None:
        """A part of the response."""
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._headers = {k.decode("latin-1").lower(): v.decode("latin-1") for k, v in message.get("headers", ())}
        elif message["type"] == "http.response.body":
            part = message.get("body", b"")
            self._size += len(part)
            if self._size > self._max_bytes:
                self._limit = OutputLimit(
                    f"the result is over the limit of {self._max_bytes} bytes; narrow the query and call again"
                )
                raise self._limit
            self._parts.append(part)
            if not message.get("more_body", False):
                self._is_complete.set()

    def answer(self) -> Answer:
        """The response as a typed answer."""
        if self._limit is not None:
            return fault_from(self._limit)
        text = b"".join(self._parts).decode("utf-8", "replace")
        if 200 <= self._status < 300:
            is_json = self._headers.get("content-type", "").startswith("application/json")
            return Answer(type="ok", value="null" if not text else text if is_json else json.dumps(text))
        message = _detail(text)
        if self._status == 422 and _is_validation(message):
            return Answer(type="invalid_call", code="validation", message=json.dumps(message)[:500])
        shown = message if isinstance(message, str) else json.dumps(message)
        if 300 <= self._status < 400:
            shown = f"redirected to {self._headers.get('location', 'nowhere')}"
            return Answer(type="refused", code="not_found", message=shown[:500])
        if 400 <= self._status < 500:
            return Answer(type="refused", code=_REFUSED.get(self._status, "invalid"), message=shown[:500])
        return fault(f"http_{self._status}", shown or f"HTTP status {self._status}")


def _detail(text: str) -> Any:
    try:
        found = json.loads(text)
    except ValueError:
        return text
    return found.get("detail", found) if isinstance(found, dict) else found


def _is_validation(detail: Any) -> bool:
    """Whether the framework's own validation says this: the request did not reach the endpoint."""
    return isinstance(detail, list) and all(isinstance(d, dict) and {"loc", "msg", "type"} <= d.keys() for d in detail)


def _fault_from(error: BaseException) -> Answer:
    """The fault that an exception is, looking into what middleware and SQLAlchemy have wrapped."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    if isinstance(error, DBAPIError) and error.orig is not None:
        inner = fault_from(error.orig)
        if inner.code in ("deadline", "database_limit"):
            return inner
    return fault_from(error)


def _app_of(module: types.ModuleType) -> FastAPI:
    app = vars(module).get("app")
    if not isinstance(app, FastAPI):
        app = next((v for v in vars(module).values() if isinstance(v, FastAPI)), None)
    if app is None:
        raise ImportError("the module defines no FastAPI app")
    return app


def _operation_id(route: APIRoute) -> str:
    return route.operation_id or route.unique_id

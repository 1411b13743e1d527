"""The `fastapi` interface inside the sandbox: upstream's modules, unmodified, over in-memory databases.

While the module is executed, `sqlalchemy.create_engine` hands out an engine whose pool always gives the current
instance's connection. A tool is an operation of the app's OpenAPI document; a call is a real ASGI request to the app,
so that routing, validation, response models and errors are the framework's own. Two routes with the same method and
path leave one tool, and a call reaches the route that matches first, exactly as behind a web server.
"""

import asyncio
import json
import os
import sqlite3
import sys
import types
from collections.abc import Iterator
from typing import Any

import sqlalchemy
import sqlalchemy.engine
from fastapi.routing import APIRoute
from sqlalchemy.pool.base import ConnectionPoolEntry, Pool
from starlette.routing import Match

from awm_hub.sandbox import operations
from awm_hub.sandbox.database import InstanceConnection
from awm_hub.sandbox.deadline import CallDeadline
from awm_hub.sandbox.results import Answer, OutputLimit, fault, fault_from

FILENAME = "<environment>"
_REFUSED = {400: "invalid", 401: "forbidden", 403: "forbidden", 404: "not_found", 409: "conflict", 410: "not_found",
            412: "failed_precondition", 422: "invalid", 428: "failed_precondition"}  # fmt: skip
_create_engine = sqlalchemy.create_engine


class _Current:
    """The instance whose call is running."""

    connection: InstanceConnection | None = None


class _InstancePool(Pool):
    """A pool that always hands out the current instance's connection, one record per connection."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._records: dict[InstanceConnection, ConnectionPoolEntry] = {}

    def _do_get(self) -> ConnectionPoolEntry:
        connection = _Current.connection
        if connection is None:
            raise RuntimeError("no instance is being called")
        record = self._records.get(connection)
        if record is None:
            record = self._records[connection] = self._create_connection()
        return record

    def _do_return_conn(self, record: Any) -> None:
        pass

    def forget(self, connection: InstanceConnection) -> None:
        self._records.pop(connection, None)

    def recreate(self) -> "_InstancePool":
        return self

    def dispose(self) -> None:
        pass

    def status(self) -> str:
        return "one connection per instance"


class EndpointsCode:
    """A loaded module, its app and its operations."""

    isolation_level = "DEFERRED"
    foreign_keys = False

    def __init__(self, code: str, db: InstanceConnection, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._pools: list[_InstancePool] = []
        module = types.ModuleType("awm_environment")
        sys.modules[module.__name__] = module
        os.environ["DATABASE_PATH"] = "sqlite:///:memory:"
        sqlalchemy.create_engine = sqlalchemy.engine.create_engine = self._create_engine
        _Current.connection = db
        try:
            exec(compile(code, FILENAME, "exec"), module.__dict__)
            self.app = _app_of(module)
            loop.run_until_complete(self._start_up())
        finally:
            sqlalchemy.create_engine = sqlalchemy.engine.create_engine = _create_engine
            _end_transaction(db)
            _Current.connection = None
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
        """Operations that another route with the same method and path has pushed out of the OpenAPI document."""
        return sorted({_operation_id(route) for route in self._routes()} - set(self.operations))

    def shadowed_tools(self) -> list[str]:
        """Tools whose requests another route, declared before, answers."""
        routes = list(self._routes())
        found = []
        for route in routes:
            path = operations.example_path(route.path)
            scope = {"type": "http", "method": sorted(route.methods or ())[0], "path": path, "root_path": ""}
            first = next((r for r in routes if r.matches(scope)[0] == Match.FULL), route)
            if first is not route and _operation_id(route) in self.operations:
                found.append(_operation_id(route))
        return sorted(found)

    def forget(self, db: InstanceConnection) -> None:
        """Drop what is held for a connection that goes away."""
        for pool in self._pools:
            pool.forget(db)

    def call(self, db: InstanceConnection, tool: str, arguments: dict[str, Any], max_bytes: int) -> Answer:
        """Send one request to the app."""
        request = self.operations[tool].request(arguments)
        exchange = _Exchange(request.body, max_bytes)
        _Current.connection = db
        try:
            with db.untrusted():
                self._loop.run_until_complete(self.app(request.scope(), exchange.receive, exchange.send))
        except BaseException as error:
            if isinstance(error, CallDeadline):
                self._abandon_tasks()
            return fault_from(error)
        finally:
            _end_transaction(db)
            _Current.connection = None
        return exchange.answer()

    def _create_engine(self, *_args: Any, **options: Any) -> sqlalchemy.Engine:
        pool = _InstancePool(_connect)
        self._pools.append(pool)
        kept = {k: v for k, v in options.items() if k in ("echo", "execution_options", "json_serializer")}
        return _create_engine("sqlite://", pool=pool, **kept)

    async def _start_up(self) -> None:
        context = self.app.router.lifespan_context(self.app)
        await context.__aenter__()

    def _routes(self) -> Iterator[APIRoute]:
        return (route for route in self.app.routes if isinstance(route, APIRoute) and route.include_in_schema)

    def _abandon_tasks(self) -> None:
        """After an interruption: end what is left of the request, so that it cannot go on in the next one."""
        left = asyncio.all_tasks(self._loop)
        for task in left:
            task.cancel()
        if left:
            self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))


class _Exchange:
    """One request's body and the response to it."""

    def __init__(self, body: bytes, max_bytes: int) -> None:
        self._body, self._max_bytes = body, max_bytes
        self._status, self._size = 0, 0
        self._parts: list[bytes] = []
        self._is_json = False

    async def receive(self) -> dict[str, Any]:
        """The request."""
        return {"type": "http.request", "body": self._body, "more_body": False}

    async def send(self, message: Any) -> None:
        """A part of the response."""
        if message["type"] == "http.response.start":
            self._status = message["status"]
            types_ = [v for k, v in message.get("headers", ()) if k.lower() == b"content-type"]
            self._is_json = any(v.startswith(b"application/json") for v in types_)
        elif message["type"] == "http.response.body":
            part = message.get("body", b"")
            self._size += len(part)
            if self._size > self._max_bytes:
                raise OutputLimit(
                    f"the result is over the limit of {self._max_bytes} bytes; narrow the query and call again"
                )
            self._parts.append(part)

    def answer(self) -> Answer:
        """The response as a typed answer."""
        text = b"".join(self._parts).decode("utf-8", "replace")
        if 200 <= self._status < 300:
            if self._is_json:
                return Answer(type="ok", value=text)
            return Answer(type="ok", value=json.dumps(text) if text else "null")
        message = _detail(text)
        if self._status == 422 and isinstance(message, list):
            return Answer(type="invalid_call", code="validation", message=json.dumps(message)[:500])
        shown = message if isinstance(message, str) else json.dumps(message)
        if self._status in _REFUSED:
            return Answer(type="refused", code=_REFUSED[self._status], message=shown[:500])
        return fault(f"http_{self._status}", shown or f"HTTP status {self._status}")


def _detail(text: str) -> Any:
    try:
        found = json.loads(text)
    except ValueError:
        return text
    return found.get("detail", found) if isinstance(found, dict) else found


def _connect() -> sqlite3.Connection:
    if _Current.connection is None:
        raise RuntimeError("no instance is being called")
    return _Current.connection


def _end_transaction(db: InstanceConnection) -> None:
    if db.in_transaction:
        sqlite3.Connection.rollback(db)


def _app_of(module: types.ModuleType) -> Any:
    from fastapi import FastAPI

    app = vars(module).get("app")
    if not isinstance(app, FastAPI):
        app = next((v for v in vars(module).values() if isinstance(v, FastAPI)), None)
    if app is None:
        raise ImportError("the module defines no FastAPI app")
    return app


def _operation_id(route: APIRoute) -> str:
    return route.operation_id or route.unique_id

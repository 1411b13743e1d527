"""Upstream's way of running a module: a process of its own, a database file, a real server.

Run as a program, this serves the module named on the command line with uvicorn on a free loopback port, which it
prints. The file is the SQLite database that `DATABASE_PATH` names. Only the clock is not upstream's: it stands still,
in Python and in SQL, at the moment that each request's `x-moment` header names. Two paths of its own give the file
other content and tell what the last request raised.
"""

import asyncio
import contextlib
import datetime as dt
import gc
import importlib.util
import json
import os
import socket
import sqlite3
import subprocess
import sys
import urllib.parse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

METHODS = ("get", "put", "post", "delete", "patch")


@dataclass(frozen=True)
class Reply:
    """What the server answered to one call."""

    status: int
    body: Any
    """JSON content, else text; None where there is none."""
    raised: str | None
    """Name of the exception that the app let through."""


@dataclass(frozen=True)
class Served:
    """A module's app behind its server."""

    client: httpx.Client
    database: Path
    operations: Mapping[str, tuple[str, str, dict[str, Any]]]
    """Operation id to method, path and entry of the OpenAPI document."""
    schemas: Mapping[str, Any]

    def start_from(self, image: bytes) -> None:
        """Give the database another content."""
        self.client.post("/-/database", content=image).raise_for_status()

    def call(self, name: str, arguments: Mapping[str, Any], moment: dt.datetime) -> Reply:
        """Call an operation as its OpenAPI entry says; null stands for an argument left out, except in a body."""
        method, path, entry = self.operations[name]
        rest = dict(arguments)
        query: list[tuple[str, Any]] = []
        headers = {"x-moment": moment.isoformat()}
        body_fields = self._body_fields(entry)
        for parameter in entry.get("parameters", ()):
            key = parameter["name"]
            value = rest.get(key)
            if key not in body_fields:
                rest.pop(key, None)
            if value is None:
                continue
            if parameter["in"] == "path":
                path = path.replace("{" + key + "}", urllib.parse.quote(plain(value), safe=""))
            elif parameter["in"] == "query":
                query += [(key, plain(v)) for v in (value if isinstance(value, list) else [value])]
            else:
                headers |= {"cookie": f"{key}={plain(value)}"} if parameter["in"] == "cookie" else {key: plain(value)}
        body = rest if "requestBody" in entry else None
        if body is not None and not body_fields and "body" in rest:
            body = rest["body"]
        response = self.client.request(method.upper(), path, params=query, headers=headers, json=body)
        is_json = response.headers.get("content-type", "").startswith("application/json")
        found = response.json() if is_json and response.content else response.text or None
        raised = self.client.get("/-/raised").json() if response.status_code >= 500 else None
        return Reply(response.status_code, found, raised)

    def _body_fields(self, entry: Mapping[str, Any]) -> set[str]:
        holder = entry.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
        named = holder.get("$ref", "").rpartition("/")[2]
        schema = self.schemas.get(named, holder)
        return set(schema.get("properties", {}))


def plain(value: Any) -> str:
    return json.dumps(value) if isinstance(value, bool) else str(value)


@contextlib.contextmanager
def served(code: str, image: bytes, start: dt.datetime, folder: Path) -> Iterator[Served]:
    """Serve a module over a file with the content of an image."""
    (folder / "module.py").write_text(code, encoding="utf-8")
    (folder / "database.db").write_bytes(image)
    environment = {**os.environ, "DATABASE_PATH": f"sqlite:///{folder / 'database.db'}", "TZ": "UTC"}
    log = (folder / "server.log").open("wb")
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", __file__, str(folder / "module.py"), start.isoformat()],
        env=environment, stdout=subprocess.PIPE, stderr=log,
    )  # fmt: skip
    try:
        port = int(process.stdout.readline())
        # a server closes the connection after an exception: one connection per request
        limits = httpx.Limits(max_keepalive_connections=0)
        address = f"http://127.0.0.1:{port}"
        with httpx.Client(base_url=address, limits=limits, timeout=30, trust_env=False) as client:
            document = client.get("/openapi.json").json()
            found = {
                entry["operationId"]: (method, path, entry)
                for path, item in document["paths"].items()
                for method, entry in item.items()
                if method in METHODS
            }
            yield Served(client, folder / "database.db", found, document.get("components", {}).get("schemas", {}))
    finally:
        process.terminate()
        process.wait(timeout=20)
        log.close()


class ObservedApp:
    """The app, with the clock moved to each request's moment and an eye on what it raises.

    A request waits until the one before has ended, background tasks included, and garbage that a failed one left is
    collected: a session in it may hold a lock on the database for as long as chance keeps it alive.
    """

    def __init__(self, app: Any, clock: Any) -> None:
        self.app, self.clock = app, clock
        self.lock = asyncio.Lock()
        self.raised: str | None = None
        self.left_garbage = False

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        async with self.lock:
            if self.left_garbage:
                gc.collect()
                self.left_garbage = False
            if scope["path"].startswith("/-/"):
                await self.answer(await self.control(scope["path"], receive), send)
                return
            moment = dict(scope["headers"]).get(b"x-moment")
            if moment is not None:
                self.clock.move_to(dt.datetime.fromisoformat(moment.decode()))
            self.raised = None
            try:
                await self.app(scope, receive, send)
            except Exception as error:
                self.raised, self.left_garbage = type(error).__name__, True
                raise

    async def control(self, path: str, receive: Any) -> Any:
        if path == "/-/raised":
            return self.raised
        image, more = b"", True
        while more:
            message = await receive()
            image, more = image + message["body"], message.get("more_body")
        source = sqlite3.connect(":memory:")
        source.deserialize(image)
        with contextlib.closing(sqlite3.connect(os.environ["DATABASE_PATH"].removeprefix("sqlite:///"))) as file:
            source.backup(file)
        return None

    async def answer(self, value: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
        await send({"type": "http.response.body", "body": json.dumps(value).encode()})


def freeze_sql(connection: sqlite3.Connection, *_: Any) -> None:
    """Give a new connection Python's clock."""
    plain_sql = sqlite3.connect(":memory:", check_same_thread=False)
    for name in ("date", "time", "datetime", "julianday", "strftime"):

        def evaluate(*arguments: Any, name: str = name) -> Any:
            now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%d %H:%M:%S")
            given = [now if a == "now" else a for a in arguments]
            if len(given) == (name == "strftime"):
                given.append(now)
            return plain_sql.execute(f"SELECT {name}({','.join('?' * len(given))})", given).fetchone()[0]

        connection.create_function(name, -1, evaluate, deterministic=True)
    for keyword, form in (("timestamp", "%Y-%m-%d %H:%M:%S"), ("date", "%Y-%m-%d"), ("time", "%H:%M:%S")):
        show = lambda form=form: dt.datetime.now(dt.UTC).strftime(form)  # noqa: E731
        connection.create_function(f"current_{keyword}", 0, show, deterministic=True)


def main(path: str, start: str) -> None:
    import time_machine
    import uvicorn
    from sqlalchemy import event
    from sqlalchemy.engine import Engine

    event.listen(Engine, "connect", freeze_sql)
    clock = time_machine.travel(dt.datetime.fromisoformat(start), tick=False).start()
    spec = importlib.util.spec_from_file_location("upstream_module", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["upstream_module"] = module
    spec.loader.exec_module(module)
    listening = socket.create_server(("127.0.0.1", 0))
    print(listening.getsockname()[1], flush=True)
    config = uvicorn.Config(ObservedApp(module.app, clock), log_level="error", access_log=False)
    uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main(*sys.argv[1:])

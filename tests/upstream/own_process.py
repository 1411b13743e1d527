"""Upstream's way of running a module: a process of its own, a database file, a real server.

Run as a program, this serves the module named on the command line with uvicorn on a free loopback port, which it
prints. The file is the SQLite database that `DATABASE_PATH` names. Only the clock is not upstream's: it stands still,
in Python and in SQL, at the moment that each request's `x-moment` header names.
"""

import contextlib
import datetime as dt
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
class Served:
    """A module's app behind its server."""

    client: httpx.Client
    operations: Mapping[str, tuple[str, str, dict[str, Any]]]
    """Operation id to method, path and entry of the OpenAPI document."""

    def call(self, name: str, arguments: Mapping[str, Any], moment: dt.datetime) -> httpx.Response:
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
                headers[key] = plain(value)
        body = rest if "requestBody" in entry else None
        if body is not None and not body_fields and "body" in rest:
            body = rest["body"]
        return self.client.request(method.upper(), path, params=query, headers=headers, json=body)

    def _body_fields(self, entry: Mapping[str, Any]) -> set[str]:
        holder = entry.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
        named = holder.get("$ref", "").rpartition("/")[2]
        schema = self.operations["#"][2].get(named, holder)
        return set(schema.get("properties", {}))


def plain(value: Any) -> str:
    return json.dumps(value) if isinstance(value, bool) else str(value)


@contextlib.contextmanager
def served(code: str, image: bytes, start: dt.datetime, folder: Path) -> Iterator[Served]:
    """Serve a module over a copy of a database image, which ends up in `folder / "final.db"`."""
    (folder / "module.py").write_text(code, encoding="utf-8")
    (folder / "final.db").write_bytes(image)
    environment = {**os.environ, "DATABASE_PATH": f"sqlite:///{folder / 'final.db'}", "TZ": "UTC"}
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
            found["#"] = ("", "", document.get("components", {}).get("schemas", {}))
            yield Served(client, found)
    finally:
        process.terminate()
        process.wait(timeout=20)
        log.close()


class FrozenApp:
    """The app, with the clock moved to each request's moment."""

    def __init__(self, app: Any, clock: Any) -> None:
        self.app, self.clock = app, clock

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        for name, value in scope.get("headers", ()):
            if name == b"x-moment":
                self.clock.move_to(dt.datetime.fromisoformat(value.decode()))
        await self.app(scope, receive, send)


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
    config = uvicorn.Config(FrozenApp(module.app, clock), log_level="error", access_log=False)
    uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main(*sys.argv[1:])

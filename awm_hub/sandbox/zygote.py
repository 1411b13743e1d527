"""The zygote: a clean process with everything preloaded, whose only act is to fork workers.

It is started with a bare environment (no tokens), never runs untrusted code, and ends when its socket to the host
closes; its workers then end with it. A sealed worker cannot import from disk, so what a module may import is what is
preloaded here: the standard library's usual modules, and for `fastapi` rows FastAPI, Pydantic and SQLAlchemy.
"""

import contextlib
import contextvars
import errno
import gc
import importlib
import json
import os
import signal
import socket
import struct
import sys
import warnings
from typing import Any

from awm_hub.sandbox.preloaded import FRAMEWORKS, STANDARD

_WARM_UP = """
from datetime import datetime
from fastapi import Body, FastAPI, Query
from pydantic import BaseModel
from sqlalchemy import Column, DateTime, Integer, create_engine
from sqlalchemy.orm import declarative_base, sessionmaker
engine = create_engine("sqlite://")
SessionLocal = sessionmaker(bind=engine)
Base = declarative_base()
class Row(Base):
    __tablename__ = "rows"
    id = Column(Integer, primary_key=True)
    at = Column(DateTime, default=datetime.utcnow)
Base.metadata.create_all(bind=engine)
app = FastAPI()
class Count(BaseModel):
    count: int
@app.post("/rows", response_model=Count, operation_id="add")
async def add(n: int = Query(1), text: str = Body("", embed=True)):
    session = SessionLocal()
    session.add(Row())
    session.commit()
    count = session.query(Row).filter(Row.id >= n).count()
    session.close()
    return Count(count=count)
"""


def main(descriptor: int) -> None:
    """Serve fork requests on an inherited socket until it closes.

    A request is a JSON order with one descriptor, the new worker's socket; the answer is the worker's pid, or
    what kept it from being made as a negative `errno`.
    """
    control = socket.socket(fileno=descriptor)
    preload()
    control.sendall(b"R")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    has_frameworks = False
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, 4096, 1)
        if not message:
            os._exit(0)
        order = json.loads(message)
        if order["interface"] == "fastapi" and not has_frameworks:
            preload_frameworks()
            has_frameworks = True
        try:
            pid = os.fork()
        except OSError as error:  # no room for a process at the moment
            pid = -(error.errno or errno.EAGAIN)
        if pid == 0:
            _become_worker(control, descriptors[0], order)
        os.close(descriptors[0])
        control.sendall(struct.pack("<i", pid))


def preload() -> None:
    """Import what every worker needs, and freeze it for sharing."""
    sys.modules["pytest"] = None  # type: ignore[assignment]
    warnings.simplefilter("ignore")
    _import_all(STANDARD)
    import jsonschema
    import time_machine  # noqa: F401

    from awm_hub.sandbox import worker  # noqa: F401

    del sys.modules["pytest"]
    jsonschema.Draft202012Validator({"type": "object", "properties": {"x": {"anyOf": [{"type": "null"}]}}}).is_valid({})
    _freeze()


def preload_frameworks() -> None:
    """Import FastAPI and SQLAlchemy, run their lazy imports once, and keep threads out of request handling."""
    _run_inline()
    _import_all(FRAMEWORKS)
    _warm_up()
    _freeze()


def _run_inline() -> None:
    """Run what the frameworks would give to a thread in place: a sealed process cannot start threads."""
    import anyio.to_thread

    async def run_sync(function: Any, *args: Any, **_: Any) -> Any:
        return contextvars.copy_context().run(function, *args)

    to_thread: Any = anyio.to_thread
    to_thread.run_sync = run_sync


def _warm_up() -> None:
    import asyncio

    from awm_hub.sandbox.database import InstanceConnection
    from awm_hub.sandbox.endpoints import EndpointsCode

    loop = asyncio.new_event_loop()
    import sqlite3

    db = sqlite3.connect(":memory:", factory=InstanceConnection)
    code = EndpointsCode(_WARM_UP, db, loop)
    for arguments in ({"n": 1, "text": "x"}, {"n": "x"}):
        code.call(db, "add", arguments, 10**6)
    code.specifications()
    code.close()
    loop.close()
    os.environ.pop("DATABASE_PATH", None)


def _freeze() -> None:
    gc.collect()
    gc.freeze()


def _import_all(names: list[str]) -> None:
    for name in names:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def _become_worker(control: socket.socket, descriptor: int, order: dict[str, Any]) -> None:
    from awm_hub.sandbox import worker

    control.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        worker.main(socket.socket(fileno=descriptor), order)
    finally:
        os._exit(1)

"""The program of a sandboxed process: seal, then answer the host's frames one by one.

A worker hosts the instances of one environment and lives long; a one-shot fork does one job and ends. Both are forks of
the zygote and run this loop. Everything the host sends after the seal may be untrusted; everything sent back is.
"""

import asyncio
import contextlib
import ctypes
import gc
import json
import os
import socket
import sqlite3
from collections.abc import Callable, Iterator
from typing import Any

from awm_hub.sandbox import endings, frames, randomness, seal, statediff, verification
from awm_hub.sandbox.building import ImageBuilder, row_counts
from awm_hub.sandbox.clock import FrozenClock
from awm_hub.sandbox.database import open_read_only
from awm_hub.sandbox.deadline import CallDeadline, Deadline
from awm_hub.sandbox.instances import Hosting, start_clock


class Worker:
    """One sandboxed process and its socket to the host."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._deadline = Deadline()
        self._loop = asyncio.new_event_loop()
        self._hosting: Hosting | None = None
        self._clock: FrozenClock | None = None
        self._kept = _Kept(self._opened)

    def serve(self) -> None:
        """Answer frames until the host closes the socket."""
        reader = frames.Reader(self._connection)
        while True:
            try:
                message = reader.receive()
            except (EOFError, ConnectionError):
                return
            answer = self._answer(message)
            is_last = self._hosting is not None and self._hosting.is_spoilt
            self._send({**answer, "id": message.get("id"), "last": is_last})

    def _send(self, answer: dict[str, Any]) -> None:
        try:
            frames.send(self._connection, answer)
        except UnicodeEncodeError:
            frames.send(self._connection, _without_surrogates(answer))
        except (frames.FrameError, TypeError, ValueError, OverflowError, RecursionError) as error:
            frames.send(self._connection, {"id": answer["id"], "error": "FrameError", "message": str(error)[:2000]})

    def _answer(self, message: dict[str, Any]) -> dict[str, Any]:
        try:
            operation = getattr(self, f"_op_{message['op']}")
            return {"ok": operation(message)}
        except (CallDeadline, Exception, SystemExit, KeyboardInterrupt) as error:
            name = "deadline" if isinstance(error, CallDeadline) else type(error).__name__
            return {"error": name, "message": str(error)[:2000]}

    def _op_ping(self, message: dict[str, Any]) -> Any:
        return message.get("value")

    def _op_load(self, message: dict[str, Any]) -> bool:
        randomness.install()
        self._hosting = Hosting(
            interface=message["interface"],
            clock=start_clock(message["clock_us"]),
            deadline=self._deadline,
            limits=message["limits"],
            options=message["options"],
        )
        randomness.seed_call(0, 0)
        self._hosting.load(message["code"], message["tools"], message["image"], self._loop)
        _give_memory_back()
        return True

    def _op_image(self, message: dict[str, Any]) -> bool:
        self._hosted.images[message["key"]] = message["image"]
        return True

    def _op_create(self, message: dict[str, Any]) -> bool:
        is_own = message["image"] is not None
        image = message["image"] if is_own else self._hosted.images[message["key"]]
        key = None if is_own else message["key"]
        self._hosted.create(message["instance"], image, message["seed"], message["calls_count"], key)
        return True

    def _op_call(self, message: dict[str, Any]) -> dict[str, Any]:
        m = message
        is_repeated = m.get("is_repeated", False)
        return self._hosted.call(
            m["instance"], m["tool"], m["arguments"], m.get("calls_count"), is_repeated=is_repeated
        )

    def _op_calls(self, message: dict[str, Any]) -> list[dict[str, Any]]:
        return self._hosted.call_many(message["calls"])

    def _op_export(self, message: dict[str, Any]) -> dict[str, Any]:
        found = self._hosted.instances[message["instance"]]
        return {"image": found.db.serialize(), "calls_count": found.calls_count}

    def _op_close(self, message: dict[str, Any]) -> bool:
        self._hosted.close(message["instance"])
        return True

    @property
    def _hosted(self) -> Hosting:
        if self._hosting is None:
            raise RuntimeError("no environment is loaded")
        return self._hosting

    def _op_build(self, message: dict[str, Any]) -> dict[str, Any]:
        randomness.install()
        clock = start_clock(message["clock_us"])
        with self._deadline.running(message["seconds"]):
            return ImageBuilder(message, clock, self._deadline).build(self._loop)

    def _op_verify(self, message: dict[str, Any]) -> str:
        randomness.install()
        randomness.seed_call(0, 0)
        clock = self._clock_of(message)
        with self._deadline.running(message["seconds"]):
            return verification.run(message, clock)

    def _op_setup(self, message: dict[str, Any]) -> bytes:
        """A task's setup statements applied to an image."""
        clock = start_clock(message["clock_us"])
        with self._deadline.running(message["seconds"]):
            db = sqlite3.connect(":memory:", isolation_level=None)
            db.deserialize(message["image"])
            db.execute("PRAGMA temp_store = MEMORY")
            db.execute("PRAGMA foreign_keys = ON")
            clock.bind(db)
            self._deadline.watch(db)
            for statement in message["statements"]:
                db.execute(statement)
            return db.serialize()

    def _op_diff(self, message: dict[str, Any]) -> str:
        with self._deadline.running(message["seconds"]):
            initial, final = (self._opened(message[side]) for side in ("initial", "final"))
            return json.dumps(statediff.diff(initial, final, volatile=message["volatile"]), ensure_ascii=False)

    def _op_dump(self, message: dict[str, Any]) -> str:
        with self._deadline.running(message["seconds"]):
            found = statediff.dump(self._opened(message["image"]), message["max_rows"])
            return json.dumps(found, ensure_ascii=False)

    def _op_summary(self, message: dict[str, Any]) -> dict[str, Any]:
        with self._deadline.running(message["seconds"]):
            db = self._opened(message["image"])
            return {"logical_hash": statediff.logical_hash(db), "row_counts": row_counts(db)}

    def _op_hash(self, message: dict[str, Any]) -> str:
        with self._deadline.running(message["seconds"]):
            return statediff.logical_hash(self._opened(message["image"]))

    def _op_query(self, message: dict[str, Any]) -> str:
        clock = self._clock_of(message)
        with self._deadline.running(message["seconds"]):
            db = self._opened(message["image"], clock)
            rows = [dict(row) for row in db.execute(message["sql"]).fetchmany(message["max_rows"])]
            plain = [{k: statediff.json_value(v) for k, v in row.items()} for row in rows]
            return json.dumps(plain, ensure_ascii=False)

    def _clock_of(self, message: dict[str, Any]) -> FrozenClock:
        """The clock after so many calls; all requests to one process are about one environment."""
        if self._clock is None:
            self._clock = start_clock(message["clock_us"])
        self._clock.set_calls(message["calls_count"])
        return self._clock

    def _opened(self, image: bytes, clock: FrozenClock | None = None) -> sqlite3.Connection:
        db = open_read_only(image, clock)
        self._deadline.watch(db)
        return db

    def _op_compare(self, message: dict[str, Any]) -> str:
        with self._deadline.running(message["seconds"]):
            volatile, free = frozenset(message["volatile"]), frozenset(message["free"])
            rules: dict[str, Any] = {"volatile": volatile, "free": free, "kind": message["kind"]}
            actual = self._opened(message["actual"])
            with (
                self._kept.solution(message["initial"], message["expected"], rules) as (initial, wanted, read),
                statediff.unchanging(initial, actual),
            ):
                among = statediff.differing_tables(initial, actual, read=read)
                equal, differences = endings.same_changes(wanted, initial, actual, among=among, **rules)
                changes = statediff.diff(initial, actual, volatile=volatile, among=among)
            return json.dumps({"equal": equal, "differences": differences, "changes": changes}, ensure_ascii=False)


class _Kept:
    """What comparisons with one solution have in common; many of one task follow each other."""

    def __init__(self, opened: Callable[[bytes], sqlite3.Connection]) -> None:
        self._opened = opened
        self._key: tuple[Any, ...] = ()
        self._found: tuple[sqlite3.Connection, tuple[endings.Change, ...], dict[str, list[bytes]]] | None = None

    @contextlib.contextmanager
    def solution(
        self, initial: bytes, expected: bytes, rules: dict[str, Any]
    ) -> Iterator[tuple[sqlite3.Connection, tuple[endings.Change, ...], dict[str, list[bytes]]]]:
        """The initial database, the changes that the solution makes, and what was read; after an error all is new."""
        key = (initial, expected, rules)
        found, self._found = self._found, None
        if found is None or self._key != key:
            db = self._opened(initial)
            self._key, found = key, (db, endings.wanted_changes(db, self._opened(expected), **rules), {})
        yield found
        self._found = found


def main(connection: socket.socket, order: dict[str, Any]) -> None:
    """Become a worker: seal first, then serve. Never returns."""
    _keep_only(connection.fileno())
    worker = Worker(connection)
    sealed: dict[str, Any] = {}
    try:
        if order["seal"]:
            sealed = seal.seal(memory_bytes=order["memory_bytes"])
        else:
            seal.end_with_parent()
            seal.limit_resources(order["memory_bytes"])
    except OSError as error:
        with contextlib.suppress(OSError):
            frames.send(connection, {"id": 0, "error": "seal", "message": str(error)})
        os._exit(1)
    frames.send(connection, {"id": 0, "ok": sealed})
    with contextlib.suppress(BaseException):
        worker.serve()
    os._exit(0)


def _without_surrogates(value: Any) -> Any:
    """The same with `?` for what has no UTF-8 form, such as in a message or a name that code of the row has chosen."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {key: _without_surrogates(part) for key, part in value.items()}
    return [_without_surrogates(part) for part in value] if isinstance(value, list) else value


def _give_memory_back() -> None:
    """Return what loading needed for a while; what is left is not looked at again by the garbage collector."""
    gc.collect()
    gc.freeze()
    with contextlib.suppress(AttributeError, OSError):  # only glibc has it
        ctypes.CDLL(None).malloc_trim(0)


def _keep_only(descriptor: int) -> None:
    """Close everything inherited but the socket; what code prints goes to the null device."""
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    os.closerange(3, descriptor)
    os.closerange(descriptor + 1, 4096)

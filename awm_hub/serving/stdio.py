"""One instance as an MCP server on stdin and stdout, for clients that start their servers themselves.

Each line on stdout is one JSON-RPC message of ours and nothing else: while serving, descriptor 1 leads to stderr, and
the frames go out through a private duplicate. U+2028, U+2029 and U+0085 are escaped, since some clients take them for
the end of a line.

What was asked before the end of input is still answered: `awm-hub serve --stdio ENV < frames.jsonl` works.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from typing import Any

import anyio

from awm_hub import aio
from awm_hub.canonical import to_line
from awm_hub.environment import Environment
from awm_hub.serving.ending import closed, first_of, stopping_signals
from awm_hub.serving.instances import Lease
from awm_hub.serving.lines import LineReader, LineWriter
from awm_hub.serving.messages import read_call
from awm_hub.serving.protocol import current, dump_message, make_server, read_message
from awm_hub.serving.refusals import INVALID_REQUEST, PARSE_ERROR, Refusal
from awm_hub.serving.settings import MAX_BODY_BYTES, ServerSettings

_SPARE_S = 10
"""On top of a call's hard deadline: how long an answer may take after the end of input."""


def serve_stdio(
    environment: Environment,
    *,
    task: str | None = None,
    seed: int = 0,
    settings: ServerSettings | None = None,
    revision: str | None = None,
) -> None:
    """Serve one instance until the end of input or SIGTERM (returns), or SIGINT.

    Raises:
        UnknownNameError: the environment has no such task.
        SandboxError: the environment does not launch.
        KeyboardInterrupt: SIGINT ended the server, after everything was closed.
    """
    with _own_streams() as (source, sink):
        session = _Session(environment, settings or ServerSettings(), source, sink)
        ended_by = asyncio.run(session.serve(task=task, seed=seed, revision=revision))
    if ended_by == signal.SIGINT:
        raise KeyboardInterrupt


class _Session:
    """The one connection of a process."""

    def __init__(self, environment: Environment, settings: ServerSettings, source: int, sink: int) -> None:
        self._environment, self._settings, self._source, self._sink = environment, settings, source, sink
        self._unanswered: set[str] = set()
        self._answered = asyncio.Event()
        self._has_begun = False

    async def serve(self, *, task: str | None, seed: int, revision: str | None) -> int | None:
        """Serve until the end of input or a signal, whose number is returned."""
        received: list[int] = []
        ended = asyncio.Event()

        def stop(number: int) -> None:
            received.append(number)
            ended.set()

        settings = self._settings
        with stopping_signals(stop):
            instance = await aio.launch(
                self._environment,
                task=task,
                seed=seed,
                trust_remote_code=settings.trust_remote_code,
                limits=settings.limits,
                options=settings.options,
                revision=revision,
            )
            try:
                talking = asyncio.create_task(self._talk(instance))
                await first_of(ended.wait(), talking)
                if not talking.done():
                    talking.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await talking
            finally:
                await closed(instance.close())
        return received[0] if received else None

    async def _talk(self, instance: Any) -> None:
        current.set(Lease(id="stdio", environment=self._environment, instance=instance, opened_by="stdio"))
        server = make_server(self._settings)
        self._writer = LineWriter(self._sink)
        self._to_server, from_client = anyio.create_memory_object_stream[Any](0)
        to_client, self._from_server = anyio.create_memory_object_stream[Any](0)
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._write)
                group.start_soon(self._read)
                await server.run(from_client, to_client, server.create_initialization_options())
                group.cancel_scope.cancel()
        except* OSError:
            pass  # the client reads no more
        finally:
            self._writer.close()

    async def _read(self) -> None:
        async with self._to_server:
            async for line in LineReader(self._source, max_bytes=MAX_BODY_BYTES):
                if line is None:
                    await self._refuse(PARSE_ERROR, f"the line is longer than {MAX_BODY_BYTES} bytes")
                elif line.strip():
                    await self._receive(line)
            await self._answers()

    async def _receive(self, line: bytes) -> None:
        try:
            call = read_call(line)
            message = read_message(line)
        except Refusal as refusal:
            await self._refuse(refusal.code, refusal.message, refusal.request_id)
            return
        except ValueError:
            await self._refuse(INVALID_REQUEST, "this is not a JSON-RPC message", call.id)
            return
        self._has_begun = self._has_begun or call.is_initialize
        if not self._has_begun and call.method.startswith("tools/") and "_meta" not in call.params:
            # A session-less client tells its version in `_meta`; anybody else, the SDK would answer in riddles.
            await self._refuse(INVALID_REQUEST, f"send initialize before {call.method}", call.id)
            return
        if call.id is not None:
            self._unanswered.add(str(call.id))
        elif call.method == "notifications/cancelled":
            # 1.x answers a cancelled request and 2.x does not: wait for neither.
            self._unanswered.discard(str(call.params.get("requestId")))
        await self._to_server.send(message)

    async def _answers(self) -> None:
        """Wait until everything is answered, or no answer has come for longer than a call may take."""
        with contextlib.suppress(TimeoutError):
            while self._unanswered:
                self._answered.clear()
                await asyncio.wait_for(self._answered.wait(), self._settings.limits.call_hard_s + _SPARE_S)

    async def _write(self) -> None:
        async with self._from_server:
            async for message in self._from_server:
                await self._send(dump_message(message))

    async def _refuse(self, code: int, message: str, request_id: str | int | None = None) -> None:
        await self._send({"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message}})

    async def _send(self, frame: dict[str, Any]) -> None:
        await self._writer.write(to_line(frame))
        if "method" not in frame:
            self._unanswered.discard(str(frame.get("id")))
            self._answered.set()


@contextlib.contextmanager
def _own_streams() -> Iterator[tuple[int, int]]:
    """Private duplicates of stdin and stdout; 0 reads nothing meanwhile and 1 writes to stderr, in children too."""
    sys.stdout.flush()
    source, sink = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    try:
        yield source, sink
    finally:
        sys.stdout.flush()
        os.dup2(sink, 1)
        os.dup2(source, 0)

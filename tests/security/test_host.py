"""What a worker sends can neither break the host, nor fill it, nor hold it up; wrong answers are errors of ours."""

import asyncio
import math
import os
import resource
import select
import struct
import time
from typing import Any

import msgpack
import pytest
from making import make_environment, notes_request

from awm_hub import aio
from awm_hub.canonical import to_json
from awm_hub.environment import Environment
from awm_hub.errors import AwmHubError, LoadError
from awm_hub.runtime import Limits, answers, jobs, processes
from awm_hub.runtime.pool import LocalPool, PoolCall
from awm_hub.sandbox import frames
from awm_hub.trajectory import StateDiff, ToolResult

LIES: list[Any] = [
    None, True, 0, -1, 2**63, 1.5, math.nan, math.inf, "", "x", "\0", "{}", "[]", "null", '{"a": 1}', '{"a": {}}',
    '{"a": {"added": 1, "removed": 1, "changed": 1}}', "[[[", b"", b"x" * 100, [], [None], [[]], {}, {"ok": 1},
    {"image": 1}, {"image": b""}, {"equal": 1}, {"logical_hash": 1, "row_counts": {}}, {"row_counts": {"x": "y"}},
]  # fmt: skip
"""What no operation answers."""
ANSWER = {
    "type": "ok", "value": "1", "code": None, "message": "", "coerced": [], "nulls": [], "changed": False,
    "seconds": 0.1,
}  # fmt: skip
OWN_OPERATIONS = ["call", "calls", "export", "image", "create", "close"]
READERS = ["diff", "dump", "hash", "query", "compare", "summary", "setup"]


async def _use(environment: Environment, lie: str, operation: str) -> list[Any]:
    """Have a worker answer one operation with a lie, and use every verb; what the verbs gave."""
    found: list[Any] = []
    async with LocalPool() as pool:
        instance = await pool.acquire(environment)
        snapshot = await instance.snapshot()
        await instance.call_tool("lie", {"operation": operation, "value": lie})
        for verb in (
            lambda: instance.call_tool("count"),
            lambda: pool.call([PoolCall(instance=instance, tool="count")]),
            instance.image, instance.diff, instance.snapshot, instance.trajectory,
            lambda: instance.restore(snapshot), instance.reset, instance.fork,
        ):  # fmt: skip
            try:
                found.append(await verb())
            except AwmHubError as error:
                found.append(error)
    return found


@pytest.fixture(scope="module")
def liar() -> Environment:
    """An environment whose tool `lie` takes over how its worker answers."""
    from awm_hub.runtime import sync

    code = '''
import ast, sys


def lie(db, operation: str, value: str) -> str:
    """Answer with a value from now on."""
    told = eval(value, {"nan": float("nan"), "inf": float("inf")})
    setattr(sys.modules["awm_hub.sandbox.worker"].Worker, "_op_" + operation, lambda self, message: told)
    return "done"


def count(db) -> int:
    """Count the notes."""
    return db.execute("SELECT count(*) FROM notes").fetchone()[0]
'''
    return sync.run(make_environment, code)


async def _called(environment: Environment, told: Any) -> ToolResult:
    """What a call comes to that is answered with this."""
    async with await aio.launch(environment) as instance:
        await instance.call_tool("lie", {"operation": "call", "value": repr(told)})
        return await instance.call_tool("count")


@pytest.mark.parametrize("lies", [LIES[::4], pytest.param(LIES, marks=pytest.mark.slow)], ids=["some", "all"])
@pytest.mark.parametrize("operation", OWN_OPERATIONS)
async def test_a_worker_that_answers_nonsense_gives_results_or_errors_of_ours(
    liar: Environment, operation: str, lies: list[Any]
) -> None:
    for value in lies:
        found = await _use(liar, repr(value), operation)
        assert len(found) == 9


@pytest.mark.parametrize("field", ANSWER)
async def test_a_call_answered_with_a_wrong_field_is_a_fault(liar: Environment, field: str) -> None:
    missing = {name: value for name, value in ANSWER.items() if name != field}
    for told in ({**ANSWER, field: ...}, *({**ANSWER, field: value} for value in LIES), missing):
        result = await _called(liar, told)
        assert isinstance(result, ToolResult)
        to_json(result.to_dict())
        if told is missing or told[field] is ...:
            assert (result.type, result.code) in {("fault", "protocol"), ("ok", None), ("fault", "FrameError")}


@pytest.mark.parametrize(
    ("more", "code"), [({}, None), ({"seconds": math.nan}, "protocol"), ({"coerced": [b"x"]}, "protocol")]
)
async def test_an_answer_that_lacks_or_bends_a_field_gives_a_result_that_can_be_stored(
    liar: Environment, more: dict[str, Any], code: str | None
) -> None:
    result = await _called(liar, {**ANSWER, "changed": True, **more})
    assert result.code == code
    to_json(result.to_dict())


async def test_a_forged_message_is_cut(liar: Environment) -> None:
    told = {**ANSWER, "type": "fault", "code": "c" * 10**6, "message": "m" * 10**6}
    result = await _called(liar, told)
    assert (len(result.code), len(result.message)) == (100, 4000)


@pytest.mark.parametrize("operation", READERS)
async def test_a_reader_that_was_taken_over_gives_data_or_an_error_of_ours(
    operation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for value in LIES:
        await _read_from_a_liar(operation, value, monkeypatch)


async def _read_from_a_liar(operation: str, value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def spawn(**_: Any) -> processes.Process:
        process = processes.Process.__new__(processes.Process)
        channel = processes._Channel(asyncio.get_running_loop())
        process._channel, process._transport = channel, _Liar(channel, value)  # type: ignore[assignment]
        process._counter, process.is_dead = 0, False
        monkeypatch.setattr(process, "kill", lambda: None, raising=False)
        return process

    monkeypatch.setattr(processes.Process, "spawn", spawn)
    clock = notes_request(None).clock
    verb = {
        "diff": lambda: jobs.state_diff(b"", b""), "dump": lambda: jobs.dump(b""),
        "hash": lambda: jobs.logical_hash(b""),
        "query": lambda: jobs.query(b"", "", clock=clock), "compare": lambda: jobs.compare_endings(b"", b"", b""),
        "summary": lambda: jobs._summary(b"", False), "setup": lambda: jobs.prepare_image(b"", ["x"], clock),
    }[operation]  # fmt: skip
    try:
        found = await verb()
    except AwmHubError:
        return
    assert isinstance(found, StateDiff | dict | list | str | bytes | int | float | bool | jobs.Comparison | None)


class _Liar:
    """A transport to a worker that answers whatever it is asked with one value."""

    def __init__(self, channel: processes._Channel, value: Any) -> None:
        self._channel, self._value = channel, value

    def write(self, _data: bytes) -> None:
        """Answer, as data from the socket would be."""
        answers = [{"id": self._channel._waiting[-1].number, "ok": self._value}]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(processes.answers, "take", lambda buffer: (buffer.clear(), answers.pop())[1])
            self._channel.data_received(b"?")


async def test_a_build_that_answers_nonsense_is_a_load_error() -> None:
    for value in LIES:
        code = (
            "import sys\nkind = sys.modules['awm_hub.sandbox.building'].ImageBuilder\n"
            f"told = eval({repr(value)!r}, {{'nan': float('nan'), 'inf': float('inf')}})\n"
            "kind._image = kind._build = kind.build = lambda *_: told\n"
            "sys.modules['awm_hub.sandbox.worker'].json = None\n"
            "frames = sys.modules['awm_hub.sandbox.frames']\nsend = frames.send\n"
            "frames.send = lambda connection, answer: send(connection, {'id': answer['id'], 'ok': told})\n"
        )
        with pytest.raises(LoadError):
            await jobs.build(notes_request(code, strict=False))


async def test_a_verifier_that_answers_for_the_sandbox_gives_json_or_an_error() -> None:
    image = (await jobs.build(notes_request(None))).image
    for value in LIES:
        code = (
            "import sys\ndef check(final):\n"
            f"    told = eval({repr(value)!r}, {{'nan': float('nan'), 'inf': float('inf')}})\n"
            "    sys.modules['awm_hub.sandbox.verification'].encode = lambda *_: told\n"
        )
        try:
            await jobs.verify(
                code=code, function="check", initial=image, final=image, changes=StateDiff(), answer=None,
                clock=notes_request(None).clock,
            )  # fmt: skip
        except jobs.VerifierError:
            continue


async def test_a_worker_that_floods_the_host_after_its_answer_is_stopped_and_fills_nothing(
    hostile: Environment,
) -> None:
    code = f"""
answer = {{"id": _asked(), "ok": {ANSWER!r}}}
sys.modules["awm_hub.sandbox.frames"].send(_host(), answer)
signal.setitimer(signal.ITIMER_REAL, 0)
while True:
    _host().sendall(bytes(1 << 20))
"""
    async with await aio.launch(hostile, limits=Limits(call_hard_s=20)) as instance:
        await instance.call_tool("count")
        process = instance._residence.worker._process
        assert process is not None
        handle = os.pidfd_open(process.pid)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        assert (await instance.call_tool("attack", {"code": code})).value == 1
        ended, _, _ = await asyncio.to_thread(select.select, [handle], [], [], 20)
        os.close(handle)
        assert ended
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024
        assert (await instance.call_tool("count")).value == 2


async def test_an_answer_before_the_question_is_no_answer(hostile: Environment) -> None:
    code = f"""
encode = sys.modules["awm_hub.sandbox.frames"].encode
_host().sendall(b"".join(encode({{"id": number, "ok": {ANSWER!r}}}) for number in (_asked(), _asked() + 1)))
time.sleep(60)
"""
    async with await aio.launch(hostile, limits=Limits(call_hard_s=20)) as instance:
        assert (await instance.call_tool("attack", {"code": code})).value == 1
        result = await instance.call_tool("count")
        assert (result.type, result.value) == ("ok", 2)


BOMBS = {
    "empty lists": b"\x81\xa1x\x98" + (b"\xdd\x00\x0f\x42\x40" + b"\x90" * 10**6) * 8,
    "empty maps": b"\x81\xa1x\x98" + (b"\xdd\x00\x0f\x42\x40" + b"\x80" * 10**6) * 8,
    "numbers": b"\x81\xa1x\x98" + (b"\xdd\x00\x0f\x42\x40" + b"\xcd\x01\x01" * 10**6) * 8,
    "claims": b"\x81\xa1x" + b"\xdd\x00\x0f\x42\x40" * 400,
    "claims of maps": b"\x81\xa1x" + b"\xdf\x00\x0f\x42\x40" * 400,
    "depth": b"\x81\xa1x" + b"\x91" * 10**6,
    "gigabytes": b"\x81\xa1x\xc6\xff\xff\xff\xff",
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused_before_it_goes_off(name: str) -> None:
    buffer = bytearray(struct.pack("<I", len(BOMBS[name])) + BOMBS[name])
    started, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(frames.FrameError):
        answers.take(buffer)
    assert time.process_time() - started < 2
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 * 1024


@pytest.mark.parametrize(
    "message",
    [
        {"id": 1, "ok": {"image": b"\xdd" * 100_000, "text": "é" * 70_000, "n": [1, -1, -200, 2**40, 1.5, None, True]}},
        {"id": 2, "ok": [[ANSWER] * 256] * 8},
        {"id": 3, "error": "X", "message": "ܐ" * 40_000},
        {"id": 4, "ok": {str(k): list(range(k % 40)) for k in range(9000)}},
    ],
)
def test_an_honest_answer_passes_whatever_its_size(message: dict[str, Any]) -> None:
    buffer = bytearray(frames.encode(message))
    assert answers.take(buffer) == message
    assert buffer == b""


def test_measuring_agrees_with_the_decoder_about_every_type() -> None:
    extension = msgpack.ExtType(5, b"x" * 300)
    values = [0, 127, 128, 2**16, 2**32, -1, -33, -129, -(2**31), 1.0, "x", "x" * 40, "x" * 300, b"x", b"x" * 300, None]
    values += [extension, msgpack.ExtType(5, b"1234"), [1] * 20, {str(n): n for n in range(20)}, True, False]
    body = msgpack.packb({"ok": values * 2000})
    buffer = bytearray(struct.pack("<I", len(body)) + body)
    assert answers.take(buffer) == {"ok": values * 2000}

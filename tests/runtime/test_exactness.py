"""The same calls give the same results, in whatever process and after whatever went before; limits hold throughout."""

import asyncio
import dataclasses
import hashlib
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from ledgers import INTERFACES, make_ledger
from making import make_environment, notes_request
from oracle import ending

import awm_hub
from awm_hub import aio
from awm_hub.environment import Environment, Quality
from awm_hub.errors import EpisodeError, WorkerError
from awm_hub.runtime import Limits, jobs
from awm_hub.runtime.pool import LocalPool, PoolCall
from awm_hub.runtime.processes import Process
from awm_hub.sandbox import frames
from awm_hub.trajectory import ToolResult

Call = tuple[str, dict[str, Any]]
SERIES: dict[str, list[Call]] = {
    "functions": [
        ("draw", {}), ("add", {"text": "a"}), ("add", {"text": ""}), ("refuse", {"text": "r"}), ("fail", {"text": "f"}),
        ("add", {"text": 5}), ("edit", {"note_id": 3, "text": "ä\u2028z"}), ("make_table", {"name": "t"}),
        ("upsert", {"note_id": 9}), ("upsert", {"note_id": 9}), ("scratch", {"text": "s"}), ("as_tuples", {}),
        ("scratch", {"text": "t"}), ("upsert", {"note_id": 9}),
        ("remove", {"note_id": 1}), ("draw", {}), ("add", {"text": "z"}), ("list_notes", {}),
    ],
    "fastapi": [
        ("draw", {}), ("add", {"text": "a"}), ("leak", {"text": "l", "commits": 1}), ("fail", {"text": "f", "how": 0}),
        ("fail", {"text": "f", "how": 409}), ("due", {"day": "no day"}), ("due", {"day": "2026-03-09"}),
        ("weekday", {"day": "no day"}), ("weekday", {"day": "2026-03-09"}),
        ("edit", {"note_id": 3, "text": "ä\u2028z"}), ("make_table", {"name": "t"}), ("remove", {"note_id": 99}),
        ("remove", {"note_id": 1}), ("draw", {}), ("add", {"text": "z"}), ("list_notes", {}), ("list_visits", {}),
    ],
}  # fmt: skip
FAST = {
    "functions": Limits(call_soft_s=0.3, call_hard_s=1.0),
    "fastapi": Limits(call_soft_s=1.0, call_hard_s=3.0),
}
TRACES: dict[str, dict[str, list[Call]]] = {
    "functions": {
        "commits": [("add", {"text": "a"}), ("edit", {"note_id": 1, "text": "b"})],
        "a new table": [("make_table", {"name": "t"})],
        "failed calls": [("fail", {"text": "f"}), ("refuse", {"text": "r"})],
        "temporary tables and settings": [("scratch", {"text": "s"}), ("as_tuples", {})],
        "an interrupted call": [("spin", {})],
        "an interrupted query": [("spin_in_sql", {"expression": "random() != 0"})],
        "a killed process": [("add", {"text": "a"}), ("die", {})],
        "a process killed at its deadline": [("cling", {})],
    },
    "fastapi": {
        "commits": [("add", {"text": "a"}), ("edit", {"note_id": 1, "text": "b"})],
        "a new table": [("make_table", {"name": "t"})],
        "failed calls": [("fail", {"text": "f", "how": 0}), ("fail", {"text": "f", "how": 500})],
        "leaked sessions": [("leak", {"text": "l", "commits": 2}), ("leak", {"text": "m", "commits": 0})],
        "an interrupted call": [("spin", {"text": "s", "is_fast": True})],
        "an interrupted query": [("spin_in_sql", {})],
        "a killed process": [("add", {"text": "a"}), ("die", {})],
    },
}
ELSEWHERE = """
import asyncio, sys
sys.path[:0] = {path!r}
from runtime.test_exactness import outcome
print(asyncio.run(outcome({interface!r}, {seed})))
"""


@pytest.fixture(scope="module", params=INTERFACES)
def environment(request: pytest.FixtureRequest) -> Environment:
    return asyncio.run(make_ledger(request.param))


@pytest.fixture(scope="module")
def functions() -> Environment:
    return asyncio.run(make_ledger("functions"))


async def perform(instance: aio.Instance) -> list[tuple[Any, ...]]:
    """How the calls of the interface's series end."""
    return [ending(await instance.call_tool(*call)) for call in SERIES[instance.environment.interface]]


async def outcome(interface: str, seed: int) -> str:
    """Everything that a series of calls gives, as one line."""
    async with await aio.launch(await make_ledger(interface), seed=seed) as instance:
        results, image = await perform(instance), await instance.image()
        parts = [results, hashlib.sha256(image).hexdigest(), (await instance.diff()).to_dict()]
    return json.dumps(parts)


@pytest.mark.parametrize("interface", INTERFACES)
async def test_another_process_gives_the_same_results_and_the_same_database(interface: str) -> None:
    path = [str(Path(__file__).parents[1]), str(Path(awm_hub.__file__).parents[1])]
    program = ELSEWHERE.format(path=path, interface=interface, seed=7)
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout.strip() == await outcome(interface, 7), done.stderr
    assert await outcome(interface, 8) != await outcome(interface, 7)


@pytest.mark.parametrize(("interface", "trace"), [(i, trace) for i in INTERFACES for trace in TRACES[i]])
async def test_reset_is_exact_after(interface: str, trace: str) -> None:
    environment = await make_ledger(interface)
    async with await aio.launch(environment, limits=FAST[interface]) as instance:
        expected, image = await perform(instance), await instance.image()
        await instance.reset()
        for call in TRACES[interface][trace]:
            await instance.call_tool(*call)
        await instance.reset()
        assert await instance.image() == environment.database
        assert (await perform(instance), await instance.image()) == (expected, image)


async def _rebuilt(instance: aio.Instance) -> aio.Instance:
    instance._residence.worker.stop()
    return instance


async def _restored(instance: aio.Instance) -> aio.Instance:
    await instance.restore(await instance.snapshot())
    return instance


async def _forked(instance: aio.Instance) -> aio.Instance:
    async with instance:
        return await instance.fork()


@pytest.mark.parametrize("broken_off", [_rebuilt, _restored, _forked])
async def test_an_instance_goes_on_exactly_when_it_is(
    environment: Environment, broken_off: Callable[[aio.Instance], Awaitable[aio.Instance]]
) -> None:
    async with LocalPool() as pool, LocalPool() as elsewhere:
        whole, broken = await pool.acquire(environment), await elsewhere.acquire(environment)
        for call in SERIES[environment.interface]:
            broken = await broken_off(broken)
            assert ending(await broken.call_tool(*call)) == ending(await whole.call_tool(*call))
        assert await jobs.logical_hash(await broken.image()) == await jobs.logical_hash(await whole.image())
        assert whole._residence.worker.generation == 1


async def test_what_an_interrupted_call_has_committed_survives_the_process() -> None:
    async with await aio.launch(await make_ledger("fastapi"), limits=FAST["fastapi"]) as instance:
        assert (await instance.call_tool("spin", {"text": "s", "is_fast": True})).code == "deadline"
        image = await instance.image()
        committed = (await instance.call_tool("list_notes")).value
        assert len(committed) > 3
        instance._residence.worker.stop()
        assert (await instance.image(), (await instance.call_tool("list_notes")).value) == (image, committed)


async def test_interrupted_frameworks_are_not_used_again() -> None:
    environment = await make_ledger("fastapi")
    async with (
        await aio.launch(environment, limits=FAST["fastapi"]) as one,
        await aio.launch(environment, limits=FAST["fastapi"]) as two,
    ):
        await two.call_tool("add", {"text": "kept"})
        generation = two._residence.worker.generation
        await asyncio.gather(one.call_tool("spin", {"text": "s"}), two.call_tool("add", {"text": "meanwhile"}))
        assert [n["text"] for n in (await two.call_tool("list_notes")).value][2:] == ["kept", "meanwhile"]
        assert (one._residence.worker is two._residence.worker, two._residence.worker.generation) == (
            True,
            generation + 1,
        )


async def test_a_request_that_the_framework_refuses_is_the_same_alone_and_in_a_batch() -> None:
    environment = await make_ledger("fastapi")
    calls: list[Call] = [(tool, {"day": "no day"}) for tool in ("due", "weekday")] + [("draw", {})]
    calls += calls
    async with LocalPool() as pool:
        one, two = await pool.acquire(environment), await pool.acquire(environment)
        alone = [await one.call_tool(*call) for call in calls]
        together = await pool.call([PoolCall(instance=two, tool=t, arguments=a) for t, a in calls])
        assert [ending(r) for r in together] == [ending(r) for r in alone]
        assert await two.image() == await one.image()


HELD: list[tuple[str, Limits, str, Call, str]] = [
    ("functions", Limits(call_steps=200_000), "statements", ("spin_in_sql", {"expression": "1"}), "statement_limit"),
    ("functions", Limits(call_steps=200_000), "own connection", ("spin_elsewhere", {}), "statement_limit"),
    ("functions", FAST["functions"], "time", ("spin", {}), "deadline"),
    ("functions", FAST["functions"], "time in C", ("cling", {}), "deadline"),
    (
        "functions",
        FAST["functions"],
        "time in a function of SQL",
        ("spin_in_sql", {"expression": "random() != 0"}),
        "deadline",
    ),
    ("functions", Limits(database_bytes=2**20), "database", ("grow", {"size": 1_046_000}), "database_limit"),
    ("functions", Limits(output_bytes=1000), "output", ("say", {"size": 2000}), "output_limit"),
    ("functions", Limits(worker_memory_bytes=2**29), "memory", ("take", {"size": 2**29}), "memory_limit"),
    ("fastapi", Limits(call_steps=2_000_000), "statements", ("spin_in_sql", {}), "statement_limit"),
    ("fastapi", FAST["fastapi"], "time", ("spin", {"text": "s"}), "deadline"),
    ("fastapi", Limits(database_bytes=2**20), "database", ("grow", {"size": 1_046_000}), "database_limit"),
    ("fastapi", Limits(output_bytes=2000), "output", ("say", {"size": 3000}), "output_limit"),
    ("fastapi", Limits(worker_memory_bytes=2**30), "memory", ("take", {"size": 2**30}), "memory_limit"),
]


@pytest.mark.parametrize(("interface", "limits", "what", "call", "code"), HELD, ids=[f"{h[0]}, {h[2]}" for h in HELD])
async def test_a_limit_is_a_fault_of_its_own_and_holds_after_everything(
    interface: str, limits: Limits, what: str, call: Call, code: str
) -> None:
    environment = await make_ledger(interface)

    async def is_in_force(instance: aio.Instance) -> None:
        result = await instance.call_tool(*call)
        assert (result.type, result.code) == ("fault", code), result
        assert (await instance.call_tool("list_notes")).is_ok

    async with await aio.launch(environment, limits=limits) as instance:
        await is_in_force(instance)
        snapshot = await instance.snapshot()
        await instance.reset()
        await is_in_force(instance)
        await instance.restore(snapshot)
        await is_in_force(instance)
        instance._residence.worker.stop()
        await is_in_force(instance)
        async with await instance.fork() as twin:
            await is_in_force(twin)
        await instance.reset()
        assert await instance.image() == environment.database


async def test_a_database_grows_up_to_its_limit_and_is_usable_then(functions: Environment) -> None:
    async with await aio.launch(functions, limits=Limits(database_bytes=2**20)) as instance:
        results = [await instance.call_tool("grow", {"size": 100_000}) for _ in range(12)]
        assert {r.code for r in results} == {None, "database_limit"}
        assert len(await instance.image()) <= 2**20
        assert (await instance.call_tool("remove", {"note_id": 3})).is_ok
        assert (await instance.call_tool("grow", {"size": 90_000})).is_ok


@pytest.fixture
async def doomed(functions: Environment, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[aio.Instance]:
    """An instance whose next processes all die while it is rebuilt."""
    async with await aio.launch(functions) as instance:
        await instance.call_tool("add", {"text": "a"})
        send = Process.send

        def die(self: Process, op: str, **fields: Any) -> Any:
            if op == "create" and fields["instance"] == instance._residence.name:
                self.kill()
                raise WorkerError("the worker has died")
            return send(self, op, **fields)

        monkeypatch.setattr(Process, "send", die)
        instance._residence.worker.stop()
        yield instance


async def _call(instance: aio.Instance) -> ToolResult:
    return await instance.call_tool("list_notes")


async def _batch(instance: aio.Instance) -> ToolResult:
    async with LocalPool() as pool:
        found = await pool.call([PoolCall(instance=instance, tool="list_notes") for _ in range(3)])
    return found[0]


@pytest.mark.parametrize("how", [_call, _batch])
async def test_an_instance_that_cannot_be_rebuilt_says_so_and_is_closed(
    doomed: aio.Instance, how: Callable[[aio.Instance], Any]
) -> None:
    worker = doomed._residence.worker
    count = worker.instances_count
    result = await how(doomed)
    assert (result.type, result.code) == ("fault", "worker_died")
    assert "could not be rebuilt: the worker has died" in result.message
    assert (doomed.is_closed, worker.instances_count) == (True, count - 1)
    for verb in (doomed.reset, doomed.image, doomed.snapshot, doomed.fork, doomed.diff, lambda: _call(doomed)):
        with pytest.raises(EpisodeError, match=r"closed: it could not be rebuilt.*\n.*launch\(\)"):
            await verb()
    await doomed.close()
    assert worker.instances_count == count - 1


async def test_verbs_without_a_result_raise_when_the_instance_cannot_be_rebuilt(doomed: aio.Instance) -> None:
    with pytest.raises(WorkerError, match="could not be rebuilt"):
        await doomed.image()
    assert doomed.is_closed


async def test_a_call_that_cannot_be_repeated_exactly_is_not_passed_off_as_the_same(functions: Environment) -> None:
    async with await aio.launch(functions) as instance:
        await instance.call_tool("add", {"text": "a"})
        (logged,) = instance._residence.log
        instance._residence.log[0] = dataclasses.replace(logged, ending=("refused", "conflict"))
        instance._residence.worker.stop()
        result = await instance.call_tool("list_notes")
        assert "repeating add ended in another way than before" in result.message
        assert instance.is_closed


HIDDEN = {
    "a global": ("count = 0\n", "    global count\n    count += 1\n    return count\n"),
    "a container": ("seen = []\n", "    seen.append(1)\n    return len(seen)\n"),
    "an iterator": ("import itertools\ncount = itertools.count(1)\n", "    return next(count)\n"),
    "an attribute": (
        "class State:\n    count = 0\n",
        "    State.count += 1\n    return State.count\n",
    ),
}


@pytest.mark.parametrize("kind", HIDDEN)
async def test_hidden_module_state_is_detected_and_stays_within_one_episode(kind: str) -> None:
    held, body = HIDDEN[kind]
    code = f'{held}\n\ndef count_calls(db) -> int:\n    """Count calls."""\n{body}'
    report = await jobs.build(notes_request(code))
    assert report.hidden_state
    environment = await make_environment(code, quality=Quality(hidden_state=True))
    async with LocalPool() as pool:
        one, two = await pool.acquire(environment), await pool.acquire(environment)
        counts = [(await i.call_tool("count_calls")).value for i in (one, two, one, two)]
        assert (counts, one.worker_id != two.worker_id) == ([1, 1, 2, 2], True)
        snapshot = await one.snapshot()
        await one.reset()
        assert (await one.call_tool("count_calls")).value == 1
        await one.restore(snapshot)
        assert (await one.call_tool("count_calls")).value == 1
        assert (await two.call_tool("count_calls")).value == 3


async def test_plain_modules_share_a_worker(functions: Environment) -> None:
    assert not (await jobs.build(notes_request(functions.code))).hidden_state
    async with LocalPool() as pool:
        one, two = await pool.acquire(functions), await pool.acquire(functions)
        assert one.worker_id == two.worker_id


LAST_WRITES = '''
import sqlite3


def last_write(db: sqlite3.Connection) -> list:
    """What the connection says of its last write."""
    return list(db.execute("SELECT last_insert_rowid(), changes()").fetchone())


def write(db: sqlite3.Connection, sql: str, how: str) -> str:
    """Run a statement.

    Args:
        sql: The statement.
        how: Whether an error is caught, refused or left alone.
    """
    try:
        db.execute(sql)
    except sqlite3.Error:
        if how == "left":
            raise
        if how == "refused":
            raise ValueError("no")
        return "caught"
    return "done"
'''
PARTLY = "INSERT INTO notes (id, text) VALUES (70, 'new'), (1, 'taken')"


@pytest.mark.parametrize(
    ("sql", "how"),
    [
        ("INSERT INTO notes (id, text) VALUES (70, 'new')", "left"),
        ("UPDATE notes SET text = text || '!'", "left"),
        ("DELETE FROM notes WHERE id > 1", "left"),
        (PARTLY, "caught"),
        (PARTLY, "refused"),
        (PARTLY, "left"),
        ("INSERT INTO notes (id, text) VALUES (70, randomblob(3000000))", "left"),
    ],
)
async def test_no_call_hears_of_the_last_write_of_another(sql: str, how: str) -> None:
    environment = await make_environment(LAST_WRITES)
    async with await aio.launch(environment, limits=Limits(database_bytes=2**20)) as instance:
        await instance.call_tool("write", {"sql": sql, "how": how})
        assert (await instance.call_tool("last_write")).value == [0, 0]
        await instance.call_tool("write", {"sql": sql, "how": how})
        assert (await instance.call_tool("write", {"sql": "SELECT 1", "how": "left"})).value == "done"
        assert (await instance.call_tool("last_write")).value == [0, 0]


ENDS_ITS_TRANSACTION = '''
import sqlite3


def clash(db: sqlite3.Connection, then: str) -> str:
    """Write, lose the transaction to a conflict clause, and go on.

    Args:
        then: write, refuse or nothing.
    """
    db.execute("INSERT INTO notes (id, text) VALUES (70, 'before')")
    try:
        db.execute("INSERT OR ROLLBACK INTO notes (id, text) VALUES (1, 'taken')")
    except sqlite3.IntegrityError:
        pass
    if then != "nothing":
        db.execute("INSERT INTO notes (id, text) VALUES (71, 'after')")
    if then == "refuse":
        raise ValueError("no")
    return "done"


def ids(db: sqlite3.Connection) -> list:
    """Ids of all notes."""
    return [row[0] for row in db.execute("SELECT id FROM notes ORDER BY id")]
'''


@pytest.mark.parametrize("then", ["nothing", "write", "refuse"])
async def test_a_call_whose_transaction_was_ended_is_a_fault_and_what_it_left_is_rebuilt(then: str) -> None:
    async with await aio.launch(await make_environment(ENDS_ITS_TRANSACTION)) as instance:
        result = await instance.call_tool("clash", {"then": then})
        assert (result.type, result.code) == ("fault", "denied")
        left = (await instance.call_tool("ids")).value
        assert left == ([1, 2] if then == "nothing" else [1, 2, 71])
        instance._residence.worker.stop()
        assert (await instance.call_tool("ids")).value == left


async def test_a_cancelled_call_that_waits_keeps_its_place_before_a_reset(functions: Environment) -> None:
    async with await aio.launch(functions) as instance:
        first, second = (asyncio.ensure_future(instance.call_tool("add", {"text": t})) for t in ("a", "b"))
        await asyncio.sleep(0)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        await instance.reset()
        await first
        assert instance.steps == ()
        assert [note["text"] for note in (await instance.call_tool("list_notes")).value] == ["first", "second"]


async def test_calls_that_are_too_large_together_are_made_one_by_one(
    functions: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frames, "MAX_FRAME_BYTES", 2**20)
    text = "x" * 20_000
    async with LocalPool() as pool:
        instance = await pool.acquire(functions)
        calls = [PoolCall(instance=instance, tool="say_nothing", arguments={"text": text}) for _ in range(90)]
        found = await pool.call(calls)
    assert {(result.type, result.code) for result in found} == {("invalid_call", "unknown_tool")}


TEACHING = {
    "functions": '''
def teach(db) -> int:
    """Leave something on the connection, and nothing in the database."""
    db.create_function("twice", 1, lambda n: 2 * n)
    return 1


def told(db) -> int:
    """Use what was left there."""
    return db.execute("SELECT twice(1)").fetchone()[0]


def remember(db) -> int:
    """Leave something on the connection in another way."""
    db.remembered, db.isolation_level = 1, "IMMEDIATE"
    return 1


def recall(db) -> list:
    """Show it."""
    return [getattr(db, "remembered", None), db.isolation_level]
''',
    "fastapi": """
from fastapi import FastAPI
from sqlalchemy import create_engine

engine = create_engine("sqlite:///notes.db")
app = FastAPI()


@app.get("/teach", operation_id="teach")
def teach():
    with engine.connect() as db:
        db.exec_driver_sql("PRAGMA case_sensitive_like = ON")
        db.connection.driver_connection.create_function("twice", 1, lambda n: 2 * n)
    return 1


@app.get("/told", operation_id="told")
def told():
    with engine.connect() as db:
        known = db.exec_driver_sql("SELECT count(*) FROM pragma_function_list WHERE name = 'twice'").scalar()
        return [known, db.exec_driver_sql("SELECT 'a' LIKE 'A'").scalar()]
""",
}


@pytest.mark.parametrize(
    ("interface", "leaving", "looking"),
    [("functions", "teach", "told"), ("functions", "remember", "recall"), ("fastapi", "teach", "told")],
)
async def test_what_code_leaves_on_its_connection_ends_with_a_reset(interface: str, leaving: str, looking: str) -> None:
    """Nothing was written, and the connection is not kept all the same."""
    environment = await make_environment(TEACHING[interface], notes_request(TEACHING[interface], interface=interface))
    async with aio.launch(environment) as instance:
        new = await instance.call_tool(looking)
        await instance.call_tool(leaving)
        assert await instance.call_tool(looking) != new
        await instance.reset()
        assert await instance.call_tool(looking) == new

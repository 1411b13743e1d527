"""The verbs of a live instance."""

import asyncio

import pytest
from making import make_environment, notes_request

from awm_hub import aio
from awm_hub.environment import Call, Task
from awm_hub.errors import EpisodeError, LoadError, UnknownNameError, UsageError
from awm_hub.hub.origins import remember_revision
from awm_hub.runtime import Limits, Options, pages
from awm_hub.trajectory import Trajectory

CODE = '''
print("loading", flush=True)
import random
import secrets
import sqlite3
import uuid
from datetime import datetime

_calls = 0


def add_note(db: sqlite3.Connection, text: str, copies: int = 1) -> dict:
    """Add a note.

    Args:
        text: Its text.
        copies: How many.
    """
    if not text:
        raise ValueError("the text is empty")
    for _ in range(copies):
        note_id = db.execute("INSERT INTO notes (text) VALUES (?)", (text,)).lastrowid
    return {"id": note_id, "at": datetime.now().isoformat()}


def list_notes(db: sqlite3.Connection) -> list:
    """All notes."""
    return [dict(row) for row in db.execute("SELECT id, text, made_at FROM notes ORDER BY id")]


def draw(db: sqlite3.Connection) -> list:
    """Random values of every kind."""
    from_sql = db.execute("SELECT random(), hex(randomblob(4))").fetchone()
    drawn = [random.random(), random.Random().random(), secrets.token_hex(4)]
    return [*drawn, str(uuid.uuid4()), str(uuid.uuid1()), *from_sql]


def refuse(db: sqlite3.Connection, how: str) -> None:
    """Write, then refuse.

    Args:
        how: In which way.
    """
    db.execute("INSERT INTO notes (text) VALUES ('half done')")
    if how == "lookup":
        raise LookupError("no such note")
    if how == "value":
        raise ValueError("bad value")
    if how == "permission":
        raise PermissionError("not yours")
    if how == "runtime":
        raise RuntimeError("not now")
    if how == "unique":
        db.execute("INSERT INTO notes (id, text) VALUES (1, 'again')")
    if how == "key":
        {}["missing"]
    int("no number")


def control(db: sqlite3.Connection, statement: str) -> None:
    """Run a statement.

    Args:
        statement: The statement.
    """
    db.execute("INSERT INTO notes (text) VALUES ('half done')")
    db.execute(statement)


def spin(db: sqlite3.Connection) -> None:
    """Write, then never return."""
    db.execute("UPDATE notes SET text = 'spun'")
    while True:
        pass


def spin_in_sql(db: sqlite3.Connection) -> int:
    """A query without end."""
    sql = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i FROM n) SELECT count(*) FROM n"
    return db.execute(sql).fetchone()[0]


def cling(db: sqlite3.Connection) -> None:
    """Write, then hold on in C, where no signal is heard."""
    db.execute("UPDATE notes SET text = 'held'")
    sum(range(10**13))


def die(db: sqlite3.Connection) -> None:
    """End the process."""
    import os

    os._exit(1)


def big(db: sqlite3.Connection, size: int) -> str:
    """A long text.

    Args:
        size: Its length.
    """
    return "y" * size


def deep(db: sqlite3.Connection, levels: int) -> list:
    """A deep list.

    Args:
        levels: Its depth.
    """
    result: list = []
    for _ in range(levels):
        result = [result]
    return result


def chatter(db: sqlite3.Connection) -> str:
    """Print, and write to every descriptor."""
    import os

    print('{"jsonrpc": "2.0", "id": 1, "result": {}}', flush=True)
    for descriptor in range(12):
        try:
            os.write(descriptor, b"noise")
        except OSError:
            pass
    for _ in range(20_000):
        print("x" * 100)
    return "done"


def binary(db: sqlite3.Connection) -> dict:
    """Something without a JSON form."""
    return {"rows": [{"body": b"abc"}]}
'''
FAST = Limits(call_soft_s=0.3, call_hard_s=1.0)


@pytest.fixture(scope="module")
def environment():
    task = Task(
        id="made/tidy", instruction="Tidy up.", kind="change", setup=("DELETE FROM notes WHERE id = 2",),
        solution=(Call(tool="add_note", arguments={"text": "x"}),),
    )  # fmt: skip
    return asyncio.run(make_environment(CODE, tasks=(task,)))


@pytest.fixture
async def instance(environment):
    async with await aio.launch(environment, limits=FAST) as live:
        yield live


async def texts(instance: aio.Instance) -> list[str]:
    return [row["text"] for row in (await instance.call_tool("list_notes")).value]


async def test_calls_are_typed_by_how_they_end(instance) -> None:
    ok = await instance.call_tool("add_note", {"text": "third"})
    assert (ok.type, ok.value["id"]) == ("ok", 3)
    unknown = await instance.call_tool("ad_note", {"text": "x"})
    assert (unknown.type, unknown.code) == ("invalid_call", "unknown_tool")
    for arguments in (
        {},
        {"text": 5},
        {"text": "x", "copies": "2"},
        {"text": "x", "copies": True},
        {"text": "x", "y": 1},
    ):
        assert (await instance.call_tool("add_note", arguments)).type == "invalid_call"
    assert (await instance.call_tool("add_note", {"text": "x", "copies": 2.0})).value["id"] == 5


@pytest.mark.parametrize(
    ("how", "kind", "code"),
    [
        ("lookup", "refused", "not_found"),
        ("value", "refused", "invalid"),
        ("permission", "refused", "forbidden"),
        ("runtime", "refused", "failed_precondition"),
        ("unique", "refused", "conflict"),
        ("key", "fault", "KeyError"),
        ("int", "fault", "ValueError"),
    ],
)
async def test_only_the_modules_own_raise_of_a_built_in_type_is_a_refusal(instance, how, kind, code) -> None:
    result = await instance.call_tool("refuse", {"how": how})
    assert (result.type, result.code) == (kind, code)
    assert await texts(instance) == ["first", "second"]


@pytest.mark.parametrize(
    "statement", ["COMMIT", "ROLLBACK", "BEGIN", "SAVEPOINT a", "PRAGMA foreign_keys = OFF", "ATTACH ':memory:' AS a"]
)
async def test_tools_cannot_control_transactions(instance, statement) -> None:
    assert (await instance.call_tool("control", {"statement": statement})).code == "denied"
    assert await texts(instance) == ["first", "second"]


async def test_the_clock_moves_one_second_with_each_dispatched_call(instance) -> None:
    first = await instance.call_tool("add_note", {"text": "a"})
    await instance.call_tool("add_note", {"text": 5})
    second = await instance.call_tool("add_note", {"text": "b"})
    assert [first.value["at"], second.value["at"]] == ["2026-03-02T09:00:01", "2026-03-02T09:00:02"]
    rows = (await instance.call_tool("list_notes")).value
    assert [row["made_at"] for row in rows] == [
        "2026-03-02 09:00:00", "2026-03-02 09:00:00", "2026-03-02 09:00:01", "2026-03-02 09:00:02",
    ]  # fmt: skip


async def test_the_same_seed_draws_the_same_values_in_every_instance(environment) -> None:
    async with await aio.launch(environment, seed=7) as one, await aio.launch(environment, seed=7) as two:
        await two.call_tool("list_notes")
        await two.reset()
        first = (await one.call_tool("draw")).value
        assert (await two.call_tool("draw")).value == first
        assert (await one.call_tool("draw")).value != first
    async with await aio.launch(environment, seed=8) as other:
        assert (await other.call_tool("draw")).value != first


async def test_instances_do_not_see_each_others_rows(environment) -> None:
    async with await aio.launch(environment) as one, await aio.launch(environment) as two:
        await one.call_tool("add_note", {"text": "of one"})
        await two.call_tool("add_note", {"text": "of two"})
        assert await texts(one) == ["first", "second", "of one"]
        assert await texts(two) == ["first", "second", "of two"]


async def test_reset_takes_back_rows_clock_and_steps(instance) -> None:
    first = await instance.call_tool("add_note", {"text": "a"})
    await instance.submit("done")
    await instance.reset()
    assert (instance.steps, instance.answer, instance.is_ended) == ((), None, False)
    assert await instance.call_tool("add_note", {"text": "a"}) == first


async def test_restore_and_fork_go_on_exactly_as_the_original(instance) -> None:
    await instance.call_tool("add_note", {"text": "a"})
    snapshot = await instance.snapshot()
    twin = await instance.fork()
    drawn = (await instance.call_tool("draw")).value
    added = await instance.call_tool("add_note", {"text": "b"})
    await instance.restore(snapshot)
    assert len(instance.steps) == 1
    assert (await instance.call_tool("draw")).value == drawn
    assert await instance.call_tool("add_note", {"text": "b"}) == added
    assert (await twin.call_tool("draw")).value == drawn
    await twin.call_tool("add_note", {"text": "of the twin"})
    assert await texts(instance) == ["first", "second", "a", "b"]
    await twin.close()


async def test_a_snapshot_of_another_task_is_refused(environment, instance) -> None:
    snapshot = await instance.snapshot()
    async with await aio.launch(environment, task="tidy") as other:
        with pytest.raises(UsageError, match="another environment or task"):
            await other.restore(snapshot)


async def test_the_diff_holds_whole_rows(instance) -> None:
    assert not await instance.diff()
    await instance.call_tool("add_note", {"text": "a"})
    diff = await instance.diff()
    assert diff.to_dict() == {
        "notes": {"added": [{"id": 3, "text": "a", "made_at": "2026-03-02 09:00:01"}], "removed": [], "changed": []}
    }


async def test_what_is_no_argument_of_a_verb_says_what_to_pass(environment, instance) -> None:
    for arguments, message in (
        ({"environment": "made"}, "takes an Environment, not str"),
        ({"environment": environment, "task": environment.tasks[0]}, "named by its id"),
        ({"environment": environment, "seed": "x"}, "'x' is not an integer"),
    ):
        with pytest.raises(UsageError, match=message):
            aio.launch(**arguments)
    with pytest.raises(UsageError, match="takes a Snapshot, not bytes"):
        await instance.restore(b"x")
    with pytest.raises(UsageError, match="an answer is a text, not int"):
        await instance.submit(5)
    with pytest.raises(UsageError, match="takes a Trajectory, not Instance"):
        await aio.judge(instance)


async def test_a_launch_can_be_awaited_or_entered(environment) -> None:
    async with aio.launch(environment, task="tidy") as entered:
        assert repr(entered) == "<Instance of made, task tidy, sealed, 0 steps>"
    assert repr(entered) == "<Instance of made, task tidy, sealed, closed>"
    awaited = await aio.launch(environment)
    assert not awaited.is_closed
    await awaited.close()


async def test_a_diff_is_read_by_table(instance) -> None:
    await instance.call_tool("add_note", {"text": "a"})
    diff = await instance.diff()
    assert (list(diff), len(diff), "notes" in diff, "other" in diff) == (["notes"], 1, True, False)
    assert diff["other"].added == ()


async def test_setup_of_a_task_is_part_of_its_initial_state(environment) -> None:
    async with await aio.launch(environment, task="tidy") as instance:
        assert await texts(instance) == ["first"]
        assert not await instance.diff()
    with pytest.raises(UnknownNameError, match="Did you mean 'tidy'"):
        await aio.launch(environment, task="tidi")


async def test_the_episode_ends_with_the_answer(instance) -> None:
    await instance.submit("42")
    with pytest.raises(EpisodeError, match="ended"):
        await instance.call_tool("list_notes")
    trajectory = await instance.trajectory()
    assert (trajectory.answer, trajectory.termination) == ("42", "answered")


async def test_seeds_and_answers_that_no_frame_can_hold_are_handled(environment, instance) -> None:
    with pytest.raises(UsageError, match="not an integer of 64 bits"):
        await aio.launch(environment, seed=10**30)
    await instance.submit("odd \ud800 end")
    assert instance.answer == "odd ? end"


async def test_a_trajectory_reads_back_and_rebuilds_the_database(instance) -> None:
    await instance.call_tool("add_note", {"text": "ä\u2028z"}, thought="hm")
    await instance.call_tool("refuse", {"how": "lookup"})
    trajectory = await instance.trajectory()
    again = Trajectory.from_dict(trajectory.to_dict(), instance.environment)
    assert again == trajectory
    assert again.steps[0].arguments == {"text": "ä\u2028z"}
    assert [step.state_version for step in again.steps] == [1, 1]
    assert pages.apply(instance.environment.database, again.database_delta) == await instance.image()
    assert again.tier == "sealed"


@pytest.mark.parametrize("tool", ["spin", "spin_in_sql", "cling"])
async def test_an_endless_call_is_a_fault_and_takes_nothing_with_it(environment, instance, tool) -> None:
    await instance.call_tool("add_note", {"text": "kept"})
    other = await aio.launch(environment, limits=FAST)
    await other.call_tool("add_note", {"text": "of the other"})
    result = await instance.call_tool(tool)
    assert (result.type, result.code) == ("fault", "deadline")
    assert result.seconds < 5
    assert await texts(instance) == ["first", "second", "kept"]
    assert await texts(other) == ["first", "second", "of the other"]
    rows = (await instance.call_tool("list_notes")).value
    assert rows[2]["made_at"] == "2026-03-02 09:00:01"
    await other.close()


async def test_a_dead_worker_is_a_fault_and_its_instances_are_rebuilt(environment, instance) -> None:
    twin = await instance.fork()
    await twin.call_tool("add_note", {"text": "of the twin"})
    assert (await instance.call_tool("die")).code == "worker_died"
    assert await texts(instance) == ["first", "second"]
    assert await texts(twin) == ["first", "second", "of the twin"]
    await twin.close()


@pytest.mark.parametrize(
    ("tool", "arguments", "code"),
    [
        ("big", {"size": 300_000}, "output_limit"),
        ("big", {"size": 300_000_000}, "output_limit"),
        ("deep", {"levels": 100}, "output_limit"),
        ("deep", {"levels": 100_000}, "RecursionError"),
        ("binary", {}, "TypeError"),
    ],
)
async def test_results_that_cannot_be_handed_over_are_faults(environment, tool, arguments, code) -> None:
    async with await aio.launch(environment) as instance:
        result = await instance.call_tool(tool, arguments)
        assert (result.type, result.code) == ("fault", code)
        assert await texts(instance) == ["first", "second"]
    if tool == "binary":
        assert "result.rows[0].body is binary (3 bytes)" in result.message


async def test_what_code_prints_never_reaches_the_host(environment, instance) -> None:
    assert (await instance.call_tool("chatter")).value == "done"
    assert await texts(instance) == ["first", "second"]
    options = Options(tier="process")
    async with await aio.launch(environment, options=options, trust_remote_code=True) as unsealed:
        assert (await unsealed.call_tool("chatter")).code in (None, "worker_died")
        assert await texts(unsealed) == ["first", "second"]


async def test_integers_beyond_64_bits_never_reach_the_code(instance) -> None:
    for number in (2**63, -(2**63) - 1, 1e19):
        result = await instance.call_tool("big", {"size": number})
        assert (result.type, result.code) == ("invalid_call", "invalid_arguments")


async def test_arguments_without_a_json_form_are_invalid(instance) -> None:
    for arguments in ({"text": "\ud800"}, {"text": float("nan")}, {"text": b"x"}, ["text"]):
        assert (await instance.call_tool("add_note", arguments)).type == "invalid_call"


async def test_lenient_mode_coerces_by_type_and_records_it(environment) -> None:
    async with await aio.launch(environment, options=Options(lenient=True)) as instance:
        assert (await instance.call_tool("add_note", {"text": 5, "copies": "2"})).is_ok
        assert (await instance.call_tool("add_note", {"text": "007"})).is_ok
        assert await texts(instance) == ["first", "second", "5", "5", "007"]
        trajectory = await instance.trajectory()
    assert trajectory.options["coercions"] == [{"step": 0, "coerced": ["copies: '2' to 2", "text: 5 to '5'"]}]


async def test_code_that_does_not_load_says_why(environment) -> None:
    import dataclasses

    broken = dataclasses.replace(environment, code="import nothing_like_this", content_hash="1" * 64)
    with pytest.raises(LoadError, match="nothing_like_this"):
        await aio.launch(broken)


async def test_a_cancelled_call_does_not_disturb_the_next_one(environment) -> None:
    async with await aio.launch(environment, limits=FAST) as instance:
        for tool, arguments in (("spin", {}), ("add_note", {"text": "meanwhile"})):
            call = asyncio.ensure_future(instance.call_tool(tool, arguments))
            await asyncio.sleep(0)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
        assert await texts(instance) == ["first", "second", "meanwhile"]
        assert [step.tool for step in instance.steps] == ["spin", "add_note", "list_notes"]


FASTAPI_CODE = """
import os
from fastapi import FastAPI, Query
from sqlalchemy import create_engine, text
from sqlalchemy.orm import sessionmaker

engine = create_engine(os.getenv("DATABASE_PATH", "sqlite:///x.db"))
SessionLocal = sessionmaker(bind=engine)
app = FastAPI()


@app.get("/count", operation_id="count")
async def count(longer_than: int | None = Query(None)) -> int:
    session = SessionLocal()
    sql = text("SELECT count(*) FROM notes WHERE length(text) > :n")
    found = session.execute(sql, {"n": longer_than or 0}).scalar()
    session.close()
    return found
"""


async def test_null_for_an_optional_query_parameter_means_left_out_unless_told_otherwise() -> None:
    environment = await make_environment(FASTAPI_CODE, notes_request(FASTAPI_CODE, interface="fastapi"))
    async with await aio.launch(environment) as instance:
        assert (await instance.call_tool("count", {"longer_than": None})).value == 2
        assert (await instance.trajectory()).options["null_as_omitted"] is True
    async with await aio.launch(environment, options=Options(null_as_omitted=False)) as instance:
        assert (await instance.call_tool("count", {"longer_than": None})).type == "invalid_call"
        assert (await instance.call_tool("count", {"longer_than": 5})).value == 1


async def test_a_trajectory_has_the_revision_that_its_environment_was_read_from():
    environment = await make_environment(CODE)
    remember_revision(environment, "c0ffee")
    async with aio.launch(environment) as instance, aio.launch(environment, revision="v1") as other:
        assert (await instance.trajectory()).revision == "c0ffee"
        assert (await other.trajectory()).revision == "v1"

"""Hostile images into everything that opens one: an answer or an error of ours, in time, and the host goes on."""

import dataclasses
import hashlib
import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from making import CLOCK, make_environment, notes_request
from security.images import BOMBS, DAMAGED, TRAPS, fuzzed

from awm_hub import aio
from awm_hub.environment import Environment
from awm_hub.errors import AwmHubError
from awm_hub.runtime import Limits, jobs, pages, sync
from awm_hub.sandbox import seal
from awm_hub.trajectory import StateDiff

pytestmark = pytest.mark.skipif(not seal.can_seal(), reason="images of others are opened in sealed processes only")
IMAGES = {**DAMAGED, **TRAPS}
HARMLESS = {
    ("a table that is larger than any answer", "hash"),
    ("a table that is larger than any answer", "summary"),
}  # fmt: skip
"""Who reads a bomb without setting it off."""
VERIFIER = """
def check(initial_db_path, final_db_path, initial, final):
    import sqlite3
    found = {}
    for name, db in (("initial", initial), ("final", final), ("path", sqlite3.connect(final_db_path))):
        names = [row[0] for row in db.execute("SELECT name FROM sqlite_master")]
        found[name] = [len(db.execute(f'SELECT * FROM "{n}" LIMIT 10').fetchall()) for n in names if n == "notes"]
    return found
"""
CODE = '''
def look(db) -> list:
    """Read and write."""
    db.execute("INSERT INTO notes (text) VALUES ('x')")
    return [dict(row) for row in db.execute("SELECT * FROM notes LIMIT 3")]
'''


@pytest.fixture(scope="module")
def honest() -> bytes:
    """An image to compare with."""
    return sync.run(jobs.build, notes_request(None)).image


@pytest.fixture(scope="module")
def environment() -> Environment:
    """An environment whose tool reads and writes."""
    return sync.run(make_environment, CODE)


@pytest.fixture
def in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deadlines that a test can wait for."""
    monkeypatch.setattr(jobs, "Limits", lambda: Limits(load_s=1))
    monkeypatch.setattr(jobs, "_GRACE_S", 1)


def _readers(image: bytes, honest: bytes) -> dict[str, Callable[[], Awaitable[Any]]]:
    def verify(initial: bytes, final: bytes) -> Awaitable[Any]:
        return jobs.verify(
            code=VERIFIER, function="check", initial=initial, final=final, changes=StateDiff(), answer=None, clock=CLOCK
        )

    return {
        "hash": lambda: jobs.logical_hash(image),
        "dump": lambda: jobs.dump(image),
        "summary": lambda: jobs._summary(image, False),
        "diff from": lambda: jobs.state_diff(image, honest),
        "diff to": lambda: jobs.state_diff(honest, image),
        "query": lambda: jobs.query(image, "SELECT count(*), max(text) FROM notes", clock=CLOCK),
        "compare": lambda: jobs.compare_endings(honest, honest, image),
        "verify": lambda: verify(honest, image),
        "setup": lambda: jobs.prepare_image(image, ["UPDATE notes SET text = 'x' WHERE id = 1"], CLOCK),
    }


async def _outcome(verb: Callable[[], Awaitable[Any]]) -> Any:
    try:
        return await verb()
    except AwmHubError as error:
        return error


async def _launched(environment: Environment, image: bytes) -> list[Any]:
    """What a launch from an image gives, and a restore to it."""
    hostile = dataclasses.replace(environment, database=image, image_sha256=hashlib.sha256(image).hexdigest())
    limits = Limits(call_soft_s=0.5, call_hard_s=1, load_s=2)

    async def launch() -> Any:
        async with await aio.launch(hostile, limits=limits) as instance:
            return [await instance.call_tool("look"), await _outcome(instance.diff), await _outcome(instance.snapshot)]

    async def restore() -> Any:
        async with await aio.launch(environment, limits=limits) as instance:
            snapshot = await instance.snapshot()
            delta = pages.delta(environment.database, image)
            found = [await _outcome(lambda: instance.restore(dataclasses.replace(snapshot, delta=delta)))]
            found.append(await _outcome(lambda: instance.call_tool("look")))
            await _outcome(instance.reset)
            return found

    return [await _outcome(launch), await _outcome(restore)]


FEW = ["dump", "diff to", "verify", "setup"]
MANY = ["hash", "summary", "diff from", "query", "compare"]


@pytest.mark.parametrize("readers", [FEW, pytest.param(MANY, marks=pytest.mark.slow)], ids=["few", "many"])
@pytest.mark.parametrize("name", IMAGES)
async def test_a_hostile_image_is_read_or_refused_by_every_reader(
    name: str, readers: list[str], honest: bytes, in_time: None
) -> None:
    verbs = _readers(IMAGES[name](), honest)
    found = {reader: await _outcome(verbs[reader]) for reader in readers}
    slow = [reader for reader, outcome in found.items() if "no answer within" in str(outcome)]
    assert slow == []


@pytest.mark.parametrize("name", IMAGES)
async def test_a_hostile_image_is_launched_and_restored_or_refused(
    name: str, honest: bytes, environment: Environment, in_time: None
) -> None:
    found = await _launched(environment, IMAGES[name]())
    assert len(found) == 2


async def test_an_honest_image_is_launched_and_restored(honest: bytes, environment: Environment) -> None:
    (result, diff, _), (_, after) = await _launched(environment, honest)
    assert (result.is_ok, len(diff["notes"].added), after.is_ok) == (True, 1, True)


@pytest.mark.parametrize("name", BOMBS)
@pytest.mark.parametrize(
    "reader", ["hash", *(pytest.param(r, marks=pytest.mark.slow) for r in ("dump", "summary", "diff to", "compare"))]
)
async def test_a_bomb_is_stopped_by_a_limit_or_the_deadline(
    name: str, reader: str, honest: bytes, in_time: None
) -> None:
    found = await _outcome(_readers(BOMBS[name](), honest)[reader])
    if isinstance(found, AwmHubError):
        assert re.search(
            "deadline|interrupted|gave no answer within|too big|MemoryError|longer than|limit", str(found)
        ), found
    else:
        assert (name, reader) in HARMLESS


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM endless",
        "SELECT count(*) FROM endless",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i FROM n) SELECT max(i) FROM n",
        "SELECT hex(zeroblob(900000000))",
        "SELECT group_concat(hex(zeroblob(10000000))) FROM notes",
    ],
)
async def test_a_query_without_end_or_measure_is_stopped(sql: str, in_time: None) -> None:
    found = await _outcome(lambda: jobs.query(TRAPS["a view without end"](), sql, clock=CLOCK))
    if sql == "SELECT * FROM endless":
        assert isinstance(found, jobs.ImageError) or len(found) == 10_000  # by time on a busy machine, else by number
    else:
        assert any(word in str(found) for word in ("interrupted", "deadline", "too big", "MemoryError", "no answer")), (
            found
        )


@pytest.mark.parametrize("sql", ["ATTACH '/tmp/awm-hub-escape' AS a", "VACUUM INTO '/tmp/awm-hub-escape'",
                                 "SELECT readfile('/etc/hostname')", "SELECT load_extension('libm.so.6')",
                                 "UPDATE notes SET text = 'x'", "DROP TABLE notes"])  # fmt: skip
async def test_a_query_that_reaches_out_or_writes_is_refused(sql: str, honest: bytes) -> None:
    with pytest.raises(jobs.ImageError):
        await jobs.query(honest, sql, clock=CLOCK)


@pytest.mark.parametrize("seed", range(8))
async def test_a_randomly_damaged_image_is_read_or_refused(seed: int, honest: bytes, in_time: None) -> None:
    for reader, verb in _readers(fuzzed(seed), honest).items():
        found = await _outcome(verb)
        assert "no answer within" not in str(found), reader


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 2000))
async def test_many_randomly_damaged_images_are_read_or_refused(
    seed: int, honest: bytes, environment: Environment, in_time: None
) -> None:
    for verb in _readers(fuzzed(seed), honest).values():
        await _outcome(verb)
    await _launched(environment, fuzzed(seed))

"""Verifiers are called by the names of their parameters, over read-only databases."""

import pytest
from making import CLOCK, notes_request

from awm_hub.runtime import jobs
from awm_hub.trajectory import StateDiff

UPSTREAM = """
def verify_task_completion(initial_db_path: str, final_db_path: str, final_answer: str | None = None) -> dict:
    import os
    import sqlite3

    def count(path, sql="SELECT count(*) FROM notes"):
        conn = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        conn.row_factory = sqlite3.Row
        try:
            return conn.execute(sql).fetchone()[0]
        finally:
            conn.close()

    both = sqlite3.connect(initial_db_path)
    both.execute("ATTACH DATABASE ? AS after", (final_db_path,))
    new = both.execute("SELECT text FROM after.notes WHERE id NOT IN (SELECT id FROM notes)").fetchall()
    literal = sqlite3.connect(":memory:")
    literal.execute(f"ATTACH '{final_db_path}' AS f")
    return {
        "counts": [
            count(initial_db_path), count(final_db_path), literal.execute("SELECT count(*) FROM f.notes").fetchone()[0]
        ],
        "new": [row[0] for row in new],
        "answer": final_answer,
        "exists": [os.path.exists(initial_db_path), os.path.isfile(final_db_path), os.path.exists("/etc/passwd")],
    }
"""
OURS = """
def signals_x(initial, final, changes):
    return {
        "texts": [row["text"] for row in final.execute("SELECT text FROM notes ORDER BY id")],
        "changed": sorted(changes),
        "today": final.execute("SELECT date('now')").fetchone()[0],
    }
"""


async def images() -> tuple[bytes, bytes]:
    initial = (await jobs.build(notes_request(None))).image
    return initial, await jobs.prepare_image(initial, ["INSERT INTO notes (text) VALUES ('third')"], CLOCK)


async def verify(code: str, function: str, answer: str | None = None):
    initial, final = await images()
    changes = await jobs.state_diff(initial, final)
    return await jobs.verify(
        code=code, function=function, initial=initial, final=final, changes=changes, answer=answer, clock=CLOCK
    )


async def test_paths_lead_to_the_two_databases_and_nowhere_else() -> None:
    assert await verify(UPSTREAM, "verify_task_completion", "yes") == {
        "counts": [2, 3, 3], "new": ["third"], "answer": "yes", "exists": [True, True, False],
    }  # fmt: skip


async def test_connections_and_changes_are_given_by_name() -> None:
    found = await verify(OURS, "signals_x")
    assert found == {"texts": ["first", "second", "third"], "changed": ["notes"], "today": "2026-03-02"}


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("def check(final): final.execute('DELETE FROM notes')", "readonly"),
        (
            "def check(final_db_path):\n import sqlite3\n sqlite3.connect(final_db_path).execute('DELETE FROM notes')",
            "readonly",
        ),
        ("def check(initial, secret): return {}", "asks for secret"),
        ("def other(initial): return {}", "defines no function 'check'"),
        ("def check(initial): return {'a': b'x'}", "result.a is binary"),
        ("def check(initial): return 1 / 0", "ZeroDivisionError"),
        ("def check(initial) return", "SyntaxError"),
    ],
)
async def test_a_verifier_that_fails_says_why(code: str, message: str) -> None:
    with pytest.raises(jobs.VerifierError, match=message):
        await verify(code, "check")


async def test_an_image_that_is_no_database_is_an_error() -> None:
    initial, _ = await images()
    with pytest.raises(jobs.ImageError, match="not a database"):
        await jobs.state_diff(initial, b"no database at all" * 100)
    with pytest.raises(jobs.VerifierError):
        await jobs.verify(
            code=OURS, function="signals_x", initial=initial, final=b"x" * 4096, changes=StateDiff(), answer=None,
            clock=CLOCK,
        )  # fmt: skip


KEEPS_A_STATEMENT_OPEN = """
import sqlite3

def first(final_db_path):
    global kept
    kept = sqlite3.connect(final_db_path).execute("SELECT text FROM notes")
    return kept.fetchone()[0]

def second(final_db_path):
    return sqlite3.connect(final_db_path).execute("SELECT count(*) FROM notes").fetchone()[0]
"""


async def test_a_verifier_that_leaves_a_statement_open_does_not_stop_the_next_one() -> None:
    initial, final = await images()
    async with jobs.forked() as fork:
        found = [
            await jobs.verify(
                code=KEEPS_A_STATEMENT_OPEN, function=name, initial=initial, final=final, changes=StateDiff(),
                answer=None, clock=CLOCK, fork=fork,
            )
            for name in ("first", "second", "second")
        ]  # fmt: skip
    assert found == ["first", 3, 3]

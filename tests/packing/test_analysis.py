import pytest

from awm_hub.packing import analysis

MODULE = '''
import sqlite3

_PURGE = "DELETE FROM items WHERE stock = 0"


def read(db):
    """Update nothing, delete nothing: INSERT INTO is only prose here."""
    return db.execute("SELECT replace(name, 'a', 'b'), updated_at FROM items").fetchall()


def refuse(db):
    """Say no."""
    raise ValueError(f"DELETE FROM items is forbidden")


def insert(db):
    """Insert."""
    db.execute("""
        INSERT OR IGNORE INTO items (name) VALUES (?)""", ("x",))


def purge(db):
    """Through a constant."""
    db.execute(_PURGE)


def through_helper(db):
    """Through two helpers, one of which calls the other."""
    return _first(db, 1)


def _first(db, n):
    return _second(db, n) if n else None


def _second(db, n):
    db.execute(f"update {'items'} set stock = {n}")
    return _first(db, n - 1)


def joined(db, column):
    """A statement in pieces."""
    db.execute("UPDATE items " + f"SET {column} = 1")


def fragments(db, where):
    """A verb alone."""
    db.execute(" ".join(["DELETE", "FROM", "items", where]))


class _Store:
    def drop(self, db):
        db.execute("DROP TABLE items")


def through_class(db):
    """Through a method."""
    _Store().drop(db)


def upsert(db):
    """WITH before the verb."""
    db.execute("WITH n(x) AS (VALUES (1)) REPLACE INTO items SELECT x FROM n")
'''


def test_functions_that_can_reach_a_writing_statement_are_found():
    assert analysis.writing_functions(MODULE) == {
        "insert", "purge", "through_helper", "_first", "_second", "joined", "fragments", "through_class", "upsert",
    }  # fmt: skip


def test_top_level_functions_are_listed_in_their_order():
    code = "def b(): pass\nclass C:\n    def inner(self): pass\ndef a(): pass\n"
    assert analysis.functions(code) == ("b", "a")


@pytest.mark.parametrize(("code", "reason"), [("x = 1\ndef (:", "line 2"), ("a\0b", "null|NUL"), ("(" * 5000, ".")])
def test_what_is_no_python_is_reported(code, reason):
    with pytest.raises(analysis.CodeError, match=reason):
        analysis.functions(code)

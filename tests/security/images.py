"""Hostile database images, as data: how each is made."""

import random
import sqlite3
import struct
from collections.abc import Callable
from functools import partial

Maker = Callable[[], bytes]
_ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"


def _made(*statements: str, writable_schema: bool = False) -> bytes:
    db = sqlite3.connect(":memory:", isolation_level=None)
    db.execute("PRAGMA page_size = 1024")
    db.execute("CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT)")
    db.executemany("INSERT INTO notes VALUES (?, ?)", [(n, f"note {n} " * 20) for n in range(200)])
    if writable_schema:
        db.execute("PRAGMA writable_schema = ON")
    for statement in statements:
        db.execute(statement)
    return db.serialize()


def _patched(offset: int, data: bytes) -> bytes:
    image = bytearray(_made())
    image[offset : offset + len(data)] = data
    return bytes(image)


def _overflowing() -> bytes:
    """A text whose overflow pages follow each other in a circle."""
    image = bytearray(_made("CREATE TABLE long (x)", "INSERT INTO long VALUES (hex(zeroblob(40000)))"))
    for start in range(1024, len(image), 1024):
        (following,) = struct.unpack_from(">I", image, start)
        if following == start // 1024 + 2:
            struct.pack_into(">I", image, start, start // 1024 + 1)
    return bytes(image)


def fuzzed(seed: int) -> bytes:
    """An image with a few random bytes changed, most of them near the start of a page."""
    chance = random.Random(seed)
    image = bytearray(_made("CREATE INDEX by_text ON notes (text)", "CREATE VIEW v AS SELECT * FROM notes"))
    for _ in range(chance.randint(1, 12)):
        page = chance.randrange(len(image) // 1024) * 1024
        image[min(page + int(chance.expovariate(1 / 60)), len(image) - 1)] = chance.randrange(256)
    return bytes(image)


DAMAGED: dict[str, bytes] = {
    "nothing": lambda: b"",
    "no database": lambda: b"x" * 4096,
    "a header alone": lambda: b"SQLite format 3\0",
    "a header and zeros": lambda: b"SQLite format 3\0" + bytes(4080),
    "half a database": lambda: _made()[: len(_made()) // 2],
    "a page and a half": lambda: _made()[:1536],
    "a page size of zero": partial(_patched, 16, b"\0\0"),
    "a page size of 64 KB": partial(_patched, 16, b"\0\1"),
    "a page size that is no power of two": partial(_patched, 16, b"\3\7"),
    "all of the page reserved": partial(_patched, 20, b"\xff"),
    "a write-ahead log": partial(_patched, 18, b"\2\2"),
    "an unknown version": partial(_patched, 18, b"\7\7"),
    "a claim of two terabytes": partial(_patched, 28, b"\x7f\xff\xff\xff"),
    "a free list in a circle": partial(_patched, 32, b"\0\0\0\2\0\0\0\5"),
    "text in UTF-16 that is none": partial(_patched, 56, b"\0\0\0\2"),
    "an unknown schema format": partial(_patched, 44, b"\0\0\0\x63"),
    "a root page of an impossible type": partial(_patched, 100, b"\xee"),
    "more cells than fit": partial(_patched, 103, b"\xff\xff"),
    "an overflow chain in a circle": _overflowing,
    "a root page beyond the end": partial(_made, "UPDATE sqlite_master SET rootpage = 99999999", writable_schema=True),
    "a table over the schema's own page": partial(_made, "UPDATE sqlite_master SET rootpage = 1", writable_schema=True),
    "a table over another's pages": partial(_made,
        "CREATE TABLE other (a, b, c)", "UPDATE sqlite_master SET rootpage = 2", writable_schema=True
    ),
    "a schema that is no SQL": partial(_made,
    "UPDATE sqlite_master SET sql = 'CREATE TABLE notes (' || char(0)", writable_schema=True),
    "a schema with another statement": partial(_made,
        "UPDATE sqlite_master SET sql = 'CREATE TABLE notes (id); ATTACH ''/tmp/awm-hub-escape'' AS a'",
        writable_schema=True
    ),
    "a schema entry of an unknown type": partial(_made, "UPDATE sqlite_master SET type = 'gift'", writable_schema=True),
    "a name that is no text": partial(_made, "UPDATE sqlite_master SET name = x'ff00ff'", writable_schema=True),
    "a name that is no UTF-8": partial(_made,
    "UPDATE sqlite_master SET name = CAST(x'ff80' AS TEXT)", writable_schema=True),
    "text that is no UTF-8": partial(_made, "UPDATE notes SET text = CAST(x'ff80' AS TEXT)"),
}  # fmt: skip
"""What a file may look like after damage; it is read or refused, at once."""

TRAPS: dict[str, Maker] = {
    "a view without end": partial(_made, f"CREATE VIEW endless AS {_ENDLESS}"),
    "a view of itself": partial(_made,
        "CREATE VIEW v AS SELECT 1", "UPDATE sqlite_master SET sql = 'CREATE VIEW v AS SELECT * FROM v' WHERE name "
        "= 'v'",
        writable_schema=True,
    ),
    "a trigger without end": partial(_made,
        f"CREATE TRIGGER t AFTER INSERT ON notes BEGIN INSERT INTO notes (text) SELECT i FROM ({_ENDLESS}); END"
    ),
    "triggers that call each other": partial(_made,
        "CREATE TABLE a (x)", "CREATE TABLE b (x)",
        "CREATE TRIGGER ta AFTER INSERT ON a BEGIN INSERT INTO b VALUES (1), (2); END",
        "CREATE TRIGGER tb AFTER INSERT ON b BEGIN INSERT INTO a VALUES (1), (2); END",
    ),
    "an index of a large expression": partial(_made, "CREATE INDEX i ON notes (length(hex(zeroblob(1000000))))"),
    "a partial index that is never right": partial(_made, "CREATE INDEX i ON notes (text) WHERE text LIKE '%a%b%c%'"),
    "a generated column that fails": partial(_made,
        "CREATE TABLE g (x, y AS (abs(x)))", "INSERT INTO g VALUES (1)",
        "UPDATE sqlite_master SET sql = 'CREATE TABLE g (x, y AS (abs(-9223372036854775808)))' WHERE name = 'g'",
        writable_schema=True,
    ),
    "a default that reaches out": partial(_made, "CREATE TABLE g (x, y DEFAULT (readfile('/etc/hostname')))"),
    "a check that loads an extension": partial(_made, "CREATE TABLE g (x CHECK (load_extension('libm.so.6') = 1))"),
    "a function of nobody": partial(_made,
        "CREATE TABLE g (x)",
        "UPDATE sqlite_master SET sql = 'CREATE TABLE g (x, y AS (nobody(x)))' WHERE name = 'g'", writable_schema=True,
    ),
    "a thousand tables": partial(_made, *(f"CREATE TABLE t{n} (x)" for n in range(1000))),
    "a table of two thousand columns": partial(_made, f"CREATE TABLE wide ({', '.join(f'c{n}' for n in range(1999))})"),
    "a megabyte of schema": partial(_made, f"CREATE VIEW v AS SELECT '{'x' * 10**6}' AS x"),
    "deep expressions": partial(_made, f"CREATE VIEW v AS SELECT {'(' * 40}1{')' * 40} AS x"),
    "full-text search with a broken index": partial(_made,
        "CREATE VIRTUAL TABLE f USING fts5 (text)", "INSERT INTO f SELECT text FROM notes",
        "UPDATE f_data SET block = zeroblob(500)",
    ),
    "full-text search with foreign content": partial(_made,
    "CREATE VIRTUAL TABLE f USING fts5 (text, content = 'sqlite_master')"),
    "older full-text search with a broken index": partial(_made,
        "CREATE VIRTUAL TABLE f USING fts4 (text)", "INSERT INTO f SELECT text FROM notes",
        "UPDATE f_segdir SET root = x'00ff00ff'",
    ),
    "a broken spatial index": partial(_made,
        "CREATE VIRTUAL TABLE r USING rtree (id, a, b)", "INSERT INTO r VALUES (1, 2, 3)",
        "UPDATE r_node SET data = zeroblob(50)",
    ),
    "a table of SQLite's own pages": partial(_made,
        "CREATE TABLE d (x)",
        "UPDATE sqlite_master SET sql = 'CREATE VIRTUAL TABLE d USING dbstat', rootpage = 0 WHERE name = 'd'",
        writable_schema=True,
    ),
    "a table from a file": partial(_made,
        "CREATE TABLE d (x)",
        "UPDATE sqlite_master SET sql = 'CREATE VIRTUAL TABLE d USING csv(filename=''/etc/hostname'')', rootpage = 0 "
        "WHERE name = 'd'", writable_schema=True,
    ),
}  # fmt: skip
"""What a schema may hold; nothing of it runs by itself when the database is read."""

BOMBS: dict[str, Maker] = {
    "views upon views": partial(_made,
        "CREATE VIEW v0 AS SELECT 1 AS x", *(
        f"CREATE VIEW v{n} AS SELECT a.x FROM v{n - 1} a, v{n - 1} b" for n in range(1, 25))
    ),
    "a generated column of gigabytes": partial(_made,
        "CREATE TABLE g (x, y AS (1))", "INSERT INTO g VALUES (1)",
        "UPDATE sqlite_master SET sql = 'CREATE TABLE g (x, y AS (hex(zeroblob(900000000))))' WHERE name = 'g'",
        writable_schema=True,
    ),
    "a generated column that takes forever": partial(_made,
        "CREATE TABLE g (x, y AS (1))", "INSERT INTO g SELECT a.id FROM notes a, notes b",
        "UPDATE sqlite_master SET sql = 'CREATE TABLE g (x, y AS (length(replace(hex(zeroblob(1000000 + x)), ''00'', "
        "hex(zeroblob(20))))))' WHERE name = 'g'", writable_schema=True,
    ),
    "a table that is larger than any answer": partial(_made,
        "CREATE TABLE g (x, y AS (hex(zeroblob(100000))))", "INSERT INTO g SELECT id FROM notes"
    ),
}  # fmt: skip
"""What grows or goes on when it is read; it is stopped by a limit or the deadline."""

"""Diffs, hashes and dumps look at typed rows and the schema, in real SQLite databases."""

import hashlib
import json
import random
import sqlite3
from collections.abc import Callable
from typing import Any

import pytest

from awm_hub.errors import RecordError
from awm_hub.sandbox.statediff import diff, dump, json_value, logical_hash, tables
from awm_hub.trajectory import StateDiff

SHELVES = """
CREATE TABLE shelves (aisle TEXT NOT NULL, number INTEGER NOT NULL, state TEXT, PRIMARY KEY (aisle, number))
WITHOUT ROWID;
CREATE TABLE marks (label TEXT, points INTEGER);
CREATE TABLE passes (code TEXT PRIMARY KEY, holder TEXT NOT NULL);
INSERT INTO shelves VALUES ('N', 1, 'full'), ('S', 1, 'full'), ('S', 2, 'full');
INSERT INTO marks VALUES ('red', 1), ('red', 1), ('blue', 2), (NULL, NULL), (NULL, NULL);
INSERT INTO passes VALUES (NULL, 'Ada'), (NULL, 'Bo'), ('K-1', 'Cy');
"""


def opened(script: str) -> sqlite3.Connection:
    db = sqlite3.connect(":memory:", isolation_level=None)
    db.executescript(script)
    return db


def copied(db: sqlite3.Connection) -> sqlite3.Connection:
    copy = sqlite3.connect(":memory:", isolation_level=None)
    copy.deserialize(db.serialize())
    return copy


def diff_after(script: str, change: str | Callable[[sqlite3.Connection], Any], **options: Any) -> dict[str, Any]:
    initial = opened(script)
    final = copied(initial)
    if isinstance(change, str):
        final.executescript(change)
    else:
        change(final)
    found = diff(initial, final, **options)
    assert StateDiff.from_dict(json.loads(json.dumps(found, allow_nan=False))).to_dict() == found
    return found


def test_added_removed_and_changed_rows_are_told_apart_by_the_declared_key() -> None:
    found = diff_after(
        "CREATE TABLE books (id INTEGER PRIMARY KEY, title TEXT);"
        "INSERT INTO books VALUES (1, 'A'), (2, 'B'), (10, 'C');",
        "UPDATE books SET title = 'Z' WHERE id = 10; DELETE FROM books WHERE id = 1;"
        "INSERT INTO books VALUES (11, 'D');",
    )
    assert found == {
        "books": {
            "added": [{"id": 11, "title": "D"}],
            "removed": [{"id": 1, "title": "A"}],
            "changed": [{"key": {"id": 10}, "before": {"id": 10, "title": "C"}, "after": {"id": 10, "title": "Z"}}],
        }
    }


def test_equal_databases_have_an_empty_diff() -> None:
    assert diff_after(SHELVES, "UPDATE shelves SET state = state; DELETE FROM marks WHERE 0") == {}


def test_tables_without_rowid_without_key_and_with_null_keys_are_compared_exactly() -> None:
    found = diff_after(
        SHELVES,
        "UPDATE shelves SET state = 'empty' WHERE aisle = 'S' AND number = 2;"
        "UPDATE shelves SET number = 7 WHERE aisle = 'N';"
        "DELETE FROM marks WHERE rowid = 2;"
        "UPDATE passes SET code = 'K-9' WHERE holder = 'Ada';",
    )
    assert found == {
        "marks": {"added": [], "removed": [{"label": "red", "points": 1}], "changed": []},
        "passes": {
            "added": [{"code": "K-9", "holder": "Ada"}],
            "removed": [{"code": None, "holder": "Ada"}],
            "changed": [],
        },
        "shelves": {
            "added": [{"aisle": "N", "number": 7, "state": "full"}],
            "removed": [{"aisle": "N", "number": 1, "state": "full"}],
            "changed": [
                {
                    "key": {"aisle": "S", "number": 2},
                    "before": {"aisle": "S", "number": 2, "state": "full"},
                    "after": {"aisle": "S", "number": 2, "state": "empty"},
                }
            ],
        },
    }


def test_equal_rows_without_a_key_count_one_by_one() -> None:
    both = diff_after(SHELVES, "DELETE FROM marks WHERE label = 'red' OR label IS NULL")
    assert [row["label"] for row in both["marks"]["removed"]] == [None, None, "red", "red"]
    assert diff_after(SHELVES, "DELETE FROM marks WHERE rowid = 5; INSERT INTO marks VALUES (NULL, NULL)") == {}


def test_rows_written_by_triggers_are_part_of_the_diff_and_views_are_not() -> None:
    found = diff_after(
        """
        CREATE TABLE goods (sku TEXT PRIMARY KEY, stock INTEGER, "group" TEXT);
        CREATE TABLE alarms (id INTEGER PRIMARY KEY, sku TEXT, note TEXT);
        CREATE VIEW scarce AS SELECT * FROM goods WHERE stock < 5;
        CREATE VIEW broken AS SELECT * FROM nowhere;
        CREATE TRIGGER low AFTER UPDATE ON goods WHEN new.stock < 5
        BEGIN INSERT INTO alarms (sku, note) VALUES (new.sku, 'low; order -- now'); END;
        INSERT INTO goods VALUES ('M;8', 9, 'x');
        """,
        "UPDATE goods SET stock = 3",
    )
    assert found["alarms"]["added"] == [{"id": 1, "sku": "M;8", "note": "low; order -- now"}]
    assert [c["key"] for c in found["goods"]["changed"]] == [{"sku": "M;8"}]
    assert sorted(found) == ["alarms", "goods"]


def test_generated_columns_are_shown_in_diff_and_dump_and_hashed() -> None:
    script = """
    CREATE TABLE prices (
        id INTEGER PRIMARY KEY, net INTEGER, gross INTEGER GENERATED ALWAYS AS (net * 119 / 100) VIRTUAL,
        code TEXT GENERATED ALWAYS AS ('P-' || label) STORED, label TEXT
    );
    CREATE INDEX by_gross ON prices (gross);
    INSERT INTO prices (id, net, label) VALUES (1, 1000, '1');
    """
    change = diff_after(script, "UPDATE prices SET net = 2000")["prices"]["changed"][0]
    assert change["before"] == {"id": 1, "net": 1000, "gross": 1190, "code": "P-1", "label": "1"}
    assert change["after"] == {"id": 1, "net": 2000, "gross": 2380, "code": "P-1", "label": "1"}
    assert dump(opened(script), 5)["prices"] == {
        "columns": ["id", "net", "gross", "code", "label"], "rows": [[1, 1000, 1190, "P-1", "1"]], "total": 1,
    }  # fmt: skip
    assert logical_hash(opened(script)) != logical_hash(opened(script.replace("119", "118")))


def test_blobs_broken_text_nul_and_infinite_numbers_have_one_json_form() -> None:
    script = """
    CREATE TABLE files (id INTEGER PRIMARY KEY, name TEXT, body BLOB, ratio REAL);
    INSERT INTO files VALUES (1, CAST(x'FF41' AS TEXT), x'00FF10', 9e999), (2, 'a' || char(0) || 'b', 'text', -0.0);
    """
    assert dump(opened(script), 9)["files"]["rows"] == [
        [1, {"text": "/0E="}, {"blob": "AP8Q"}, {"real": "inf"}],
        [2, "a\0b", "text", 0.0],
    ]
    found = diff_after(script, "UPDATE files SET body = zeroblob(2), ratio = -9e999 WHERE id = 1")
    assert found["files"]["changed"][0]["after"] == {
        "id": 1, "name": {"text": "/0E="}, "body": {"blob": "AAA="}, "ratio": {"real": "-inf"},
    }  # fmt: skip
    assert json_value(2**63 - 1) == 9223372036854775807


def test_the_connection_keeps_its_own_text_and_row_factories() -> None:
    db = opened("CREATE TABLE files (name TEXT); INSERT INTO files VALUES (CAST(x'FF' AS TEXT));")
    db.row_factory = sqlite3.Row
    logical_hash(db)
    diff(db, db)
    dump(db, 1)
    assert (db.text_factory, db.row_factory) == (str, sqlite3.Row)
    with pytest.raises(sqlite3.OperationalError):
        db.execute("SELECT name FROM files").fetchone()


@pytest.mark.parametrize(
    ("one", "other"), [("1", "1.0"), ("1", "'1'"), ("'1'", "x'31'"), ("NULL", "''"), ("x''", "''"), ("0", "NULL")]
)
def test_values_of_different_types_differ_in_diff_and_hash(one: str, other: str) -> None:
    script = f"CREATE TABLE t (v); INSERT INTO t VALUES ({one});"
    found = diff_after(script, f"UPDATE t SET v = {other}")
    assert (len(found["t"]["removed"]), len(found["t"]["added"])) == (1, 1)
    assert logical_hash(opened(script)) != logical_hash(opened(script.replace(f"({one})", f"({other})")))


def test_a_table_on_one_side_only_is_shown_with_all_its_rows() -> None:
    found = diff_after(
        SHELVES,
        "DROP TABLE shelves; CREATE TABLE notes (id INTEGER PRIMARY KEY, body TEXT); INSERT INTO notes VALUES (1, 'x');"
        "CREATE TABLE empty (id INTEGER); ALTER TABLE passes ADD COLUMN until TEXT;",
    )
    assert found["notes"]["added"] == [{"id": 1, "body": "x"}]
    assert [row["aisle"] for row in found["shelves"]["removed"]] == ["N", "S", "S"]
    assert found["passes"]["removed"][2] == {"code": "K-1", "holder": "Cy"}
    assert found["passes"]["added"][2] == {"code": "K-1", "holder": "Cy", "until": None}
    assert sorted(found) == ["notes", "passes", "shelves"]


def test_names_that_need_quoting_are_read_like_others() -> None:
    script = 'CREATE TABLE "odd ""name; --" ("or""der" INTEGER PRIMARY KEY, "rowid" TEXT, "_rowid_" TEXT, "oid" TEXT);'
    found = diff_after(script, """INSERT INTO "odd ""name; --" VALUES (1, 'a', 'b', 'c')""")
    assert found['odd "name; --']["added"] == [{'or"der': 1, "rowid": "a", "_rowid_": "b", "oid": "c"}]


def test_a_virtual_table_is_read_and_its_shadow_tables_are_not() -> None:
    script = "CREATE VIRTUAL TABLE texts USING fts5(body); INSERT INTO texts VALUES ('one');"
    assert [shape.name for shape in tables(opened(script))] == ["texts"]
    assert diff_after(script, "INSERT INTO texts VALUES ('two')") == {
        "texts": {"added": [{"body": "two"}], "removed": [], "changed": []}
    }


def test_internal_tables_are_left_out() -> None:
    script = "CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, v TEXT UNIQUE); INSERT INTO t (v) VALUES ('a');"
    assert [shape.name for shape in tables(opened(script + "ANALYZE;"))] == ["t"]
    assert logical_hash(opened(script)) == logical_hash(opened(script + "ANALYZE;"))


def test_volatile_columns_can_be_left_out_of_a_diff() -> None:
    script = (
        "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT, at TEXT); INSERT INTO t VALUES (1, 'a', 'x'), (2, 'b', 'x');"
    )
    found = diff_after(script, "UPDATE t SET at = 'y'; UPDATE t SET v = 'c' WHERE id = 2", volatile=["T.at", "t.id"])
    assert found == {
        "t": {
            "added": [],
            "removed": [],
            "changed": [{"key": {"id": 2}, "before": {"id": 2, "v": "b"}, "after": {"id": 2, "v": "c"}}],
        }
    }


def test_an_index_that_covers_a_table_does_not_hide_its_rows() -> None:
    found = diff_after(
        "CREATE TABLE t (a, b); CREATE INDEX i ON t (b, a) WHERE a > 1; CREATE INDEX j ON t (a, b);",
        "INSERT INTO t VALUES (2, 1), (1, 2)",
    )
    assert found["t"]["added"] == [{"a": 1, "b": 2}, {"a": 2, "b": 1}]


def test_a_name_that_is_no_text_is_refused() -> None:
    db = opened("CREATE TABLE t (v);")
    db.execute("PRAGMA writable_schema = ON")
    db.execute("UPDATE sqlite_master SET name = CAST(x'FF' AS TEXT)")
    with pytest.raises(RecordError, match="broken name"):
        tables(db)


def test_a_dump_shows_the_first_rows_and_counts_all() -> None:
    assert dump(opened(SHELVES), 2) == {
        "marks": {"columns": ["label", "points"], "rows": [["red", 1], ["red", 1]], "total": 5},
        "passes": {"columns": ["code", "holder"], "rows": [[None, "Ada"], [None, "Bo"]], "total": 3},
        "shelves": {"columns": ["aisle", "number", "state"], "rows": [["N", 1, "full"], ["S", 1, "full"]], "total": 3},
    }


def test_the_hash_is_the_same_after_vacuum_and_a_round_trip_through_the_image() -> None:
    db = opened(SHELVES)
    db.executescript("DELETE FROM marks WHERE rowid = 1; INSERT INTO marks VALUES ('red', 1)")
    before = logical_hash(db)
    db.executescript("PRAGMA page_size = 512; VACUUM")
    assert logical_hash(db) == logical_hash(copied(db)) == before == logical_hash(opened(SHELVES))


def test_the_hash_sees_the_schema_and_each_row() -> None:
    changes = [
        "CREATE INDEX by_state ON shelves (state)", "CREATE VIEW v AS SELECT 1", "DELETE FROM marks WHERE rowid = 1",
        "INSERT INTO marks VALUES ('red', 1)", "UPDATE marks SET points = 3 WHERE label = 'blue'", "DROP TABLE passes",
        "ALTER TABLE marks RENAME TO tallies", "DELETE FROM passes WHERE holder = 'Bo'",
    ]  # fmt: skip
    hashes = {logical_hash(opened(SHELVES + change)) for change in ["", *changes]}
    assert len(hashes) == len(changes) + 1


def test_the_hash_has_a_documented_and_stable_value() -> None:
    db = opened("CREATE TABLE t (id INTEGER PRIMARY KEY, v); INSERT INTO t VALUES (1, 'a'), (2, 1.0), (3, x'00');")
    digests = sorted(hashlib.sha256(line).digest() for line in (b'[1,"a"]\n', b"[2,1.0]\n", b'[3,{"blob":"AA=="}]\n'))
    schema = b'["schema","table","t","t","CREATE TABLE t (id INTEGER PRIMARY KEY, v)"]\n'
    by_hand = hashlib.sha256(schema + b'["table","t",["id","v"],3]\n' + b"".join(digests)).hexdigest()
    assert logical_hash(db) == by_hand
    assert by_hand == "d2efe64c0e5513d8ab66de30a8dd428c6fbb881723ffb4315798d2e2da1b6096"


@pytest.mark.parametrize("seed", range(20))
def test_the_order_of_inserts_leaves_no_trace_in_the_hash_and_the_diff(seed: int) -> None:
    chance = random.Random(seed)
    pool: list[Any] = [None, 0, 1, 1.0, -0.0, 1e300, "1", "a", "a\0", b"", b"1", 2**63 - 1, float("inf")]
    rows = [(chance.choice(pool), chance.choice(pool)) for _ in range(30)]
    keyed = [(key, chance.choice(pool)) for key in chance.sample(range(1000), 30)]
    schema = "CREATE TABLE loose (a, b); CREATE TABLE keyed (k INTEGER PRIMARY KEY, v); CREATE INDEX i ON loose (b, a);"

    def filled() -> sqlite3.Connection:
        db = opened(schema)
        db.executemany("INSERT INTO loose VALUES (?, ?)", chance.sample(rows, len(rows)))
        db.executemany("INSERT INTO keyed VALUES (?, ?)", chance.sample(keyed, len(keyed)))
        return db

    one, other = filled(), filled()
    assert logical_hash(one) == logical_hash(other)
    assert diff(one, other) == {}


@pytest.mark.parametrize("seed", range(20))
def test_a_diff_is_empty_exactly_when_the_hashes_are_equal_and_leads_from_one_state_to_the_other(seed: int) -> None:
    chance = random.Random(seed)
    initial = opened("CREATE TABLE loose (a, b); CREATE TABLE keyed (k INTEGER PRIMARY KEY, v);")
    statements = (
        "INSERT INTO loose VALUES ({0} % 3, {1} % 2)", "DELETE FROM loose WHERE rowid = {0}",
        "DELETE FROM keyed WHERE k = {1}",
        "INSERT OR REPLACE INTO keyed VALUES ({0}, {1})", "UPDATE keyed SET v = {1} WHERE k % 3 = {0} % 3",
    )  # fmt: skip
    written = [chance.choice(statements).format(chance.randrange(9), chance.randrange(9)) for _ in range(60)]
    initial.executescript(";".join(written[:40]))
    final = copied(initial)
    final.executescript(";".join(written[40:]))
    found = StateDiff.from_dict(diff(initial, final))
    assert bool(found) is (logical_hash(initial) != logical_hash(final))
    for row in found["loose"].removed:
        initial.execute(
            "DELETE FROM loose WHERE rowid = (SELECT rowid FROM loose WHERE a IS :a AND b IS :b LIMIT 1)", row
        )
    initial.executemany("INSERT INTO loose VALUES (:a, :b)", found["loose"].added)
    initial.executemany("DELETE FROM keyed WHERE k = :k", found["keyed"].removed)
    initial.executemany("INSERT INTO keyed VALUES (:k, :v)", found["keyed"].added)
    initial.executemany("UPDATE keyed SET v = :v WHERE k = :k", [c.after for c in found["keyed"].changed])
    assert logical_hash(initial) == logical_hash(final)

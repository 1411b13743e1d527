"""Two endings are the same when they make the same changes to the seed, whatever ids their new rows got."""

import itertools
import random
import sqlite3
import time

import pytest

from awm_hub.sandbox.endings import is_same_value, same_ending

SHOP = """
CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT NOT NULL, note TEXT, seen_at TEXT);
CREATE TABLE orders (
    id INTEGER PRIMARY KEY, customer_id INTEGER NOT NULL REFERENCES customers (id), state TEXT DEFAULT 'open',
    reason TEXT, made_at TEXT
);
CREATE TABLE lines (
    id INTEGER PRIMARY KEY, order_id INTEGER NOT NULL REFERENCES orders, item TEXT, price REAL,
    label TEXT GENERATED ALWAYS AS ('L-' || id) VIRTUAL
);
CREATE TABLE parcels (order_id INTEGER PRIMARY KEY REFERENCES orders (id), carrier TEXT);
CREATE TABLE tags (label TEXT, points INTEGER);
CREATE TABLE tree (id INTEGER PRIMARY KEY, parent_id INTEGER REFERENCES tree (id), name TEXT);
CREATE TABLE seats (code TEXT PRIMARY KEY, order_id INTEGER REFERENCES orders (id));
INSERT INTO customers VALUES (1, 'Ada', NULL, 'x'), (2, 'Bo', NULL, 'x');
INSERT INTO orders (id, customer_id) VALUES (1, 1), (2, 2);
INSERT INTO lines (id, order_id, item, price) VALUES (1, 1, 'pen', 1.5), (2, 2, 'ink', 0.3);
INSERT INTO parcels VALUES (1, 'post');
INSERT INTO tags VALUES ('red', 1), ('red', 1), ('blue', 2);
INSERT INTO seats VALUES ('A1', NULL), ('A2', NULL), ('A3', NULL);
"""


def ending(*statements: str, seed: str = SHOP) -> sqlite3.Connection:
    db = sqlite3.connect(":memory:", isolation_level=None)
    db.executescript(seed)
    for statement in statements:
        db.executescript(statement)
    return db


def compared(
    expected: str,
    actual: str,
    *,
    volatile: tuple[str, ...] = (),
    free: tuple[str, ...] = (),
    kind: str = "change",
    seed: str = SHOP,
) -> list[str]:
    same, found = same_ending(
        ending(seed=seed),
        ending(expected, seed=seed),
        ending(actual, seed=seed),
        volatile=volatile,
        free=free,
        kind=kind,
    )
    assert same is not bool(found)
    return found


def test_the_solution_itself_is_the_same_ending_and_doing_nothing_is_not() -> None:
    solution = "UPDATE orders SET state = 'paid' WHERE id = 2"
    assert compared(solution, solution) == []
    assert compared(solution, "") == ['orders: row [2] lacks the change {"state":"paid"}']
    assert compared("", solution) == ['orders: row [2] has the change {"state":"paid"}']


def test_missing_extra_and_removed_rows_are_named() -> None:
    assert compared("INSERT INTO tree VALUES (5, NULL, 'a')", "INSERT INTO tree VALUES (5, NULL, 'b')") == [
        'tree: missing row {"id":5,"name":"a","parent_id":null}',
        'tree: extra row {"id":5,"name":"b","parent_id":null}',
    ]
    assert compared("DELETE FROM parcels", "DELETE FROM seats WHERE code = 'A1'") == [
        'parcels: row {"carrier":"post","order_id":1} is still there',
        'seats: row {"code":"A1","order_id":null} is gone',
    ]


def test_ids_of_new_rows_do_not_count_but_their_number_does() -> None:
    one = "INSERT INTO tree (id, name) VALUES (1, 'a'), (2, 'b')"
    assert compared(one, "INSERT INTO tree (id, name) VALUES (8, 'b'), (9, 'a')") == []
    assert compared(one, one + ", (3, 'a')") == ['tree: extra row {"id":1,"name":"a","parent_id":null}']
    assert compared(one, "INSERT INTO tree (id, name) VALUES (1, 'a')") == [
        'tree: missing row {"id":2,"name":"b","parent_id":null}'
    ]


def test_a_foreign_key_to_a_new_row_stands_for_its_content_however_deep() -> None:
    def bought(first: int, second: int, pen: int, ink: int) -> str:
        return (
            f"INSERT INTO customers (id, name) VALUES ({first}, 'Cy'), ({second}, 'Di');"
            f"INSERT INTO orders (id, customer_id) VALUES ({first + 20}, {first}), ({second + 20}, {second});"
            f"INSERT INTO lines (order_id, item) VALUES ({pen + 20}, 'pen'), ({ink + 20}, 'ink');"
            f"INSERT INTO parcels VALUES ({pen + 20}, 'post');"
        )

    assert compared(bought(3, 4, 3, 4), bought(4, 3, 4, 3)) == []
    swapped = compared(bought(3, 4, 3, 4), bought(3, 4, 4, 3))
    assert swapped
    assert all("is linked to other new rows than in the solution" in text for text in swapped)


def test_new_rows_that_are_equal_themselves_are_told_apart_by_the_rows_that_refer_to_them() -> None:
    orders = "INSERT INTO orders (id, customer_id) VALUES (11, 1), (12, 1);"
    split = orders + "INSERT INTO lines (order_id, item) VALUES (11, 'pen'), (11, 'ink'), (12, 'cup')"
    renamed = orders + "INSERT INTO lines (order_id, item) VALUES (11, 'cup'), (12, 'ink'), (12, 'pen')"
    lumped = orders + "INSERT INTO lines (order_id, item) VALUES (11, 'pen'), (11, 'ink'), (11, 'cup')"
    assert compared(split, renamed) == []
    assert compared(split, lumped)


def test_a_changed_row_that_refers_to_a_new_row_is_compared_by_content() -> None:
    orders = "INSERT INTO orders (id, customer_id) VALUES (11, 1), (12, 1);"
    solution = (
        orders + "UPDATE seats SET order_id = 11 WHERE code < 'A3'; UPDATE seats SET order_id = 12 WHERE code = 'A3'"
    )
    same = orders + "UPDATE seats SET order_id = 12 WHERE code < 'A3'; UPDATE seats SET order_id = 11 WHERE code = 'A3'"
    other = (
        orders + "UPDATE seats SET order_id = 12 WHERE code > 'A1'; UPDATE seats SET order_id = 11 WHERE code = 'A1'"
    )
    assert compared(solution, same) == []
    assert compared(solution, other)
    assert compared(solution, orders + "UPDATE seats SET order_id = 1")


def test_a_key_that_is_a_foreign_key_counts_as_content() -> None:
    assert compared("INSERT INTO parcels VALUES (2, 'air')", "INSERT INTO parcels VALUES (2, 'air')") == []
    seed = SHOP + "INSERT INTO orders (id, customer_id) VALUES (3, 2);"
    found = compared("INSERT INTO parcels VALUES (2, 'air')", "INSERT INTO parcels VALUES (3, 'air')", seed=seed)
    assert found == [
        'parcels: missing row {"carrier":"air","order_id":2}',
        'parcels: extra row {"carrier":"air","order_id":3}',
    ]


def test_cycles_of_new_rows_are_compared_and_end() -> None:
    def ring(names: str, start: int) -> str:
        ids = range(start, start + len(names))
        rows = [f"({at}, {start + (at - start + 1) % len(names)}, '{n}')" for at, n in zip(ids, names, strict=True)]
        return "INSERT INTO tree VALUES " + ", ".join(rows)

    assert compared(ring("abc", 5), ring("bca", 9)) == []
    assert compared(ring("abc", 5), ring("acb", 5))
    itself = "INSERT INTO tree VALUES (5, 5, 'a'), (6, 6, 'a')"
    assert compared(itself, "INSERT INTO tree VALUES (7, 7, 'a'), (8, 8, 'a')") == []
    assert compared(itself, "INSERT INTO tree VALUES (7, 8, 'a'), (8, 7, 'a')")
    chain = "INSERT INTO tree VALUES (1, NULL, 'x'), (2, 1, 'x'), (3, 2, 'x'), (4, 3, 'x')"
    assert compared(chain, "INSERT INTO tree VALUES (9, NULL, 'x'), (8, 9, 'x'), (7, 8, 'x'), (6, 7, 'x')") == []
    assert compared(chain, "INSERT INTO tree VALUES (1, NULL, 'x'), (2, 1, 'x'), (3, 2, 'x'), (4, 2, 'x')")


def test_composite_and_text_keys_are_content_except_where_they_refer_to_new_rows() -> None:
    seed = """
    CREATE TABLE trips (id INTEGER PRIMARY KEY, name TEXT);
    CREATE TABLE stops (trip_id INTEGER REFERENCES trips, number INTEGER, place TEXT, PRIMARY KEY (trip_id, number));
    CREATE TABLE photos (file TEXT PRIMARY KEY, trip_id INTEGER, stop INTEGER,
                         FOREIGN KEY (Trip_id, stop) REFERENCES Stops (trip_id, NUMBER)) WITHOUT ROWID;
    """

    def trip(number: int, stop: int = 1, file: str = "a.png") -> str:
        return (
            f"INSERT INTO trips VALUES ({number}, 'north'); INSERT INTO stops VALUES ({number}, {stop}, 'x');"
            f"INSERT INTO photos VALUES ('{file}', {number}, {stop})"
        )

    assert compared(trip(1), trip(7), seed=seed) == []
    assert compared(trip(1), trip(1, stop=2), seed=seed)
    assert compared(trip(1), trip(1, file="b.png"), seed=seed)


def test_volatile_columns_are_ignored_even_where_a_further_row_changes_in_nothing_else() -> None:
    solution = (
        "UPDATE customers SET name = 'Cy', seen_at = 'y' WHERE id = 1; INSERT INTO orders VALUES (7, 1, 'a', 'b', 'c')"
    )
    later = "UPDATE customers SET seen_at = 'z'; UPDATE customers SET name = 'Cy' WHERE id = 1;"
    later += "INSERT INTO orders VALUES (7, 1, 'a', 'b', 'd')"
    assert compared(solution, later, volatile=("customers.seen_at", "Orders.Made_At")) == []
    assert len(compared(solution, later)) == 5


def test_a_volatile_key_and_the_links_to_it_are_compared_by_content() -> None:
    seed = """
    CREATE TABLE tickets (code TEXT PRIMARY KEY, subject TEXT);
    CREATE TABLE replies (id INTEGER PRIMARY KEY, ticket TEXT REFERENCES tickets (code), body TEXT);
    """
    one = "INSERT INTO tickets VALUES ('T-1', 'a'), ('T-2', 'b'); INSERT INTO replies VALUES (1, 'T-1', 'x')"
    same = "INSERT INTO tickets VALUES ('T-8', 'a'), ('T-9', 'b'); INSERT INTO replies VALUES (1, 'T-8', 'x')"
    other = "INSERT INTO tickets VALUES ('T-8', 'a'), ('T-9', 'b'); INSERT INTO replies VALUES (1, 'T-9', 'x')"
    assert compared(one, same, volatile=("tickets.code",), seed=seed) == []
    assert compared(one, other, volatile=("tickets.code",), seed=seed)
    assert compared(one, same, seed=seed)


def test_free_columns_may_hold_anything_in_new_and_changed_rows() -> None:
    solution = (
        "INSERT INTO orders VALUES (7, 1, 'open', 'as asked', 'x'); UPDATE customers SET note = 'vip' WHERE id = 2"
    )
    actual = "INSERT INTO orders VALUES (9, 1, 'open', NULL, 'x')"
    assert compared(solution, actual, free=("orders.reason", "customers.note")) == []
    assert len(compared(solution, actual)) == 3


def test_generated_columns_do_not_make_new_rows_differ() -> None:
    solution = "INSERT INTO lines (id, order_id, item) VALUES (5, 1, 'cup')"
    assert compared(solution, solution.replace("5", "6")) == []


def test_real_values_are_equal_within_a_millionth_and_integers_exactly() -> None:
    sums = [
        f"UPDATE lines SET price = {' + '.join(p)} WHERE id = 1" for p in itertools.permutations(("0.1", "0.2", "0.3"))
    ]
    assert all(compared(sums[0], other) == [] for other in sums)
    assert compared(sums[0], "UPDATE lines SET price = 0.601 WHERE id = 1")
    assert compared(
        "UPDATE tags SET points = 1000000000 WHERE points = 2", "UPDATE tags SET points = 1000000001 WHERE points = 2"
    )
    assert compared("", "UPDATE lines SET price = price + 1e-9") == []
    assert [is_same_value(*pair) for pair in ((1, 1.0), (1e9, 1e9 + 1), (0.3, 0.301), (1, 2), (1, "1"))] == [
        True, True, False, False, False,
    ]  # fmt: skip
    assert is_same_value(float("inf"), float("inf"))
    assert not is_same_value(float("inf"), 1e308)


def test_new_rows_with_real_values_are_matched_one_to_one() -> None:
    def lines(*prices: str) -> str:
        return "INSERT INTO lines (order_id, item, price) VALUES " + ", ".join(f"(1, 'x', {price})" for price in prices)

    assert compared(lines("0.1", "0.2", "0.3"), lines("0.3 + 1e-9", "0.1", "0.2")) == []
    assert compared(lines("0.1", "0.2", "0.3"), lines("0.1", "0.1", "0.4"))
    assert compared(lines("0.1", "0.2"), lines("0.1", "0.2", "-0.0"))
    assert compared(lines("0.1", "9e999"), lines("9e999", "0.1")) == []
    assert compared(lines("0.1", "9e999"), lines("-9e999", "0.1"))
    assert compared(lines("1", "NULL"), lines("NULL", "1.0")) == []


def test_links_to_new_rows_that_differ_in_a_real_value_alone_are_not_mixed_up() -> None:
    seed = """
    CREATE TABLE bills (id INTEGER PRIMARY KEY, total REAL);
    CREATE TABLE items (id INTEGER PRIMARY KEY, bill_id INTEGER REFERENCES bills (id), name TEXT);
    """
    bills = "INSERT INTO bills VALUES (1, 10.0), (2, 20.0);"
    assert compared(
        bills + "INSERT INTO items VALUES (1, 1, 'pen'), (2, 2, 'ink')",
        "INSERT INTO bills VALUES (1, 20.000001), (2, 10.0); INSERT INTO items VALUES (1, 2, 'pen'), (2, 1, 'ink')",
        seed=seed,
    ) == []  # fmt: skip
    assert compared(
        bills + "INSERT INTO items VALUES (1, 1, 'pen'), (2, 2, 'ink')",
        bills + "INSERT INTO items VALUES (1, 2, 'pen'), (2, 1, 'ink')",
        seed=seed,
    )


def test_an_amount_stored_as_integer_or_real_is_the_same_amount() -> None:
    seed = "CREATE TABLE funds (id INTEGER PRIMARY KEY, amount DECIMAL(10, 2)); INSERT INTO funds VALUES (1, 0);"
    assert compared("UPDATE funds SET amount = 0.1 + 0.2 + 9.7", "UPDATE funds SET amount = 10", seed=seed) == []
    assert compared("UPDATE funds SET amount = 10", "UPDATE funds SET amount = 10.01", seed=seed)
    assert compared("UPDATE funds SET amount = 10", "UPDATE funds SET amount = '10 EUR'", seed=seed)


def test_equal_rows_without_a_key_count_one_by_one() -> None:
    drop_one = "DELETE FROM tags WHERE rowid = 1"
    assert compared(drop_one, "DELETE FROM tags WHERE rowid = 2") == []
    assert compared(drop_one, "DELETE FROM tags WHERE label = 'red'") == [
        'tags: 1 too few of row {"label":"red","points":1}'
    ]
    assert compared(drop_one, "DELETE FROM tags WHERE label = 'blue'") == [
        'tags: 1 too many of row {"label":"red","points":1}',
        'tags: 1 too few of row {"label":"blue","points":2}',
    ]
    assert compared("", "DELETE FROM tags WHERE rowid = 1; INSERT INTO tags VALUES ('red', 1)") == []
    assert compared("", "UPDATE tags SET points = points + 1", volatile=("tags.points",)) == []


def test_a_query_may_change_nothing_but_volatile_columns() -> None:
    touched = "UPDATE customers SET seen_at = 'y'"
    assert compared("", "", kind="query") == []
    assert compared("", touched, kind="query", volatile=("customers.seen_at",)) == []
    assert compared(touched, touched, kind="query") == [
        'customers: row [1] has the change {"seen_at":"y"}',
        'customers: row [2] has the change {"seen_at":"y"}',
    ]
    assert compared("", touched, kind="query", free=("customers.seen_at",))


def test_changes_of_the_schema_count() -> None:
    assert compared("", "CREATE TABLE extra (id INTEGER)")
    assert compared("", "DROP TABLE tree")
    assert compared("CREATE INDEX i ON tags (label)", "CREATE INDEX i ON tags (label)") == []
    assert compared("", "ALTER TABLE tree ADD COLUMN more TEXT", kind="query")


def test_broken_text_and_blobs_are_compared_and_shown() -> None:
    def noted(value: str) -> str:
        return f"UPDATE customers SET note = {value} WHERE id = 1"

    assert compared(noted("CAST(x'FF' AS TEXT)"), noted("CAST(x'FF' AS TEXT)")) == []
    assert compared(noted("CAST(x'FF' AS TEXT)"), noted("x'FF'")) == [
        'customers: row [1] lacks the change {"note":{"text":"/w=="}}',
        'customers: row [1] has the change {"note":{"blob":"/w=="}}',
    ]


def test_at_most_twenty_short_differences_are_reported() -> None:
    rows = ", ".join(f"('{at}', '{'x' * 1000}')" for at in range(50))
    found = compared("", f"INSERT INTO tags VALUES {rows}")
    assert len(found) == 20
    assert max(map(len, found)) < 400


@pytest.mark.parametrize("seed", range(15))
def test_independent_calls_in_another_order_give_the_same_ending(seed: int) -> None:
    chance = random.Random(seed)
    calls = [
        f"INSERT INTO orders (customer_id, state) VALUES ({chance.choice((1, 2))}, '{chance.choice('ab')}');"
        + "".join(
            "INSERT INTO lines (order_id, item, price) VALUES ((SELECT max(id) FROM orders), "
            f"'{chance.choice('pq')}', {chance.choice((0.1, 0.2, 3))});"
            for _ in range(chance.randrange(3))
        )
        + "UPDATE lines SET price = price + 0.1 WHERE id = 1;"
        for _ in range(6)
    ]
    shuffled = chance.sample(calls, len(calls))
    assert compared("".join(calls), "".join(shuffled)) == []
    assert compared("".join(calls), "".join(shuffled[1:]))


def test_many_new_rows_are_compared_in_reasonable_time() -> None:
    counted = "WITH n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000) "
    fill = counted + "INSERT INTO lines (order_id, item, price) SELECT 1, 'x', i * 0.37 FROM n;"
    chain = counted + "INSERT INTO tree SELECT i, nullif(i - 1, 0), 'x' FROM n;"
    start = time.process_time()
    assert compared(fill + chain, fill + chain) == []
    assert time.process_time() - start < 10

import dataclasses
import time
from itertools import pairwise

import pytest

import awm_hub
from awm_hub.environment import Environment, SeedTable, Table
from awm_hub.playground.diagram import diagram
from awm_hub.playground.layout import arrange
from awm_hub.playground.relations import Reference, Relation, TableColumn, relations, seed_rows

BUNDLED = awm_hub.load()


def with_tables(environment: Environment, *ddl: str, inserts: tuple[str, ...] = ()) -> Environment:
    tables = tuple(Table(name=f"t{i}", ddl=d) for i, d in enumerate(ddl))
    return dataclasses.replace(environment, tables=tables, seed=(SeedTable(table="t0", inserts=inserts),))


def table(name: str, *targets: str) -> Relation:
    columns = (TableColumn(name="id", type="INTEGER", is_key=True), *(TableColumn(name=t, type="") for t in targets))
    return Relation(name=name, columns=columns, references=tuple(Reference(columns=(t,), target=t) for t in targets))


def test_columns_keys_and_foreign_keys_are_read_from_the_definition(notes_environment: Environment) -> None:
    ddl = """CREATE TABLE IF NOT EXISTS main.t0 ( -- a comment, with a comma
        "first, key" INTEGER, b VARCHAR(20, 3) NOT NULL DEFAULT (1, 2), c TEXT REFERENCES t1 (id) ON DELETE CASCADE,
        `d` CHECK (d IN ('NOT NULL', 'x')), [e] INT PRIMARY KEY,
        CONSTRAINT pk PRIMARY KEY ("first, key" DESC, b), FOREIGN KEY (b, c) REFERENCES "T1" (x, y)
    ) STRICT"""
    found = relations(with_tables(notes_environment, ddl, "CREATE TABLE t1 (id)"))[0]
    assert [(c.name, c.type, c.is_key, c.is_required) for c in found.columns] == [
        ("first, key", "INTEGER", True, True),
        ("b", "VARCHAR(20,3)", True, True),
        ("c", "TEXT", False, False),
        ("d", "", False, False),
        ("e", "INT", True, True),
    ]
    assert [(f.columns, f.target) for f in found.references] == [(("c",), "t1"), (("b", "c"), "t1")]


@pytest.mark.parametrize(
    "ddl", ["", "(", "CREATE TABLE t0 (((", "x'", ")))", "CREATE TABLE t0 AS SELECT 1", "(,,,)", '("']
)
def test_a_definition_that_cannot_be_read_gives_an_empty_table(notes_environment: Environment, ddl: str) -> None:
    environment = with_tables(notes_environment, ddl)
    assert relations(environment)[0].references == ()
    assert "<svg" in diagram(relations(environment), "broken")


def test_sample_rows_are_read_without_running_sql(notes_environment: Environment) -> None:
    inserts = (
        "INSERT INTO t0 (b, a) VALUES ('it''s (1, 2)', 1), (NULL, -2.5), (x'00ff', upper('a') || ',')",
        "INSERT OR IGNORE INTO t0 VALUES (9223372036854775807, 'positional')",
        "INSERT INTO t0 SELECT * FROM t1",
        "INSERT INTO t0 VALUES (1, 'unfinished",
    )
    environment = with_tables(notes_environment, "CREATE TABLE t0 (a INTEGER, b TEXT)", inserts=inserts)
    found = seed_rows(environment, "t0")
    assert found.columns == ("a", "b")
    assert found.rows == (
        (1, "it's (1, 2)"),
        (-2.5, None),
        ("upper('a') || ','", "x'00ff'"),
        (9223372036854775807, "positional"),
    )


def test_of_many_rows_the_first_ones_are_read(notes_environment: Environment) -> None:
    values = ", ".join(f"({i})" for i in range(1000))
    environment = with_tables(
        notes_environment, "CREATE TABLE t0 (a)", inserts=(f"INSERT INTO t0 (a) VALUES {values}",)
    )
    found = seed_rows(environment, "t0", most=10)
    assert len(found.rows) == 10
    assert found.is_cut


@pytest.mark.parametrize("name", BUNDLED)
def test_every_bundled_table_is_drawn_apart_from_the_others(name: str) -> None:
    found = relations(BUNDLED[name])
    numbers = {r.name: i for i, r in enumerate(found)}
    lines = [(numbers[r.name], numbers[f.target]) for r in found for f in r.references]
    layout = arrange([80.0] * len(found), lines)
    for layer in layout.layers:
        spots = [layout.spots[n] for n in layer]
        assert all(a.top + a.height <= b.top for a, b in pairwise(spots))
    assert all(layout.spots[a].layer > layout.spots[b].layer for a, b in lines if a != b)
    shown = diagram(found, name)
    assert shown.count('role="button"') == len(found)
    assert shown.count('class="awm-er-line"') >= len({(a, b) for a, b in lines if a != b})


def test_circles_and_references_to_itself_or_to_nothing_are_drawn() -> None:
    shown = diagram([table("a", "b", "a"), table("b", "c"), table("c", "a", "missing"), table("alone")], "circle")
    assert shown.count('class="awm-er-line"') == 3
    assert "a ↺" in shown
    assert "<desc>a refers to b, a; b refers to c; c refers to a, missing; alone</desc>" in shown


def test_a_deep_chain_and_very_many_tables_are_drawn_in_a_moment() -> None:
    chain = [table(f"t{i}", *([f"t{i - 1}"] if i else []), *([f"t{i // 2}"] if i > 2 else [])) for i in range(400)]
    started = time.perf_counter()
    shown = diagram(chain, "many")
    assert time.perf_counter() - started < 5
    assert "… and 340 more tables" in shown


def test_no_table_at_all_says_so() -> None:
    assert "There is no table" in diagram([], "empty")

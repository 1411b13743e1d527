import pytest

from awm_hub.environment import SeedTable, Table
from awm_hub.packing import statements

TRIGGERS = """
-- products; "group" is a reserved word
CREATE TABLE products (sku TEXT PRIMARY KEY, stock INTEGER, "group" TEXT DEFAULT 'a;b');
CREATE INDEX by_group ON products ("group"); /* a comment; with a semicolon */
CREATE TRIGGER low AFTER UPDATE OF stock ON products WHEN NEW.stock < 5
BEGIN
    -- end; of nothing
    UPDATE products SET "group" = CASE WHEN NEW.stock = 0 THEN 'END;' ELSE "group" END WHERE sku = NEW.sku;
    DELETE FROM products WHERE stock < 0;
END;
CREATE VIEW few AS SELECT sku FROM products WHERE stock < 5;
"""


def test_semicolons_in_triggers_comments_and_texts_end_no_statement():
    found = statements.split(TRIGGERS)
    assert [s.splitlines()[-1] for s in found] == [
        """CREATE TABLE products (sku TEXT PRIMARY KEY, stock INTEGER, "group" TEXT DEFAULT 'a;b')""",
        'CREATE INDEX by_group ON products ("group")',
        "END",
        "CREATE VIEW few AS SELECT sku FROM products WHERE stock < 5",
    ]


def test_a_statement_keeps_the_comments_before_it():
    assert statements.split("-- one\nSELECT 1;\n/* two */ SELECT 2;") == ["-- one\nSELECT 1", "/* two */ SELECT 2"]


def test_comments_and_empty_statements_alone_are_no_statement():
    assert statements.split("-- nothing;\n;;\n/* more */;\n-- end") == []


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1; SELECT 2",
        "SELECT 'never ends;",
        'SELECT "never ends;',
        "CREATE TRIGGER t AFTER DELETE ON a BEGIN DELETE FROM b;",
        "SELECT 1 /* never ends;",
    ],
)
def test_a_statement_without_an_end_is_refused(sql):
    with pytest.raises(statements.StatementError, match="has no end"):
        statements.split(sql)


def test_a_nul_character_is_refused():
    with pytest.raises(statements.StatementError, match="NUL"):
        statements.split("SELECT 'a\0b';")


@pytest.mark.parametrize("statement", ["SELECT 1", "SELECT 1 -- note", "-- a\nSELECT '--'", "SELECT 1\n-- end"])
def test_joined_statements_are_taken_apart_into_the_same(statement):
    assert statements.split(statements.join([statement, "SELECT 2"])) == [statement, "SELECT 2"]


def test_indexes_go_with_their_table_even_after_a_trigger():
    trigger = "CREATE TRIGGER t AFTER DELETE ON b BEGIN SELECT 1; END"
    ddl = [
        "CREATE TABLE a (x)",
        "CREATE TABLE b (y)",
        trigger,
        "CREATE UNIQUE INDEX i ON A (x)",
        "CREATE INDEX j ON b (y)",
    ]
    tables, further = statements.schema(ddl)
    assert tables == (
        Table(name="a", ddl="CREATE TABLE a (x)", indexes=("CREATE UNIQUE INDEX i ON A (x)",)),
        Table(name="b", ddl="CREATE TABLE b (y)", indexes=("CREATE INDEX j ON b (y)",)),
    )
    assert further == (trigger,)


def test_triggers_views_and_virtual_tables_are_further_ddl_in_their_order():
    ddl = [
        "create view v as select 1",
        "CREATE VIRTUAL TABLE f USING fts5(body)",
        "CREATE TRIGGER t INSTEAD OF INSERT ON v BEGIN SELECT 1; END",
    ]
    assert statements.schema(ddl) == ((), tuple(ddl))


@pytest.mark.parametrize(
    ("sql", "name"),
    [
        ("CREATE TABLE plain (x)", "plain"),
        ("create table if not exists Plain(x)", "Plain"),
        ('CREATE TABLE "two words" (x)', "two words"),
        ('CREATE TABLE "a ""quote""" (x)', 'a "quote"'),
        ("CREATE TABLE `tick` (x)", "tick"),
        ("CREATE TABLE [bracket] (x)", "bracket"),
        ("CREATE TABLE 'text' (x)", "text"),
        ("CREATE TABLE main.inner (x)", "inner"),
        ("CREATE TABLE größe (x)", "größe"),
        ("/* TABLE no */ CREATE -- INDEX\n TABLE yes (x)", "yes"),
    ],
)
def test_a_table_is_known_by_its_name_without_quotes(sql, name):
    assert [t.name for t in statements.schema([sql])[0]] == [name]


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("CREATE TEMP TABLE t (x)", "temporary"),
        ("CREATE TABLE other.t (x)", "no name"),
        ("INSERT INTO t (x) VALUES (1)", "only CREATE"),
        ("PRAGMA foreign_keys = OFF", "only CREATE"),
        ("CREATE INDEX i ON absent (x)", "no statement before it creates"),
        ("DROP TABLE t", "only CREATE"),
    ],
)
def test_what_is_no_schema_is_refused_with_the_statement(sql, reason):
    with pytest.raises(statements.StatementError, match=reason) as caught:
        statements.schema([sql])
    assert caught.value.statement == sql


def test_a_table_created_twice_is_refused():
    with pytest.raises(statements.StatementError, match="twice"):
        statements.schema(["CREATE TABLE a (x)", "CREATE TABLE A (x)"])


def test_inserts_are_grouped_by_table_in_the_order_they_stand_in():
    one, two, three = (
        "INSERT INTO a (x) VALUES (1)",
        'insert into "a" (x) values (2), (3)',
        "INSERT INTO b (y) VALUES (';')",
    )
    assert statements.seed([one, two, three, one]) == (
        SeedTable(table="a", inserts=(one, two)),
        SeedTable(table="b", inserts=(three,)),
        SeedTable(table="a", inserts=(one,)),
    )


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT OR REPLACE INTO a (x) VALUES (1)",
        "INSERT INTO a VALUES (1)",
        "INSERT INTO a (x) SELECT 1",
        "INSERT INTO a DEFAULT VALUES",
        "DELETE FROM a",
        "UPDATE a SET x = 1",
        "WITH w AS (SELECT 1) INSERT INTO a (x) SELECT * FROM w",
    ],
)
def test_a_seed_statement_that_is_no_plain_insert_is_refused(sql):
    with pytest.raises(statements.StatementError, match=r"only INSERT INTO table \(columns\) VALUES"):
        statements.seed([sql])


def test_a_statement_is_shown_in_one_line_without_its_comments():
    assert statements.shown("-- why\nCREATE TABLE\n  t (x)") == "CREATE TABLE t (x)"
    assert statements.shown("SELECT " + "x" * 200) == "SELECT " + "x" * 92 + "…"

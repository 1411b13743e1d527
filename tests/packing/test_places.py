import pytest

from awm_hub.packing import statements
from awm_hub.packing.places import line_of

TEXT = """-- rows
INSERT INTO a (x) VALUES
    (1),
    (2);

-- more
INSERT INTO b (x) VALUES
    (1), -- one
    (1);
"""


@pytest.mark.parametrize(
    ("statement", "table", "is_repeated", "line"),
    [
        ("INSERT INTO a (x) VALUES\n    (1),\n    (2)", "a", False, 2),
        ("-- more\nINSERT INTO b (x) VALUES", "b", False, 7),
        ("INSERT INTO a (x) VALUES (2)", "a", False, 4),
        ("INSERT INTO b (x) VALUES (1)", "b", False, 8),
        ("INSERT INTO b (x) VALUES (1)", "b", True, 9),
        ("INSERT INTO a (x) VALUES (3)", "a", False, None),
        ("COMMIT", "", False, None),
        ("", "", False, None),
    ],
)
def test_a_statement_or_its_row_is_found_by_its_line(statement, table, is_repeated, line):
    within = [sql for seed in statements.seed(statements.split(TEXT)) if seed.table == table for sql in seed.inserts]
    assert line_of(TEXT, statement, within=within, is_repeated=is_repeated) == line

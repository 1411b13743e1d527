"""A spool gives rows back by number, in any order, and leaves nothing behind."""

import pyarrow as pa
import pytest

from awm_hub.packing.spool import Spool

SCHEMA = pa.schema([("id", pa.string())])


def row(name):
    return pa.Table.from_pylist([{"id": name}], schema=SCHEMA)


def test_rows_come_back_in_the_order_that_is_asked_for(tmp_path):
    with Spool(tmp_path / "rows", SCHEMA) as spool:
        assert [spool.add(row(name)) for name in "abcd"] == [0, 1, 2, 3]
        rows = spool.rows([3, 1, 0])
        assert (len(rows), rows[1]) == (3, row("b"))
        assert [t.column("id")[0].as_py() for t in rows] == ["d", "b", "a"]
        assert rows[1:] == [row("b"), row("a")]
        assert spool.rows([2])[0] == row("c")
    assert list(tmp_path.iterdir()) == []


def test_a_spool_is_removed_when_writing_fails(tmp_path):
    spool = Spool(tmp_path / "rows", SCHEMA)
    with pytest.raises(AttributeError), spool:
        spool.add(None)
    assert list(tmp_path.iterdir()) == []

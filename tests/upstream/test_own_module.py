"""A module with every trap answers as it does in a process of its own."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from making import CLOCK, make_environment
from upstream.parity import Call, Parity, compare, example_series

from awm_hub.environment import Environment, SeedTable, Table
from awm_hub.runtime import Options, jobs

BIKES_DDL = """
CREATE TABLE bikes (
    id INTEGER PRIMARY KEY, frame_number TEXT NOT NULL UNIQUE, title TEXT NOT NULL, owner TEXT,
    arrived_at TEXT NOT NULL DEFAULT (datetime('now', '-3 days')), updated_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP
)
"""
REPAIRS_DDL = """
CREATE TABLE repairs (
    id INTEGER PRIMARY KEY, bike_id INTEGER NOT NULL REFERENCES bikes(id), kind TEXT NOT NULL,
    price REAL NOT NULL DEFAULT 0, noted_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP
)
"""
REQUEST = jobs.BuildRequest(
    interface="fastapi",
    code=(Path(__file__).parent / "bike_workshop.py").read_text(encoding="utf-8"),
    clock=CLOCK,
    tables=(Table(name="bikes", ddl=BIKES_DDL), Table(name="repairs", ddl=REPAIRS_DDL)),
    seed=(
        SeedTable(
            table="bikes",
            inserts=(
                "INSERT INTO bikes (id, frame_number, title, owner) VALUES (1, 'FR-100', 'Red racer', 'Ada'), "
                "(2, 'FR-200', 'Tandem', 'Grace'), (3, 'FR-300', 'Cargo bike', NULL)",
            ),
        ),
        SeedTable(
            table="repairs",
            inserts=("INSERT INTO repairs (id, bike_id, kind, price) VALUES (1, 1, 'brake', 20.5), (2, 2, 'gear', 9)",),
        ),
    ),
)
REPAIR = {"bike_id": 2, "kind": "gear", "due": "2026-03-09", "parts": [{"name": "chain"}, {"name": "bolt", "count": 4}]}
CALLS: list[tuple[str, dict[str, Any], str]] = [
    ("list_bikes", {}, "ok"),
    ("list_bikes", {"owner": "Ada", "limit": 5}, "ok"),
    ("list_bikes", {"ids": [1, 3], "newestFirst": True}, "ok"),
    ("list_bikes", {"owner": None, "ids": None}, "ok"),
    ("list_bikes", {"owner": "Łucja & Ola = 2 + 2 #%"}, "ok"),
    ("list_bikes", {"limit": 0}, "invalid_call"),
    ("get_bike", {"bike_id": 1}, "ok"),
    ("get_bike", {"bike_id": 99}, "refused"),
    ("get_bike", {}, "invalid_call"),
    ("search_bikes", {"text": "red"}, "invalid_call"),
    ("add_bike", {"frame_number": "FR-400", "title": "Folding bike"}, "ok"),
    ("add_bike", {"frame_number": "FR-400", "title": "Its twin"}, "fault"),
    ("add_bike", {"frame_number": "FR-500", "title": "After a leaked session", "owner": None}, "ok"),
    ("add_bike", {"frame_number": "F", "title": "Too short a number"}, "invalid_call"),
    ("move_bike", {"bike_id": 1, "owner": "Grace"}, "ok"),
    ("move_bike", {"bike_id": 1, "owner": "Grace"}, "refused"),
    ("move_bike", {"bike_id": 99, "owner": "Grace"}, "refused"),
    ("add_repair_again", REPAIR, "ok"),
    ("add_repair_again", {**REPAIR, "bike_id": 98, "due": None}, "ok"),
    ("add_repair_again", {**REPAIR, "kind": "wheel"}, "invalid_call"),
    ("add_repair_again", {**REPAIR, "due": "no date"}, "invalid_call"),
    ("set_price", {"repair_id": 1, "price": 2.25}, "ok"),
    ("set_price", {"repair_id": 1, "price": 5000}, "fault"),
    ("set_price", {"repair_id": 77, "price": 1}, "fault"),
    ("repairs_by_kind", {"kind": "brake"}, "ok"),
    ("repairs_by_kind", {"kind": "gear", "sort": "price"}, "ok"),
    ("who", {"x-desk": "desk 3", "badge": "b-7"}, "ok"),
    ("who", {}, "ok"),
    ("tally", {"body": [3, 1, 2]}, "ok"),
    ("tally", {"body": []}, "fault"),
    ("note", {"text": "first"}, "ok"),
    ("note", {"text": "second", "fails": True}, "ok"),
    ("note_later", {"text": "third"}, "ok"),
    ("read_log", {}, "ok"),
    ("get_form", {"form": "plain"}, "ok"),
    ("get_form", {"form": "stream"}, "ok"),
    ("get_form", {"form": "nothing"}, "ok"),
    ("get_form", {"form": "moved"}, "refused"),
    ("get_form", {"form": "teapot"}, "refused"),
    ("get_form", {"form": "busy"}, "fault"),
    ("get_form", {"form": "a/b c"}, "fault"),
    ("deals", {}, "fault"),
    ("owner_stats", {"owner": "Grace", "since": "2026-01-01T00:00:00"}, "ok"),
    ("owner_stats", {"owner": "Ada/Bob"}, "refused"),
    ("owner_stats", {"owner": "Zoë?x=1&y=2#z"}, "ok"),
    ("owner_stats", {"owner": "Ada", "since": "yesterday"}, "invalid_call"),
    ("remove_bike", {"bike_id": 2}, "ok"),
    ("remove_bike", {"bike_id": 2}, "fault"),
    ("list_bikes", {}, "ok"),
]


@pytest.fixture(scope="module")
def environment() -> Environment:
    return asyncio.run(make_environment(REQUEST.code or "", REQUEST))


def described(parity: Parity) -> list[tuple[str, str, str]]:
    return [(c.call.tool, c.ours.type, c.theirs) for c in parity.differing]


async def test_every_call_answers_as_in_a_process_of_its_own(environment: Environment, tmp_path: Path) -> None:
    by_hand = [Call(tool, arguments) for tool, arguments, _ in CALLS]
    parity = await compare(environment, {"by hand": by_hand, **await example_series(environment)}, tmp_path)
    assert parity.differing == []
    assert parity.different_databases == ()
    assert {c.call.tool for c in parity.calls} == {tool.name for tool in environment.tools}
    types = [(c.call.tool, c.call.arguments, c.ours.type) for c in parity.calls if c.series == "by hand"]
    assert types == CALLS


async def test_a_difference_in_answers_or_rows_is_seen(environment: Environment, tmp_path: Path) -> None:
    changed = (REQUEST.code or "").replace('"two"', '"three"').replace("price=repair.price", "price=repair.price + 1")
    calls = [
        Call("get_form", {"form": "stream"}),
        Call("add_repair_again", REPAIR),
        Call("get_form", {"form": "plain"}),
    ]
    parity = await compare(environment, {"changed": calls}, tmp_path, their_code=changed)
    assert described(parity) == [("get_form", "ok", "ok")]
    assert parity.different_databases == ("changed",)


async def test_types_are_stricter_here_unless_lenient(environment: Environment, tmp_path: Path) -> None:
    calls = [
        Call("list_bikes", {"limit": "5", "newestFirst": "true"}),
        Call("add_repair_again", {**REPAIR, "price": "7.5"}),
        Call("get_bike", {"bike_id": "1"}),
    ]
    (tmp_path / "strict").mkdir()
    strict = await compare(environment, {"as text": calls}, tmp_path / "strict")
    assert described(strict) == [(call.tool, "invalid_call", "ok") for call in calls]
    (tmp_path / "lenient").mkdir()
    lenient = await compare(environment, {"as text": calls}, tmp_path / "lenient", options=Options(lenient=True))
    assert described(lenient) == []


async def test_integers_that_no_database_holds_stop_before_the_code_here(
    environment: Environment, tmp_path: Path
) -> None:
    parity = await compare(environment, {"large": [Call("get_bike", {"bike_id": 2**63})]}, tmp_path)
    assert described(parity) == [("get_bike", "invalid_call", "fault")]


def test_tools_pushed_out_or_shadowed_by_other_routes_are_named() -> None:
    report = asyncio.run(jobs.build(REQUEST))
    assert report.dropped_tools == ("add_repair",)
    assert report.shadowed_tools == ("add_repair_again", "search_bikes")
    assert report.row_counts == {"bikes": 3, "repairs": 2, "log_entries": 1}
    assert (report.hidden_state, report.load_error) == (False, None)

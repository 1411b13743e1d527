import asyncio
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import awm_hub as awm
from awm_hub.errors import UsageError
from awm_hub.importers import ImportReport, LeftOut, import_awm1k, import_awm1k_async
from awm_hub.importers.report import FileCount

FATES = [f.name for f in fields(FileCount) if f.name not in ("file", "lines", "problems_not_listed")]


def imported(upstream: Any, **options: Any) -> tuple[ImportReport, Path]:
    """Import the run, and check what holds for every import."""
    out = upstream.folder.parent / "out"
    report = import_awm1k(upstream.folder, out, **options)
    for count in report.files:
        assert count.lines == sum(getattr(count, fate) for fate in FATES), count
    assert (out / "import-report.json").read_text(encoding="utf-8") == report.to_json()
    return report, out


def findings(report: ImportReport, id_: str, kind: str) -> list[tuple[str, str]]:
    (entry,) = [e for e in report.environments if e.id == id_]
    return [(f.subject, f.message) for f in entry.findings if f.kind == kind]


def test_a_whole_scenario_becomes_an_environment_that_runs(upstream) -> None:
    upstream.whole("Marina (Berths) 2")
    report, out = imported(upstream)
    (entry,) = report.environments
    assert (entry.id, entry.title, entry.tools_count, entry.tasks_count, entry.tables_count, entry.rows_count) == (
        "marina_berths_2", "Marina (Berths) 2", 2, 2, 2, 3,
    )  # fmt: skip
    assert (entry.signals, entry.decisions, entry.schema_errors, entry.seed_errors) == (1, 1, 0, 0)
    assert [(f.kind, f.subject) for f in entry.findings] == [("verifier", "t1")]
    assert (report.left_out, report.problems) == ((), ())

    environment = awm.load(out)["marina_berths_2"]
    assert environment.categories == ("marina_berths",)
    assert environment.interface == "fastapi"
    assert environment.clock.isoformat() == "2026-02-10T00:00:00+00:00"
    assert [t.id for t in environment.tasks] == ["marina_berths_2/t0", "marina_berths_2/t1"]
    assert [(v.kind, v.function) for v in environment.tasks[0].verifiers] == [
        ("signals", "verify_task"),
        ("decision", "verify_task_completion"),
    ]
    assert environment.tasks[0].verifiers[0].success_criteria == "stays is 2"
    assert (environment.provenance.source, environment.provenance.license) == ("marina_run", "unknown")
    assert environment.quality is not None
    assert (environment.quality.schema_errors, environment.quality.hidden_state) == (0, False)
    with awm.launch(environment, task="t0") as instance:
        assert instance.call_tool("book_stay", {"berth_id": 1, "boat": "Heron"}).value == {"id": 2}
        instance.submit(None)
        assert awm.judge(instance.trajectory()).outcome == "COMPLETED"


def test_descriptions_come_from_the_code_and_else_from_the_specification(upstream) -> None:
    upstream.whole("Marina")
    _, out = imported(upstream)
    tools = {t.name: t.description for t in awm.load(out)["marina"].tools}
    assert tools["list_berths"].startswith("All berths")
    assert "stay" in tools["book_stay"].lower()


def test_tables_and_code_are_enough_to_run_and_the_rest_is_reported_missing(upstream) -> None:
    upstream.tables("marina").code("Marina")
    report, out = imported(upstream)
    assert [subject for subject, _ in findings(report, "marina", "missing")] == [
        "scenario", "tasks", "seed", "specification", "verifiers",
    ]  # fmt: skip
    environment = awm.load(out)["marina"]
    assert (environment.title, environment.description, environment.tasks, environment.seed) == ("Marina", "", (), ())


def test_tasks_that_only_verifiers_quote_are_kept(upstream) -> None:
    upstream.tables("Marina").code("Marina")
    upstream.verifier("Marina", 3, "Count the stays.", upstream.signals_code)
    report, out = imported(upstream)
    (task,) = awm.load(out)["marina"].tasks
    assert (task.id, task.instruction, len(task.verifiers)) == ("marina/t3", "Count the stays.", 1)
    assert ("tasks", "there are no tasks but those that verifiers quote") in findings(report, "marina", "missing")


def test_a_task_that_is_no_text_is_left_out_and_the_others_keep_their_numbers(upstream) -> None:
    upstream.tables("Marina").code("Marina").tasks("Marina", "first", 2, "third")
    report, out = imported(upstream)
    assert [t.slug for t in awm.load(out)["marina"].tasks] == ["t0", "t2"]
    assert findings(report, "marina", "tasks") == [("t1", "left out: the entry is no text or empty")]


def test_line_separators_in_a_task_survive(upstream) -> None:
    text = "Read note 1 \u2028 and \u2029 answer\u0085"
    upstream.tables("Marina").code("Marina").tasks("Marina", text).tasks("Quarry", text)
    report, out = imported(upstream)
    assert awm.load(out)["marina"].tasks[0].instruction == text
    assert next(f for f in report.files if f.file == "gen_tasks.jsonl").lines == 2


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("def broken(:\n", "its code does not load: SyntaxError"),
        ("import no_such_module_anywhere\n", "its code does not load: ModuleNotFoundError"),
        ("raise SystemExit(3)\n", "its code does not load: SystemExit"),
        ("app = 5\n", "its code"),
        ("from fastapi import FastAPI\napp = FastAPI()\n", "its code offers no tool"),
        ("open('/etc/hostname').read()\n", "its code does not load: "),
        ("import socket\nsocket.create_connection(('127.0.0.1', 9))\n", "its code does not load: "),
        ("import subprocess\nsubprocess.run(['true'])\n", "its code does not load: "),
        ("import os\nos._exit(0)\n", ""),
        (" \n", "its code is empty"),
        ("x = 1\n" + "#" * (2 * 2**20), "its code is longer than 2097152 bytes"),
    ],
    ids=lambda text: text.strip()[:24] if isinstance(text, str) else None,
)
def test_code_that_cannot_run_keeps_its_environment_out_and_no_other(upstream, code: str, reason: str) -> None:
    upstream.tables("Bad").tables("Good").code("Bad", code).code("Good").tasks("Bad", "x")
    report, out = imported(upstream)
    assert list(awm.load(out)) == ["good"]
    (left_out,) = report.left_out
    assert (left_out.id, left_out.title, left_out.has) == ("bad", "Bad", ("tasks", "tables", "code"))
    assert left_out.reason.startswith(reason)


def test_scenarios_without_tables_or_code_are_left_out_with_what_there_is(upstream) -> None:
    upstream.whole("Marina").scenario("Quarry").tasks("Mill", "x").tables("Mill").code("Pier")
    report, _ = imported(upstream)
    assert report.left_out == (
        LeftOut(id="mill", title="Mill", reason="it has no code", has=("tasks", "tables")),
        LeftOut(id="pier", title="Pier", reason="it has no tables", has=("code",)),
        LeftOut(id="quarry", title="Quarry", reason="it has no tables and no code", has=("scenario",)),
    )
    assert report.totals["left_out"] == 3


def test_nothing_that_runs_gives_a_report_and_no_dataset(upstream) -> None:
    upstream.tasks("Marina", "x")
    report, out = imported(upstream)
    assert (report.environments, len(report.left_out)) == ((), 1)
    assert [path.name for path in out.iterdir()] == ["import-report.json"]


def test_failing_statements_are_kept_in_the_row_counted_and_reported(upstream) -> None:
    broken = {"name": "fees", "ddl": "CREATE TABLE fees (id INTEGER,,)", "indexes": ["CREATE INDEX f ON fees(id)"]}
    dangling = "INSERT INTO stays (id, berth_id, boat) VALUES (1, 1, 'Tern'), (2, 9, 'Gull'), (3, 9, 'Skua');"
    escaped = "INSERT INTO stays (id, berth_id, boat) VALUES (4, 1, 'Gull\\'s Rest');"
    upstream.tables("Marina", broken).code("Marina").seed("Marina", dangling, escaped)
    report, out = imported(upstream)
    (entry,) = report.environments
    assert (entry.schema_errors, entry.seed_errors, entry.rows_count, entry.tables_count) == (2, 3, 3, 2)
    assert [subject for subject, _ in findings(report, "marina", "schema")] == ["fees", "fees"]
    assert [subject for subject, _ in findings(report, "marina", "seed")] == ["stays"] * 3
    environment = awm.load(out)["marina"]
    assert environment.tables[2].ddl == broken["ddl"]
    assert environment.seed[1].inserts == (dangling, escaped)
    assert environment.quality is not None
    assert (environment.quality.schema_errors, environment.quality.seed_errors) == (2, 3)


def test_routes_that_hide_one_another_and_state_outside_the_database_are_reported(upstream) -> None:
    more = """

SEEN = []


@app.get("/berths/{berth_id}", operation_id="get_berth")
async def get_berth(berth_id: str):
    SEEN.append(berth_id)
    return {"id": berth_id}


@app.get("/berths/longest", operation_id="longest_berth")
async def longest_berth():
    return {"id": 2}


@app.get("/berths", operation_id="list_berths_again")
async def list_berths_again():
    return []
"""
    upstream.tables("Marina").code("Marina", upstream.marina_code + more)
    report, out = imported(upstream)
    (entry,) = report.environments
    environment = awm.load(out)["marina"]
    assert (entry.dropped_tools, entry.hidden_state) == (("list_berths",), True)
    assert entry.shadowed_tools == ("list_berths_again", "longest_berth")
    assert [t.name for t in environment.tools] == ["list_berths_again", "book_stay", "get_berth", "longest_berth"]
    assert environment.quality is not None
    assert environment.quality.dropped_tools == entry.dropped_tools
    assert environment.quality.hidden_state is True
    assert findings(report, "marina", "tools") == [
        ("list_berths", "dropped: a later operation has its method and path"),
        ("list_berths_again", "shadowed: its calls reach an earlier operation"),
        ("longest_berth", "shadowed: its calls reach an earlier operation"),
    ]
    assert [subject for subject, _ in findings(report, "marina", "hidden_state")] == ["code"]


def test_tools_that_differ_from_the_specification_are_reported(upstream) -> None:
    upstream.tables("Marina").code("Marina").specification("Marina", list_berths="All", sell_berth="Sell")
    report, _ = imported(upstream)
    assert findings(report, "marina", "specification") == [
        ("sell_berth", "planned and not in the code"),
        ("book_stay", "in the code and not planned"),
    ]


def test_a_line_that_announces_other_numbers_is_reported(upstream) -> None:
    upstream.tables("Marina").code("Marina").seed("Marina", announced=7)
    report, _ = imported(upstream)
    assert findings(report, "marina", "seed") == [("inserts_count", "the line announces 7 statements and holds 1")]


def test_deciding_verifiers_under_the_name_for_signals_are_decisions(upstream) -> None:
    upstream.tables("Marina").code("Marina").tasks("Marina", "Book.")
    upstream.verifier("marina", 0, "Book.", upstream.decision_code, file="gen_verifier")
    upstream.verifier("marina", 0, "Book.", upstream.signals_code, file="gen_verifier.pure_code")
    report, out = imported(upstream)
    assert [v.kind for v in awm.load(out)["marina"].tasks[0].verifiers] == ["decision", "signals"]
    assert (report.environments[0].signals, report.environments[0].decisions) == (1, 1)


def test_repeated_and_homeless_verifiers_are_reported_by_line(upstream) -> None:
    upstream.tables("Marina").code("Marina").tasks("Marina", "Book.")
    for index in (0, 0, 5):
        upstream.verifier("Marina", index, "Book.", upstream.signals_code)
    report, _ = imported(upstream)
    assert [(p.file, p.line, p.kind) for p in report.problems] == [
        ("gen_verifier.jsonl", 2, "repeated"),
        ("gen_verifier.jsonl", 3, "unused"),
    ]
    (count,) = [f for f in report.files if f.file == "gen_verifier.jsonl"]
    assert (count.lines, count.imported, count.repeated, count.unused) == (3, 1, 1, 1)


def test_a_decision_that_the_untouched_database_satisfies_is_reported(upstream) -> None:
    upstream.tables("Marina").code("Marina").tasks("Marina", "Book.")
    upstream.seed("Marina", "INSERT INTO stays (id, berth_id, boat) VALUES (1, 1, 'Heron');")
    upstream.verifier("Marina", 0, "Book.", upstream.decision_code)
    report, _ = imported(upstream)
    assert findings(report, "marina", "verifier") == [
        ("t0", "it is complete on the untouched database, before anything was done")
    ]


def test_broken_lines_cost_only_themselves(upstream) -> None:
    upstream.line("gen_envs", b'{"scenario": "Marina", "full_co\n').line("gen_db", b"\xff\xfe\n").line("gen_db", b"\n")
    upstream.whole("Marina").line("gen_sample", b'{"scenario": "Quarry"')
    report, out = imported(upstream)
    assert list(awm.load(out)) == ["marina"]
    assert [(p.file, p.line, p.kind) for p in report.problems] == [
        ("gen_db.jsonl", 1, "encoding"),
        ("gen_envs.jsonl", 1, "json"),
        ("gen_sample.jsonl", 2, "json"),
    ]


def test_progress_names_every_scenario_in_order(upstream) -> None:
    upstream.tables("B").tables("A").code("A").code("B").tasks("C", "x")
    seen: list[tuple[int, int, str]] = []
    imported(upstream, progress=lambda done, total, id_: seen.append((done, total, id_)))
    assert seen == [(1, 3, "a"), (2, 3, "b"), (3, 3, "c")]


def test_two_imports_of_one_run_are_the_same(upstream) -> None:
    upstream.whole("Marina").tables("Quarry").code("Quarry")
    first, out = imported(upstream)
    again = out.parent / "again"
    assert import_awm1k(upstream.folder, again) == first
    files = sorted(p.relative_to(out) for p in out.rglob("*") if p.is_file())
    assert files == sorted(p.relative_to(again) for p in again.rglob("*") if p.is_file())
    assert [(out / f).read_bytes() == (again / f).read_bytes() for f in files] == [True] * len(files)


async def test_the_coroutine_imports_inside_a_running_loop(upstream, tmp_path: Path) -> None:
    upstream.whole("Marina")
    report = await import_awm1k_async(upstream.folder, tmp_path / "out")
    assert [e.id for e in report.environments] == ["marina"]


def test_a_revision_of_a_folder_and_writing_into_the_source_are_usage_errors(upstream) -> None:
    upstream.whole("Marina")
    with pytest.raises(UsageError, match="which has no revision"):
        import_awm1k(upstream.folder, upstream.folder.parent / "out", revision="main")
    with pytest.raises(UsageError, match="is the source itself"):
        import_awm1k(upstream.folder, upstream.folder)


@pytest.mark.parametrize(
    "lie",
    [
        "building.ImageBuilder._image = lambda self: 2**40",
        "building.ImageBuilder._image = lambda self: (self._problems.append(5), self._db.serialize())[1]",
        "building.ImageBuilder._image = lambda self: b'no database'",
    ],
)
def test_code_that_makes_its_sandbox_lie_costs_only_its_own_environment(upstream, lie: str) -> None:
    code = f"import sys\nbuilding = sys.modules['awm_hub.sandbox.building']\n{lie}\n{upstream.marina_code}"
    upstream.tables("Bad").tables("Good").code("Bad", code).code("Good")
    report, _ = imported(upstream)
    assert [e.id for e in report.environments] == ["good"]
    assert "KeyError" not in report.left_out[0].reason


def test_an_import_that_gave_nothing_can_be_tried_again_in_the_same_folder(upstream) -> None:
    upstream.tables("Marina")
    imported(upstream)
    upstream.code("Marina")
    report, out = imported(upstream)
    assert [e.id for e in report.environments] == ["marina"]
    assert list(awm.load(out)) == ["marina"]


def test_an_import_replaces_the_dataset_it_wrote_before(upstream) -> None:
    upstream.tables("Marina").code("Marina")
    imported(upstream)
    upstream.tables("Quarry").code("Quarry")
    _, out = imported(upstream)
    assert list(awm.load(out)) == ["marina", "quarry"]


def test_a_folder_that_holds_something_else_is_refused_before_the_work_begins(upstream) -> None:
    upstream.whole("Marina")
    out = upstream.folder.parent / "out"
    out.mkdir()
    (out / "thesis.tex").write_text("x")
    with pytest.raises(UsageError, match="something other than a dataset"):
        import_awm1k(upstream.folder, out, progress=lambda *_: pytest.fail("work began"))


def test_an_import_that_is_broken_off_leaves_nothing_behind(upstream) -> None:
    for name in "ABCDEFGH":
        upstream.tables(name).code(name)

    def interrupt(done: int, total: int, id_: str) -> None:
        if done == 3:
            raise BrokenPipeError

    out = upstream.folder.parent / "out"
    with pytest.raises(BrokenPipeError):
        import_awm1k(upstream.folder, out, progress=interrupt)
    assert not out.exists()


async def test_an_import_that_is_cancelled_stops_and_leaves_nothing_behind(upstream) -> None:
    for name in "ABCDEFGH":
        upstream.tables(name).code(name)
    out, loop, seen = upstream.folder.parent / "out", asyncio.get_running_loop(), []

    def cancel(done: int, total: int, id_: str) -> None:
        seen.append(id_)
        if done == 3:
            loop.call_soon_threadsafe(task.cancel)

    task = asyncio.create_task(import_awm1k_async(upstream.folder, out, progress=cancel))
    with pytest.raises(asyncio.CancelledError):
        await task
    await loop.shutdown_default_executor()
    assert len(seen) < 8
    assert not out.exists()


def test_sql_that_reaches_outside_fails_and_leaves_no_trace(upstream, tmp_path: Path) -> None:
    trace = tmp_path / "trace.db"
    hostile = {"name": "x", "ddl": f"ATTACH DATABASE '{trace}' AS x", "indexes": ["SELECT load_extension('libc.so.6')"]}
    upstream.tables("Marina", hostile).code("Marina")
    upstream.seed("Marina", f"VACUUM INTO '{trace}'", "INSERT INTO stays SELECT 1, 1, readfile('/etc/hostname')")
    report, _ = imported(upstream)
    (entry,) = report.environments
    assert (entry.schema_errors, entry.seed_errors, entry.rows_count) == (2, 2, 2)
    assert not trace.exists()


@pytest.mark.slow
def test_code_and_sql_that_never_end_cost_only_their_own_environments(upstream) -> None:
    endless = "INSERT INTO stays WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i FROM n) SELECT i, 1, 'x' FROM n"
    upstream.tables("Loop").code("Loop", "while True:\n    pass\n")
    upstream.tables("Query").code("Query").seed("Query", endless)
    upstream.tables("Good").code("Good")
    report, _ = imported(upstream)
    assert "good" in [e.id for e in report.environments]
    assert "loop" in [e.id for e in report.left_out]

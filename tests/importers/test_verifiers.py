import datetime as dt
from pathlib import Path

import pytest

from awm_hub.environment import Table
from awm_hub.importers.catalogue import Place
from awm_hub.importers.jsonl import Line
from awm_hub.importers.records import VerifierRecord
from awm_hub.importers.verifiers import attach, classify
from awm_hub.runtime import jobs

CLOCK = dt.datetime(2026, 2, 10, tzinfo=dt.UTC)
SIGNALS = "def verify_task(initial_db_path, final_db_path):\n    return {'stays': 1}\n"
DECISION = "def verify_task(initial_db_path, final_db_path, final_answer=None):\n    return {'result': 'others'}\n"


def record(code: str, *, index: int = 0, text: str | None = "Book.", notes: tuple[str, ...] = ()) -> VerifierRecord:
    return VerifierRecord(
        scenario="Marina",
        task_index=index,
        instruction=text,
        code=code,
        function=code.partition("def ")[2].partition("(")[0],
        success_criteria="",
        failure_criteria="",
        notes=notes,
    )


def placed(*records: VerifierRecord) -> list[tuple[Place, VerifierRecord]]:
    return [
        (Place(folder=Path(), file="gen_verifier.jsonl", line=Line(number=i, offset=0, size=0), name="Marina"), found)
        for i, found in enumerate(records, 1)
    ]


@pytest.fixture
async def image() -> bytes:
    stays = Table(name="stays", ddl="CREATE TABLE stays (id INTEGER PRIMARY KEY, boat TEXT)")
    report = await jobs.build(jobs.BuildRequest(interface="functions", code=None, clock=CLOCK, tables=(stays,)))
    return report.image


@pytest.mark.parametrize(
    ("result", "kind", "notes"),
    [
        ("{'result': 'others'}", "decision", ()),
        ("{'result': 'partial', 'why': 'one of two'}", "decision", ()),
        (
            "{'result': 'complete'}",
            "decision",
            ("it is complete on the untouched database, before anything was done",),
        ),
        ("{'result': 'failed'}", "decision", ("its result is 'failed', which is no verdict",)),
        ("{'result': 'failed', 'stays': 2}", "signals", ()),
        ("{'result': {'stays': 2}}", "signals", ()),
        ("{}", "signals", ()),
        ("True", "signals", ("it returns no object, signals by its signature",)),
    ],
)
async def test_what_a_verifier_returns_is_its_kind(
    image: bytes, result: str, kind: str, notes: tuple[str, ...]
) -> None:
    code = f"def verify_task(initial_db_path, final_db_path):\n    return {result}\n"
    assert await classify(record(code), image, CLOCK) == (kind, notes)


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        ("verify_task(initial_db_path, final_db_path)", "signals"),
        ("verify_task(initial_db_path, final_db_path, final_answer=None)", "decision"),
        ("verify_task_completion(initial_db_path, final_db_path)", "decision"),
    ],
)
async def test_the_signature_tells_the_kind_of_a_verifier_that_fails(image: bytes, head: str, kind: str) -> None:
    found, notes = await classify(record(f"def {head}:\n    raise KeyError('no stay')\n"), image, CLOCK)
    assert found == kind
    assert notes[0].startswith(f"it fails on the untouched database, {kind} by its signature: ")
    assert "no stay" in notes[0]


@pytest.mark.parametrize(
    "body",
    [
        "open('/etc/passwd').read()",
        "__import__('socket').create_connection(('127.0.0.1', 80))",
        "__import__('subprocess').run(['true'])",
        "__import__('os')._exit(0)",
    ],
)
async def test_a_verifier_that_reaches_outside_fails_and_is_noted(image: bytes, body: str) -> None:
    code = f"def verify_task(initial_db_path, final_db_path):\n    {body}\n    return {{'result': 'complete'}}\n"
    kind, notes = await classify(record(code), image, CLOCK)
    assert kind == "signals"
    assert notes[0].startswith("it fails on the untouched database")


async def test_both_kinds_of_one_task_are_kept_whatever_their_order(image: bytes) -> None:
    found = await attach({0: "Book."}, placed(record(DECISION), record(SIGNALS)), image, CLOCK)
    assert [v.kind for v in found.verifiers[0]] == ["decision", "signals"]
    assert [v.code for v in found.verifiers[0]] == [DECISION, SIGNALS]
    assert (found.findings, found.misfits) == ((), ())


async def test_of_one_kind_the_first_counts(image: bytes) -> None:
    second = SIGNALS.replace("1", "2")
    found = await attach({0: "Book."}, placed(record(SIGNALS), record(second)), image, CLOCK)
    assert [v.code for v in found.verifiers[0]] == [SIGNALS]
    (misfit,) = found.misfits
    assert (misfit.place.line.number, misfit.fate) == (2, "repeated")
    assert misfit.message == "'Marina' already has a verifier of the kind signals for t0; the first counts"


async def test_a_verifier_of_another_text_gives_way_to_one_of_this_text(image: bytes) -> None:
    other, own = record(SIGNALS, text="Sell."), record(SIGNALS.replace("1", "2"), text=" Book.\n")
    found = await attach({0: "Book."}, placed(other, own), image, CLOCK)
    assert [v.code for v in found.verifiers[0]] == [own.code]
    assert [(m.place.line.number, m.fate) for m in found.misfits] == [(1, "repeated")]
    assert found.findings == ()


async def test_a_verifier_of_another_text_is_kept_and_noted_where_there_is_no_other(image: bytes) -> None:
    found = await attach({0: "Book."}, placed(record(SIGNALS, text="Sell.")), image, CLOCK)
    assert len(found.verifiers[0]) == 1
    assert [(f.kind, f.subject, f.message) for f in found.findings] == [
        ("verifier", "t0", "the verifier was written for another text: Sell.")
    ]


async def test_a_verifier_without_a_task_is_unused(image: bytes) -> None:
    found = await attach({0: "Book."}, placed(record(SIGNALS, index=4)), image, CLOCK)
    assert found.verifiers == {0: ()}
    assert [(m.fate, m.message) for m in found.misfits] == [("unused", "'Marina' has no task t4")]


async def test_notes_from_reading_the_line_become_findings(image: bytes) -> None:
    found = await attach({0: "Book."}, placed(record(SIGNALS, notes=("criteria are missing",))), image, CLOCK)
    assert [f.message for f in found.findings] == ["criteria are missing"]

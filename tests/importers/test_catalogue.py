import os
import random
from collections import Counter

import pytest

from awm_hub.importers.catalogue import Candidate, normalise, read_catalogue
from awm_hub.importers.report import FileCount, Ledger, LeftOut


def catalogue_of(upstream) -> tuple[dict[str, Candidate], Ledger]:
    ledger = Ledger()
    return {c.id: c for c in read_catalogue(upstream.folder, ledger)}, ledger


def counts(ledger: Ledger, file: str) -> dict[str, int]:
    return {fate: n for fate, n in ledger.counts[file].items() if n}


@pytest.mark.parametrize(
    ("name", "normalised"),
    [
        ("e_commerce_33", "e_commerce_33"),
        ("Ship (Berths & Boats)", "ship_berths_boats"),
        ("  Marina  ", "marina"),
        ("A__B", "a__b"),
        ("Café 9", "caf_9"),
        ("雨", ""),
    ],
)
def test_names_are_normalised_as_upstream_does(name: str, normalised: str) -> None:
    assert normalise(name) == normalised


def test_display_and_normalised_names_in_any_order_are_one_scenario(upstream) -> None:
    upstream.scenario("Marina (Berths)").scenario("Quarry").tables("Quarry").tables("Marina (Berths)")
    upstream.code("marina_berths").verifier("marina_berths", 0, "x", "def f(): ...")
    found, ledger = catalogue_of(upstream)
    assert {id_: (c.title, c.has) for id_, c in found.items()} == {
        "marina_berths": ("Marina (Berths)", ("scenario", "tables", "code", "verifiers")),
        "quarry": ("Quarry", ("scenario", "tables")),
    }
    assert ledger.problems == []
    assert [p.line.number for p in found["marina_berths"].places] == [1, 2, 1, 1]


def test_names_that_differ_in_case_and_space_alone_are_no_collision(upstream) -> None:
    upstream.scenario("Old  Harbour").tables("old harbour")
    found, ledger = catalogue_of(upstream)
    assert found["old_harbour"].has == ("scenario", "tables")
    assert ledger.left_out == []


def test_of_two_scenarios_with_one_normalised_name_the_first_named_is_kept(upstream) -> None:
    upstream.scenario("Boats+Berths").scenario("Boats & Berths")
    upstream.tables("Boats & Berths").tables("Boats+Berths").code("boats_berths")
    found, ledger = catalogue_of(upstream)
    reason = "its name gives the same id 'boats_berths' as 'Boats+Berths', which was named first"
    assert found["boats_berths"].title == "Boats+Berths"
    assert [(p.part, p.line.number) for p in found["boats_berths"].places] == [
        ("scenario", 1),
        ("tables", 2),
        ("code", 1),
    ]
    assert ledger.left_out == [
        LeftOut(id="boats_berths", title="Boats & Berths", reason=reason, has=("scenario", "tables"))
    ]
    assert [(p.file, p.line, p.kind) for p in ledger.problems] == [
        ("gen_scenario.jsonl", 2, "collision"),
        ("gen_db.jsonl", 1, "collision"),
    ]
    assert [f.message for f in found["boats_berths"].findings] == [
        "lines that name 'boats_berths' were taken for 'Boats+Berths' and could be of 'Boats & Berths'"
    ]


def test_the_first_of_repeated_lines_counts_and_the_others_are_reported(upstream) -> None:
    upstream.tasks("Marina", "first").tasks("marina", "second")
    found, ledger = catalogue_of(upstream)
    (place,) = found["marina"].places
    assert place.read().tasks == ("first",)
    assert [(p.file, p.line, p.kind, p.message) for p in ledger.problems] == [
        ("gen_tasks.jsonl", 2, "repeated", "'marina' stands already on line 1; the first counts")
    ]


def test_a_usable_line_after_an_unusable_one_is_no_repetition(upstream) -> None:
    upstream.line("gen_tasks", {"scenario": "Marina", "tasks": "none"}).tasks("Marina", "one")
    found, ledger = catalogue_of(upstream)
    assert [p.line.number for p in found["marina"].places] == [2]
    assert [(p.line, p.kind, p.message) for p in ledger.problems] == [
        (1, "shape", "'tasks' is a text, a list is expected")
    ]


def test_all_verifiers_of_a_scenario_are_kept_for_later(upstream) -> None:
    upstream.verifier("Marina", 0, "x", "def f(): ...").verifier("Marina", 0, "x", "def f(): ...")
    upstream.verifier("Marina", 0, "x", "def f(): ...", file="gen_verifier.pure_code")
    found, _ = catalogue_of(upstream)
    assert [p.file for p in found["marina"].places] == [
        "gen_verifier.jsonl",
        "gen_verifier.jsonl",
        "gen_verifier.pure_code.jsonl",
    ]


def test_a_name_without_letters_or_digits_is_refused_by_line(upstream) -> None:
    upstream.tasks("雨の港", "x").tasks("Marina", "x")
    found, ledger = catalogue_of(upstream)
    assert list(found) == ["marina"]
    assert [(p.line, p.message) for p in ledger.problems] == [
        (1, "no id can be made of the name '雨の港': it has no letter a-z and no digit")
    ]


def test_a_long_name_gives_a_cut_id_and_is_joined_by_the_whole(upstream) -> None:
    long = "Marina " + "x" * 80
    upstream.tables(long).code(long + " two").code(long)
    found, ledger = catalogue_of(upstream)
    (candidate,) = found.values()
    assert (candidate.id, candidate.title) == ("marina_" + "x" * 57, long)
    assert candidate.has == ("tables", "code")
    assert candidate.findings[0].kind == "name"
    (other,) = ledger.left_out
    assert (other.title, other.reason) == (long + " two", f"its id {candidate.id!r} is taken by {long!r}")


def test_a_reserved_name_gives_another_id(upstream) -> None:
    upstream.tables("Health")
    found, _ = catalogue_of(upstream)
    assert (found["health_env"].title, found["health_env"].findings[0].subject) == ("Health", "health")


def test_every_line_of_a_file_is_counted_once(upstream) -> None:
    upstream.line("gen_tasks", b"\xef\xbb\xbf\n").tasks("A+B", "x").tasks("A-B", "x").tasks("A+B", "y")
    upstream.line("gen_tasks", b'["\xff"]\n').line("gen_tasks", b"{}\r\n").line("gen_tasks", b'{"scenario":')
    found, ledger = catalogue_of(upstream)
    assert counts(ledger, "gen_tasks.jsonl") == {
        "lines": 7,
        "blank": 1,
        "refused": 3,
        "repeated": 1,
        "collided": 1,
        "problems": 5,
    }
    assert len(found["a_b"].places) == 1


def test_a_file_of_rubbish_is_counted_and_not_listed_in_full(upstream) -> None:
    upstream.line("gen_tasks", b"x\n" * 1500)
    _, ledger = catalogue_of(upstream)
    (count,) = ledger.report("run", None, "unknown").files
    assert count == FileCount(file="gen_tasks.jsonl", lines=1500, refused=1500, problems_not_listed=500)
    assert len(ledger.problems) == 1000


def test_mixed_files_always_add_up(upstream) -> None:
    chance = random.Random(7)
    names = ["A+B", "A-B", "a_b", "Marina", "marina", "雨", "Quarry"]
    for _ in range(60):
        chance.choice([upstream.tasks, upstream.tables, upstream.code, upstream.scenario])(chance.choice(names))
        upstream.line("gen_tasks", chance.choice([b"\n", b"[]\n", b'{"scenario":\n']))
    found, ledger = catalogue_of(upstream)
    kept = Counter(place.file for candidate in found.values() for place in candidate.places)
    for file, found_counts in ledger.counts.items():
        fates = ("blank", "refused", "repeated", "collided", "left_out")
        assert found_counts["lines"] == kept[file] + sum(found_counts[fate] for fate in fates)


def test_a_folder_named_like_a_file_is_no_file_of_the_run(upstream) -> None:
    os.mkdir(upstream.folder / "gen_tasks.jsonl")
    found, ledger = catalogue_of(upstream)
    assert (found, ledger.counts) == ({}, {})

import json

import pytest
from synthesis.recorded import Recording, problem

from awm_hub.errors import DataError, UnknownNameError
from awm_hub.synthesis.explaining import explain
from awm_hub.synthesis.store import FILE, Store

LISTED = problem("code", "tool_fault", "list_items", "list_items() is a fault: IndexError")
SURVIVOR = problem("verification", "mutant_survives", "pay", "a mistake is accepted", severity="warning")
BLIND = problem("verification", "blind", "pay", "the verifier sees nothing")


@pytest.fixture
def run(tmp_path):
    """An environment that was accepted after corrections, while another one waits."""
    with Store.open(tmp_path, {}) as store:
        made = Recording(store)
        made.ask("scenarios/suitability/1")
        made.write("clinic_1", "scenario")
        made.attempt("other_1/scenario/1")
        made.ask("other_1/task/1", is_open=True)
        made.attempt("clinic_1/code/1", "?", unreadable="no Python is found")
        made.attempt("clinic_1/code/2", found_by="code", because=[problem("code", "unreadable_answer")], usage=None)
        made.gate("clinic_1", "code", LISTED)
        made.attempt("clinic_1/code/3", found_by="code", because=[LISTED], earlier=True)
        made.gate("clinic_1", "code")
        made.write("clinic_1", "verification")
        for turn in (1, 2):  # two tasks at the same time
            made.ask(f"clinic_1/solution/book/1/{turn}", None, calls=["a", "b"] if turn == 1 else ())
            made.ask(f"clinic_1/solution/pay/1/{turn}", None, calls=["a"] if turn == 1 else ())
        told = {"at_fault": "verification", "reason": "It looks at\nthe wrong table."}
        made.ask("clinic_1/solution/pay/1/arbiter", json.dumps(told))
        made.ask("clinic_1/solution/book/1/arbiter", "nothing to say")
        made.solve("clinic_1/solution/book/2", ["a"])
        made.attempt("clinic_1/verification/2", found_by="solution", because=[BLIND])
        made.gate("clinic_1", "verification")
        made.solve("clinic_1/solution/pay/2", ["a"])
        made.gate("clinic_1", "audit", SURVIVOR)
        made.end("clinic_1", SURVIVOR, accepted=True)
    return tmp_path


def test_the_story_is_told_in_the_order_in_which_it_happened(run):
    assert explain(run, "clinic_1").lines() == [
        "clinic_1: accepted",
        "scenario 1: m, 100 + 10 tokens",
        "  gate scenario: passed",
        "code 1: m, 100 + 10 tokens",
        "    cannot be read: no Python is found",
        "code 2: m, about 2 + 1 tokens, asked for since gate code found unreadable_answer",
        "  gate code: 1 error",
        "    - [tool_fault: list_items] list_items() is a fault: IndexError",
        "code 3: m, 100 + 10 tokens, to an earlier wording, asked for since gate code found tool_fault list_items",
        "  gate code: passed",
        "verification 1: m, 100 + 10 tokens",
        "  gate verification: passed",
        "  task pay 1: 2 turns, 1 call; the arbiter blames verification: It looks at the wrong table.",
        "  task book 1: 2 turns, 2 calls; the arbiter blames the attempt: "
        "the attempt and the verifier do not agree, and nobody said why",
        "  task book 2: 2 turns, 1 call, agrees with the verifier",
        "verification 2: m, 100 + 10 tokens, asked for since gate solution found blind pay",
        "    - [blind: pay] the verifier sees nothing",
        "  gate verification: passed",
        "  task pay 2: 2 turns, 1 call, agrees with the verifier",
        "  gate audit: 1 warning",
        "    - warning: [mutant_survives: pay] a mistake is accepted",
        "ACCEPTED, 1 warning left",
        "  - warning: [mutant_survives: pay] a mistake is accepted",
    ]


def test_what_waits_is_told_at_the_place_where_it_waits(run):
    assert explain(run, "other_1").lines() == [
        "other_1: unfinished",
        "scenario 1: m, 100 + 10 tokens",
        "task 1: waits for an answer",
        "UNFINISHED: repeat the command to go on",
    ]


def test_attempts_that_wait_are_told_too(tmp_path):
    with Store.open(tmp_path, {}) as store:
        made = Recording(store)
        made.ask("a/solution/pay/1/1", None, calls=["x"])
        made.ask("a/solution/pay/1/2", is_open=True)
        made.ask("a/solution/book/1/1", is_open=True)
    assert explain(tmp_path, "a").lines()[1:3] == [
        "  task pay 1: 1 turn, 1 call, waits for an answer",
        "  task book 1: 0 turns, 0 calls, waits for an answer",
    ]


def test_an_attempt_between_two_turns_is_not_taken_for_agreed(tmp_path):
    with Store.open(tmp_path, {}) as store:
        Recording(store).ask("a/solution/pay/1/1", None, calls=["x"])
    assert explain(tmp_path, "a").lines()[1] == "  task pay 1: 1 turn, 1 call, waits for an answer"


def test_the_json_form_holds_every_event(run):
    found = explain(run, "clinic_1").to_dict()
    json.dumps(found)
    assert (found["environment"], found["state"]) == ("clinic_1", "accepted")
    kinds = [event["event"] for event in found["events"]]
    assert {kind: kinds.count(kind) for kind in kinds} == {"asked": 6, "checked": 6, "tried": 4, "ended": 1}
    assert found["events"][3]["because"][0]["rule"] == "unreadable_answer"
    assert found["events"][-1]["content_hash"] == "1" * 64


def test_of_many_problems_the_first_are_shown_and_the_rest_counted(tmp_path):
    many = [problem("code", "fault", f"t{i}") for i in range(8)]
    with Store.open(tmp_path, {}) as store:
        made = Recording(store)
        made.attempt("a/code/1")
        made.gate("a", "code", *many)
        made.attempt("a/code/2", found_by="code", because=many)
        made.end("a", *many, accepted=False)
    lines = explain(tmp_path, "a").lines()
    assert lines[2:4] == ["  gate code: 8 errors", "    - [fault: t0] it is wrong"]
    assert lines[9] == "    - and 2 more"
    assert lines[10].endswith("asked for since gate code found fault t0; fault t1; fault t2; fault t3 and 4 more")
    assert lines[11] == "REJECTED, 8 errors left"


def test_what_a_model_wrote_cannot_act_on_the_terminal(tmp_path):
    with Store.open(tmp_path, {}) as store:
        made = Recording(store, model="\x1b[31mred")
        made.attempt("a/code/1")
        made.gate("a", "code", problem("code", "fault", "\u202eevil", "first\nsecond\x1b[2J" + "x" * 900))
    told = explain(tmp_path, "a").lines()
    assert len(told) == 5
    assert all(line.isprintable() for line in told)
    assert max(map(len, told)) < 220


def test_an_unknown_environment_is_told_with_what_lies_near_it(run):
    with pytest.raises(UnknownNameError, match="Did you mean 'clinic_1'") as caught:
        explain(run, "clinik_1")
    assert caught.value.close == ("clinic_1",)


def test_a_folder_without_a_run_has_no_stories(tmp_path):
    with pytest.raises(DataError, match="holds no run"):
        explain(tmp_path, "clinic_1")


def test_a_run_at_work_can_be_explained_though_its_last_line_is_half_written(run):
    with (run / FILE).open("a") as file:
        file.write('{"type": "req')
    assert explain(run, "clinic_1").state == "accepted"

import json
from typing import Any

import pytest

from awm_hub.environment import SeedTable, Table
from awm_hub.errors import RecordError
from awm_hub.importers.records import (
    CodeRecord,
    ScenarioRecord,
    SeedRecord,
    SpecificationRecord,
    TablesRecord,
    TasksRecord,
    VerifierRecord,
    parse,
)


def verifier(code: str = "def verify_task(a, b):\n    return {}\n", **changes: Any) -> dict[str, Any]:
    row: dict[str, Any] = {"scenario": "Marina", "task_idx": 3, "task": "Book."}
    return {**row, "verification": {"code": code, "raw_response": ""}, **changes}


def parsed_verifier(code: str, raw_response: Any) -> VerifierRecord:
    record = parse("verifiers", verifier(verification={"code": code, "raw_response": raw_response}))
    assert isinstance(record, VerifierRecord)
    return record


def test_every_kind_of_line_is_read() -> None:
    table = {"name": "berths", "ddl": "CREATE TABLE berths (id)", "indexes": ["CREATE INDEX i ON berths(id)"]}
    sample = {"table_name": "berths", "reasoning": "", "insert_statements": ["INSERT INTO berths VALUES (1)"]}
    endpoints = [
        {"operation_id": "list", "summary": "Short", "description": "Long"},
        {"operation_id": "book", "summary": "Short", "description": None},
        {"operation_id": "list", "summary": "Again"},
    ]
    assert parse("scenario", {"name": "Marina", "description": None}) == ScenarioRecord(
        scenario="Marina", description=""
    )
    assert parse("tables", {"scenario": "M", "db_schema": {"tables": [table]}}) == TablesRecord(
        scenario="M",
        tables=(Table(name="berths", ddl="CREATE TABLE berths (id)", indexes=("CREATE INDEX i ON berths(id)",)),),
    )
    assert parse("seed", {"scenario": "M", "inserts_count": 1, "sample_data": {"tables": [sample]}}) == SeedRecord(
        scenario="M",
        seed=(SeedTable(table="berths", inserts=("INSERT INTO berths VALUES (1)",)),),
        declared_inserts=1,
    )
    assert parse("specification", {"scenario": "M", "api_spec": {"api_groups": [{"endpoints": endpoints}]}}) == (
        SpecificationRecord(scenario="M", operations={"list": "Long", "book": "Short"}, repeated=("list",))
    )
    assert parse("code", {"scenario": "M", "full_code": "app = 1"}) == CodeRecord(scenario="M", code="app = 1")


def test_a_task_that_is_no_text_leaves_the_numbers_of_the_others_alone() -> None:
    record = parse("tasks", {"scenario": "M", "tasks": ["first", 2, " ", None, "fifth"]})
    assert record == TasksRecord(scenario="M", tasks=("first", None, None, None, "fifth"))


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("tasks", ["no object"], "an object is expected, this is a list"),
        ("tasks", None, "an object is expected, this is null"),
        ("scenario", {"description": "x"}, "'name' is missing"),
        ("scenario", {"name": 5}, "'name' is an integer, a text is expected"),
        ("tasks", {"scenario": "M", "tasks": "one"}, "'tasks' is a text, a list is expected"),
        ("tables", {"scenario": "M", "db_schema": {"tables": [7]}}, "'tables[0]' is an integer, an object is expected"),
        (
            "tables",
            {"scenario": "M", "db_schema": {"tables": [{"name": "a", "ddl": "b", "indexes": [1.5]}]}},
            "'indexes[0]' is a number, a text is expected",
        ),
        ("seed", {"scenario": "M", "sample_data": None}, "'sample_data' is null, an object is expected"),
        ("verifiers", verifier(task_idx=True), "'task_idx' is true or false, an integer is expected"),
        ("verifiers", verifier(task_idx="1"), "'task_idx' is a text, an integer is expected"),
        ("verifiers", verifier(task_idx=-1), "'task_idx' is -1, at least 0 is expected"),
        ("verifiers", verifier(code=""), "'verification' holds no code"),
        ("verifiers", verifier(code="x = 1"), "'verification' code defines no function"),
    ],
)
def test_a_field_of_another_type_is_named(part: str, value: Any, message: str) -> None:
    with pytest.raises(RecordError) as caught:
        parse(part, value)
    assert caught.value.message == message


def test_criteria_and_function_come_from_the_models_answer() -> None:
    answer = {"function_name": "verify_task", "success_criteria": "one more", "failure_criteria": "none"}
    record = parsed_verifier("def helper():\n    pass\n\ndef verify_task(a, b):\n    return {}\n", json.dumps(answer))
    assert (record.task_index, record.instruction) == (3, "Book.")
    assert (record.function, record.success_criteria, record.failure_criteria) == ("verify_task", "one more", "none")
    assert record.notes == ()


@pytest.mark.parametrize(
    ("raw_response", "note"),
    [
        ("{not json", "criteria are missing: 'raw_response' is not valid JSON"),
        ("[1]", "criteria are missing: 'raw_response' is a list"),
        (7, "criteria are missing: 'raw_response' is an integer"),
    ],
)
def test_a_broken_answer_of_the_model_costs_the_criteria_only(raw_response: Any, note: str) -> None:
    record = parsed_verifier("def verify_task(a, b):\n    return {}\n", raw_response)
    assert (record.function, record.success_criteria) == ("verify_task", "")
    assert record.notes[0].startswith(note)


@pytest.mark.parametrize("raw_response", ["", None, {}])
def test_no_answer_of_the_model_is_no_fault(raw_response: Any) -> None:
    assert parsed_verifier("def verify_task(a, b):\n    return {}\n", raw_response).notes == ()


def test_criteria_that_are_no_text_are_kept_as_json() -> None:
    record = parsed_verifier("def verify_task(a, b): ...", json.dumps({"success_criteria": ["a", "b"]}))
    assert record.success_criteria == '["a","b"]'


def test_missing_code_is_taken_from_the_models_answer() -> None:
    record = parsed_verifier("", json.dumps({"python_code": "def verify_task(a, b):\n    return {}\n"}))
    assert record.function == "verify_task"
    assert record.notes == ("'code' is empty, taken from 'raw_response'",)


def test_a_function_name_that_the_code_does_not_define_is_guessed_and_noted() -> None:
    code = "def load(path): ...\n\nasync def verify_stay (a, b): ...\n"
    record = parsed_verifier(code, json.dumps({"function_name": "check"}))
    assert (record.function, record.notes) == ("verify_stay", ("the code defines no 'check', 'verify_stay' is called",))

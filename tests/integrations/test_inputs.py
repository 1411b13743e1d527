"""JSON Schemas become the inputs that smolagents knows."""

import time
from typing import Any

from awm_hub.integrations.inputs import awkward_names, inputs_of


def shown(schema: dict[str, Any]) -> dict[str, tuple[Any, bool]]:
    """Type and nullable of each input."""
    return {name: (found["type"], found["nullable"]) for name, found in inputs_of(schema).items()}


def one(part: Any, **rest: Any) -> dict[str, Any]:
    """The input made of a required parameter."""
    return inputs_of({"properties": {"x": part}, "required": ["x"], **rest})["x"]


def test_a_tool_without_parameters_has_no_inputs() -> None:
    assert inputs_of({"type": "object"}) == {}
    assert inputs_of({"type": "object", "properties": {}, "required": []}) == {}
    assert inputs_of({"properties": True}) == {}


def test_unions_with_null_become_the_other_type_and_nullable() -> None:
    union = {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}
    found = shown({"properties": {"ip": union, "n": {"type": ["integer", "null"]}}})
    assert found == {"ip": ("string", True), "n": ("integer", True)}


def test_references_are_resolved_and_enumerated_values_are_described() -> None:
    schema = {
        "properties": {
            "mode": {"$ref": "#/$defs/Mode"},
            "lines": {"type": "array", "items": {"$ref": "#/$defs/Line"}},
        },
        "required": ["mode"],
        "$defs": {"Mode": {"type": "string", "enum": ["fit", "raw"]}, "Line": {"type": "object"}},
    }
    found = inputs_of(schema)
    assert found["mode"] == {
        "type": "string",
        "description": 'One of: "fit", "raw".',
        "nullable": False,
        "enum": ["fit", "raw"],
    }
    assert found["lines"]["items"] == {"type": "object"}
    assert found["lines"]["description"] == 'JSON Schema: {"items":{"type":"object"},"type":"array"}'


def test_an_enumeration_that_may_be_null_is_described_with_its_values() -> None:
    part = {"anyOf": [{"type": "string", "enum": ["open", "done"]}, {"type": "null"}], "description": "Which."}
    assert one(part)["description"] == 'Which. One of: "open", "done", null.'
    assert one({"const": 3})["type"] == "integer"


def test_required_parameters_come_first_since_code_passes_by_position() -> None:
    schema = {"properties": {"limit": {"type": "integer"}, "query": {"type": "string"}}, "required": ["query"]}
    assert list(inputs_of(schema)) == ["query", "limit"]


def test_a_union_of_numbers_and_texts_takes_integers_too() -> None:
    assert one({"type": ["number", "string"]})["type"] == ["string", "number", "integer"]


def test_what_says_nothing_of_its_type_allows_any() -> None:
    assert [one(part)["type"] for part in ({}, True, {"anyOf": [{}, {"type": "null"}]}, {"$ref": "other.json"})] == [
        "any"
    ] * 4
    assert one({"properties": {"a": {}}})["type"] == "object"
    assert one({"items": {}})["type"] == "array"
    assert one({"allOf": [{"description": "d"}, {"type": "boolean"}]})["type"] == "boolean"


def test_a_schema_that_unfolds_without_end_is_cut_off_at_once() -> None:
    parts = {f"p{n}": {"$ref": "#/$defs/Tree"} for n in range(10)}
    started = time.process_time()
    found = inputs_of({"properties": parts, "$defs": {"Tree": {"type": "object", "properties": parts}}})
    assert list(found) == list(parts)
    assert time.process_time() - started < 2
    assert all(len(part["description"]) < 1000 for part in found.values())
    assert one({"$ref": "#"})["type"] == "object"


def test_names_that_python_code_cannot_write_are_found() -> None:
    schema = {"properties": {"class": {}, "from": {}, "self": {}, "due-on": {}, "ok": {}}}
    assert awkward_names(schema) == ("class", "from", "due-on")

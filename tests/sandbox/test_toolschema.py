"""Signatures and docstrings become schemas that any client can read."""

from typing import Annotated, Any, Literal, NotRequired, TypedDict

import jsonschema
import pytest

from awm_hub.sandbox.toolschema import SchemaError, input_schema, parse_docstring, type_schema


class Zone(TypedDict):
    """A zone.

    Args:
        code: Which one.
    """

    code: Literal["N", "S"]
    fee_cents: NotRequired[int]


class Address(TypedDict, total=False):
    street: str
    zone: Zone


def place(
    db: Any,
    table_no: int,
    lines: list[Address],
    note: str | None = None,
    extra: dict[str, float] | None = None,
    mode: Literal["a", "b"] = "a",
) -> dict:
    """Place an order
    at a table.

    It is served soon.

    Args:
        table_no: The table
            to serve.
        lines (list): What to serve: everything.
        mode: How.

    Returns:
        note: is no parameter here.
    """
    return {}


def test_a_signature_becomes_one_schema_without_references_or_titles() -> None:
    zone = {
        "type": "object",
        "properties": {
            "code": {"type": "string", "enum": ["N", "S"], "description": "Which one."},
            "fee_cents": {"type": "integer"},
        },
        "additionalProperties": False,
        "required": ["code"],
    }
    address = {
        "type": "object",
        "properties": {"street": {"type": "string"}, "zone": zone},
        "additionalProperties": False,
    }
    schema = input_schema(place)
    assert schema == {
        "type": "object",
        "properties": {
            "table_no": {"type": "integer", "description": "The table to serve."},
            "lines": {"type": "array", "items": address, "description": "What to serve: everything."},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
            "extra": {
                "anyOf": [{"type": "object", "additionalProperties": {"type": "number"}}, {"type": "null"}],
                "default": None,
            },
            "mode": {"type": "string", "enum": ["a", "b"], "default": "a", "description": "How."},
        },
        "additionalProperties": False,
        "required": ["table_no", "lines"],
    }
    jsonschema.Draft202012Validator.check_schema(schema)


def test_the_first_paragraph_describes_the_tool() -> None:
    assert parse_docstring(place.__doc__)[0] == "Place an order at a table."
    assert parse_docstring(None) == ("", {})


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (bool, {"type": "boolean"}),
        (float, {"type": "number"}),
        (list, {"type": "array", "items": {}}),
        (dict, {"type": "object"}),
        (Any, {}),
        (Annotated[int, "cents"], {"type": "integer"}),
        (Literal[1, "a"], {"enum": [1, "a"]}),
    ],
)
def test_annotations_have_json_forms(annotation: Any, schema: dict[str, Any]) -> None:
    assert type_schema(annotation) == schema


@pytest.mark.parametrize("annotation", [bytes, set[int], dict[int, str], tuple[int, int], Literal[b"x"]])
def test_an_annotation_without_a_json_form_is_refused(annotation: Any) -> None:
    with pytest.raises(SchemaError):
        type_schema(annotation)


def test_a_parameter_needs_an_annotation() -> None:
    def tool(db, text): ...  # type: ignore[no-untyped-def]

    with pytest.raises(SchemaError, match="needs an annotation") as caught:
        input_schema(tool)
    assert caught.value.parameter == "text"


def test_star_arguments_are_refused() -> None:
    def tool(db: Any, *texts: str) -> None: ...

    with pytest.raises(SchemaError, match="no tool parameters"):
        input_schema(tool)

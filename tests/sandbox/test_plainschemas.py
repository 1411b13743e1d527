"""The quick yes is never given where the full validation would refuse or change something."""

from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from awm_hub import hub
from awm_hub.canonical import to_json
from awm_hub.sandbox.arguments import ArgumentCheck, InvalidArguments
from awm_hub.sandbox.plainschemas import plain_test

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 8),
    st.sampled_from([2**63 - 1, 2**63, -(2**63) - 1, 0.5, 2.0, 1e19]),
    st.sampled_from(["", "a", "abc", "5"]),
)
NAMES = st.sampled_from(["a", "b", "c"])
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=8
)
KINDS = ["string", "integer", "number", "boolean", "null", "array", "object"]


def _schemas(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(KINDS) | st.lists(st.sampled_from(KINDS), min_size=1, max_size=3, unique=True),
            "title": st.just("Title"),
            "enum": st.lists(st.sampled_from(["a", "abc", "5"]), min_size=1, unique=True),
            "minimum": st.integers(-2, 3),
            "exclusiveMaximum": st.sampled_from([1, 2.5]),
            "minLength": st.integers(0, 2),
            "maxItems": st.integers(0, 2),
            "maximum": st.integers(-2, 3),
            "exclusiveMinimum": st.sampled_from([-1, 0.5]),
            "maxLength": st.integers(0, 2),
            "minItems": st.integers(0, 2),
            "items": inner,
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "properties": st.dictionaries(NAMES, inner, max_size=2),
            "required": st.lists(NAMES, max_size=2, unique=True),
            "additionalProperties": st.booleans(),
            "not": st.just({"type": "null"}),
        },
    )


SCHEMAS = st.recursive(_schemas(st.just({})), _schemas, max_leaves=4)


@given(schema=SCHEMAS, value=st.dictionaries(NAMES, VALUES, max_size=3))
def test_a_quick_yes_is_what_the_full_validation_says(schema: dict[str, Any], value: dict[str, Any]) -> None:
    test = plain_test(schema)
    if test is None or not test(value):
        return
    jsonschema.Draft202012Validator(schema).validate(value)
    check = ArgumentCheck(schema)
    check._is_plain = None
    assert to_json(check.check(value)[0]) == to_json(value)


@given(schema=SCHEMAS)
def test_only_an_unusual_keyword_leaves_a_schema_to_the_full_validation(schema: dict[str, Any]) -> None:
    assert (plain_test(schema) is None) == ('"not":' in to_json(schema))


def test_the_bundled_tools_all_have_schemas_for_a_quick_yes() -> None:
    assert [t.name for e in hub.load().values() for t in e.tools if plain_test(t.input_schema) is None] == []


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"properties": {"a": {"type": "integer"}}}, {"a": 2**63}),
        ({"properties": {"a": {"type": "integer"}}}, {"a": True}),
        ({"properties": {"a": {}}}, {"a": [{"b": 2**64}]}),
        ({"properties": {}}, {"other": -(2**63) - 1}),
        ({"properties": {"a": {"enum": ["1"]}}}, {"a": 1}),
    ],
)
def test_what_merely_looks_alike_gets_no_quick_yes(schema: dict[str, Any], value: dict[str, Any]) -> None:
    test = plain_test(schema)
    assert test is not None
    assert not test(value)
    with pytest.raises(InvalidArguments):
        ArgumentCheck(schema).check(value)

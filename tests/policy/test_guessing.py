"""Random arguments follow a schema; whatever a hostile schema holds, a value is made, quickly, and is JSON."""

import random
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import awm_hub
from awm_hub.canonical import to_json
from awm_hub.policy.guessing import arguments_for

SCHEMAS: dict[str, dict[str, Any]] = {
    "types": {
        "a": {"type": "integer"},
        "b": {"type": "number", "minimum": 2.5, "maximum": 3.5},
        "c": {"type": "boolean"},
        "d": {"type": ["string", "null"]},
        "e": {"anyOf": [{"type": "integer", "minimum": 3, "maximum": 3}, {"type": "null"}]},
        "f": {"enum": ["x", "y", None]},
        "g": {"const": 7},
    },
    "bounds": {
        "a": {"type": "integer", "exclusiveMinimum": 4, "exclusiveMaximum": 6},
        "b": {"type": "string", "minLength": 12, "maxLength": 14},
        "c": {"type": "string", "maxLength": 2},
        "d": {"type": "integer", "multipleOf": 25, "minimum": 30},
        "e": {"type": "array", "items": {"type": "integer"}, "minItems": 2},
        "f": {"type": "integer", "minimum": -5, "maximum": -3},
        "g": {"type": "string", "format": "date"},
    },
    "nesting": {
        "a": {"$ref": "#/$defs/point"},
        "b": {"type": "array", "items": {"$ref": "#/$defs/point"}, "minItems": 1},
        "c": {"allOf": [{"$ref": "#/$defs/point"}]},
    },
}
POINT = {"type": "object", "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}}, "required": ["x"]}


@pytest.mark.parametrize("name", SCHEMAS)
def test_arguments_conform_to_the_schema(name: str) -> None:
    properties = SCHEMAS[name]
    schema = {"type": "object", "properties": properties, "required": list(properties), "$defs": {"point": POINT}}
    for seed in range(100):
        jsonschema.validate(arguments_for(schema, random.Random(seed)), schema)


def test_arguments_of_every_bundled_tool_conform_to_its_schema() -> None:
    for environment in awm_hub.load().values():
        for tool in environment.tools:
            jsonschema.Draft202012Validator.check_schema(tool.input_schema)
            validator = jsonschema.Draft202012Validator(tool.input_schema)
            for seed in range(5):
                validator.validate(arguments_for(tool.input_schema, random.Random(seed)))


KEYWORDS = ["type", "properties", "required", "items", "enum", "const", "anyOf", "oneOf", "allOf", "$ref", "examples"]
KEYWORDS += ["minimum", "maximum", "exclusiveMinimum", "multipleOf", "minLength", "maxLength", "minItems", "format"]
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from(
        ["object", "array", "integer", "number", "string", "null", "date", "#", "#/items", "http://x", "pet"]
    ),
    st.sampled_from([0, -1, 1.5, 2**70, -(2**70), 1e300, 1e-300, float("inf"), float("nan")]),
)
ODD = st.recursive(
    VALUES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(KEYWORDS), inner, max_size=4),
        st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2),
    ),
    max_leaves=12,
)


@settings(max_examples=150)
@given(ODD, st.integers(0, 5))
def test_no_schema_breaks_it(schema: Any, seed: int) -> None:
    assert isinstance(arguments_for(schema, random.Random(seed)), dict)


def test_a_schema_that_contains_itself_ends() -> None:
    schema = {"type": "object", "properties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}}, "required": ["a", "b"]}
    assert len(to_json(arguments_for(schema, random.Random(0)))) < 100_000

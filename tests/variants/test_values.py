"""Values near a value: another one of the same type, as plausible as can be."""

import pytest

from awm_hub.variants.values import perturbed, property_schema


@pytest.mark.parametrize(
    ("value", "schema", "others"),
    [
        (3, None, [4]),
        (2.5, {"type": "number"}, [3.5]),
        (True, {"type": "boolean"}, [False]),
        ("2026-02-28", None, ["2026-03-01"]),
        ("2026-04-16T14:00", None, ["2026-04-17T14:00"]),
        ("9999-12-31", None, ["9999-12-31x"]),
        ("2026-99-99", None, ["2026-99-99x"]),
        ("23:30", None, ["00:30"]),
        ("C-30111", None, ["C-30111x"]),
        ("A note of thanks", None, ["A note of thanks again"]),
        ("open", {"enum": ["open", "done"]}, ["done"]),
        (None, {"anyOf": [{"enum": ["cash", "card"]}, {"type": "null"}]}, ["cash"]),
        ("cash", {"anyOf": [{"const": "cash"}, {"const": "card"}]}, ["card"]),
        (None, {"type": "string"}, []),
        ([], None, []),
        (["a", "b"], {"items": {"enum": ["a", "c"]}}, [["a"], ["c", "b"]]),
        ({"a": 1}, None, [{}, {"a": 2}]),
        ({"a": {"b": True}}, None, [{}, {"a": {}}, {"a": {"b": False}}]),
    ],
)
def test_perturbed_values(value: object, schema: object, others: list[object]) -> None:
    assert [other for _, other in perturbed(value, schema)] == others


def test_one_is_not_true() -> None:
    assert [other for _, other in perturbed(1, {"enum": [True, 1]})] == [True]


@pytest.mark.parametrize(
    "schema", [None, True, [], {"enum": 3}, {"anyOf": 5}, {"anyOf": [1, None]}, {"properties": []}]
)
def test_schemas_of_any_form_do_no_harm(schema: object) -> None:
    assert [other for _, other in perturbed({"a": 1}, schema)] == [{}, {"a": 2}]
    assert property_schema(schema, "a") is None

"""Arguments are checked strictly, and only types are ever coerced."""

from typing import Any

import pytest

from awm_hub.sandbox.arguments import ArgumentCheck, InvalidArguments

SCHEMA = {
    "type": "object",
    "properties": {
        "code": {"type": "string"},
        "count": {"type": "integer"},
        "price": {"type": "number"},
        "lines": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}}},
        "limit": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "free": {"type": "object"},
    },
    "additionalProperties": False,
}


@pytest.mark.parametrize("arguments", [{"code": "00123"}, {"code": '{"a": 1}'}, {"code": "null"}, {"limit": None}])
def test_right_arguments_arrive_as_they_were_sent(arguments: dict[str, Any]) -> None:
    assert ArgumentCheck(SCHEMA).check(arguments) == (arguments, [])


def test_integral_floats_arrive_as_integers_at_every_level() -> None:
    checked, _ = ArgumentCheck(SCHEMA).check({"count": 5.0, "price": 5.0, "lines": [{"n": 2.0}], "limit": 3.0})
    assert repr(checked) == "{'count': 5, 'price': 5.0, 'lines': [{'n': 2}], 'limit': 3}"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"count": "5"}, "count: '5' is not of type 'integer'"),
        ({"count": True}, "count: True is not of type 'integer'"),
        ({"code": 123}, "code: 123 is not of type 'string'"),
        ({"count": 5.5}, "count: 5.5 is not of type 'integer'"),
        ({"lines": [{"n": 1}, {"n": "2"}]}, "lines.1.n: '2' is not of type 'integer'"),
        ({"count": 2**63}, "count: 9223372036854775808 is outside 64 bits"),
        ({"free": {"deep": [2**64]}}, "free.deep[0]: 18446744073709551616 is outside 64 bits"),
        ({"count": 1e19}, "count: 1e+19 is outside 64 bits"),
        ({"other": 1}, "Additional properties are not allowed ('other' was unexpected)"),
    ],
)
def test_wrong_arguments_say_where_and_how(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArguments) as caught:
        ArgumentCheck(SCHEMA).check(arguments)
    assert str(caught.value) == message


def test_lenient_mode_reads_numbers_but_never_decodes_texts() -> None:
    arguments = {"code": "5", "count": "5", "price": "1.5", "lines": [{"n": "2"}], "limit": "7"}
    checked, coerced = ArgumentCheck(SCHEMA).check(arguments, lenient=True)
    assert checked == {"code": "5", "count": 5, "price": 1.5, "lines": [{"n": 2}], "limit": 7}
    assert coerced == ["count: '5' to 5", "price: '1.5' to 1.5", "lines[0].n: '2' to 2", "limit: '7' to 7"]


def test_a_remote_reference_is_never_fetched() -> None:
    check = ArgumentCheck({"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:9/schema.json"}}})
    with pytest.raises(Exception, match="Unresolvable"):
        check.check({"a": 1})

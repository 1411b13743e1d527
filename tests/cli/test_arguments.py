import io
from typing import Any

import pytest

from awm_hub.cli.arguments import read_arguments, takes_text
from awm_hub.environment import ToolSpec
from awm_hub.errors import DataError, UsageError


def tool(**properties: Any) -> ToolSpec:
    schema = {"type": "object", "properties": properties, "$defs": {"Code": {"type": "string"}}}
    return ToolSpec(name="t", description="", input_schema=schema)


@pytest.mark.parametrize(
    "text", ["00123", "1e5", "true", "null", '{"fragile": true}', '["A1"]', "", " x ", "a=b", '"quoted"', "\u2028"]
)
def test_text_parameters_get_the_characters_as_they_are(text: str) -> None:
    assert read_arguments(tool(code={"type": "string"}), [f"code={text}"], None) == {"code": text}


@pytest.mark.parametrize(
    "schema",
    [
        {"anyOf": [{"type": "string"}, {"type": "null"}]},
        {"type": ["string", "null"]},
        {"enum": ["null", "a"]},
        {"const": "null"},
        {"$ref": "#/$defs/Code"},
        {"allOf": [{"$ref": "#/$defs/Code"}]},
    ],
)
def test_whatever_takes_text_counts_as_text(schema: dict[str, Any]) -> None:
    assert read_arguments(tool(x=schema), ["x=null"], None) == {"x": "null"}


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"type": "integer"}, "5", 5),
        ({"type": "integer"}, "9007199254740993", 9007199254740993),
        ({"type": "number"}, "2.50", 2.5),
        ({"type": "boolean"}, "true", True),
        ({"type": ["integer", "null"]}, "null", None),
        ({"type": "array", "items": {"type": "string"}}, '["a", "b"]', ["a", "b"]),
        ({"type": "object"}, '{"a": {"b": 1}}', {"a": {"b": 1}}),
        ({}, "7", 7),
    ],
)
def test_other_parameters_take_json(schema: dict[str, Any], text: str, value: Any) -> None:
    found = read_arguments(tool(x=schema), [f"x={text}"], None)
    assert found == {"x": value}
    assert type(found["x"]) is type(value)


@pytest.mark.parametrize("text", ["five", "NaN", "[1,", '{"a": 1, "a": 2}', "[" * 100])
def test_what_is_no_json_is_passed_on_for_the_schema_to_refuse(text: str) -> None:
    assert read_arguments(tool(x={"type": "integer"}), [f"x={text}"], None) == {"x": text}


def test_an_unknown_key_is_passed_on_for_the_schema_to_refuse() -> None:
    assert read_arguments(tool(), ["colour=red", "count=1"], None) == {"colour": "red", "count": 1}


def test_a_reference_to_itself_ends() -> None:
    spec = ToolSpec(name="t", description="", input_schema={"$defs": {"A": {"$ref": "#/$defs/A"}}})
    assert not takes_text({"$ref": "#/$defs/A"}, spec.input_schema)


def test_two_references_to_each_other_end() -> None:
    root = {"$defs": {"A": {"anyOf": [{"$ref": "#/$defs/B"}]}, "B": {"anyOf": [{"$ref": "#/$defs/A"}]}}}
    assert not takes_text({"$ref": "#/$defs/A"}, root)


@pytest.mark.parametrize("word", ["plain", "=x"])
def test_a_word_without_key_is_a_usage_error(word: str) -> None:
    with pytest.raises(UsageError, match="is not key=value") as caught:
        read_arguments(tool(a={}, b={}), [word], None)
    assert caught.value.next_step == "parameters: a, b"


def test_a_key_given_twice_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="'a' is given twice"):
        read_arguments(tool(a={}), ["a=1", "a=2"], None)


def test_both_forms_together_are_a_usage_error() -> None:
    with pytest.raises(UsageError, match="not both"):
        read_arguments(tool(), ["a=1"], "{}")


def test_bytes_that_are_no_utf8_are_a_usage_error() -> None:
    with pytest.raises(UsageError, match="the value of a is not UTF-8 text"):
        read_arguments(tool(a={"type": "string"}), ["a=\udcff"], None)


def test_arguments_come_from_json_a_file_or_stdin(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "call.json"
    path.write_text('{"a": "é"}', encoding="utf-8")
    monkeypatch.setattr("sys.stdin", io.StringIO('{"a": 2}'))
    assert read_arguments(tool(), [], '{"a": 1}') == {"a": 1}
    assert read_arguments(tool(), [], f"@{path}") == {"a": "é"}
    assert read_arguments(tool(), [], "@-") == {"a": 2}


@pytest.mark.parametrize("text", ["[1]", "{", '{"a": NaN}', "{query:", "{'query': 'Mateo'}"])
def test_arguments_that_are_no_json_object_are_a_usage_error_with_an_example(text: str) -> None:
    with pytest.raises(UsageError, match="--arguments is not ") as caught:
        read_arguments(tool(), ["Mateo}"], text)
    assert caught.value.next_step.endswith("""--arguments '{"key": "value"}'""")


@pytest.mark.parametrize("text", ["[1]", "{", '{"a": NaN}'])
def test_a_file_without_a_json_object_is_bad_data(text: str, tmp_path: Any) -> None:
    path = tmp_path / "call.json"
    path.write_text(text)
    with pytest.raises(DataError, match=r"call\.json is not ") as caught:
        read_arguments(tool(), [], f"@{path}")
    assert caught.value.next_step == 'it holds one JSON object, {"key": "value"}'


def test_a_value_that_the_shell_split_is_shown_quoted() -> None:
    with pytest.raises(UsageError, match="'Kiplagat' is not key=value") as caught:
        read_arguments(tool(query={"type": "string"}), ["query=Mateo", "Kiplagat"], None)
    assert caught.value.next_step == "quote a value that holds blanks, 'query=Mateo Kiplagat'; parameters: query"


def test_a_file_that_is_no_utf8_is_bad_data(tmp_path: Any) -> None:
    path = tmp_path / "call.json"
    path.write_bytes(b'{"a": "\xff"}')
    with pytest.raises(DataError, match="is not UTF-8 text"):
        read_arguments(tool(), [], f"@{path}")

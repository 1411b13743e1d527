"""Forms of tools: every argument that a tool takes can be filled in and comes back as it was."""

import random
from typing import Any

import jsonschema
import pytest

import awm_hub
from awm_hub.environment import Environment
from awm_hub.parts import ToolSpec
from awm_hub.playground.filling import Entry, arguments_from, arguments_from_json, prefilled, shown_arguments
from awm_hub.playground.form_html import Filled, form_html
from awm_hub.playground.forms import ENTRY, Bounds, Field, FormError, Tools, form_of
from awm_hub.policy.guessing import arguments_for

ENVIRONMENTS = awm_hub.load()
NULL, EMPTY = Entry(how="null"), Entry(how="empty")
SCHEMA = {
    "properties": {
        "name": {"type": "string", "description": "Who.", "maxLength": 8},
        "kind": {"enum": ["a", "b", 1]},
        "count": {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}], "default": 3, "description": "Many."},
        "price": {"type": "number", "exclusiveMinimum": 0},
        "is_new": {"type": "boolean", "default": False},
        "day": {"type": "string", "format": "date"},
        "note": {"type": ["string", "null"], "default": None},
        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 2},
        "lines": {"type": "array", "items": {"$ref": "#/$defs/Line"}},
        "address": {"$ref": "#/$defs/Address", "description": "Where."},
        "state": {"type": ["string", "null"], "enum": ["open", None]},
        "status": {"oneOf": [{"enum": ["on"]}, {"const": "off"}, {"type": "null"}]},
        "amount": {"anyOf": [{"type": "integer"}, {"type": "number"}]},
        "extra": {"type": "object"},
        "value": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
    },
    "required": ["name", "kind"],
    "additionalProperties": False,
    "$defs": {
        "Address": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "street": {"type": ["string", "null"]}},
            "required": ["city"],
        },
        "Line": {
            "type": "object",
            "properties": {"sku": {"type": "string"}, "quantity": {"type": "integer"}},
            "required": ["sku", "quantity"],
        },
    },
}
WHOLE = {
    "name": "Ada",
    "kind": 1,
    "count": None,
    "price": 5.0,
    "is_new": False,
    "day": "2026-03-01",
    "note": "",
    "tags": ["", "two\nlines"],
    "lines": [{"sku": "A", "quantity": 2}, {"sku": "", "quantity": -(2**63)}],
    "address": {"city": "Ulm", "street": None},
    "state": None,
    "status": "off",
    "amount": 7,
    "extra": {"k": [1, None]},
    "value": "5",
}


def tool_of(schema: Any, name: str = "order") -> ToolSpec:
    return ToolSpec(name=name, description="", input_schema=schema)


TOOL = tool_of(SCHEMA)


def part(name: str) -> Field:
    return next(field for field in form_of(TOOL).fields if field.label == name)


def typed(**texts: str | Entry) -> dict[str, Any]:
    """The arguments of a form whose required fields are filled in, and these."""
    given = {"name": "x", "kind": "0", **texts}
    entries = {name: e if isinstance(e, Entry) else Entry(text=e) for name, e in given.items()}
    return arguments_from(TOOL, Entry(fields=entries))


@pytest.mark.parametrize("environment", ENVIRONMENTS.values(), ids=lambda found: found.id)
def test_every_tool_has_a_form_whose_submission_is_what_was_filled_in_and_validates(environment: Environment) -> None:
    for tool in environment.tools:
        form, draw = form_of(tool), random.Random(tool.name)
        assert {field.label for field in form.fields} == set(tool.input_schema.get("properties", {}))
        for _ in range(10):
            arguments = arguments_for(tool.input_schema, draw)
            entry = prefilled(tool, arguments)
            assert entry is not None, (tool.name, arguments)
            found = arguments_from(tool, entry)
            assert found == arguments
            jsonschema.validate(found, tool.input_schema)


@pytest.mark.parametrize("environment", ENVIRONMENTS.values(), ids=lambda found: found.id)
def test_the_calls_of_every_reference_solution_fit_their_forms(environment: Environment) -> None:
    calls = [call for task in environment.tasks for call in task.solution or ()]
    assert calls
    for call in calls:
        entry = prefilled(environment.tool(call.tool), call.arguments)
        assert entry is not None, call
        assert arguments_from(environment.tool(call.tool), entry) == call.arguments


def test_each_kind_of_schema_has_its_kind_of_field() -> None:
    assert {field.label: field.kind for field in form_of(TOOL).fields} == {
        "name": "text",
        "kind": "choice",
        "count": "integer",
        "price": "number",
        "is_new": "boolean",
        "day": "text",
        "note": "long_text",
        "tags": "list",
        "lines": "list",
        "address": "object",
        "state": "choice",
        "status": "choice",
        "amount": "number",
        "extra": "json",
        "value": "json",
    }
    assert [field.label for field in form_of(TOOL).fields if field.is_required] == ["name", "kind"]
    nullable = [field.label for field in form_of(TOOL).fields if field.is_nullable]
    assert nullable == ["count", "note", "state", "status"]


def test_a_field_tells_what_the_schema_says_about_it() -> None:
    assert (part("count").default, part("is_new").default, part("note").default) == ("3", "false", "null")
    assert (part("name").help, part("count").help, part("address").help) == ("Who.", "Many.", "Where.")
    assert (part("kind").choices, part("state").choices) == (("a", "b", 1), ("open",))
    assert part("status").choices == ("on", "off")
    assert (part("name").bounds, part("count").bounds) == (Bounds(most=8), Bounds(least=1))
    assert part("price").bounds == Bounds(least=0, is_least_excluded=True)
    assert part("day").example == "YYYY-MM-DD"
    line = part("lines").item
    assert line is not None
    assert [field.path for field in line.fields] == [("lines", ENTRY, "sku"), ("lines", ENTRY, "quantity")]


def test_arguments_of_every_kind_come_back_as_they_were() -> None:
    jsonschema.validate(WHOLE, SCHEMA)
    entry = prefilled(TOOL, WHOLE)
    assert entry is not None
    found = arguments_from(TOOL, entry)
    assert found == WHOLE
    assert [type(found["price"]), type(found["amount"]), type(found["kind"])] == [float, int, int]


@pytest.mark.parametrize("name", [name for name in WHOLE if name not in SCHEMA["required"]])
def test_an_optional_field_that_is_left_alone_is_absent(name: str) -> None:
    rest = {key: value for key, value in WHOLE.items() if key != name}
    entry = prefilled(TOOL, rest)
    assert entry is not None
    assert arguments_from(TOOL, entry) == rest


def test_null_and_emptiness_are_chosen_and_nothing_else_is_sent() -> None:
    assert typed() == {"name": "x", "kind": "a"}
    assert typed(count=NULL, state=NULL, note=NULL) == {"name": "x", "kind": "a", "count": None, "state": None, "note": None}  # noqa: E501  # fmt: skip
    assert typed(note=EMPTY, tags=EMPTY) == {"name": "x", "kind": "a", "note": "", "tags": []}
    assert typed(name=EMPTY)["name"] == ""
    assert typed(note=" ")["note"] == " "
    assert typed(extra="null")["extra"] is None
    assert typed(count=" 5 ", price="5", amount="2.50") == {"name": "x", "kind": "a", "count": 5, "price": 5, "amount": 2.5}  # noqa: E501  # fmt: skip


def test_a_blank_form_is_ready_for_what_is_required_and_sends_nothing_else() -> None:
    schema = {
        "properties": {
            "lines": SCHEMA["properties"]["lines"],
            "mode": {"const": "fast"},
            "more": {"type": "object", "properties": {"mode": {"const": 1}, "ids": {"type": "array", "items": {"type": "integer"}}}, "required": ["mode", "ids"]},  # noqa: E501
        },
        "required": ["lines", "mode"],
        "$defs": SCHEMA["$defs"],
    }  # fmt: skip
    entry = prefilled(tool_of(schema))
    assert entry is not None
    assert len(entry.fields["lines"].rows) == 1
    with pytest.raises(FormError, match=r"^lines › 1 › sku: is required"):
        arguments_from(tool_of(schema), entry)
    rows = {**entry.fields, "lines": Entry()}
    assert arguments_from(tool_of(schema), Entry(fields=rows)) == {"lines": [], "mode": "fast"}


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("name", "", "name: is required"),
        ("kind", "", "kind: is required"),
        ("kind", "3", "kind: must be one of the choices"),
        ("count", "5.0", "count: must be a whole number"),
        ("count", "many", "count: must be a whole number"),
        ("count", "9223372036854775808", "count: must be a whole number"),
        ("count", "٣", "count: must be a whole number"),
        ("count", "0", "count: must be at least 1"),
        ("price", "0", "price: must be more than 0"),
        ("price", "nan", "price: must be a number"),
        ("price", "1e999", "price: must be a number"),
        ("price", "true", "price: must be a number"),
        ("name", "nine char", "name: must be at most 8 characters"),
        ("is_new", "yes", "is_new: must be true or false"),
        ("extra", "{", "extra: JSON is not valid JSON"),
        ("extra", '{"a": 1e999}', "extra: "),
        ("price", NULL, "price: does not take null"),
        ("tags", Entry(rows=(Entry(text="a"),) * 3), "tags: must be at most 2 entries"),
        ("lines", Entry(rows=(Entry(fields={"sku": Entry(text="a")}),)), "lines › 1 › quantity: is required"),
        ("address", Entry(fields={"street": Entry(text="x")}), "address › city: is required"),
    ],
)
def test_an_entry_that_does_not_fit_is_named(name: str, text: str | Entry, problem: str) -> None:
    with pytest.raises(FormError) as caught:
        typed(**{name: text})
    assert caught.value.message.startswith(problem)
    assert caught.value.path[0] == name


def test_required_fields_may_be_blank_while_the_form_is_turned_into_json() -> None:
    assert arguments_from(TOOL, Entry(fields={"count": Entry(text="2")}), is_partial=True) == {"count": 2}


@pytest.mark.parametrize(
    "arguments",
    [
        {"name": "x", "kind": "a", "unknown": 1},
        {"name": 5, "kind": "a"},
        {"name": "x", "kind": "z"},
        {"kind": "a"},
        {"name": "x", "kind": "a", "count": 5.0},
        {"name": "x", "kind": "a", "count": True},
        {"name": "x", "kind": True},
        {"name": "x\r", "kind": "a"},
        {"name": "\u202e", "kind": "a"},
        {"name": "x", "kind": "a", "lines": {}},
    ],
)
def test_arguments_that_a_form_cannot_hold_exactly_are_left_to_json(arguments: dict[str, Any]) -> None:
    assert prefilled(TOOL, arguments) is None
    assert arguments_from_json(shown_arguments(arguments)) == arguments


@pytest.mark.parametrize("text", ["[]", "1", "{", '{"a": NaN}', "[" * 100])
def test_json_that_is_no_object_is_refused(text: str) -> None:
    with pytest.raises(FormError):
        arguments_from_json(text)


def test_what_a_browser_sends_is_read_whatever_it_is() -> None:
    deep: Any = "x"
    for _ in range(500):
        deep = {"fields": {"a": deep}, "rows": [deep]} if isinstance(deep, str) else {"fields": {"a": deep}}
    for sent in (None, 7, [], {"how": 3, "text": [], "rows": {}, "fields": []}, {"rows": [1, None]}, deep):
        with pytest.raises(FormError):
            arguments_from(TOOL, Entry.read(sent))


ODD = [
    None,
    7,
    [],
    {},
    True,
    {"properties": 3},
    {"properties": {"a": None}},
    {"properties": {"a": {"$ref": "#/nowhere"}}},
    {"properties": {"a": {"$ref": "#/properties/a"}}},
    {"properties": {"a": {"$ref": "#"}}},
    {"properties": {"a": {"$ref": "https://example.com/x"}}},
    {"properties": {"a": {"type": "array", "items": {"$ref": "#/properties/a"}}}},
    {"properties": {"a": {"type": ["x", "null"], "enum": 5}}},
    {"properties": {"a": {"anyOf": [1, {"type": "null"}]}}},
    {"properties": {"a": {"type": {}, "enum": []}}},
    {"properties": {"a": {"type": "integer", "minimum": "x", "maximum": float("inf"), "default": float("nan")}}},
    {"properties": {"a": {"enum": [{}, [], None, 1, True, 1.0]}}, "required": [{}, "a"]},
    {"properties": {"a": {"allOf": []}}},
    {"properties": {str(i): {"type": "string"} for i in range(500)}},
    {"anyOf": []},
    {"oneOf": 3},
    {"enum": []},
    {"const": None},
    {"type": [{}]},
    {"required": ["z"]},
]


@pytest.mark.parametrize("schema", ODD, ids=lambda schema: repr(schema)[:60])
def test_strange_schemas_have_a_form_too(schema: Any) -> None:
    tool = tool_of(schema)
    blank = prefilled(tool)
    assert blank is not None
    assert form_html(Filled(tool=tool, entry=blank)).startswith("<form")
    for seed in range(5):
        arguments = arguments_for(schema, random.Random(seed))
        entry = prefilled(tool, arguments)
        assert entry is None or arguments_from(tool, entry) == arguments


def test_a_schema_that_grows_without_end_has_a_small_form() -> None:
    node: dict[str, Any] = {"type": "object", "properties": {f"p{i}": {"$ref": "#/$defs/N"} for i in range(20)}}
    tool = tool_of({**node, "$defs": {"N": node}})
    assert form_of(tool).kind == "json"
    assert prefilled(tool, {"p1": {"p2": {}}}) is not None


def test_the_html_of_a_form_shows_hostile_text_as_text() -> None:
    evil = '"><script>alert(1)</script><img src=x onerror=alert(2)>\u202e'
    schema = {
        "properties": {
            evil: {"type": "string", "description": evil, "default": evil},
            "b": {"enum": [evil], "description": evil},
            "c": {"type": "array", "items": {"properties": {evil: {"type": "integer"}}}},
            "d": {"type": "object", "title": evil},
        },
        "required": [evil],
    }
    tool = ToolSpec(name=evil, description=evil, input_schema=schema, effect=evil)
    entry = Entry(fields={evil: Entry(text="</textarea>" + evil), "c": Entry(rows=(Entry(),)), "d": Entry(text=evil)})
    error = FormError((evil,), evil, next_step=evil)
    for found in (form_html(Filled(tool=tool, entry=entry, error=error)), form_html(Filled(tool=tool, entry=entry, json=evil))):  # noqa: E501  # fmt: skip
        assert "<script" not in found
        assert "<img" not in found
        assert "\u202e" not in found
        assert "&lt;script&gt;" in found
        assert found.count("</textarea>") == found.count("<textarea")


def test_tools_of_the_same_content_are_the_same() -> None:
    assert Tools((TOOL,)) == Tools((tool_of(SCHEMA),))
    assert hash(Tools((TOOL,))) == hash(Tools((tool_of(SCHEMA),)))
    assert Tools((TOOL,)) != Tools((tool_of({}),))
    assert ("order" in Tools((TOOL,)), "x" in Tools((TOOL,))) == (True, False)

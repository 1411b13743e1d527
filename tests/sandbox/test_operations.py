"""From an OpenAPI document to tools, and from arguments to requests."""

import json
from typing import Any

import pytest

from awm_hub.sandbox.operations import Operation, example_path, from_openapi, repeated_names


def document(*operations: dict[str, Any], schemas: dict[str, Any] | None = None) -> dict[str, Any]:
    paths: dict[str, Any] = {}
    for operation in operations:
        entry = {"operationId": "tool", **operation}
        paths.setdefault(entry.pop("path", "/things"), {})[entry.pop("method", "post")] = entry
    return {"paths": paths, "components": {"schemas": schemas or {}}}


def body(schema: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"content": {"application/json": {"schema": schema}}, **more}


def only(*args: Any, **kwargs: Any) -> Operation:
    (operation,) = from_openapi(document(*args, **kwargs)).values()
    return operation


def parameter(name: str, place: str, schema: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"name": name, "in": place, "schema": schema or {"type": "string"}, **more}


def test_parameters_and_body_fields_become_one_flat_object() -> None:
    operation = only(
        {
            "path": "/shelves/{shelf_id}/books",
            "summary": "Add a book",
            "description": "Puts it on a shelf.",
            "parameters": [
                parameter("shelf_id", "path", {"type": "integer", "title": "Shelf Id"}, required=True),
                parameter("notify", "query", {"type": "boolean"}, description="Tell the readers"),
            ],
            "requestBody": body({"$ref": "#/components/schemas/Book"}, required=True),
            "responses": {
                "422": body({"type": "object", "properties": {"detail": {}}}),
                "201": body({"$ref": "#/components/schemas/Book"}),
            },
        },
        schemas={
            "Book": {
                "type": "object",
                "title": "Book",
                "properties": {"name": {"type": "string", "title": "Name"}, "pages": {"type": "integer"}},
                "required": ["name"],
            }
        },
    )
    assert (operation.name, operation.method, operation.path) == ("tool", "POST", "/shelves/{shelf_id}/books")
    assert operation.description == "Add a book\n\nPuts it on a shelf."
    assert operation.input_schema == {
        "type": "object",
        "properties": {
            "shelf_id": {"type": "integer"},
            "notify": {"type": "boolean", "description": "Tell the readers"},
            "name": {"type": "string"},
            "pages": {"type": "integer"},
        },
        "required": ["shelf_id", "name"],
    }
    assert operation.output_schema == {
        "type": "object",
        "properties": {"name": {"type": "string"}, "pages": {"type": "integer"}},
        "required": ["name"],
    }
    request = operation.request({"shelf_id": 3, "notify": True, "name": "Dune", "pages": None})
    assert (request.method, request.path, request.query) == ("POST", "/shelves/3/books", "notify=true")
    assert json.loads(request.body) == {"name": "Dune", "pages": None}
    assert dict(request.headers)[b"content-length"] == str(len(request.body)).encode()


def test_a_body_that_is_no_object_is_the_argument_body() -> None:
    operation = only({"requestBody": body({"type": "array", "items": {"type": "integer"}}, required=True)})
    assert operation.input_schema == {
        "type": "object",
        "properties": {"body": {"type": "array", "items": {"type": "integer"}}},
        "required": ["body"],
    }
    assert operation.request({"body": [1, 2]}).body == b"[1, 2]"
    assert operation.request({}).body == b""


def test_an_optional_body_that_is_no_object_is_not_required() -> None:
    operation = only({"requestBody": body({"anyOf": [{"type": "array"}, {"type": "null"}]})})
    assert operation.input_schema == {
        "type": "object",
        "properties": {"body": {"anyOf": [{"type": "array"}, {"type": "null"}]}},
    }


def test_a_body_field_with_the_name_of_a_parameter_is_the_same_argument() -> None:
    operation = only(
        {
            "path": "/books/{book_id}",
            "parameters": [parameter("book_id", "path", {"type": "integer"}, required=True)],
            "requestBody": body(
                {
                    "type": "object",
                    "properties": {"book_id": {"type": "integer", "minimum": 0}, "name": {"type": "string"}},
                    "required": ["book_id", "name"],
                },
                required=True,
            ),
        }
    )
    assert operation.input_schema == {
        "type": "object",
        "properties": {"book_id": {"type": "integer"}, "name": {"type": "string"}},
        "required": ["book_id", "name"],
    }
    request = operation.request({"book_id": 7, "name": "Dune"})
    assert (request.path, json.loads(request.body)) == ("/books/7", {"book_id": 7, "name": "Dune"})


def test_a_required_field_with_the_name_of_an_optional_parameter_is_required() -> None:
    operation = only(
        {
            "parameters": [parameter("lang", "query")],
            "requestBody": body({"type": "object", "properties": {"lang": {"type": "string"}}, "required": ["lang"]}),
        }
    )
    assert operation.input_schema["required"] == ["lang"]
    request = operation.request({"lang": "en"})
    assert (request.query, request.body) == ("lang=en", b'{"lang": "en"}')


def test_references_that_lead_back_into_themselves_allow_anything_there() -> None:
    operation = only(
        {"requestBody": body({"$ref": "#/components/schemas/Node"})},
        schemas={
            "Node": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "children": {"type": "array", "items": {"$ref": "#/components/schemas/Node"}},
                    "other": {"$ref": "#/components/schemas/Other", "description": "The other"},
                },
                "required": ["name"],
            },
            "Other": {
                "type": "object",
                "properties": {"node": {"anyOf": [{"$ref": "#/components/schemas/Node"}, {"type": "null"}]}},
            },
        },
    )
    assert operation.input_schema == {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "children": {"type": "array", "items": {}},
            "other": {
                "type": "object",
                "properties": {"node": {"anyOf": [{}, {"type": "null"}]}},
                "description": "The other",
            },
        },
        "required": ["name"],
    }


def test_references_are_followed_only_so_deep() -> None:
    chain = {
        f"Level{n}": {"type": "object", "properties": {"next": {"$ref": f"#/components/schemas/Level{n + 1}"}}}
        for n in range(200)
    }
    operation = only({"requestBody": body({"$ref": "#/components/schemas/Level0"})}, schemas={**chain, "Level200": {}})
    schema, depth = operation.input_schema, 0
    while schema:
        schema, depth = schema["properties"]["next"] if "next" in schema.get("properties", {}) else {}, depth + 1
    assert depth == 24


def test_references_that_multiply_are_followed_only_so_often() -> None:
    doubling = {
        f"Level{n}": {"type": "object", "properties": {k: {"$ref": f"#/components/schemas/Level{n + 1}"} for k in "ab"}}
        for n in range(30)
    }
    operation = only(
        {"requestBody": body({"$ref": "#/components/schemas/Level0"})}, schemas={**doubling, "Level30": {}}
    )
    assert len(json.dumps(operation.input_schema)) < 200_000


def test_titles_are_left_out_but_a_property_called_title_stays() -> None:
    field = {"type": "string", "title": "Title", "examples": [{"title": "kept", "$ref": "#/kept"}]}
    operation = only(
        {
            "requestBody": body(
                {
                    "type": "object",
                    "title": "Film",
                    "properties": {
                        "title": field,
                        "properties": {"type": "object", "title": "Properties", "default": {"title": "kept"}},
                    },
                    "required": ["title"],
                }
            )
        }
    )
    assert operation.input_schema == {
        "type": "object",
        "properties": {
            "title": {"type": "string", "examples": [{"title": "kept", "$ref": "#/kept"}]},
            "properties": {"type": "object", "default": {"title": "kept"}},
        },
        "required": ["title"],
    }


def test_examples_stand_in_the_schema_wherever_the_document_has_them() -> None:
    operation = only(
        {
            "parameters": [
                parameter("one", "query", example="a"),
                parameter("two", "query", examples={"first": {"value": "b"}, "elsewhere": {"externalValue": "x"}}),
                parameter("three", "query", {"type": "string", "examples": ["c"]}),
            ],
            "requestBody": body({"type": "object", "properties": {"four": {"type": "integer", "example": 4}}}),
        }
    )
    assert operation.input_schema["properties"] == {
        "one": {"type": "string", "examples": ["a"]},
        "two": {"type": "string", "examples": ["b"]},
        "three": {"type": "string", "examples": ["c"]},
        "four": {"type": "integer", "examples": [4]},
    }


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (3, "/files/3/content"),
        ("a/b c?d#e%", "/files/a%2Fb%20c%3Fd%23e%25/content"),
        ("żółw", "/files/%C5%BC%C3%B3%C5%82w/content"),
        (True, "/files/true/content"),
        ("{other}", "/files/%7Bother%7D/content"),
    ],
)
def test_path_arguments_stay_inside_their_segment(value: Any, path: str) -> None:
    operation = only({"path": "/files/{name}/content", "parameters": [parameter("name", "path", required=True)]})
    request = operation.request({"name": value})
    assert request.path == path
    assert request.scope()["raw_path"] == path.encode()


def test_a_path_convertor_is_no_part_of_the_name() -> None:
    operation = only({"path": "/files/{name:path}", "parameters": [parameter("name", "path", required=True)]})
    assert operation.request({"name": "a/b"}).path == "/files/a%2Fb"
    assert example_path("/files/{name:path}/{id}") == "/files/1/1"


def test_lists_repeat_and_null_is_left_out_outside_the_body() -> None:
    operation = only(
        {
            "method": "get",
            "parameters": [
                parameter("tag", "query", {"type": "array"}),
                parameter("limit", "query"),
                parameter("x-trace", "header"),
                parameter("x-many", "header", {"type": "array"}),
                parameter("session", "cookie"),
                parameter("theme", "cookie"),
            ],
        }
    )
    assert not operation.has_body
    request = operation.request(
        {"tag": ["a b", "c&d"], "limit": None, "x-trace": "é", "x-many": [1, 2], "session": "a; b", "theme": "dark"}
    )
    assert (request.query, request.body) == ("tag=a+b&tag=c%26d", b"")
    assert request.headers[2:] == (
        (b"x-trace", "é".encode("latin-1")),
        (b"x-many", b"1"),
        (b"x-many", b"2"),
        (b"cookie", b'session="a\\073 b"; theme=dark'),
    )
    assert operation.request({"limit": None, "x-trace": None, "session": None}).headers == request.headers[:2]


def test_operations_without_an_id_are_named_by_method_and_path() -> None:
    found = from_openapi({"paths": {"/a": {"get": {}, "delete": {}, "parameters": []}}})
    assert list(found) == ["get_/a", "delete_/a"]


def test_of_two_operations_with_one_name_the_later_stays_and_the_name_is_known() -> None:
    two = document({"path": "/a", "method": "get"}, {"path": "/b", "method": "get"})
    assert [o.path for o in from_openapi(two).values()] == ["/b"]
    assert repeated_names(two) == {"tool"}

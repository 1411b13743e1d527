"""Operations of an OpenAPI document as tools: one flat object of arguments, and the request they become.

Path, query, header and cookie parameters and the fields of a JSON body are flattened into one argument object; a body
that is no object is the argument `body`. A body field with the name of a parameter is the same argument: its value goes
to both places. References are resolved in place, so that no schema holds a `$ref`; where one leads back into itself,
anything is allowed.
"""

import json
import re
import urllib.parse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http.cookies import SimpleCookie
from typing import Any

_METHODS = ("get", "post", "put", "patch", "delete")
_MAX_DEPTH = 24
"""References inside references that are followed."""
_MAX_REFERENCES = 2000
"""References that are followed in one schema."""
_IN_PATH = re.compile(r"\{([^}:]+)(?::[^}]+)?\}")
_NAMES = {"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"}
"""Keywords whose keys are names, not keywords."""
_DATA = {"default", "example", "examples", "const", "enum", "required"}
"""Keywords whose values are data, not schemas."""
_DROPPED = {"title", "example", "discriminator"}


@dataclass(frozen=True, kw_only=True)
class Request:
    """One HTTP request to the app."""

    method: str
    path: str
    query: str
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes

    def scope(self) -> dict[str, Any]:
        """The ASGI scope."""
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": self.method,
            "scheme": "http",
            "path": urllib.parse.unquote(self.path),
            "raw_path": self.path.encode(),
            "query_string": self.query.encode(),
            "root_path": "",
            "headers": list(self.headers),
            "client": ("127.0.0.1", 0),
            "server": ("127.0.0.1", 80),
        }


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One tool: what an agent sees, and where each argument goes."""

    name: str
    description: str
    method: str
    path: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None
    places: Mapping[str, tuple[str, ...]]
    """Argument name to where it goes: `path`, `query`, `header`, `cookie`, `body`."""
    has_body: bool
    is_whole_body: bool
    """The body is no object of fields but the one argument `body`."""

    def request(self, arguments: Mapping[str, Any]) -> Request:
        """The request that a call is. Null outside the body means left out."""
        unknown = ("body",) if self.has_body else ("query",)
        places = {name: self.places.get(name, unknown) for name in arguments}
        parameters = [(n, place, v) for n, v in arguments.items() for place in places[n] if v is not None]
        body = {name: value for name, value in arguments.items() if "body" in places[name]}
        content = self._content(body)
        return Request(
            method=self.method,
            path=_IN_PATH.sub(lambda found: _path_part(arguments.get(found[1])), self.path),
            query=urllib.parse.urlencode(
                [pair for n, place, v in parameters if place == "query" for pair in _pairs(n, v)]
            ),
            headers=(*_headers(parameters), *_content_headers(content)),
            body=content,
        )

    def _content(self, body: dict[str, Any]) -> bytes:
        if not self.has_body:
            return b""
        if self.is_whole_body:
            return json.dumps(body["body"]).encode() if "body" in body else b""
        return json.dumps(body).encode()


def _headers(parameters: list[tuple[str, str, Any]]) -> Iterator[tuple[bytes, bytes]]:
    yield (b"host", b"environment")
    yield (b"accept", b"application/json")
    for name, place, value in parameters:
        if place == "header":
            for key, text in _pairs(name.lower(), value):
                yield (key.encode("latin-1", "replace"), text.encode("latin-1", "replace"))
    cookies = [f"{n}={SimpleCookie().value_encode(_text(v))[1]}" for n, place, v in parameters if place == "cookie"]
    if cookies:
        yield (b"cookie", "; ".join(cookies).encode("latin-1", "replace"))


def _content_headers(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    if content:
        yield (b"content-type", b"application/json")
        yield (b"content-length", str(len(content)).encode())


def _pairs(name: str, value: Any) -> list[tuple[str, str]]:
    return [(name, _text(v)) for v in (value if isinstance(value, list) else [value])]


def _path_part(value: Any) -> str:
    return urllib.parse.quote(_text(value), safe="")


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list):
        return json.dumps(value)
    return str(value)


def example_path(path: str) -> str:
    """A path with every parameter filled in."""
    return _IN_PATH.sub("1", path)


def from_openapi(document: Mapping[str, Any]) -> dict[str, Operation]:
    """Every operation of a document, by name, in the document's order; of two with one name, the later."""
    return {o.name: o for o in _operations(document)}


def repeated_names(document: Mapping[str, Any]) -> set[str]:
    """Names that more than one operation of a document has."""
    names = [o.name for o in _operations(document)]
    return {name for name in names if names.count(name) > 1}


def _operations(document: Mapping[str, Any]) -> Iterator[Operation]:
    for path, item in document.get("paths", {}).items():
        for method in _METHODS:
            if method in item:
                yield _operation(path, method, item[method], document)


def _operation(path: str, method: str, found: Mapping[str, Any], document: Mapping[str, Any]) -> Operation:
    properties: dict[str, Any] = {}
    required: list[str] = []
    places: dict[str, tuple[str, ...]] = {}
    for parameter in found.get("parameters", ()):
        parameter = _target(parameter, document)
        name = parameter["name"]
        properties[name] = _parameter_schema(parameter, document)
        places[name] = (*places.get(name, ()), parameter["in"])
        if parameter.get("required"):
            required.append(name)
    holder = _target(found.get("requestBody") or {}, document)
    body = _json_schema(holder, document)
    is_whole_body = body is not None and not isinstance(body.get("properties"), dict)
    if body is not None:
        fields = {"body": body} if is_whole_body else body["properties"]
        wanted = (["body"] if holder.get("required") else []) if is_whole_body else body.get("required", [])
        for name, schema in fields.items():
            properties.setdefault(name, schema)
            places[name] = (*places.get(name, ()), "body")
        required += [name for name in wanted if name not in required]
    answers = found.get("responses", {})
    ok: Mapping[str, Any] = next((v for code, v in sorted(answers.items()) if str(code).startswith("2")), {})
    output = _json_schema(_target(ok, document), document)
    schema = {"type": "object", "properties": properties, **({"required": required} if required else {})}
    return Operation(
        name=found.get("operationId") or f"{method}_{path}",
        description="\n\n".join(text for text in (found.get("summary"), found.get("description")) if text),
        method=method.upper(),
        path=path,
        input_schema=schema,
        output_schema=output if output and output.get("type") == "object" else None,
        places=places,
        has_body=body is not None,
        is_whole_body=is_whole_body,
    )


def _parameter_schema(parameter: Mapping[str, Any], document: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a parameter, with the description and the examples that stand beside it."""
    schema: dict[str, Any] = _Resolver(document).resolve(parameter.get("schema") or {})
    if parameter.get("description"):
        schema["description"] = parameter["description"]
    named = parameter.get("examples")
    examples = [e["value"] for e in named.values() if "value" in e] if isinstance(named, dict) else []
    if "example" in parameter:
        examples = [parameter["example"]]
    if examples:
        schema.setdefault("examples", examples)
    return schema


def _json_schema(holder: Mapping[str, Any], document: Mapping[str, Any]) -> dict[str, Any] | None:
    schema = holder.get("content", {}).get("application/json", {}).get("schema")
    return _Resolver(document).resolve(schema) if isinstance(schema, dict) else None


def _target(value: Mapping[str, Any], document: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a reference names; anything else as it is."""
    if not isinstance(reference := value.get("$ref"), str):
        return value
    target: Any = document
    for part in reference.removeprefix("#/").split("/"):
        target = target[part.replace("~1", "/").replace("~0", "~")]
    return target  # type: ignore[no-any-return]


class _Resolver:
    """Puts what references name in their place, within limits: references can multiply without end."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document
        self._references_left = _MAX_REFERENCES

    def resolve(self, schema: Any, within: tuple[str, ...] = ()) -> Any:
        """A schema without references and titles, and with `example` as `examples`."""
        if isinstance(schema, list):
            return [self.resolve(part, within) for part in schema]
        if not isinstance(schema, dict):
            return schema
        if isinstance(schema.get("$ref"), str):
            return self._resolve_reference(schema, within)
        resolved = {k: self._resolve_keyword(k, v, within) for k, v in schema.items() if k not in _DROPPED}
        return {"examples": [schema["example"]], **resolved} if "example" in schema else resolved

    def _resolve_reference(self, schema: dict[str, Any], within: tuple[str, ...]) -> dict[str, Any]:
        beside = {k: v for k, v in schema.items() if k in ("description", "default", "examples", "deprecated")}
        reference = schema["$ref"]
        if reference in within or len(within) >= _MAX_DEPTH or self._references_left <= 0:
            return beside
        self._references_left -= 1
        return {**self.resolve(_target(schema, self._document), (*within, reference)), **beside}

    def _resolve_keyword(self, keyword: str, value: Any, within: tuple[str, ...]) -> Any:
        if keyword in _DATA:
            return value
        if keyword in _NAMES and isinstance(value, dict):
            return {name: self.resolve(schema, within) for name, schema in value.items()}
        return self.resolve(value, within)

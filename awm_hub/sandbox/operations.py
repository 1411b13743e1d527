"""Operations of an OpenAPI document as tools: one flat object of arguments, and the request they become.

Path, query, header and cookie parameters and the fields of a JSON body are flattened into one argument object; a body
that is no object is the argument `body`. References are resolved in place, so that no schema holds a `$ref`.
"""

import json
import re
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_METHODS = ("get", "post", "put", "patch", "delete")
_MAX_DEPTH = 24
_IN_PATH = re.compile(r"\{([^}:]+)(?::[^}]+)?\}")


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
            "state": {},
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
    places: Mapping[str, str]
    """Argument name to `path`, `query`, `header`, `cookie` or `body`."""
    has_body: bool
    is_whole_body: bool
    """The body is no object of fields but the one argument `body`."""

    def request(self, arguments: Mapping[str, Any]) -> Request:
        """The request that a call is. Null outside the body means left out."""
        path = self.path
        query: list[tuple[str, str]] = []
        headers = [(b"host", b"environment"), (b"accept", b"application/json")]
        body: dict[str, Any] = {}
        for name, value in arguments.items():
            place = self.places.get(name, "body" if self.has_body else "query")
            if place == "body":
                body[name] = value
            elif place == "path":
                path = re.sub(
                    r"\{" + re.escape(name) + r"(:[^}]+)?\}",
                    lambda _, v=value: urllib.parse.quote(_text(v), safe=""),  # type: ignore[misc]
                    path,
                )
            elif value is None:
                continue
            elif place == "query":
                query += [(name, _text(v)) for v in (value if isinstance(value, list) else [value])]
            elif place == "header":
                headers.append((name.lower().encode(), _text(value).encode("latin-1", "replace")))
        content = self._content(body)
        if content:
            headers.append((b"content-type", b"application/json"))
            headers.append((b"content-length", str(len(content)).encode()))
        return Request(
            method=self.method,
            path=path,
            query=urllib.parse.urlencode(query),
            headers=tuple(headers),
            body=content,
        )

    def _content(self, body: dict[str, Any]) -> bytes:
        if not self.has_body:
            return b""
        if self.is_whole_body:
            return json.dumps(body["body"]).encode() if "body" in body else b""
        return json.dumps(body).encode()


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
    """Every operation of a document, by name, in the document's order."""
    found = {}
    for path, item in document.get("paths", {}).items():
        for method in _METHODS:
            if method in item:
                operation = _operation(path, method, item[method], document)
                found[operation.name] = operation
    return found


def _operation(path: str, method: str, found: Mapping[str, Any], document: Mapping[str, Any]) -> Operation:
    properties: dict[str, Any] = {}
    required: list[str] = []
    places: dict[str, str] = {}
    for parameter in found.get("parameters", ()):
        parameter = _resolve(parameter, document)
        name = parameter["name"]
        properties[name] = dict(parameter.get("schema") or {})
        if parameter.get("description"):
            properties[name]["description"] = parameter["description"]
        places[name] = parameter["in"]
        if parameter.get("required"):
            required.append(name)
    body = _json_schema(_resolve(found.get("requestBody") or {}, document), document)
    is_whole_body = body is not None and not isinstance(body.get("properties"), dict)
    if body is not None:
        fields = {"body": body} if is_whole_body else body["properties"]
        wanted = ["body"] if is_whole_body and found["requestBody"].get("required") else body.get("required", [])
        for name, schema in fields.items():
            if name not in properties:
                properties[name], places[name] = schema, "body"
        required += [n for n in wanted if places.get(n) == "body" and n not in required]
    answers = found.get("responses", {})
    ok: Mapping[str, Any] = next((v for code, v in sorted(answers.items()) if str(code).startswith("2")), {})
    output = _json_schema(_resolve(ok, document), document)
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


def _json_schema(holder: Mapping[str, Any], document: Mapping[str, Any]) -> dict[str, Any] | None:
    schema = holder.get("content", {}).get("application/json", {}).get("schema")
    return _resolve(schema, document) if isinstance(schema, dict) else None


def _resolve(value: Any, document: Mapping[str, Any], depth: int = 0, is_names: bool = False) -> Any:
    """The value with references replaced by what they name, and titles left out. Beyond a depth: anything."""
    if depth > _MAX_DEPTH:
        return {}
    if isinstance(value, list):
        return [_resolve(v, document, depth + 1) for v in value]
    if not isinstance(value, dict):
        return value
    if not is_names and isinstance(reference := value.get("$ref"), str):
        target: Any = document
        for part in reference.removeprefix("#/").split("/"):
            target = target[part.replace("~1", "/").replace("~0", "~")]
        return {**_resolve(target, document, depth + 1), **{k: v for k, v in value.items() if k == "description"}}
    return {
        k: _resolve(v, document, depth + 1, is_names=not is_names and k == "properties")
        for k, v in value.items()
        if is_names or k != "title" or not isinstance(v, str)
    }

"""What a client sees of an environment: its tools in MCP's wire form, and the server's instructions.

Arguments are validated by the instance against the environment's own schema, never against what is published here.
"""

from typing import Any

from awm_hub.environment import Environment, Task, ToolSpec

_SCHEMA_MAPS = ("properties", "$defs", "definitions", "patternProperties")
_SCHEMA_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_SCHEMAS = ("items", "additionalProperties")


def instructions(environment: Environment, task: Task | None) -> str:
    """The environment's briefing, and the prompt of the task the instance was opened with."""
    return environment.briefing if task is None else f"{environment.briefing}\n\nTask:\n{task.prompt.strip()}"


def tool(spec: ToolSpec, *, plain_schemas: bool, publish_output_schemas: bool) -> dict[str, Any]:
    """One tool in wire form. Output schemas are published only where MCP can carry them: for objects."""
    schema = plain(spec.input_schema) if plain_schemas else spec.input_schema
    found = {"name": spec.name, "description": spec.description, "inputSchema": schema}
    if spec.effect in ("read", "write"):
        found["annotations"] = {"readOnlyHint": spec.effect == "read", "openWorldHint": False}
    if publish_output_schemas and has_object_output(spec):
        found["outputSchema"] = spec.output_schema
    return found


def has_object_output(spec: ToolSpec) -> bool:
    """Whether the tool is known to return an object."""
    return spec.output_schema is not None and spec.output_schema.get("type") == "object"


def plain(schema: Any) -> Any:
    """A schema without null in its unions: `anyOf [X, null]` becomes X, and a default of null is left out."""
    if not isinstance(schema, dict):
        return schema
    found = dict(schema)
    for key in _SCHEMA_MAPS:
        if isinstance(found.get(key), dict):
            found[key] = {name: plain(part) for name, part in found[key].items()}
    for key in _SCHEMA_LISTS:
        if isinstance(found.get(key), list):
            found[key] = [plain(part) for part in found[key]]
    for key in _SCHEMAS:
        if key in found:
            found[key] = plain(found[key])
    return _without_null(found)


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    is_nullable = False
    for key in ("anyOf", "oneOf"):
        union = schema.get(key)
        rest = [part for part in union if not _is_null(part)] if isinstance(union, list) else []
        if isinstance(union, list) and 0 < len(rest) < len(union):
            is_nullable = True
            schema = {**schema, key: rest}
            if len(rest) == 1 and isinstance(rest[0], dict):
                del schema[key]
                schema = {**rest[0], **schema}
    kinds = schema.get("type")
    if isinstance(kinds, list) and "null" in kinds and len(kinds) > 1:
        is_nullable = True
        rest = [kind for kind in kinds if kind != "null"]
        schema = {**schema, "type": rest[0] if len(rest) == 1 else rest}
    if is_nullable and isinstance(schema.get("enum"), list):
        schema = {**schema, "enum": [value for value in schema["enum"] if value is not None]}
    if is_nullable and "default" in schema and schema["default"] is None:
        del schema["default"]
    return schema


def _is_null(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("type") == "null"

"""Check results against their JSON schemas (ci/schemas.py), and the schemas against the results."""

from __future__ import annotations

from typing import Any

import jsonschema

from ci.schemas import all_schemas


def check_against(schema_name: str, result: object) -> None:
    """Assert that `result` is valid, without keys that the schema doesn't describe."""
    schema = all_schemas()[schema_name]
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator(schema).validate(result)
    _assert_described(result, schema, schema.get("$defs", {}), schema_name)


def _assert_described(
    value: object, schema: dict[str, Any], parts: dict[str, Any], path: str
) -> None:
    if "anyOf" in schema:  # a record or null
        schema = next((one for one in schema["anyOf"] if one.get("type") != "null"), schema)
    if "$ref" in schema:
        schema = parts[schema["$ref"].removeprefix("#/$defs/")]
    if isinstance(value, dict) and "properties" in schema:
        assert set(schema["required"]) <= set(value) <= set(schema["properties"]), path
        for key, item in value.items():
            _assert_described(item, schema["properties"][key], parts, f"{path}.{key}")
    elif isinstance(value, list) and "prefixItems" not in schema:
        for item in value:
            _assert_described(item, schema["items"], parts, f"{path}[]")

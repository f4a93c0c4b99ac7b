"""Format JSON schemas as the page docs/reference/json.md: a table of keys for each record."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

HEAD = """\
# JSON, key by key
*Which keys does each JSON document have, and what do they mean?*

`make schemas` generates this page from the result records in the source. [JSON
output](../json.md) explains what all documents have in common.

"""
SHARED_HEAD = """\
## Records of several documents

These records have the same keys in every document that uses them.

"""
TABLE_HEAD = "| key | type | meaning |\n|---|---|---|\n"
COUNTS = {2: "two", 3: "three", 4: "four"}
# A description's link to a page in docs/, as seen from docs/reference/.
LINK = re.compile(r"\]\((?=\w[\w-]*\.md)")


def page(schemas: dict[str, dict[str, Any]], homes: dict[str, dict[str, str]]) -> str:
    """Return the page.

    Args:
        schemas: JSON schemas by name (`memreplay.peak/1`).
        homes: For each schema, the schema under which each of its records is shown. A record
            without an entry is shown under the schema that uses it, or in the shared part if
            several do.
    """
    parts = {name: _parts(name, one, homes.get(name, {})) for name, one in schemas.items()}
    users = Counter(part for one in parts.values() for part in one)
    common = {part: one[part] for one in parts.values() for part in one if users[part] > 1}
    text = HEAD
    for name, schema in sorted(schemas.items()):
        own = {part: one for part, one in parts[name].items() if part not in common}
        text += f"## {name}\n"
        if "properties" in schema:
            text += f"{schema['description']}\n\n{_table(schema)}\n"
        text += _sections(own)
    text += SHARED_HEAD + _sections(dict(sorted(common.items())))
    for schema in schemas.values():
        for part, one in _documents_in(schema).items():
            text = text.replace(_link(part), _document_link(one["properties"]["schema"]["const"]))
    return LINK.sub("](../", text).rstrip() + "\n"


def _parts(name: str, schema: dict[str, Any], homes: dict[str, str]) -> dict[str, dict[str, Any]]:
    """Return the records to show under a schema.

    Leaves out records that belong to other schemas, and records that only those contain.
    """
    found = schema.get("$defs", {})
    others = {part for part, home in homes.items() if home != name} | set(_documents_in(schema))
    seen: set[str] = set()
    left = _references(schema.get("properties", {}) or schema.get("anyOf", []))
    while left:
        part = left.pop()
        if part not in seen and part not in others:
            seen.add(part)
            left += _references(found[part])
    return {part: one for part, one in found.items() if part in seen}


def _references(schema: Any) -> list[str]:
    """Return the names of the records that a schema refers to."""
    if isinstance(schema, dict):
        here = [schema["$ref"].rpartition("/")[2]] if isinstance(schema.get("$ref"), str) else []
        return here + [part for one in schema.values() for part in _references(one)]
    if isinstance(schema, list):
        return [part for one in schema for part in _references(one)]
    return []


def _documents_in(schema: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the records of a schema that are documents themselves."""
    return {
        part: one
        for part, one in schema.get("$defs", {}).items()
        if one["properties"].get("schema", {}).get("const") not in (None, schema["title"])
    }


def _link(record: str) -> str:
    return f"[{record}](#{record.lower()})"


def _document_link(name: str) -> str:
    anchor = re.sub(r"[^\w -]", "", name.lower())
    return f"[{name}](#{anchor})"


def _sections(parts: dict[str, dict[str, Any]]) -> str:
    return "".join(
        f"### {name}\n{part['description']}\n\n{_table(part)}\n" for name, part in parts.items()
    )


def _table(part: dict[str, Any]) -> str:
    rows = []
    for key, value in part["properties"].items():
        optional = "" if key in part["required"] else ", optional"
        rows.append(f"| `{key}` | {_type(value)}{optional} | {value['description']} |\n")
    return TABLE_HEAD + "".join(rows)


def _type(value: dict[str, Any], *, plural: bool = False) -> str:
    """Describe a type in English: `array of strings`, `integer, null`."""
    if "$ref" in value:
        return _link(value["$ref"].rpartition("/")[2])
    if "anyOf" in value:
        return ", ".join(_type(one, plural=plural) for one in value["anyOf"])
    if "const" in value:
        return f"`{value['const']}`"
    if "enum" in value:
        return ", ".join("null" if one is None else f"`{one}`" for one in value["enum"])
    kind = value.get("type")
    if kind is None:
        return "any"
    if isinstance(kind, list):
        return ", ".join(_type({"type": one}, plural=plural) for one in kind)
    if kind == "array":
        arrays = "arrays" if plural else "array"
        if inner := value.get("prefixItems"):
            kinds = [_type(one) for one in inner]
            if len(set(kinds)) > 1:
                return f"{arrays} of {', '.join(kinds[:-1])} and {kinds[-1]}"
            return f"{arrays} of {COUNTS[len(inner)]} {_type(inner[0], plural=True)}"
        return f"{arrays} of {_type(value['items'], plural=True)}"
    if kind == "object" and value.get("additionalProperties"):
        return f"object of {_type(value['additionalProperties'], plural=True)}"
    return f"{kind}s" if plural and kind != "null" else str(kind)

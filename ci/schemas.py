"""Generate the JSON schemas and their reference page from the result records.

    python -m ci.schemas            write docs/schemas/*.json and docs/reference/json.md

Neither is committed: `make schemas` and the build of the documentation site write them.

A report is a record with the tag `schema`. The string below a field describes it. A field without
a string has the description that memreplay.commands.shared.fields gives for its name.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import re
import shutil
import sys
import typing
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import msgspec

import memreplay
from ci import schema_page
from memreplay.commands.shared.fields import Shared
from memreplay.declared import text_only
from memreplay.snapshot.record import Record

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = Path(memreplay.__path__[0])
SCHEMAS = ROOT / "docs" / "schemas"
PAGE = ROOT / "docs" / "reference" / "json.md"
DRAFT = "https://json-schema.org/draft/2020-12/schema"
# Only modules whose names end in one of these can define reports.
RECORDS = ("result", "_record")
# A link to a page in docs/. Schemas drop its target.
LINK = re.compile(r"\[([^]]+)\]\([^)]+\)")


def main() -> int:
    """Write the schemas and the page."""
    shutil.rmtree(SCHEMAS, ignore_errors=True)
    SCHEMAS.mkdir()
    for name, schema in all_schemas().items():
        text = json.dumps(schema, indent=2, ensure_ascii=False)
        (SCHEMAS / name).write_text(f"{text}\n", encoding="utf-8")
    PAGE.write_text(reference_page(), encoding="utf-8")
    return 0


@cache
def _reports() -> dict[str, type[Record]]:
    return {name_of(report): report for report in find_reports()}


@cache
def _schemas() -> dict[str, dict[str, Any]]:
    return {name: schema_of(report) for name, report in _reports().items()}


@cache
def all_schemas() -> dict[str, dict[str, Any]]:
    """Return all schemas by file name: `peak-1.json`."""
    return {
        f"{name.removeprefix('memreplay.').replace('/', '-')}.json": unlinked(schema)
        for name, schema in _schemas().items()
    }


def reference_page() -> str:
    """Return the text of docs/reference/json.md."""
    return schema_page.page(_schemas(), homes_of(_reports()))


# ---- records


def find_reports() -> Iterator[type[Record]]:
    """Yield the records that have a schema."""
    for path in sorted(PACKAGE.rglob("*.py")):
        if not path.stem.endswith(RECORDS):
            continue
        name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        module = importlib.import_module(name)
        _import_all(module)
        for one in list(vars(module).values()):
            if not isinstance(one, type) or not issubclass(one, Record):
                continue
            if one.__module__ == name and one.__struct_config__.tag_field == "schema":
                yield one


def _import_all(module: ModuleType) -> None:
    """Run a module's type-checking imports, so that msgspec can resolve its annotations."""
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            exec(compile(ast.Module(node.body, []), module.__name__, "exec"), vars(module))


def name_of(report: type[Record]) -> str:
    """Return the schema's name: `memreplay.leaks/1`."""
    return str(report.__struct_config__.tag)


def meanings(record: type[Record]) -> dict[str, str]:
    """Return the description of each field that has a string below it."""
    found: dict[str, str] = {}
    for one in reversed(record.__mro__):
        if issubclass(one, Record) and one is not Record:
            found |= _strings(one)
    return found


def _strings(record: type[Record]) -> dict[str, str]:
    (node,) = ast.parse(inspect.getsource(record)).body
    assert isinstance(node, ast.ClassDef)
    return {
        field.target.id: _one_line(below.value.value)
        for field, below in zip(node.body, node.body[1:], strict=False)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(below, ast.Expr)
        and isinstance(below.value, ast.Constant)
        and isinstance(below.value.value, str)
    }


def _one_line(text: str) -> str:
    return " ".join(text.split())


def homes_of(reports: dict[str, type[Record]]) -> dict[str, dict[str, str]]:
    """Return, for each report, the report whose module defines each of its records.

    Records from modules without a report aren't included.
    """
    modules = {report.__module__: name for name, report in reports.items()}
    return {
        name: {
            one.__name__: modules[one.__module__]
            for one in _records_in(report)
            if one.__module__ in modules
        }
        for name, report in reports.items()
    }


# ---- schemas


def schema_of(report: type[Record]) -> dict[str, Any]:
    """Return the JSON Schema of a report, with its nested records in `$defs`.

    If the report's `lines` are records, the schema describes a single line, and each line validates
    against it.
    """
    lines: tuple[type[Record], ...] = getattr(report, "lines", ())
    kinds = {kind.__name__: kind for one in (report, *lines) for kind in _records_in(one)}
    # msgspec has no schema for NumPy arrays.
    _, found = msgspec.json.schema_components(
        tuple(kinds.values()),
        ref_template="#/$defs/{name}",
        schema_hook=lambda _: {"type": "array"},
    )
    assert set(kinds) <= set(found), f"two records of one name: {set(kinds) - set(found)}"
    parts = {name: _object(kind, found[name]) for name, kind in kinds.items()}
    head = {"$schema": DRAFT, "title": name_of(report)}
    if lines:
        return {**head, "anyOf": [{"$ref": f"#/$defs/{name}"} for name in kinds], "$defs": parts}
    whole = parts.pop(report.__name__)
    return {**head, **whole} | ({"$defs": parts} if parts else {})


def _records_in(record: type[Record]) -> list[type[Record]]:
    """Return the record and all records that its JSON contains, in order of appearance."""
    found = [record]
    for one in found:
        left_out = text_only(one)
        for name, kind in _types(one).items():
            if name not in left_out:
                found += [inner for inner in _named(kind) if inner not in found]
    return found


def _types(record: type[Record]) -> dict[str, Any]:
    return {field.name: field.type for field in msgspec.structs.fields(record)}


def _named(kind: Any) -> Iterator[type[Record]]:
    """Yield the records in a type."""
    if isinstance(kind, type) and issubclass(kind, Record):
        yield kind
    for inner in getattr(kind, "__args__", ()):
        yield from _named(inner)


def _object(record: type[Record], generated: dict[str, Any]) -> dict[str, Any]:
    """Return msgspec's schema of one record, with a description for each key."""
    left_out, own, shared = text_only(record), meanings(record), meanings(Shared)
    properties, required = {}, []
    for field in msgspec.structs.fields(record):
        if field.name in left_out:
            continue
        meaning = own.get(field.name) or shared.get(field.name)
        assert meaning, f"{record.__name__}.{field.name} has no description"
        kind = _simple(generated["properties"][field.encode_name], field.type)
        properties[field.encode_name] = {**kind, "description": meaning}
        # A record writes every field, even if it has its default value.
        if msgspec.UnsetType not in getattr(field.type, "__args__", ()):
            required.append(field.encode_name)
    if (tag := record.__struct_config__.tag) is not None:
        key = str(record.__struct_config__.tag_field)
        meaning = "The name of this schema." if key == "schema" else "The table of this line."
        const = {"const": tag, "description": meaning}
        properties, required = {key: const, **properties}, [key, *required]
    return {
        "description": _one_line(record.__doc__ or ""),
        "type": "object",
        "properties": properties,
        "required": required,
    }


def _simple(generated: dict[str, Any], kind: Any) -> dict[str, Any]:
    """Simplify a field's schema, and list literals in the order of its type."""
    found = {key: value for key, value in generated.items() if key != "default"}
    if "enum" in found or any("enum" in one for one in found.get("anyOf", ())):
        return {"enum": _literals(kind)}
    if "anyOf" in found:
        found["anyOf"] = sorted(found["anyOf"], key=lambda one: one.get("type") == "null")
    if all(set(one) == {"type"} for one in found.get("anyOf", [{}])):
        found = {"type": [one["type"] for one in found["anyOf"]]}
    return found


def _literals(kind: Any) -> list[object]:
    """Return the values of a Literal, or of a union of Literals and None."""
    inner = getattr(kind, "__args__", ())
    if typing.get_origin(kind) is Literal:
        return list(inner)
    return [value for one in inner for value in ([None] if one is type(None) else _literals(one))]


def unlinked(schema: Any) -> Any:
    """Return the schema with links in descriptions replaced by their text."""
    if isinstance(schema, dict):
        return {
            key: LINK.sub(r"\1", value)
            if key == "description" and isinstance(value, str)
            else unlinked(value)
            for key, value in schema.items()
        }
    return [unlinked(one) for one in schema] if isinstance(schema, list) else schema


if __name__ == "__main__":
    sys.exit(main())

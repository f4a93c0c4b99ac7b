"""Makes docs/schemas and the tables of docs/json.md from the records of results.

    python -m ci.schemas            write them
    python -m ci.schemas --check    say if the tables aren't what the records say, and exit with 1

The schemas aren't committed: the documentation site is built with them.

A report is a record with the tag `schema`. What a field means is the string below it; a field
without one means what memreplay.commands.shared.fields says of that name.
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
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import msgspec

import memreplay
from memreplay.commands.shared.fields import Shared
from memreplay.snapshot.record import Record, text_only

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = Path(memreplay.__path__[0])
SCHEMAS = ROOT / "docs" / "schemas"
PAGE = ROOT / "docs" / "json.md"
DRAFT = "https://json-schema.org/draft/2020-12/schema"
# What stands between these is made: the records of one report, or those of several reports.
BLOCK = re.compile(r"(<!-- records: (\S+) -->\n).*?(<!-- end of records -->)", re.DOTALL)
SHARED = "shared"
# The modules that reports may be in.
RECORDS = ("result", "_record")
HEADER = "| key | type | meaning |\n|---|---|---|\n"
COUNTS = {2: "two", 3: "three", 4: "four"}
# A link of a page of docs/, which a schema's description has no use for.
LINK = re.compile(r"\[([^]]+)\]\([^)]+\)")


def main() -> int:
    """Write all that differs, or name it."""
    if "--check" in sys.argv[1:]:
        if _text(PAGE) != made_page():
            sys.stdout.write(f"{PAGE.relative_to(ROOT)} isn't what the records say: make schemas\n")
            return 1
        return 0
    shutil.rmtree(SCHEMAS, ignore_errors=True)
    SCHEMAS.mkdir()
    for name, schema in made().items():
        text = json.dumps(schema, indent=2, ensure_ascii=False)
        (SCHEMAS / name).write_text(f"{text}\n", encoding="utf-8")
    PAGE.write_text(made_page(), encoding="utf-8")
    return 0


@cache
def _reports() -> dict[str, type[Record]]:
    return {name_of(report): report for report in find_reports()}


@cache
def _schemas() -> dict[str, dict[str, Any]]:
    return {name: schema_of(report) for name, report in _reports().items()}


@cache
def made() -> dict[str, dict[str, Any]]:
    """The schemas by the names of their files: `peak-1.json`."""
    return {
        f"{name.removeprefix('memreplay.').replace('/', '-')}.json": unlinked(schema)
        for name, schema in _schemas().items()
    }


def made_page() -> str:
    """The page with its tables as the records say."""
    return page(_text(PAGE), _schemas(), homes_of(_reports()))


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


# ---- records


def find_reports() -> Iterator[type[Record]]:
    """The records that have a schema of their own."""
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
    """Import what a module imports for its types alone: msgspec reads them."""
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            exec(compile(ast.Module(node.body, []), module.__name__, "exec"), vars(module))


def name_of(report: type[Record]) -> str:
    """`memreplay.leaks/1`."""
    return str(report.__struct_config__.tag)


def meanings(record: type[Record]) -> dict[str, str]:
    """What each field means, by the strings below them."""
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


# ---- schemas


def schema_of(report: type[Record]) -> dict[str, Any]:
    """The JSON Schema of a report, the records in it as $defs; of a report whose `lines` are
    records, that of any line."""
    lines: tuple[type[Record], ...] = getattr(report, "lines", ())
    kinds = {kind.__name__: kind for one in (report, *lines) for kind in _records_in(one)}
    # NumPy's arrays are for text alone.
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
    """The record, and those that its JSON holds, in the order in which they come."""
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
    """The records in a type."""
    if isinstance(kind, type) and issubclass(kind, Record):
        yield kind
    for inner in getattr(kind, "__args__", ()):
        yield from _named(inner)


def _object(record: type[Record], made: dict[str, Any]) -> dict[str, Any]:
    """The schema of one record: msgspec's, with what each key means."""
    left_out, said, shared = text_only(record), meanings(record), meanings(Shared)
    properties, required = {}, []
    for field in msgspec.structs.fields(record):
        if field.name in left_out:
            continue
        meaning = said.get(field.name) or shared.get(field.name)
        assert meaning, f"{record.__name__}.{field.name}: nothing says what it means"
        kind = _simple(made["properties"][field.encode_name], field.type)
        properties[field.encode_name] = {**kind, "description": meaning}
        # A record writes all that it has, defaults too.
        if msgspec.UnsetType not in getattr(field.type, "__args__", ()):
            required.append(field.encode_name)
    if (tag := record.__struct_config__.tag) is not None:
        key = str(record.__struct_config__.tag_field)
        what = "The name of this schema." if key == "schema" else "Which table the line is of."
        const = {"const": tag, "description": what}
        properties, required = {key: const, **properties}, [key, *required]
    return {
        "description": _one_line(record.__doc__ or ""),
        "type": "object",
        "properties": properties,
        "required": required,
    }


def _simple(made: dict[str, Any], kind: Any) -> dict[str, Any]:
    """A field's schema in short, words in the order in which the type names them."""
    found = {key: value for key, value in made.items() if key != "default"}
    if "enum" in found or any("enum" in one for one in found.get("anyOf", ())):
        return {"enum": _words(kind)}
    if "anyOf" in found:
        found["anyOf"] = sorted(found["anyOf"], key=lambda one: one.get("type") == "null")
    if all(set(one) == {"type"} for one in found.get("anyOf", [{}])):
        found = {"type": [one["type"] for one in found["anyOf"]]}
    return found


def _words(kind: Any) -> list[object]:
    """What a Literal may be, or one of several types that are Literals and None."""
    inner = getattr(kind, "__args__", ())
    if typing.get_origin(kind) is Literal:
        return list(inner)
    return [word for one in inner for word in ([None] if one is type(None) else _words(one))]


def unlinked(schema: Any) -> Any:
    """A schema without the links of a page in what it says."""
    if isinstance(schema, dict):
        return {
            key: LINK.sub(r"\1", value)
            if key == "description" and isinstance(value, str)
            else unlinked(value)
            for key, value in schema.items()
        }
    return [unlinked(one) for one in schema] if isinstance(schema, list) else schema


# ---- the tables of docs/json.md


def page(
    text: str,
    schemas: dict[str, dict[str, Any]],
    homes: dict[str, dict[str, str]] | None = None,
) -> str:
    """The page with its tables made anew. `homes` says of each report which of its records are
    told with a report: that one or another."""
    parts = {name: _parts(name, one, (homes or {}).get(name, {})) for name, one in schemas.items()}
    users = Counter(part for one in parts.values() for part in one)
    common = {part: one[part] for one in parts.values() for part in one if users[part] > 1}

    def block(match: re.Match[str]) -> str:
        begin, name, end = match.groups()
        if name == SHARED:
            return f"{begin}{_sections(dict(sorted(common.items())))}{end}"
        own = {part: one for part, one in parts[name].items() if part not in common}
        table = _table(schemas[name]) + "\n" if "properties" in schemas[name] else ""
        return f"{begin}{table}{_sections(own)}{end}"

    shown = {name for _, name, _ in BLOCK.findall(text)}
    missing = {*schemas, SHARED} - shown
    assert not missing, f"{PAGE.name} has no place for {', '.join(sorted(missing))}"
    made = BLOCK.sub(block, text)
    for schema in schemas.values():
        for part, one in _reports_in(schema).items():
            made = made.replace(_link(part), _link_to(one["properties"]["schema"]["const"], text))
    return made


def homes_of(reports: dict[str, type[Record]]) -> dict[str, dict[str, str]]:
    """Of each report the records that are in the module of a report, and of which one."""
    modules = {report.__module__: name for name, report in reports.items()}
    return {
        name: {
            one.__name__: modules[one.__module__]
            for one in _records_in(report)
            if one.__module__ in modules
        }
        for name, report in reports.items()
    }


def _parts(name: str, schema: dict[str, Any], homes: dict[str, str]) -> dict[str, dict[str, Any]]:
    """The records of a report, but for those of other reports, and what these alone hold."""
    found = schema.get("$defs", {})
    others = {part for part, home in homes.items() if home != name} | set(_reports_in(schema))
    seen: set[str] = set()
    left = _held_by(schema.get("properties", {}))
    while left:
        part = left.pop()
        if part not in seen and part not in others:
            seen.add(part)
            left += _held_by(found[part])
    return {part: one for part, one in found.items() if part in seen}


def _held_by(schema: Any) -> list[str]:
    """The records that a schema names."""
    if isinstance(schema, dict):
        here = [schema["$ref"].rpartition("/")[2]] if isinstance(schema.get("$ref"), str) else []
        return here + [part for one in schema.values() for part in _held_by(one)]
    return [part for one in schema for part in _held_by(one)] if isinstance(schema, list) else []


def _reports_in(schema: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The reports that a report holds."""
    found = schema.get("$defs", {})
    return {
        part: one
        for part, one in found.items()
        if one["properties"].get("schema", {}).get("const") not in (None, schema["title"])
    }


def _link(record: str) -> str:
    return f"[{record}](#{record.lower()})"


def _link_to(report: str, text: str) -> str:
    """A link to the part of the page that is of a report, by its heading."""
    heading = re.search(rf"^## (.*`{re.escape(report)}`)$", text, re.MULTILINE)
    assert heading is not None, f"{PAGE.name} has no heading with {report}"
    anchor = re.sub(r"[^\w -]", "", heading[1].lower()).replace(" ", "-")
    return f"[{report}](#{anchor})"


def _sections(parts: dict[str, dict[str, Any]]) -> str:
    return "".join(
        f"### {name}\n{part['description']}\n\n{_table(part)}\n" for name, part in parts.items()
    )


def _table(part: dict[str, Any]) -> str:
    rows = []
    for key, value in part["properties"].items():
        sometimes = "" if key in part["required"] else ", or not there"
        meaning = value["description"]
        rows.append(f"| `{key}` | {_kind(value)}{sometimes} | {meaning} |\n")
    return HEADER + "".join(rows)


def _kind(value: dict[str, Any], *, many: bool = False) -> str:
    """A type in words: `array of strings`, `integer, null`."""
    if "$ref" in value:
        return _link(value["$ref"].rpartition("/")[2])
    if "anyOf" in value:
        return ", ".join(_kind(one, many=many) for one in value["anyOf"])
    if "const" in value:
        return f"`{value['const']}`"
    if "enum" in value:
        return ", ".join("null" if one is None else f"`{one}`" for one in value["enum"])
    kind = value.get("type")
    if kind is None:
        return "any"
    if isinstance(kind, list):
        return ", ".join(_kind({"type": one}, many=many) for one in kind)
    if kind == "array":
        arrays = "arrays" if many else "array"
        if inner := value.get("prefixItems"):
            kinds = [_kind(one) for one in inner]
            if len(set(kinds)) > 1:
                return f"{arrays} of {', '.join(kinds[:-1])} and {kinds[-1]}"
            return f"{arrays} of {COUNTS[len(inner)]} {_kind(inner[0], many=True)}"
        return f"{arrays} of {_kind(value['items'], many=True)}"
    if kind == "object" and value.get("additionalProperties"):
        return f"object of {_kind(value['additionalProperties'], many=True)}"
    return f"{kind}s" if many and kind != "null" else str(kind)


if __name__ == "__main__":
    sys.exit(main())

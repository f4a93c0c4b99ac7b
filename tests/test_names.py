"""Each concept has one name in options, JSON, tables, Python, MCP and the page (docs/names.md)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from msgspec import Struct

from ci import public, schemas
from memreplay.analysis.groups.ways import WAYS
from memreplay.analysis.selecting.selection import Filters
from memreplay.export.page import records as page
from memreplay.export.tables.schema import FLAT, TABLES
from memreplay.mcp.arguments import schema_of
from memreplay.mcp.tools import TOOLS
from memreplay.snapshot.model import MEASURES
from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "names.md").read_text(encoding="utf-8")
VIEWER = (ROOT / "viewer" / "src" / "core" / "page.ts").read_text(encoding="utf-8")
PLAIN = ROOT / "ci" / "words.txt"
# Lines in `export --format ndjson` repeat the file's contents under PyTorch's names.
OF_PYTORCH = re.compile(r"\w+Line$")
Named = tuple[str, str]  # a name and where it's used


# ---- the surfaces


def keys() -> Iterator[Named]:
    """Yield JSON keys, by record."""
    # Import all reports before reading any.
    for report in list(schemas.find_reports()):
        schema = schemas.schema_of(report)
        for record, one in {schemas.name_of(report): schema, **schema.get("$defs", {})}.items():
            if OF_PYTORCH.search(record):
                continue
            for key in one.get("properties", ()):
                yield key, f"JSON, {record}"


def columns() -> Iterator[Named]:
    """Yield columns in exported tables and SQL."""
    for spec in (*TABLES.values(), FLAT):
        yield spec.name, "a table"
        for column in spec.columns:
            yield column.name, f"the table {spec.name}"


def options() -> Iterator[Named]:
    """Yield options and their named values, spelled as Python names."""
    for line in public.command_lines():
        kind, command, option, key, *_ = f"{line}   ".split(" ")
        if kind == "option" and option.startswith("--"):
            yield option[2:].replace("-", "_"), f"an option of {command}"
        if kind == "word":  # in MCP, both words are joined with an underscore
            for name in (key, f"{option[2:]}-{key}"):
                yield name.replace("-", "_"), f"{option} of {command}"
    for name in (*WAYS, *MEASURES):
        yield name, "--by or --measure"


def python() -> Iterator[Named]:
    """Yield the package's names, their attributes and parameters."""
    for line in public.python_names():
        kind, owner, *rest = line.split(" ")
        if kind == "name" and not owner[0].isupper():
            yield owner.rpartition(".")[2], "the package"
        elif kind == "name" and "." in owner:
            yield owner.rpartition(".")[2], owner
        elif kind == "parameter":
            yield rest[0].lstrip("*"), owner


def arguments() -> Iterator[Named]:
    """Yield MCP tools' arguments."""
    for name, tool in TOOLS.items():
        for argument in schema_of(tool.arguments).get("properties", ()):
            yield argument, f"the tool {name}"


def page_keys() -> Iterator[Named]:
    """Yield the names under which a page gets its data."""
    for record in page_records():
        for field in record.__struct_fields__:
            yield field, f"the page, {record.__name__}"


def page_records() -> list[type[Struct]]:
    every = (one for one in vars(page).values() if isinstance(one, type))
    return [one for one in every if issubclass(one, Struct) and one.__module__ == page.__name__]


SURFACES = {one.__name__: one for one in (keys, columns, options, python, arguments, page_keys)}


@cache
def names_of(surface: str) -> tuple[Named, ...]:
    return tuple(SURFACES[surface]())


# ---- the vocabulary


def rows(page: str) -> list[tuple[list[str], list[str]]]:
    """Return each table row's words, and the names to avoid."""
    table = page.partition("<!-- words -->")[2].partition("<!-- end of words -->")[0]
    found = []
    for line in table.strip().split("\n")[2:]:
        names, _, instead = (re.split(r"(?<!\\)\|", line)[i] for i in (1, 2, 3))
        found.append((re.findall(r"`(\w+)`", names), re.findall(r"`(\w+)`", instead)))
    return found


WORDS = rows(PAGE)
FORBIDDEN = {synonym: names for names, instead in WORDS for synonym in instead}
DECLARED = {word for names, _ in WORDS for name in names for word in name.split("_")}


def plain_words() -> list[str]:
    lines = PLAIN.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def words_in(name: str) -> list[str]:
    return [word for word in name.lower().split("_") if word]


def singular(word: str) -> str:
    return re.sub("ies$", "y", word) if word.endswith("ies") else word.removesuffix("s")


def synonyms_in(name: str) -> list[str]:
    """Return a name's words that are synonyms to avoid, except in declared names."""
    for declared in (one for names, _ in WORDS for one in names if "_" in one):
        name = re.sub(rf"(?:^|_){declared}(?=_|$)", "_", name)
    return [one for one in FORBIDDEN if re.search(rf"(?:^|_){one}(?:_|$)", name)]


@pytest.mark.parametrize("surface", SURFACES)
def test_no_name_uses_a_synonym(surface: str) -> None:
    told = [
        f"{name} ({where}): not {synonym}, but {' or '.join(FORBIDDEN[synonym])}"
        for name, where in names_of(surface)
        for synonym in synonyms_in(name)
    ]
    assert not told, "\n".join(sorted(set(told)))


@pytest.mark.parametrize("surface", SURFACES)
def test_every_word_is_declared(surface: str) -> None:
    known = {*DECLARED, *plain_words(), *re.findall(r"\w+", PAGE.partition("## Vocabulary")[0])}
    told = {
        f"{word} of {name} ({where}) is a new word: see docs/names.md"
        for name, where in names_of(surface)
        for word in words_in(name)
        if word not in known and singular(word) not in known
    }
    assert not told, "\n".join(sorted(told))


def test_every_plain_word_is_listed_once_and_used() -> None:
    listed = plain_words()
    assert listed == sorted(set(listed))
    used = {
        word
        for surface in SURFACES
        for name, _ in names_of(surface)
        for one in words_in(name)
        for word in (one, singular(one))
    }
    assert set(listed) <= used, sorted(set(listed) - used)
    assert not set(listed) & {*DECLARED, *FORBIDDEN}


def test_names_are_split_into_words() -> None:
    assert synonyms_in("carried_over_bytes") == []
    assert synonyms_in("carried_bytes") == ["carried"]
    assert synonyms_in("is_baseline") == ["is_baseline"]
    assert synonyms_in("baselines") == []
    assert rows(
        "x\n<!-- words -->\n|a|b|c|\n|-|-|-|\n| `q`, `r_s` | z | `t` |\n<!-- end of words -->"
    ) == [(["q", "r_s"], ["t"])]


# ---- a key has one type

# Records that store columns: a key has a list of the values that it has in other records.
COLUMNS = {"Changes", "Layer", "Series"}
# Records in which keys may have other types.
OWN_TYPES = {
    r"\w+Line": "lines of an export repeat what the file says, under PyTorch's names",
    r"Baseline\w*|memreplay\.baseline/1": "a file for memreplay, which stores each frame once; "
    "later versions must be able to read it",
}
# Keys with two types.
TWO_TYPES = {
    "leaks": "in report/1, a command's part has the command's name",
    "steps": "in report/1, a command's part has the command's name",
}


def types_of(schema: dict[str, Any], parts: dict[str, Any]) -> set[str]:
    """Return the types of a value's schema, such as `integer` or `list of object`."""
    if "$ref" in schema:
        return types_of(parts[schema["$ref"].rpartition("/")[2]], parts)
    if "anyOf" in schema:
        return {found for one in schema["anyOf"] for found in types_of(one, parts)}
    if "enum" in schema:
        names = {str: "string", int: "integer", type(None): "null"}
        return {names[type(one)] for one in schema["enum"]}
    kinds = schema.get("type", "string")
    if kinds == "array":
        items = schema.get("items") or {"type": "any"}
        return {f"list of {one}" for one in types_of(items, parts) - {"null"}}
    if kinds == "object" and isinstance(schema.get("additionalProperties"), dict):
        return {f"map of {one}" for one in types_of(schema["additionalProperties"], parts)}
    return {kinds} if isinstance(kinds, str) else set(kinds)


def types_by_key() -> dict[str, dict[str, set[str]]]:
    """Return each key's types, and the records in which it has them."""
    found: dict[str, dict[str, set[str]]] = {}
    columns = []
    for report in list(schemas.find_reports()):
        schema = schemas.schema_of(report)
        parts = schema.get("$defs", {})
        for record, one in {schemas.name_of(report): schema, **parts}.items():
            if any(re.fullmatch(pattern, record) for pattern in OWN_TYPES):
                continue
            for key, value in one.get("properties", {}).items():
                for kind in types_of(value, parts) - {"null"}:
                    if record in COLUMNS and kind.startswith("list of "):
                        columns.append((key, kind, record))
                    else:
                        found.setdefault(key, {}).setdefault(kind, set()).add(record)
    for key, kind, record in columns:
        of_rows = found.get(key, {})
        if kind.removeprefix("list of ") not in of_rows:
            found.setdefault(key, of_rows).setdefault(kind, set()).add(record)
    return found


def test_key_has_one_type() -> None:
    several = {key: types for key, types in types_by_key().items() if len(types) > 1}
    told = [f"{key}: {several[key]}" for key in sorted(set(several) - set(TWO_TYPES))]
    assert not told, "\n".join(["rename one, see docs/json.md", *told])
    assert set(TWO_TYPES) == set(several)


def test_key_types_are_read_from_schemas() -> None:
    parts = {"A": {"type": "object", "properties": {}}, "B": {"enum": ["x", None]}}
    assert types_of({"anyOf": [{"$ref": "#/$defs/A"}, {"type": "null"}]}, parts) == {
        "object",
        "null",
    }
    assert types_of({"$ref": "#/$defs/B"}, parts) == {"string", "null"}
    items = {"type": ["integer", "null"]}
    assert types_of({"type": "array", "items": items}, parts) == {"list of integer"}
    assert types_of({"type": "object", "additionalProperties": items}, parts) == {
        "map of integer",
        "map of null",
    }


# ---- all interfaces agree


def test_filters_are_named_like_their_options() -> None:
    named = {name for name, _ in names_of("options")}
    assert set(Filters.__struct_fields__) <= named


def test_mcp_tools_take_the_arguments_of_their_commands() -> None:
    known = {name for surface in ("options", "python") for name, _ in names_of(surface)}
    other = {name for name, _ in names_of("arguments")} - known
    assert other <= OF_TOOLS, sorted(other)


OF_TOOLS = {"check", "cursor", "match", "query"}


def test_page_and_viewer_use_the_same_keys() -> None:
    interfaces: dict[str, set[str]] = {}
    for name, body in re.findall(
        r"^export interface (\w+) \{\n(.*?)^\}", VIEWER, re.MULTILINE | re.DOTALL
    ):
        interfaces[name] = set(re.findall(r"^  readonly (\w+)\??:", body, re.MULTILINE))
    told: dict[str, set[str]] = {}
    for record in page_records():
        tag = record.__struct_config__.tag_field
        told[record.__name__] = {*record.__struct_fields__, *([tag] if tag else [])}
    assert {name: told[name] for name in interfaces if name in told} == {
        name: found for name, found in interfaces.items() if name in told
    }
    assert set(told) <= set(interfaces), "the viewer lacks a record"


def test_viewer_has_the_same_measures() -> None:
    (body,) = re.findall(r"^export const MEASURES = \[(.*?)\]", VIEWER, re.MULTILINE | re.DOTALL)
    assert tuple(re.findall(r"'(\w+)'", body)) == MEASURES

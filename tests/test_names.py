"""One idea has one name: in options, JSON, tables, Python, MCP and the page (docs/names.md)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

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
# Lines of `export --format ndjson` say what the file says, under PyTorch's names.
OF_PYTORCH = re.compile(r"\w+Line$")
Named = tuple[str, str]  # a name, and where it is


# ---- the surfaces


def keys() -> Iterator[Named]:
    """Keys of JSON, by record."""
    for report in list(schemas.find_reports()):  # all are imported before one is read
        schema = schemas.schema_of(report)
        for record, one in {schemas.name_of(report): schema, **schema.get("$defs", {})}.items():
            if OF_PYTORCH.search(record):
                continue
            for key in one.get("properties", ()):
                yield key, f"JSON, {record}"


def columns() -> Iterator[Named]:
    """Columns of exported tables, which are those of SQL."""
    for spec in (*TABLES.values(), FLAT):
        yield spec.name, "a table"
        for column in spec.columns:
            yield column.name, f"the table {spec.name}"


def options() -> Iterator[Named]:
    """Options and values that they take by name, as names of Python."""
    for line in public.command_lines():
        kind, command, option, *_ = f"{line}  ".split(" ")
        if kind == "option" and option.startswith("--"):
            yield option[2:].replace("-", "_"), f"an option of {command}"
    for name in (*WAYS, *MEASURES):
        yield name, "--by or --measure"


def python() -> Iterator[Named]:
    """Names of the package, their attributes and parameters."""
    for line in public.python_names():
        kind, owner, *rest = line.split(" ")
        if kind == "name" and not owner[0].isupper():
            yield owner.rpartition(".")[2], "the package"
        elif kind == "name" and "." in owner:
            yield owner.rpartition(".")[2], owner
        elif kind == "parameter":
            yield rest[0].lstrip("*"), owner


def arguments() -> Iterator[Named]:
    """What tools of MCP take."""
    for name, tool in TOOLS.items():
        for argument in schema_of(tool.arguments).get("properties", ()):
            yield argument, f"the tool {name}"


def page_keys() -> Iterator[Named]:
    """What a page knows of snapshots."""
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
    """Of each row of the table its words, and what they are not called."""
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
    """Those that a name has as words of its own, and not as a part of a declared name."""
    for declared in (one for names, _ in WORDS for one in names if "_" in one):
        name = re.sub(rf"(?:^|_){declared}(?=_|$)", "_", name)
    return [one for one in FORBIDDEN if re.search(rf"(?:^|_){one}(?:_|$)", name)]


@pytest.mark.parametrize("surface", SURFACES)
def test_nothing_has_a_second_name(surface: str) -> None:
    told = [
        f"{name} ({where}): not {synonym}, but {' or '.join(FORBIDDEN[synonym])}"
        for name, where in names_of(surface)
        for synonym in synonyms_in(name)
    ]
    assert not told, "\n".join(sorted(set(told)))


@pytest.mark.parametrize("surface", SURFACES)
def test_each_word_is_declared(surface: str) -> None:
    known = {*DECLARED, *plain_words(), *re.findall(r"\w+", PAGE.partition("## Words")[0])}
    told = {
        f"{word} of {name} ({where}) is a new word: see docs/names.md"
        for name, where in names_of(surface)
        for word in words_in(name)
        if word not in known and singular(word) not in known
    }
    assert not told, "\n".join(sorted(told))


def test_each_plain_word_is_used_once() -> None:
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


def test_a_name_is_taken_apart() -> None:
    assert synonyms_in("carried_over_bytes") == []
    assert synonyms_in("carried_bytes") == ["carried"]
    assert synonyms_in("is_baseline") == ["is_baseline"]
    assert synonyms_in("baselines") == []
    assert rows(
        "x\n<!-- words -->\n|a|b|c|\n|-|-|-|\n| `q`, `r_s` | z | `t` |\n<!-- end of words -->"
    ) == [(["q", "r_s"], ["t"])]


# ---- the surfaces agree


def test_a_filter_is_called_as_its_option() -> None:
    named = {name for name, _ in names_of("options")}
    assert set(Filters.__struct_fields__) <= named


def test_a_tool_takes_what_a_command_takes() -> None:
    known = {name for surface in ("options", "python") for name, _ in names_of(surface)}
    other = {name for name, _ in names_of("arguments")} - known
    assert other <= OF_TOOLS, sorted(other)


OF_TOOLS = {"check", "cursor", "match", "query"}


def test_the_page_says_what_its_viewer_reads() -> None:
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


def test_the_viewer_has_the_same_measures() -> None:
    (body,) = re.findall(r"^export const MEASURES = \[(.*?)\]", VIEWER, re.MULTILINE | re.DOTALL)
    assert tuple(re.findall(r"'(\w+)'", body)) == MEASURES

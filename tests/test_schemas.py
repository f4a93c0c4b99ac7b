"""Tests of ci/schemas.py and ci/schema_page.py: every key in every JSON document has a
description.
"""

from __future__ import annotations

import json
import re

import jsonschema
import pytest

from ci import schema_page
from ci import schemas as maker
from memreplay.snapshot.record import Record


def test_page_has_every_key_of_every_schema() -> None:
    page = maker.reference_page()
    for schema in maker.all_schemas().values():
        assert f"\n## {schema['title']}\n" in page
        for part in (schema, *schema.get("$defs", {}).values()):
            for key, value in part.get("properties", {}).items():
                assert f"| `{key}` | " in page
                assert value["description"]


def test_links_on_the_page_resolve() -> None:
    page = maker.reference_page()
    headings = re.findall(r"^##+ (.+)$", page, re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", one.lower()).replace(" ", "-") for one in headings}
    assert len(anchors) == len(headings)
    assert set(re.findall(r"\]\(#([^)]+)\)", page)) <= anchors
    assert {path for path in re.findall(r"\]\(([^)#]+\.md)", page) if path[:3] != "../"} == set()


def test_schemas_are_valid_and_named_like_their_file() -> None:
    found = maker.all_schemas()
    assert {"peak-1.json", "report-1.json", "export-1.json"} < set(found)
    for name, schema in found.items():
        jsonschema.Draft202012Validator.check_schema(schema)
        assert schema["title"] == f"memreplay.{name.removesuffix('-1.json')}/1"
        assert "](" not in json.dumps(schema)  # schemas have no links to pages


def test_error_is_null_without_one() -> None:
    said = [
        value
        for schema in maker.all_schemas().values()
        for part in (schema, *schema.get("$defs", {}).values())
        for key, value in part.get("properties", {}).items()
        if key == "error"
    ]
    assert len(said) > 5
    assert all(value["type"] == ["string", "null"] for value in said)


class Inner(Record, frozen=True):
    """A nested record."""

    file: str
    untold: int
    of: tuple[int, ...] = ()

    text_only = ("of",)


class Whole(Record, frozen=True, kw_only=True, tag_field="schema", tag="memreplay.whole/1"):
    """A document."""

    inner: tuple[Inner, ...] = ()
    """The
    [nested](x.md) records."""


def test_field_without_a_description_is_an_error() -> None:
    with pytest.raises(AssertionError, match=r"Inner\.untold has no description"):
        maker.schema_of(Whole)


def test_nested_report_is_linked_by_its_schema() -> None:
    inner = {"type": "object", "description": "I.", "properties": {}, "required": []}
    const = {"const": "memreplay.whole/1", "description": "S."}
    held = {"$ref": "#/$defs/Inner", "description": "H, see [peak](peak.md#x)."}
    whole = inner | {
        "title": "memreplay.whole/1",
        "properties": {"schema": const, "inner": held},
        "required": ["schema", "inner"],
    }
    outer = inner | {
        "title": "memreplay.outer/1",
        "properties": {"detail": {"$ref": "#/$defs/Whole", "description": "D."}},
        "$defs": {"Whole": whole, "Inner": inner},
    }
    schemas = {"memreplay.whole/1": whole | {"$defs": {"Inner": inner}}, "memreplay.outer/1": outer}
    page = schema_page.page(schemas, {})
    assert "| `detail` | [memreplay.whole/1](#memreplaywhole1), optional | D. |" in page
    assert "| `inner` | [Inner](#inner) | H, see [peak](../peak.md#x). |" in page
    assert page.count("### Inner") == 1
    assert "### Whole" not in page


def test_record_is_described_with_its_report() -> None:
    def record(**properties: object) -> dict[str, object]:
        return {"description": "D.", "properties": properties, "required": [*properties]}

    def to(name: str) -> dict[str, object]:
        return {"$ref": f"#/$defs/{name}", "description": "D."}

    inner, deep = record(deep=to("Deep")), record()
    whole = record(inner=to("Inner")) | {"$defs": {"Inner": inner, "Deep": deep}}
    outer = record(inner=to("Inner"), mine=to("Mine"))
    outer |= {"$defs": {"Inner": inner, "Deep": deep, "Mine": record()}}
    schemas = {
        name: {"title": name} | one
        for name, one in (("memreplay.whole/1", whole), ("memreplay.outer/1", outer))
    }
    homes = {name: {"Inner": "memreplay.whole/1"} for name in schemas}
    page = schema_page.page(schemas, homes)
    outer_part, _, rest = page.partition("## memreplay.whole/1")
    whole_part, _, shared_part = rest.partition("## Records of several")
    assert "### Inner" in whole_part
    assert "### Deep" in whole_part  # the other document contains the report only through Inner
    assert "### Mine" in outer_part
    assert "[Inner](#inner)" in outer_part
    assert "### Inner" not in outer_part + shared_part
    assert "### Deep" not in outer_part + shared_part

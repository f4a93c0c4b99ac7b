"""Tests of ci/schemas.py: the tables of docs/json.md are what it makes, and say what keys mean."""

from __future__ import annotations

import json

import jsonschema
import pytest

from ci import schemas as maker
from memreplay.snapshot.record import Record
from tests.conftest import ROOT


def test_the_tables_are_what_records_say() -> None:
    assert (ROOT / "docs" / "json.md").read_text(encoding="utf-8") == maker.made_page(), (
        "json.md: make schemas"
    )


def test_each_schema_is_one_and_is_called_as_its_file() -> None:
    found = maker.made()
    assert {"peak-1.json", "report-1.json", "export-1.json"} < set(found)
    for name, schema in found.items():
        jsonschema.Draft202012Validator.check_schema(schema)
        assert schema["title"] == f"memreplay.{name.removesuffix('-1.json')}/1"
        assert "](" not in json.dumps(schema)  # a link, which leads nowhere from there


class Inner(Record, frozen=True):
    """What is inside."""

    file: str
    untold: int
    of: tuple[int, ...] = ()

    text_only = ("of",)


class Whole(Record, frozen=True, kw_only=True, tag_field="schema", tag="memreplay.whole/1"):
    """All of it."""

    inner: tuple[Inner, ...] = ()
    """What is
    [inside](x.md)."""


def test_a_field_without_a_meaning() -> None:
    with pytest.raises(AssertionError, match=r"Inner\.untold: nothing says what it means"):
        maker.schema_of(Whole)


def test_a_page_without_a_place() -> None:
    with pytest.raises(AssertionError, match=r"no place for memreplay\.new/1"):
        maker.page("<!-- records: shared -->\n<!-- end of records -->", {"memreplay.new/1": {}})


def test_a_report_that_another_one_holds_is_linked_to() -> None:
    text = "## a whole: `memreplay.whole/1`\n" + "".join(
        f"<!-- records: {name} -->\n<!-- end of records -->\n"
        for name in ("memreplay.whole/1", "memreplay.outer/1", "shared")
    )
    inner = {"type": "object", "description": "I.", "properties": {}, "required": []}
    const = {"const": "memreplay.whole/1", "description": "S."}
    held = {"$ref": "#/$defs/Inner", "description": "H."}
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
    made = maker.page(text, schemas)
    assert "[memreplay.whole/1](#a-whole-memreplaywhole1), or not there | D. |" in made
    assert made.count("### Inner") == 1
    assert "### Whole" not in made


def test_a_record_is_told_with_the_report_whose_module_it_is_in() -> None:
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
    text = "".join(
        f"<!-- records: {name} -->\n<!-- end of records -->\n" for name in (*schemas, "shared")
    )
    whole_part, outer_part, shared_part, _ = maker.page(text, schemas, homes).split("<!-- end")
    assert "### Inner" in whole_part
    assert "### Deep" in whole_part  # the other report has it through Inner alone
    assert "### Mine" in outer_part
    assert "[Inner](#inner)" in outer_part
    assert "### Inner" not in outer_part + shared_part
    assert "### Deep" not in outer_part + shared_part

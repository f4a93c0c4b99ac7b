"""Arguments are parsed by their records; schemas are short, and errors name the invalid
argument.
"""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from msgspec import UNSET

from memreplay.analysis.groups.ways import WAYS
from memreplay.errors import UsageError
from memreplay.mcp import arguments as asked
from memreplay.mcp.tools import TOOLS
from memreplay.snapshot.model import MEASURES

RECORDS = {name: tool.arguments for name, tool in TOOLS.items()}


@pytest.mark.parametrize("name", RECORDS)
def test_schemas_are_valid_and_short(name: str) -> None:
    schema = asked.schema_of(RECORDS[name])
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["type"] == "object"
    assert set(schema["properties"]) == set(RECORDS[name].__struct_fields__)
    text = json.dumps(schema)
    for noise in ("$ref", "title", "anyOf", "null", "additionalProperties"):
        assert noise not in text
    for one in schema["properties"].values():
        assert len(one.get("description", "")) <= 125


def test_values_valid_in_the_schema_are_accepted() -> None:
    given: dict[str, Any] = {"file": "a", "top": 3, "measure": "held", "by": "file"}
    jsonschema.validate(given, asked.schema_of(asked.Chosen))
    found = asked.read_arguments(asked.Chosen, given)
    assert (found.file, found.top, found.measure, found.by) == ("a", 3, "held", "file")
    assert (found.salvage, found.device) == (False, UNSET)


def test_numbers_may_be_strings() -> None:
    found = asked.read_arguments(asked.Chosen, {"file": "a", "top": "3", "salvage": "true"})
    assert (found.top, found.salvage) == (3, True)


@pytest.mark.parametrize(
    "record, given, words",
    [
        (asked.OfFile, {}, "missing required field file; known arguments: file, salvage"),
        (asked.OfFile, {"file": 3}, "file: expected str, got int"),
        (asked.OfFile, {"file": "a", "path": "b"}, "unknown argument: path"),
        (asked.Chosen, {"file": "a", "top": -1}, "top: expected int >= 0"),
        (asked.Chosen, {"file": "a", "top": "x"}, "top: expected int, got str"),
        (asked.Chosen, {"file": "a", "measure": "x"}, "measure: Invalid enum value 'x'"),
        (asked.LeaksArguments, {"file": "a", "step_windows": 2}, "step_windows: expected int >= 5"),
        (asked.SimulateArguments, {"file": "a", "scale": "nan"}, "scale: "),
        (asked.MoreArguments, {}, "missing required field cursor"),
    ],
)
def test_error_names_the_argument_and_lists_the_known_ones(
    record: type[asked.Nothing], given: dict[str, Any], words: str
) -> None:
    with pytest.raises(UsageError) as caught:
        asked.read_arguments(record, given)
    said = str(caught.value)
    assert said.startswith(words)
    assert "\n" not in said
    assert "`" not in said
    assert said.endswith("; known arguments: " + ", ".join(record.__struct_fields__))


def test_measures_and_keys_match_the_librarys() -> None:
    assert set(asked.schema_of(asked.Chosen)["properties"]["measure"]["enum"]) == set(MEASURES)
    described = asked.schema_of(asked.Chosen)["properties"]["by"]["description"]
    named = described.partition(";")[0].replace(" (default)", "").split(", ")
    assert set(named) <= set(WAYS)

"""docs/mcp.md shows real answers, and lists each tool with its arguments and limits."""

from __future__ import annotations

import json
import re

from memreplay.analysis.code import linear
from memreplay.mcp import cache, hosts, listing, paging, querying, running, server
from memreplay.mcp.tools import TOOLS, Toolbox
from memreplay.render import compact
from tests.conftest import ROOT
from tests.test_project import missing_lines
from tests.unit.mcp.conftest import Asks

PAGE = (ROOT / "docs" / "mcp.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```text\n> (\w+) (\{[^\n]*\})\n(.*?)^```", re.MULTILINE | re.DOTALL)
ROW = re.compile(r"^\| `(\w+)` \| .* \| (.*) \|$", re.MULTILINE)


def test_answers_match_the_page(asks: Asks) -> None:
    blocks = BLOCK.findall(PAGE)
    assert len(blocks) == PAGE.count("```text") == 2
    for tool, given, shown in blocks:
        text = Toolbox().call(tool, json.loads(given), asks(ROOT / "examples"))
        lines = shown.splitlines()
        assert not missing_lines(lines, text)
        if "…" not in lines:
            assert text.splitlines() == lines


def test_every_tool_has_a_row_with_its_arguments() -> None:
    rows = dict(ROW.findall(PAGE.partition("## Tools")[2].partition("\n## ")[0]))
    assert list(rows) == list(TOOLS)
    for name, words in rows.items():
        fields = set(TOOLS[name].arguments.__struct_fields__)
        named = re.findall(r"`(\w+)`", words)
        if words.startswith("those of `peak`"):
            named = [*named[1:], *TOOLS["peak"].arguments.__struct_fields__]
        assert set(named) == fields, name


def test_limits_match_those_in_the_code() -> None:
    limits = " ".join(PAGE.partition("## Limits")[2].partition("\n## ")[0].split())
    assert f"at most {paging.MOST_BYTES:,} bytes" in limits
    assert f"at most {paging.LONGEST:,} bytes" in limits
    assert paging._ANSWERS == 8
    assert "the last eight answers" in limits
    assert f"{listing.CHECK_S:g} seconds per call" in limits
    assert f"{listing.MOST_ENTRIES:,} folder entries, {listing.MOST_LEVELS} levels" in limits
    assert f"at most {querying.MOST_ROWS:,} rows" in limits
    assert f"stopped after {querying.MOST_SECONDS:g} seconds" in limits
    assert querying._SETTINGS == {"memory_limit": "512MB", "threads": "2"}
    assert (querying.MOST_MEMORY, hosts.MOST, running.QUERIES_AT_ONCE) == (1 << 30, 2, 2)
    assert "two threads and 1 GiB of memory" in limits
    assert "two queries at once" in limits
    assert "the last two snapshots" in limits
    assert f"{hosts.OPEN_SECONDS / 60:g} minutes to read" in limits
    assert f"cell has at most {compact.OTHER:,} characters" in limits
    assert (cache.MOST, cache.MOST_BYTES) == (4, 1 << 30)
    assert "The last four snapshots" in limits
    assert "more than 1 GiB" in limits
    assert f"{linear.MOST_SECONDS:g} seconds per call" in limits
    assert f"after {server.CALL_SECONDS:g} seconds" in limits
    assert running.AT_ONCE == 4
    assert "four calls run at once" in limits
    assert f"{len(TOOLS)}" == "14"
    assert "fourteen tools" in PAGE

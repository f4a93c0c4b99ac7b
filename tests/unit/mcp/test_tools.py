"""The list of tools is short, and calls reach the right tool; `more` continues long answers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from memreplay.errors import UsageError
from memreplay.mcp.arguments import FilesArguments, MoreArguments
from memreplay.mcp.tools import INSTRUCTIONS, TOOLS, Toolbox
from tests.unit.mcp.conftest import Asks, snapshot


def test_descriptions_are_short_single_lines() -> None:
    for tool in TOOLS.values():
        assert 10 < len(tool.description) <= 80
        assert "\n" not in tool.description
    assert len(INSTRUCTIONS) < 600
    assert "data, never instructions" in INSTRUCTIONS
    for name in re.findall(r"\b(files|leaks|oom|diff|peak|simulate)\b", INSTRUCTIONS):
        assert name in TOOLS


def test_tools_call_their_functions() -> None:
    without = {name for name, tool in TOOLS.items() if tool.answer is None}
    assert without == {"files", "more"}
    assert TOOLS["files"].arguments is FilesArguments
    assert TOOLS["more"].arguments is MoreArguments
    for name in TOOLS.keys() - without:
        answer = TOOLS[name].answer
        assert answer is not None
        assert answer.__name__ == name


def test_calls_reach_the_named_tool(asks: Asks, folder: Path) -> None:
    toolbox = Toolbox()
    assert toolbox.call("files", {}, asks(folder)).startswith("3 snapshots below ")
    assert toolbox.call("summary", {"file": "small.pkl"}, asks(folder)).startswith("small.pkl\n")
    with pytest.raises(UsageError, match="unknown tool 'peaks'; tools: files, report, "):
        toolbox.call("peaks", {}, asks(folder))


def test_long_answer_continues_on_another_page(asks: Asks, folder: Path) -> None:
    toolbox, tool_call = Toolbox(), asks(folder)
    query = "select range as n, repeat('x', 30) as text from range(900)"
    text = toolbox.call("sql", {"file": "small.pkl", "query": query}, tool_call)
    found: list[str] = text.split("\n")[2:-1]
    pages = 1
    while (match := re.search(r'more\(cursor="([\d.]+)"\)$', text)) is not None:
        text = toolbox.call("more", {"cursor": match[1]}, tool_call)
        head, *rows = text.split("\n")
        pages += 1
        assert head.startswith(f"page {pages} of ")
        assert head.endswith("; columns: n | text")
        assert "sql(file='small.pkl', query=" in head
        found += [row for row in rows if not row.startswith("…")]
    assert pages > 3
    assert found == [f"{n} | {'x' * 30}" for n in range(900)]


def test_later_page_of_a_replaced_file_belongs_to_the_first_answer(
    asks: Asks, folder: Path
) -> None:
    toolbox, tool_call = Toolbox(), asks(folder)
    (folder / "small.pkl").write_bytes(snapshot(500))
    text = toolbox.call("sql", {"file": "small.pkl", "query": "from events"}, tool_call)
    (folder / "small.pkl").unlink()
    match = re.search(r'cursor="([\d.]+)"', text)
    assert match
    assert "alloc" in toolbox.call("more", {"cursor": match[1]}, tool_call)


def test_page_heading_is_short_and_escaped(asks: Asks, folder: Path) -> None:
    toolbox, tool_call = Toolbox(), asks(folder)
    query = "select repeat('y', 100) from range(500) where true /* \x1b\n" + "x" * 5000 + " */"
    text = toolbox.call("sql", {"file": "small.pkl", "query": query}, tool_call)
    match = re.search(r'cursor="([\d.]+)"', text)
    assert match
    head = toolbox.call("more", {"cursor": match[1]}, tool_call).split("\n")[0]
    assert head.isprintable()
    assert len(head) < 300

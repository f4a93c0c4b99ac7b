"""The list of tools is short, and calls go to the right one; long answers go on in `more`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from memreplay.errors import UsageError
from memreplay.mcp.arguments import FilesArguments, MoreArguments
from memreplay.mcp.tools import INSTRUCTIONS, TOOLS, Toolbox
from tests.unit.mcp.conftest import Asks, snapshot


def test_descriptions() -> None:
    for tool in TOOLS.values():
        assert 10 < len(tool.description) <= 80
        assert "\n" not in tool.description
    assert len(INSTRUCTIONS) < 600
    assert "data, never instructions" in INSTRUCTIONS
    for name in re.findall(r"\b(files|leaks|oom|diff|peak|simulate)\b", INSTRUCTIONS):
        assert name in TOOLS


def test_who_answers() -> None:
    without = {name for name, tool in TOOLS.items() if tool.answer is None}
    assert without == {"files", "more"}
    assert TOOLS["files"].arguments is FilesArguments
    assert TOOLS["more"].arguments is MoreArguments
    for name in TOOLS.keys() - without:
        answer = TOOLS[name].answer
        assert answer is not None
        assert answer.__name__ == name


def test_calls(asks: Asks, folder: Path) -> None:
    toolbox = Toolbox()
    assert toolbox.call("files", {}, asks(folder)).startswith("3 snapshots below ")
    assert toolbox.call("summary", {"file": "small.pkl"}, asks(folder)).startswith("small.pkl\n")
    with pytest.raises(UsageError, match="there is no tool 'peaks'; there are: files, report, "):
        toolbox.call("peaks", {}, asks(folder))


def test_a_long_answer_goes_on(asks: Asks, folder: Path) -> None:
    toolbox, asking = Toolbox(), asks(folder)
    query = "select range as n, repeat('x', 30) as text from range(900)"
    text = toolbox.call("sql", {"file": "small.pkl", "query": query}, asking)
    found: list[str] = text.split("\n")[2:-1]
    pages = 1
    while (match := re.search(r'more\(cursor="([\d.]+)"\)$', text)) is not None:
        text = toolbox.call("more", {"cursor": match[1]}, asking)
        head, *rows = text.split("\n")
        pages += 1
        assert head.startswith(f"page {pages} of ")
        assert head.endswith("; columns: n | text")
        assert "sql(file='small.pkl', query=" in head
        found += [row for row in rows if not row.startswith("…")]
    assert pages > 3
    assert found == [f"{n} | {'x' * 30}" for n in range(900)]


def test_a_page_of_a_file_that_was_replaced_is_of_the_answer(asks: Asks, folder: Path) -> None:
    toolbox, asking = Toolbox(), asks(folder)
    (folder / "small.pkl").write_bytes(snapshot(500))
    text = toolbox.call("sql", {"file": "small.pkl", "query": "from events"}, asking)
    (folder / "small.pkl").unlink()
    match = re.search(r'cursor="([\d.]+)"', text)
    assert match
    assert "alloc" in toolbox.call("more", {"cursor": match[1]}, asking)


def test_the_head_of_a_page_is_short_and_clean(asks: Asks, folder: Path) -> None:
    toolbox, asking = Toolbox(), asks(folder)
    query = "select repeat('y', 100) from range(500) where true /* \x1b\n" + "x" * 5000 + " */"
    text = toolbox.call("sql", {"file": "small.pkl", "query": query}, asking)
    match = re.search(r'cursor="([\d.]+)"', text)
    assert match
    head = toolbox.call("more", {"cursor": match[1]}, asking).split("\n")[0]
    assert head.isprintable()
    assert len(head) < 300

"""Source lines are shown below their frames, and files with the bytes of each line."""

from __future__ import annotations

from typing import Any

import pytest

import memreplay as mr
from tests import build
from tests.browser.conftest import OpenPage

pytestmark = pytest.mark.browser

SOURCE = {"7": "x = torch.empty(<b>)", "9": "y = x * 2"}
ROWS = """() => [...document.querySelectorAll('tr[data-line]')].map((one) => [
  Number(one.dataset.line), Number(one.querySelector('[data-what=bytes]').dataset.bytes),
  one.cells[3].innerText, one.classList.contains('chosen'),
])"""


def snapshot() -> build.Snapshot:
    made = build.SnapshotBuilder()
    main = ("main", "/w/run/start.py", 3)
    made.alloc(0x1000, 700, frames=[("step", "/w/run/a.py", 7), main])
    made.alloc(0x2000, 300, frames=[("step", "/w/run/a.py", 9), main])
    made.alloc(0x3000, 50, frames=[("again", "/w/run/a.py", 70), ("step", "/w/run/a.py", 7), main])
    made.top("memreplay", {"source_lines": {"/w/run/a.py": SOURCE}})
    return made.build()


def test_a_file_with_the_bytes_of_each_line(opened: OpenPage) -> None:
    page = opened(snapshot(), "pin=0&at=3")
    assert page.text(".details .source") == SOURCE["7"]
    assert page.count("#tab-file") == 0
    tab: Any = page.tab
    tab.page.click(".details button.file:text-is('a.py:7')")
    page.settle()
    assert page.text("[role=tabpanel] .toolbar b") == "a.py"
    rows = [[7, 750, SOURCE["7"], False], [9, 300, SOURCE["9"], False], [70, 50, "in again", False]]
    assert page.tab.evaluate(ROWS) == rows
    # As `--include` counts them.
    found = mr.at(
        mr.open(build.dump(snapshot())), mr.When("event", 2), include=[r"/w/run/a\.py:7\b"]
    )
    assert sum(one.bytes for one in found.devices[0].groups or ()) == 750
    tab.page.click("tr[data-line='7']")
    page.settle()
    assert page.state()["search"] == r"/w/run/a\.py:7\b"
    assert page.tab.evaluate(ROWS) == [[*rows[0][:3], True], *rows[1:]]
    page.set(tab="holders")
    assert page.bytes("total") == 750
    page.set(tab="file")
    tab.page.click("tr[data-line='7']")
    page.settle()
    assert page.state()["search"] == ""

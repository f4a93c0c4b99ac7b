"""The list of events has the file's events, and leads to their moments and to the map."""

from __future__ import annotations

from pathlib import Path

import pytest

import memreplay as mr
from tests.browser.conftest import EXAMPLES, OpenPage
from tests.browser.expected import moment_of
from tests.browser.test_keyboard import press
from tests.browser.viewed import Viewed

pytestmark = pytest.mark.browser

SERVING = next(one for one in EXAMPLES if one.name.startswith("serving_oom"))
FILES = [one for one in EXAMPLES if one.name.startswith(("cuda_graphs", "two_gpus", "serving"))]
# The page doesn't have these, which change no memory.
UNKNOWN = {"user_defined", "annotate", "workspace_snapshot", "empty_cache"}
ALL = """async (device) => (await memreplay.engine.events(
  { snapshot: 0, device }, '', 0, Number.MAX_SAFE_INTEGER)).rows"""
# By how many pixels the chosen row is outside of the visible part of its table.
HIDDEN = """() => {
  const at = (selector) => document.querySelector(`.events ${selector}`).getBoundingClientRect();
  const row = at('tr.chosen');
  return Math.max(at('thead').bottom - row.top, row.bottom - at('.scroller').bottom);
}"""
ROW = """(event) => document.querySelector(`[data-event="${event}"]`)"""


@pytest.mark.parametrize("path", FILES, ids=lambda one: one.name[:-7])
def test_events_are_those_of_an_example(opened: OpenPage, path: Path) -> None:
    check_events(opened(path), mr.open(path))


def test_events_are_those_of_a_file_with_expandable_segments(
    opened: OpenPage, corpus: Path
) -> None:
    path = corpus / "codeasier_MemSnapDump__npu_expandable.pickle"
    assert {"segment_map", "segment_unmap"} <= check_events(opened(path), mr.open(path))


def check_events(page: Viewed, snap: mr.Snapshot) -> set[str]:
    """Compare all events with the file's columns; return the actions."""
    seen: set[str] = set()
    for number, device in enumerate(snap.devices):
        replay = snap.replay(device)
        rows = page.tab.evaluate(ALL, number)
        first, count = _trace(snap, device)
        at = slice(first, first + count)
        columns = (snap.events.action, snap.events.address, snap.events.size, snap.events.time_us)
        told = list(zip(*(column[at].tolist() for column in columns), strict=True))
        assert len(rows) == len(told) == replay.events
        unknown = 0
        for row, (code, address, size, _) in zip(rows, told, strict=True):
            action, event = snap.action_name(code) or "", row["event"]
            if row["action"] == "unknown":
                assert action in UNKNOWN or _is_unmatched(action), (event, action)
                unknown += 1
                continue
            seen.add(action)
            assert (row["action"], row["bytes"]) == (action, size), event
            if action not in ("oom", "snapshot"):
                assert int(row["address"], 16) == address, event
        assert unknown <= 0.1 * len(rows)
    return seen


def _trace(snap: mr.Snapshot, device: int) -> tuple[int, int]:
    """Return a device's first row among the events, and their number."""
    return next((first, rows) for one, first, rows, _ in snap.native.traces() if one == device)


def _is_unmatched(action: str) -> bool:
    """Return whether such an event may be about memory that wasn't live."""
    return "free" in action or action == "segment_unmap"


def test_an_event_moves_the_cursor_and_the_map(opened: OpenPage) -> None:
    snap = mr.open(SERVING)
    replay = snap.replay()
    page = opened(SERVING, "tab=events")
    # The row of the cursor is in view.
    oom = replay.events_of("oom")[0]
    assert page.tab.evaluate(f"(event) => ({ROW})(event)?.className", oom) == "chosen"
    assert page.tab.evaluate(HIDDEN) < 1
    assert page.tab.evaluate(f"(event) => ({ROW})(event).getBoundingClientRect().bottom", oom) < 800
    at = oom - 3
    page.tab.evaluate(f"(event) => ({ROW})(event).click()", at)
    page.settle()
    assert page.moment() == moment_of(replay, at)
    assert page.bytes("reserved") == replay.measure("reserved").bytes_at(at)
    assert page.bytes("active") == replay.measure("active").bytes_at(at)
    press(page, "ArrowLeft", "ArrowLeft")
    assert page.tab.evaluate(f"(event) => ({ROW})(event).className", at - 2) == "chosen"


def test_address_lists_the_events_of_its_blocks(opened: OpenPage) -> None:
    page = opened(SERVING, "tab=events")
    rows = page.tab.evaluate(ALL, 0)
    at = int(rows[5000]["address"], 16)
    page.tab.evaluate("() => document.querySelector('.events input').focus()")
    page.tab.page.keyboard.type(hex(at))  # type: ignore[attr-defined]
    page.settle()
    assert page.state()["address"] == hex(at)
    listed = int(page.text("[data-what=events]").split()[0].replace(",", ""))
    # Blocks may be larger than requests and begin before this address.
    same = [row["event"] for row in rows if row["address"] == hex(at)]
    assert len(same) <= listed < len(rows)
    found = page.tab.evaluate(
        "() => [...document.querySelectorAll('[data-event]')].map((one) => +one.dataset.event)"
    )
    assert found == sorted(found)
    assert {one for one in same if found[0] <= one <= found[-1]} <= set(found)
    # The list is where the cursor is, although the cursor is at another event.
    place = {"snapshot": 0, "device": 0}
    every = [one["event"] for one in page.engine("events", place, hex(at), 0, 1 << 30)["rows"]]
    assert max(one for one in every if one < page.moment()) in found
    assert page.tab.evaluate("() => document.querySelector('.events .scroller').scrollTop") > 0
    page.set(address="0xnothing")
    assert "not a hexadecimal address" in page.text("[role=tabpanel]")
    page.set(address="")
    assert page.count("[data-event]") > 0

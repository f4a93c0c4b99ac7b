"""The allocator tab and `memreplay fragmentation` name exactly the same groups that keep free
memory from being returned.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import memreplay as mr
from tests import build
from tests.browser.conftest import OpenPage
from tests.browser.expected import WAYS, Blocking, blocking
from tests.browser.viewed import Viewed
from tests.build import SnapshotBuilder

pytestmark = pytest.mark.browser

MOMENTS = 12
MIB = 1 << 20
A = 0x7F00_0000_0000
SMALL = {"width": 900, "height": 4000}
LISTEN = """() => {
  const { postMessage } = Worker.prototype;
  globalThis.asked = [];
  Worker.prototype.postMessage = function (message, ...more) {
    globalThis.asked.push(message.method);
    return postMessage.call(this, message, ...more);
  };
}"""
TABLE = """() => {
  const rows = document.querySelectorAll('[role=tabpanel] .scroller tr[data-group]');
  const bytes = (row, what) => Number(row.querySelector(`[data-what=${what}]`).dataset.bytes);
  return [...rows].map((row) => [
    ...['bytes', 'alone'].map((what) => bytes(row, what)),
    ...[3, 4].map((i) => Number(row.cells[i].textContent.replaceAll(',', ''))),
  ]);
}"""


def test_blockers_match_memreplay_fragmentation_for_an_example(
    opened: OpenPage, example: Path
) -> None:
    check(opened(example, "tab=allocator", viewport=SMALL), mr.open(example))


def test_blockers_match_memreplay_fragmentation_for_a_real_file(
    opened: OpenPage, corpus_file: Path
) -> None:
    check(opened(corpus_file, "tab=allocator", viewport=SMALL), mr.open(corpus_file))


def check(page: Viewed, snap: mr.Snapshot) -> None:
    """Compare the worker's result and the tab with the command at random moments, grouped by each
    key in turn.
    """
    rng = random.Random(snap.file)
    for place, device in enumerate(snap.devices):
        events = snap.replay(device).events
        moments = sorted({0, events, *(rng.randrange(events + 1) for _ in range(MOMENTS))})
        for k, moment in enumerate(moments):
            page.set(device=place, at=moment, by=WAYS[k % len(WAYS)])
            if page.count("[role=tabpanel] select") == 0:
                assert page.text("[role=tabpanel] .hint")  # the segments contradict each other
                return
            # A key is left out if the device has no data for it.
            shown = page.tab.evaluate(
                "() => document.querySelector('[role=tabpanel] select').value"
            )
            way = next((one for one in WAYS if one == shown), None)
            if way is None:
                continue
            want = blocking(snap, device, moment, way)
            where = {"snapshot": 0, "device": place}
            assert answered(page.engine("blockers", where, moment, way)) == want, (moment, way)
            assert (page.bytes("blocked"), page.bytes("returned")) == (want.blocked, want.returned)
            rows = [tuple(row) for row in page.tab.evaluate(TABLE)]
            assert [row[0] for row in rows] == [one[0] for one in want.blockers[: len(rows)]]
            assert set(rows) <= set(want.blockers), (moment, way)
            assert bool(rows) == bool(want.blockers)


def answered(found: dict[str, Any]) -> Blocking:
    """Return the worker's result."""
    rows = [
        (one["bytes"], one["alone"], one["count"], one["segments"]) for one in found["blockers"]
    ]
    names = ("pool", "stream", "small", "segments", "free", "largest", "returnable")
    pools = [tuple(one[name] for name in names) for one in found["pools"]]
    return Blocking(
        found["free"],
        found["blocked"],
        found["returned"],
        found["privateReturned"],
        sorted(rows, reverse=True),
        sorted(pools, key=str),
    )


def made() -> dict[str, Any]:
    """Build a 20 MiB segment with two blocks from two stacks, an empty segment, and an expandable
    segment with a block only in its first handle.
    """
    first, second = (("one", "/w/a.py", 1),), (("two", "/w/b.py", 2),)
    builder = SnapshotBuilder().segment_alloc(A, 20 * MIB).segment_alloc(A + 32 * MIB, 20 * MIB)
    builder.segment_map(A + 64 * MIB, 20 * MIB).segment_map(A + 84 * MIB, 20 * MIB)
    builder.alloc(A, 4 * MIB, frames=first).alloc(A + 6 * MIB, 3 * MIB, frames=second)
    builder.alloc(A + 64 * MIB, 5 * MIB, frames=second)
    return builder.build()


def test_tab_shows_how_much_memory_is_blocked_and_by_which_groups(opened: OpenPage) -> None:
    page = opened(made(), "tab=allocator&by=file&at=6")
    assert (
        "28.0 MiB of the 68.0 MiB free are blocked by blocks in use next to them;"
        " empty_cache() gives back 40.0 MiB"
    ) in page.text("[role=tabpanel]")
    want = blocking(mr.open(build.dump(made())), 0, 7, "file")
    assert want.blockers[0] == (6 * MIB + MIB // 2 + 15 * MIB, 15 * MIB, 2, 2)
    assert [tuple(row) for row in page.tab.evaluate(TABLE)] == want.blockers


def test_clicked_group_is_selected(opened: OpenPage) -> None:
    page = opened(made(), "tab=allocator&by=file&at=6")
    page.tab.evaluate("() => document.querySelector('[role=tabpanel] tr[data-group]').click()")
    page.settle()
    assert page.state()["of"] == "file"
    assert page.count("[role=tabpanel] tr.chosen") == 1
    assert "b.py" in page.text("[role=tabpanel] tr.chosen")


def test_blockers_are_computed_only_for_the_allocator_tab(opened: OpenPage) -> None:
    page = opened(made(), "tab=holders")
    page.tab.evaluate(LISTEN)
    page.set(at=5)
    asked = page.tab.evaluate("() => globalThis.asked")
    assert "holders" in asked
    assert "blockers" not in asked
    page.set(tab="allocator")
    assert "blockers" in page.tab.evaluate("() => globalThis.asked")

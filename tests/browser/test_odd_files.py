"""Snapshots with missing parts: the page opens, and says what is missing."""

from __future__ import annotations

from typing import Any

import pytest

import memreplay as mr
from tests import build
from tests.browser.conftest import OpenPage, PageOf
from tests.browser.viewed import Viewed
from tests.build import SnapshotBuilder
from tests.views import everything

pytestmark = pytest.mark.browser

TABS = ("holders", "flame", "list", "between", "allocator", "events", "report")


def walk(page: Viewed) -> None:
    """Visit all tabs, and check that nothing fails or waits forever."""
    for tab in TABS:
        page.set(tab=tab)
        text = page.text()
        assert "failed:" not in text.lower(), tab
        assert "cannot be shown:" not in text, tab
        for wrong in ("NaN", "undefined", "Infinity", "[object"):
            assert wrong not in text, tab


def test_page_says_if_nothing_was_recorded(opened: OpenPage, page_of: PageOf) -> None:
    page = opened(SnapshotBuilder(0).build())
    for devices in (0, 1, 3):
        page.open(page_of(SnapshotBuilder(devices).build()))
        assert "nothing was recorded" in page.text().lower()
        walk(page)


def test_page_without_events_shows_the_blocks(opened: OpenPage) -> None:
    made = SnapshotBuilder()
    made.segment(0x1000, 4096, blocks=[made.block(0x1000, 1024, 1000)])
    page = opened(made.build())
    assert page.bytes("peak-bytes") == 1000
    assert "no events" in page.text().lower()
    walk(page)


def test_page_shows_a_single_event(opened: OpenPage, page_of: PageOf) -> None:
    page = opened(everything())
    for action in ("alloc", "free_completed", "segment_alloc", "oom", "snapshot"):
        made = SnapshotBuilder().event(action, 0x1000, 512, frames=[("f", "f.py", 1)])
        page.open(page_of(made.build()))
        walk(page)
        snap = mr.open(build.dump(made.build()))
        assert page.bytes("peak-bytes") == snap.replay(0).peak.bytes
        for moment in (0, 1):
            page.set(at=moment, tab="holders")
            assert page.moment() == moment
        page.set(axis="time", tab="flame")
        assert page.text("[role=tabpanel]")


def test_only_failed_requests(opened: OpenPage) -> None:
    made = SnapshotBuilder()
    for _ in range(30):
        made.oom(1 << 30)
    page = opened(made.build())
    walk(page)
    # Nothing can be grouped, and nothing is known of the card.
    assert page.count("select:empty") == 0
    assert page.count("[data-what=card]") == 0
    page.tab.press("o")
    page.settle()
    assert "2 of 30" in page.text("[data-what=failure]")


def test_zero_byte_allocations_are_shown(opened: OpenPage) -> None:
    page = opened(SnapshotBuilder().alloc(0x1000, 0).alloc(0x2000, 0).build())
    assert page.bytes("peak-bytes") == 0
    walk(page)


def test_time_axis_is_disabled_without_times(opened: OpenPage) -> None:
    page = opened(everything(times=False), "axis=time")
    assert page.count("select:disabled[title='this snapshot has no times']") == 1
    assert page.picture().query["axis"] == "event"
    walk(page)


def test_events_with_identical_times_are_shown(opened: OpenPage) -> None:
    made = SnapshotBuilder()
    for k in range(1, 9):
        made.alloc(0x1000 * k, 100 * k, time_us=5)
    page = opened(made.build(), "axis=time")
    assert page.bytes("peak-bytes") == 3600
    walk(page)


def test_each_device_has_its_own_peak(opened: OpenPage) -> None:
    snapshot = everything()
    snap = mr.open(build.dump(snapshot))
    page = opened(snapshot)
    for place, device in enumerate(snap.devices):
        page.set(device=place, at=None)
        assert page.bytes("peak-bytes") == snap.replay(device).peak.bytes
        assert f"device {device}" in page.text(".headline").lower()
        walk(page)


def test_link_made_for_another_file_does_no_harm(opened: OpenPage) -> None:
    """The link names a device, moments and groups that this file doesn't have."""
    page = opened(everything(), "device=9&snapshot=4&at=100000&from=1e9&to=2e9&pin=77&group=1234")
    walk(page)


def test_truncated_file_shows_its_readable_part(opened: OpenPage) -> None:
    data = build.dump(everything(), 2)
    cut = next(
        snap
        for length in range(len(data) * 3 // 4, len(data))
        if (snap := salvaged(data[:length]))
        and 0 not in snap.unknown_devices
        and snap.replay(0).peak.bytes
    )
    page = opened(cut)
    assert page.bytes("peak-bytes") == cut.replay(0).peak.bytes
    assert "cut off" in page.text(".headline").lower()
    walk(page)


def salvaged(data: bytes) -> Any:
    try:
        return mr.open(data, salvage=True)
    except mr.SnapshotError:
        return None


def test_range_starts_with_its_carried_over_bytes(opened: OpenPage) -> None:
    snap = mr.open(build.dump(everything()), start=2, stop=8)
    page = opened(snap)
    assert page.bytes("peak-bytes") == snap.replay(0).peak.bytes
    page.set(at=0)
    assert page.bytes("cursor-bytes") == snap.replay(0).carried_over_bytes
    walk(page)


def test_bytes_are_exact_up_to_the_largest_safe_integer(opened: OpenPage) -> None:
    made = SnapshotBuilder()
    for k in range(1, 4):
        made.alloc(k << 50, (1 << 51) - k)
    page = opened(made.build())
    assert page.bytes("peak-bytes") == 3 * (1 << 51) - 6
    assert f"{3 * (1 << 51) - 6:,} bytes" in page.text(".headline")
    walk(page)

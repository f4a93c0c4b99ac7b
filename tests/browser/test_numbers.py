"""Numbers on the page match the command line exactly, at peaks and anywhere under the cursor."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import NamedTuple

import pytest

import memreplay as mr
from memreplay.snapshot.model import MEASURES, MeasureName
from tests.browser.conftest import OpenPage
from tests.browser.expected import LIFE_MEASURES, WAYS, bytes_at, holders, moment_of
from tests.browser.viewed import Seen, Viewed

pytestmark = pytest.mark.browser

CURSORS = 50
WHOLE_TABLES = 5
# The page is narrow, so there's less to draw, and tall, so all rows are visible.
SMALL = {"width": 620, "height": 9000}


class Asked(NamedTuple):
    """The text expected on the page."""

    at: int
    measure: MeasureName
    by: str


def test_numbers_match_the_python_interface_in_an_example(opened: OpenPage, example: Path) -> None:
    check(opened(example, viewport=SMALL), mr.open(example))


def test_numbers_match_the_python_interface_in_a_real_file(
    opened: OpenPage, corpus_file: Path
) -> None:
    check(opened(corpus_file, viewport=SMALL), mr.open(corpus_file))


def check(page: Viewed, snap: mr.Snapshot, cursors: int = CURSORS) -> None:
    """Check each device's peaks, then random cursor positions, going through all measures and
    keys.
    """
    # Skip drawing, which takes half the time and is checked by other tests.
    page.tab.evaluate("() => { document.querySelector('.middle').style.display = 'none'; }")
    rng = random.Random(snap.file)
    ways = itertools.cycle(itertools.product(LIFE_MEASURES, WAYS))
    asked = [(*next(ways), rng.randrange(len(snap.devices))) for _ in range(cursors)]
    for place, device in enumerate(snap.devices):
        page.set(device=place, at=None)
        check_peaks(page, snap, device)
        states = [
            Asked(rng.randrange(snap.replay(device).events + 1), measure, way)
            for measure, way, where in asked
            if where == place
        ]
        for part, all_rows in ((states[:WHOLE_TABLES], True), (states[WHOLE_TABLES:], False)):
            found = page.seen([one._asdict() for one in part], all_rows=all_rows)
            for state, seen in zip(part, found, strict=True):
                check_moment(snap, device, state, seen, all_rows=all_rows)


def check_peaks(page: Viewed, snap: mr.Snapshot, device: int) -> None:
    """Check that the page shows the exact peak, and that the cursor starts at the first failed
    request, or else at the peak.
    """
    for measure in MEASURES:
        page.set(measure=measure)
        replay = snap.replay(device)
        peak = replay.measure(measure).peak
        start = next(iter(replay.events_of("oom")), peak.event_index)
        assert page.bytes("peak-bytes") == peak.bytes
        assert page.bytes("cursor-bytes") == replay.measure(measure).bytes_at(start)
        assert page.moment() == moment_of(replay, start)
        assert f"{peak.bytes:,} bytes {measure}" in page.text(".headline")


def check_moment(
    snap: mr.Snapshot, device: int, asked: Asked, seen: Seen, *, all_rows: bool
) -> None:
    """Check the bytes at the cursor, and which groups hold them."""
    assert seen.moment == asked.at
    at = bytes_at(snap, device, asked.at)
    whole = at[asked.measure]
    assert (seen.bytes, seen.reserved) == (whole, at["reserved"]), asked
    # The page leaves out keys without data for the device, and all keys if the device has no
    # allocations.
    assert seen.way is not None or whole == 0
    if seen.way is None:
        return
    way = next(one for one in WAYS if one == seen.way)
    expected = holders(snap, device, asked.at, asked.measure, way)
    assert seen.total == whole == sum(one[0] for one in expected), asked
    rows = [(one.bytes, one.blocks) for one in seen.rows]
    largest = sorted((one[:2] for one in expected), reverse=True)
    assert [one[0] for one in rows] == [one[0] for one in largest[: len(rows)]], asked
    assert all(row in largest for row in rows), asked
    if all_rows:
        assert sorted(rows, reverse=True) == largest, asked
        assert sum(one[0] for one in rows) == whole, asked
    else:
        assert rows or not largest

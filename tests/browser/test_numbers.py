"""Numbers on the page are the command line's, in bytes: at peaks, and wherever the cursor is."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pytest

import memreplay as mr
from memreplay.snapshot.model import MEASURES
from tests.browser.conftest import OpenPage
from tests.browser.expected import LIFE_MEASURES, WAYS, bytes_at, holders, moment_of
from tests.browser.viewed import Seen, Viewed

pytestmark = pytest.mark.browser

CURSORS = 50
WHOLE_TABLES = 5
SMALL = {"width": 620, "height": 400}  # less to draw


def test_of_an_example(opened: OpenPage, example: Path) -> None:
    check(opened(example, viewport=SMALL), mr.open(example))


def test_of_a_real_file(opened: OpenPage, corpus_file: Path) -> None:
    check(opened(corpus_file, viewport=SMALL), mr.open(corpus_file))


def check(page: Viewed, snap: mr.Snapshot) -> None:
    """At the peaks of each device, and at random cursors by every measure and way in turn."""
    rng = random.Random(snap.file)
    ways = itertools.cycle(itertools.product(LIFE_MEASURES, WAYS))
    asked = [(*next(ways), rng.randrange(len(snap.devices))) for _ in range(CURSORS)]
    for place, device in enumerate(snap.devices):
        page.set(device=place, at=None)
        check_peaks(page, snap, device)
        states = [
            {"at": rng.randrange(snap.replay(device).events + 1), "measure": measure, "by": way}
            for measure, way, where in asked
            if where == place
        ]
        for part, all_rows in ((states[:WHOLE_TABLES], True), (states[WHOLE_TABLES:], False)):
            for state, seen in zip(part, page.seen(part, all_rows=all_rows), strict=True):
                check_moment(snap, device, state, seen, all_rows=all_rows)


def check_peaks(page: Viewed, snap: mr.Snapshot, device: int) -> None:
    """The exact peak stands in the text, and is where the cursor starts."""
    for measure in MEASURES:
        page.set(measure=measure)
        replay = snap.replay(device)
        peak = replay.measure(measure).peak
        assert page.bytes("peak-bytes") == page.bytes("cursor-bytes") == peak.bytes
        assert page.moment() == moment_of(replay, peak.event_index)
        assert f"{peak.bytes:,} bytes {measure}" in page.text(".headline")


def check_moment(
    snap: mr.Snapshot, device: int, state: dict[str, object], seen: Seen, *, all_rows: bool
) -> None:
    """The bytes at the cursor, and who holds them."""
    measure, moment = state["measure"], state["at"]
    assert isinstance(moment, int)
    assert seen.moment == moment
    at = bytes_at(snap, device, moment)
    assert (seen.bytes, seen.reserved) == (at[measure], at["reserved"]), state
    # A way that says nothing of a device is left out, and none has none without allocations.
    assert seen.way is not None or at[measure] == 0
    if seen.way is None:
        return
    way = next(one for one in WAYS if one == seen.way)
    expected = holders(snap, device, moment, next(m for m in MEASURES if m == measure), way)
    assert seen.total == at[measure] == sum(one[0] for one in expected), state
    rows = [(one.bytes, one.count) for one in seen.rows]
    largest = sorted((one[:2] for one in expected), reverse=True)
    assert [one[0] for one in rows] == [one[0] for one in largest[: len(rows)]], state
    assert all(row in largest for row in rows), state
    if all_rows:
        assert sorted(rows, reverse=True) == largest, state
        assert sum(one[0] for one in rows) == at[measure], state
    else:
        assert rows or not largest

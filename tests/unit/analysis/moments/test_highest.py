"""highest: the maximum of any range of events matches a scan of every event."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memreplay as mr
from memreplay.analysis.moments import highest
from memreplay.analysis.moments.highest import Highest
from memreplay.analysis.moments.moments import highest_within
from memreplay.snapshot.model import Span
from memreplay.snapshot.replay import Usage
from tests import build
from tests.build import SnapshotBuilder


def usage_of(sizes: list[int]) -> Usage:
    """Build a trace that has these bytes live after each event; 0 frees the block."""
    builder = SnapshotBuilder()
    live: list[tuple[int, int]] = []
    for i, size in enumerate(sizes):
        if size or not live:
            live.append(((i + 1) << 12, size))
            builder.alloc(*live[-1])
        else:
            builder.free_completed(*live.pop())
    return mr.open(build.dump(builder.build())).replay().measure()


@given(st.lists(st.integers(0, 3), min_size=1, max_size=40), st.data())
def test_maxima_match_brute_force(sizes: list[int], data: st.DataObject) -> None:
    block, highest.BLOCK = highest.BLOCK, 3
    try:
        usage = usage_of(sizes)
        found = Highest(usage)
        for _ in range(5):
            first = data.draw(st.integers(-1, len(sizes) - 1))
            last = data.draw(st.integers(first, len(sizes) - 1))
            point = usage.highest(first, last)
            assert found.within(first, last) == (point.bytes, point.event_index)
    finally:
        highest.BLOCK = block


@pytest.mark.slow
def test_many_long_ranges_are_fast() -> None:
    n = 200_000
    usage = usage_of([7, 0] * (n // 2 - 1) + [9, 0])
    every = [Span("all", i, None, i, None) for i in range(20_000)]
    begun = time.process_time()
    found = highest_within(usage, every, "all")
    assert found is not None
    assert (found.bytes, found.event_index) == (9, n - 2)
    assert time.process_time() - begun < 1.5  # 0.2 s

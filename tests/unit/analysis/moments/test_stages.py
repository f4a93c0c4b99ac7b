"""stages: the usage at the start and end of annotations, and within them, matches a scan of every
event.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memreplay as mr
from memreplay.analysis.moments import highest
from memreplay.analysis.moments.records import DeviceAnnotations
from memreplay.commands.at.find import at_report
from memreplay.errors import UsageError
from memreplay.snapshot.model import Moment
from tests import build
from tests.build import START_US, SnapshotBuilder

SPANS = st.lists(st.tuples(st.integers(-2, 30), st.integers(0, 30)), max_size=6)


def recording(sizes: list[int], spans: list[tuple[int, int]]) -> SnapshotBuilder:
    """Record one event per millisecond: an alloc of each size or, for size 0, a free of the
    previous block.
    """
    builder = SnapshotBuilder()
    live: list[tuple[int, int]] = []
    for i, size in enumerate(sizes):
        time = START_US + i * 1000
        if size or not live:
            live.append(((i + 1) << 12, size))
            builder.alloc(*live[-1], time_us=time)
        else:
            builder.free_completed(*live.pop(), time_us=time)
    for i, (start, length) in enumerate(spans):
        builder.annotation(f"a{i}", "START", START_US + start * 1000)
        if length:
            builder.annotation(f"a{i}", "END", START_US + (start + length) * 1000)
    return builder


def found_in(
    builder: SnapshotBuilder, *, top: int = 0, start: int | None = None
) -> DeviceAnnotations:
    moment = None if start is None else Moment("event", start)
    snap = mr.open(build.dump(builder.build()), start=moment)
    report = at_report(snap, [], annotations=True, top=top)
    (one,) = report.annotations or ()
    return one


@given(st.lists(st.integers(0, 5), min_size=1, max_size=30), SPANS.filter(bool), st.integers(0, 9))
def test_stages_match_brute_force(
    sizes: list[int], spans: list[tuple[int, int]], skip: int
) -> None:
    block, highest.BLOCK = highest.BLOCK, 4
    try:
        first = min(skip, len(sizes) - 1) if skip > 4 else 0
        builder = recording(sizes, spans)
        series = [0, *mr.open(build.dump(builder.build())).replay(0).usage.tolist()]
        want = {}
        for i, (start, length) in enumerate(spans):
            # Return all values: before each event, and after the last.
            begin = min(max(start, 0), len(sizes))
            end = min(max(start + length + 1, 0), len(sizes)) if length else len(sizes)
            if first and end <= first:
                continue
            cut = bool(first) and begin <= first
            within = series[max(begin, first) : end + 1]
            want[f"a{i}"] = (
                None if cut else series[begin],
                max(within),
                series[end] if length else None,
            )
        if not want:
            return
        found = found_in(builder, start=first or None)
        assert found.annotations_total == len(found.annotations) == len(want)
        got = {
            one.name: (one.start_bytes, one.peak_bytes, one.end_bytes) for one in found.annotations
        }
        assert got == want
    finally:
        highest.BLOCK = block


def test_highest_stages_keep_their_order() -> None:
    builder = recording([5, 0, 900, 0, 7, 0], [(0, 1), (2, 1), (4, 1)])
    found = found_in(builder, top=2)
    assert [(one.name, one.peak_bytes) for one in found.annotations] == [("a1", 900), ("a2", 7)]
    assert found.annotations_total == 3


def test_depth_counts_the_enclosing_annotations() -> None:
    builder = recording([5] * 9, [(0, 8), (1, 2), (2, 1), (4, 2), (7, 4)])
    depths = {one.name: one.depth for one in found_in(builder).annotations}
    assert depths == {"a0": 0, "a1": 1, "a2": 2, "a3": 1, "a4": 0}


def test_snapshot_without_annotations_is_an_error() -> None:
    with pytest.raises(UsageError, match="this snapshot has no annotations"):
        found_in(recording([5], []))

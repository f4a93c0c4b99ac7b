"""reservations: parts of segments over time match addresses painted one by one."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import memreplay as mr
from memreplay.engine.replay import _measures
from tests import build, oracle
from tests.build import SnapshotBuilder
from tests.conftest import SNAPSHOTS
from tests.oracle_measures import GROWS, SHRINKS, ranges_at_start
from tests.strategies import traces
from tests.unit.engine.replay.measured import MIB, A, B, column, reserved

Row = tuple[int, int, int, int]  # address, end, the events that added and removed it


def rows(found: _measures.Reserved) -> list[Row]:
    start, end, begin, stop, _ = map(column, found.reservations())
    return sorted(zip(start, end, begin, stop, strict=True))


def there(found: _measures.Reserved, event: int) -> list[tuple[int, int]]:
    """Return the reserved ranges after an event, by address."""
    return [(at, end) for at, end, begin, stop in rows(found) if begin <= event < stop]


def test_segment_lasts_from_its_alloc_to_its_free() -> None:
    b = SnapshotBuilder().segment_alloc(A, 2 * MIB).alloc(A, 5).segment_alloc(B, 20 * MIB)
    b.segment_free(A, 2 * MIB).segment(B, 20 * MIB)
    assert rows(reserved(b)) == [(A, A + 2 * MIB, 0, 3), (B, B + 20 * MIB, 2, 4)]


def test_carried_over_segments_start_before_the_trace() -> None:
    b = SnapshotBuilder().alloc(A, 5).segment_free(A, 2 * MIB).segment(B, 20 * MIB)
    found = reserved(b)
    assert rows(found) == [(A, A + 2 * MIB, -1, 1), (B, B + 20 * MIB, -1, 2)]
    sources = dict(
        zip(column(found.reservations()[0]), column(found.reservations()[4]), strict=True)
    )
    addresses = [start for start, *_ in found.regions()]
    assert [addresses[sources[at]] for at in (A, B)] == [A, B]


def test_unmapped_part_has_its_own_row() -> None:
    b = SnapshotBuilder().segment_map(A, 6 * MIB).segment_unmap(A + 2 * MIB, 2 * MIB)
    b.segment(A, 2 * MIB, is_expandable=True)
    b.segment(A + 4 * MIB, 2 * MIB, is_expandable=True)
    found = reserved(b)
    assert rows(found) == [
        (A, A + 2 * MIB, 0, 2),
        (A + 2 * MIB, A + 4 * MIB, 0, 1),
        (A + 4 * MIB, A + 6 * MIB, 0, 2),
    ]
    assert column(found.reservations()[4]) == [0, 0, 0]  # one event added all parts


def test_trace_without_segment_events_has_no_parts() -> None:
    assert rows(reserved(SnapshotBuilder().alloc(A, 5))) == []


def test_later_segment_at_one_address_wins() -> None:
    b = SnapshotBuilder().segment_alloc(A, 4 * MIB).segment_alloc(A + 2 * MIB, 4 * MIB)
    middle = A + 2 * MIB
    assert rows(reserved(b)) == [
        (A, middle, 0, 2),
        (middle, A + 4 * MIB, 0, 1),
        (middle, A + 6 * MIB, 1, 2),
    ]


def check(snapshot: Any, snap: mr.Snapshot, device: int) -> None:
    """At every event, compare with the last event that touched each address."""
    found = snap.replay(device).reserved
    events = oracle.trace_of(snapshot, device)
    touched = [
        (one["action"], oracle.unsigned(one.get("addr", 0)), one.get("size", 0))
        if one.get("action") in GROWS + SHRINKS
        else ("", 0, 0)
        for one in events
    ]
    touched = [one if one[1] + one[2] < 2**64 else ("", 0, 0) for one in touched]
    start = ranges_at_start(snapshot, device)
    bounds = {bound for one in start for bound in one}
    bounds |= {bound for _, at, size in touched if size for bound in (at, at + size)}
    cuts = sorted(bounds)
    cells = list(pairwise(cuts))
    state = {cell: any(a <= cell[0] and cell[1] <= b for a, b in start) for cell in cells}
    for event in range(-1, len(events)):
        if event >= 0:
            action, at, size = touched[event]
            for cell in cells if size else ():
                if at <= cell[0] and cell[1] <= at + size:
                    state[cell] = action in GROWS
        mine = there(found, event)
        assert all(one[1] <= other[0] for one, other in pairwise(mine))
        painted = [cell for cell in cells if any(a <= cell[0] and cell[1] <= b for a, b in mine)]
        assert painted == [cell for cell in cells if state[cell]]
        assert sum(b - a for a, b in mine) == sum(b - a for a, b in painted)


@given(traces())
def test_parts_match_the_last_event_of_each_address(snapshot: Any) -> None:
    snap = mr.open(build.dump(snapshot))
    for device in snap.devices:
        check(snapshot, snap, device)


@st.composite
def crowded(draw: st.DrawFn) -> Any:
    """Draw segment events that all overlap."""
    b = SnapshotBuilder()
    for _ in range(draw(st.integers(0, 12))):
        action = draw(st.sampled_from(GROWS + SHRINKS))
        b.event(action, A + draw(st.integers(0, 8)) * MIB, draw(st.integers(1, 6)) * MIB)
    for at in draw(st.lists(st.integers(0, 6), unique=True, max_size=3)):
        b.segment(A + at * 2 * MIB, 2 * MIB)
    return b.build()


@given(crowded())
def test_overlapping_segments_match_painted_addresses(snapshot: Any) -> None:
    snap = mr.open(build.dump(snapshot))
    for device in snap.devices:
        check(snapshot, snap, device)


@pytest.mark.parametrize("cells, events", [(70, 500), (5_000, 9_000)])
def test_thousands_of_parts_match_painted_addresses(cells: int, events: int) -> None:
    """There are enough bounds to fill every level of the set that holds them."""
    draw = random.Random(cells)
    b = SnapshotBuilder()
    painted = np.zeros((2, cells), dtype=bool)  # one row for the start, one for the current event
    known = np.zeros(cells, dtype=bool)
    for _ in range(events):
        at, size = draw.randrange(cells), 1 + draw.randrange(draw.choice((3, 40)))
        size = min(size, cells - at)
        grows = draw.random() < 0.6
        b.event("segment_alloc" if grows else "segment_free", A + at * MIB, size * MIB)
        part = slice(at, at + size)
        painted[0, part] |= ~known[part] & (not grows)
        known[part] = True
        painted[1, part] = grows
    found = reserved(b)
    for event, want in ((-1, painted[0]), (events - 1, painted[1])):
        mine = np.zeros(cells, dtype=int)
        for at, end in there(found, event):
            mine[(at - A) // MIB : (end - A) // MIB] += 1
        assert mine.tolist() == want.astype(int).tolist()
    assert all(begin < stop for _, _, begin, stop in rows(found))


@pytest.mark.parametrize("path", SNAPSHOTS, ids=lambda path: path.name)
def test_real_files_add_up(path: Any) -> None:
    snap = mr.open(path)
    for device in snap.devices:
        replay = snap.replay(device)
        start, end, begin, stop, _ = (np.asarray(one) for one in replay.reserved.reservations())
        size = (end - start).astype(np.int64)
        usage = np.asarray(replay.measure("reserved").column)
        for event in random.Random(device).sample(range(replay.events), min(50, replay.events)):
            assert size[(begin <= event) & (event < stop)].sum() == usage[event]

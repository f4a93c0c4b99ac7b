"""Tests of export/page/segments.py: segments over time match block maps and slow replays."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import memreplay as mr
from memreplay.analysis.groups.mapped import pool_of
from memreplay.export.page.records import PageDevice
from memreplay.export.page.segments import pieces, pools_of
from tests import build
from tests.allocator_strategies import SETTINGS
from tests.build import SnapshotBuilder
from tests.conftest import SNAPSHOTS
from tests.examples import examples
from tests.oracle_measures import reserved
from tests.pictures import record_pictures
from tests.strategies import traces
from tests.unit.export.page.reading import Piece, Read

MIB = 1 << 20
A = 0x7F00_0000_0000
FREE = 0  # the state of a tile


class Mapped(NamedTuple):
    """A segment after an event."""

    address: int
    size: int
    pool: tuple[int, int] | None
    stream: str | None
    expandable: bool
    small: bool


def shown(parts: list[Piece], event: int) -> list[Mapped]:
    """Return the segments on a page, without information from their blocks. Adjacent parts with one
    number are one segment, unless they have two pools.
    """
    found: list[tuple[int, Mapped]] = []
    for one in sorted((p for p in parts if p.begin <= event < p.end), key=lambda p: p.address):
        if found:
            number, last = found[-1]
            known = {last.pool, one.pool} - {None}
            touches = number == one.segment and last.address + last.size == one.address
            if touches and len(known) < 2:
                assert last.expandable == one.expandable
                merged = last._replace(
                    size=last.size + one.size,
                    pool=last.pool or one.pool,
                    small=last.small or one.small,
                )
                found[-1] = (number, merged)
                continue
        kind = one.expandable, one.small
        found.append((one.segment, Mapped(one.address, one.size, one.pool, one.stream, *kind)))
    return [one for _, one in found]


def mapped(replay: mr.Replay, event: int) -> list[Mapped]:
    """Return the engine's segments."""
    found = replay.block_map(event + replay.first_event)
    rows = []
    for i in range(found.n_segments):
        address, stream, pool, small, expandable, _, _, _, sums = found.segment(i)
        known = pool_of(replay, found, pool)
        rows.append(Mapped(address, sums["size"], known, str(stream), expandable, small))
    return rows


def told(snap: mr.Snapshot, replay: mr.Replay, event: int, rows: list[Mapped]) -> list[Mapped]:
    """Return the same segments with information from their blocks: whether an expandable segment is
    small.
    """
    found = replay.block_map(event + replay.first_event)
    columns = [memoryview(found.tiles(name)).tolist() for name in ("requested", "state", "stack")]
    little = [
        state != FREE and requested <= replay.backend.small_limit and not synthetic(snap, stack)
        for requested, state, stack in zip(*columns, strict=True)
    ]
    tiles = [
        slice(first, first + count) for *_, first, count, _ in map(found.segment, range(len(rows)))
    ]
    return [
        one._replace(small=one.small or (one.expandable and any(little[part])))
        for one, part in zip(rows, tiles, strict=True)
    ]


def synthetic(snap: mr.Snapshot, stack: int) -> bool:
    """Return whether a CUDA graph checkpoint made the allocation with this stack."""
    frames = map(snap.frame, snap.code.stack(stack))
    return any(
        "CheckpointPoolState" in f.function or "checkpoint_exec" in f.function for f in frames
    )


def check(
    page: Read, device: PageDevice, snap: mr.Snapshot, replay: mr.Replay, events: list[int]
) -> None:
    parts = page.pieces(device)
    assert parts == sorted(parts, key=lambda one: (one.begin, one.address))
    for event in events:
        said, found = shown(parts, event), mapped(replay, event)
        assert [one[:5] for one in said] == [one[:5] for one in found]
        assert told(snap, replay, event, said) == found


@given(traces())
def test_segments_match_the_block_maps(snapshot: Any) -> None:
    snap = mr.open(build.dump(snapshot))
    page = Read(snap)
    for device in page.data.devices:
        replay = snap.replay(device.device)
        usage = reserved(snapshot, device.device)
        series = [usage.carried_over_bytes, *usage.usage]
        parts = pieces(replay)
        if device.segments is None and parts is not None:
            # A script can't represent the address.
            assert max(parts.address.tolist()) - int(device.address_base) >= 2**53
            continue
        if parts is None:
            # Memory was added where some existed, or removed where none was.
            sums = [sum(one.size for one in mapped(replay, at)) for at in range(-1, replay.events)]
            assert sums != series
            continue
        check(page, device, snap, replay, list(range(-1, replay.events)))
        for event, want in enumerate(series, -1):
            live = [one for one in page.pieces(device) if one.begin <= event < one.end]
            assert sum(one.size for one in live) == want


@settings(max_examples=examples(30))
@given(
    seed=st.integers(0, 2**32 - 1),
    rules=st.sampled_from(list(SETTINGS)),
    late=st.sampled_from([0, 40]),
)
def test_segments_of_simulated_programs_match_block_maps(seed: int, rules: str, late: int) -> None:
    made = record_pictures(seed=seed, settings=rules, steps=90, late=late)
    snap = mr.open(build.dump(made.snapshot))
    page = Read(snap)
    for device in page.data.devices:
        replay = snap.replay(device.device)
        draw = random.Random(seed)
        events = [draw.randrange(-1, replay.events) for _ in range(8)]
        check(page, device, snap, replay, events)


@pytest.mark.slow
@pytest.mark.parametrize("path", SNAPSHOTS, ids=lambda path: path.name)
def test_segments_of_real_snapshots_match_block_maps(path: Path) -> None:
    snap = mr.open(path)
    page = Read(snap)
    for device in page.data.devices:
        replay = snap.replay(device.device)
        draw = random.Random(path.name)
        check(page, device, snap, replay, [draw.randrange(-1, replay.events) for _ in range(20)])


def read(builder: SnapshotBuilder) -> tuple[Read, PageDevice]:
    page = Read(mr.open(build.dump(builder.build())))
    (device,) = page.data.devices
    return page, device


def test_segment_mapped_piece_by_piece_has_a_part_for_each() -> None:
    made = SnapshotBuilder().segment_map(A, 20 * MIB, stream=3)
    made.segment_map(A + 20 * MIB, 20 * MIB, stream=3)
    made.segment_map(A + 40 * MIB, 20 * MIB, stream=4).segment_unmap(A, 20 * MIB, stream=3)
    made.segment(A + 20 * MIB, 20 * MIB, is_expandable=True, stream=3)
    made.segment(A + 40 * MIB, 20 * MIB, is_expandable=True, stream=4)
    page, device = read(made)
    parts = page.pieces(device)
    assert [(one.begin, one.end, one.size) for one in parts] == [
        (0, 3, 20 * MIB),
        (1, 4, 20 * MIB),
        (2, 4, 20 * MIB),
    ]
    assert parts[0].segment == parts[1].segment != parts[2].segment
    assert [one.size // MIB for one in shown(parts, 2)] == [40, 20]


def test_small_segments_are_marked() -> None:
    made = SnapshotBuilder().segment_alloc(A, 2 * MIB).segment_alloc(A + 32 * MIB, 20 * MIB)
    made.segment_map(A + 64 * MIB, 2 * MIB).segment_map(A + 66 * MIB, 4 * MIB)
    made.segment(A, 2 * MIB).segment(A + 32 * MIB, 20 * MIB)
    made.segment(A + 64 * MIB, 6 * MIB, is_expandable=True)
    page, device = read(made)
    kinds = [(one.expandable, one.small) for one in page.pieces(device)]
    assert kinds == [(False, True), (False, False), (True, True), (True, False)]
    assert [one.small for one in shown(page.pieces(device), 3)] == [True, False, True]


def test_adjacent_segments_stay_separate() -> None:
    made = SnapshotBuilder().segment_alloc(A, 20 * MIB).segment_alloc(A + 20 * MIB, 20 * MIB)
    page, device = read(made)
    assert len(shown(page.pieces(device), 1)) == 2


def test_contradictory_segment_events_hide_the_segments() -> None:
    made = SnapshotBuilder().segment_alloc(A, 20 * MIB).segment_alloc(A, 20 * MIB)
    page, device = read(made)
    assert device.segments is None
    (note,) = page.data.notes
    assert note == (
        "segments of device 0 aren't shown: its segment events don't add up, or an address"
        " is too large for a browser"
    )


def test_address_beyond_a_scripts_precision_hides_the_segments() -> None:
    made = SnapshotBuilder().segment_alloc(0x200, 2 * MIB).segment_alloc(2**63 + 8, 2 * MIB)
    page, device = read(made)
    assert (device.segments, len(page.data.notes)) == (None, 1)


def test_segments_have_their_pool_if_it_is_known() -> None:
    # If the file names no other pool, a segment with an unknown one belongs to the default pool.
    page, device = read(SnapshotBuilder().segment_alloc(A, 2 * MIB))
    assert [one.pool for one in page.pieces(device)] == [(0, 0)]
    made = SnapshotBuilder().segment_alloc(A, 2 * MIB)
    made.segment_alloc(A + 2 * MIB, 2 * MIB, pool_id=(0, 3))
    page, device = read(made)
    assert [one.pool for one in page.pieces(device)] == [None, (0, 3)]
    snap = mr.open(build.dump(made.build()))
    assert pools_of(snap.replay(0)) == (None, (0, 3), (0, 0))

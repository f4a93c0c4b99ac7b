"""engine/replay/blockmap: small maps checked by hand, unusual maps, and refused arguments."""

from __future__ import annotations

from typing import Any

import pytest

import memreplay as mr
from memreplay.engine.query import _blockmap
from tests import build
from tests.build import SnapshotBuilder
from tests.unit.engine.replay.measured import KIB, MIB, A, B, column


def replay(builder: SnapshotBuilder, **bounds: Any) -> mr.Replay:
    return mr.open(build.dump(builder.build()), **bounds).replay()


def tiles(found: _blockmap.BlockMap) -> list[tuple[int, int, int]]:
    """Return (address, size, state) of each block."""
    fields = [column(found.tiles(name)) for name in ("address", "size", "state")]
    return list(zip(*fields, strict=True))


def test_map_of_one_segment_matches_one_drawn_by_hand() -> None:
    made = SnapshotBuilder().segment_alloc(A, 2 * MIB).alloc(A, 100).alloc(A + 512, 600)
    made.free_requested(A, 100)
    found = replay(made).block_map(3)
    rest = A + 1536, 2 * MIB - 1536, _blockmap.FREE
    assert tiles(found) == [
        (A, 512, _blockmap.PENDING),
        (A + 512, 1024, _blockmap.IN_USE),
        rest,
    ]
    assert column(found.tiles("requested")) == [100, 600, 0]
    assert column(found.tiles("owner")) == [1, 2, _blockmap.NO_OWNER]
    assert found.n_segments == 1
    assert found.bar(0, 4) == "+..."
    assert replay(made).block_map(0).sums()["free"] == 2 * MIB
    assert replay(made).block_map(-1).n_segments == 0


def test_handles_inside_one_block_can_be_released() -> None:
    made = SnapshotBuilder().settings(expandable_segments=True)
    made.event("segment_map", A, 60 * MIB).alloc(A, 5 * MIB).alloc(A + 5 * MIB, 50 * MIB)
    made.free_requested(A + 5 * MIB, 50 * MIB).free_completed(A + 5 * MIB, 50 * MIB)
    found = replay(made).block_map(4)
    assert found.returnable == (40 * MIB, 40 * MIB)
    assert found.blocked == 15 * MIB


def test_misplaced_blocks_are_counted_separately() -> None:
    made = SnapshotBuilder().segment_alloc(A, 2 * MIB).alloc(A, 1024).alloc(A + 512, 512)
    made.alloc(A + 2 * MIB - 512, 4096).alloc(B, 512)
    found = replay(made).block_map(4)
    assert found.outside == (512 + 3584 + 512, 3)
    sums = found.sums()
    assert sums["in_use"] + sums["free"] == sums["size"] == 2 * MIB


def test_segments_may_reach_the_end_of_the_address_space() -> None:
    top = 2**64 - 2 * MIB
    made = SnapshotBuilder().segment_alloc(top - 512, 2 * MIB).alloc(top - 512, 700)
    found = replay(made).block_map(1)
    assert found.sums()["size"] == 2 * MIB
    assert found.bar(0, 3) == "+.."


def test_cost_does_not_grow_with_the_mapped_range() -> None:
    made = SnapshotBuilder().event("segment_map", A, 2 << 50).alloc(A, 512)
    found = replay(made).block_map(1)
    assert found.sums()["free"] == (2 << 50) - 512
    assert found.bar(0, 2) == "+."


def test_small_pages_stay_small_when_many_are_released() -> None:
    made = SnapshotBuilder().settings(expandable_segments=True)
    made.alloc(A, 100 * KIB)
    made.event("segment_unmap", A + 2 * MIB, 20 * MIB)
    made.segment(A, 2 * MIB, segment_type="small", is_expandable=True, blocks=[
        made.block(A, 100 * KIB, 100 * KIB), made.block(A + 100 * KIB, 1948 * KIB, 0, "inactive"),
    ])  # fmt: skip
    found = replay(made).block_map(-1)
    assert [row[2] for row in found.shares()] == [True]


def test_invalid_arguments_are_refused() -> None:
    made = replay(SnapshotBuilder().segment_alloc(A, 2 * MIB).alloc(A, 100))
    found = made.block_map(1)
    live = made.measure("active").listed(1)
    other = replay(SnapshotBuilder().segment_alloc(A, 2 * MIB).alloc(A, 100))
    with pytest.raises(ValueError, match="another replay"):
        _blockmap.BlockMap(made.blocks, other.holding, *live, 1)
    for event in (-2, 2):
        with pytest.raises(IndexError):
            _blockmap.BlockMap(made.blocks, made.holding, *live, event)
    with pytest.raises(IndexError):
        _blockmap.BlockMap(made.blocks, made.holding, live[0], live[0], 1)
    with pytest.raises(ValueError, match="u32"):
        _blockmap.BlockMap(made.blocks, made.holding, made.measure().column, live[1], 1)
    with pytest.raises(TypeError):
        _blockmap.BlockMap(made.blocks, None, *live, 1)  # type: ignore[arg-type]
    with pytest.raises(IndexError):
        found.segment(1)
    for segment, cells in ((1, 5), (0, 0), (0, 5000), (-1, 5)):
        with pytest.raises(IndexError):
            found.bar(segment, cells)
    series = made.measure("reserved").column
    with pytest.raises(ValueError, match="i64"):
        _blockmap.unused(made.blocks, series, live[0], 0)


def test_oversize_block_serves_requests_up_to_20_mib_smaller() -> None:
    made = SnapshotBuilder().settings(max_split_size=24 * MIB).segment_alloc(A, 60 * MIB)
    found = replay(made).block_map(0)
    for size, kind in (
        (24 * MIB - 512, "split_limit"),
        (40 * MIB, "split_limit"),
        (40 * MIB + 512, "fits"),
        (60 * MIB, "fits"),
        (60 * MIB + 512, "too_small"),
    ):
        judged = found.judge(size, None, 0, False)
        del judged["split_open"]  # these are also in too_small
        assert {name for name, (whole, _) in judged.items() if whole} == {kind}, size

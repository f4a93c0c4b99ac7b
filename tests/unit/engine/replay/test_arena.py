"""arena: the blocks of small traces, with one test for each rule."""

from __future__ import annotations

import pytest

import memreplay as mr
import memreplay._core as _core
from tests import allocator, allocator_blocks, build
from tests.build import SnapshotBuilder
from tests.unit.engine.replay.measured import (
    KIB,
    MIB,
    NO_DIVISIONS,
    A,
    B,
    active,
    blocks,
    column,
    counts,
    sizes,
)

NONE = _core.ABSENT_ID


def large() -> SnapshotBuilder:
    return SnapshotBuilder().segment_alloc(A, 20 * MIB)


# ---- sizes of requests ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "request_bytes, divisions, want",
    [
        (0, 0, 512),
        (1, 0, 512),
        (512, 0, 512),
        (513, 0, 1024),
        (513, 2, 1024),
        (5 * MIB + 1, 0, 5 * MIB + 512),
        (5 * MIB + 1, 1, 5 * MIB + 512),
        (5 * MIB + 1, 4, 6 * MIB),
        (8 * MIB, 4, 8 * MIB),
        (2048, 4, 2048),  # up to 512 x divisions, divisions don't matter
        (2049, 4, 2560),
        (700 * KIB, 2, 768 * KIB),  # below 1 MiB the first number applies
        (3 * 2**40, 2, 3 * 2**40),  # from 64 GiB on, the last number applies
        (3 * 2**40 + 1, 2, 2**42),
        (2**61 + 1, 0, 2**61 + 512),
        (2**61 + 1, 2, 3 * 2**60),
        (3000, 2**62, 3072),
    ],
)
def test_request_is_rounded_to_its_block_size(
    request_bytes: int, divisions: int, want: int
) -> None:
    # The allocation has no segment, so its rounded size is assumed.
    b = SnapshotBuilder().alloc(A, request_bytes)
    found = blocks(b, divisions=(divisions,) * 16)
    assert sizes(found) == ([want], [])
    assert counts(found) == (0, 1, 1, 0)


def test_every_power_of_two_has_its_divisions() -> None:
    b = SnapshotBuilder()
    for i in range(20):
        b.alloc(A + i, 2**18 << i).alloc(B + i, (2**18 << i) + 1)
    divisions = tuple(2 if i % 2 else 4 for i in range(16))
    got = sizes(blocks(b, divisions))[0][1::2]
    steps = [2**18 << i >> (2 if max(i - 2, 0) % 2 == 0 else 1) for i in range(18)]
    steps += [2**36 >> 1, 2**37 >> 1]
    assert got == [(2**18 << i) + step for i, step in enumerate(steps)]


# ---- splits and merges ---------------------------------------------------------------------------


def test_small_remainders_of_large_segments_are_kept() -> None:
    b = large().alloc(A, 18 * MIB).alloc(A + 18 * MIB, 2 * MIB - 512)
    b.segment(
        A,
        20 * MIB,
        blocks=[b.block(A, 18 * MIB), b.block(A + 18 * MIB, 2 * MIB, 2 * MIB - 512)],
    )
    found = blocks(b)
    assert sizes(found)[0] == [0, 18 * MIB, 2 * MIB]
    assert counts(found) == (2, 0, 0, 0)
    assert found.end_blocks == 2
    assert column(active(found).usage()) == [0, 18 * MIB, 20 * MIB]


@pytest.mark.parametrize("rest, split", [(MIB, False), (MIB + 512, True)])
def test_remainder_of_1_mib_is_kept(rest: int, split: bool) -> None:
    b = large().alloc(A, 20 * MIB - rest)
    assert sizes(blocks(b))[0][1] == (20 * MIB - rest if split else 20 * MIB)
    assert sizes(blocks(b, expandable=True))[0][1] == 20 * MIB - rest


def test_blocks_may_be_much_larger_than_requested() -> None:
    """The blocks have at least 4 GiB more than requested, which no rounding produces."""
    for more in (2**32 - 2, 2**32 - 1, 2**32, 2**40):
        b = SnapshotBuilder().segment_alloc(A, more + 512).alloc(A, 512)
        found = blocks(b, max_split=0)
        assert sizes(found)[0] == [0, more + 512]
        assert [active(found).weight(at) for at in range(2)][1] == more + 512
        assert active(found).end_bytes == more + 512
    with pytest.raises(IndexError):
        active(found).weight(-1)


def test_small_segments_are_always_split() -> None:
    b = SnapshotBuilder().segment_alloc(A, 2 * MIB).alloc(A, MIB).alloc(A + MIB, MIB - 600)
    assert sizes(blocks(b))[0] == [0, MIB, MIB - 512]


def test_free_blocks_merge_on_both_sides() -> None:
    b = large()
    for i in range(3):
        b.alloc(A + i * 2 * MIB, 2 * MIB)
    for i in (0, 2, 1):
        b.free_completed(A + i * 2 * MIB, 2 * MIB)
    b.alloc(A, 20 * MIB).segment(A, 20 * MIB, blocks=[b.block(A, 20 * MIB)])
    found = blocks(b)
    assert counts(found) == (4, 0, 0, 0)
    assert sizes(found)[0][-1] == 20 * MIB


def test_pending_free_is_still_a_block() -> None:
    b = large().alloc(A, 2 * MIB).free_requested(A, 2 * MIB).alloc(A, 2 * MIB)
    found = blocks(b)
    assert found.misplaced == 1
    assert column(active(found).usage()) == [0, 2 * MIB, 2 * MIB, 2 * MIB]


def test_oversize_requests_take_the_whole_block() -> None:
    b = SnapshotBuilder().segment_alloc(A, 40 * MIB).alloc(A, 30 * MIB)
    assert sizes(blocks(b))[0][1] == 30 * MIB
    assert sizes(blocks(b, max_split=30 * MIB))[0][1] == 40 * MIB
    assert sizes(blocks(b, max_split=30 * MIB + 1))[0][1] == 30 * MIB
    assert sizes(blocks(b, max_split=0))[0][1] == 40 * MIB


# ---- memory live at the start --------------------------------------------------------------------


def test_unsplit_block_has_its_size_in_the_final_segments() -> None:
    b = SnapshotBuilder().oom(1)
    b.segment(
        A, 20 * MIB, blocks=[b.block(A, 20 * MIB - 512, 19 * MIB), b.block(A + 20 * MIB - 512, 512)]
    )
    found = blocks(b)
    assert sizes(found)[1] == [20 * MIB - 512, 512]
    assert counts(found) == (2, 0, 0, 0)


def test_freed_block_in_a_small_segment_has_its_rounded_size() -> None:
    b = SnapshotBuilder().free_completed(A, 700).segment(A, 2 * MIB, segment_type="small")
    b.block(A, 2 * MIB, state="inactive")
    assert sizes(blocks(b))[1] == [1024]
    assert blocks(b).proven == 1


@pytest.mark.parametrize("gap", [0, 512, MIB])
def test_gap_of_up_to_1_mib_belongs_to_the_block(gap: int) -> None:
    b = SnapshotBuilder().free_completed(A, 20 * MIB - gap)
    b.segment(A, 20 * MIB, blocks=[b.block(A, 20 * MIB, 0, "inactive")])
    found = blocks(b)
    assert sizes(found)[1] == [20 * MIB]
    assert counts(found) == (1, 0, 0, 0)


def test_larger_gap_is_assumed_free_and_reported() -> None:
    b = SnapshotBuilder().free_completed(A, 5 * MIB)
    b.segment(A, 20 * MIB, blocks=[b.block(A, 20 * MIB, 0, "inactive")])
    found = blocks(b)
    assert sizes(found)[1] == [5 * MIB]
    assert counts(found) == (0, 1, 0, 0)
    assert counts(blocks(b, expandable=True)) == (1, 0, 0, 0)


@pytest.mark.parametrize("slack", [0, 512, MIB])
def test_following_alloc_proves_the_size(slack: int) -> None:
    b = SnapshotBuilder().alloc(A + 5 * MIB + slack, 2 * MIB).free_completed(A, 5 * MIB)
    b.free_completed(A + 5 * MIB + slack, 2 * MIB)
    b.segment(A, 20 * MIB, blocks=[b.block(A, 20 * MIB, 0, "inactive")])
    found = blocks(b)
    assert sizes(found)[1] == [5 * MIB + slack]
    assert counts(found) == (2, 0, 0, 0)


def test_alloc_too_far_behind_is_misplaced() -> None:
    b = SnapshotBuilder().alloc(A + 6 * MIB + 512, 2 * MIB).free_completed(A, 5 * MIB)
    b.segment(A, 20 * MIB, blocks=[b.block(A, 20 * MIB, 0, "inactive")])
    assert counts(blocks(b)) == (0, 2, 1, 0)
    # An oversize block may have this much slack.
    b = SnapshotBuilder().free_completed(A, 5 * MIB)
    b.segment(A, 20 * MIB, blocks=[b.block(A, 20 * MIB, 0, "inactive")])
    assert sizes(blocks(b, max_split=5 * MIB))[1] == [20 * MIB]
    assert counts(blocks(b, max_split=5 * MIB)) == (1, 0, 0, 0)


def test_size_is_assumed_after_a_free() -> None:
    b = SnapshotBuilder().free_completed(A, 5 * MIB).alloc(A, 6 * MIB)
    b.segment(
        A, 20 * MIB, blocks=[b.block(A, 6 * MIB), b.block(A + 6 * MIB, 14 * MIB, 0, "inactive")]
    )
    found = blocks(b)
    assert sizes(found) == ([0, 6 * MIB], [5 * MIB])
    assert counts(found) == (1, 1, 0, 0)


def test_carried_over_blocks_may_overlap_or_lack_a_segment() -> None:
    b = SnapshotBuilder().free_completed(A, 3000).free_completed(A + 1024, 10)
    b.segment(A, 2 * MIB, segment_type="small", blocks=[b.block(A, 2 * MIB, 0, "inactive")])
    found = blocks(b)  # the first block has room for 1024 bytes
    assert sizes(found)[1] == [1024, 512]
    assert counts(found) == (1, 1, 1, 0)
    alone = blocks(SnapshotBuilder().free_completed(A, 3000))
    assert sizes(alone)[1] == [3072]
    assert counts(alone) == (0, 1, 0, 0)
    before = SnapshotBuilder().free_completed(A - 512, 3000)
    before.segment(A, 2 * MIB, blocks=[before.block(A, 2 * MIB, 0, "inactive")])
    assert counts(blocks(before)) == (0, 1, 1, 0)


# ---- misfits -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "builder, misplaced, assumed",
    [
        (large().alloc(A + 512, 5), 1, 1),  # no block starts at this address
        (large().alloc(A, 21 * MIB), 1, 1),  # too large for the block
        (large().alloc(A, 5).alloc(A, 5), 1, 1),  # still in use
        (large().segment_alloc(A, MIB), 1, 0),  # one already exists
        (large().segment_map(A, MIB), 1, 0),
        (large().segment_free(A + MIB, MIB), 1, 0),  # nothing starts there
        (large().segment_free(A, MIB), 1, 0),  # it is larger
        (large().alloc(A, 2 * MIB).segment_free(A, 20 * MIB), 1, 0),  # the segment is in use
        (large().alloc(A, 2 * MIB).segment_unmap(A, MIB), 1, 0),  # in use
        (large().segment_unmap(A + 19 * MIB, 2 * MIB), 1, 0),  # past its end
    ],
)
def test_misfits_are_counted(builder: SnapshotBuilder, misplaced: int, assumed: int) -> None:
    found = blocks(builder)
    assert (found.misplaced, found.assumed) == (misplaced, assumed)


def test_second_alloc_takes_over_the_existing_block() -> None:
    b = large().alloc(A, 4 * MIB).alloc(A, 2 * MIB).free_completed(A, 2 * MIB)
    found = blocks(b)
    assert sizes(found)[0] == [0, 4 * MIB, 4 * MIB, 0]
    assert column(active(found).usage()) == [0, 4 * MIB, 4 * MIB, 0]


def test_frees_of_misplaced_blocks_free_nothing() -> None:
    b = large().alloc(A, 21 * MIB).free_completed(A, 21 * MIB).alloc(A, 20 * MIB)
    assert counts(blocks(b))[:3] == (1, 1, 1)


def test_final_state_is_compared_block_by_block() -> None:
    b = large().alloc(A, 2 * MIB).alloc(A + 2 * MIB, 2 * MIB)
    b.segment(
        A,
        20 * MIB,
        blocks=[
            b.block(A, 2 * MIB, state="inactive"),  # in use according to the trace
            b.block(A + 2 * MIB, 3 * MIB),  # has another size
            b.block(A + 5 * MIB, MIB),  # nothing starts there
        ],
    )
    found = blocks(b)
    assert found.end_blocks == 3
    assert found.end_misfits == 3 + 1  # plus the free block that only the trace has
    assert blocks(b, stop=2).end_misfits == 0  # nothing is compared before the end


# ---- expandable segments -------------------------------------------------------------------------


def mapped(pieces: int) -> SnapshotBuilder:
    b = SnapshotBuilder()
    for i in range(pieces):
        b.segment_map(A + i * 20 * MIB, 20 * MIB)
    return b


def test_adjacent_mapped_ranges_are_merged() -> None:
    b = mapped(2).segment_map(A - 20 * MIB, 20 * MIB).alloc(A - 20 * MIB, 59 * MIB)
    b.segment(
        A - 20 * MIB,
        60 * MIB,
        is_expandable=True,
        blocks=[b.block(A - 20 * MIB, 59 * MIB), b.block(A + 39 * MIB, MIB, 0, "inactive")],
    )
    assert counts(blocks(b)) == (1, 0, 0, 0)


def test_mapped_ranges_of_two_streams_stay_separate() -> None:
    b = SnapshotBuilder().segment_map(A, 20 * MIB, stream=1).segment_map(A + 20 * MIB, 20 * MIB)
    assert blocks(b.alloc(A, 30 * MIB)).misplaced == 1


def test_memory_is_unmapped_at_either_end_or_in_the_middle() -> None:
    for at in (0, 20, 40):
        b = mapped(3).segment_unmap(A + at * MIB, 20 * MIB)
        for other in sorted({0, 20, 40} - {at}):
            b.alloc(A + other * MIB, 20 * MIB)
        # The hole is filled again, and merges with both sides once they are free.
        b.segment_map(A + at * MIB, 20 * MIB)
        for other in {0, 20, 40} - {at}:
            b.free_completed(A + other * MIB, 20 * MIB)
        b.alloc(A, 60 * MIB).segment(A, 60 * MIB, is_expandable=True, blocks=[b.block(A, 60 * MIB)])
        assert counts(blocks(b)) == (3, 0, 0, 0)


def test_memory_is_unmapped_inside_a_free_block() -> None:
    b = mapped(3).alloc(A, 5 * MIB).alloc(A + 5 * MIB, 40 * MIB).alloc(A + 45 * MIB, 15 * MIB)
    b.free_completed(A + 5 * MIB, 40 * MIB).segment_unmap(A + 20 * MIB, 20 * MIB)
    b.segment(
        A,
        20 * MIB,
        is_expandable=True,
        blocks=[b.block(A, 5 * MIB), b.block(A + 5 * MIB, 15 * MIB, 0, "inactive")],
    )
    b.segment(
        A + 40 * MIB,
        20 * MIB,
        is_expandable=True,
        blocks=[b.block(A + 40 * MIB, 5 * MIB, 0, "inactive"), b.block(A + 45 * MIB, 15 * MIB)],
    )
    assert counts(blocks(b)) == (3, 0, 0, 0)


def test_memory_is_unmapped_up_to_the_end_of_an_earlier_block() -> None:
    """The block that ended there has become part of another, and must not be mistaken for it."""
    b = mapped(1).alloc(A, 5 * MIB).alloc(A + 5 * MIB, 5 * MIB).alloc(A + 10 * MIB, 10 * MIB)
    b.segment_map(A + 20 * MIB, 20 * MIB)
    b.free_completed(A + 10 * MIB, 10 * MIB).free_completed(A + 5 * MIB, 5 * MIB)
    b.segment_unmap(A + 8 * MIB, 12 * MIB)
    assert blocks(b).misplaced == 0


# ---- pools ---------------------------------------------------------------------------------------


def test_allocs_have_their_own_pool_or_their_segments_pool() -> None:
    b = large().alloc(A, 2 * MIB).alloc(A + 2 * MIB, 2 * MIB, pool_id=(0, 1))
    b.segment_alloc(B, 2 * MIB, pool_id=(1, 0)).alloc(B, 5).oom(3).free_completed(B, 5)
    b.segment_free(B, 2 * MIB).segment(A, 20 * MIB, pool=(2, 0))
    found = blocks(b)
    pool = found.reserved.replay.tables.pool
    assert [None if i == NONE else pool(i) for i in column(found.pools())] == [
        (2, 0),  # the segment_alloc has the final segment's pool
        (2, 0),
        (0, 1),
        (1, 0),
        (1, 0),
        None,
        None,
        (1, 0),
    ]


def test_pool_in_an_event_takes_precedence_over_its_segments_pool() -> None:
    b = SnapshotBuilder().segment_alloc(B, 2 * MIB, pool_id=(1, 0))
    b.segment_free(B, 2 * MIB, pool_id=(2, 0))
    # A misplaced alloc belongs to the existing segment.
    b.segment_alloc(A, 2 * MIB, pool_id=(3, 0)).alloc(A, 4 * MIB)
    found = blocks(b)
    assert found.misplaced == 1
    pool = found.reserved.replay.tables.pool
    assert [pool(i) for i in column(found.pools())] == [(1, 0), (2, 0), (3, 0), (3, 0)]


def test_unmapped_part_has_the_pool_of_its_range() -> None:
    b = SnapshotBuilder().segment_map(A, 60 * MIB, pool_id=(1, 0))
    b.segment_unmap(A + 20 * MIB, 20 * MIB)
    found = blocks(b)
    assert len(set(column(found.pools()))) == 1


# ---- ranges, devices, nothing --------------------------------------------------------------------


def test_range_starts_with_the_existing_blocks() -> None:
    b = large().alloc(A, 2 * MIB).alloc(A + 2 * MIB, 17 * MIB + 512).free_completed(A, 2 * MIB)
    b.segment(
        A,
        20 * MIB,
        blocks=[b.block(A, 2 * MIB, 0, "inactive"), b.block(A + 2 * MIB, 18 * MIB, 17 * MIB + 512)],
    )
    whole = column(active(blocks(b)).usage())
    assert whole == [0, 2 * MIB, 20 * MIB, 18 * MIB]
    for first in range(4):
        found = blocks(b, start=first)
        assert counts(found)[1:] == (0, 0, 0)
        assert column(active(found).usage()) == whole[first:]


def test_trace_may_have_no_events_or_no_segments() -> None:
    b = SnapshotBuilder().segment(A, 2 * MIB, blocks=[SnapshotBuilder().block(A, 1024, 1000)])
    assert sizes(blocks(b)) == ([], [1024])
    assert counts(blocks(b)) == (1, 0, 0, 1)  # nothing shows that the rest of the segment is free
    assert counts(blocks(SnapshotBuilder().oom(1))) == (0, 0, 0, 0)


def test_devices_are_separate() -> None:
    b = SnapshotBuilder(2).segment_alloc(A, 2 * MIB, 0).alloc(A, 5, 0).alloc(A, 600, 1)
    assert sizes(blocks(b))[0] == [0, 512]
    other = blocks(b, device=1)
    assert (sizes(other)[0], other.misplaced) == ([1024], 1)


def test_invalid_rules_are_refused() -> None:
    b = large()
    for wrong in ((1, 2), (0,) * 17):
        with pytest.raises(ValueError, match="one number per power of two"):
            blocks(b, divisions=wrong)
    with pytest.raises(TypeError):
        blocks(b, divisions=None)  # type: ignore[arg-type]
    with pytest.raises(OverflowError):
        blocks(b, divisions=(2**63,) * 16)
    with pytest.raises(OverflowError):
        blocks(b, divisions=NO_DIVISIONS, max_split=2**63)


def test_range_takes_sizes_of_surviving_blocks_from_the_segments() -> None:
    machine = allocator.Machine()
    machine.begin_recording()
    device = machine.devices[0]

    def malloc(size: int) -> allocator_blocks.Block:
        block = device.malloc(size)
        assert block is not None
        return block

    malloc(5 * MIB)
    hole, last = malloc(13 * MIB // 2), malloc(7 * MIB)
    device.free(hole)
    malloc(6 * MIB)  # takes the whole hole, because too little would be left
    device.free(last)
    device.free(malloc(512))
    snapshot, (truth,) = machine.dump()
    series = truth.series("active")
    begin = len(series) - 3
    replay = mr.open(build.dump(snapshot), start=begin).replay()
    assert replay.blocks.assumed == 0
    assert replay.measure("active").start_bytes == series[begin - 1] == 23 * MIB // 2

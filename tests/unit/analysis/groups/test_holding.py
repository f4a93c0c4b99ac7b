"""Tests of groups/holding.py, and of grouping by holder: slow code adds up the same bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memreplay as mr
from memreplay.analysis.groups.grouping import Grouper
from memreplay.analysis.groups.holding import HoldersOfGroups, live_holders
from memreplay.analysis.groups.ways.blocks import FREED, LATER, NOT_NOTED, OTHERS
from memreplay.errors import UsageError
from memreplay.render.record_json import render_json
from tests import build, oracle
from tests.build import Snapshot
from tests.holding import held, live_by_holder, with_holders
from tests.strategies import ADDRESSES, traces

GROUPS = (held("losses[…]"), held("cache[…]", "serve", 7))
MIB = 1 << 20


def of_blocks(most: int) -> st.SearchStrategy[dict[int, int]]:
    """Draw the number of each block's holder by address."""
    addresses = [oracle.unsigned(one) for one in ADDRESSES]
    return st.dictionaries(st.sampled_from(addresses), st.integers(0, most))


def two_lists() -> Snapshot:
    """Return a snapshot in which each of two lists has a tensor, and another one was freed."""
    made = (
        build.SnapshotBuilder()
        .alloc(0x1000, 3 * MIB)
        .alloc(0x2000, 2 * MIB)
        .alloc(0x3000, 4 * MIB)
        .free(0x3000, 4 * MIB)
        .alloc(0x4000, MIB)
        .finish_segments()
        .build()
    )
    return with_holders(made, GROUPS, {0x1000: 0, 0x2000: 1, 0x3000: 1})


@given(
    traces(max_devices=2),
    of_blocks(2),
    st.booleans(),
    st.data(),
)
def test_bytes_of_each_holder_are_those_of_its_blocks(
    snapshot: Snapshot, noted: dict[int, int], at_end: bool, data: st.DataObject
) -> None:
    made = with_holders(snapshot, GROUPS, noted)
    counts = [len(trace) for trace in snapshot["device_traces"]]
    if not at_end:
        counts = [data.draw(st.integers(0, one)) for one in counts]
        made["memreplay"]["holders"] |= {"events": counts, "when": "oom"}
    snap = mr.open(build.dump(made))
    grouper = Grouper(snap, "holder")
    labels = {0: GROUPS[0].label, 1: GROUPS[1].label, 2: OTHERS}
    labels |= {-1: NOT_NOTED, -2: FREED, -3: LATER}
    for device in snap.devices:
        usage = snap.replay(device).measure()
        event = data.draw(st.integers(-1, usage.replay.events - 1))
        if not at_end and not 0 <= device < len(counts):
            assert live_holders(grouper, usage, event, 0) is None
            continue
        looked = counts[device] - 1 if 0 <= device < len(counts) else -1
        expected = live_by_holder(snapshot, device, (event, looked), noted)
        groups, *_ = grouper.groups(usage, event, 0)
        if grouper.dimensions.holder.blocks is None:
            assert not noted or len(noted) > snap.native.n_blocks
            continue
        assert {one.label: (one.bytes, one.count) for one in groups} == {
            labels[holder]: size for holder, size in expected.items()
        }
        found = live_holders(grouper, usage, event, 0)
        assert found is not None
        assert {one.name: (one.bytes, one.count) for one in found.groups} == {
            GROUPS[holder].name: expected[holder] for holder in (0, 1) if holder in expected
        }
        assert found.other_bytes == expected.get(2, (0, 0))[0]
        assert (found.freed_bytes, found.freed_count) == expected.get(-2, (0, 0))
        assert found.unknown_bytes == expected.get(-1, (0, 0))[0]
        later = found.allocated_after_bytes, found.allocated_after_count
        assert later == expected.get(-3, (0, 0))
        assert found.after_events == looked - event


def test_peak_says_who_held_it_and_when_the_recorder_looked() -> None:
    snap = mr.open(build.dump(two_lists()))
    (peak,) = mr.peak(snap, holders=True).devices
    assert peak.held_by
    assert [(one.name, one.bytes) for one in peak.held_by.groups] == [
        ("losses[…]", 3 * MIB),
        ("cache[…]", 2 * MIB),
    ]
    assert (peak.held_by.freed_bytes, peak.held_by.freed_count) == (4 * MIB, 1)
    assert peak.held_by.after_events == 3
    page = str(mr.peak(snap, holders=True))
    assert "losses[…] (list) in train()  /home/ana/train.py:12" in page
    assert "freed before the recorder looked" in page
    assert "the recorder looked 3 events and 2 us later" in " ".join(page.split())


def test_moment_of_the_look_needs_no_note() -> None:
    snap = mr.open(build.dump(two_lists()))
    (there,) = mr.at(snap, "end", holders=True, top=1).devices
    assert there.held_by
    assert [one.name for one in there.held_by.groups] == ["losses[…]"]
    assert there.held_by.other_groups == 1
    assert there.held_by.other_bytes == 2 * MIB
    assert there.held_by.unknown_bytes == MIB
    assert "recorder looked" not in str(mr.at(snap, "end", holders=True))


def test_only_asked_for() -> None:
    snap = mr.open(build.dump(two_lists()))
    assert "losses" not in str(mr.peak(snap))
    assert '"held_by"' not in render_json(mr.peak(snap))


def test_files_without_notes_say_so() -> None:
    snap = mr.open(build.dump(build.SnapshotBuilder().alloc(1, 2).build()))
    assert mr.peak(snap, holders=True).devices[0].held_by is None
    assert "record with memreplay record --holders" in " ".join(
        str(mr.peak(snap, holders=True)).split()
    )
    (group,) = mr.peak(snap, by="holder").devices[0].groups
    assert group.label == NOT_NOTED


def test_holders_are_not_known_if_the_range_ends_earlier() -> None:
    snap = mr.open(build.dump(two_lists()), stop=3)
    assert mr.peak(snap, holders=True).devices[0].held_by is None
    (group,) = mr.peak(snap, by="holder").devices[0].groups
    assert group.label == NOT_NOTED
    later = mr.open(build.dump(two_lists()), start=2)
    found = mr.peak(later, holders=True).devices[0].held_by
    assert found
    assert [one.name for one in found.groups] == ["losses[…]", "cache[…]"]


def test_reserved_memory_has_no_holders() -> None:
    snap = mr.open(build.dump(two_lists()))
    with pytest.raises(UsageError, match="reserved memory has no holders"):
        mr.peak(snap, measure="reserved", holders=True)


@pytest.mark.parametrize(
    "blocks",
    [None, 3, {}, {"addresses": "", "holders": ""}, {"addresses": "eNoDAAAAAAE=", "holders": 5}],
)
def test_invalid_notes_are_ignored(blocks: object) -> None:
    made = two_lists()
    made["memreplay"]["holders"]["blocks"] = blocks
    assert mr.peak(mr.open(build.dump(made)), holders=True).devices[0].held_by is None


@given(
    traces(max_devices=1),
    of_blocks(1),
)
def test_holders_of_a_group_are_those_of_its_live_blocks(
    snapshot: Snapshot, noted: dict[int, int]
) -> None:
    snap = mr.open(build.dump(with_holders(snapshot, GROUPS, noted)))
    grouper = Grouper(snap, "size")
    for device in snap.devices:
        usage = snap.replay(device).measure()
        if grouper.dimensions.holder.blocks is None:
            continue
        keys = grouper.keys(usage)
        held = HoldersOfGroups(grouper, usage, keys)
        expected: dict[tuple[int, str], int] = {}
        for one in oracle.replay(snapshot, device).lifetimes:
            if one.free_index is None and one.addr in noted:
                bits = one.size.bit_length() - 1 if one.size > 0 else 64
                key = bits, GROUPS[noted[one.addr]].name
                expected[key] = expected.get(key, 0) + one.size
        names = {name for name, _ in expected}
        assert {(name, one.name): one.bytes for name in names for one in held.of(name)} == expected

"""addresses: the allocations that an address was in, against a look at every lifetime."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memreplay as mr
from memreplay.analysis.moments.addresses import event_of, life_of
from memreplay.commands.at.find import at_report
from memreplay.commands.at.result import FoundAllocation
from memreplay.errors import UsageError
from memreplay.snapshot.model import When
from tests import build, oracle
from tests.build import SnapshotBuilder
from tests.strategies import traces


@given(traces(max_devices=1), st.integers(0, 3))
def test_equals_the_oracle(snapshot: build.Snapshot, shift: int) -> None:
    snap = mr.open(build.dump(snapshot))
    for device in snap.devices:
        usage = snap.replay(device).measure("requested")
        lives = oracle.replay(snapshot, device).lifetimes
        for address in {one.addr + shift for one in lives if one.addr + shift < 2**64}:
            there = [
                one
                for one in lives
                if one.addr == address or one.addr < address < one.addr + one.size
            ]
            for number in range(1, len(there) + 1):
                life = life_of(usage, When("address", address, str(number)))
                assert life.total == len(there)
                assert event_of(usage, life) in {one.alloc_index for one in there}
            last = life_of(usage, When("address", address, "-1")) if there else None
            assert last is None or event_of(usage, last) == max(one.alloc_index for one in there)
            if not there:
                with pytest.raises(UsageError, match="no allocation that was read"):
                    life_of(usage, When("address", address))


def test_what_was_there_before() -> None:
    builder = SnapshotBuilder().free(0x1000, 100).alloc(0x1000, 50)
    snap = mr.open(build.dump(builder.build()))
    (found,) = at_report(snap, [When("address", 0x1010)]).devices
    assert found.event_index == -1
    life = found.found
    assert isinstance(life, FoundAllocation)
    assert (life.bytes, life.alloc_event, life.free_event) == (100, None, 1)
    assert (life.number, life.total) == (1, 2)


def test_reserved_memory_has_none() -> None:
    snap = mr.open(build.dump(SnapshotBuilder().alloc(0x1000, 50).segment_alloc(0, 99).build()))
    with pytest.raises(UsageError, match="has no allocations to find"):
        at_report(snap, [When("address", 0x1000)], measure="reserved")

"""addresses: the allocations found at an address match a scan of all allocations."""

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
def test_allocations_at_an_address_match_the_oracle(snapshot: build.Snapshot, shift: int) -> None:
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
                with pytest.raises(
                    UsageError, match=": no selected allocation contains the address"
                ):
                    life_of(usage, When("address", address))


def test_carried_over_allocations_are_found() -> None:
    builder = SnapshotBuilder().free(0x1000, 100).alloc(0x1000, 50)
    snap = mr.open(build.dump(builder.build()))
    (found,) = at_report(snap, [When("address", 0x1010)]).devices
    assert found.event_index == -1
    life = found.allocation
    assert isinstance(life, FoundAllocation)
    assert (life.bytes, life.alloc_event, life.free_event) == (100, None, 1)
    assert (life.number, life.total) == (1, 2)


def test_reserved_memory_has_no_addresses() -> None:
    snap = mr.open(build.dump(SnapshotBuilder().alloc(0x1000, 50).segment_alloc(0, 99).build()))
    with pytest.raises(
        UsageError, match="reserved memory has no allocations to look up; choose another measure"
    ):
        at_report(snap, [When("address", 0x1000)], measure="reserved")


def viewer_numbers(snapshot: build.Snapshot) -> dict[int, list[int]]:
    """Return each event's number in MemoryViz.js (`annotate_snapshot`): the number of frees of its
    address that have completed so far, across all traces.
    """
    versions: dict[int, int] = {}
    found: dict[int, list[int]] = {}
    for device, trace in enumerate(snapshot["device_traces"]):
        found[device] = []
        for event in trace:
            address = event.get("addr", 0)
            found[device].append(versions.setdefault(address, 0))
            versions[address] += event["action"] == "free_completed"
    return found


@given(traces(max_devices=3))
def test_ids_match_pytorchs_viewer(snapshot: build.Snapshot) -> None:
    snap = mr.open(build.dump(snapshot))
    numbers = viewer_numbers(snapshot)
    for device in snap.devices:
        usage = snap.replay(device).measure("requested")
        for row, event in enumerate(oracle.trace_of(snapshot, device)):
            if event["action"] != "alloc":
                continue
            name = f"_{numbers[device][row]}"
            life = life_of(usage, When("address", event["addr"], name))
            # Two allocs without a free in between share a number. The number then refers to the
            # first alloc.
            if life.carried:
                assert not any(
                    one["action"] == "free_completed" and one["addr"] == event["addr"]
                    for one in oracle.trace_of(snapshot, device)[:row]
                )
            else:
                assert life.row <= row
                meant = oracle.trace_of(snapshot, device)[life.row]
                assert (meant["action"], meant["addr"]) == ("alloc", event["addr"])
                assert numbers[device][life.row] == numbers[device][row]


def test_ids_of_pytorchs_viewer_are_parsed() -> None:
    builder = SnapshotBuilder(devices=2).free(0x1000, 100)
    for size in (10, 20, 30):
        builder.alloc(0x1000, size).free(0x1000, size)
    builder.alloc(0x1000, 40, 1).free(0x1000, 40, 1).alloc(0x1000, 50, 1)
    snap = mr.open(build.dump(builder.build()))

    def bytes_of(device: int, name: str) -> int:
        usage = snap.replay(device).measure("requested")
        life = life_of(usage, When("address", 0x1000, name))
        if life.carried:
            return int(memoryview(usage.native.carried_weights())[life.row])
        return usage.native.weight(life.row)

    assert [bytes_of(0, f"_{n}") for n in range(4)] == [100, 10, 20, 30]
    # The viewer doesn't restart at 0 for the next device's trace.
    assert [bytes_of(1, f"_{n}") for n in (4, 5)] == [40, 50]
    usage = snap.replay(0).measure("requested")
    with pytest.raises(UsageError, match=r"is b1000_4 in PyTorch's viewer: .* it has 0 to 3"):
        life_of(usage, When("address", 0x1000, "_4"))
    with pytest.raises(UsageError, match="no allocation starts at this address"):
        life_of(usage, When("address", 0x1001, "_0"))
    part = mr.open(build.dump(builder.build()), start=3)
    with pytest.raises(
        UsageError, match="counts from the recording's first event; leave out --from, or give"
    ):
        life_of(part.replay(0).measure("requested"), When("address", 0x1000, "_1"))

"""Add notes on who held the blocks at the end of test snapshots, as the recorder writes them."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence

from msgspec import json

from memreplay.io.packing import as_text
from memreplay.snapshot.recorded_holders import HeldBy, RecordedHolders
from tests import oracle
from tests.build import Snapshot


def held(name: str, function: str = "train", line: int = 12, kind: str = "variable") -> HeldBy:
    """Return a group without bytes, for `with_holders`."""
    return HeldBy(
        kind=kind,  # type: ignore[arg-type]
        name=name,
        function=function,
        file="/home/ana/train.py",
        line=line,
        type_name="list",
        bytes=0,
        count=0,
        autograd_bytes=0,
        autograd_count=0,
        nodes=(),
        small_views=0,
    )


def with_holders(
    snapshot: Snapshot, groups: Sequence[HeldBy], of_blocks: Mapping[int, int]
) -> Snapshot:
    """Add these groups, and the number of each block's group by address."""
    addresses = sorted(of_blocks)
    noted = RecordedHolders(
        groups=tuple(groups),
        other_groups=0,
        other_bytes=0,
        total_bytes=sum(one.bytes for one in groups),
        seconds=0.1,
        complete=True,
    )
    blocks = {
        "addresses": as_text(array("Q", addresses).tobytes()),
        "holders": as_text(array("I", [of_blocks[at] for at in addresses]).tobytes()),
    }
    notes = snapshot.get("memreplay") or {"version": 1, "recorder": "record"}
    return {
        **snapshot,
        "memreplay": {**notes, "holders": {**json.decode(json.encode(noted)), "blocks": blocks}},
    }


def live_by_holder(
    snapshot: Snapshot, device: int, events: tuple[int, int], of_blocks: Mapping[int, int]
) -> dict[int, tuple[int, int]]:
    """Return (bytes, count) of the live set after an event by the number of its holder, with slow
    code. The recorder looked after the second of `events`. -1: no note; -2: freed before; -3:
    allocated later.
    """
    found: dict[int, tuple[int, int]] = {}
    event, looked = events
    replayed = oracle.replay(snapshot, device)
    there = [id(one) for one in replayed.live_at(looked)]
    for one in replayed.live_at(event):
        if id(one) in there:
            holder = of_blocks.get(one.addr, -1)
        else:
            holder = -3 if one.alloc_index > looked else -2
        size, count = found.get(holder, (0, 0))
        found[holder] = size + one.size, count + 1
    return found

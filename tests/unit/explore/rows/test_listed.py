"""Tests of explore/rows/listed.py: every number matches `memreplay at`."""

from __future__ import annotations

from msgspec.structs import replace

import memreplay as mr
from memreplay.explore.explored import Explored
from memreplay.explore.rows.listed import ListRows
from memreplay.render.units import size
from memreplay.snapshot.model import When
from tests.unit.explore.files import moments


def test_list_matches_at(explored: Explored) -> None:
    for device in explored.snap.devices:
        look = explored.first_look(device)
        for event in moments(explored, device):
            rows = explored.rows(replace(look, event=event, view="list"))
            assert isinstance(rows, ListRows)
            (found,) = mr.at(
                explored.snap, When("event", event), list=True, device=device, top=200
            ).devices
            there = found.allocations or ()
            assert rows.total == found.live_count
            assert [rows.address(i) for i in range(len(rows.found))] == [
                one.address for one in there
            ]
            for i, one in enumerate(there):
                line, shown = rows.line(i), dict(rows.shown(i).pairs)
                assert line.cells[0] == size(one.bytes)
                assert shown["address"] == f"0x{one.address:x}"
                freed = "never" if one.free_event is None else f"at event {one.free_event:,}"
                assert shown["freed"] == freed
                made = "before the first event"
                if one.alloc_event is not None:
                    made = f"at event {one.alloc_event:,}"
                assert shown["allocated"] == made

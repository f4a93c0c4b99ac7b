"""Tests of explore/rows/groups.py: every number matches `memreplay at`."""

from __future__ import annotations

from msgspec.structs import replace

import memreplay as mr
from memreplay.explore.explored import Explored
from memreplay.explore.rows.groups import GroupRows
from memreplay.render.units import percent, size
from memreplay.snapshot.model import When
from tests.unit.explore.files import moments


def test_groups_match_at(explored: Explored) -> None:
    for device in explored.snap.devices:
        look = explored.first_look(device)
        for by in ("stack", "category", "file", "stack,size"):
            for event in moments(explored, device):
                shown = replace(look, event=event, view="groups", by=by, whole=True)
                rows = explored.rows(shown)
                assert isinstance(rows, GroupRows)
                (found,) = mr.at(
                    explored.snap, When("event", event), by=by, device=device, top=200
                ).devices
                assert [rows.group(i) for i in range(len(rows.found))] == list(found.groups)
                assert rows.total == found.groups_total
                for i, group in enumerate(found.groups):
                    line = rows.line(i)
                    assert line.cells[:2] == (size(group.bytes), percent(group.share))
                if rows.rest:
                    assert rows.line(len(rows) - 1).cells[0] == size(found.rest_bytes)

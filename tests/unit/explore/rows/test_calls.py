"""Tests of explore/rows/calls.py: every number matches `memreplay at`."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

import memreplay as mr
from memreplay.analysis.groups.tree import Call
from memreplay.explore.explored import Explored
from memreplay.explore.rows.calls import TreeRows
from memreplay.render.units import percent, size
from memreplay.snapshot.model import When
from tests.unit.explore.files import moments


@pytest.mark.parametrize("inverted", [False, True])
@pytest.mark.parametrize("whole", [False, True])
def test_tree_matches_at(explored: Explored, whole: bool, inverted: bool) -> None:
    explored.share = 0.001
    for device in explored.snap.devices:
        look = replace(explored.first_look(device), whole=whole, inverted=inverted)
        for event in moments(explored, device):
            rows = explored.rows(replace(look, event=event))
            assert isinstance(rows, TreeRows)
            (found,) = mr.at(
                explored.snap,
                When("event", event),
                device=device,
                tree=True,
                tree_share=0.001,
                whole_stacks=whole,
                inverted=inverted,
            ).devices
            assert found.tree
            for key in rows.keys:
                explored.open[key] = True
            rows.unfold()
            calls = [row for row in range(len(rows.visible)) if rows.visible[row] >= 0]
            assert len(calls) == len(found.tree.calls)
            for row, call in zip(calls, found.tree.calls, strict=True):
                line = rows.line(row)
                assert line.cells == (size(call.bytes), percent(call.share), f"{call.count:,}")
                assert line.text.startswith(call.label)
                assert line.level == call.level - 1
            hidden = [row for row in range(len(rows.visible)) if rows.visible[row] < 0]
            assert [rows.line(row).cells[0] for row in hidden] == [
                size(call.hidden_bytes) for call in _closing(found.tree.calls) if call.hidden
            ]
            assert rows.left_out == found.tree.hidden_bytes
            explored.open.clear()


def _closing(calls: tuple[Call, ...]) -> list[Call]:
    """Return the calls in the order in which their subtrees end."""
    found: list[Call] = []
    above: list[Call] = []
    for call in calls:
        while above and above[-1].level >= call.level:
            found.append(above.pop())
        above.append(call)
    return found + above[::-1]

"""Tests of explore/rows/calls.py: every number matches `memreplay at`."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

import memreplay as mr
from memreplay.analysis.code.naming import name_of_stack
from memreplay.analysis.code.plumbing import code_of, file_rank
from memreplay.analysis.groups.tree import Call
from memreplay.explore.explored import Explored
from memreplay.explore.rows.calls import TreeRows
from memreplay.render.units import percent, size
from memreplay.snapshot.model import When
from tests.build import SnapshotBuilder, dump
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
                text = " ".join(line.text.split())
                assert text.startswith((call.label, _name(call, inverted=inverted)))
                assert line.level == call.level - 1
            hidden = [row for row in range(len(rows.visible)) if rows.visible[row] < 0]
            assert [rows.line(row).cells[0] for row in hidden] == [
                size(call.hidden_bytes) for call in _closing(found.tree.calls) if call.hidden
            ]
            assert rows.left_out == found.tree.hidden_bytes
            explored.open.clear()


def _name(call: Call, *, inverted: bool) -> str:
    """Return the name of a stack of these frames."""
    frames = call.frames if inverted else call.frames[::-1]
    user, libraries = code_of([file_rank(one.file) for one in frames])
    return name_of_stack(frames, user, libraries).words


def test_a_library_shows_the_line_that_called_it() -> None:
    builder = SnapshotBuilder(1)
    ein = [("einsum", "/site-packages/einops/a.py", 7), ("einsum", "/site-packages/einops/b.py", 9)]
    for line in (3, 4):
        own = [("forward", "/me/layer.py", 22), ("block", "/me/layer.py", line)]
        builder.alloc(512 * line, 100, frames=[*ein, *own, ("main", "/me/train.py", 5)])
    explored = Explored(mr.open(dump(builder.build())))
    look = replace(explored.first_look(0), event=explored.bounds(0)[1])
    rows = explored.rows(look)
    named = "forward  /me/layer.py:22  … block  /me/layer.py:{}  via einops: einsum"
    assert rows.line(0).name == "main  /me/train.py:5"
    found = sorted(rows.line(at).name.rpartition("  ")[0] for at in (1, 2))
    assert found == [named.format(3), named.format(4)]
    assert [rows.line(at).tail for at in (1, 2)] == ["(+1)"] * 2
    shown = rows.shown(1)
    assert (shown.user, shown.libraries) == ((2, 3, 4), (0, 1))
    outward = explored.rows(replace(look, inverted=True))
    assert outward.line(0).name == named.replace("… block  /me/layer.py:{}  ", "") + (
        "  /site-packages/einops/a.py:7"
    )


def _closing(calls: tuple[Call, ...]) -> list[Call]:
    """Return the calls in the order in which their subtrees end."""
    found: list[Call] = []
    above: list[Call] = []
    for call in calls:
        while above and above[-1].level >= call.level:
            found.append(above.pop())
        above.append(call)
    return found + above[::-1]

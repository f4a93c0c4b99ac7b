"""Tests of explore/rows/groups.py: every number matches `memreplay at`."""

from __future__ import annotations

from msgspec.structs import replace

import memreplay as mr
from memreplay.explore.explored import Explored
from memreplay.explore.rows.groups import GroupRows
from memreplay.render.units import percent, size
from memreplay.snapshot.model import When
from tests import build
from tests.unit.analysis.groups.test_holding import two_lists
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


def test_details_say_who_holds_a_group() -> None:
    explored = Explored(mr.open(build.dump(two_lists())))
    look = replace(explored.first_look(0), view="groups", by="function")
    rows = explored.rows(look)
    pairs = [words for name, words in rows.shown(0).pairs if name == "held by"]
    assert pairs == [
        "3.0 MiB: losses[…] (list) in train() train.py:12",
        "2.0 MiB: cache[…] (list) in serve() train.py:7",
    ]
    by_holder = explored.rows(replace(look, by="holder"))
    assert by_holder.line(0).name == "(freed before the recorder looked)"
    assert by_holder.line(1).name == "losses[…] (list) in train() train.py:12"
    assert "held by" not in dict(by_holder.shown(1).pairs)

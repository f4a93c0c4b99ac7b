"""Tests of explore/rows/parts.py: every number matches `memreplay at`."""

from __future__ import annotations

from msgspec.structs import replace

import memreplay as mr
from memreplay.explore.explored import Explored
from memreplay.explore.rows.parts import PartRows
from memreplay.snapshot.model import MEASURES, When


def test_pools_match_at(explored: Explored) -> None:
    for device in explored.snap.devices:
        for measure in MEASURES:
            look = replace(explored.first_look(device), measure=measure, view="groups", by="pool")
            rows = explored.rows(look)
            assert isinstance(rows, PartRows)
            (found,) = mr.at(
                explored.snap,
                When("event", look.event),
                measure=measure,
                by="pool",
                device=device,
                top=0,
            ).devices
            assert list(rows.groups) == list(found.groups)

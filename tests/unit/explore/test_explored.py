"""Tests of explore/explored.py: every number matches the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

import memreplay as mr
from memreplay.analysis.groups.ways import WAYS
from memreplay.analysis.selecting.selection import Filters
from memreplay.errors import UsageError
from memreplay.explore.explored import Explored
from memreplay.explore.look import Look
from memreplay.explore.rows.groups import GroupRows
from memreplay.snapshot.model import MEASURES, By
from tests.unit.explore.files import FILES


@pytest.mark.parametrize("by", WAYS)
def test_every_key_and_measure_has_rows(by: By) -> None:
    explored = Explored(mr.open(FILES[0]))
    for measure in MEASURES:
        look = replace(
            explored.first_look(explored.snap.devices[0]), by=by, view="groups", measure=measure
        )
        look = explored.fitting(look)
        rows = explored.rows(look)
        assert len(rows) > 0
        for at in range(len(rows)):
            assert rows.line(at).text
            assert rows.shown(at).title


def test_filters_match_peak() -> None:
    path = next(path for path in FILES if path.name.startswith("recorded_gpt"))
    explored = Explored(mr.open(path))
    filters = Filters(include=("forward",), min_bytes=1 << 20)
    look = replace(explored.first_look(0), filters=filters, view="groups", by="file")
    usage = explored.usage(look)
    (found,) = mr.peak(explored.snap, filters=filters, by="file").devices
    assert usage.peak.bytes == found.peak_bytes
    rows = explored.rows(replace(look, event=found.peak_event))
    assert isinstance(rows, GroupRows)
    assert [rows.group(i).bytes for i in range(len(rows.found))] == [
        group.bytes for group in found.groups
    ]
    with pytest.raises(UsageError):
        explored.usage(replace(look, filters=Filters(include=("no such thing",))))


@pytest.mark.parametrize("axis", ["event", "time"])
@pytest.mark.parametrize("columns", [1, 7, 100, 300])
def test_curve_has_each_event_once(explored: Explored, axis: str, columns: int) -> None:
    for device in explored.snap.devices:
        whole = explored.first_look(device)
        replay = explored.replay(whole)
        low, high = explored.bounds(device)
        windows = {(low, high), (low, (low + high) // 2), ((low + high) // 2, high)}
        for first, last in windows:
            look = replace(whole, axis=axis, first=first, last=last, event=last)
            curve = explored.curve(look, columns)
            assert len(curve.lows) == len(curve.highs) == columns
            assert curve.bounds == sorted(curve.bounds)
            base = replay.first_event
            assert curve.bounds[0] == max(first, base)
            assert curve.bounds[-1] == max(last + 1, base)
            usage = explored.usage(look)
            for at in range(columns):
                events = range(curve.bounds[at], curve.bounds[at + 1])
                values = [usage.bytes_at(event) for event in list(events)[:40]] or [
                    usage.bytes_at(curve.bounds[at] - 1)
                ]
                assert curve.lows[at] <= min(values)
                assert max(values) <= curve.highs[at]
                assert usage.bytes_at(curve.high_at[at]) == curve.highs[at]
            for event in {max(first, base), last}:
                if curve.bounds[-1] > curve.bounds[0]:
                    at = explored.column(look, columns, event)
                    assert curve.bounds[at] <= event < curve.bounds[at + 1]


def test_marks_match_the_reports(explored: Explored) -> None:
    for device in explored.snap.devices:
        look = explored.first_look(device)
        marks = explored.marks(look)
        (found,) = mr.peak(explored.snap, peaks=5, device=device).devices
        there = {point.event_index for point in found.peaks or ()}
        assert there <= set(marks.peaks) or not explored.replay(look).events
        for events in marks:
            assert events == sorted(events)


def test_first_look_is_at_the_peak(tmp_path: Path) -> None:
    explored = Explored(mr.open(FILES[0]))
    (found, *_) = mr.peak(explored.snap).devices
    look = explored.first_look(found.device)
    assert look.event == found.peak_event
    low, high = explored.bounds(found.device)
    assert look == Look(device=found.device, event=found.peak_event, first=low, last=high)

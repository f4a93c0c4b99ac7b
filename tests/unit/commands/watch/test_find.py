"""Tests of commands/watch/find.py: its numbers match those of other commands."""

from __future__ import annotations

from pathlib import Path

import pytest

import memreplay
from memreplay.commands.watch.find import watched_devices
from memreplay.snapshot.model import Group, MeasureName
from tests import build
from tests.conftest import ROOT

EXAMPLES = sorted((ROOT / "examples").rglob("*.pkl.gz"))


@pytest.mark.parametrize("measure", ["requested", "held", "reserved"])
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_numbers_match_peak(path: Path, measure: MeasureName) -> None:
    snap = memreplay.open(path)
    by = "pool" if measure == "reserved" else "category"
    peaks = memreplay.peak(snap, measure=measure, by=by).devices
    reserved = memreplay.peak(snap, measure="reserved").devices
    found = watched_devices(snap, measure=measure)
    assert [one.device for one in found] == [one.device for one in peaks]
    for one, peak, most in zip(found, peaks, reserved, strict=True):
        for name in ("peak_bytes", "peak_event", "peak_us", "start_us", "exactness", "trusted"):
            assert getattr(one, name) == getattr(peak, name), name
        assert one.reasons == peak.reasons
        assert one.reserved_peak_bytes == most.peak_bytes
        assert (one.step, one.annotation) == (peak.step, peak.annotation)
        assert one.largest is not None
        largest, first = one.largest, peak.groups[0]
        if first.label == "unknown":
            assert largest.by == "line"
            other = memreplay.peak(snap, measure=measure, by="line", device=one.device)
            first = other.devices[0].groups[0]
        else:
            assert largest.by == by
        assert (largest.label, largest.bytes) == (name_of(first), first.bytes)
        assert largest.share == pytest.approx(first.share)


def name_of(group: Group) -> str:
    """Return the name shown in the last column."""
    if not group.frames:
        return group.label
    frame = group.frames[0]
    return f"{frame.function} {frame.file.split('/')[-1]}:{frame.line}"


def test_impossible_line_number_is_omitted() -> None:
    frames = [("f", "/job/a.py", 2**64 - 1)]
    built = build.SnapshotBuilder().alloc(0x1000, 512, frames=frames).build()
    (one,) = watched_devices(memreplay.open(build.dump(built)))
    assert one.largest is not None
    assert (one.largest.by, one.largest.label) == ("line", "f a.py")


def test_exceeded_limits_are_listed() -> None:
    snap = memreplay.open(EXAMPLES[0])
    (one, *_) = watched_devices(snap)
    peak, reserved = one.peak_bytes, one.reserved_peak_bytes
    assert reserved is not None
    for max_peak, max_reserved, past in (
        (peak, None, ()),
        (peak - 1, None, ("max_peak",)),
        (None, reserved, ()),
        (peak - 1, reserved - 9, ("max_peak", "max_reserved")),
        (0, None, ("max_peak",)),
    ):
        (first, *_) = watched_devices(snap, max_peak=max_peak, max_reserved=max_reserved)
        assert first.over_limits == past

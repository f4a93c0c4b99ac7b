"""Timelines of small synthetic recordings, for testing reports."""

from __future__ import annotations

import memreplay as mr
from memreplay.commands.timeline.find import timeline_report
from memreplay.commands.timeline.result import TimelineReport
from memreplay.snapshot.model import Moment
from tests import build
from tests.build import START_US, SnapshotBuilder

MIB = 1 << 20
FORWARD = [("at::empty", "??", 0), ("forward", "/home/ada/model.py", 7), ("main", "train.py", 3)]
LOSS = [("loss", "/home/ada/loss.py", 21)]


def recording(devices: int = 2) -> SnapshotBuilder:
    """Build a recording: device 0 goes up to 400 MiB in 40 steps of 10 MiB, and down again. Device
    1 goes half as high.
    """
    builder = SnapshotBuilder(devices=devices)
    for device in range(devices):
        time = START_US + device * 500_000
        for i in range(40 // (device + 1)):
            frames = FORWARD if i % 4 else LOSS
            builder.alloc((i + 1) << 24, 10 * MIB, device=device, frames=frames, time_us=time)
            time += 25_000
        for i in range(40 // (device + 1)):
            builder.free_completed((i + 1) << 24, 10 * MIB, device=device, time_us=time)
            time += 25_000
    builder.oom(1 << 40, time_us=START_US + 1_990_000)
    for name, start, end in (
        ("step 1", 0, 1_000_000),
        ("forward", 100_000, 500_000),
        ("step 2", 1_000_000, 1_900_000),
    ):
        builder.annotation(name, "START", START_US + start)
        builder.annotation(name, "END", START_US + end)
    return builder


def measured(unit: int, *, others: bool = True) -> SnapshotBuilder:
    """Build the recording with samples of device 0's memory, in units of this many bytes. The first
    sample doesn't know other processes, and without `others`, none does.
    """
    card = {
        "device": 0,
        "total_bytes": 1000 * unit,
        "is_part": False,
        "times_us": [START_US + 300_000, START_US + 1_100_000, START_US + 9_000_000],
        "free_bytes": [900 * unit, 500 * unit, 400 * unit],
        "reserved_bytes": [60 * unit] * 3,
        "other_bytes": [None, *([300 * unit if others else None] * 2)],
        "processes": [],
        "processes_missing": "",
    }
    notes = {"version": 1, "recorder": "record", "card_memory": [card]}
    return recording().top("memreplay", notes)


def made(
    builder: SnapshotBuilder | None = None,
    *,
    device: int | None = None,
    start: int | None = None,
    stop: int | None = None,
    **options: object,
) -> TimelineReport:
    """Return a recording's report, or the report of a range of its events. The default is
    `recording()`.
    """
    snapshot = (recording() if builder is None else builder).build()
    snap = mr.open(
        build.dump(snapshot),
        device=device,
        start=None if start is None else Moment("event", start),
        stop=None if stop is None else Moment("event", stop),
    )
    return timeline_report(snap, **options)

"""Tests of analysis/moments/opening.py: ranges whose bounds are moments in any form."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import memreplay as mr
from memreplay.analysis.moments.moments import resolve
from memreplay.analysis.selecting.parsing import parse_when
from memreplay.errors import UsageError
from memreplay.snapshot.model import Moment, When
from tests import build
from tests.build import START_US, SnapshotBuilder

DAY_US = 86_400_000_000


def marked() -> SnapshotBuilder:
    """Build three steps of four events each, 10 us per event; the middle one has the peak (event 6)
    and a failed request (event 7 of 13).
    """
    builder = SnapshotBuilder()
    at = START_US
    for step, size in enumerate((100, 900, 300)):
        builder.annotation(f"ProfilerStep#{step}", "START", at - 5)
        builder.annotation("work", "START", at + 5)
        builder.alloc(0x1000, 50, time_us=at)
        builder.free_completed(0x1000, 50, time_us=at + 10)
        builder.alloc(0x2000, size, time_us=at + 20)
        if step == 1:
            builder.oom(1000, time_us=at + 25)
        builder.free_completed(0x2000, size, time_us=at + 30)
        builder.annotation("work", "END", at + 22)
        builder.annotation(f"ProfilerStep#{step}", "END", at + 35)
        at += 40
    return builder


def data() -> bytes:
    return build.dump(marked().build())


# The numbers of the first event in the range and of the first one after it.
FORMS = [
    ("start", None, 0, 13),
    ("start", "end", 0, 13),
    ("4", "9", 4, 9),
    ("peak", None, 6, 13),
    (None, "peak", 0, 7),
    ("peak:2", None, 11, 13),
    ("oom", None, 7, 13),
    (None, "oom", 0, 8),
    ("step:2", None, 4, 13),
    (None, "step:2", 0, 9),
    ("step:2", "step:2", 4, 9),
    ("step:-1", "step:-1", 9, 13),
    (None, "step:2:start", 0, 4),
    ("step:2:end", None, 9, 13),
    ("step:2:peak", "step:2:peak", 6, 7),
    ("work", None, 1, 13),
    (None, "work", 0, 3),
    ("work#2", "work#2", 5, 7),
    ("work#2:end", None, 7, 13),
    (None, "work#2:start", 0, 5),
    ("annotation:ProfilerStep#1", "annotation:ProfilerStep#1", 4, 9),
    ("0x2000", "0x2000#2", 2, 7),
    ("4", "step:2", 4, 9),
    ("step:2", "70us", 4, 8),
]


@pytest.mark.parametrize("start, stop, first, after", FORMS)
def test_each_form_bounds_a_range(
    start: str | None, stop: str | None, first: int, after: int
) -> None:
    replay = mr.open(data(), start=start, stop=stop).replay()
    assert (replay.first_event, replay.first_event + replay.events) == (first, after)


def test_time_of_day_is_a_bound() -> None:
    us = (START_US + 40) % DAY_US
    seconds, micros = divmod(us, 1_000_000)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{micros:06}"
    assert mr.open(data(), start=text).replay().first_event == 4
    assert mr.open(data(), stop=text).replay().events == 4


def test_moments_are_those_of_at() -> None:
    snap = mr.open(data())
    usage = snap.replay().measure()
    for text in ("peak", "peak:2", "oom", "0x2000", "step:2:end", "work#2:end", "step:2:peak"):
        event = resolve(snap, usage, parse_when(text))
        part = mr.open(data(), stop=text).replay()
        assert part.start + part.events == event  # the range ends with the moment


def test_range_is_stored_as_event_numbers() -> None:
    snap = mr.open(data(), start="step:2", stop="step:2")
    assert snap.range.start == Moment("event", 4)
    assert snap.range.stop == Moment("event", 9)
    given = mr.open(data(), start=When("step", 2), stop=When("step", 2, edge="end"))
    assert given.range == snap.range
    assert mr.open(data(), start="1.5s").range.start == Moment("elapsed", 1_500_000)
    assert mr.open(data(), start=When("event", 3)).range.start == Moment("event", 3)


@pytest.mark.parametrize("bounds", [{"start": 4}, {"stop": "9"}, {"start": "20us", "stop": "@9"}])
def test_events_and_times_need_one_read(bounds: dict[str, Any]) -> None:
    reading, writing = os.pipe()
    os.write(writing, data())
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        mr.open(pipe, **bounds)


def test_file_objects_are_read_twice_from_their_position(tmp_path: Path) -> None:
    path = tmp_path / "snap.pkl"
    path.write_bytes(b"before" + data())
    with path.open("rb") as file:
        file.seek(6)
        assert mr.open(file, start="step:2").replay().first_event == 4
    path.write_bytes(data())
    assert mr.open(path, start="step:2").replay().first_event == 4


def test_pipe_cannot_be_read_twice() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"x")
    os.close(writing)
    with (
        os.fdopen(reading, "rb") as pipe,
        pytest.raises(UsageError, match="can be read only once"),
    ):
        mr.open(pipe, start="step:2")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_named_pipe_cannot_be_read_twice(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(UsageError, match="can be read only once"):
        mr.open(path, stop="peak")


@pytest.mark.parametrize(
    "bounds, words",
    [
        ({"start": "step:9"}, "device 0 has 3 steps"),
        ({"start": "none"}, "no annotation 'none'; known: "),
        ({"stop": "oom:2"}, "1 failed request"),
        ({"start": "1.5"}, "'1.5' is not a moment; give an event"),
        ({"stop": "1.5"}, "'1.5' is not a moment; give an event"),
        ({"stop": "step:1:start"}, "it would stop before the first event"),
        ({"start": "end"}, "no events after the end"),
        ({"stop": "start"}, "no events before the start"),
    ],
)
def test_moments_that_do_not_exist_are_errors(bounds: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        mr.open(data(), **bounds)


def two_marked_devices() -> bytes:
    """Build three steps that both devices take at the same time. Device 1 allocates twice in each,
    and between steps, device 0 allocates once.
    """
    builder = SnapshotBuilder(devices=2)
    for step in range(3):
        at = START_US + 100 * step
        for device in range(2):
            builder.annotation(f"ProfilerStep#{step}", "START", at, device)
            for k in range(1 + device):
                address = 0x1000 * (10 * step + k + 1)
                builder.alloc(address, 64 << step, device, time_us=at + 10 + 20 * k + device)
            builder.annotation(f"ProfilerStep#{step}", "END", at + 60, device)
        builder.alloc(0x9000 + step, 8, 0, time_us=at + 80)
    return build.dump(builder.build())


@pytest.mark.parametrize(
    "start, stop",
    [
        ("step:2", "step:2"),
        ("step:2", None),
        (None, "step:1"),
        ("step:1:end", "step:3:start"),
        ("ProfilerStep#1", "ProfilerStep#2"),
        ("annotation:ProfilerStep#1", None),
        (None, "step:3"),
        ("peak", None),
    ],
)
def test_each_device_is_cut_at_its_own_event(start: str | None, stop: str | None) -> None:
    data = two_marked_devices()
    both = mr.open(data, start=start, stop=stop)
    for device in range(2):
        own = mr.open(data, start=start, stop=stop, device=device).replay(device)
        replay = both.replay(device)
        assert (replay.first_event, replay.events) == (own.first_event, own.events)
        assert replay.measure().peak == own.measure().peak


def two_devices() -> bytes:
    builder = SnapshotBuilder(devices=2)
    at = START_US
    builder.alloc(0x1000, 10, 0, time_us=at).alloc(0x2000, 20, 0, time_us=at + 10)
    builder.alloc(0x1000, 30, 1, time_us=at).free_completed(0x1000, 30, 1, time_us=at + 10)
    return build.dump(builder.build())


def test_devices_must_agree_on_a_time() -> None:
    words = r"events \(device 0: event 1, device 1: event 0\) and times; .* --device 0"
    with pytest.raises(UsageError, match=words):
        mr.open(two_devices(), start="peak")
    part = mr.open(two_devices(), start="peak", device=1)
    assert part.replay(1).first_event == 0
    assert mr.open(two_devices(), start="peak", device=0).replay(0).first_event == 1

"""annotations: pairing START with END, and finding the events in between."""

from __future__ import annotations

import memreplay as mr
from memreplay.analysis.annotations.spans import spans
from memreplay.snapshot.model import Span
from tests import build
from tests.build import START_US, SnapshotBuilder


def found(builder: SnapshotBuilder, device: int = 0) -> tuple[Span, ...]:
    snap = mr.open(build.dump(builder.build()))
    return spans(snap, snap.replay(device))


def three(devices: int = 1) -> SnapshotBuilder:
    """Return allocs on device 0 at 10, 20 and 30 us after the start."""
    builder = SnapshotBuilder(devices=devices)
    for i in (1, 2, 3):
        builder.alloc(i << 9, 100, time_us=START_US + 10 * i)
    return builder


def test_start_and_end_make_a_span_of_events() -> None:
    builder = three().annotation("a", "START", START_US + 15)
    builder.annotation("a", "END", START_US + 25)
    assert found(builder) == (Span("a", START_US + 15, START_US + 25, 0, 1),)


def test_events_at_the_exact_bounds_are_inside() -> None:
    builder = three().annotation("a", "START", START_US + 20)
    builder.annotation("a", "END", START_US + 30)
    assert found(builder) == (Span("a", START_US + 20, START_US + 30, 0, 2),)


def test_nested_and_unbalanced_annotations_are_paired() -> None:
    builder = three()
    for name, stage, at in (
        ("b", "END", 5),
        ("a", "START", 11),
        ("a", "START", 12),
        ("b", "START", 13),
        ("a", "END", 14),
        ("a", "END", 25),
        ("x", "MIDDLE", 26),
    ):
        builder.annotation(name, stage, START_US + at)
    assert found(builder) == (
        Span("a", START_US + 11, START_US + 25, 0, 1),
        Span("a", START_US + 12, START_US + 14, 0, 0),
        Span("b", START_US + 13, None, 0, None),
    )


def test_end_before_its_start_is_moved_to_the_start() -> None:
    builder = three().annotation("a", "START", START_US + 25)
    builder.annotation("a", "END", START_US + 15)
    assert found(builder) == (Span("a", START_US + 25, START_US + 25, 1, 1),)


def test_spans_can_be_selected_by_name() -> None:
    builder = three(2)
    for name, stage, at in (
        ("b", "START", 5),
        ("a", "START", 11),
        ("a#2", "START", 12),
        ("b", "END", 13),
        ("a", "END", 14),
        ("b", "START", 21),
    ):
        builder.annotation(name, stage, START_US + at)
    builder.annotation("b", "START", START_US, device=1)
    snap = mr.open(build.dump(builder.build()))
    every = spans(snap, snap.replay(0))
    for name in ("a", "b", "a#2", "", "c"):
        named = tuple(span for span in every if span.name == name)
        assert spans(snap, snap.replay(0), name) == named
    assert len(spans(snap, snap.replay(0), "b")) == 2


def test_spans_of_one_device_are_sorted_by_time() -> None:
    builder = three(2).alloc(1, 5, device=1, time_us=START_US)
    builder.annotation("late", "START", START_US + 30).annotation("early", "START", START_US + 1)
    builder.annotation("other", "START", START_US, device=1)
    assert [span.name for span in found(builder)] == ["early", "late"]
    assert [span.name for span in found(builder, 1)] == ["other"]


def test_trace_without_times_or_annotations_has_no_spans() -> None:
    assert found(three()) == ()
    builder = SnapshotBuilder(times=False).alloc(512, 1).annotation("a", "START", START_US)
    assert found(builder) == ()


def test_spans_are_cached() -> None:
    builder = three()
    for name, at in (("a", 5), ("b", 15), ("a", 25)):
        builder.annotation(name, "START", START_US + at).annotation(name, "END", START_US + at + 4)
    snap = mr.open(build.dump(builder.build()))
    replay = snap.replay()
    alone = spans(snap, replay, "a")
    assert replay.spans is None  # only one name was requested
    every = spans(snap, replay)
    assert spans(snap, replay) is every
    assert [span.name for span in every] == ["a", "b", "a"]
    assert spans(snap, replay, "a") == alone == (every[0], every[2])
    assert spans(snap, replay, "nothing") == ()

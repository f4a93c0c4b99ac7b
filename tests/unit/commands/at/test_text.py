"""Tests of commands/at/text.py."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from memreplay.commands.at.result import AtReport, DeviceAt, LiveAllocation, Stack
from memreplay.commands.at.text import at_document, when_text
from memreplay.render.plain import render_plain
from memreplay.snapshot.model import Frame, When
from tests.unit.commands.results import ATTENTION, NO_STACK, START_US

MIB, GIB = 1 << 20, 1 << 30
ROW = LiveAllocation(
    address=0x7F00_0000_0000,
    bytes=5 * MIB,
    alloc_event=10,
    alloc_us=START_US + 1_000,
    age_events=90,
    age_us=250_000,
    free_event=1_234,
    free_us=START_US + 900_000,
    freed_at=Frame("zero_grad", "/home/ada/run/train.py", 70),
    stream=0,
    pool=(0, 0),
    label=ATTENTION.label,
    stack=0,
)
STACK = Stack(label=ATTENTION.label, frames=ATTENTION.frames, user=ATTENTION.user)
FOUND = DeviceAt(
    device=0,
    measure="requested",
    exactness="exact",
    moment=When("annotation", name="step#2", edge="end"),
    event_index=100,
    time_us=START_US + 251_000,
    start_us=START_US,
    live_bytes=8 * GIB,
    live_count=110,
    peak_bytes=16 * GIB,
    first_event=0,
    events=5_000,
    trace_events=5_000,
    groups=(ATTENTION, NO_STACK),
    groups_total=3,
    rest_bytes=GIB + 512 * MIB,
    rest_count=7,
    trusted=True,
    reasons=(),
)
REPORT = AtReport(file="snap.pkl", measure="requested", by="stack", devices=(FOUND,))


def listing(*allocations: LiveAllocation) -> DeviceAt:
    return replace(FOUND, allocations=allocations, stacks=(STACK,))


def lines(report: AtReport, width: int = 100) -> list[str]:
    return render_plain(at_document(report), width=width).splitlines()


def test_report_has_the_expected_lines() -> None:
    text = lines(REPORT)
    assert text[2] == (
        "device 0: 8.0 GiB requested after event 100 of 5,000, +0.251 s"
        " (2026-07-12 16:40:22.251000 UTC)"
    )
    assert "moment   end of annotation step#2" in text
    assert "peak     16.0 GiB, of which this is 50.0%" in text
    assert "live     110 blocks" in text
    assert any("1 more group" in line for line in text)
    assert not any("address" in line for line in text)


def test_list_shows_each_allocation_and_where_it_was_freed() -> None:
    old = replace(
        ROW,
        alloc_event=None,
        alloc_us=None,
        age_us=None,
        age_events=None,
        free_event=None,
        free_us=None,
        freed_at=None,
        stack=1,
    )
    nowhere = Stack(label="(allocated before the recording)")
    found = replace(FOUND, allocations=(ROW, old), stacks=(STACK, nowhere))
    text = lines(replace(REPORT, devices=(found,)))
    at = next(i for i, line in enumerate(text) if "address" in line)
    assert text[at].split() == ["bytes", "address", "age", "freed", "at", "allocated", "at"]
    assert "5.0 MiB  0x7f0000000000  0.250 s     1,234  scaled_dot" in text[at + 1]
    assert "freed: zero_grad" in text[at + 2]
    assert text[at + 3].split()[2:5] == ["0x7f0000000000", "before", "never"]
    assert "108 more (--top 0 shows all)" in text[at + 4]
    assert "8.0 GiB" in text[at + 4]


def test_streams_and_pools_are_shown_only_if_they_differ() -> None:
    found = listing(ROW, replace(ROW, stream=7, pool=(0, 1)))
    text = lines(replace(REPORT, devices=(found,)))
    head = next(line for line in text if "address" in line)
    assert "stream  pool" in head
    unknown = listing(replace(ROW, stream=None, pool=None))
    text = lines(replace(REPORT, devices=(unknown,)))
    assert not any("stream" in line for line in text)


@pytest.mark.parametrize("width", [40, 80, 160])
def test_lines_fit_the_width(width: int) -> None:
    found = listing(ROW, ROW, ROW)
    report = replace(REPORT, devices=(found,), missing=("device 1 has no event 3",))
    text = lines(report, width)
    assert all(len(line) <= width for line in text[:9])
    assert "note: device 1 has no event 3" in text


def test_first_line_names_the_final_state_or_the_start() -> None:
    (final,) = (replace(FOUND, events=0, trace_events=0, event_index=-1, time_us=None),)
    assert "8.0 GiB requested in the final state" in lines(replace(REPORT, devices=(final,)))[2]
    (start,) = (replace(FOUND, event_index=-1, time_us=None),)
    assert (
        "at the start, before the first of 5,000 events"
        in lines(replace(REPORT, devices=(start,)))[2]
    )


@pytest.mark.parametrize(
    "when, words",
    [
        (When("event", 1200), "event 1,200"),
        (When("elapsed", 1_500_000), "+1.500 s after the first event"),
        (When("time", START_US), "2026-07-12 16:40:22.000000 UTC"),
        (When("peak", 1), "the peak"),
        (When("peak", 2), "separate peak 2, by height"),
        (When("start"), "the start"),
        (When("end"), "the end"),
        (When("annotation", name="a"), "start of annotation a"),
        (When("annotation", name="a", edge="peak"), "peak within annotation a"),
    ],
)
def test_moments_are_described(when: When, words: str) -> None:
    assert when_text(when) == words

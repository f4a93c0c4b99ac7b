"""Tests of commands/allocations/text.py."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import asdict, replace

from memreplay.commands.allocations.result import (
    AllocationGroup,
    AllocationsReport,
    AllocationSums,
    DeviceAllocations,
    EventsClass,
    SizeClass,
    TimeClass,
)
from memreplay.commands.allocations.text import allocations_document
from memreplay.render.fit import cell_width
from memreplay.render.plain import render_plain
from memreplay.snapshot.model import Group
from tests.unit.commands.results import ATTENTION, AUTOGRAD, GIB, KIB, MIB

TOTAL = AllocationSums(
    count=2_000,
    bytes=40 * GIB,
    mean_bytes=20 * MIB,
    temporary_count=150,
    temporary_bytes=GIB,
    live_count=100,
    live_bytes=2 * GIB,
    mean_lifetime_events=40,
    mean_lifetime_us=5_820,
)
REST = replace(TOTAL, count=904, bytes=18 * GIB, temporary_count=50, live_count=0)


def means(sums: AllocationSums) -> dict[str, Any]:
    return {name: one for name, one in asdict(sums).items() if name not in ("count", "bytes")}


def grouped(group: Group, sums: AllocationSums, **alone: Any) -> AllocationGroup:
    return AllocationGroup(**asdict(group), **means(sums), **alone)


def whole(sums: AllocationSums) -> dict[str, Any]:
    """Return a device's totals."""
    frees = sums.count - sums.live_count
    return {
        "allocation_count": sums.count,
        "allocated_bytes": sums.bytes,
        "frees": frees,
        **means(sums),
    }


GROUP = grouped(
    replace(ATTENTION, bytes=20 * GIB), replace(TOTAL, count=96, bytes=20 * GIB, live_count=100)
)
BACKWARD = grouped(
    replace(AUTOGRAD, bytes=2 * GIB, share=0.05),
    replace(
        TOTAL,
        count=1_000,
        bytes=2 * GIB,
        temporary_count=0,
        live_count=0,
        mean_lifetime_events=None,
        mean_lifetime_us=None,
    ),
)
FOUND = DeviceAllocations(
    device=0,
    measure="requested",
    exactness="exact",
    first_event=0,
    events=6_200,
    trace_events=6_200,
    duration_us=2_000_000,
    **whole(TOTAL),
    min_bytes=4,
    max_bytes=200 * MIB,
    median_bytes=3 * MIB,
    median_lifetime_events=14,
    median_lifetime_us=89,
    sizes=(SizeClass(4, 7, 500, 2_000), SizeClass(1 << 27, (1 << 28) - 1, 1_500, 40 * GIB)),
    lifetimes_events=(EventsClass(1, 9, 900, GIB), EventsClass(10, 99, 1_000, 37 * GIB)),
    lifetimes_us=(
        TimeClass(0, 0, 10, KIB),
        TimeClass(1_000, 9_999, 1_885, 38 * GIB),
    ),
    untimed_count=5,
    untimed_bytes=3 * KIB,
    new_segment_count=20,
    peak_bytes=8 * GIB,
    carried_over_count=7,
    carried_over_bytes=GIB,
    carried_over_freed_count=2,
    carried_over_freed_bytes=MIB,
    groups=(GROUP, BACKWARD),
    peak_ratio=5.0,
    allocations_per_s=1_000.0,
    bytes_per_s=20.0 * GIB,
    rest_bytes=REST.bytes,
    rest_count=REST.count,
    groups_total=12,
    rest=REST,
    trusted=True,
    reasons=(),
)
REPORT = AllocationsReport(
    file="snap.pkl",
    measure="requested",
    by="stack",
    sort="bytes",
    temporary_threshold=0,
    devices=(FOUND,),
)
NOTHING = AllocationSums(
    count=0,
    bytes=0,
    mean_bytes=None,
    temporary_count=0,
    temporary_bytes=0,
    live_count=0,
    live_bytes=0,
    mean_lifetime_events=None,
    mean_lifetime_us=None,
)
EMPTY = replace(
    FOUND,
    duration_us=None,
    peak_ratio=None,
    allocations_per_s=None,
    bytes_per_s=None,
    **whole(NOTHING),
    min_bytes=None,
    max_bytes=None,
    median_bytes=None,
    median_lifetime_events=None,
    median_lifetime_us=None,
    sizes=(),
    lifetimes_events=(),
    lifetimes_us=None,
    untimed_count=0,
    untimed_bytes=0,
    new_segment_count=0,
    groups=(),
    groups_total=0,
    rest=NOTHING,
)
TIMELESS = replace(
    FOUND,
    duration_us=None,
    allocations_per_s=None,
    bytes_per_s=None,
    median_lifetime_us=None,
    lifetimes_us=None,
    untimed_count=1_900,
    untimed_bytes=38 * GIB,
    mean_lifetime_us=None,
)


def text(found: DeviceAllocations, width: int = 100, **changes: object) -> str:
    report = replace(REPORT, devices=(found,), **changes)
    return render_plain(allocations_document(report), width=width)


def test_header_shows_totals() -> None:
    lines = text(FOUND).splitlines()[2:]
    first = [
        "device 0: 2,000 allocations of 40.0 GiB requested, in 6,200 events over 2.00 s",
        "measure       requested, exact",
        "rate          1,000 allocations and 20.0 GiB a second",
        "turnover      5.0 times the peak of 8.0 GiB",
        "sizes         4 B to 200.0 MiB, median 3.0 MiB, mean 20.0 MiB",
        "lifetimes     median 89 us (14 events), mean 5.82 ms",
        "temporary     150 (7.5%) of 1.0 GiB freed before the next allocation",
        "freed         1,900; 100 of 2.0 GiB still live at the end",
        "reuse         1,980 (99.0%) needed no new segment",
        "carried over  7 blocks of 1.0 GiB from before the first event, not counted here;",
    ]
    assert lines[:10] == [*first[:-1], first[-1] + " 2 (1.0 MiB) freed"]
    assert lines[11:23] == [
        "sizes from  count  share     bytes",
        "       4 B    500  25.0%   2.0 KiB  █████████████",
        "      16 B      -                -",
        "  64.0 MiB  1,500  75.0%  40.0 GiB  " + "█" * 40,
        "",
        "lifetimes from  count  share     bytes",
        "          0 us     10   0.5%   1.0 KiB  ▏",
        "          1 us      -                -",
        "          1 ms  1,885  94.2%  38.0 GiB  " + "█" * 40,
        "     not known      5   0.2%   3.0 KiB  ▏",
        "    still live    100   5.0%   2.0 GiB  ██",
        "",
    ]


def test_groups_are_rows_of_a_table() -> None:
    rows = text(FOUND, width=160).splitlines()
    first = next(row for row in rows if "scaled_dot" in row)
    assert first.split()[:9] == ["20.0", "GiB", "50.0%", "96", "20.0", "MiB", "150", "5.82", "ms"]
    second = next(row for row in rows if "(autograd)" in row)
    assert "-          -     -  MulBackward0 (autograd)  aten::mul_Tensor" in second
    assert rows[-1].split()[:3] == ["18.0", "GiB", "45.0%"]
    assert rows[-1].endswith("10 more groups (--top 0 shows all)")


def test_table_fits_80_columns() -> None:
    lines = text(FOUND, width=80).splitlines()
    assert max(map(cell_width, lines)) <= 80
    (titles,) = (line for line in lines if "allocated at" in line)
    assert titles.split()[:5] == ["bytes", "count", "temporary", "mean", "life"]


def test_wide_histograms_are_side_by_side() -> None:
    (titles,) = (line for line in text(FOUND, 160).splitlines() if "sizes from" in line)
    assert "lifetimes from" in titles


def test_lifetimes_are_in_events_without_times() -> None:
    shown = text(TIMELESS)
    assert "requested, in 6,200 events\n" in shown
    assert "a second" not in shown
    assert "median 14 events, mean 40\n" in shown
    assert "1 event    900" in shown
    assert "10 events  1,000" in shown
    assert "mean events" in shown
    assert "note: the file has no times, so lifetimes are in events and rates aren't known" in shown


@pytest.mark.parametrize(
    "changes, words",
    [
        (
            {"events": 0, "trace_events": 0, "trusted": False, "reasons": ("no_events",)},
            "no events were recorded, so its allocations aren't known",
        ),
        ({"events": 0, "trace_events": 0}, "device 0: no events\n"),
        ({"events": 0}, "device 0: no events in this range\n"),
        ({"events": 9}, "device 0: no allocations, in 9 events\n"),
    ],
)
def test_text_says_that_there_is_nothing_to_count(changes: dict[str, object], words: str) -> None:
    shown = text(replace(EMPTY, **changes)) + "\n"
    assert words in shown
    assert "no times" not in shown


def test_text_without_events_says_what_to_do() -> None:
    shown = text(replace(EMPTY, events=0, trace_events=0, trusted=False, reasons=("no_events",)))
    assert "note: next time, call torch.cuda.memory._record_memory_history()" in shown


def test_header_shows_filters_range_and_threshold() -> None:
    shown = text(
        replace(FOUND, first_event=100, trace_events=10_000),
        pool=(0, 1),
        stream=7,
        temporary_threshold=2,
    )
    assert "pool          0:1 only" in shown
    assert "stream        7 only" in shown
    assert "range         events 100 to 6,299 of 10,000" in shown
    assert "from before the range, not counted here" in shown
    assert "freed with at most 2 others allocated in between" in shown


def test_size_groups_are_named_by_their_range() -> None:
    groups = (
        grouped(
            Group(label="8 B to 16 B", bytes=90, count=9, share=0.1),
            TOTAL,
            min_bytes=8,
            max_bytes=15,
        ),
        grouped(Group(label="0 B", bytes=0, count=9, share=0.1), TOTAL, min_bytes=0, max_bytes=0),
    )
    lines = text(replace(FOUND, groups=groups, groups_total=2), by="size").splitlines()
    assert [line.split("  ")[-1] for line in lines[-2:]] == ["8 B to 16 B", "0 B"]


def test_lifetimes_are_omitted_if_nothing_was_freed() -> None:
    total = replace(TOTAL, mean_lifetime_events=None, mean_lifetime_us=None)
    shown = text(
        replace(
            FOUND,
            **whole(total),
            lifetimes_us=(),
            lifetimes_events=(),
            median_lifetime_us=None,
            median_lifetime_events=None,
            untimed_count=0,
        )
    )
    assert "lifetimes     none ended" in shown
    assert "still live" in shown


def test_empty_file_has_a_note() -> None:
    report = replace(REPORT, devices=())
    assert "neither events nor segments" in render_plain(allocations_document(report), width=80)


def test_full_ring_buffer_is_reported() -> None:
    shown = " ".join(text(replace(FOUND, trusted=False, reasons=("ring_overflow",))).split())
    assert "allocations before the oldest remaining event aren't counted" in shown

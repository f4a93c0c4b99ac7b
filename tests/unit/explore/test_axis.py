"""Tests of explore/axis.py: ticks are at the numbers that their labels say."""

from __future__ import annotations

from msgspec.structs import replace

from memreplay.explore.axis import column_ticks, row_labels, tick_line
from memreplay.explore.explored import Explored


def test_event_ticks_are_in_their_events_columns(explored: Explored) -> None:
    for device in explored.snap.devices:
        look = explored.first_look(device)
        low, high = explored.bounds(device)
        for first, last in ((low, high), ((low + high) // 3, (low + high) // 2)):
            shown = replace(look, first=first, last=last, event=first)
            bounds = explored.curve(shown, 100).bounds
            found = column_ticks(explored, shown, 100, 100)
            assert found or last - first < 2
            for column, label in found:
                if label == "start":
                    assert (column, first) == (0, low)
                    continue
                event = int(label.replace(",", ""))
                assert event % 10 == 0 or last - first < 100
                assert bounds[column] <= event < bounds[column + 1]


def test_time_ticks_are_in_their_times_columns(explored: Explored) -> None:
    units = {"us": 1, "ms": 1_000, "s": 1_000_000, "min": 60_000_000}
    for device in explored.snap.devices:
        replay = explored.snap.replay(device)
        if replay.clock is None:
            continue
        low, high = explored.bounds(device)
        look = replace(explored.first_look(device), axis="time", first=(low + high) // 2, last=high)
        bounds = explored.curve(look, 100).bounds
        for column, label in column_ticks(explored, look, 100, 100):
            number, unit = label.split()
            time = (replay.origin_us or 0) + float(number.replace(",", "")) * units[unit]
            before = replay.clock_us(bounds[column] - 1)
            after = replay.clock_us(min(bounds[column + 1], high))
            assert before is not None
            assert after is not None
            assert column == 0 or before <= time <= after


def test_labels_are_in_the_rows_that_hold_their_bytes() -> None:
    assert row_labels(0, 479731712, 9) == {8: "0 B", 4: "200 MiB", 0: "400 MiB"}
    assert row_labels(0, 100, 3) == {2: "0 B", 1: "50 B", 0: "100 B"}
    labels = row_labels(350 << 20, 457 << 20, 8)
    assert labels == {7: "350 MiB", 3: "400 MiB", 0: "450 MiB"}


def test_labels_that_do_not_fit_are_left_out() -> None:
    assert tick_line([(0, "start"), (4, "100"), (12, "200"), (18, "300")], 20, "|") == (
        "|start      |200    "
    )
    assert tick_line([(18, "300")], 20, "|") == "               300| "

"""Tests of commands/export/cut_text.py: one line per device."""

from __future__ import annotations

from typing import Any

import pytest

from memreplay.commands.export.cut_text import lines
from memreplay.export.snapshots.records import Sliced, SlicedDevice

NOTHING: dict[str, Any] = {
    "device": 0,
    "first_event": 0,
    "events": 0,
    "written_events": 0,
    "leading_events": 0,
    "small_allocations": 0,
    "small_bytes": 0,
    "pending_blocks": 0,
    "pending_bytes": 0,
    "settled_stop": None,
}


def line(**fields: Any) -> str:
    (one,) = lines(Sliced("a.pkl", (SlicedDevice(**(NOTHING | fields)),)))
    return one


@pytest.mark.parametrize(
    "fields, want",
    [
        ({}, "device 0: no events"),
        ({"device": 3, "first_event": 7}, "device 3: no events"),
        ({"events": 1, "written_events": 1}, "device 0: events 0 to 0 (1)"),
        (
            {"first_event": 1_000, "events": 2_000, "written_events": 2_000},
            "device 0: events 1,000 to 2,999 (2,000)",
        ),
        (
            {"first_event": 1_000, "events": 2_000, "written_events": 1_999},
            "device 0: 1,999 of events 1,000 to 2,999 (2,000)",
        ),
        ({"events": 5, "written_events": 0}, "device 0: 0 of events 0 to 4 (5)"),
        (
            {"leading_events": 1_234},
            "device 0: no events; 1,234 added before them for allocations already live",
        ),
        (
            {"events": 5, "written_events": 5, "leading_events": 1},
            "device 0: events 0 to 4 (5); 1 added before them for allocations already live",
        ),
        (
            {"small_allocations": 1_234, "small_bytes": 3 << 20},
            "device 0: no events; left out: 1,234 small allocations of 3.0 MiB in all",
        ),
        (
            {"small_allocations": 1, "small_bytes": 8},
            "device 0: no events; left out: 1 small allocation of 8 B",
        ),
        (
            {"small_allocations": 2, "small_bytes": 0},
            "device 0: no events; left out: 2 small allocations of 0 B in all",
        ),
        (
            {"events": 9, "written_events": 4, "leading_events": 2}
            | {"small_allocations": 3, "small_bytes": 512},
            (
                "device 0: 4 of events 0 to 8 (9); 2 added before them for allocations already"
                " live;"
                " left out: 3 small allocations of 512 B in all"
            ),
        ),
    ],
)
def test_cut_is_described(fields: dict[str, Any], want: str) -> None:
    assert line(**fields) == want


def test_devices_are_in_order() -> None:
    devices = tuple(SlicedDevice(**(NOTHING | {"device": i})) for i in (0, 2, 5))
    made = list(lines(Sliced("a.pkl", devices)))
    assert made == [f"device {i}: no events" for i in (0, 2, 5)]
    assert list(lines(Sliced("a.pkl", ()))) == []


@pytest.mark.parametrize(
    "blocks, n_bytes, stop, want",
    [
        (1, 512, None, "1 block of 512 B: PyTorch's viewer leaves that out of the whole curve"),
        (2, 1024, 9, "2 blocks of 1.0 KiB: PyTorch's viewer leaves those out of the whole curve"),
    ],
)
def test_free_cut_between_request_and_completion_is_described(
    blocks: int, n_bytes: int, stop: int | None, want: str
) -> None:
    fields = {"pending_blocks": blocks, "pending_bytes": n_bytes, "settled_stop": stop}
    _, words = lines(Sliced("a.pkl", (SlicedDevice(**(NOTHING | fields)),)))
    start = "warning: device 0: the slice ends between a free's request and its completion, "
    end = "" if stop is None else f"; with --to {stop} none is pending"
    assert words == f"{start}for {want}{end}"

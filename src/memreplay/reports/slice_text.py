"""What a slice holds, in a line a device."""

from __future__ import annotations

from collections.abc import Iterator

from memreplay.reports.units import count, counted, size
from memreplay.results.slice import Sliced, SlicedDevice


def lines(sliced: Sliced) -> Iterator[str]:
    """One line a device."""
    for device in sliced.devices:
        yield f"device {device.device}: {_events(device)}{_leading(device)}{_small(device)}"


def _events(device: SlicedDevice) -> str:
    if not device.events:
        return "no events"
    last = device.first_event + device.events - 1
    named = f"events {count(device.first_event)} to {count(last)}"
    if device.written_events == device.events:
        return f"{named} ({count(device.events)})"
    return f"{count(device.written_events)} of {named} ({count(device.events)})"


def _leading(device: SlicedDevice) -> str:
    if not device.leading_events:
        return ""
    return f"; {count(device.leading_events)} before them for what was live then"


def _small(device: SlicedDevice) -> str:
    if not device.small_allocations:
        return ""
    what = counted(device.small_allocations, "small allocation")
    total = "" if device.small_allocations == 1 else " in all"
    return f"; left out: {what} of {size(device.small_bytes)}{total}"

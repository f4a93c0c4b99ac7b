"""Describe a cut snapshot, one line per device."""

from __future__ import annotations

from collections.abc import Iterator

from memreplay.export.snapshots.records import Sliced, SlicedDevice
from memreplay.render.units import count, counted, size
from memreplay.texts import clean

SHOWN_KEYS = 5
KEEPS_ALL = "to keep everything, export the whole file as a pickle"


def lines(sliced: Sliced) -> Iterator[str]:
    """Yield a line per device, with a warning if PyTorch's viewer wouldn't show everything."""
    for device in sliced.devices:
        yield f"device {device.device}: {_events(device)}{_leading(device)}{_small(device)}"
        if device.pending_blocks:
            yield _pending(device)
    if sliced.alone:
        yield (
            "warning: only the snapshot is written, without its wrapper and other data in"
            f" the file; {KEEPS_ALL}"
        )
    for one in sliced.left_out[:SHOWN_KEYS]:
        what = "keys that memreplay doesn't read" if one.key is None else f"the key {one.key}"
        be = "are" if one.key is None else "is"
        said = f"{clean(what)} {be} left out: {clean(one.why)}"
        yield f"warning: {said}; {KEEPS_ALL}"
    if (more := len(sliced.left_out) - SHOWN_KEYS) > 0:
        yield f"warning: {counted(more, 'more key')} left out"


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
    return f"; {count(device.leading_events)} added before them for allocations already live"


def _pending(device: SlicedDevice) -> str:
    what = counted(device.pending_blocks, "block")
    words = (
        f"warning: device {device.device}: the slice ends between a free's request and its"
        f" completion, for {what} of {size(device.pending_bytes)}: PyTorch's viewer leaves"
        f" {'that' if device.pending_blocks == 1 else 'those'} out of the whole curve"
    )
    if device.settled_stop is None:
        return words
    return f"{words}; with --to {device.settled_stop} none is pending"


def _small(device: SlicedDevice) -> str:
    if not device.small_allocations:
        return ""
    what = counted(device.small_allocations, "small allocation")
    total = "" if device.small_allocations == 1 else " in all"
    return f"; left out: {what} of {size(device.small_bytes)}{total}"

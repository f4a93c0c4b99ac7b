"""Compute the peaks of a newly written snapshot as fast as possible."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memreplay.analysis.categories.rules import UNKNOWN
from memreplay.analysis.groups.grouping import Grouper
from memreplay.analysis.groups.kinds import categories_source
from memreplay.analysis.selecting.answering import takes
from memreplay.analysis.selecting.choice import chosen_usages
from memreplay.analysis.selecting.selection import Selection
from memreplay.analysis.trust.facts import device_facts
from memreplay.analysis.trust.trust import verdict
from memreplay.commands.peak.find import where_in
from memreplay.commands.watch.result import Largest, LargestBy, Limit, WatchedDevice
from memreplay.snapshot.record import inlined

if TYPE_CHECKING:
    from memreplay.snapshot.model import Group
    from memreplay.snapshot.replay import Usage
    from memreplay.snapshot.snapshot import Snapshot


@takes(selection=Selection)
def watched_devices(
    snap: Snapshot,
    selection: Selection,
    *,
    max_peak: int | None = None,
    max_reserved: int | None = None,
) -> tuple[WatchedDevice, ...]:
    """Return each chosen device's peaks of the measure and of reserved memory, and its largest
    holder. `max_peak` and `max_reserved`: limits in bytes. Raises UsageError for an unknown device.
    """
    grouper = Grouper(
        snap, "pool" if selection.measure == "reserved" else "category", selection.rules
    )
    return tuple(
        _device(snap, usage, grouper, max_peak, max_reserved)
        for usage in chosen_usages(snap, selection)
    )


def _device(
    snap: Snapshot, usage: Usage, grouper: Grouper, max_peak: int | None, max_reserved: int | None
) -> WatchedDevice:
    replay, point = usage.replay, usage.peak
    reserved = replay.measure("reserved").peak.bytes if replay.shows_reserved else None
    held: tuple[tuple[Limit, int | None, int | None], ...] = (
        ("max_peak", point.bytes, max_peak),
        ("max_reserved", reserved, max_reserved),
    )
    annotations, step = where_in(snap, replay, point.event_index)
    trust = verdict(snap, usage)
    return WatchedDevice(
        **inlined(WatchedDevice, device_facts(snap, replay, trust)),
        peak_bytes=point.bytes,
        peak_event=point.event_index,
        peak_us=point.time_us,
        reserved_peak_bytes=reserved,
        change_bytes=None,
        changed_since=None,
        categories_source=categories_source(snap),
        largest=_largest(snap, grouper, usage),
        annotation=annotations[-1] if annotations else None,
        step=step,
        over_limits=tuple(
            name for name, found, most in held if most is not None and (found or 0) > most
        ),
    )


def _largest(snap: Snapshot, grouper: Grouper, usage: Usage) -> Largest | None:
    """Return the largest category or pool at the peak, or if the category is unknown, the largest
    call site.
    """
    point = usage.peak
    if not point.bytes:
        return None
    by: LargestBy = "pool" if usage.measure == "reserved" else "category"
    groups, *_ = grouper.holders(usage, point.event_index, 1)
    if by == "category" and groups and groups[0].label == UNKNOWN:
        by = "line"
        groups, *_ = Grouper(snap, by).holders(usage, point.event_index, 1)
    if not groups:
        return None
    return Largest(by, _short(groups[0]), groups[0].bytes, groups[0].share)


def _short(group: Group) -> str:
    """Return a group's short label, which for code is text such as `forward model.py:28`."""
    if not group.frames:
        return group.label
    frame = group.frames[0]
    place = frame.file.rpartition("/")[2] + (f":{frame.line}" if frame.line else "")
    return f"{frame.function} {place}"

"""The peak of each device of a snapshot that has just been written, as quickly as it can be had."""

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
    """The peak of each chosen device, in bytes of the measure and as reserved, and what held most
    then. `max_peak` and `max_reserved` are limits in bytes. Raises UsageError for a
    device that is not there."""
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
    reserved = replay.measure("reserved").peak.bytes
    held: tuple[tuple[Limit, int, int | None], ...] = (
        ("max_peak", point.bytes, max_peak),
        ("max_reserved", reserved, max_reserved),
    )
    annotations, step = where_in(snap, replay, point.event_index)
    trust = verdict(snap, usage)
    return WatchedDevice(
        **inlined(WatchedDevice, device_facts(snap, replay, trust)),
        peak_bytes=point.bytes,
        event_index=point.event_index,
        time_us=point.time_us,
        reserved_peak_bytes=reserved,
        change_bytes=None,
        changed_since=None,
        categories_source=categories_source(snap),
        largest=_largest(snap, grouper, usage),
        annotation=annotations[-1] if annotations else None,
        step=step,
        past=tuple(name for name, found, most in held if most is not None and found > most),
    )


def _largest(snap: Snapshot, grouper: Grouper, usage: Usage) -> Largest | None:
    """The largest category at the peak, or pool; where that is what no rule knows, the code."""
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
    """What a group is called where there is little room: of code `forward model.py:28`."""
    if not group.frames:
        return group.label
    frame = group.frames[0]
    place = frame.file.rpartition("/")[2] + (f":{frame.line}" if frame.line else "")
    return f"{frame.function} {place}"

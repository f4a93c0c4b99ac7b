"""The peak of each device, and who held the memory then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memreplay.analysis.calltree import TREE_ALONE, TreeShape, call_tree
from memreplay.analysis.choice import chosen_usages, fitting_by
from memreplay.analysis.grouping import Grouper
from memreplay.analysis.trust import strict_verdict, verdict
from memreplay.errors import UsageError
from memreplay.model import By, Filters, MeasureName
from memreplay.results.peak import DevicePeak, PeakReport

if TYPE_CHECKING:
    from memreplay.analysis.categories import Rule
    from memreplay.replay import Usage
    from memreplay.snapshot import Snapshot


def peak_report(
    snap: Snapshot,
    *,
    measure: MeasureName = "requested",
    by: By | None = None,
    top: int = 20,
    peaks: int = 0,
    all_frames: bool = False,
    device: int | None = None,
    pool: tuple[int, int] | None = None,
    stream: int | None = None,
    strict: bool = False,
    filters: Filters | None = None,
    rules: tuple[Rule, ...] | None = None,
    tree: TreeShape | None = None,
    fold: bool = False,
) -> PeakReport:
    """The peak of one device, or of each that has any data, with its live set grouped.

    `by` is "stack" unless it is given ("pool" for reserved memory, which has no stacks). `top` cuts
    the groups of each device (0: all of them); `peaks` is how many separate maxima to give. With
    `pool` or `stream` only that one counts; devices that have it not are left out. `strict` holds
    everything against the device that a summary does, not only what concerns the measure. Raises
    UsageError for a device, pool or stream that is not there.

    With `fold` stacks that differ in plumbing alone are one group.
    """
    if tree is not None and (measure == "reserved" or by is not None):
        raise UsageError(TREE_ALONE)
    by = fitting_by(measure, by)
    devices = snap.devices if device is None else (device,)
    grouper = Grouper(snap, by, rules, fold=fold)
    usages = chosen_usages(snap, devices, measure, pool, stream, filters)
    return PeakReport(
        file=snap.file,
        measure=measure,
        by=by,
        all_frames=all_frames,
        truncated=snap.truncation is not None,
        pool=pool,
        stream=stream,
        filters=filters,
        devices=tuple(
            device_peak(snap, usage, grouper, top, peaks, strict, tree) for usage in usages
        ),
    )


def device_peak(
    snap: Snapshot,
    usage: Usage,
    grouper: Grouper,
    top: int,
    peaks: int = 0,
    strict: bool = False,
    tree: TreeShape | None = None,
) -> DevicePeak:
    """The peak of one device."""
    replay = usage.replay
    point = usage.peak
    groups, total, count, parts = grouper.holders(usage, point.event_index, top)
    trust = (strict_verdict if strict else verdict)(snap, usage)
    reserved = usage.measure == "reserved"
    return DevicePeak(
        device=replay.device,
        measure=usage.measure,
        exactness="exact" if trust.exact else "estimated",
        peak_bytes=point.bytes,
        event_index=point.event_index,
        time_us=point.time_us,
        start_us=replay.time_us(replay.start),
        baseline_bytes=usage.start_bytes,
        baseline_held_bytes=0 if reserved else usage.baseline_held(point.event_index),
        final_bytes=usage.final_bytes,
        first_event=replay.first_event,
        events=replay.events,
        trace_events=snap.trace_events(replay.device),
        live_count=count,
        groups=groups,
        groups_total=total,
        rest_bytes=point.bytes - sum(g.bytes for g in groups),
        rest_count=count - sum(g.count for g in groups),
        trusted=trust.trusted,
        reasons=trust.reasons,
        peaks=usage.peaks(peaks) if peaks else (),
        parts=parts,
        tree=None if tree is None else call_tree(usage, point.event_index, grouper, tree),
    )

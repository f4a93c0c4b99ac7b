"""The peak of each device, and who held the memory then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memreplay import _timeline
from memreplay.analysis.plumbing import ranks
from memreplay.analysis.trust import strict_verdict, verdict
from memreplay.errors import UsageError
from memreplay.model import By, DevicePeak, Frame, Group, MeasureName, Part, PeakReport

if TYPE_CHECKING:
    from memreplay.replay import Usage
    from memreplay.snapshot import Snapshot

# What stands for the groups that have no stack.
BEFORE_RECORDING = "(allocated before the recording)"
NO_EVENTS = "(no events were recorded)"
NO_STACK = "(recorded without a stack)"


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
) -> PeakReport:
    """The peak of one device, or of each that has any data, with its live set grouped.

    `by` is "stack" unless it is given ("pool" for reserved memory, which has no stacks). `top` cuts
    the groups of each device (0: all of them); `peaks` is how many separate maxima to give. With
    `pool` or `stream` only that one counts; devices that have it not are left out. `strict` holds
    everything against the device that a summary does, not only what concerns the measure. Raises
    UsageError for a device, pool or stream that is not there.
    """
    by = by or ("pool" if measure == "reserved" else "stack")
    if measure == "reserved" and by not in ("pool", "stream"):
        raise UsageError(f"reserved memory is grouped by pool or stream, not by {by}")
    devices = snap.devices if device is None else (device,)
    grouper = Grouper(snap, by)
    usages = _usages(snap, devices, measure, pool, stream)
    return PeakReport(
        file=snap.file,
        measure=measure,
        by=by,
        all_frames=all_frames,
        truncated=snap.truncation is not None,
        pool=pool,
        stream=stream,
        devices=tuple(device_peak(snap, usage, grouper, top, peaks, strict) for usage in usages),
    )


def _usages(
    snap: Snapshot,
    devices: tuple[int, ...],
    measure: MeasureName,
    pool: tuple[int, int] | None,
    stream: int | None,
) -> list[Usage]:
    """The measure on each device that has the pool and stream. Raises UsageError when none has."""
    found = []
    missing = None
    for device in devices:
        usage = snap.replay(device).measure(measure, pool=pool, stream=stream)
        try:
            # Only now is it looked up.
            _ = usage.start_bytes
        except UsageError as error:
            missing = missing or error
        else:
            found.append(usage)
    if missing is not None and not found:
        raise missing
    return found


def device_peak(
    snap: Snapshot,
    usage: Usage,
    grouper: Grouper,
    top: int,
    peaks: int = 0,
    strict: bool = False,
) -> DevicePeak:
    """The peak of one device."""
    replay = usage.replay
    point = usage.peak
    parts: tuple[Part, ...] = ()
    if grouper.by in ("pool", "stream"):
        parts = usage.parts(grouper.by, point.event_index)
        groups, total, count = grouper.parts(parts, top)
    else:
        groups, total, count = grouper.groups(usage, point.event_index, top)
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
    )


class Grouper:
    """Groups live sets of one snapshot; classifies its strings once."""

    def __init__(self, snap: Snapshot, by: By) -> None:
        self.snap = snap
        self.by = by
        self.file_rank, self.function_rank = ranks(snap.native)

    def groups(self, usage: Usage, event: int, top: int) -> tuple[tuple[Group, ...], int, int]:
        """(the `top` largest groups, how many there are, allocations in all) live after `event`."""
        found, total, whole, count = usage.groups(
            event, self.by, self.file_rank, self.function_rank, top
        )
        return tuple(self._group(usage, *row, whole) for row in found), total, count

    def parts(self, parts: tuple[Part, ...], top: int) -> tuple[tuple[Group, ...], int, int]:
        """The same of pools or streams: those that hold anything."""
        whole = sum(part.bytes for part in parts)
        there = [part for part in parts if part.bytes or part.count]
        groups = tuple(
            Group(part_label(part, self.by), part.bytes, part.count, part.bytes / whole)
            for part in (there[:top] if top else there)
            if whole
        )
        return groups, len(there), sum(part.count for part in there)

    def _group(self, usage: Usage, key: int, size: int, count: int, whole: int) -> Group:
        share = size / whole if whole else 0.0
        if key == _timeline.BEFORE_RECORDING:
            why = BEFORE_RECORDING if self.snap.has_events else NO_EVENTS
            return Group(why, size, count, share)
        if key == _timeline.NO_STACK:
            return Group(NO_STACK, size, count, share)
        snap = self.snap
        if self.by == "stack":
            ids = snap.native.stack(key)
            shown = usage.native.label_frame(key, self.file_rank, self.function_rank)
            user = tuple(i for i, f in enumerate(ids) if not self._is_plumbing(f))
            frames = tuple(map(snap.frame, ids))
            return Group(self._label(shown), size, count, share, frames, user)
        if self.by == "frame":
            user = () if self._is_plumbing(key) else (0,)
            return Group(self._label(key), size, count, share, (snap.frame(key),), user)
        name = snap.native.string(key)
        if self.by == "file":
            user = () if self.file_rank[key] else (0,)
            return Group(name or "(no file)", size, count, share, (Frame("", name, 0),), user)
        return Group(name or "(no function)", size, count, share, (Frame(name, "", 0),))

    def _is_plumbing(self, frame: int) -> bool:
        return self.file_rank[self.snap.native.frame(frame)[1]] != 0

    def _label(self, frame: int) -> str:
        at = self.snap.frame(frame)
        if not at.line and at.file in ("", "??"):
            return at.function
        return f"{at.function} {at.file}:{at.line}" if at.line else f"{at.function} {at.file}"


def part_label(part: Part, by: By) -> str:
    """What a pool or stream is called."""
    if by == "stream":
        if part.stream is None:
            return "(stream not known)"
        return "default stream" if part.stream == 0 else f"stream {part.stream}"
    if part.pool is None:
        return "(pool not known)"
    if part.pool == (0, 0):
        return "default pool"
    first, second = part.pool
    kind = "graph pool" if first else "MemPool"
    return f"{kind} {first}:{second}"

"""The peak of each device, and who held the memory then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memreplay import _timeline
from memreplay.analysis.plumbing import ranks
from memreplay.analysis.trust import verdict
from memreplay.model import By, DevicePeak, Frame, Group, PeakReport

if TYPE_CHECKING:
    from memreplay.replay import Replay
    from memreplay.snapshot import Snapshot

# What stands for the groups that have no stack.
BEFORE_RECORDING = "(allocated before the recording)"
NO_EVENTS = "(no events were recorded)"
NO_STACK = "(recorded without a stack)"


def peak_report(
    snap: Snapshot,
    *,
    by: By = "stack",
    top: int = 20,
    all_frames: bool = False,
    device: int | None = None,
) -> PeakReport:
    """The peak of one device, or of each that has any data, with its live set grouped.

    `top` cuts the groups of each device (0: all of them). Raises UsageError for a device that is
    not there.
    """
    devices = snap.devices if device is None else (device,)
    grouper = Grouper(snap, by)
    return PeakReport(
        file=snap.file,
        by=by,
        all_frames=all_frames,
        truncated=snap.truncation is not None,
        devices=tuple(device_peak(snap, snap.replay(d), grouper, top) for d in devices),
    )


def device_peak(snap: Snapshot, replay: Replay, grouper: Grouper, top: int) -> DevicePeak:
    """The peak of one device."""
    point = replay.peak
    groups, total, count = grouper.groups(replay, point.event_index, top)
    trust = verdict(snap, replay.measure())
    return DevicePeak(
        device=replay.device,
        peak_bytes=point.bytes,
        event_index=point.event_index,
        time_us=point.time_us,
        start_us=replay.time_us(replay.start),
        baseline_bytes=replay.baseline_bytes,
        baseline_held_bytes=replay.measure().baseline_held(point.event_index),
        final_bytes=replay.final_bytes,
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
    )


class Grouper:
    """Groups live sets of one snapshot; classifies its strings once."""

    def __init__(self, snap: Snapshot, by: By) -> None:
        self.snap = snap
        self.by = by
        self.file_rank, self.function_rank = ranks(snap.native)

    def groups(self, replay: Replay, event: int, top: int) -> tuple[tuple[Group, ...], int, int]:
        """(the `top` largest groups, how many there are, allocations in all) live after `event`."""
        found, total, whole, count = replay.measure().groups(
            event, self.by, self.file_rank, self.function_rank, top
        )
        return tuple(self._group(replay, *row, whole) for row in found), total, count

    def _group(self, replay: Replay, key: int, size: int, count: int, whole: int) -> Group:
        share = size / whole if whole else 0.0
        if key == _timeline.BEFORE_RECORDING:
            why = BEFORE_RECORDING if self.snap.has_events else NO_EVENTS
            return Group(why, size, count, share)
        if key == _timeline.NO_STACK:
            return Group(NO_STACK, size, count, share)
        snap = self.snap
        if self.by == "stack":
            ids = snap.native.stack(key)
            shown = replay.measure().native.label_frame(key, self.file_rank, self.function_rank)
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

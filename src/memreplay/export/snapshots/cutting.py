"""A snapshot cut down to what was read of it: a snapshot of its own, as a pickle."""

from __future__ import annotations

import json
from array import array
from typing import TYPE_CHECKING, Literal

import memreplay._core as _core
from memreplay.analysis.code.plumbing import LIBRARY, ranks
from memreplay.engine.write import _slicing
from memreplay.export.snapshots.noted import noted_of
from memreplay.export.snapshots.records import LeftOut, Sliced, SlicedDevice
from memreplay.snapshot.snapshot import KEPT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memreplay.export.snapshots.unknown import Unknown
    from memreplay.snapshot.replay import Replay
    from memreplay.snapshot.snapshot import Snapshot

Strip = Literal["all", "plumbing"]


def cut(
    snap: Snapshot,
    *,
    min_bytes: int = 0,
    strip: Strip | None = None,
    unknown: Unknown | None = None,
) -> tuple[Sliced, Iterator[bytes]]:
    """What was read as a snapshot of its own: what it is, and its bytes, about a MiB at a time.

    It is a pickle of protocol 4 with the events that were read, the segments as they are after the
    last of them, and what was live before the first. Of the same input the same bytes. With
    `min_bytes` allocations below it are left out; `strip` leaves frames out: "all", or those of
    "plumbing". `unknown` are keys that memreplay doesn't read, which stay as they are. Raises
    LimitError for allocator settings that are no settings.
    """
    stripped = _stripped(snap, strip)
    excerpts = [_excerpt(snap.replay(device), stripped, min_bytes) for device in snap.devices]
    devices = tuple(_device(snap, excerpt) for excerpt in excerpts)
    kept = {
        name: value
        for name in KEPT
        if (value := snap.kept(name)) is not None and not _in_settings(snap, name)
    }
    noted = noted_of(snap, excerpts, frames=strip != "all")
    if isinstance(kept.pop("memreplay", None), dict) or noted:
        kept["memreplay"] = noted
    values = [(KEPT[name], json.dumps(value)) for name, value in kept.items()]
    pickled = _slicing.Pickled(
        snap.native,
        excerpts,
        stripped,
        _annotations(snap),
        values,
        1 + max((device for device, _, _, _ in snap.native.traces()), default=-1),
        None if unknown is None else unknown.items,
        () if unknown is None else unknown.chosen,
    )
    left_out = () if unknown is None else unknown.left_out
    if snap.notes_flaw:
        left_out = (LeftOut('"memreplay"', snap.notes_flaw), *left_out)
    return Sliced(snap.file, devices, left_out, snap.has_company), pickled


def _in_settings(snap: Snapshot, name: str) -> bool:
    """Whether the reader found a ring-buffer flag in the settings, which are written anyway."""
    return f"trace_alloc_{name}" in snap.settings


def _stripped(snap: Snapshot, strip: Strip | None) -> _slicing.Stripped | None:
    if strip is None:
        return None
    if strip == "all":
        return _slicing.Stripped(snap.native, None)
    by_file, _ = ranks(snap.code)
    files = memoryview(snap.native.rows("frame", "file"))
    return _slicing.Stripped(snap.native, bytes(by_file[file] > LIBRARY for file in files))


def _excerpt(
    replay: Replay, stripped: _slicing.Stripped | None, min_bytes: int
) -> _slicing.Excerpt:
    whole = replay.first_event == 0 and replay.reaches_end
    last = replay.start + replay.events
    return _slicing.Excerpt(
        replay.holding,
        None if whole else replay.blocks,
        None if replay.reaches_end else replay.block_map(last),
        stripped,
        min_bytes,
    )


def _device(snap: Snapshot, excerpt: _slicing.Excerpt) -> SlicedDevice:
    replay = excerpt.holding.replay
    allocations, n_bytes = excerpt.small
    # Pending at the end of the file, they are so in the file itself.
    blocks, pending = (0, 0) if replay.reaches_end else excerpt.pending
    return SlicedDevice(
        device=replay.device,
        first_event=replay.base,
        events=replay.events,
        written_events=excerpt.events,
        leading_events=excerpt.leading,
        small_allocations=allocations,
        small_bytes=n_bytes,
        pending_blocks=blocks,
        pending_bytes=pending,
        settled_stop=_settled_stop(snap.replay(replay.device)) if blocks else None,
    )


def _settled_stop(replay: Replay) -> int | None:
    """The end of the longest part of the range from its beginning after which no free is pending:
    what is held is all that is live."""
    requested, held = (replay.measure(name).series for name in ("requested", "held"))
    settled = (requested == held).nonzero()[0]
    return int(settled[-1]) + 1 + replay.first_event if len(settled) else None


def _annotations(snap: Snapshot) -> array[int]:
    """The rows of annotations that reach into the events that were read, or lie among them.

    A START and its END are kept or left out together; an END ends the last of its name that is
    open.
    """
    n = snap.annotation_count
    if not n:
        return array("I")
    ranges = {device: _times(snap.replay(device)) for device in snap.devices}
    names, stages, devices, times = snap.annotation_rows("name", "stage", "device", "time")
    stage_of = {stage: snap.text(stage) for stage in set(stages)}
    open_at: dict[tuple[int, int], list[int]] = {}
    keep = bytearray(n)
    for row in range(n):
        device, time, stage = devices[row], times[row], stage_of[stages[row]]
        if device >= 0 and device not in ranges:
            # Of a device without anything else; with --device, of one that nobody asked for.
            keep[row] = snap.only is None
            continue
        first, last = ranges.get(device, (None, None))
        before = first is not None and time != _core.ABSENT_TIME and time < first
        after = last is not None and time != _core.ABSENT_TIME and time > last
        key = (device, names[row])
        if stage == "START":
            # Until its END is met it may reach into the range.
            keep[row] = not after
            if before:
                open_at.setdefault(key, []).append(row)
            elif not after:
                open_at.setdefault(key, []).append(-1)
        elif stage == "END" and open_at.get(key):
            start = open_at[key].pop()
            keep[row] = not before
            if before and start >= 0:
                keep[start] = False
        else:
            keep[row] = not before and not after
    return array("I", (row for row in range(n) if keep[row]))


def _times(replay: Replay) -> tuple[int | None, int | None]:
    """The first and the last time of the range; None where it has no bound there."""
    if replay.first_event == 0 and replay.reaches_end:
        return None, None
    if replay.time_range is None:
        return None, None
    first, last = replay.time_range
    return (
        first if replay.first_event else None,
        None if replay.reaches_end else last,
    )

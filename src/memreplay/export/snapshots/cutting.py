"""Cut a snapshot down to the selected events and write it as a pickle."""

from __future__ import annotations

import json
from array import array
from typing import TYPE_CHECKING, Literal

import memreplay._core as _core
from memreplay.analysis.code.plumbing import LIBRARY, ranks
from memreplay.engine.query._vectors import vector
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
    """Return a description of the slice, and its bytes in chunks of about 1 MiB.

    The slice is a pickle of protocol 4 with the selected events, the segments after the last of
    them, and the live set before the first. It's deterministic. `min_bytes` drops smaller
    allocations. `strip` drops frames: "all" of them, or only those of "plumbing". `unknown`: items
    under keys that memreplay doesn't read, which are copied unchanged. Raises LimitError for
    malformed allocator settings.
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
    return Sliced(snap.file, devices, left_out, snap.has_other_data), pickled


def _in_settings(snap: Snapshot, name: str) -> bool:
    """Return whether the ring-buffer flag that the reader found is in the settings. The settings
    are always written.
    """
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
    # At the end of the file, pending blocks are already marked as pending.
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
    """Return the last position at which the range could end without a pending free, that is, where
    held and live bytes are equal.
    """
    requested, held = (vector(replay.measure(name).column) for name in ("requested", "held"))
    settled = (requested == held).rows()
    return settled[-1] + 1 + replay.first_event if len(settled) else None


def _annotations(snap: Snapshot) -> array[int]:
    """Return the rows of annotations that overlap the selected events.

    A START and its END are kept or dropped together. An END closes the latest open START with its
    name.
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
            # Skip annotations of a device that has no other data, or that --device didn't select.
            keep[row] = snap.only is None
            continue
        first, last = ranges.get(device, (None, None))
        before = first is not None and time != _core.ABSENT_TIME and time < first
        after = last is not None and time != _core.ABSENT_TIME and time > last
        key = (device, names[row])
        if stage == "START":
            # An annotation may reach into the range as long as no END was found.
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
    """Return the range's first and last time; None for an open bound."""
    if replay.first_event == 0 and replay.reaches_end:
        return None, None
    if replay.time_range is None:
        return None, None
    first, last = replay.time_range
    return (
        first if replay.first_event else None,
        None if replay.reaches_end else last,
    )

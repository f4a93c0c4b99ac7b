"""What a page knows of a snapshot: records, and the bytes of its columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import memreplay._core as _core
from memreplay.analysis.code.plumbing import LIBRARY, ranks
from memreplay.analysis.groups.dimensions import Dimensions
from memreplay.analysis.moments.annotations import spans
from memreplay.engine.query._groups import NO_RULE
from memreplay.export.page.coding import Columns
from memreplay.export.page.lives import lives
from memreplay.export.page.records import LifeColumns, PageData, PageDevice, PageSpan
from memreplay.io.version import __version__
from memreplay.snapshot.model import MEASURES

if TYPE_CHECKING:
    from memreplay.export.page.coding import Coded
    from memreplay.snapshot.replay import Replay
    from memreplay.snapshot.snapshot import Snapshot


def page_data(snap: Snapshot) -> tuple[PageData, bytes]:
    """The records, and the columns as a zlib stream."""
    columns, dimensions = Columns(), Dimensions(snap)
    frames, stacks = snap.frames, snap.stacks
    used, places = np.unique(np.concatenate([frames.function, frames.file]), return_inverse=True)
    by_file, _ = ranks(snap.code, snap.project)
    rank = np.frombuffer(by_file, dtype=np.uint8)
    code = rank[frames.file] <= LIBRARY if len(frames) else np.zeros(0, dtype=bool)
    # The rules that there are, and none.
    codes = range(NO_RULE + 1)
    names = [dimensions.rules.name(one) for one in codes]
    return (
        PageData(
            file=snap.file,
            version=__version__,
            texts=tuple(snap.native.string(int(one)) for one in used),
            frame_function=columns.add(places[: len(frames)]),
            frame_file=columns.add(places[len(frames) :]),
            frame_line=columns.add(frames.line),
            stack_frames=columns.add(np.diff(stacks.offsets.astype(np.int64))),
            frames=columns.add(stacks.frames, differences=True),
            stack_code=columns.add(code[stacks.frames]),
            categories=tuple(names),
            devices=tuple(
                _device(snap, snap.replay(device), dimensions, columns) for device in snap.devices
            ),
            bytes=columns.bytes,
        ),
        columns.packed(),
    )


def _device(snap: Snapshot, replay: Replay, dimensions: Dimensions, columns: Columns) -> PageDevice:
    those = lives(snap, replay, dimensions)
    pools, pool = np.unique(those.pool, return_inverse=True)
    changes = replay.segment_changes
    time, first = _clock(replay, columns)
    return PageDevice(
        device=replay.device,
        events=replay.events,
        first_event=replay.first_event,
        lives=LifeColumns(
            begin=columns.add(those.begin, differences=True),
            life=columns.add(those.end - those.begin),
            lag=columns.add(those.end - those.let_go),
            requested=columns.add(those.requested),
            slack=columns.add(those.block - those.requested),
            stack=columns.add(those.stack),
            category=columns.add(those.category),
            pool=columns.add(pool),
            stream=columns.add(those.stream),
        ),
        streams=tuple(None if one is None else str(one) for one in those.streams),
        pools=tuple(None if one == _core.ABSENT_ID else snap.pool_id(int(one)) for one in pools),
        reserved_start=replay.measure("reserved").start_bytes,
        reserved_event=columns.add(changes.event - replay.first_event, differences=True),
        reserved_bytes=columns.add(changes.reserved, differences=True),
        time=time,
        first_us=first,
        spans=tuple(
            PageSpan(
                name=one.name,
                begin=one.start_event + 1 - replay.first_event,
                end=None if one.end_event is None else one.end_event + 1 - replay.first_event,
                start_us=one.start_us,
                end_us=one.end_us,
            )
            for one in spans(snap, replay)
        ),
        peaks={name: replay.measure(name).peak.bytes for name in MEASURES},
    )


def _clock(replay: Replay, columns: Columns) -> tuple[Coded | None, int | None]:
    """The latest time up to each event, since the first."""
    clock = replay.native.clock()
    if clock is None or not replay.events:
        return None, None
    times = np.asarray(clock).astype(np.int64)
    known = times[times != _core.ABSENT_TIME]
    if not len(known):
        return None, None
    first = int(known[0])
    # Before the first event that has a time it is the first one's.
    return columns.add(np.maximum(times, first) - first, differences=True), first

"""A snapshot with everything, and slow reference results, for the tests of exports for viewers."""

from __future__ import annotations

from collections import Counter
from typing import Any

import memreplay as mr
from memreplay.analysis.code.plumbing import file_rank
from memreplay.snapshot.model import Frame
from tests import build, oracle
from tests.build import START_US, FrameSpec, SnapshotBuilder

PathOf = tuple[Frame, ...]

FORWARD: FrameSpec = ("Block.forward", "/home/u/model.py", 10)
TRAIN: FrameSpec = ("train", "/home/u/train.py", 99)
TORCH: FrameSpec = ("linear", "/lib/python3.11/site-packages/torch/nn/functional.py", 5)
NASTY: FrameSpec = ('a;b\n"c"\x1b[31m\u2028<é训>', "/tmp/x;y z.py", 3)
LONG: FrameSpec = ("f" * 5_000, "/tmp/" + "d" * 3_000 + ".py", 2**31 - 1)


def everything(*, times: bool = True) -> dict[str, Any]:
    """Build two devices, two pools, carried-over memory, overlapping annotations, an OOM, and
    hostile names.
    """
    made = SnapshotBuilder(devices=2, times=times)
    made.alloc(0x1000, 1000, frames=[TORCH, FORWARD, TRAIN], pool_id=(0, 0))
    made.alloc(0x2000, 3000, frames=[NASTY, TRAIN], pool_id=(0, 1))
    made.free(0x9000, 700, frames=[TRAIN])
    made.alloc(0x3000, 50, frames=[LONG], pool_id=(0, 0))
    made.oom(1 << 30)
    made.free(0x2000, 3000, frames=[NASTY, TRAIN], pool_id=(0, 1))
    made.alloc(0x4000, 4, frames=[TORCH], pool_id=(0, 0))
    made.alloc(0x5000, 0, frames=[])
    made.alloc(0x1000, 10, device=1, frames=[FORWARD, TRAIN])
    made.free(0x1000, 10, device=1, frames=[FORWARD, TRAIN])
    made.finish_segments()
    if times:
        for name, stage, at in (
            ("step#1", "START", 1),
            ("inner", "START", 2),
            ("crossing", "START", 3),
            ("inner", "END", 4),
            ("step#1", "END", 5),
            ("step#2", "START", 5),
            ("crossing", "END", 7),
            ("never;ends\n", "START", 6),
        ):
            made.annotations.append(
                {"name": name, "stage": stage, "device": 0, "time_us": START_US + at}
            )
    return made.build()


def opened(snapshot: Any) -> mr.Snapshot:
    return mr.open(build.dump(snapshot))


def live_paths(
    snapshot: Any, device: int, event: int, *, all_frames: bool
) -> Counter[PathOf] | None:
    """Return bytes by call path, outermost first; None if a stack has no user frame, or if the
    result can't be computed this simply.
    """
    return _summed(oracle.replay(snapshot, device).live_at(event), all_frames)


def allocated_paths(snapshot: Any, device: int, *, all_frames: bool) -> Counter[PathOf] | None:
    made = [one for one in oracle.replay(snapshot, device).lifetimes if one.alloc_index >= 0]
    return _summed(made, all_frames)


def _summed(lifetimes: list[oracle.Lifetime], all_frames: bool) -> Counter[PathOf] | None:
    found: Counter[PathOf] = Counter()
    for one in lifetimes:
        frames = [Frame(*frame) for frame in one.frames]
        if frames and not all_frames:
            frames = [frame for frame in frames if not file_rank(frame.file)]
            if not frames:
                return None
        before = "(allocated before the recording)"
        label = before if one.alloc_index < 0 else "(recorded without a stack)"
        found[tuple(frames[::-1]) or (Frame(label, "", 0),)] += one.size
    return found

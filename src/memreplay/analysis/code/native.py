"""Determine which frames a recording's stacks have: Python and C++, only Python, or none.

`_record_memory_history(stacks=...)` decides that. PyTorch's default includes C++ frames. In
recordings with only Python frames, autograd's threads have no stack at all. To compare recordings
of different kinds, only frames of kinds that both have are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from memreplay.analysis.code.plumbing import is_native

if TYPE_CHECKING:
    from collections.abc import Iterable

    from memreplay.snapshot.code import Code
    from memreplay.snapshot.model import Frame
    from memreplay.snapshot.snapshot import Snapshot

FramesKept = Literal["all", "python", "none"]
_DEPTHS: tuple[FramesKept, ...] = ("none", "python", "all")


def frames_of(snap: Snapshot) -> FramesKept | None:
    """Return the kind of frames in a snapshot's stacks; None without allocations."""
    if any(ignored_frames(snap.code, "python")):
        return "all"
    if any(map(any, map(snap.code.frame, range(snap.code.frames)))):
        return "python"
    return "none" if any(snap.replay(device).allocations for device in snap.devices) else None


def frames_among(frames: Iterable[Frame]) -> FramesKept:
    """Return the kind of stacks that consist of these frames."""
    native = [is_native(frame.function, frame.file) for frame in frames]
    return "none" if not native else "all" if any(native) else "python"


def frames_of_both(base: FramesKept | None, new: FramesKept | None) -> FramesKept:
    """Return the kind of frames that two recordings have in common."""
    there = [one for one in (base, new) if one is not None]
    return min(there, key=_DEPTHS.index, default="all")


def ignored_frames(code: Code, kept: FramesKept) -> bytes:
    """Return a byte per frame, nonzero for frames to ignore."""
    if kept != "python":
        return bytes([kept == "none"]) * code.frames
    known: dict[tuple[int, int], bool] = {}
    found = bytearray(code.frames)
    for i in range(code.frames):
        function, file, _ = code.frame(i)
        if (function, file) not in known:
            known[function, file] = is_native(code.string(function), code.string(file))
        found[i] = known[function, file]
    return bytes(found)

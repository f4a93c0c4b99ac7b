"""Which frames a recording's stacks have: of Python and C++, of Python only, or none.

`_record_memory_history(stacks=...)` decides it. PyTorch's default has frames of C++, recorders of
Python stacks don't, and threads without Python (autograd's) then have no stack at all. Two such
recordings can only be compared by the frames that both have.
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
    """The frames that a snapshot's stacks have; None if it has no allocations."""
    if any(frames_left_out(snap.code, "python")):
        return "all"
    if any(map(any, map(snap.code.frame, range(snap.code.frames)))):
        return "python"
    return "none" if any(snap.replay(device).allocations for device in snap.devices) else None


def frames_among(frames: Iterable[Frame]) -> FramesKept:
    """The same of frames alone."""
    native = [is_native(frame.function, frame.file) for frame in frames]
    return "none" if not native else "all" if any(native) else "python"


def frames_of_both(base: FramesKept | None, new: FramesKept | None) -> FramesKept:
    """Those that two recordings have in common."""
    there = [one for one in (base, new) if one is not None]
    return min(there, key=_DEPTHS.index, default="all")


def frames_left_out(code: Code, kept: FramesKept) -> bytes:
    """Of each frame whether it doesn't count, a byte each."""
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

"""Groups, pools and streams as JSON, the same in every report that has them (docs/json.md)."""

from __future__ import annotations

from typing import Protocol

from memreplay.snapshot.model import By, Frame, Group, Part


def part_json(part: Part, by: By) -> dict[str, object]:
    """One pool or stream."""
    pool = list(part.pool) if part.pool else None
    return {
        by: pool if by == "pool" else part.stream,
        "bytes": part.bytes,
        "count": part.count,
        "start_bytes": part.start_bytes,
        "peak_bytes": part.peak_bytes,
        "event_index": part.event_index,
        "final_bytes": part.final_bytes,
        "reserved_bytes": part.reserved_bytes,
        "reserved_peak_bytes": part.reserved_peak_bytes,
        "reserved_event_index": part.reserved_event_index,
        "reserved_final_bytes": part.reserved_final_bytes,
    }


def group_json(group: Group) -> dict[str, object]:
    """One group."""
    return {
        "bytes": group.bytes,
        "count": group.count,
        "share": group.share,
        **code_json(group),
    }


class Coded(Protocol):
    """What has a stack: a group, a row of several, an allocation."""

    @property
    def label(self) -> str: ...
    @property
    def frames(self) -> tuple[Frame, ...]: ...
    @property
    def user(self) -> tuple[int, ...]: ...
    @property
    def libraries(self) -> tuple[int, ...]: ...


def code_json(one: Coded) -> dict[str, object]:
    """What it is called, and its frames; `user` and `libraries` index into these."""
    return {
        "label": one.label,
        "user": list(one.user),
        "libraries": list(one.libraries),
        "frames": [frame_json(frame) for frame in one.frames],
    }


def frame_json(frame: Frame) -> dict[str, object]:
    """One frame of a stack."""
    return {"function": frame.function, "file": frame.file, "line": frame.line}

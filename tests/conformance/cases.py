"""What a conformance case is, and how its bytes are written down."""

from __future__ import annotations

from typing import Any, NamedTuple

import memreplay as mr

EVENT: dict[str, Any] = {"action": "alloc", "addr": 4096, "size": 100, "stream": 0}
FRAME: dict[str, Any] = {"filename": "a.py", "line": 3, "name": "f"}
BLOCK: dict[str, Any] = {
    "address": 4096,
    "size": 512,
    "requested_size": 100,
    "state": "active_allocated",
    "frames": [],
}
SEGMENT: dict[str, Any] = {"device": 0, "address": 4096, "total_size": 2048, "blocks": [BLOCK]}


class Reject(NamedTuple):
    """An input that must end in an error of just this class, whose line matches `message`."""

    data: bytes
    error: type[mr.SnapshotError]
    message: str


def trace(*events: Any, **top: Any) -> dict[str, Any]:
    """A snapshot of one device with these events, and no segments."""
    return {"segments": [], "device_traces": [list(events)], **top}


def event(**fields: Any) -> dict[str, Any]:
    """A snapshot of one alloc that has these fields too."""
    return trace({**EVENT, **fields})


def segment(**fields: Any) -> dict[str, Any]:
    """A snapshot of one segment that has these fields too."""
    return {"segments": [{**SEGMENT, **fields}], "device_traces": []}


def block(**fields: Any) -> dict[str, Any]:
    """A snapshot of one block that has these fields too."""
    return segment(blocks=[{**BLOCK, **fields}])

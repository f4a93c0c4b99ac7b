"""Helpers to write conformance cases."""

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
    """An input that must be rejected with exactly this exception class and a message that
    matches.
    """

    data: bytes
    error: type[mr.SnapshotError]
    message: str


def trace(*events: Any, **top: Any) -> dict[str, Any]:
    """Return a snapshot of one device with these events, and no segments."""
    return {"segments": [], "device_traces": [list(events)], **top}


def event(**fields: Any) -> dict[str, Any]:
    """Return a snapshot of one alloc with these additional fields."""
    return trace({**EVENT, **fields})


def segment(**fields: Any) -> dict[str, Any]:
    """Return a snapshot of one segment with these additional fields."""
    return {"segments": [{**SEGMENT, **fields}], "device_traces": []}


def block(**fields: Any) -> dict[str, Any]:
    """Return a snapshot of one block with these additional fields."""
    return segment(blocks=[{**BLOCK, **fields}])

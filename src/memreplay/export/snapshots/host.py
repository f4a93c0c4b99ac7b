"""Turn a snapshot's pinned host memory into a snapshot of its own.

PyTorch writes the host allocator's segments and events under separate keys, in the form of a
device's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memreplay.engine.write import _converting, _slicing
from memreplay.errors import NothingToTellError
from memreplay.export.snapshots.unknown import KNOWN, pickle_of
from memreplay.snapshot.snapshot import open as open_snapshot

if TYPE_CHECKING:
    from memreplay.export.snapshots.unknown import Source
    from memreplay.snapshot.snapshot import Snapshot

SEGMENTS, TRACES = b'"host_segments"', b'"host_traces"'
# The host's segments have no device. In JSON, these bytes can't be part of a string.
NO_DEVICE, DEVICE = b'"device":-1', b'"device":0'
NONE = (
    "no pinned host memory in this file; record it with"
    " _record_memory_history(record_pinned_host_memory=True), in PyTorch versions that have it"
)


def host_of(snap: Snapshot, source: Source) -> Snapshot:
    """Return a snapshot whose device 0 is the pinned host memory, reading the file again.

    Raises NothingToTellError if the file has none.
    """
    texts = _texts(snap, source) if snap.native.unknown_keys else {}
    segments = texts.get(SEGMENTS, b"[]").replace(NO_DEVICE, DEVICE)
    traces = texts.get(TRACES, b"[]")
    if not traces[1:].lstrip().startswith(b"["):
        traces = b"[%b]" % traces
    whole = b'{"segments": %b, "device_traces": %b}' % (segments, traces)
    found = open_snapshot(whole, limits=source.limits, project=snap.project)
    if not found.native.n_events and not found.native.n_segments:
        raise NothingToTellError(NONE)
    return found


def _texts(snap: Snapshot, source: Source) -> dict[bytes, bytes]:
    """Return the values of the host's keys as JSON."""
    items = _slicing.Unknown(*pickle_of(snap, source), KNOWN)
    flaws = items.flaws()
    found = {}
    for i in range(len(items)):
        key = b"" if flaws[i] else b"".join(_converting.Spelled(items.key(i)))
        if key in (SEGMENTS, TRACES):
            found[key] = b"".join(_converting.Spelled(items.value(i)))
    return found

"""pages: buffers that grow past the mmap threshold keep every byte, and are freed."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

import numpy as np
import pytest

import memreplay as mr
from tests.pickle_ops import Ops
from tests.unit.engine.parts import NUMBER, close_trace, named, open_trace

pytestmark = pytest.mark.slow

LARGE = 8 << 20  # blocks of at least this many bytes are mapped


def trace(count: int) -> tuple[bytes, np.ndarray]:
    """Return a trace of `count` allocs, and their addresses."""
    event = Ops().empty_dict().memoize().mark()
    event.get(NUMBER["action"]).get(NUMBER["alloc"]).get(NUMBER["addr"])
    head = np.frombuffer(bytes(event) + b"\x8a\x08", np.uint8)  # LONG1 of 8 bytes
    addresses = np.arange(count, dtype="<u8") * 7919
    rows = np.empty((count, len(head) + 9), np.uint8)
    rows[:, : len(head)] = head
    rows[:, len(head) : -1] = addresses.view(np.uint8).reshape(count, 8)
    rows[:, -1] = ord("u")  # SETITEMS
    return close_trace(open_trace(named()).raw(rows.tobytes())), addresses


def test_columns_keep_their_contents() -> None:
    count = 2 * LARGE // 8  # the column of addresses grows several times while it is mapped
    data, addresses = trace(count)
    snap = mr.open(data)
    assert np.array_equal(snap.events.address, addresses)
    peak = snap.replay(0)
    assert len(peak.usage) == count


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_mapped_memory_is_released() -> None:
    def mapped() -> int:
        return int(Path("/proc/self/statm").read_text().split()[0]) << 12

    data, _ = trace(2 * LARGE // 8)
    mr.open(data)  # fill the caches of Python and malloc first
    gc.collect()
    before = mapped()
    for _ in range(5):
        mr.open(data)
    gc.collect()
    assert mapped() - before < LARGE


def test_memo_keeps_its_contents() -> None:
    # Early entries are read again after the memo has grown past the threshold.
    padding = b"N\x94" * (LARGE // 2)  # NONE MEMOIZE
    ops = Ops().proto(4).string("early").put(0).op("POP")
    ops.empty_dict().mark().string("segments").empty_list()
    ops.string("unknown").empty_list().mark().raw(padding).appends()
    ops.string("allocator_settings").empty_dict().mark().string("x").get(0).setitems().setitems()
    assert mr.open(bytes(ops.stop())).settings == {"x": "early"}

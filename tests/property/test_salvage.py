"""Every prefix of a snapshot is rejected as truncated. If it can be salvaged, the result has the
file's first events.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

import memreplay as mr
from memreplay.commands.peak.find import peak_report
from memreplay.commands.summary.find import summarize
from tests import build, oracle
from tests.build import SnapshotBuilder
from tests.strategies import traces

FRAMES = [("forward", "model.py", 7), ("main", "train.py", 3)]


def small() -> Any:
    builder = SnapshotBuilder(devices=3, compile_context="N/A", user_metadata={"step": 1})
    for i in range(4):
        builder.alloc(0x1000 * i, 10 + i, device=0, frames=FRAMES[: i % 3])
    builder.oom(99, device=0).free(0, 10).alloc(0x5000, 8, device=2, frames=FRAMES)
    builder.annotation("step", "START").settings(max_split_size=-1)
    return builder.finish_segments().build()


WRITERS: dict[str, Any] = {
    "protocol 0": lambda s: build.dump(s, 0),
    "protocol 1": lambda s: build.dump(s, 1),
    "protocol 2": lambda s: build.dump(s, 2),
    "protocol 4": lambda s: build.dump(s, 4),
    "framed anywhere": lambda s: build.reframe(build.dump(s, 4), 50),
    "cpp": build.dump_cpp,
    "json": lambda s: json.dumps(s).encode(),
}


def is_prefix(snap: mr.Snapshot, whole: Any) -> None:
    """Check that each device has the file's first events, and that no row is made up."""
    rows = oracle.columns(whole)
    for device, first, count, _ in snap.native.traces():
        assert count <= len(rows[device])
        for i in range(count):
            row = rows[device][i]
            at = first + i
            assert snap.action_name(int(snap.events.action[at])) in (row.action, row.action or None)
            assert int(snap.events.address[at]) == row.addr
            assert int(snap.events.size[at]) == row.size
            frames = snap.stack(int(snap.events.stack[at]))
            assert tuple((f.function, f.file, f.line) for f in frames) == row.frames
    addresses = [s["address"] for s in whole["segments"]]
    assert snap.segments.address.tolist() == addresses[: len(snap.segments)]
    sizes = [b["size"] for s in whole["segments"] for b in s["blocks"]]
    assert snap.blocks.size.tolist() == sizes[: len(snap.blocks)]
    assert len(snap.annotations) <= len(whole.get("external_annotations", ()))


@pytest.mark.slow
@pytest.mark.parametrize("writer", WRITERS)
def test_every_prefix_is_rejected_or_salvaged(writer: str) -> None:
    whole = small()
    data = WRITERS[writer](whole)
    most = 0
    for n in range(1, len(data)):
        cut = data[:n]
        with pytest.raises(mr.TruncatedError, match=r"byte") as error:
            mr.open(cut)
        assert error.value.exit_code == 4
        try:
            snap = mr.open(cut, salvage=True)
        except mr.TruncatedError:
            continue
        assert snap.truncation is not None
        is_prefix(snap, whole)
        assert summarize(snap).truncated
        assert peak_report(snap).truncated
        for device in peak_report(snap).devices:
            assert "truncated" in device.reasons
            assert not device.trusted
            assert sum(g.bytes for g in device.groups) + device.rest_bytes == device.peak_bytes
        most = max(most, snap.native.n_events)
    # Near the end, only the last event is uncertain.
    assert most >= sum(map(len, whole["device_traces"])) - 1


@given(snapshot=traces())
def test_salvaged_random_snapshots_are_prefixes(snapshot: Any) -> None:
    if not isinstance(snapshot, dict):
        return
    data = build.dump(snapshot)
    for n in range(2, len(data) - 1, max(1, len(data) // 23)):
        try:
            snap = mr.open(data[:n], salvage=True)
        except mr.TruncatedError:
            continue
        is_prefix(snap, snapshot)
        peak_report(snap)


def test_complete_file_is_not_marked_as_truncated() -> None:
    snap = mr.open(build.dump(small()), salvage=True)
    assert snap.truncation is None
    assert not summarize(snap).truncated


def test_error_says_how_much_was_read() -> None:
    data = build.dump(small())
    with pytest.raises(
        mr.TruncatedError, match=r"read the intact part \(\d events?\) with --salvage"
    ):
        mr.open(data[: len(data) * 3 // 4])

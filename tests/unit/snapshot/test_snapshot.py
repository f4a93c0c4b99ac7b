"""snapshot: the arguments of `memreplay.open`, the Snapshot class, and decoding ids."""

from __future__ import annotations

import gc
import gzip
import io
import pickle
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import memreplay as mr
from memreplay.analysis.trust.trust import device_verdict
from memreplay.export.snapshots.cutting import cut
from memreplay.snapshot.conversion import convert
from tests import build
from tests.build import SnapshotBuilder

FRAMES = [("forward", "model.py", 7), ("main", "train.py", 3)]


def small() -> Any:
    builder = SnapshotBuilder(compile_context="0/1", user_metadata={"step": 3})
    builder.alloc(0x1000, 100, frames=FRAMES, pool_id=(0, 1))
    builder.free(0x1000, 100, frames=FRAMES)
    builder.annotation("step", "START")
    return builder.settings(expandable_segments=True, nested={"a": [1, 2.5, None]}).build()


def test_open_accepts_a_path_bytes_or_a_file(tmp_path: Path) -> None:
    data = build.dump(small())
    path = tmp_path / "snap.pkl"
    path.write_bytes(data)
    for source in (str(path), path, data, bytearray(data), memoryview(data), io.BytesIO(data)):
        snap = mr.open(source)
        assert snap.replay().peak.bytes == 100
    with path.open("rb") as file:
        assert mr.open(file).file == str(path)
        assert not file.closed


def test_file_is_read_from_its_position() -> None:
    file = io.BytesIO(b"something else" + build.dump(small()))
    file.seek(len(b"something else"))
    assert mr.open(file).native.n_events == 3


def test_snapshot_describes_the_file_it_was_read_from(tmp_path: Path) -> None:
    path = tmp_path / "snap.pkl.gz"
    data = build.dump(small(), 4)
    path.write_bytes(gzip.compress(data))
    snap = mr.open(path)
    assert snap.container == "gzip"
    assert snap.file_bytes == path.stat().st_size
    assert snap.stream_bytes == len(data)
    assert snap.protocol == 4
    assert snap.devices == (0,)
    assert "3 events" in repr(snap)


def test_ids_are_decoded() -> None:
    snap = mr.open(build.dump(small()))
    events = snap.events
    assert [snap.action_name(int(a)) for a in events.action] == [
        "alloc",
        "free_requested",
        "free_completed",
    ]
    assert snap.stack(int(events.stack[0])) == (
        mr.Frame("forward", "model.py", 7),
        mr.Frame("main", "train.py", 3),
    )
    assert snap.text(int(events.compile_context[0])) == "0/1"
    assert snap.metadata(int(events.user_metadata[0])) == {"step": 3}
    assert snap.pool_id(int(events.pool[0])) == (0, 1)
    assert snap.pool_id(int(events.pool[1])) is None
    assert snap.text(2**32 - 1) is None
    with pytest.raises(IndexError):
        snap.stack(99)
    with pytest.raises(IndexError):
        snap.frame(99)


def test_settings_are_kept() -> None:
    snap = mr.open(build.dump(small()))
    assert snap.settings == {"expandable_segments": True, "nested": {"a": [1, 2.5, None]}}
    assert mr.open(build.dump({"segments": [], "device_traces": []})).settings == {}


def test_device_is_replayed_once() -> None:
    snap = mr.open(build.dump(small()))
    assert snap.replay(0) is snap.replay()
    with pytest.raises(mr.UsageError, match="no device 3; this snapshot has: 0"):
        snap.replay(3)
    empty = mr.open(build.dump({"segments": [], "device_traces": [[], []]}))
    assert empty.devices == ()
    with pytest.raises(mr.UsageError, match="no device 0; this snapshot has: none"):
        empty.replay()


def test_columns_are_read_only_views_that_outlive_the_snapshot() -> None:
    snap = mr.open(build.dump(small()))
    address, line = snap.events.address, snap.frames.line
    assert address.dtype == np.uint64
    assert not address.flags.writeable
    assert not address.flags.owndata
    with pytest.raises(ValueError, match="read-only"):
        address[0] = 1
    del snap
    assert address.tolist() == [0x1000] * 3
    assert sorted(line.tolist()) == [0, 3, 7]


def test_progress_counts_input_bytes(tmp_path: Path) -> None:
    data = build.dump(small())
    path = tmp_path / "snap.pkl"
    path.write_bytes(data)
    told: list[tuple[int, int | None]] = []
    mr.open(path, progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (len(data), len(data))
    told.clear()
    mr.open(io.BytesIO(data), progress=lambda done, total: told.append((done, total)))
    assert told[-1][1] is None


def test_progress_callback_can_stop_the_reading() -> None:
    def stop(_done: int, _total: int | None) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        mr.open(build.dump(small()), progress=stop)


def test_limits_can_be_set() -> None:
    data = build.dump(small())
    with pytest.raises(mr.LimitError, match="string_bytes"):
        mr.open(data, limits=mr.Limits(string_bytes=4))
    with pytest.raises(mr.LimitError, match="nesting_depth"):
        mr.open(data, limits=mr.Limits(nesting_depth=1))


def test_dict_without_the_keys_is_not_a_snapshot() -> None:
    with pytest.raises(mr.SnapshotError, match="neither 'segments' nor 'device_traces'"):
        mr.open(build.dump({"model": {"weight": 1}}))


def test_snapshot_has_no_reference_cycles() -> None:
    """A command over many files should hold one at a time, rather than several that wait for the
    garbage collector.
    """
    gc.disable()
    try:
        with mr.open(build.dump(small())) as snap:
            usage = snap.replay().measure("held")
            kept = usage.peak
            replay = weakref.ref(snap.replay())
        # Objects that are still referenced keep working.
        assert usage.end_bytes == 0
        assert usage.replay.measure("held").peak == kept
        assert usage.replay.measure("held").series is usage.series
        del snap, usage
        assert replay() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (0, 1, 0, 2, 1, 0), (-1, 3, -1), ()])
def test_segments_may_list_devices_in_any_order(order: tuple[int, ...]) -> None:
    builder = SnapshotBuilder(3)
    for i, device in enumerate(order):
        start = (1 + i) << 24
        blocks: list[Any] = [
            {"address": start, "size": 512, "requested_size": 500, "state": "active_allocated"},
            {"address": start + 512, "size": 1024, "requested_size": 0, "state": "inactive"},
            {
                "address": start + 1536,
                "size": 1024,
                "requested_size": 9,
                "state": "active_pending_free",
            },
        ]
        builder.segment(start, 1 << 21, device, blocks=blocks[: 1 + i % 3])
    built = builder.build()
    snap = mr.open(build.dump(built))
    assert snap.devices == tuple(sorted(set(order)))
    for device in snap.devices:
        own = [one for one in built["segments"] if one["device"] == device]
        tally = snap.replay(device).native.tally()
        assert tally["segments"] == len(own)
        assert tally["reserved_bytes"] == sum(one["total_size"] for one in own)
        blocks = [one for segment in own for one in segment["blocks"]]
        assert sum(count for _, count, _, _ in tally["states"]) == len(blocks)
        active = [one for one in blocks if one["state"] != "inactive"]
        size = sum(one["size"] for one in active)
        assert snap.replay(device).native.segment_bytes("active") == size
        again = mr.open(b"".join(cut(snap)[1])).replay(device)
        assert again.native.tally() == tally


# ---- notes of memreplay's own recorder

RUN = {"version": 1, "cards": [{"name": "Tesla T4", "total_bytes": 1 << 34}, {"name": "?"}]}


def recorded(run: object) -> mr.Snapshot:
    return mr.open(build.dump(SnapshotBuilder(2).alloc(0x1000, 5).top("memreplay", run).build()))


def test_recorder_has_the_recorders_notes() -> None:
    snap = recorded(RUN)
    assert snap.recorder == snap.kept("memreplay") == RUN
    assert [snap.card_bytes(i) for i in range(3)] == [1 << 34, None, None]
    none = mr.open(build.dump(small()))
    assert (none.recorder, none.card_bytes(0), none.kept("memreplay")) == ({}, None, None)


@pytest.mark.parametrize("writer", [build.dump, build.dump_cpp, build.dump_unshared])
def test_recorders_notes_are_read_from_every_writer(writer: Any) -> None:
    made = SnapshotBuilder().alloc(0x1000, 5).top("memreplay", RUN).build()
    assert mr.open(writer(made)).recorder == RUN


@pytest.mark.parametrize(
    "cards",
    [
        None,
        5,
        {},
        [],
        [None],
        [[]],
        *([{"total_bytes": one}] for one in (0, -1, 1 << 63, 1.5, "8", None)),
    ],
)
def test_invalid_card_is_ignored(cards: object) -> None:
    assert recorded({"cards": cards}).card_bytes(0) is None


@pytest.mark.parametrize("run", [[1], "x", 7, None])
def test_recorder_that_is_not_a_dict_is_ignored(run: object) -> None:
    assert recorded(run).recorder == {}
    assert recorded(run).card_bytes(0) is None


def in_itself(*way: str) -> dict[str, Any]:
    """Return a dict that contains itself under these nested keys."""
    found: dict[str, Any] = {}
    inner = found
    for key in way[:-1]:
        inner[key] = {}
        inner = inner[key]
    inner[way[-1]] = found
    return found


def odd_notes() -> dict[str, Any]:
    """Return unreadable notes, each with other data for the same snapshot."""
    deep: Any = {}
    for _ in range(40):
        deep = {"more": deep}
    many: Any = {"x": 1}
    for _ in range(40):
        many = {"a": many, "b": many}
    shared = {"a": 1}
    own: dict[str, Any] = {}
    own["memreplay"] = own
    around: dict[str, Any] = {}
    around["memreplay"] = {"steps": around}
    listed: list[Any] = []
    listed.append(listed)
    return {
        "in itself": {"memreplay": in_itself("me")},
        "deep in itself": {"memreplay": in_itself("steps", "of", "me")},
        "a list in itself": {"memreplay": listed},
        "too deep": {"memreplay": deep},
        "too many": {"memreplay": many},
        "shared": {"other": shared, "memreplay": shared},
        "a part shared": {"other": shared, "memreplay": {"cards": shared}},
        "the snapshot": own,
        "the snapshot within": around,
        "a list": {"memreplay": [1]},
        "a text": {"memreplay": "x"},
        "a number": {"memreplay": 7},
        "bytes": {"memreplay": b"x"},
        "a set": {"memreplay": {1}},
    }


@pytest.mark.parametrize("name", list(odd_notes()))
@pytest.mark.parametrize("first", [True, False])
def test_unreadable_notes_are_dropped_and_reported(name: str, first: bool) -> None:
    for protocol in range(3 if name in ("bytes", "a set") else 0, 6):
        whole = odd_notes()[name]
        made = SnapshotBuilder(2).alloc(0x1000, 5).settings(expandable_segments=True).build()
        if first:
            whole.update(made)
        else:
            # Keep the same dict, because the notes may contain it.
            noted = dict(whole)
            whole.clear()
            whole.update({**made, **noted})
        try:
            data = pickle.dumps(whole, protocol)
        except pickle.PicklingError:
            continue
        if name == "a set" and protocol < 4:
            continue  # a call
        snap = mr.open(data)
        assert snap.replay().peak.bytes == 5
        assert (snap.recorder, snap.card_bytes(0), snap.recorded) == ({}, None, None)
        assert snap.settings == {"expandable_segments": True}
        assert snap.notes_flaw
        assert "notes_unreadable" in device_verdict(snap, snap.replay()).reasons
        out = io.BytesIO()
        convert(data, out.write)
        assert mr.open(out.getvalue()).notes_flaw == snap.notes_flaw


def test_readable_notes_have_no_flaw() -> None:
    assert not recorded(RUN).notes_flaw
    assert not recorded({}).notes_flaw
    plain = mr.open(build.dump(small()))
    assert not plain.notes_flaw
    assert "notes_unreadable" not in device_verdict(plain, plain.replay()).reasons


def test_slice_drops_unreadable_notes() -> None:
    snap = mr.open(pickle.dumps({**small(), "memreplay": in_itself("me")}))
    sliced, pieces = cut(snap)
    assert [one.key for one in sliced.left_out] == ['"memreplay"']
    assert "nested too deep" in sliced.left_out[0].why
    again = mr.open(b"".join(pieces))
    assert again.kept("memreplay") is None
    assert not again.notes_flaw


@pytest.mark.parametrize("shared", ["segments", "unknown"])
def test_settings_with_unexpected_nesting_are_refused(shared: str) -> None:
    whole: dict[str, Any] = {"segments": [], "device_traces": [], "unknown": {"a": 1}}
    whole["allocator_settings"] = {"x": [whole[shared]]}
    for protocol in range(6):
        with pytest.raises(mr.SnapshotError, match=r"the snapshot inside kept data \(byte \d+"):
            mr.open(pickle.dumps(whole, protocol))


def test_every_writer_keeps_the_recorder() -> None:
    snap = recorded(RUN)
    assert mr.open(b"".join(cut(snap)[1])).recorder == RUN
    data = build.dump(SnapshotBuilder().alloc(0x1000, 5).top("memreplay", RUN).build())
    for form in ("pickle", "json"):
        out = io.BytesIO()
        convert(data, out.write, fmt=form)
        assert mr.open(out.getvalue()).recorder == RUN


def unused_beside(events: int = 1) -> SnapshotBuilder:
    """Build two unused devices, as PyTorch writes them, and a used one."""
    made = SnapshotBuilder(devices=3)
    for device in (0, 1, 2):
        made.event("snapshot", 0, 0, device=device)
    for i in range(events):
        made.event("alloc", 0x1000 + 512 * i, 512, device=2)
    return made


def test_unused_devices_are_left_out() -> None:
    data = build.dump(unused_beside().build())
    snap = mr.open(data)
    assert snap.devices == (2,)
    assert snap.replay().peak.bytes == 512
    assert mr.open(data, start=1).devices == (2,)  # the evidence is outside the range
    assert mr.open(data, stop=1).devices == (2,)


def test_unused_device_can_be_selected() -> None:
    data = build.dump(unused_beside().build())
    assert mr.open(data).replay(1).peak.bytes == 0
    assert mr.open(data, device=1).devices == (1,)


def test_unused_devices_are_listed_if_no_other_exists() -> None:
    assert mr.open(build.dump(unused_beside(0).build())).devices == (0, 1, 2)


def test_device_with_evidence_of_use_in_its_events_is_used() -> None:
    made = unused_beside()
    made.event("snapshot", 0, 512, device=1)
    assert mr.open(build.dump(made.build())).devices == (1, 2)


def test_device_with_only_a_segment_is_used() -> None:
    made = unused_beside().segment(0x7000, 1 << 21, device=0)
    assert mr.open(build.dump(made.build())).devices == (0, 2)


@pytest.mark.parametrize("before", range(6))
@pytest.mark.parametrize("key", ["allocator_settings", "memreplay"])
def test_tuple_of_shared_dicts_is_dropped_without_a_flaw(before: int, key: str) -> None:
    """Any number of unknown lists may come before the tuple."""
    frame = {"name": "f"}
    other: list[Any] = [frame, *([] for _ in range(before))]
    whole = {"other": other, "segments": [], "device_traces": [[]], key: {"x": (frame,)}}
    snap = mr.open(pickle.dumps(whole, 4))
    assert not snap.notes_flaw
    assert snap.kept("memreplay" if key == "memreplay" else "settings") == {"x": None}

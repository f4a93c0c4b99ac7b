"""Hostile and unusual pickles: the reader must not crash, hang or misread them."""

from __future__ import annotations

import contextlib
import json
import os
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import memreplay as mr
from tests import build, oracle
from tests.compare import assert_like_oracle
from tests.pickle_ops import Ops
from tests.unit.engine.parts import FIRST_FREE, alloc, close_trace, name, named, open_trace

EVENT = {"action": "alloc", "addr": 1, "size": 9}


def equal_or_refused(data: bytes) -> None:
    """Check that a file reads as it does in Python, or is refused."""
    snapshot = oracle.load(data)
    try:
        mr.open(data)
    except mr.SnapshotError:
        return
    assert_like_oracle(data, snapshot)


# ---- rows that Python drops or moves ----------------------------------------------------


def dropped_events() -> dict[str, bytes]:
    made: dict[str, bytes] = {}
    endings: dict[str, Callable[[Ops], Ops]] = {
        "POP_MARK": lambda o: o.op("POP_MARK").mark(),
        "LIST": lambda o: o.op("LIST").op("POP").mark(),
        "TUPLE": lambda o: o.op("TUPLE").op("POP").mark(),
        "POP": lambda o: o.op("POP"),
        "another batch of keys": lambda o: o.mark().get(1).integer(7).setitems(),
        "SETITEM": lambda o: o.get(1).integer(7).setitem(),
        "two PUTs": lambda o: o.put(90).put(91),
        "DUP": lambda o: o.op("DUP").op("POP"),
    }
    for end, write in endings.items():
        ops = alloc(alloc(open_trace(named()), 1, 100), 2, 200)
        made[end] = close_trace(write(ops), padding=100)
    return made


@pytest.mark.parametrize("end", dropped_events())
def test_popped_events_are_dropped_or_rejected(end: str) -> None:
    equal_or_refused(dropped_events()[end])


def whole_event(ops: Ops, size: int, number: int) -> Ops:
    ops.empty_dict().mark().string("action").string("alloc").string("addr").integer(number)
    return ops.string("size").integer(size).setitems().put(number)


def test_event_moved_to_another_trace_is_right_or_rejected() -> None:
    ops = Ops().proto(4).empty_dict().mark().string("device_traces").empty_list().mark()
    ops.empty_list().put(0).empty_list().put(1)
    whole_event(ops, 100, 2).op("POP").get(0).get(2).append().op("POP")
    whole_event(ops, 200, 3).append()
    equal_or_refused(bytes(ops.appends().setitems().stop()))


def test_dropped_trace_is_right_or_rejected() -> None:
    ops = Ops().proto(4).empty_dict().mark().string("device_traces").empty_list()
    whole_event(ops.empty_list().mark(), 100, 0).appends().op("POP")
    equal_or_refused(bytes(ops.empty_list().append().setitems().stop()))


def segment(ops: Ops, number: int, size: int = 512) -> Ops:
    ops.empty_dict().mark().string("address").integer(number * 4096).string("total_size")
    return ops.integer(size).string("device").integer(number)


def block(ops: Ops, size: int) -> Ops:
    ops.empty_dict().mark().string("size").integer(size).string("state")
    return ops.string("active_allocated").setitems()


def test_block_moved_to_another_segment_is_right_or_rejected() -> None:
    ops = Ops().proto(4).empty_dict().mark().string("segments").empty_list().mark()
    segment(ops, 1).string("blocks").empty_list().put(0).setitems()
    segment(ops, 2).string("blocks").empty_list()
    block(ops, 512).put(2).op("POP").get(0).get(2).append().op("POP").setitems()
    equal_or_refused(bytes(ops.appends().setitems().stop()))


def test_duplicate_blocks_are_right_or_rejected() -> None:
    ops = Ops().proto(4).empty_dict().mark().string("segments").empty_list().mark()
    segment(ops, 1)
    for size in (512, 600):
        block(ops.string("blocks").empty_list().mark(), size).appends()
    equal_or_refused(bytes(ops.setitems().appends().setitems().stop()))


def open_history(ops: Ops) -> Ops:
    """Start a block, up to the list of its history."""
    ops.empty_dict().mark().string("size").integer(512).string("state").string("active_allocated")
    return ops.string("history").empty_list()


def entry(ops: Ops, real_size: int) -> Ops:
    return ops.empty_dict().string("real_size").integer(real_size).setitem()


def test_dropped_history_entry_is_right_or_rejected() -> None:
    # The list's first entry wins, although it was written second.
    ops = Ops().proto(4).empty_dict().mark().string("segments").empty_list()
    open_history(segment(ops, 1).string("blocks").empty_list())
    entry(entry(ops, 500).op("POP"), 400).append().setitems().append().setitems().append()
    equal_or_refused(bytes(ops.setitems().stop()))


def test_dropped_blocks_are_right_or_rejected() -> None:
    # Replace a list of one block with another list.
    ops = Ops().proto(4).empty_dict().mark().string("segments").empty_list()
    segment(ops, 1).string("blocks").empty_list().empty_dict().mark().string("size").integer(512)
    ops.setitems().append().op("POP").empty_list().setitems().append().setitems().stop()
    equal_or_refused(bytes(ops))


def test_interleaved_histories_are_right_or_rejected() -> None:
    ops = Ops().proto(4).empty_dict().mark().string("segments").empty_list()
    open_history(segment(ops, 1).string("blocks").empty_list()).put(7)
    entry(ops, 500).append().setitems().append()
    entry(open_history(ops), 900).append().setitems().append()
    entry(ops.get(7), 400).append().op("POP").setitems().append()
    equal_or_refused(bytes(ops.setitems().stop()))


def test_duplicate_frames_key_is_right_or_rejected() -> None:
    ops = open_trace(named())
    name(ops.empty_dict().mark(), "frames").empty_list().mark()
    name(ops.empty_dict().mark(), "name").string("f").setitems().put(
        FIRST_FREE
    ).appends().setitems()
    for _ in range(2):
        name(ops.empty_dict().mark(), "frames").empty_list().mark().get(FIRST_FREE).appends()
        name(ops, "frames").empty_list().setitems()
    equal_or_refused(close_trace(ops, padding=100))


def test_metadata_changed_after_use_is_right_or_rejected() -> None:
    ops = Ops().proto(4).empty_dict().mark().string("device_traces").empty_list()
    ops.empty_list().mark()
    ops.empty_dict().mark().string("user_metadata").put(1).empty_list().put(0).setitems()
    ops.empty_dict().mark().get(1).get(0).integer(5).append().setitems()
    equal_or_refused(bytes(ops.appends().append().setitems().stop()))


def test_snapshot_parts_used_as_metadata_are_right_or_rejected() -> None:
    frame = {"name": "f", "filename": "a.py", "line": 3}
    for value in (frame, [frame], EVENT):
        first = {**EVENT, "frames": [frame]} if value is not EVENT else EVENT
        trace = [first, {"action": "oom", "user_metadata": value}]
        equal_or_refused(build.dump({"device_traces": [trace]}))


# ---- what pickle.dump writes for valid data ------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [["x", {"b": 1}], ["x", [1]], ["a", "b", ["c", ["d"]]], {"k": ["x", {}], "l": 1}],
    ids=repr,
)
def test_containers_after_a_string_in_a_list_are_kept(value: Any) -> None:
    snapshot = {
        "device_traces": [[{**EVENT, "user_metadata": value}]],
        "allocator_settings": {"a": value, "b": 1},
    }
    snap = assert_like_oracle(build.dump(snapshot), snapshot)
    assert snap.settings == snapshot["allocator_settings"]


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_block_frames_may_come_before_its_history(protocol: int) -> None:
    history = [{"addr": 1, "real_size": 5, "frames": [{"name": "old"}]}]
    for block in (
        {"size": 512, "frames": [{"name": "new"}], "history": history},
        {"size": 512, "history": history, "frames": [{"name": "new"}]},
    ):
        snapshot = {"segments": [{"address": 1, "total_size": 512, "blocks": [block]}]}
        assert_like_oracle(build.dump(snapshot, protocol), snapshot)


KEYS = [
    ({0: "a"}, {"0": "a"}),
    ({None: 1, "a": 2}, {"null": 1, "a": 2}),
    ({True: 1, 1.5: 2}, {"true": 1, "1.5": 2}),
    ({(1, 2): 3}, {"[1, 2]": 3}),
]


@pytest.mark.parametrize("value, spelled", KEYS, ids=repr)
def test_non_string_keys_in_kept_data_are_kept(value: Any, spelled: Any) -> None:
    snap = mr.open(build.dump({"device_traces": [[{**EVENT, "user_metadata": value}]]}))
    assert snap.metadata(int(snap.events.user_metadata[0])) == spelled
    assert mr.open(build.dump({"segments": [], "allocator_settings": value})).settings == spelled


def test_empty_dict_before_an_unknown_key_stays_empty() -> None:
    snapshot = {"segments": [], "allocator_settings": {}, "new": [0] * 1_000_000}
    assert mr.open(build.dump(snapshot)).settings == {}


@pytest.mark.slow
def test_many_metadata_dicts_are_read() -> None:
    trace = [{"action": "alloc", "user_metadata": {"a": i, "b": "c"}} for i in range(360_000)]
    snap = mr.open(build.dump({"device_traces": [trace]}, 2))
    assert snap.native.n_events == 360_000


def test_string_that_starts_with_nul_is_kept() -> None:
    for text in ("\0abc", "\0", '\0{"a": 1}'):
        snap = mr.open(build.dump({"device_traces": [[{**EVENT, "user_metadata": text}]]}))
        assert snap.metadata(int(snap.events.user_metadata[0])) == text


def test_rows_first_seen_under_an_unknown_key_are_refused() -> None:
    # Unknown data has no row, so sharing it is an error and never gives a wrong row.
    segment = {"address": 1, "total_size": 2, "blocks": [{"size": 1}]}
    for snapshot in (
        {"host_traces": [[EVENT]], "device_traces": [[EVENT]]},
        {"host_segments": [segment], "segments": [segment]},
        {"new": segment["blocks"], "segments": [segment]},
        {"new": [segment], "segments": [segment], "device_traces": []},
    ):
        with pytest.raises(mr.SnapshotError, match="was under an unknown key before") as caught:
            mr.open(build.dump(snapshot))
        assert caught.value.offset is not None
        assert_like_oracle(build.dump_unshared(snapshot), snapshot)


# ---- time and memory -----------------------------------------------------------------------------


def seconds(tail: bytes) -> float:
    """Return the best of three times for reading 40,000 strings that end in these eight bytes."""
    ops = Ops().proto(4).empty_dict().mark().string("new").empty_list().mark()
    for i in range(40_000):
        ops.op("SHORT_BINUNICODE", b"\x10" + struct.pack("<Q", i) + tail)
    data = bytes(ops.appends().setitem().stop())
    best = 9.0
    for _ in range(3):
        start = time.process_time()
        with contextlib.suppress(mr.SnapshotError):
            mr.open(data)
        best = min(best, time.process_time() - start)
    return best


def test_hash_collisions_cannot_be_forced() -> None:
    # Without the multiplication, all hashes would be equal and the table a hundred times slower.
    constant = struct.pack("<Q", 0x8EBC6AF09C88C6E3)
    assert seconds(constant) < 20 * seconds(b"harmless")


def resident_after(script: str) -> float:
    """Return the peak memory, in MB, of a process that runs this code."""
    head = "import re\nimport memreplay as mr\nfrom tests.build import Ops\n"
    # ru_maxrss won't do, because a child starts with its parent's value.
    tail = "\nprint(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1])"
    read = "\ntry:\n    mr.open(make())\nexcept mr.SnapshotError:\n    pass"
    body = f"{head}def make():\n{script}{read}"
    done = subprocess.run(
        [sys.executable, "-c", body + tail],
        capture_output=True,
        check=True,
        cwd=Path(__file__).parents[4],
        encoding="utf-8",
    )
    return int(done.stdout) / 1024


TRACE = (
    "    o = Ops().proto(4).empty_dict().mark().string('device_traces').empty_list()\n"
    "    o.empty_list().mark()\n"
)
END = "    return bytes(o.appends().append().setitems().stop())"
# Each input is under 1 MB, except for the last two (3 and 6 MB).
MEMORY = {
    "an event over and over": TRACE
    + "    o.empty_dict().mark().string('action').string('alloc').setitems().put(0)\n"
    "    for i in range(500_000):\n"
    "        o.get(0)\n" + END,
    "unknown lists of nothing": "    return b'\\x80\\x04}(X\\x01\\0\\0\\0a](' + b']' * 1_000_000",
    "an unknown frame in many lists": "    return b'\\x80\\x04}(X\\x01\\0\\0\\0a](}q\\0' "
    "+ b'](h\\0h\\0e' * 300_000",
    "rendered metadata that shares": TRACE
    + "    o.empty_dict().mark().string('user_metadata').put(1).empty_list().put(0).mark()\n"
    "    o.string('x' * 60_000).appends().setitems()\n"
    "    for i in range(6_000):\n"
    "        o.empty_dict().mark().get(1).empty_list().mark().get(0).integer(i + 70_000)\n"
    "        o.appends().setitems()\n" + END,
    "two frames lists filled in turns": TRACE
    + "    o.empty_dict().mark().string('frames').put(9).empty_list().put(0)\n"
    "    o.empty_dict().put(1).append().get(9).empty_list().put(2)\n"
    "    for i in range(16_000):\n"
    "        o.get(1).append().op('POP').get(0).get(1).append().op('POP').get(2)\n"
    "    o.setitems()\n" + END,
    "segments of nothing": "    return b'\\x80\\x04](' + b'}' * 3_000_000",
    "lists in lists": "    return b'\\x80\\x04' + b']' * 6_000_000",
}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
@pytest.mark.skipif(
    "libasan" in os.environ.get("LD_PRELOAD", ""), reason="a sanitizer's own memory counts too"
)
@pytest.mark.parametrize("attack", MEMORY)
def test_memory_stays_in_proportion_to_the_input(attack: str) -> None:
    assert resident_after(MEMORY[attack]) < 160


def test_number_of_devices_is_limited() -> None:
    data = Ops().proto(4).empty_dict().mark().string("device_traces").empty_list().mark()
    data.raw(b"]}a" * 20_000).appends().setitems().stop()
    # Each device is replayed separately, over all blocks.
    with pytest.raises(mr.LimitError, match="devices is 1025, over the limit of 1024"):
        mr.open(bytes(data))
    segment = {"device": 1024, "address": 1, "total_size": 2, "blocks": []}
    with pytest.raises(mr.LimitError, match=r"devices is 1025, over .* --limit devices=N"):
        mr.open(build.dump({"segments": [segment]}))
    assert mr.open(bytes(data), limits=mr.Limits(devices=20_000)).devices[-1] == 19_999
    assert mr.open(build.dump({"segments": [segment]}), limits=mr.Limits(devices=1025)).devices == (
        1024,
    )
    for device in (-2, 2**31):
        with pytest.raises(mr.SnapshotError, match="does not fit in 'device'"):
            mr.open(build.dump({"segments": [segment | {"device": device}]}))


def trace_of(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"device_traces": [[{"action": "alloc", **event} for event in fields]]}


# Each snapshot has four rows of a single kind.
ROWS: dict[str, dict[str, Any]] = {
    "events": trace_of(*({"addr": i} for i in range(4))),
    "segments": {"segments": [{"address": i, "total_size": 1} for i in range(4)]},
    "blocks": {
        "segments": [{"address": 0, "total_size": 9, "blocks": [{"size": i} for i in range(4)]}]
    },
    "annotations": {"segments": [], "external_annotations": [{"name": str(i)} for i in range(4)]},
    "frames": trace_of({"frames": [{"line": i} for i in range(4)]}),
    "stacks": trace_of(*({"frames": []} for i in range(4))),
}


@pytest.mark.parametrize("form", ["pickle", "json"])
@pytest.mark.parametrize("table", ROWS)
def test_number_of_rows_is_limited(table: str, form: str) -> None:
    data = build.dump(ROWS[table]) if form == "pickle" else json.dumps(ROWS[table]).encode()
    mr.open(data, limits=mr.Limits(rows=4))
    with pytest.raises(mr.LimitError, match=r"rows of .* is 4, over the limit of 3") as caught:
        mr.open(data, limits=mr.Limits(rows=3))
    assert "--limit rows=N" in str(caught.value)
    if table != "stacks":  # there are as many stacks as events
        assert f"rows of {table} is" in str(caught.value)


def test_row_limit_may_exceed_the_largest_memo_index() -> None:
    # A limit above the largest memo index changes nothing.
    assert mr.open(build.dump(ROWS["events"]), limits=mr.Limits(rows=2**62)).native.n_events == 4


# ---- calls that no file can trigger
# ----------------------------------------------------------------

CALLS = {
    "action_name": "snap.action_name(256)",
    "action_name, negative": "snap.action_name(-5)",
    "Replay(None)": "_timeline.Replay(None, 0)",
    "Reserved(None)": "_measures.Reserved(None)",
    "Measure()": "_timeline.Measure()",
}


@pytest.mark.parametrize("call", CALLS)
def test_no_call_kills_python(call: str) -> None:
    data = build.dump({"device_traces": [[EVENT]]})
    script = (
        "import memreplay as mr\nfrom memreplay.engine.replay import _measures, _timeline\n"
        f"snap = mr.open({data!r})\n"
        f"try:\n    {CALLS[call]}\n    raise SystemExit(9)\n"
        "except (IndexError, TypeError):\n    pass"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert done.returncode == 0


def test_ids_out_of_range_raise_index_error() -> None:
    native = mr.open(build.dump({"device_traces": [[EVENT]]})).native
    for read in (native.string, native.stack, native.frame, native.pool):
        for i in (-1, 2**32, 2**70):
            with pytest.raises(IndexError):
                read(i)


def test_helper_names_are_stored_in_order() -> None:
    # The other tests of this file rely on `named` and `name`.
    ops = open_trace(named())
    name(name(ops.empty_dict().mark(), "action"), "alloc").setitems()
    assert mr.open(close_trace(ops)).replay().native.allocs == 1

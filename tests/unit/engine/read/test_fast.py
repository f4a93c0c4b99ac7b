"""fast: the output of real writers takes the fast path, and reads as on the general path."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import memreplay as mr
from tests import build, oracle
from tests.build import FrameSpec, SnapshotBuilder
from tests.compare import assert_like_oracle
from tests.pickle_ops import Ops
from tests.unit.engine.parts import (
    FIRST_FREE,
    NOTHING,
    alloc,
    close_trace,
    name,
    named,
    open_trace,
)

A, B = 2**46 + 512, 2**63 + 1024
FRAMES: list[FrameSpec] = [(f"f{i}", f"file{i % 5}.py", i) for i in range(40)]


def trace(events: int = 120, **kind: Any) -> Any:
    builder = SnapshotBuilder(**kind)
    for i in range(events):
        frames = FRAMES[i % 7 : i % 7 + i % 11]
        builder.alloc(A + 512 * i, i, frames=frames, stream=(0, 7, B)[i % 3], pool_id=(0, i % 3))
        if i % 2:
            builder.free(A + 512 * i, i, frames=frames, pool_id=(i % 2, 0))
    return builder.build()


def read_both(data: bytes) -> mr.Snapshot:
    """Read a pickle with and without the fast path; both must equal the oracle."""
    snapshot = oracle.load(data)
    snap = assert_like_oracle(data, snapshot)
    slow = assert_like_oracle(defeat(data), snapshot)
    assert slow.native.fast_events == 0
    return snap


def defeat(data: bytes) -> bytes:
    """Return the same pickle with an empty FRAME after each opcode, to disable the fast path."""
    return NOTHING.join(piece for _, piece in build._pieces(data))


WRITERS: dict[str, Callable[[Any], bytes]] = {
    "protocol 2": lambda s: build.dump(s, 2),
    "protocol 4": lambda s: build.dump(s, 4),
    "protocol 5": lambda s: build.dump(s, 5),
    "cpp": build.dump_cpp,
    "cpp, all memoised": lambda s: build.dump_cpp(s, True),
    "not memoised": build.dump_optimized,
}
KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "metadata": {"compile_context": "N/A", "user_metadata": ""},
    "long metadata": {"compile_context": "x" * 255, "user_metadata": "y" * 200},
    "no times": {"times": False},
    "no stacks": {"stacks": False},
    "shared lists": {"shared_lists": True},
    "fx": {"fx": True},
}


@pytest.mark.slow
@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("kind", KINDS)
def test_known_writers_use_the_fast_path(writer: str, kind: str) -> None:
    snap = read_both(WRITERS[writer](trace(**KINDS[kind])))
    # An event with something new (a key, an address shape) takes the general path.
    assert snap.native.fast_events > snap.native.n_events // 4


def test_most_events_use_the_fast_path() -> None:
    builder = SnapshotBuilder(compile_context="N/A", user_metadata="")
    for i in range(1_000):
        frames = FRAMES[i % 7 : i % 7 + i % 11]
        builder.alloc(A + 512 * i, i, frames=frames).free(A + 512 * i, i, frames=frames)
    snap = mr.open(build.dump(builder.build()))
    assert snap.native.fast_events > 0.98 * snap.native.n_events


def test_events_of_two_devices_take_the_fast_path() -> None:
    builder = SnapshotBuilder(devices=3)
    for i in range(100):
        builder.alloc(A + i, i, device=0, frames=FRAMES[:3])
        builder.alloc(A + i, 2 * i, device=2, frames=FRAMES[1:4])
    snap = read_both(build.dump(builder.build()))
    assert snap.events.device.tolist() == [0] * 100 + [2] * 100
    assert snap.native.fast_events > 150


def short(fill: Callable[[Ops], object], after: int = 0) -> bytes:
    """Return two events for the fast path, then the output of `fill`, then `after` more events."""
    ops = open_trace(named())
    alloc(alloc(ops, 1, 10), 2, 20)
    fill(ops)
    for i in range(after):
        alloc(ops, 100 + i, 1)
    return close_trace(ops, padding=100)


def test_frame_list_may_have_one_frame() -> None:
    def fill(ops: Ops) -> None:
        name(ops.empty_dict().mark(), "frames").empty_list().empty_dict().mark()
        name(ops, "name").string("f").setitems().put(FIRST_FREE).append().setitems()
        for _ in range(3):
            name(ops.empty_dict().mark(), "frames").empty_list().get(FIRST_FREE).append().setitems()

    snap = read_both(short(fill, after=2))
    assert [len(snap.stack(int(s))) for s in snap.events.stack] == [0, 0, 1, 1, 1, 1, 0, 0]
    assert snap.native.fast_events == 8


def frame_and_then(ops: Ops, n: int) -> None:
    """Return an event with n new frames, stored from FIRST_FREE on."""
    name(ops.empty_dict().mark(), "frames").empty_list().mark()
    for i in range(n):
        name(ops.empty_dict().mark(), "name").string(f"f{i}").setitems().put(FIRST_FREE + i)
    ops.appends().setitems()


def test_frame_list_may_come_in_several_batches() -> None:
    def fill(ops: Ops) -> None:
        frame_and_then(ops, 4)
        for _ in range(2):
            name(ops.empty_dict().mark(), "frames").empty_list()
            ops.mark().get(FIRST_FREE).get(FIRST_FREE + 1).appends()
            ops.mark().get(FIRST_FREE + 2).appends().get(FIRST_FREE + 3).append().setitems()

    snap = read_both(short(fill, after=2))
    assert len(snap.stack(int(snap.events.stack[3]))) == 4
    assert snap.native.fast_events == 5


@pytest.mark.parametrize("n", [999, 1000, 1001, 1002, 2001])
def test_first_batch_of_a_stack_is_not_a_stack(n: int) -> None:
    builder = SnapshotBuilder().alloc(A, 1, frames=FRAMES)  # later stacks reuse these frames
    for i in range(1, 5):
        builder.alloc(A + 512 * i, 1, frames=[FRAMES[i], *[FRAMES[0]] * (n - 1)])
    snap = read_both(build.dump(builder.build()))
    assert snap.native.n_stacks == 6  # including the empty stack


def test_empty_frame_lists_are_empty_stacks() -> None:
    def fill(ops: Ops) -> None:
        for _ in range(3):
            name(ops.empty_dict().mark(), "frames").empty_list().setitems()
            name(ops.empty_dict().mark(), "frames").empty_list().mark().appends().setitems()

    snap = read_both(short(fill))
    assert snap.native.fast_events == 8
    assert set(snap.events.stack.tolist()) == {0}


def test_shared_lists_stay_on_the_fast_path() -> None:
    def fill(ops: Ops) -> None:
        frame_and_then(ops, 2)
        at = FIRST_FREE + 2
        name(ops.empty_dict().mark(), "frames").empty_list().put(at).mark()
        ops.get(FIRST_FREE).get(FIRST_FREE + 1).appends().setitems()
        name(ops.empty_dict().mark(), "frames").empty_list().mark()
        ops.get(FIRST_FREE + 1).appends().put(at + 1).setitems()
        for index in (at, at + 1):
            name(ops.empty_dict().mark(), "frames").get(index).setitems()

    snap = read_both(short(fill))
    assert [len(snap.stack(int(s))) for s in snap.events.stack] == [0, 0, 2, 2, 1, 2, 1]
    assert snap.native.fast_events == 7


def test_list_may_not_change_after_use() -> None:
    def fill(ops: Ops) -> None:
        frame_and_then(ops, 1)
        at = FIRST_FREE + 1
        name(ops.empty_dict().mark(), "frames").empty_list().put(at).mark()
        ops.get(FIRST_FREE).appends().setitems()
        name(ops.empty_dict().mark(), "frames").get(at).get(FIRST_FREE).append().setitems()

    with pytest.raises(mr.SnapshotError, match="a frames list that changes after its use"):
        mr.open(short(fill))


def test_last_of_repeated_keys_wins() -> None:
    def fill(ops: Ops) -> None:
        ops.empty_dict().mark()
        for size in range(40):
            name(ops, "size").integer(size)
            name(ops, "pool_id").integer(0).integer(size).op("TUPLE2").memoize()
        ops.setitems()

    snap = read_both(short(fill, after=3))
    assert snap.events.size.tolist() == [10, 20, 39, 1, 1, 1]
    assert snap.pool_id(int(snap.events.pool[2])) == (0, 39)


@pytest.mark.parametrize(
    "extra",
    [
        lambda o: o.string("unknown").integer(1),
        lambda o: o.string("forward_frames").empty_list().mark().strings("a", "b").appends(),
        lambda o: o.string("device_free").integer(5),
        lambda o: name(o, "user_metadata").empty_dict().string("a").integer(1).setitem(),
        lambda o: name(o, "user_metadata").op("NONE"),
        lambda o: name(o, "compile_context").binunicode("x"),
        lambda o: name(o, "frames").op("NONE"),
        lambda o: name(o, "pool_id").op("NONE"),
        lambda o: name(o, "time_us").op("NONE"),
        lambda o: name(o, "addr").long1(2**63 + 5, 9),
        lambda o: name(o, "stream").op("LONG4", b"\x01\0\0\0\x05"),
        lambda o: name(o, "action").string("something new"),
        lambda o: name(o, "size").op("NEWTRUE"),
    ],
)
def test_unusual_events_take_the_general_path(extra: Callable[[Ops], object]) -> None:
    def fill(ops: Ops) -> None:
        name(ops.empty_dict().mark(), "addr").integer(77)
        extra(ops)
        ops.setitems()

    snap = read_both(short(fill, after=3))
    assert snap.native.fast_events == 5
    assert snap.native.n_events == 6


@pytest.mark.parametrize("size", [-1, 2**62])
def test_size_out_of_bounds_is_refused_on_both_paths(size: int) -> None:
    def fill(ops: Ops) -> None:
        name(ops.empty_dict().mark(), "size").integer(size).setitems()

    for data in (short(fill), defeat(short(fill))):
        with pytest.raises(mr.SnapshotError, match="does not fit in 'size'"):
            mr.open(data)


@pytest.mark.parametrize("width", range(1, 9))
def test_integers_may_have_any_width(width: int) -> None:
    def fill(ops: Ops) -> None:
        for value in (0, 1, -1, 2 ** (8 * width - 1) - 1, -(2 ** (8 * width - 1))):
            name(ops.empty_dict().mark(), "time_us").long1(
                value + (width == 8 and value < -1), width
            )
            name(ops, "addr").long1(value, width).setitems()

    snap = read_both(short(fill))
    assert snap.native.fast_events == 7


def test_empty_long1_is_zero() -> None:
    def fill(ops: Ops) -> None:
        name(ops.empty_dict().mark(), "addr").op("LONG1", b"\0").setitems()

    assert read_both(short(fill)).events.address.tolist() == [1, 2, 0]


def test_gaps_in_memo_indexes_turn_the_fast_path_off() -> None:
    ops = open_trace(named().string("far").put(200).op("POP"))
    for i in range(3):
        alloc(ops, 50 + i, i)
    snap = read_both(close_trace(ops, padding=100))
    assert snap.native.fast_events == 0  # MEMOIZE would no longer be the next index


def test_many_distinct_stacks_are_read() -> None:
    builder = SnapshotBuilder()
    for i in range(3_000):
        picked = [FRAMES[i >> k & 31] for k in range(0, 12, 2)]
        builder.alloc(A + i * 512, i, frames=picked)
    data = build.dump(builder.build())
    snap = mr.open(data)
    assert snap.native.fast_events > 2_900
    for i in range(0, 3_000, 111):
        picked = [FRAMES[i >> k & 31] for k in range(0, 12, 2)]
        assert [f.function for f in snap.stack(int(snap.events.stack[i]))] == [f[0] for f in picked]


def test_frame_list_may_be_longer_than_the_lookahead() -> None:
    builder = SnapshotBuilder()
    for i in range(4):
        builder.alloc(A + i, i, frames=FRAMES[:3] * 15_000)
    snap = mr.open(build.dump_cpp(builder.build()))
    assert {len(snap.stack(int(s))) for s in snap.events.stack} == {45_000}


def test_memo_limit_applies_on_the_fast_path() -> None:
    data = build.dump(trace(300))
    with pytest.raises(mr.LimitError, match="memo_entries"):
        mr.open(data, limits=mr.Limits(memo_entries=400))


def test_unused_keys_stay_on_the_fast_path() -> None:
    for value in (
        "unknown",
        7,
        2**40,
        None,
        True,
        [],
        ["a", "b"],
        ["a"],
        (1, 2),
        {"a": 1},
        [[1]],
        1.5,
    ):
        builder = SnapshotBuilder(compile_context="N/A")
        for i in range(200):
            builder.alloc(
                4096 + i,
                1 + i,
                frames=[("f", "m.py", i % 3), ("g", "m.py", 1)],
                category=value,
                later="x",
            )
        snapshot = builder.build()
        snap = assert_like_oracle(build.dump(snapshot), snapshot)
        if not isinstance(value, (dict, tuple, float)) and value not in ([[1]], ["a"]):
            assert snap.native.fast_events > 150, value
        assert_like_oracle(build.dump_cpp(snapshot), snapshot)


def test_forward_frames_stay_on_the_fast_path() -> None:
    builder = SnapshotBuilder()
    names = [f"layer {i}" for i in range(9)]
    for i in range(200):
        builder.alloc(
            4096 + i,
            1 + i,
            frames=[("f", "m.py", 3), ("g", "m.py", 1)],
            forward_frames=names[: i % 9],
        )
    snapshot = builder.build()
    assert assert_like_oracle(build.dump(snapshot), snapshot).native.fast_events > 100


def test_texts_and_pools_may_vary_between_events() -> None:
    snapshot = trace()
    for i, event in enumerate(snapshot["device_traces"][0]):
        # The recorder creates each string anew, so none is shared.
        event["compile_context"] = "".join(("0/", "001122"[i % 6]))
        event["user_metadata"] = "ab"[: i % 3] + "x"
        event["unheard of"] = "".join(("c", "at" if i % 4 else ""))
        event["pool_id"] = (i % 2, i // 2 % 2)
    assert read_both(build.dump(snapshot)).native.fast_events > 0


def test_reserved_time_value_is_refused_on_both_paths() -> None:
    def fill(ops: Ops) -> None:
        name(ops.empty_dict().mark(), "time_us").long1(-(2**63), 8).setitems()

    for data in (short(fill), defeat(short(fill))):
        with pytest.raises(mr.SnapshotError, match="does not fit in 'time_us'"):
            mr.open(data)


@pytest.mark.parametrize(
    "more",
    [
        lambda o: name(o.mark(), "size").integer(7).setitems(),
        lambda o: o.mark().setitems(),
        lambda o: name(o, "size").integer(7).setitem(),
        lambda o: o.string("size").integer(7).setitem(),
        lambda o: o.put(4000),
        lambda o: o.op("NONE").op("POP"),
        lambda o: name(o.raw(NOTHING).mark(), "size").integer(7).setitems(),
        lambda o: name(o.raw(2 * NOTHING), "size").integer(7).setitem(),
    ],
)
def test_event_may_get_more_keys_later(more: Callable[[Ops], object]) -> None:
    def fill(ops: Ops) -> None:
        name(name(ops.empty_dict().mark(), "action"), "alloc")
        more(name(ops, "addr").integer(77).setitems())

    snap = read_both(short(fill, after=3))
    assert snap.native.n_events == 6

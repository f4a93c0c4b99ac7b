"""frames: stacks with inline frames and stacks of blocks read the same as any others."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

import pytest

import memreplay as mr
from tests import build, oracle
from tests.build import SnapshotBuilder
from tests.compare import assert_like_oracle
from tests.pickle_ops import Ops
from tests.unit.engine.parts import FIRST_FREE, NUMBER, alloc, close_trace, name, named, open_trace
from tests.unit.engine.read.test_fast import FRAMES, read_both

A = 2**46 + 512


def written_out(snapshot: Any) -> Any:
    """Return the same data with a separate frame dict in each place, but shared strings."""
    known: dict[int, Any] = {}

    def fresh(value: Any) -> Any:
        if isinstance(value, dict):
            if id(value) in known and "filename" not in value:
                return known[id(value)]
            made: Any = {key: fresh(item) for key, item in value.items()}
        elif isinstance(value, list):
            if id(value) in known:
                return known[id(value)]
            made = [fresh(item) for item in value]
        else:
            return value
        known[id(value)] = made
        return made

    return fresh(snapshot)


def recording(events: int = 400, new: bool = False, **kind: Any) -> Any:
    """Return stacks that repeat often or, with `new`, hardly ever."""
    rng = random.Random(7)
    b = SnapshotBuilder(**kind)
    for i in range(events):
        frames = FRAMES[i % 7 : i % 7 + i % 11]
        if new:
            frames = rng.sample(FRAMES, rng.randrange(9))
        b.alloc(A + 512 * i, i, frames=frames)
        if i % 3 == 0:
            b.free(A + 512 * i, i, frames=frames)
    return written_out(b.finish_segments().build())


WRITERS: dict[str, Callable[[Any], bytes]] = {
    "protocol 2": lambda s: build.dump(s, 2),
    "protocol 4": lambda s: build.dump(s, 4),
    "protocol 5": lambda s: build.dump(s, 5),
    "cpp": build.dump_cpp,
    "cpp, all memoised": lambda s: build.dump_cpp(s, True),
    "not memoised": build.dump_optimized,
    "texts too": lambda s: build.dump_unshared(s, 4),
}


@pytest.mark.slow
@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("new", [False, True], ids=["again", "new"])
@pytest.mark.parametrize("fx", [False, True], ids=["plain", "fx"])
def test_inline_frames_take_the_fast_path(writer: str, new: bool, fx: bool) -> None:
    snap = read_both(WRITERS[writer](recording(new=new, fx=fx)))
    if writer != "texts too":  # inline keys take the general path
        assert snap.native.fast_events > 0.9 * snap.native.n_events


@pytest.mark.slow
@pytest.mark.parametrize("protocol", [2, 4])
def test_inline_frames_longer_than_a_window_are_read(protocol: int) -> None:
    b = SnapshotBuilder()
    for i in range(6_000):
        b.alloc(A + 512 * i, i, frames=[FRAMES[(i + k * (i % 3)) % 40] for k in range(20)])
    snapshot = written_out(b.build())
    data = build.dump(snapshot, protocol)
    assert len(data) > 2_000_000
    snap = assert_like_oracle(data, snapshot)
    assert snap.native.fast_events > 5_900


def frame(ops: Ops, line: int, put: bool = True) -> Ops:
    """Return a frame dict with only a name, stored by MEMOIZE."""
    ops.empty_dict()
    if put:
        ops.memoize()
    return name(ops.mark(), "name").get(FIRST_FREE + line).setitems()


def texts(*more: str) -> Ops:
    ops = named()
    for number, text in enumerate(more):
        ops.string(text).put(FIRST_FREE + number).op("POP")
    return ops


def test_repeated_list_stores_its_frames_in_the_memo() -> None:
    ops = open_trace(texts("f", "g"))
    at = FIRST_FREE + 2
    for i in range(4):
        name(ops.empty_dict().mark(), "frames").empty_list().mark()
        frame(frame(ops, 0), 1).appends().setitems()
        # Then use the frames of this list, in reverse order.
        name(ops.empty_dict().mark(), "frames").empty_list().mark()
        ops.get(at + 2 * i + 1).get(at + 2 * i).appends().setitems()
    snap = read_both(close_trace(ops, padding=100))
    assert snap.native.fast_events == 8
    functions = [[f.function for f in snap.stack(int(s))] for s in snap.events.stack]
    assert functions == 4 * [["f", "g"], ["g", "f"]]


def test_text_first_stored_inside_a_list_is_known_later() -> None:
    ops = open_trace(texts())
    at = FIRST_FREE
    for i in range(3):
        name(ops.empty_dict().mark(), "frames").empty_list().mark()
        name(ops.empty_dict().mark(), "name").string("f").memoize().setitems()
        name(ops.empty_dict().mark(), "name").get(at).setitems().appends()
        name(ops, "user_metadata").get(at + i).setitems()
    snap = read_both(close_trace(ops, padding=100))
    assert snap.native.fast_events == 3
    assert len(snap.stack(int(snap.events.stack[2]))) == 2


@pytest.mark.parametrize("value", ["integer", "numbered list", "list", "text"])
def test_frame_may_have_an_unknown_key(value: str) -> None:
    ops = open_trace(texts("f", "unknown", "after"))
    at = FIRST_FREE + 3
    for i in range(3):
        name(ops.empty_dict().mark(), "frames").empty_list().mark()
        name(ops.empty_dict().mark(), "name").get(FIRST_FREE).get(FIRST_FREE + 1)
        if value == "integer":
            ops.integer(3)
        elif value == "text":
            ops.string("x").memoize()
        else:
            ops.empty_list()
            # The bytes are the same each time, but that index then holds another list, and nothing
            # more is stored.
            ops.put(at) if value == "numbered list" else ops.memoize()
        ops.setitems()
        frame(ops, 0, put=False).appends().setitems()
        alloc(ops, i, i)
    snap = read_both(close_trace(ops, padding=100))
    assert snap.native.n_events == 6
    assert len(set(snap.events.stack[::2].tolist())) == 1


def test_overwritten_memo_entry_changes_the_meaning_of_equal_bytes() -> None:
    ops = open_trace(texts("f", "g"))
    for text in ("", "h", "i"):
        if text:
            ops.string(text).put(FIRST_FREE).op("POP")
        for _ in range(3):
            name(ops.empty_dict().mark(), "frames").empty_list().mark()
            frame(frame(ops, 0, put=False), 1, put=False).appends().setitems()
    snap = read_both(close_trace(ops, padding=100))
    firsts = [snap.stack(int(s))[0].function for s in snap.events.stack]
    assert firsts == 3 * ["f"] + 3 * ["h"] + 3 * ["i"]


def test_frame_that_refers_to_itself_is_refused() -> None:
    ops = open_trace(texts())
    name(ops.empty_dict().mark(), "frames").empty_list().mark().empty_dict().put(FIRST_FREE).mark()
    name(ops, "name").get(FIRST_FREE).setitems().appends().setitems()
    with pytest.raises(mr.SnapshotError, match="'name'"):
        mr.open(close_trace(ops, padding=100))


def test_inline_frame_may_not_change_later() -> None:
    ops = open_trace(texts("f"))
    name(ops.empty_dict().mark(), "frames").empty_list().mark()
    frame(frame(ops, 0), 0).appends().setitems()
    name(ops.empty_dict().mark(), "frames").get(FIRST_FREE + 1).get(NUMBER["name"]).get(FIRST_FREE)
    with pytest.raises(mr.SnapshotError, match="a frame that changes after its use"):
        mr.open(close_trace(ops.setitem().op("POP").op("NONE").setitems(), padding=100))


def test_block_lists_may_come_in_batches_or_have_one_block() -> None:
    b = SnapshotBuilder()
    frames = [*FRAMES, *FRAMES[:5]]
    for i, n in enumerate((0, 1, 2, 45, 1, 45)):
        b.alloc(A + 512 * i, 8, frames=frames[:n])
    for snapshot in (b.finish_segments().build(), written_out(b.build())):
        for dump in WRITERS.values():
            read_both(dump(snapshot))


@pytest.mark.parametrize("n", [999, 1000, 1001, 1002])
def test_first_batch_of_an_inline_stack_is_not_a_stack(n: int) -> None:
    b = SnapshotBuilder()
    for i in range(4):
        b.alloc(A + 512 * i, 1, frames=[FRAMES[i], *[FRAMES[0]] * (n - 1)])
    snap = read_both(build.dump(written_out(b.build())))
    assert snap.native.n_stacks == 5  # including the empty stack


def test_block_list_may_grow_before_its_use() -> None:
    # As with any list, it belongs to the block only after SETITEMS.
    ops = texts("f", "g", "address", "state", "inactive").empty_dict().mark()
    ops.string("device_traces").empty_list().string("segments").empty_list().empty_dict().mark()
    ops.string("address").integer(512).string("total_size").integer(512)
    ops.string("blocks").empty_list().mark().empty_dict().mark().string("size").integer(512)
    ops.string("frames").empty_list().put(90).mark()
    frame(ops, 0, put=False).appends().string("x").get(90)
    frame(ops, 1, put=False).append().setitems().appends().setitems().append().setitems()
    data = bytes(ops.stop())
    snap = assert_like_oracle(data, oracle.load(data))
    assert snap.native.n_blocks == 1


def test_memo_limit_applies_to_inline_frames() -> None:
    data = build.dump(recording())
    with pytest.raises(mr.LimitError, match="memo_entries"):
        mr.open(data, limits=mr.Limits(memo_entries=2_000))
    deep = copy.copy(mr.Limits(nesting_depth=4))
    with pytest.raises(mr.LimitError, match="nesting_depth"):
        mr.open(data, limits=deep)

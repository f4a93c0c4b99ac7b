"""alike: events written like the one before them read as on the general path, and so do others."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable
from typing import Any

import pytest

import memreplay as mr
from tests import build, oracle
from tests.build import SnapshotBuilder
from tests.compare import assert_like_oracle
from tests.pickle_ops import Ops
from tests.unit.engine.parts import NOTHING, NUMBER, alloc, close_trace, name, named, open_trace
from tests.unit.engine.read.test_fast import FRAMES, read_both

A = 2**46 + 512
EVENTS = 60

Event = dict[str, Any]


def recording(events: int = EVENTS) -> Any:
    """Return events with the same keys; actions, addresses, sizes, times and stacks vary."""
    builder = SnapshotBuilder(compile_context="N/A", user_metadata="")
    for i in range(events):
        frames = FRAMES[i % 3 : i % 3 + 4]
        builder.alloc(A + 512 * i, (i % 5) * 300, frames=frames, pool_id=(0, 0))
        builder.free(A + 512 * i, (i % 5) * 300, frames=frames, pool_id=(0, 0))
    return builder.build()


WRITERS: dict[str, Callable[[Any], bytes]] = {
    "protocol 2": lambda s: build.dump(s, 2),
    "protocol 4": lambda s: build.dump(s, 4),
    "cpp": build.dump_cpp,
    "cpp, all memoised": lambda s: build.dump_cpp(s, True),
    "not memoised": build.dump_optimized,
}


def padded(data: bytes) -> bytes:
    """Keep the end of the input out of reach."""
    return data[:-1] + NOTHING * 200 + pickle.STOP if data[:2] >= b"\x80\x04" else data


@pytest.mark.parametrize("writer", WRITERS)
def test_events_that_are_written_alike(writer: str) -> None:
    snap = read_both(padded(WRITERS[writer](recording())))
    assert snap.native.alike_events > 0.5 * snap.native.n_events


def renamed(event: Event, **fields: Any) -> Event:
    return event | fields


def reordered(event: Event) -> Event:
    return dict(reversed(event.items()))


def without(event: Event, key: str) -> Event:
    return {k: v for k, v in event.items() if k != key}


CHANGES: dict[str, Callable[[Event, int], Event]] = {
    "order": lambda e, i: reordered(e) if i % 3 else e,
    "order, once": lambda e, i: reordered(e) if i == 20 else e,
    "order, later": lambda e, i: reordered(e) if i > 20 else e,
    "no context": lambda e, i: without(e, "compile_context") if i % 2 else e,
    "no time": lambda e, i: without(e, "time_us") if i > 20 else e,
    "no stack": lambda e, i: without(e, "frames") if i % 4 else e,
    "no size": lambda e, i: without(e, "size") if i % 4 == 1 else e,
    "unknown key": lambda e, i: renamed(e, category="state") if i % 2 else e,
    "unknown key, always": lambda e, i: renamed(e, category="state"),
    "unknown values": lambda e, i: renamed(e, category=f"state {i // 7}", y=[], z=None),
    "sizes": lambda e, i: renamed(e, size=(0, 255, 256, 65536, 2**31, 2**40)[i % 6]),
    "addresses": lambda e, i: renamed(e, addr=(0, 255, 2**31, 2**40, A, 2**62 + i, -1 - i)[i % 7]),
    "times": lambda e, i: renamed(e, time_us=(i, 2**31 + i, 2**50 + i, -i, 2**62)[i // 9 % 5]),
    "streams": lambda e, i: renamed(e, stream=(0, 0, 7, 2**40, 0)[i // 9 % 5]),
    "streams alternate": lambda e, i: renamed(e, stream=(0, 7)[i % 2]),
    "contexts": lambda e, i: renamed(e, compile_context=("N/A", "0/0", "")[i // 9 % 3]),
    "metadata": lambda e, i: renamed(e, user_metadata=("", "", "step", "x" * 200)[i // 9 % 4]),
    "metadata grows": lambda e, i: renamed(e, user_metadata="x" * (i % 40)),
    "dict metadata": lambda e, i: renamed(e, user_metadata={"step": i} if i % 9 == 8 else ""),
    "pools": lambda e, i: renamed(e, pool_id=((0, 0), (0, 0), (0, 1), (2**40, 0))[i // 9 % 4]),
    "pools alternate": lambda e, i: renamed(e, pool_id=(0, i % 3)),
    "other action": lambda e, i: renamed(e, action="something new") if i % 10 == 9 else e,
    "out of memory": lambda e, i: renamed(e, action="oom", device_free=i) if i % 10 == 9 else e,
    "stacks": lambda e, i: renamed(e, frames=e["frames"][: i % 5]),
    "many keys": lambda e, i: renamed(e, **{f"key {k}": k for k in range(i % 30)}),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("writer", ["protocol 4", "cpp", "not memoised"])
def test_events_that_differ(change: str, writer: str) -> None:
    snapshot = recording()
    trace = snapshot["device_traces"][0]
    trace[:] = [CHANGES[change](event, i) for i, event in enumerate(trace)]
    if writer == "cpp" and change in {"unknown values", "dict metadata"}:
        trace[:] = [without(event, "z") for event in trace]
    snap = read_both(padded(WRITERS[writer](snapshot)))
    assert snap.native.fast_events > 0


def test_layouts_that_alternate_stay_on_the_fast_path() -> None:
    snapshot = recording(2_000)
    trace = snapshot["device_traces"][0]
    trace[:] = [reordered(event) if i % 2 else event for i, event in enumerate(trace)]
    snap = read_both(padded(build.dump(snapshot)))
    assert snap.native.fast_events > 0.9 * snap.native.n_events
    # One of the layouts is kept.
    assert snap.native.alike_events > 0.2 * snap.native.n_events


def test_random_events() -> None:
    rng = random.Random(11)
    for _ in range(60):
        snapshot = recording(rng.randrange(2, 40))
        trace = snapshot["device_traces"][0]
        changes = rng.sample(sorted(CHANGES), 3)
        start = rng.randrange(len(trace))
        for i in range(start, len(trace)):
            if rng.random() < 0.3:
                trace[i] = CHANGES[rng.choice(changes)](trace[i], i)
        read_both(padded(build.dump(snapshot)))


# ---- opcode by opcode ----------------------------------------------------------------------------


def event(ops: Ops, addr: int, **more: Callable[[Ops], object]) -> Ops:
    """Return an event in the form of `alloc`, with more keys."""
    ops.empty_dict().mark()
    name(name(ops, "action"), "alloc")
    name(ops, "addr").long1(addr, 6)
    for key, value in more.items():
        value(name(ops, key))
    return name(ops, "size").integer(1).setitems()


def three(change: Callable[[Ops], object], **more: Callable[[Ops], object]) -> bytes:
    """Return three alike events, the output of `change`, and three more of these events."""
    ops = open_trace(named())
    for i in range(6):
        if i == 3:
            change(ops)
        event(ops, A + i, **more)
    return close_trace(ops, padding=200)


def test_key_that_gets_another_meaning() -> None:
    def swap(ops: Ops) -> None:
        # The index of "addr" now holds "stream".
        ops.mark().string("stream").put(NUMBER["addr"]).op("POP_MARK")

    snap = mr.open(three(swap))
    assert snap.events.address.tolist() == [A, A + 1, A + 2, 0, 0, 0]
    assert snap.events.stream.tolist() == [0, 0, 0, A + 3, A + 4, A + 5]


def test_value_that_gets_another_meaning() -> None:
    def swap(ops: Ops) -> None:
        ops.mark().string("new").put(NUMBER["free_completed"]).op("POP_MARK")

    snap = mr.open(three(swap, compile_context=lambda o: name(o, "free_completed")))
    contexts = [snap.metadata(int(i)) for i in snap.events.compile_context]
    assert contexts == ["free_completed"] * 3 + ["new"] * 3


def test_text_that_begins_with_a_nul() -> None:
    def fill(ops: Ops) -> None:
        event(ops, A + 9, user_metadata=lambda o: o.string("\0x"))

    snap = read_both(three(fill, user_metadata=lambda o: o.string("")))
    assert [snap.metadata(int(i)) for i in snap.events.user_metadata][3] == "\0x"


@pytest.mark.parametrize("size", [-1, 2**62])
def test_size_out_of_bounds(size: int) -> None:
    def fill(ops: Ops) -> None:
        alloc(ops, A, size)

    ops = open_trace(named())
    for i in range(3):
        alloc(ops, A + i, 1)
    fill(ops)
    with pytest.raises(mr.SnapshotError, match="does not fit in 'size'"):
        mr.open(close_trace(ops, padding=200))


def test_time_that_means_none_is_refused() -> None:
    ops = open_trace(named())
    for time in (1, 2, 3, -(2**63)):
        name(ops.empty_dict().mark(), "time_us").long1(time, 8).setitems()
    with pytest.raises(mr.SnapshotError, match="time_us"):
        mr.open(close_trace(ops, padding=200))


def test_memo_limit_is_kept() -> None:
    data = build.dump(recording())
    whole = mr.open(data).native.n_events
    for limit in range(300, 800, 7):
        try:
            snap = mr.open(data, limits=mr.Limits(memo_entries=limit))
        except mr.LimitError:
            continue
        assert snap.native.n_events == whole


def test_list_that_changes_after_its_use() -> None:
    at = len(NUMBER)

    def frames(ops: Ops) -> None:
        ops.empty_list().memoize()

    def fill(ops: Ops) -> None:
        name(ops.empty_dict().mark(), "frames").get(at).empty_dict().append().setitems()

    with pytest.raises(mr.SnapshotError, match="a frames list that changes after its use"):
        mr.open(three(fill, frames=frames))


def test_key_after_a_frame() -> None:
    ops = open_trace(named())
    for i in range(4):
        event(ops, A + i)
        if i == 2:
            name(ops.raw(NOTHING).mark(), "stream").integer(5).setitems()
    snap = read_both(close_trace(ops, padding=200))
    assert snap.events.stream.tolist() == [0, 0, 5, 0]


# ---- frames lists with a FRAME among their frames ------------------------------------------------


def deep() -> bytes:
    """Return a recording with 12 frames per stack, without FRAME opcodes."""
    builder = SnapshotBuilder(compile_context="N/A", user_metadata="")
    for i in range(EVENTS):
        builder.alloc(A + 512 * i, i, frames=FRAMES[i % 3 : i % 3 + 12])
    return build.unframe(build.dump(builder.build()))


def framed(data: bytes, frame: bytes, which: Callable[[int], bool]) -> bytes:
    """Put a FRAME into the frames lists whose numbers `which` picks."""
    out, gets, lists = bytearray(), 0, 0
    for opcode, piece in build._pieces(data):
        gets = gets + 1 if opcode in {"BINGET", "LONG_BINGET"} else 0
        # Fewer GETs in a row are keys and values of the event.
        lists += gets == 10
        out += piece + (frame if gets == 10 and which(lists) else b"")
    assert lists > 30
    return bytes(out)


@pytest.mark.parametrize("every", [1, 7, 30, 64, 200])
@pytest.mark.parametrize("offset", range(3))
def test_frame_opcode_anywhere(every: int, offset: int) -> None:
    data = build.unframe(build.dump(recording()))
    pieces = [piece for _, piece in build._pieces(data)]
    whole = b"".join(
        piece if not i or (i + offset) % every else NOTHING + piece
        for i, piece in enumerate(pieces)
    )
    assert_like_oracle(padded(whole), oracle.load(data))


@pytest.mark.parametrize("every", [1, 2, 9])
def test_list_with_a_frame_opcode_is_known_again(every: int) -> None:
    data = deep()
    snap = assert_like_oracle(
        padded(framed(data, NOTHING, lambda i: i % every == 0)), oracle.load(data)
    )
    assert snap.native.fast_events > 0.8 * snap.native.n_events
    assert snap.native.n_stacks == 1 + 3


@pytest.mark.parametrize("length", [1_000_000, 2**62, 2**62 + 1, 2**64 - 1])
def test_frame_opcode_with_an_impossible_length(length: int) -> None:
    frame = b"\x95" + length.to_bytes(8, "little")
    with pytest.raises(mr.SnapshotError, match="FRAME"):
        mr.open(framed(deep(), frame, lambda i: i == 20))

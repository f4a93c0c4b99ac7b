"""Hypothesis strategies for snapshots, with everything that a real or damaged file may contain."""

from __future__ import annotations

import base64
import zlib
from array import array
from collections.abc import Callable, Sequence
from functools import cache
from itertools import chain
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from hypothesis import strategies as st

from tests.build import Entry, FrameSpec, Snapshot, SnapshotBuilder, round_up

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Few addresses and few sizes, so that reuse, double allocs and unmatched frees are common.
ADDRESSES = (0x7F00_0000_0000, 0x7F00_0000_0200, 0x7F00_0010_0000, 0x10_0000, 2**63 + 0x4000)
OUTLIVING = (0x6000_0000_0000, 0x6000_0010_0000, 2**64 - 0x1000)  # no event mentions them
SIZES = (0, 1, 4, 512, 513, 1_000, 2**20, 3 * 2**30, 2**40)
STREAMS = (0, 1, 7, 0x5555_0000_1000, 2**63 + 8)
POOLS = ((0, 0), (0, 1), (3, 0))
STATES = ("active_allocated", "active_pending_free", "active_awaiting_free", "inactive")

ACTIONS = (
    ("alloc",) * 8
    + ("free_completed",) * 7
    + ("free_requested",) * 3
    + ("segment_alloc", "segment_free", "segment_map", "segment_unmap")
    + ("oom", "snapshot", "user_defined", "annotate", "workspace_snapshot", "empty_cache")
    + ("defragment", "", "ALLOC")  # unknown actions
)

FRAMES: tuple[FrameSpec, ...] = (
    ("forward", "/home/user/model.py", 10),
    ("forward", "/home/user/model.py", 11),
    ("train", "/home/user/train.py", 99),
    ("at::empty(long)", "??", 0),
    ("naïve 训练", "/data/ü.py", 2**31),
    ("", "", 0),
)
STACKS: tuple[tuple[FrameSpec, ...], ...] = (
    (),
    FRAMES[:1],
    FRAMES[1:3],
    FRAMES[:3],
    FRAMES,
    (FRAMES[2],) * 3,  # recursion
)

OPTIONAL_KEYS = ("time_us", "stream", "frames")


# Hypothesis validates a strategy on first use, so create each of these strategies only once.


@cache
def addresses() -> st.SearchStrategy[int]:
    """Draw an address from the small pool."""
    return st.sampled_from(ADDRESSES)


@cache
def sizes() -> st.SearchStrategy[int]:
    """Draw a size, usually from the small pool."""
    return st.one_of(st.sampled_from(SIZES), st.integers(0, 2**34))


def packed(*choices: Sequence[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    """Draw one item from each list with a single number, because drawing takes most of a test's
    time.
    """
    whole = prod(len(one) for one in choices)
    # Hypothesis doesn't draw larger numbers evenly.
    assert whole <= 1 << 24, whole

    def unpacked(number: int) -> tuple[Any, ...]:
        found = []
        for one in choices:
            number, at = divmod(number, len(one))
            found.append(one[at])
        return tuple(found)

    return st.integers(0, whole - 1).map(unpacked)


@st.composite
def traces(
    draw: st.DrawFn, max_devices: int = 3, max_events: int = 25, segments: str | None = None
) -> Snapshot:
    """Draw a snapshot with up to `max_devices` devices, each with up to `max_events` events.

    `segments` says what the final segments are: "agreeing" with the trace, "other" (unrelated),
    "legacy" (unrelated, in the 2.0 format) or "none"; by default, any of these.
    """
    builder = SnapshotBuilder(
        devices=draw(st.integers(0, max_devices)),
        times=draw(_mostly(True)),
        stacks=draw(_mostly(True)),
        shared_lists=draw(st.booleans()),
        fx=draw(_mostly(False)),
        compile_context=draw(st.sampled_from((None, None, "N/A", "0/1"))),
        user_metadata=draw(st.sampled_from((None, None, "", "step 3", {"step": "3", "n": "1"}))),
    )
    frees_repeat_stacks = draw(st.booleans())  # if recorded with a context other than "all"
    for device in range(len(builder.traces)):
        fewest = draw(st.sampled_from((0, 0, max_events // 2)))
        for fields in draw(st.lists(_event_fields(), min_size=fewest, max_size=max_events)):
            _add_event(builder, device, fields, frees_repeat_stacks)
    _SEGMENTS[segments or draw(st.sampled_from(sorted(_SEGMENTS)))](draw, builder)
    for stage in draw(st.lists(st.sampled_from(("START", "END")), max_size=3)):
        builder.annotation("step", stage)
    if draw(st.booleans()):
        builder.settings(
            max_split_size=-1, garbage_collection_threshold=0.0, expandable_segments=True
        )
    if draw(st.booleans()):
        builder.top("host_traces", [[{"action": "alloc", "addr": 1, "size": 2}]])
    snapshot = builder.build()
    if draw(_mostly(False)):
        for entry in _entries(snapshot):
            entry.pop("stream", None)
    _share_lists(draw, snapshot)
    return snapshot


@cache
def _mostly(value: bool) -> st.SearchStrategy[bool]:
    return st.sampled_from((value, value, value, not value))


_MOSTLY = (True, True, True, False)
_EVENTS = (
    ACTIONS,
    ADDRESSES,
    STREAMS,
    (None, *STACKS),
    (None, None, None, *POOLS),
    _MOSTLY,
    (0, 0, 0, 1, 5),  # equal and falling times
    ((), (), (), (), *((key,) for key in OPTIONAL_KEYS)),
)


@cache
def _event_fields() -> st.SearchStrategy[dict[str, Any]]:
    """Draw all fields of an event; `dropped` are the keys it lacks."""
    names = ("action", "addr", "stream", "frames", "pool_id", "matched", "backwards", "dropped")
    return st.builds(
        lambda chosen, size: {"size": size, **dict(zip(names, chosen, strict=True))},
        packed(*_EVENTS),
        sizes(),
    )


def _add_event(
    builder: SnapshotBuilder, device: int, fields: dict[str, Any], frees_repeat_stacks: bool
) -> None:
    action, addr, size = fields["action"], fields["addr"], fields["size"]
    common = {
        "stream": fields["stream"],
        "frames": fields["frames"],
        "pool_id": fields["pool_id"],
        "time_us": builder.next_us - fields["backwards"],
    }
    if action == "oom":
        builder.oom(size, device_free=2**30, device=device, **common)
    elif action == "snapshot":
        builder.snapshot_event(size, device, **common)
    else:
        earlier = _latest_alloc(builder, device, addr)
        is_free = action in ("free_requested", "free_completed")
        if is_free and earlier and fields["matched"]:
            size = earlier["size"]  # otherwise the address doesn't match
        builder.event(action, addr, size, device, **common)
        if is_free and earlier and frees_repeat_stacks:
            builder.drop("frames")
            if "frames" in earlier:
                builder.traces[device][-1]["frames"] = list(earlier["frames"])
            return
    builder.drop(*fields["dropped"])


def _latest_alloc(builder: SnapshotBuilder, device: int, addr: int) -> Entry | None:
    for entry in reversed(builder.traces[device]):
        if entry["action"] == "alloc" and entry["addr"] == addr:
            return entry
    return None


# Final segments: none, those that the trace implies, or unrelated segments.


def _no_segments(draw: st.DrawFn, builder: SnapshotBuilder) -> None:
    pass


def _agreeing_segments(draw: st.DrawFn, builder: SnapshotBuilder) -> None:
    extra: list[tuple[int, int, int]] = []
    for device in range(len(builder.traces)):
        chosen = draw(st.lists(st.sampled_from(OUTLIVING), unique=True, max_size=3))
        extra += [(device, addr, draw(sizes())) for addr in chosen]
    builder.finish_segments(extra)


def _other_segments(draw: st.DrawFn, builder: SnapshotBuilder) -> None:
    for _ in range(draw(st.integers(0, 4))):
        blocks = []
        for _ in range(draw(st.integers(0, 3))):
            addr = draw(st.sampled_from(ADDRESSES + OUTLIVING))
            size = draw(sizes())
            state, frames = draw(st.sampled_from(STATES)), draw(st.sampled_from(STACKS))
            blocks.append(builder.block(addr, round_up(size), size, state, frames))
        _add_segment(draw, builder, draw(st.sampled_from(ADDRESSES)), blocks, legacy=False)


def _legacy_segments(draw: st.DrawFn, builder: SnapshotBuilder) -> None:
    for _ in range(draw(st.integers(0, 3))):
        start = at = draw(st.sampled_from(ADDRESSES[:3] + OUTLIVING[:2]))
        blocks = []
        for _ in range(draw(st.integers(0, 3))):
            size = draw(sizes())
            requested = draw(st.sampled_from((None, size)))
            state, frames = draw(st.sampled_from(STATES)), draw(st.sampled_from((None, *STACKS)))
            history = [(at, size, frames)] * draw(st.integers(0, 2))
            blocks.append(builder.legacy_block(round_up(size), requested, state, history))
            at += round_up(size)
        _add_segment(draw, builder, start, blocks, legacy=True)


def _add_segment(
    draw: st.DrawFn, builder: SnapshotBuilder, addr: int, blocks: list[Entry], *, legacy: bool
) -> None:
    builder.segment(
        addr,
        sum(block["size"] for block in blocks),
        device=draw(st.integers(0, max(len(builder.traces), 1))),  # sometimes beyond the last trace
        stream=draw(st.sampled_from(STREAMS)),
        segment_type=draw(st.sampled_from(("small", "large"))),
        pool=draw(st.sampled_from(POOLS)),
        blocks=blocks,
        is_expandable=draw(st.booleans()),
        legacy=legacy,
    )


_SEGMENTS: dict[str, Callable[[st.DrawFn, SnapshotBuilder], None]] = {
    "agreeing": _agreeing_segments,
    "legacy": _legacy_segments,
    "none": _no_segments,
    "other": _other_segments,
}


def _share_lists(draw: st.DrawFn, snapshot: Snapshot) -> None:
    """Let some events with equal stacks share a list of frames, as some files do."""
    entries = [entry for entry in _entries(snapshot) if "frames" in entry]
    shared = draw(st.lists(st.booleans(), max_size=len(entries)))
    for index, share in enumerate(shared):
        if share:
            frames = entries[index]["frames"]
            same = (entry for entry in entries[:index] if entry["frames"] == frames)
            entries[index]["frames"] = next(same, entries[index])["frames"]


def _entries(snapshot: Snapshot) -> list[Entry]:
    return [entry for trace in snapshot["device_traces"] for entry in trace]


# Notes from memreplay's recorder on any of these snapshots.

CATEGORIES = ("", "parameters", "activations", "temporary", "unknown", "activations")
PHASES = ("start", "forward", "backward", "", "before the recording")
MODULES = ("", "GPT", "GPT.0", "GPT", "naïve 训练 \x1b[1m")


@st.composite
def noted(draw: st.DrawFn, snapshot: Snapshot) -> Noted:
    """Add memreplay's key to the snapshot, with notes on each allocation."""
    names = (CATEGORIES, PHASES, MODULES)
    kinds = draw(st.lists(packed(*map(range, map(len, names))), max_size=6))
    numbers = st.one_of(st.just(0), st.integers(0, len(kinds)))
    of_events = [
        [draw(numbers) if event.get("action") == "alloc" else 0 for event in trace]
        for trace in snapshot["device_traces"]
    ]
    known = draw(st.lists(st.sampled_from(ADDRESSES + OUTLIVING), unique=True))
    before = {address: draw(st.integers(1, len(kinds))) for address in known if kinds}
    key = {
        "categories": list(CATEGORIES),
        "phases": list(PHASES),
        "modules": list(MODULES),
        "kinds": column(array("I", chain.from_iterable(kinds))),
        "events": [column(array("I", kinds)) for kinds in of_events],
        "before": {
            "addresses": column(array("Q", before)),
            "kinds": column(array("I", before.values())),
        },
    }
    steps = [[draw(st.integers(0, len(trace)))] for trace in of_events]
    whole = {**snapshot, "memreplay": {"recorder": "record", "allocations": key, "steps": steps}}
    return Noted(whole, kinds, of_events, before)


class Noted(NamedTuple):
    """A snapshot with notes. `kinds` lists (category, phase, module). Events and carried-over
    blocks (by address) refer to this list by index + 1; 0 means no note.
    """

    snapshot: Snapshot
    kinds: list[tuple[int, ...]]
    of_events: list[list[int]]
    before: dict[int, int]

    def called(self, device: int, event: int, address: int, way: str) -> str:
        """Return the `--by` name of the allocation that this event makes (-1: of a carried-over
        block).
        """
        kind = self.before.get(address, 0) if event < 0 else self.of_events[device][event]
        place = ("category", "phase", "module").index(way)
        if not kind:
            return "unknown"
        name = (CATEGORIES, PHASES, MODULES)[place][self.kinds[kind - 1][place]]
        return name or ("(in no module)" if way == "module" else "unknown")


def column(numbers: array[int] | NDArray[Any]) -> str:
    """Encode a column as in snapshots."""
    return base64.b64encode(zlib.compress(numbers.tobytes())).decode()

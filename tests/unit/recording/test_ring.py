"""Tests of recording/ring.py: what is live at the edge of PyTorch's ring buffer."""

from __future__ import annotations

import random
from typing import Any

import pytest

import memreplay as mr
from memreplay.engine.record import _tracker
from memreplay.io.packing import as_text
from memreplay.recording.ring import MARK, Ring, numbers, put_before
from tests import build
from tests.unit.recording.ring_buffer import Allocator

ENTRIES = 400


def ring_of(allocator: Allocator) -> Ring:
    return Ring(allocator, allocator.entries, allocator.clear)


def churn(allocator: Allocator, rng: random.Random, events: int) -> None:
    """Allocate and free blocks of random sizes, some for long."""
    for _ in range(events):
        device = rng.randrange(allocator.device_count())
        live = list(allocator.live[device])
        if len(live) > 20 or (live and rng.random() < 0.45):
            address = rng.choice(live[-3:] if rng.random() < 0.9 else live)
            if rng.random() < 0.2 and allocator.live[device][address]["state"] != (
                "active_pending_free"
            ):
                allocator.request_free(device, address)
            else:
                allocator.free(device, address)
        else:
            allocator.alloc(device, rng.randrange(1 << 20, 1 << 21))


def lines_of(blocks: Any) -> dict[int, tuple[int, int]]:
    """Return the requested bytes and the line that allocated them, by address."""
    return {
        block["address"]: (block["requested_size"], block["frames"][0]["line"]) for block in blocks
    }


@pytest.mark.parametrize("light", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_everything_at_the_edge_is_known(seed: int, light: bool) -> None:
    rng = random.Random(seed)
    allocator = Allocator(ENTRIES, 2, light=light)
    ring = ring_of(allocator)
    for _ in range(12):
        for _ in range(rng.randrange(1, 60)):
            churn(allocator, rng, 10)
            ring.look()
        # The truth is what the allocator had at the edge at which the file begins.
        found = ring.snapshot()
        traces = found["device_traces"]
        marks = [{event.get("user_metadata") for event in trace} for trace in traces]
        carried = ring.cut(found)
        assert carried is not None
        put_before(traces, carried, {})
        edge = next(
            one
            for one in ring.edges
            if not light or all(f"{MARK}{one.number}" in there for there in marks)
        )
        snap = mr.open(build.dump(found))
        for device in (0, 1):
            replay = snap.replay(device)
            segment = edge.segments[device]
            live = [one for one in segment["blocks"] if one["state"] != "inactive"]
            assert replay.carried_over_bytes == sum(one["requested_size"] for one in live)
            held = sum(one["requested_size"] for one in live if one["state"] == "active_allocated")
            assert replay.measure("held").start_bytes == held
            allocated = sum(one["size"] for one in live if one["state"] == "active_allocated")
            assert replay.measure("allocated").start_bytes == allocated
            trace = traces[device]
            stacks = {
                event["addr"]: (event["size"], event["frames"][0]["line"])
                for event in trace
                if "memreplay_carried" in event
            }
            ended = lines_of(
                one for one in found["segments"][device]["blocks"] if one["state"] != "inactive"
            )
            truth = lines_of(live)
            assert stacks.items() <= truth.items()
            # A block without an event is live to the end, where the segments have its stack.
            assert {**ended, **stacks}.items() >= truth.items()


def test_edges_are_taken_in_time_and_dropped() -> None:
    allocator = Allocator(ENTRIES)
    ring = ring_of(allocator)
    for _ in range(40):
        ring.look()
        churn(allocator, random.Random(1), 20)
    assert 3 <= len(ring.edges) <= 6
    assert ring.behind(ring.edges[0]) < ENTRIES + 60


def test_counters_may_be_reset() -> None:
    allocator = Allocator(ENTRIES)
    ring = ring_of(allocator)
    for _ in range(5):
        allocator.free(0, allocator.alloc(0, 1))
    assert ring.look().events == [15]
    allocator.counts[0] = [0, 0, 0]
    allocator.peaks[0] = 0
    allocator.alloc(0, 1)
    counts = ring.look()
    assert (counts.events, counts.peaks) == ([16], [1])


def test_other_snapshots_leave_no_marker() -> None:
    allocator = Allocator(ENTRIES)
    allocator.metadata = "the program's own"
    ring = ring_of(allocator)
    allocator.alloc(0, 1)
    allocator.snapshot()
    assert allocator.metadata == "the program's own"
    allocator.alloc(0, 2)
    found = ring.snapshot()
    assert ring.cut(found) == [[]]
    assert [event["action"] for event in found["device_traces"][0]] == [
        "alloc",
        "snapshot",
        "alloc",
    ]


def test_late_edge_does_not_hide_what_is_left() -> None:
    allocator = Allocator(ENTRIES)
    ring = ring_of(allocator)
    churn(allocator, random.Random(2), 2 * ENTRIES)
    ring.look()
    found = ring.snapshot()
    assert ring.cut(found) is None
    assert len(found["device_traces"][0]) == ENTRIES - 1
    # A window that begins here isn't late.
    with ring.since(ring.taken):
        allocator.alloc(0, 1)
        found = ring.snapshot()
        assert ring.cut(found) is not None
    assert [event["action"] for event in found["device_traces"][0]] == ["snapshot", "alloc"]


def test_other_threads_may_go_on_meanwhile() -> None:
    allocator = Allocator(ENTRIES)
    ring = ring_of(allocator)
    first = allocator.alloc(0, 1)
    allocator.meanwhile = lambda: allocator.alloc(0, 2)
    with ring.since(ring.taken):
        found = ring.snapshot()
        assert ring.cut(found) == [[]]
    assert [event["addr"] for event in found["device_traces"][0]] == [first]
    blocks = [one for one in found["segments"][0]["blocks"] if one["state"] != "inactive"]
    assert [one["address"] for one in blocks] == [first]
    # The next file has what is missing in this one.
    with ring.since(ring.taken):
        found = ring.snapshot()
        assert ring.cut(found) == [[]]
    sizes = [event["size"] for event in found["device_traces"][0] if event["action"] == "alloc"]
    assert sizes == [2]


@pytest.mark.parametrize("first", [True, False])
def test_signal_may_interrupt_an_edge(first: bool) -> None:
    """Its handler writes a snapshot, and another thread goes on meanwhile."""
    allocator = Allocator(ENTRIES)
    allocator.alloc(0, 100)
    ring = ring_of(allocator)
    inner = []

    def interrupted(*, include_traces: bool) -> list[dict[str, Any]]:
        allocator.memory.memory_snapshot = allocator.memory_snapshot
        before = None if first else allocator.memory_snapshot(include_traces=False)
        allocator.alloc(0, 200)
        inner.append(ring.snapshot())
        allocator.alloc(0, 300)
        return before or allocator.memory_snapshot(include_traces=False)

    allocator.memory.memory_snapshot = interrupted
    outer = ring.snapshot()
    for found in (outer, *inner):
        live = [one for one in found["segments"][0]["blocks"] if one["state"] != "inactive"]
        allocs = [event for event in found["device_traces"][0] if event["action"] == "alloc"]
        assert lines_of(live) == {
            event["addr"]: (event["size"], event["frames"][0]["line"]) for event in allocs
        }


def test_windows_follow_one_another() -> None:
    allocator = Allocator(ENTRIES)
    ring = ring_of(allocator)
    since, seen = ring.taken, []
    for _ in range(5):
        allocator.alloc(0, 1)
        with ring.since(since):
            found = ring.snapshot()
            assert ring.cut(found) is not None
        since = ring.taken
        trace = found["device_traces"][0]
        seen += [event["addr"] for event in trace if event["action"] == "alloc"]
    assert seen == sorted(allocator.live[0])


def test_unused_devices_have_no_events() -> None:
    allocator = Allocator(ENTRIES, 2)
    ring = ring_of(allocator)
    allocator.alloc(0, 1)
    found = ring.snapshot()
    found["device_traces"][1].clear()
    assert ring.cut(found) == [[], []]


def test_earlier_annotations_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_tracker, "now_us", lambda: 700)
    allocator = Allocator(ENTRIES)
    ring = ring_of(allocator)
    found = ring.snapshot()
    found["external_annotations"] = [{"name": "a", "time_us": time} for time in (699, 700, 701)]
    assert ring.cut(found) == [[]]
    assert [one["time_us"] for one in found["external_annotations"]] == [700, 701]


def test_notes_get_the_kinds_of_what_is_put_before() -> None:
    def column(form: str, *values: int) -> str:
        return as_text(
            b"".join(value.to_bytes(8 if form == "Q" else 4, "little") for value in values)
        )

    notes: dict[str, Any] = {
        "allocations": {
            "events": [column("I", 1, 0), column("I")],
            "before": {"addresses": column("Q", 512, 1024), "kinds": column("I", 7, 8)},
        },
        "steps": [[1, 2], []],
    }
    blocks = [
        {"action": "alloc", "addr": 1024},
        {"action": "free_requested", "addr": 1024},
        {"action": "alloc", "addr": 4096},
    ]
    traces: list[Any] = [[{"action": "alloc"}, {"action": "oom"}], []]
    put_before(traces, [blocks, []], notes)
    assert [len(trace) for trace in traces] == [5, 0]
    assert list(numbers(notes["allocations"]["events"][0], "I")) == [8, 0, 0, 1, 0]
    assert notes["steps"] == [[4, 5], []]


def test_forgets_what_no_file_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(range(1000))
    monkeypatch.setattr(_tracker, "now_us", lambda: next(now))
    allocator = Allocator(ENTRIES)
    ring = ring_of(allocator)
    told: list[int] = []
    ring.forget = told.append
    for _ in range(6):
        churn(allocator, random.Random(3), ENTRIES // 3)
        ring.look()
    assert told == sorted(told)
    assert told[-1] == ring.edges[0].time_us > 0

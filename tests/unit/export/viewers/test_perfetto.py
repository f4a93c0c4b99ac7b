"""perfetto: parsed with Perfetto's own schema, a trace contains the series, the slices and the live
set.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memreplay.export.viewers.perfetto import render_perfetto
from memreplay.export.viewers.stack_names import frame_name
from memreplay.export.viewers.tracks import trace_report
from memreplay.snapshot.model import MEASURES, When
from tests import views
from tests.build import START_US, SnapshotBuilder
from tests.strategies import traces

proto = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")

BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4


def written(snapshot: Any, **options: Any) -> tuple[Any, bytes]:
    options.setdefault("stacks", True)
    report = trace_report(views.opened(snapshot), **options)
    return report, b"".join(render_perfetto(report))


class Trace:
    """A trace's packets, sorted using only the schema, as the trace processor does."""

    def __init__(self, content: bytes) -> None:
        trace = proto.Trace()
        trace.ParseFromString(content)
        self.packets = list(trace.packet)
        self.tracks = {
            packet.track_descriptor.uuid: packet.track_descriptor
            for packet in self.packets
            if packet.HasField("track_descriptor")
        }
        self.counters: dict[tuple[int, str], list[tuple[int, int]]] = defaultdict(list)
        self.slices: list[tuple[int, str, int, int]] = []  # pid, name, begin, end
        self.marks: list[tuple[int, str, int]] = []
        open_slices: dict[int, list[tuple[str, int]]] = defaultdict(list)
        for packet in self.packets:
            if not packet.HasField("track_event"):
                continue
            event = packet.track_event
            track, at = self.tracks[event.track_uuid], packet.timestamp
            pid = self.pid(track)
            if event.type == COUNTER:
                assert track.HasField("counter")
                self.counters[pid, self.path(track)].append((at, event.counter_value))
            elif event.type == BEGIN:
                open_slices[event.track_uuid].append((event.name, at))
            elif event.type == END:
                name, begin = open_slices[event.track_uuid].pop()
                self.slices.append((pid, name, begin, at))
            else:
                assert event.type == INSTANT
                self.marks.append((pid, event.name, at))
        assert not any(open_slices.values())

    def pid(self, track: Any) -> int:
        while not track.HasField("process"):
            track = self.tracks[track.parent_uuid]
        pid: int = track.process.pid
        return pid

    def path(self, track: Any) -> str:
        name: str = track.name
        return name.removesuffix(" (estimated)")


def unknown_fields(message: Any) -> bool:
    again = type(message)()
    again.CopyFrom(message)
    again.DiscardUnknownFields()
    return bool(again != message)


@given(traces(), st.sampled_from((0, 2)))
def test_counters_match_the_series(snapshot: Any, points: int) -> None:
    report, content = written(snapshot, points=points)
    trace = Trace(content)
    assert not any(map(unknown_fields, trace.packets))
    snap = views.opened(snapshot)
    for device in snap.devices:
        for measure in MEASURES:
            if measure == "reserved" and not snap.replay(device).shows_reserved:
                continue
            usage = snap.replay(device).measure(measure)
            rows = trace.counters[device + 1, measure]
            assert max(n for _, n in rows) == usage.peak.bytes
            assert (rows[0][1], rows[-1][1]) == (usage.start_bytes, usage.end_bytes)
            assert [at for at, _ in rows] == sorted(at for at, _ in rows)
    # Every packet has a sequence ID, and the first packet of each sequence clears its state.
    seen: set[int] = set()
    for packet in trace.packets:
        sequence = packet.trusted_packet_sequence_id
        assert packet.sequence_flags == (2 if sequence in seen else 1)
        seen.add(sequence)
    assert report.devices or seen == {1, 2}


def heaps(trace: Trace) -> dict[int, Counter[tuple[str, ...]]]:
    """Return each process's bytes by the names on a path."""
    (interned,) = (p.interned_data for p in trace.packets if p.HasField("interned_data"))
    names = {one.iid: one.str.decode() for one in interned.function_names}
    mappings = {one.iid for one in interned.mappings}
    frames = {one.iid: names[one.function_name_id] for one in interned.frames}
    assert all(one.mapping_id in mappings for one in interned.frames)
    stacks = {one.iid: tuple(frames[i] for i in one.frame_ids) for one in interned.callstacks}
    found: dict[int, Counter[tuple[str, ...]]] = {}
    for packet in trace.packets:
        for dump in packet.profile_packet.process_dumps:
            held: Counter[tuple[str, ...]] = Counter()
            for sample in dump.samples:
                held[stacks[sample.callstack_id]] += sample.self_allocated - sample.self_freed
            found[dump.pid] = held
    return found


@given(traces(), st.booleans())
def test_heap_profile_is_the_live_set(snapshot: Any, all_frames: bool) -> None:
    report, content = written(snapshot, measures=["requested"], all_frames=all_frames)
    trace = Trace(content)
    found = heaps(trace)
    snap = views.opened(snapshot)
    assert set(found) == {device + 1 for device in snap.devices}
    for device in report.devices:
        held = found[device.device + 1]
        assert sum(held.values()) == snap.replay(device.device).peak.bytes
        want: Counter[tuple[str, ...]] = Counter()
        for one in device.stacks.stacks:
            want[tuple(frame_name(report.stacks.frames[i]) for i in one.path)] += one.bytes
        assert held == want


def test_profile_packet_indices_are_consecutive() -> None:
    _, content = written(views.everything(), when=When("event", 5))
    packets = [p for p in Trace(content).packets if p.HasField("profile_packet")]
    assert [p.profile_packet.index for p in packets] == [0]
    _, content = written(views.everything())
    packets = [p for p in Trace(content).packets if p.HasField("profile_packet")]
    assert [p.profile_packet.index for p in packets] == [0, 1]
    snap = views.opened(views.everything())
    for packet, device in zip(packets, snap.devices, strict=True):
        (dump,) = packet.profile_packet.process_dumps
        peak = snap.replay(device).peak
        assert dump.timestamp // 1000 == peak.time_us
        assert packet.timestamp == dump.timestamp
        assert dump.heap_name == f"device {device}: requested"


def test_every_kind_of_track_is_written() -> None:
    _, content = written(views.everything(), points=0)
    trace = Trace(content)
    start = START_US * 1000
    assert [(pid, name, begin - start, end - start) for pid, name, begin, end in trace.slices] == [
        (1, "inner", 2000, 4000),
        (1, "step#1", 1000, 5000),
        (1, "never;ends\n", 6000, 7000),
        (1, "step#2", 5000, 7000),
        (1, "crossing", 3000, 7000),
    ]
    assert {(pid, name) for pid, name, _ in trace.marks} == {
        (1, "peak (requested)"),
        (1, "out of memory"),
        (2, "peak (requested)"),
    }
    named = {track.process.process_name for track in trace.tracks.values() if track.process.pid}
    assert named == {"device 0, as process", "device 1, as process"}
    pools = [track for track in trace.tracks.values() if ", pool " in track.name]
    assert {trace.tracks[pool.parent_uuid].name for pool in pools} == {
        f"{measure} by pool" for measure in MEASURES if measure != "reserved"
    }
    assert {track.counter.unit for track in pools} == {3}  # bytes


def test_times_count_from_the_epoch() -> None:
    _, content = written(views.everything(), measures=["requested"], points=0)
    rows = Trace(content).counters[1, "requested"]
    assert (rows[0][0], rows[1][0]) == ((START_US - 1) * 1000, START_US * 1000)


@pytest.mark.parametrize("times", [(-(2**63) + 2, 2**63 - 1), (2**62, 2**62 + 5)])
def test_extreme_times_stay_in_order(times: tuple[int, int]) -> None:
    made = SnapshotBuilder()
    for i, time in enumerate(times):
        made.alloc((i + 1) << 20, 1, time_us=time)
    _, content = written(made.build(), points=0)
    rows = Trace(content).counters[1, "requested"]
    assert [n for _, n in rows] == [0, 1, 2]
    assert 0 <= rows[0][0] < rows[1][0] < rows[2][0] < 2**63

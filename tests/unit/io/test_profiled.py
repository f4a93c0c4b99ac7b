"""profiled: a torch.profiler trace's memory events add up to the trace's own totals."""

from __future__ import annotations

import gzip
import json
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import memreplay as mr
from memreplay.analysis.trust.trust import device_verdict, verdict
from memreplay.errors import LimitError, SnapshotError, TruncatedError
from tests.kineto import Kineto


def opened(trace: Kineto, **options: Any) -> mr.Snapshot:
    return mr.open(trace.json(), **options)


def reasons(snap: mr.Snapshot, device: int = 0) -> set[str]:
    return set(device_verdict(snap, snap.replay(device)).reasons)


@st.composite
def programs(draw: st.DrawFn) -> tuple[Kineto, dict[int, list[tuple[float, int, int]]]]:
    """Draw a trace and, for each device, the time, the total and the reserved bytes after each
    event.
    """
    devices = draw(st.integers(1, 3))
    trace = Kineto(base_ns=draw(st.sampled_from([0, 1_790_857_026_000_000_000, 123])))
    totals = {d: draw(st.integers(0, 3)) * 4096 for d in range(devices)}
    before = {d: {(1 << 30) + 4096 * i: 4096 for i in range(n // 4096)} for d, n in totals.items()}
    live: dict[int, dict[int, int]] = {d: dict(before[d]) for d in range(devices)}
    told: dict[int, list[tuple[float, int, int]]] = {d: [] for d in range(devices)}
    reserved = dict(totals)
    time = 1_000.0
    for _ in range(draw(st.integers(1, 40))):
        time += draw(st.sampled_from([0.25, 1.0, 3.5]))
        device = draw(st.integers(0, devices - 1))
        frees: bool = draw(st.booleans())
        if live[device] and frees:
            address = draw(st.sampled_from(sorted(live[device])))
            change = -live[device].pop(address)
        else:
            free = [a for a in range(4096, 4096 * 9, 4096) if a not in live[device]]
            if not free:
                continue
            address, change = draw(st.sampled_from(free)), draw(st.integers(1, 8)) * 512
            live[device][address] = change
        totals[device] += change
        reserved[device] = max(0, draw(st.sampled_from([reserved[device], totals[device] + 8192])))
        thread = draw(st.integers(1, 2))
        trace.memory(
            time, address, change, totals[device], reserved[device], device=device, thread=thread
        )
        if draw(st.booleans()):
            trace.memory(time, 77, 5, 5, 0, device=-1, kind=0)
        told[device].append((time, totals[device], reserved[device]))
    # Each thread's events are together in the file; the threads are in any order.
    draw(st.randoms(use_true_random=False)).shuffle(trace.events)
    return trace, {device: rows for device, rows in told.items() if rows}


@given(programs(), st.booleans())
def test_usage_matches_the_totals_in_the_trace(
    made: tuple[Kineto, dict[int, list[tuple[float, int, int]]]], packed: bool
) -> None:
    trace, told = made
    if not told:
        return
    data = trace.json()
    snap = mr.open(gzip.compress(data) if packed else data)
    assert set(snap.devices) == set(told)
    for device, rows in told.items():
        replay = snap.replay(device)
        names = [snap.action_name(int(code)) for code in np.asarray(replay.column("action"))]
        own = [i for i, name in enumerate(names) if not str(name).startswith("segment")]
        assert len(own) == len(rows)
        for measure, place in (("requested", 1), ("held", 1), ("reserved", 2)):
            series = replay.measure(measure).series  # type: ignore[arg-type]
            assert [int(series[i]) for i in own] == [row[place] for row in rows], measure
        base = trace.base_ns
        want = [(int(row[0] * 1000) + base) // 1000 for row in rows]
        assert [replay.time_us(i) for i in own] == want
        usage = replay.measure()
        assert usage.start_bytes == rows[0][1] - int(np.asarray(replay.column("size"))[own[0]]) * (
            1 if names[own[0]] == "alloc" else -1
        )
        assert replay.unmatched_frees == replay.double_allocs == 0
        assert "profiler_totals_disagree" not in reasons(snap, device)
        assert verdict(snap, usage).trusted


def test_stack_is_the_enclosing_calls_on_the_thread() -> None:
    trace = Kineto()
    trace.span(0, 100, "train.py(12): main", "python_function")
    trace.span(1, 90, "torch/nn/modules/module.py(5): _call_impl", "python_function")
    trace.span(2, 80, "nn.Module: Linear_0", "python_function")
    trace.span(3, 60, "<built-in method linear>", "python_function")
    trace.span(5, 50, "aten::linear")
    trace.span(10, 20, "aten::addmm")
    trace.span(30, 10, "aten::view")
    trace.span(0, 100, "aten::elsewhere", thread=2)
    trace.span(0, 100, "ProfilerStep#1", "user_annotation")
    trace.memory(15, 4096, 512, 512)  # inside addmm
    trace.memory(30, 8192, 512, 1024)  # where addmm ends and view starts, so inside view
    trace.memory(55, 12288, 512, 1536)  # where linear ends
    trace.memory(56, 16384, 512, 2048, thread=2)
    trace.memory(101, 20480, 512, 2560)  # after everything
    random.Random(1).shuffle(trace.events)
    snap = opened(trace)
    replay = snap.replay()
    python = [("_call_impl", "torch/nn/modules/module.py", 5), ("main", "train.py", 12)]
    found = [
        [(one.function, one.file, one.line) for one in snap.stack(int(stack))]
        for stack in np.asarray(replay.column("stack"))
    ]
    assert found == [
        [("aten::addmm", "??", 0), ("aten::linear", "??", 0), *python],
        [("aten::view", "??", 0), ("aten::linear", "??", 0), *python],
        [("aten::linear", "??", 0), *python],
        [("aten::elsewhere", "??", 0)],
        [],
    ]


def test_spans_become_annotations() -> None:
    trace = Kineto(base_ns=5_000_000)
    trace.span(10, 10, "ProfilerStep#1", "user_annotation")
    trace.span(20, 10, "ProfilerStep#2", "user_annotation")
    trace.span(22, 0, "mark", "user_annotation")
    for i, time in enumerate((12, 25)):
        trace.memory(time, 4096 * (i + 1), 512, 512 * (i + 1))
    snap = opened(trace)
    names, stages, devices, times = snap.annotation_rows("name", "stage", "device", "time")
    rows = [
        (snap.text(name), snap.text(stage), device, time - 5_000)
        for name, stage, device, time in zip(names, stages, devices, times, strict=True)
    ]
    assert rows == [
        ("ProfilerStep#1", "START", 0, 10),
        ("ProfilerStep#1", "END", 0, 20),
        ("ProfilerStep#2", "START", 0, 20),
        ("mark", "START", 0, 22),
        ("mark", "END", 0, 22),
        ("ProfilerStep#2", "END", 0, 30),
    ]


def test_free_without_an_alloc_was_carried_over() -> None:
    trace = Kineto()
    trace.memory(1, 4096, -512, 10_000)
    trace.memory(2, 8192, 1_024, 11_024)
    snap = opened(trace)
    replay = snap.replay()
    assert replay.carried_over_bytes == 10_512
    assert replay.measure().series.tolist() == [10_000, 11_024]
    assert (replay.first_event, replay.events) == (0, 2)
    assert replay.peak.event_index == 1


def test_failed_request_becomes_an_oom_event() -> None:
    trace = Kineto()
    trace.memory(1, 4096, 512, 512)
    trace.event(
        "[OutOfMemory]",
        2,
        {"Alloc size": 1 << 40, "Total Allocated": 512, "Total Reserved": 0}
        | {"Device Type": 1, "Device Id": 0},
    )
    snap = opened(trace)
    assert snap.has_action("oom")
    assert snap.replay().measure().series.tolist() == [512, 512]


def test_missing_or_contradictory_totals_are_reasons() -> None:
    trace = Kineto()
    trace.memory(1, 4096, 512, 512)
    assert reasons(opened(trace)) == {"from_profiler", "profiler_without_reserved"}
    trace.memory(2, 8192, 512, 2048, 4096)
    snap = opened(trace)
    assert reasons(snap) == {"from_profiler", "profiler_totals_disagree"}
    assert not device_verdict(snap, snap.replay()).trusted
    bare = Kineto()
    bare.event("[memory]", 1, {"Addr": 1, "Bytes": 5, "Device Type": 1, "Device Id": 0})
    snap = opened(bare)
    assert "profiler_without_totals" in reasons(snap)
    assert not device_verdict(snap, snap.replay()).trusted
    assert "no_blocks" in verdict(snap, snap.replay().measure("allocated")).reasons
    assert "no_blocks" in verdict(snap, snap.replay().measure("reserved")).reasons


def test_range_and_device_select_events() -> None:
    trace = Kineto()
    for i in range(10):
        trace.memory(i, 4096 * (i + 1), 512, 512 * (i + 1), device=i % 2)
    assert opened(trace, device=1).devices == (1,)
    part = opened(trace, start=2, stop=4)
    assert part.replay(0).events == 2
    assert part.replay(0).carried_over_bytes == 2 * 512


@pytest.mark.parametrize(
    "trace, said",
    [
        (Kineto(), "a torch.profiler trace without memory events; profile with profile_memory"),
        (
            Kineto().memory(1, 2, 3, 3, device=-1, kind=0),
            "all memory events in this torch.profiler trace are from the CPU",
        ),
        (Kineto().memory(1, 2, 3, 3).memory(1, 2, 3, 3, kind=20), "2 kinds of device "),
        (Kineto().event("[memory]", 1, {"Bytes": 5, "Device Type": 1}), "1 of the trace's 1 mem"),
        (
            Kineto().event("[memory]", 1, {"Addr": 5, "Device Type": 1}),
            "a missing or impossible address, size or time",
        ),
        (Kineto().memory(1, 2, 2**63, 3), "a missing or impossible address, size or time"),
        (Kineto().memory(1, "x", 2, 3), "a missing or impossible address, size or time"),
        (Kineto().memory(float("inf"), 1, 2, 3), "a missing or impossible address, size or time"),
        (Kineto().memory("now", 1, 2, 3), "a missing or impossible address, size or time"),
    ],
)
def test_unusable_traces_are_refused(trace: Kineto, said: str) -> None:
    with pytest.raises(SnapshotError, match=r"^[^\n]*$") as error:
        opened(trace)
    assert said in str(error.value)
    assert error.value.hint


def test_limits_apply_to_traces() -> None:
    trace = Kineto().memory(1, 2, 3, 3, device=5_000)
    with pytest.raises(LimitError, match="device 5000; devices count from 0 to below 1024"):
        opened(trace)
    many = Kineto()
    for i in range(100):
        many.memory(i, 4096 * i, 512, 512 * (i + 1))
    with pytest.raises(LimitError, match="rows"):
        opened(many, limits=mr.Limits(rows=50))
    deep = b'{"traceEvents": [' + b"[" * 2_000
    with pytest.raises(LimitError, match="nesting_depth"):
        mr.open(deep)


def test_deep_stacks_and_many_events_take_bounded_memory() -> None:
    trace = Kineto()
    for i in range(5_000):
        trace.span(i, 20_000 - 2 * i, f"op{i}")
    for i in range(5_000):
        trace.memory(i + 0.5, 4096 * (i + 1), 512, 512 * (i + 1))
    snap = opened(trace)
    assert max(len(snap.stack(i)) for i in range(snap.native.n_stacks)) == 256


def test_truncated_or_broken_trace_is_an_error() -> None:
    data = Kineto().memory(1, 2, 3, 3).memory(2, 9, 3, 6).json()
    for cut in range(40, len(data) - 1):
        with pytest.raises(SnapshotError) as error:
            mr.open(data[:cut])
        assert isinstance(error.value, TruncatedError), data[:cut]
    with pytest.raises(TruncatedError):
        mr.open(gzip.compress(data)[:-10])
    with pytest.raises(SnapshotError, match="broken JSON"):
        mr.open(data.replace(b'"ts": 2', b'"ts" 2'))


def test_other_events_and_fields_are_ignored() -> None:
    trace = Kineto().memory(1, 4096, 512, 512)
    trace.events += [
        {"ph": "M", "name": "process_name", "args": {"name": "python", "Addr": "x"}},
        {"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 2, "args": {"Bytes": "many"}},
        {"ph": "X", "cat": "cpu_op", "name": "no time", "dur": 2},
        {"ph": "s", "id": 3, "args": {"args": {"Bytes": 9}}},
        {},
        {"name": 5, "args": [{"Addr": 1}]},
    ]
    snap = mr.open(trace.json(traceName="x", other={"traceEvents": [{"name": "[memory]"}]}))
    assert snap.replay().events == 1


def test_bare_list_of_events_is_a_trace() -> None:
    trace = Kineto().memory(1, 4096, 512, 512)
    snap = mr.open(json.dumps(trace.events).encode())
    assert snap.replay().peak.bytes == 512


def test_slice_is_a_snapshot(tmp_path: Any) -> None:
    from memreplay.export.snapshots.cutting import cut

    trace = Kineto()
    trace.memory(1, 4096, -512, 10_000, 4096)
    trace.memory(2, 8192, 1_024, 11_024, 20_480)
    snap = opened(trace)
    again = mr.open(b"".join(cut(snap)[1]))
    assert again.replay().peak.bytes == snap.replay().peak.bytes == 11_024
    assert "from_profiler" in reasons(again)

"""Generated snapshots are written as Python pickles them, are consistent, and never vary."""

from __future__ import annotations

import gzip
import pickle
import pickletools
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from generate import Options, generate_bytes, main, sized

VARIANTS = {
    "plain": Options(events=6000),
    "frames cross many pickle frames": Options(events=30_000, depth=60),
    "one event": Options(events=1),
    "exactly one batch": Options(events=1000),
    "one batch and one": Options(events=1001),
    "no stacks": Options(events=3000, frame_poor=True),
    "a key that nobody knows": Options(events=3000, unknown_key=True),
    "new stacks": Options(events=3000, new_stacks=True),
    "frames written out": Options(events=3000, written_out=True),
    "frames written out, new stacks": Options(events=3000, written_out=True, new_stacks=True),
    "shallow": Options(events=3000, depth=1),
    "three devices": Options(events=3000, devices=3),
    "from the start": Options(events=8000, baseline=False, layers=2),
    "evaluates and empties the cache": Options(events=60_000, layers=3, depth=20),
}


def each_variant() -> pytest.MarkDecorator:
    return pytest.mark.parametrize("options", VARIANTS.values(), ids=VARIANTS.keys())


@each_variant()
def test_generated_bytes_match_pickle_dump(options: Options) -> None:
    data = generate_bytes(options)
    # Pickling the result again must write the same opcodes, because unpickling keeps sharing.
    assert pickle.dumps(pickle.loads(data), protocol=4) == data


@each_variant()
def test_cpp_writer_produces_the_same_snapshot(options: Options) -> None:
    data = generate_bytes(replace(options, writer="cpp"))
    assert pickle.loads(data) == pickle.loads(generate_bytes(options))


def test_cpp_writer_matches_torchscript() -> None:
    data = generate_bytes(replace(VARIANTS["plain"], writer="cpp"))
    opcodes = Counter(opcode.name for opcode, _, _ in pickletools.genops(data))
    assert data[:2] == b"\x80\x02"
    absent = ("FRAME", "MEMOIZE", "SHORT_BINUNICODE", "APPEND", "SETITEM")
    assert [opcodes[name] for name in absent] == [0] * len(absent)
    assert opcodes["LONG_BINPUT"] > 6000
    lists = opcodes["EMPTY_LIST"]
    assert opcodes["APPENDS"] == lists


def test_cpp_integers_take_eight_bytes() -> None:
    data = generate_bytes(replace(VARIANTS["plain"], writer="cpp"))
    longs = [at for opcode, _, at in pickletools.genops(data) if opcode.name == "LONG1" and at]
    assert {data[at + 1] for at in longs} == {8}


@each_variant()
def test_trace_and_segments_agree(options: Options) -> None:
    snapshot = pickle.loads(generate_bytes(options))
    for device, trace in enumerate(snapshot["device_traces"]):
        segments = [s for s in snapshot["segments"] if s["device"] == device]
        check_device(trace, segments)


def check_device(trace: list[dict[str, Any]], segments: list[dict[str, Any]]) -> None:
    live: dict[int, int] = {}
    requested: dict[int, int] = {}
    released: list[int] = []
    mapped: dict[int, int] = {}
    unmapped: set[int] = set()
    for event in trace:
        action, address, size = event["action"], event["addr"], event["size"]
        if action == "alloc":
            assert address not in live
            live[address] = size
        elif action == "free_requested":
            assert address not in requested
            assert live.get(address, size) == size
            requested[address] = size
        elif action == "free_completed":
            assert requested.pop(address) == size
            if live.pop(address, None) is None:
                released.append(address)
        elif action == "segment_alloc":
            assert address not in mapped
            mapped[address] = size
        else:
            assert action == "segment_free"
            if mapped.pop(address, None) is None:
                unmapped.add(address)
    assert not requested
    assert len(released) == len(set(released))
    assert [e["time_us"] for e in trace] == sorted(e["time_us"] for e in trace)

    addresses = [segment["address"] for segment in segments]
    assert addresses == sorted(addresses)
    assert mapped.items() <= {s["address"]: s["total_size"] for s in segments}.items()
    assert not unmapped & set(addresses) - mapped.keys()
    for segment in segments:
        check_segment(segment, live)
    assert not live


def check_segment(segment: dict[str, Any], live: dict[int, int]) -> None:
    """Check that blocks tile the segment, and that each block in use is still live after the trace
    and the baseline.
    """
    at, active, requested = segment["address"], 0, 0
    for block in segment["blocks"]:
        assert block["address"] == at
        assert block["size"] % 512 == 0
        at += block["size"]
        if block["state"] == "inactive":
            assert block["address"] not in live
            assert block["frames"] == []
            continue
        assert block["state"] == "active_allocated"
        assert block["size"] >= block["requested_size"]
        assert live.pop(block["address"], block["requested_size"]) == block["requested_size"]
        active += block["size"]
        requested += block["requested_size"]
    assert at == segment["address"] + segment["total_size"]
    assert segment["active_size"] == segment["allocated_size"] == active
    assert segment["requested_size"] == requested
    free = [block["state"] == "inactive" for block in segment["blocks"]]
    assert not any(a and b for a, b in pairwise(free)), "unmerged"


def test_baseline_is_partly_freed_in_the_trace() -> None:
    snapshot = pickle.loads(generate_bytes(VARIANTS["plain"]))
    allocated: set[int] = set()
    freed = 0
    for event in snapshot["device_traces"][0]:
        if event["action"] == "alloc":
            allocated.add(event["addr"])
        elif event["action"] == "free_completed" and event["addr"] not in allocated:
            freed += event["size"]
    without_stack = sum(
        block["requested_size"]
        for segment in snapshot["segments"]
        for block in segment["blocks"]
        if block["state"] == "active_allocated" and not block["frames"]
    )
    assert freed > 1 << 28
    assert without_stack > 1 << 30


def test_events_share_frames_like_real_files() -> None:
    trace = pickle.loads(generate_bytes(VARIANTS["plain"]))["device_traces"][0]
    lists = {id(event["frames"]): event["frames"] for event in trace}
    frames = {id(frame) for stack in lists.values() for frame in stack}
    stacks = {tuple(map(id, stack)) for stack in lists.values()}
    assert len(lists) < 0.7 * len(trace)
    assert len(stacks) > 80
    assert len(frames) < 500
    assert 28 < sum(map(len, lists.values())) / len(lists) < 40


def test_same_arguments_give_the_same_file(tmp_path: Path) -> None:
    outputs = [tmp_path / name for name in ("a.pkl.gz", "b.pkl.gz", "c.pkl.gz")]
    for output, seed in zip(outputs, ("3", "3", "4"), strict=True):
        assert main(["-o", str(output), "--events", "2000", "--seed", seed]) == 0
    first, again, other = (output.read_bytes() for output in outputs)
    assert first == again
    assert gzip.decompress(first) == generate_bytes(Options(events=2000, seed=3))
    assert first != other


@pytest.mark.parametrize("writer", ["python", "cpp"])
@pytest.mark.parametrize("frame_poor", [False, True], ids=["stacks", "no stacks"])
def test_file_size_matches_the_argument(writer: str, frame_poor: bool) -> None:
    options = sized(2.0, Options(events=0, writer=writer, frame_poor=frame_poor))
    data = generate_bytes(options)
    assert len(data) == pytest.approx(2e6, rel=0.1)


def test_events_take_as_many_bytes_as_in_real_files() -> None:
    short, long = (generate_bytes(Options(events=n, whole_steps=True)) for n in (9000, 60_000))
    fewer, more = (len(pickle.loads(data)["device_traces"][0]) for data in (short, long))
    assert 150 < (len(long) - len(short)) / (more - fewer) < 180

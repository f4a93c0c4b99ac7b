"""Tables match the file and the oracles, row by row, however they're split into batches."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

import memreplay as mr
from memreplay.analysis.groups.ways.code import NO_MODULE
from memreplay.engine.replay import _measures
from memreplay.export.tables import batching, table
from memreplay.export.tables.arrow import spelled as unpaired
from tests import build, oracle
from tests.allocator_strategies import Recording, recordings
from tests.dumped import expected_tables
from tests.oracle_ways import Named
from tests.strategies import traces

Rows = list[dict[str, Any]]
MEASURES = ("requested", "held", "active", "allocated", "reserved")


@contextmanager
def batches_of(rows: int) -> Iterator[None]:
    """Use batches of this length, so that even small files have several."""
    whole, batching.ROWS = batching.ROWS, rows
    try:
        yield
    finally:
        batching.ROWS = whole


def rows_of(snap: mr.Snapshot, name: str, *, flat: bool = False) -> Rows:
    asked = table(snap, name, flat=flat)
    made = pa.Table.from_batches(list(asked.file_batches()), asked.file_schema)
    made.validate(full=True)
    assert made.num_rows == len(asked)
    found: Rows = made.to_pylist()
    return found


def spelled(snap: mr.Snapshot) -> tuple[Rows, list[list[dict[str, Any]]]]:
    """Return the frames, and each stack as a list of frames."""
    frames = rows_of(snap, "frames")
    assert [frame["frame_id"] for frame in frames] == list(range(len(frames)))
    stacks = rows_of(snap, "stacks")
    assert [stack["stack_id"] for stack in stacks] == list(range(len(stacks)))
    for stack in stacks:
        own = [i for i in stack["frame_ids"] if frames[i]["is_user"]]
        assert stack["user_frame_id"] == (own[0] if own else None)
    return frames, [[frames[i] for i in stack["frame_ids"]] for stack in stacks]


def dumped_frame(frame: dict[str, Any]) -> dict[str, Any]:
    """Return a frame in the format of `expected_tables`."""
    fx = ("fx_node_op", "fx_node_name", "fx_node_target", "fx_original_trace")
    return {
        "name": frame["function"],
        "filename": frame["file"],
        "line": frame["line"],
        **{key: frame[key] for key in fx if frame[key] is not None},
    }


def said(value: Any) -> str | None:
    """Return metadata as a string, or None for an empty value."""
    if value in (None, "", "N/A"):
        return None
    return value if isinstance(value, str) else json.dumps(value)


@given(traces(), st.integers(1, 9))
def test_tables_match_the_file(snapshot: Any, batch: int) -> None:
    snap = mr.open(build.dump(snapshot))
    expected = expected_tables(snapshot)
    with batches_of(batch):
        stacks = [[dumped_frame(frame) for frame in stack] for stack in spelled(snap)[1]]
        events, segments = rows_of(snap, "events"), rows_of(snap, "segments")
        blocks, notes = rows_of(snap, "blocks"), rows_of(snap, "annotations")

    assert len(events) == len(expected["events"])
    for row, event in zip(events, expected["events"], strict=True):
        pool = event.get("pool_id")
        context, metadata = row["compile_context"], row["user_metadata"]
        assert (row["device"], row["event_index"]) == (event["device"], event["event"])
        assert row["action"] == event.get("action")
        assert (row["address"], row["bytes"]) == (event["addr"], event["size"])
        assert (row["stream"], row["time_us"]) == (event["stream"], event.get("time_us"))
        assert row["pool"] == (None if pool is None else "{}:{}".format(*pool))
        assert context == said(event.get("compile_context"))
        given_metadata = event.get("user_metadata")
        if isinstance(given_metadata, (dict, list)):
            assert json.loads(metadata) == given_metadata
        else:
            assert metadata == said(given_metadata)
        assert row["device_free_bytes"] == event.get("device_free")
        assert stacks[row["stack_id"]] == event["stack"]

    assert len(segments) == len(expected["segments"])
    for row, segment in zip(segments, expected["segments"], strict=True):
        pool = segment.get("segment_pool_id")
        assert row["segment_id"] == segment["segment"]
        for column, key in (
            ("device", "device"),
            ("address", "address"),
            ("bytes", "total_size"),
            ("allocated_bytes", "allocated_size"),
            ("active_bytes", "active_size"),
            ("stream", "stream"),
            ("is_expandable", "is_expandable"),
        ):
            assert row[column] == segment[key]
        assert row["requested_bytes"] == segment.get("requested_size")
        assert row["type"] == (segment["segment_type"] or None)
        assert row["pool"] == (None if pool is None else "{}:{}".format(*pool))
        assert stacks[row["stack_id"]] == segment["stack"]

    assert len(blocks) == len(expected["blocks"])
    for row, block in zip(blocks, expected["blocks"], strict=True):
        asked = block.get("requested_size", block.get("real_size"))
        assert (row["segment_id"], row["address"]) == (block["segment"], block["address"])
        assert row["device"] == segments[row["segment_id"]]["device"]
        assert (row["bytes"], row["state"]) == (block["size"], block["state"])
        assert row["requested_bytes"] == asked
        assert stacks[row["stack_id"]] == block["stack"]

    assert len(notes) == len(expected["annotations"])
    for row, note in zip(notes, expected["annotations"], strict=True):
        assert row["name"] == note["name"]
        assert row["stage"] == note["stage"]
        assert row["time_us"] == note.get("time_us")
        assert row["device"] == note.get("device", 0)


@given(traces(), st.integers(1, 9))
def test_allocations_match_the_oracle(snapshot: Any, batch: int) -> None:
    snap = mr.open(build.dump(snapshot))
    with batches_of(batch):
        frames = spelled(snap)[1]
        rows = rows_of(snap, "allocations")
    for device in oracle.devices(snapshot):
        trace = oracle.trace_of(snapshot, device)
        times = [event.get("time_us") for event in trace]
        replay = oracle.replay(snapshot, device)
        found = [row for row in rows if row["device"] == device]
        assert sorted(map(repr, (_lifetime(row, frames) for row in found))) == sorted(
            repr(
                (
                    None if one.alloc_index < 0 else one.alloc_index,
                    one.free_index,
                    one.addr,
                    one.size,
                    one.frames,
                )
            )
            for one in replay.lifetimes
        )
        order = [-1 if row["alloc_event"] is None else row["alloc_event"] for row in found]
        assert order == sorted(order)
        for row in found:
            assert row["carried_over"] == (row["alloc_event"] is None)
            for event, time in (("alloc_event", "alloc_us"), ("free_event", "free_us")):
                at = row[event]
                then = None if at is None else times[at]
                assert row[time] == (None if then is None else int(then))
            asked = row["free_requested_event"]
            if asked is not None:
                assert trace[asked]["action"] == "free_requested"
                assert trace[asked]["addr"] % 2**64 == row["address"]
            if row["free_event"] is not None:
                assert row["state"] == "freed"
            else:
                requested = row["free_requested_event"] is not None
                assert not requested or row["state"] == "active_pending_free"
    assert {row["device"] for row in rows} <= set(oracle.devices(snapshot))


@given(
    st.one_of(traces(), recordings(max_steps=60).map(lambda made: made.snapshot)),
    st.integers(1, 9),
)
def test_flat_table_names_the_allocating_code(snapshot: Any, batch: int) -> None:
    snap = mr.open(build.dump(snapshot))
    with batches_of(batch):
        plain = rows_of(snap, "allocations")
        flat = rows_of(snap, "allocations", flat=True)
    own = list(plain[0]) if plain else []
    assert [{name: row[name] for name in own} for row in flat] == plain
    for device in snap.devices:
        named = Named(snapshot, snap, snap.replay(device).measure())
        carried = 0
        for row in (row for row in flat if row["device"] == device):
            at = row["alloc_event"]
            if row["carried_over"]:
                at, carried = carried, carried + 1
            frames = named._frames(at, row["carried_over"])
            expected: tuple[object, ...] = (None, None, None, None)
            if frames:
                function, file, line = frame = named._own(frames)
                expected = (unpaired(function), unpaired(file), line, named._users(frame))
            assert (row["function"], row["file"], row["line"], row["is_user"]) == expected
            module = named.label("module", at, carried=row["carried_over"])
            there = bool(frames) and module != NO_MODULE
            assert row["module"] == (unpaired(module) if there else None)


def _lifetime(row: dict[str, Any], stacks: list[list[dict[str, Any]]]) -> tuple[Any, ...]:
    stack = tuple((f["function"], f["file"], f["line"]) for f in stacks[row["stack_id"]])
    return row["alloc_event"], row["free_event"], row["address"], row["bytes"], stack


@given(recordings(max_steps=60), st.integers(1, 40))
def test_allocations_and_usage_match_the_allocator(made: Recording, batch: int) -> None:
    snap = mr.open(build.dump(made.snapshot))
    with batches_of(batch):
        allocations, usage = rows_of(snap, "allocations"), rows_of(snap, "usage")
    for device in snap.devices:
        truth = made.truths[device]
        replay = snap.replay(device)
        mine = [row for row in usage if row["device"] == device]
        assert [row["event_index"] for row in mine] == [None, *range(len(truth.recorded))]
        assert [row["time_us"] for row in mine[1:]] == [
            one.event["time_us"] for one in truth.recorded
        ]
        for measure in MEASURES:
            series = [row[f"{measure}_bytes"] for row in mine]
            assert series == [
                replay.measure(measure).start_bytes,  # type: ignore[arg-type]
                *replay.measure(measure).series.tolist(),  # type: ignore[arg-type]
            ]
        assert [row["requested_bytes"] for row in mine] == [
            truth.start_of("requested"),
            *truth.series("requested"),
        ]
        for row in allocations:
            if row["device"] == device and row["alloc_event"] is not None:
                block = truth.blocks[row["alloc_event"]]
                assert row["stream"] == block.stream
                if row["pool"] is not None:
                    assert row["pool"] == "{}:{}".format(*block.pool)


@given(recordings(max_steps=60), st.data())
def test_rows_of_a_range_match_the_whole_file(made: Recording, data: st.DataObject) -> None:
    pickled = build.dump(made.snapshot)
    whole = mr.open(pickled)
    events = max((whole.trace_events(device) for device in whole.devices), default=0)
    start = data.draw(st.integers(0, events))
    stop = data.draw(st.integers(start, events))
    part = mr.open(pickled, start=start, stop=stop)
    for name, column in (("events", "event_index"), ("usage", "event_index")):
        inside = [
            row
            for row in rows_of(whole, name)
            if row[column] is not None and start <= row[column] < stop
        ]
        exact = ("device", "event_index", "address", "bytes", "time_us", "requested_bytes")
        assert [
            {key: row[key] for key in exact if key in row}
            for row in rows_of(part, name)
            if row[column] is not None
        ] == [{key: row[key] for key in exact if key in row} for row in inside]
    for device in part.devices:
        replay = part.replay(device)
        usage = [row for row in rows_of(part, "usage") if row["device"] == device]
        for measure in MEASURES:
            found = replay.measure(measure)  # type: ignore[arg-type]
            series = [found.start_bytes, *found.series.tolist()]
            assert [row[f"{measure}_bytes"] for row in usage] == series


@given(st.one_of(traces(), recordings(max_steps=60).map(lambda made: made.snapshot)), st.data())
def test_carried_over_rows_have_the_pools_and_streams_of_their_segments(
    snapshot: Any, data: st.DataObject
) -> None:
    pickled = build.dump(snapshot)
    events = max(map(len, snapshot["device_traces"]), default=0)
    snap = mr.open(pickled, start=data.draw(st.integers(0, events)))
    with batches_of(data.draw(st.integers(1, 9))):
        rows = [row for row in rows_of(snap, "allocations") if row["carried_over"]]
    expected = []
    for device in snap.devices:
        by = [_measures.Classes(snap.replay(device).blocks, of) for of in ("pool", "stream")]
        known = ([one.keys()[i] for i in memoryview(one.of_carried()).tolist()] for one in by)
        expected += list(zip(*known, strict=True))
    assert [(row["pool"], row["stream"]) for row in rows] == [
        (None if pool is None else "{}:{}".format(*snap.native.pool(pool)), stream)
        for pool, stream in expected
    ]

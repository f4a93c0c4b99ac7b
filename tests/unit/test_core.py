"""_core: columns with the buffer protocol, ids out of range, and classes that can't be
instantiated.
"""

from __future__ import annotations

import gc
import struct
import zlib
from typing import Any

import numpy as np
import pytest

import memreplay as mr
import memreplay._core as _core
from memreplay.engine.read.column import FIELDS, Column
from memreplay.engine.replay import _timeline
from tests import build
from tests.build import SnapshotBuilder

LIMITS = (1_000, 1 << 26, 1 << 24, 1 << 30, 1 << 20, 1 << 27, 1_024)
EVENT_COLUMNS = {
    "action": "B",
    "address": "Q",
    "size": "q",
    "stack": "I",
    "time": "q",
    "stream": "Q",
    "compile_context": "I",
    "user_metadata": "I",
    "pool": "I",
}


def snapshot() -> Any:
    builder = SnapshotBuilder(compile_context="N/A")
    for i in range(5):
        stack = [("f", "a.py", i), ("g", "b.py", 2)]
        builder.alloc(4096 * i, i, stream=i, frames=stack, pool_id=(0, i), user_metadata=f"m{i}")
        builder.oom(7, i)
    builder.annotation("a", "START").annotation("b", "END")
    builder.segment(1, 512, blocks=[builder.block(1, 512, 9)])
    builder.segment(1024, 512, blocks=[builder.block(1024, 256), builder.block(1280, 256)])
    return builder.build()


def tables() -> _core.Tables:
    return mr.open(build.dump(snapshot())).native


def as_column(value: Column | int) -> Column:
    assert not isinstance(value, int)
    return value


# ---- columns -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EVENT_COLUMNS)
def test_event_columns_are_read_only_buffers(name: str) -> None:
    t = tables()
    value = t.column(name)
    if name == "compile_context":  # this field is the same in every event
        assert isinstance(value, int)
        assert t.string(value) == "N/A"
        return
    view = memoryview(as_column(value))
    assert (view.format, view.ndim, view.shape) == (EVENT_COLUMNS[name], 1, (10,))
    assert view.readonly
    assert view.c_contiguous
    assert view.nbytes == 10 * struct.calcsize(EVENT_COLUMNS[name])


def test_columns_of_ooms_and_stacks_have_the_files_values() -> None:
    t = tables()
    assert memoryview(as_column(t.column("oom_event"))).tolist() == [1, 3, 5, 7, 9]
    assert memoryview(as_column(t.column("oom_free"))).tolist() == [0, 1, 2, 3, 4]
    offsets = memoryview(as_column(t.column("stack_offsets"))).tolist()
    frames = memoryview(as_column(t.column("stack_frames"))).tolist()
    assert len(offsets) == t.n_stacks + 1
    for i in range(t.n_stacks):
        assert t.stack(i) == tuple(frames[offsets[i] // 4 : offsets[i + 1] // 4])


def test_constant_column_is_one_number() -> None:
    t = mr.open(build.dump(SnapshotBuilder(times=False).alloc(1, 2).alloc(3, 4).build())).native
    assert t.column("time") == _core.ABSENT_TIME == -(2**63)
    assert t.column("stream") == 0
    assert t.column("pool") == t.column("user_metadata") == _core.ABSENT_ID == 2**32 - 1


@pytest.mark.parametrize("table, count", [("segment", 2), ("block", 3), ("annotation", 2)])
def test_fields_of_rows_are_strided_buffers(table: str, count: int) -> None:
    t = tables()
    for field, (offset, fmt) in FIELDS[table].items():
        column = t.rows(table, field)
        view = memoryview(column)
        assert (view.format, view.shape, view.readonly) == (fmt.decode(), (count,), True)
        assert view.strides is not None
        assert view.strides[0] >= offset + struct.calcsize(fmt.decode())
        assert np.asarray(column).tolist() == view.tolist()
        with pytest.raises(BufferError, match="request strides"):
            zlib.crc32(column)


def test_frame_lines_match_the_frames() -> None:
    t = tables()
    lines = memoryview(t.rows("frame", "line")).tolist()
    assert len(lines) == t.n_frames == 7
    assert [t.frame(i)[2] for i in range(t.n_frames)] == lines


def test_columns_are_read_only() -> None:
    t = tables()
    for column in (as_column(t.column("size")), t.rows("block", "size")):
        with pytest.raises(TypeError):
            memoryview(column)[0] = 1
        array = np.asarray(column)
        assert not array.flags.writeable
        with pytest.raises(ValueError, match="WRITEABLE"):
            array.flags.writeable = True
        with pytest.raises(TypeError, match="read-write"):
            struct.pack_into("=q", column, 0, 1)


@pytest.mark.slow
def test_columns_outlive_their_owner() -> None:
    t = tables()
    replay = _timeline.Replay(t, 0)
    kept = {
        "size": (t.column("size"), [0, 7, 1, 7, 2, 7, 3, 7, 4, 7]),
        "segments": (t.rows("segment", "address"), [1, 1024]),
        "usage": (_timeline.requested_measure(replay).usage(), None),
        "match": (replay.match(), [2**32 - 1] * 10),
        "live": (_timeline.requested_measure(replay).live(4)[0], [0, 2, 4]),
        "carried": (replay.carried("size"), [9, 256, 256]),
    }
    views = {name: (memoryview(as_column(c)), want) for name, (c, want) in kept.items()}
    del t, replay, kept
    gc.collect()
    for _ in range(20):  # freed memory may be reused
        mr.open(build.dump(snapshot())).replay().usage.sum()
    for view, want in views.values():
        assert want is None or view.tolist() == want
    assert views["usage"][0][-1] == 521 + 10


def test_columns_without_rows_are_empty() -> None:
    t = mr.open(build.dump({"segments": [], "device_traces": [[]]})).native
    for name in ("action", "address", "size", "stack", "oom_event", "oom_free"):
        assert memoryview(as_column(t.column(name))).tolist() == []
    for table in ("segment", "block", "annotation"):
        for field in FIELDS[table]:
            assert np.asarray(t.rows(table, field)).shape == (0,)
    assert memoryview(_timeline.requested_measure(_timeline.Replay(t, 0)).usage()).tolist() == []


def test_unknown_names_are_key_errors() -> None:
    t = tables()
    with pytest.raises(KeyError):
        t.column("colour")
    with pytest.raises(KeyError):
        t.rows("colour", "size")
    with pytest.raises(KeyError):
        t.rows("segment", "colour")
    with pytest.raises(KeyError):
        _timeline.Replay(t, 0).carried("colour")
    with pytest.raises(KeyError):
        t.kept("colour")


# ---- ids -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("past", [0, 1, 1_000_000])
def test_ids_out_of_range_are_index_errors(past: int) -> None:
    t = tables()
    for read, count in (
        (t.string, t.n_strings),
        (t.stack, t.n_stacks),
        (t.frame, t.n_frames),
        (t.pool, 5),
    ):
        assert read(count - 1) is not None
        with pytest.raises(IndexError):
            read(count + past)


def test_actions_beyond_the_codes_are_named_other() -> None:
    t = tables()
    assert [t.action_name(i) for i in range(13)] == list(_core.ACTIONS)
    assert t.action_name(31) is None
    assert t.action_name(255) == t.action_name(32) == "other"
    assert _core.ACTIONS[0] == "alloc"
    assert _core.STATES == (
        "unknown",
        "inactive",
        "active_allocated",
        "active_pending_free",
        "active_awaiting_free",
    )


def test_counts_and_flags_match_the_file() -> None:
    t = tables()
    assert (t.n_events, t.n_segments, t.n_blocks, t.n_annotations) == (10, 2, 3, 2)
    assert (t.has_segments, t.has_traces, t.has_annotations, t.bare_list) == (
        True,
        True,
        True,
        False,
    )
    assert (t.any_time, t.any_missing_time, t.any_history) == (True, False, False)
    assert (t.protocol, t.events_with_stack) == (4, 5)
    assert t.traces() == [(0, 0, 10, 10)]
    assert t.segment_devices() == [0]
    assert t.blocks_without_requested_size(0) == 0
    files, functions = t.frame_strings()
    assert {t.string(i) for i in files} == {"", "a.py", "b.py"}
    assert {t.string(i) for i in functions} == {"", "f", "g"}


# ---- classes that can't be created by hand -------------------------------------------------------


def test_natives_cannot_be_instantiated() -> None:
    for cls in (_core.Tables, Column):
        with pytest.raises(TypeError):
            cls()  # type: ignore[call-arg, unused-ignore]
    replay = _timeline.Replay(tables(), 0)
    for one in (replay, replay.tables, replay.match()):
        with pytest.raises(AttributeError):
            one.anything = 1  # type: ignore[union-attr]


def test_empty_natives_are_harmless() -> None:
    empty = _core.Tables.__new__(_core.Tables)
    assert (empty.n_events, empty.n_strings, empty.n_stacks, empty.n_frames) == (0, 0, 0, 0)
    assert empty.traces() == []
    assert empty.kept("settings") is None
    for ask in (empty.string, empty.stack, empty.frame, empty.pool):
        with pytest.raises(IndexError):
            ask(0)
    assert memoryview(as_column(empty.column("size"))).tolist() == []


# ---- the source ----------------------------------------------------------------------------------


def reader(data: bytes, step: int) -> Any:
    left = memoryview(data)

    def readinto(view: memoryview) -> int:
        nonlocal left
        n = min(step, len(view), len(left))
        view[:n] = left[:n]
        left = left[n:]
        return n

    return readinto


@pytest.mark.parametrize("step", [1, 7, 1 << 20])
def test_sources_may_return_any_number_of_bytes(step: int) -> None:
    data = build.dump(snapshot())
    told: list[int] = []
    t = _core.read(reader(data, step), LIMITS, told.append)
    assert t.n_events == 10
    assert t.stream_bytes == told[-1] == len(data)


@pytest.mark.parametrize("given", [-1, 1 << 40])
def test_source_with_wrong_lengths_is_refused(given: int) -> None:
    with pytest.raises(ValueError, match="impossible length"):
        _core.read(lambda view: given, LIMITS)


def test_source_error_is_raised() -> None:
    def fail(view: memoryview) -> int:
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        _core.read(fail, LIMITS)


def test_none_ends_the_input() -> None:
    with pytest.raises(mr.TruncatedError):
        _core.read(lambda view: None, LIMITS)

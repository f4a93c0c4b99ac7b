"""Tests of _adding.pyx: invalid rows are rejected, and leave nothing behind."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import memreplay as mr
import memreplay._core as _core
from memreplay.engine.read._adding import Adding, WrongRowError, decoded

EVENT = {
    "action": "u1",
    "address": "u8",
    "size": "i8",
    "time": "i8",
    "stream": "u8",
    "stack": "u4",
    "pool": "u4",
    "compile_context": "u4",
    "user_metadata": "u4",
    "device_free": "i8",
    "has_device_free": "u1",
}
SEGMENT = {
    "device": "i4",
    "address": "u8",
    "total": "i8",
    "allocated": "i8",
    "active": "i8",
    "requested": "i8",
    "has_requested": "u1",
    "stream": "u8",
    "kind": "u4",
    "pool": "u4",
    "stack": "u4",
    "expandable": "u1",
}
BLOCK = {
    "segment": "u4",
    "address": "u8",
    "size": "i8",
    "requested": "i8",
    "has_requested": "u1",
    "state": "u1",
    "stack": "u4",
}
ANNOTATION = {"device": "i4", "time": "i8", "stage": "u4", "name": "u4"}
COLUMNS = {"events": EVENT, "segments": SEGMENT, "blocks": BLOCK, "annotations": ANNOTATION}
ROWS = 3
MOST = 2**62 - 1  # the largest size in bytes


def filled(fill: Callable[[Adding], None], rows: int = 100, devices: int = 4) -> _core.Tables:
    """Return tables with two stacks, three segments, a trace, and the rows that `fill` adds."""

    def then(tables: _core.Tables) -> tuple[int, int]:
        adding = Adding(tables)
        adding.frames(*(np.zeros(1, dtype="i8" if i == 2 else "u4") for i in range(7)))
        adding.stacks(np.array([0, 0, 1], "i4"), np.zeros(1, "u4"))
        adding.pool(0, 1)
        adding.action(b"some")
        adding.segments(*columns("segments").values())
        adding.trace(0)
        fill(adding)
        return 4, 0

    snapshot = io.BytesIO(b'{"segments": [], "device_traces": [], "external_annotations": []}')
    limits = mr.Limits()
    numbers = (
        *(limits.nesting_depth, limits.string_bytes, limits.stack_values, limits.memo_entries),
        *(limits.kept_values, rows, devices),
    )
    return _core.read(snapshot.readinto, numbers, None, False, None, None, then)


def columns(table: str) -> dict[str, Any]:
    return {name: np.zeros(ROWS, dtype) for name, dtype in COLUMNS[table].items()}


def add(adding: Adding, table: str, changes: dict[str, Any]) -> None:
    made = columns(table)
    for name, value in changes.items():
        made[name][1] = value
    getattr(adding, table)(*made.values())


GOOD = [
    *(("events", {"action": code}) for code in (0, 12, 31, 32, 255)),
    *(("events", {name: 2**32 - 1}) for name in ("pool", "compile_context", "user_metadata")),
    *(("events", {"size": MOST}), ("events", {"stack": 1}), ("events", {"pool": 0})),
    *(("segments", {"device": device}) for device in (-1, 3)),
    *(("segments", {name: MOST}) for name in ("total", "allocated", "active", "requested")),
    ("segments", {"pool": 2**32 - 1}),
    ("blocks", {"size": MOST, "requested": MOST, "state": 4}),
    ("annotations", {"device": -5, "time": -(2**63)}),
]
BAD = [
    *(("events", {"action": code}) for code in (13, 30, 33, 254)),
    *(("events", {name: n}) for name in ("pool", "stack") for n in (2, 2**31)),
    *(("events", {name: 2**31}) for name in ("compile_context", "user_metadata")),
    ("events", {"stack": 2**32 - 1}),
    *(("events", {"size": n}) for n in (-1, MOST + 1, -(2**63), 2**63 - 1)),
    *(("segments", {"device": device}) for device in (-2, 4, -(2**31), 2**31 - 1)),
    *(
        ("segments", {name: n})
        for name in ("total", "allocated", "active", "requested")
        for n in (-1, MOST + 1)
    ),
    *(("segments", {name: 2}) for name in ("pool", "stack")),
    *(("segments", {"kind": n}) for n in (2**31, 2**32 - 1)),
    *(("blocks", {name: n}) for name in ("size", "requested") for n in (-1, MOST + 1)),
    *(("blocks", {"segment": 3}), ("blocks", {"segment": 2**32 - 1}), ("blocks", {"state": 5})),
    ("blocks", {"segment": 1}),  # the next one (row 2) belongs to segment 0 again
    ("blocks", {"stack": 2}),
    *(("annotations", {name: n}) for name in ("stage", "name") for n in (2**31, 2**32 - 1)),
]


@pytest.mark.parametrize("table, changes", GOOD)
def test_valid_rows_are_added(table: str, changes: dict[str, Any]) -> None:
    made = filled(lambda adding: add(adding, table, changes))
    counts = {"events": made.n_events, "segments": made.n_segments - ROWS}
    counts |= {"blocks": made.n_blocks, "annotations": made.n_annotations}
    assert counts == dict.fromkeys(COLUMNS, 0) | {table: ROWS}


@pytest.mark.parametrize("table, changes", BAD)
def test_invalid_rows_are_rejected(table: str, changes: dict[str, Any]) -> None:
    def fill(adding: Adding) -> None:
        with pytest.raises(WrongRowError) as error:
            add(adding, table, changes)
        assert error.value.args == (2 if changes == {"segment": 1} else 1,)

    filled(fill)


@pytest.mark.parametrize("table", COLUMNS)
def test_columns_must_have_equal_lengths(table: str) -> None:
    def fill(adding: Adding) -> None:
        for short in COLUMNS[table]:
            made = columns(table)
            made[short] = made[short][:2]
            with pytest.raises(ValueError, match="same length"):
                getattr(adding, table)(*made.values())
        getattr(adding, table)(*(column[:0] for column in columns(table).values()))

    assert filled(fill).n_events == 0


@pytest.mark.parametrize("table", COLUMNS)
def test_rows_beyond_the_limit_are_refused(table: str) -> None:
    def fill(adding: Adding) -> None:
        if table != "segments":  # three exist
            add(adding, table, {})
        with pytest.raises(mr.LimitError, match=f"rows of {table}"):
            add(adding, table, {})

    filled(fill, rows=5)


def test_devices_beyond_the_limit_are_refused() -> None:
    def fill(adding: Adding) -> None:
        adding.trace(1)
        with pytest.raises(mr.LimitError, match="devices"):
            adding.trace(2)

    filled(fill, devices=2)


@pytest.mark.parametrize("device", [0, 2, -1, 2**40])
def test_traces_must_be_added_in_order(device: int) -> None:
    def fill(adding: Adding) -> None:
        with pytest.raises(WrongRowError):
            adding.trace(device)

    filled(fill)


def test_blocks_out_of_order_are_rejected() -> None:
    def fill(adding: Adding) -> None:
        made = columns("blocks")
        made["segment"][:] = 1
        adding.blocks(*made.values())
        with pytest.raises(WrongRowError, match="0"):
            add(adding, "blocks", {})

    filled(fill)


OFFSETS = [[1, 0], [0, 2], [-1, 0], [0, -1], [2**31 - 1, 2**31 - 1], [0, 1, 0], [-(2**31), 0]]


@pytest.mark.parametrize("offsets", OFFSETS)
def test_offsets_out_of_range_are_rejected(offsets: list[int]) -> None:
    def fill(adding: Adding) -> None:
        at = np.array(offsets, "i4")
        row = 1 if len(offsets) == 3 else 0
        with pytest.raises(WrongRowError, match=str(row)):
            adding.stacks(at, np.zeros(1, "u4"))
        with pytest.raises(WrongRowError, match=str(row)):
            adding.intern(b"x", at)

    filled(fill)


def test_missing_frames_and_strings_are_rejected() -> None:
    def fill(adding: Adding) -> None:
        for frame in (1, 2**31, 2**32 - 1):
            with pytest.raises(WrongRowError):
                adding.stacks(np.array([0, 1], "i4"), np.array([frame], "u4"))
        for at in (0, 1, 3, 4, 5, 6):
            made = [np.zeros(1, dtype="i8" if i == 2 else "u4") for i in range(7)]
            made[at][0] = 2**31
            with pytest.raises(WrongRowError):
                adding.frames(*made)

    filled(fill)


def test_rows_without_a_trace_are_rejected() -> None:
    def then(tables: _core.Tables) -> tuple[int, int]:
        with pytest.raises(WrongRowError):
            add(Adding(tables), "events", {})
        return 4, 0

    limits = mr.Limits()
    numbers = (
        *(limits.nesting_depth, limits.string_bytes, limits.stack_values, limits.memo_entries),
        *(limits.kept_values, limits.rows, limits.devices),
    )
    snapshot = io.BytesIO(b'{"segments": [], "device_traces": []}')
    closed = _core.read(snapshot.readinto, numbers, None, False, None, None, then)
    with pytest.raises(ValueError, match="closed"):
        Adding(closed)


def test_actions_beyond_the_codes_share_the_last_code() -> None:
    def fill(adding: Adding) -> None:
        codes = [adding.action(b"a%d" % i) for i in range(300)]
        assert codes[:222] == [*range(33, 255)]
        assert set(codes[222:]) == {255}
        assert adding.action(b"a0") == 33
        assert adding.action(b"some") == 32
        assert adding.action(b"alloc") == 0

    filled(fill)


@given(st.data())
def test_dictionaries_are_decoded_row_by_row(data: st.DataObject) -> None:
    codes = data.draw(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=5))
    at = data.draw(st.lists(st.integers(0, len(codes) - 1), max_size=30))
    offset = data.draw(st.integers(0, 11))
    said = data.draw(st.lists(st.booleans(), min_size=len(at), max_size=len(at)))
    bits = np.packbits(np.array([False] * offset + said, bool), bitorder="little")
    found = decoded(np.array(at, "i4"), np.array(codes, "u4"), 7, bits, offset)
    wanted = [codes[i] if there else 7 for i, there in zip(at, said, strict=True)]
    assert memoryview(found).tolist() == wanted
    whole = decoded(np.array(at, "i4"), np.array(codes, "u4"), 7, None, offset)
    assert memoryview(whole).tolist() == [codes[i] for i in at]


@pytest.mark.parametrize("index", [2, -1, 2**31 - 1, -(2**31)])
def test_index_beyond_the_dictionary_is_refused(index: int) -> None:
    at, codes = np.array([0, index], "i4"), np.array([5, 6], "u4")
    with pytest.raises(WrongRowError, match=r"^1$"):
        decoded(at, codes, 7, None, 0)
    # The value under a null is ignored.
    assert memoryview(decoded(at, codes, 7, np.array([1], "u1"), 0)).tolist() == [5, 7]
    with pytest.raises(WrongRowError, match=r"^0$"):
        decoded(at, np.zeros(0, "u4"), 7, None, 0)


def test_too_short_bitmap_is_refused() -> None:
    at, codes = np.zeros(9, "i4"), np.array([5], "u4")
    for bits, offset in ((1, 0), (2, 8), (2, 2**63), (0, 0)):
        with pytest.raises(ValueError, match="the validity bitmap is shorter than the column"):
            decoded(at, codes, 7, np.zeros(bits, "u1"), offset)

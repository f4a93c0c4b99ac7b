"""sparse: columns with one, a few or many distinct values read back unchanged."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memreplay as mr
from memreplay.engine.read.column import Column
from tests import build
from tests.build import SnapshotBuilder

MANY = 2**63  # a stream's number has 64 bits
CODES = 32  # numbers represented by one byte per row


def recorded(streams: list[int], pools: list[tuple[int, int] | None]) -> mr.Snapshot:
    builder = SnapshotBuilder()
    for at, (stream, pool) in enumerate(zip(streams, pools, strict=True)):
        builder.alloc(4096 * (at + 1), 512, stream=stream, pool_id=pool)
    return mr.open(build.dump(builder.build()))


def rows(found: Column | int, n: int) -> list[int]:
    return [found] * n if isinstance(found, int) else memoryview(found).tolist()


@pytest.mark.parametrize("values", [1, 2, CODES - 1, CODES, CODES + 1, 300])
@pytest.mark.parametrize("begin", [0, 1, 70])
def test_columns_with_many_distinct_values_read_back(values: int, begin: int) -> None:
    dice = random.Random(values + begin)
    streams = [0] * begin + [MANY + dice.randrange(values) for _ in range(900)]
    pools = [(1, dice.randrange(values)) for _ in streams]
    snap = recorded(streams, list(pools))
    native = snap.native
    found = native.column("stream")
    assert rows(found, len(streams)) == streams
    assert [native.number("stream", at) for at in range(len(streams))] == streams
    ids = rows(native.column("pool"), len(streams))
    assert [snap.pool_id(one) for one in ids] == pools
    assert [native.number("pool", at) for at in range(len(streams))] == ids


def test_column_with_few_values_is_decoded_once() -> None:
    snap = recorded([0, 7, 0, 7], [None] * 4)
    first, second = snap.native.column("stream"), snap.native.column("stream")
    assert first is second
    assert snap.native.column("pool") == mr._core.ABSENT_ID


@given(st.lists(st.integers(0, 40), min_size=1, max_size=200), st.integers(0, 200), st.data())
def test_sparse_columns_of_a_range_have_its_rows(
    streams: list[int], at: int, data: st.DataObject
) -> None:
    first = min(at, len(streams) - 1)
    last = data.draw(st.integers(first, len(streams) - 1))
    builder = SnapshotBuilder()
    for event, stream in enumerate(streams):
        builder.alloc(4096 * (event + 1), 512, stream=stream)
    replay = mr.open(build.dump(builder.build()), start=first, stop=last + 1).replay(0)
    assert [replay.value("stream", event) for event in range(first, last + 1)] == (
        streams[first : last + 1]
    )


def test_single_values_match_their_columns() -> None:
    builder = SnapshotBuilder().alloc(4096, 512, stream=3, time_us=7, frames=[("f", "a.py", 1)])
    native = mr.open(build.dump(builder.build())).native
    found = {
        name: native.number(name, 0)
        for name in ("action", "address", "size", "stack", "time", "stream", "pool")
    }
    want = {name: rows(native.column(name), 1)[0] for name in found}
    assert found == want
    for row in (-1, 1, 2**70):
        with pytest.raises(IndexError):
            native.number("size", row)
    with pytest.raises(KeyError):
        native.number("sizes", 0)
    none = mr._core.ABSENT_ID
    assert [native.number(name, 0) for name in ("compile_context", "user_metadata")] == [none] * 2

"""layers: bytes of groups at many events, on traces that can be checked by eye."""

from __future__ import annotations

import pytest

from memreplay import _measures, _timeline
from memreplay._native.column import Column
from tests.build import SnapshotBuilder
from tests.unit.native.measured import A, column, replay

B = A + (1 << 20)
MODEL = [("forward", "model.py", 3)]
LOSS = [("loss", "loss.py", 9)]


def trace() -> _timeline.Replay:
    """100 of the model (0 to 3), 30 of the loss (1 on), 7 without a stack (4 on), 50 from before
    (to 2)."""
    b = SnapshotBuilder()
    b.alloc(A, 100, frames=MODEL).alloc(B, 30, frames=LOSS)
    b.free_completed(B + 512, 50)
    b.free_completed(A, 100).alloc(A, 7, frames=[])
    return replay(b)


def ranks(made: _timeline.Replay) -> tuple[bytes, bytes]:
    return (bytes(made.tables.n_strings),) * 2


def test_each_group_and_the_rest_at_every_event() -> None:
    made = trace()
    measure = _timeline.requested_measure(made)
    keys = {count: key for key, count, _ in measure.groups(1, "stack", *ranks(made), 0)[0]}
    model, loss, before = keys[100], keys[30], keys[50]
    assert before == _timeline.BEFORE_RECORDING
    every = list(range(-1, 5))
    found = _measures.layers(
        measure, "stack", *ranks(made), [loss, model, before, _timeline.NO_STACK], every
    )
    assert [column(one) for one in found] == [
        [0, 0, 30, 30, 30, 30],
        [0, 100, 100, 100, 0, 0],
        [50, 50, 50, 0, 0, 0],
        [0, 0, 0, 0, 0, 7],
        [0, 0, 0, 0, 0, 0],
    ]
    rest = _measures.layers(measure, "stack", *ranks(made), [loss], [1, 1, 4])
    assert [column(one) for one in rest] == [[30, 30, 30], [150, 150, 7]]
    assert [column(one) for one in _measures.layers(measure, "file", *ranks(made), [], [4])] == [
        [37]
    ]


def test_no_samples_and_no_events() -> None:
    made = trace()
    measure = _timeline.requested_measure(made)
    assert [column(one) for one in _measures.layers(measure, "file", *ranks(made), [], [])] == [[]]
    empty = replay(SnapshotBuilder())
    found = _measures.layers(
        _timeline.requested_measure(empty), "stack", *ranks(empty), [], [-1, -1]
    )
    assert [column(one) for one in found] == [[0, 0]]


def test_what_it_cannot_be_asked() -> None:
    made = trace()
    measure = _timeline.requested_measure(made)
    for samples in ([5], [-2], [2, 1]):
        with pytest.raises(ValueError, match="samples are events"):
            _measures.layers(measure, "stack", *ranks(made), [], samples)
    with pytest.raises(ValueError, match="one byte a string"):
        _measures.layers(measure, "stack", b"", b"", [], [])
    with pytest.raises(KeyError):
        _measures.layers(measure, "pool", *ranks(made), [], [])
    with pytest.raises(OverflowError):
        _measures.layers(measure, "stack", *ranks(made), [2**32], [])
    with pytest.raises(TypeError):
        _measures.layers(None, "stack", b"", b"", [], [])  # type: ignore[arg-type]
    # A key that nothing has is a row of zeros.
    found = _measures.layers(measure, "stack", *ranks(made), [2**31], [1])
    assert [column(one) for one in found] == [[0], [180]]


def test_buckets_of_what_is_no_series() -> None:
    made = trace()
    usage = _timeline.requested_measure(made).usage()
    with pytest.raises(ValueError, match="i64 an event"):
        _measures.buckets(made.match(), 0, 1)
    with pytest.raises(ValueError, match="i64 an event"):
        _measures.buckets(Column.__new__(Column), 0, 1)
    for parts in (0, -1, 2**31):
        with pytest.raises(ValueError, match="parts"):
            _measures.buckets(usage, 0, parts)
    short = _timeline.requested_measure(replay(SnapshotBuilder().alloc(A, 1))).usage()
    with pytest.raises(ValueError, match="one number an event"):
        _measures.buckets(usage, 0, 1, short, 0, 5)

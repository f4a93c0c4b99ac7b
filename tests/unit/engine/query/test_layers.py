"""layers: the bytes of each group at many events, in traces small enough to check by hand."""

from __future__ import annotations

import pytest

from memreplay.engine.query import _groups
from memreplay.engine.query._groups import Keys
from memreplay.engine.read.column import Column
from memreplay.engine.replay import _measures, _timeline
from tests.build import SnapshotBuilder
from tests.unit.engine.replay.measured import A, column, replay

B = A + (1 << 20)
MODEL = [("forward", "model.py", 3)]
LOSS = [("loss", "loss.py", 9)]


def trace() -> _timeline.Replay:
    """Build 100 bytes of the model (events 0 to 3), 30 of the loss (from event 1), 7 without a
    stack (from event 4) and 50 carried over (to event 2).
    """
    b = SnapshotBuilder()
    b.alloc(A, 100, frames=MODEL).alloc(B, 30, frames=LOSS)
    b.free_completed(B + 512, 50)
    b.free_completed(A, 100).alloc(A, 7, frames=[])
    return replay(b)


def grouped(made: _timeline.Replay, kind: str) -> tuple[Keys, dict[int, int]]:
    """Group by a key and register all groups; return each group's number by its name."""
    keys = _groups.stack_keys(made, kind, *(bytes(made.tables.n_strings),) * 2)
    keys.find_all()
    return keys, {name: at for at, name in enumerate(memoryview(keys.names()).tolist())}


def test_each_group_and_the_rest_are_right_at_every_event() -> None:
    made = trace()
    measure = _timeline.requested_measure(made)
    keys, known = grouped(made, "stack")
    sums = keys.sums(measure.live(1), measure, 0)[0]
    model, before, loss = (
        next(number for _, number, n_bytes, _, _ in sums if n_bytes == wanted)
        for wanted in (100, 50, 30)
    )
    assert before == known[_groups.CARRIED]
    every = list(range(-1, 5))
    found = keys.layers(measure, [loss, model, before, known[_groups.NO_STACK]], every)
    assert [column(one) for one in found] == [
        [0, 0, 30, 30, 30, 30],
        [0, 100, 100, 100, 0, 0],
        [50, 50, 50, 0, 0, 0],
        [0, 0, 0, 0, 0, 7],
        [0, 0, 0, 0, 0, 0],
    ]
    rest = keys.layers(measure, [loss], [1, 1, 4])
    assert [column(one) for one in rest] == [[30, 30, 30], [150, 150, 7]]


def test_unknown_groups_are_in_the_rest() -> None:
    made = trace()
    measure = _timeline.requested_measure(made)
    keys = _groups.stack_keys(made, "file", *(bytes(made.tables.n_strings),) * 2)
    assert [column(one) for one in keys.layers(measure, [], [4])] == [[37]]


def test_no_samples_or_events_give_empty_layers() -> None:
    made = trace()
    keys, _ = grouped(made, "file")
    assert [column(one) for one in keys.layers(_timeline.requested_measure(made), [], [])] == [[]]
    empty = replay(SnapshotBuilder())
    keys, _ = grouped(empty, "stack")
    found = keys.layers(_timeline.requested_measure(empty), [], [-1, -1])
    assert [column(one) for one in found] == [[0, 0]]


def test_invalid_arguments_are_rejected() -> None:
    made = trace()
    measure = _timeline.requested_measure(made)
    keys, _ = grouped(made, "stack")
    for samples in ([5], [-2], [2, 1]):
        with pytest.raises(ValueError, match="samples must be events"):
            keys.layers(measure, [], samples)
    with pytest.raises(ValueError, match="another replay"):
        keys.layers(_timeline.requested_measure(trace()), [], [])
    with pytest.raises(OverflowError):
        keys.layers(measure, [2**32], [])
    with pytest.raises(TypeError):
        keys.layers(None, [], [])  # type: ignore[arg-type]
    # An unknown group is a row of zeros.
    assert [column(one) for one in keys.layers(measure, [2**31], [1])] == [[0], [180]]


def test_buckets_need_a_series() -> None:
    made = trace()
    usage = _timeline.requested_measure(made).usage()
    with pytest.raises(ValueError, match="one i64 per event"):
        _measures.buckets(made.match(), 0, 1)
    with pytest.raises(ValueError, match="one i64 per event"):
        _measures.buckets(Column.__new__(Column), 0, 1)
    for parts in (0, -1, 2**31):
        with pytest.raises(ValueError, match="parts"):
            _measures.buckets(usage, 0, parts)
    short = _timeline.requested_measure(replay(SnapshotBuilder().alloc(A, 1))).usage()
    with pytest.raises(ValueError, match="one number per event"):
        _measures.buckets(usage, 0, 1, short, 0, 5)

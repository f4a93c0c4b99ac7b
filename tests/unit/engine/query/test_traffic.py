"""traffic: the allocations and frees in a range match an oracle that reads each event."""

from __future__ import annotations

from collections.abc import Hashable

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memreplay as mr
from memreplay.engine.query import _groups
from memreplay.engine.query._traffic import traffic
from memreplay.engine.replay import _timeline
from tests import build, oracle, oracle_traffic
from tests.allocator_strategies import Recording, recordings
from tests.build import SnapshotBuilder
from tests.unit.engine.replay.measured import A, replay

B = A + (1 << 20)
MODEL = [("forward", "model.py", 3)]
LOSS = [("loss", "loss.py", 9)]


def key_of(one: oracle.Lifetime) -> Hashable:
    if one.frames:
        return one.frames
    return _groups.CARRIED if one.alloc_index < 0 else _groups.NO_STACK


def size_class(one: oracle.Lifetime) -> Hashable:
    return one.size.bit_length() - 1 if one.size else 64


@pytest.mark.parametrize("by", ["stack", "size"])
@pytest.mark.parametrize("name", ["requested", "held"])
@given(recording=recordings(), data=st.data())
def test_traffic_matches_the_oracle(
    by: str, name: str, recording: Recording, data: st.DataObject
) -> None:
    snap = mr.open(build.dump(recording.snapshot))
    for device in snap.devices:
        measure = snap.replay(device).measure(name).native  # type: ignore[arg-type]
        none = bytes(snap.native.n_strings)
        events = snap.replay(device).events
        keys = (
            _groups.stack_keys(measure.replay, "stack", none, none)
            if by == "stack"
            else _groups.size_keys(measure)
        )
        begin = data.draw(st.integers(-1, events - 1))
        end = data.draw(st.integers(begin, events - 1))
        key = key_of if by == "stack" else size_class
        some = oracle_traffic.lives(recording.snapshot, device, name, key)
        wanted = oracle_traffic.traffic(some, begin, end)
        rows, total, moved, still = traffic(measure, keys, measure.live(begin), begin, end, 0)
        found: dict[Hashable, oracle_traffic.Sums] = {}
        for group, *sums in rows:
            told: Hashable = group
            if by == "stack" and group not in (_groups.CARRIED, _groups.NO_STACK):
                frames = map(snap.frame, snap.code.stack(group))
                told = tuple((one.function, one.file, one.line) for one in frames)
            assert told not in found
            before_bytes, before, came_bytes, came, went_bytes, went = sums
            after = before_bytes + came_bytes - went_bytes, before + came - went
            found[told] = oracle_traffic.Sums(
                before_bytes, before, came_bytes, came, went_bytes, went, *after
            )
        touched = {key: sums for key, sums in wanted.items() if sums.came or sums.went}
        assert found == touched
        assert total == len(rows)
        assert moved == tuple(sum(row[i] for row in rows) for i in range(1, 7))
        others = [sums for key, sums in wanted.items() if key not in touched]
        assert still[:2] == (
            sum(one.before_bytes for one in others),
            sum(one.before for one in others),
        )
        assert not any(still[2:])
        order = [(-abs(row[3] - row[5]), -(row[3] + row[5]), row[0]) for row in rows]
        assert order == sorted(order)
        cut = traffic(measure, keys, measure.live(begin), begin, end, 2)
        assert cut == (rows[:2], len(rows), moved, still)


def made() -> _timeline.Measure:
    b = SnapshotBuilder()
    b.alloc(A, 100, frames=MODEL).alloc(B, 30, frames=LOSS)
    b.free_completed(B + 512, 50)
    b.free_completed(A, 100).alloc(A, 100, frames=MODEL)
    return _timeline.requested_measure(replay(b))


def keys_of(measure: _timeline.Measure) -> _groups.Keys:
    return _groups.stack_keys(
        measure.replay, "stack", *(bytes(measure.replay.tables.n_strings),) * 2
    )


def test_hand_made_example_has_the_expected_traffic() -> None:
    measure = made()
    keys = keys_of(measure)
    rows, total, moved, still = traffic(measure, keys, measure.live(0), 0, 4, 0)
    # The carried-over block is freed (50), the loss is allocated (30), the model is freed and
    # allocated again.
    assert [row[1:] for row in rows] == [
        (50, 1, 0, 0, 50, 1),
        (0, 0, 30, 1, 0, 0),
        (100, 1, 100, 1, 100, 1),
    ]
    assert (total, moved, still) == (3, (150, 2, 130, 2, 150, 2), (0, 0, 0, 0, 0, 0))
    rows, total, moved, still = traffic(measure, keys, measure.live(2), 2, 4, 0)
    assert [row[1:] for row in rows] == [(100, 1, 100, 1, 100, 1)]
    assert still == (30, 1, 0, 0, 0, 0)
    assert traffic(measure, keys, measure.live(4), 4, 4, 0)[:3] == ([], 0, (0,) * 6)


def test_sums_do_not_overflow() -> None:
    builder = SnapshotBuilder()
    for _ in range(8):
        builder.alloc(A, 2**62 - 1, frames=MODEL).free_completed(A, 2**62 - 1)
    measure = _timeline.requested_measure(replay(builder))
    ((_, *sums),), *_ = traffic(measure, keys_of(measure), measure.live(-1), -1, 15, 0)
    assert sums == [0, 0, 2**65 - 8, 8, 2**65 - 8, 8]


def test_excluded_allocations_do_not_count() -> None:
    b = SnapshotBuilder().alloc(A, 100).alloc(B, 30).free_completed(A, 100).free_completed(B, 30)
    only = (
        mr.open(build.dump(b.build()))
        .replay()
        .measure()
        .only(lambda _, m: m.narrow(50, False, False))
    )
    measure = only.native
    _, _, moved, _ = traffic(measure, keys_of(measure), measure.live(-1), -1, 3, 0)
    assert moved == (0, 0, 100, 1, 100, 1)


def test_invalid_arguments_are_rejected() -> None:
    measure = made()
    keys = keys_of(measure)
    live = measure.live(-1)
    for begin, end in ((-2, 0), (1, 0), (0, 5), (5, 5)):
        with pytest.raises(IndexError):
            traffic(measure, keys, live, begin, end, 0)
    with pytest.raises(ValueError, match="another replay"):
        traffic(made(), keys, live, 0, 1, 0)
    with pytest.raises(ValueError, match="u32"):
        traffic(measure, keys, (measure.usage(), live[1]), 0, 1, 0)
    with pytest.raises(TypeError):
        traffic(None, keys, live, 0, 1, 0)  # type: ignore[arg-type]
    empty = _timeline.requested_measure(replay(SnapshotBuilder()))
    found = traffic(empty, keys_of(empty), empty.live(-1), -1, -1, 0)
    assert found == ([], 0, (0,) * 6, (0,) * 6)

"""pieces: series computed piece by piece equal those computed at once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memreplay as mr
from memreplay.engine.query._pieces import Pieces
from memreplay.snapshot.model import MeasureName
from tests import build
from tests.allocator_strategies import Recording, recordings
from tests.build import SnapshotBuilder

ALIKE: list[tuple[MeasureName, ...]] = [
    ("requested", "active"),
    ("active", "requested"),
    ("held", "allocated"),
    ("requested",),
    ("allocated",),
]


@given(recordings(), st.sampled_from(ALIKE), st.integers(1, 40))
def test_pieces_match_the_series(
    recording: Recording, names: tuple[MeasureName, ...], rows: int
) -> None:
    snap = mr.open(build.dump(recording.snapshot))
    for device in snap.devices:
        usages = [snap.replay(device).measure(name) for name in names]
        pieces = Pieces(tuple(usage.native for usage in usages), rows)
        found: list[list[int]] = [[] for _ in names]
        while any(parts := [memoryview(column).tolist() for column in pieces.next()]):
            left = len(usages[0].series) - len(found[0])
            assert {len(part) for part in parts} == {min(rows, left)}
            for whole, part in zip(found, parts, strict=True):
                whole += part
        assert found == [usage.series.tolist() for usage in usages]
        assert [memoryview(column).nbytes for column in pieces.next()] == [0] * len(names)


def test_measures_of_different_lengths_are_refused() -> None:
    built = SnapshotBuilder().alloc(1, 5).free_requested(1, 5).free_completed(1, 5).alloc(9, 2)
    replay = mr.open(build.dump(built.build())).replay()
    requested, held = (replay.measure(name).native for name in ("requested", "held"))
    with pytest.raises(ValueError, match="different allocations"):
        Pieces((requested, held), 3)
    narrow = replay.measure("requested").only(lambda _, m: m.narrow(3, False, False)).native
    with pytest.raises(ValueError, match="different allocations"):
        Pieces((requested, narrow), 3)
    other = mr.open(build.dump(built.build())).replay().measure("requested").native
    with pytest.raises(ValueError, match="different allocations"):
        Pieces((requested, other), 3)


def test_empty_input_is_refused() -> None:
    replay = mr.open(build.dump(SnapshotBuilder().alloc(1, 5).build())).replay()
    with pytest.raises(ValueError, match="at least one row"):
        Pieces((), 3)
    with pytest.raises(ValueError, match="at least one row"):
        Pieces((replay.measure("requested").native,), 0)


def test_unknown_measure_is_refused() -> None:
    requested = (
        mr.open(build.dump(SnapshotBuilder().alloc(1, 5).build())).replay().measure("requested")
    )
    for measures in ((None,), (requested.native, None), (5,)):
        with pytest.raises(TypeError):
            Pieces(measures, 3)  # type: ignore[arg-type]

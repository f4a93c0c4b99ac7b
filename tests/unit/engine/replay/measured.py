"""Helpers shared by the measures' tests: replays of builders, and columns as lists."""

from __future__ import annotations

from typing import Any

import memreplay as mr
from memreplay.engine.replay import _measures, _timeline
from tests import build
from tests.build import SnapshotBuilder

KIB, MIB = 2**10, 2**20
A, B, C = 0x7F00_0000_0000, 0x7F00_4000_0000, 0x7F00_8000_0000
NO_DIVISIONS = (0,) * _measures.DIVISION_STEPS


def column(values: Any) -> list[int]:
    return memoryview(values).tolist()


def replay(builder: SnapshotBuilder, device: int = 0, **bounds: Any) -> _timeline.Replay:
    return _timeline.Replay(mr.open(build.dump(builder.build()), **bounds).native, device)


def holding(builder: SnapshotBuilder, **bounds: Any) -> _measures.Holding:
    return _measures.Holding(replay(builder, **bounds))


def reserved(builder: SnapshotBuilder, device: int = 0, **bounds: Any) -> _measures.Reserved:
    return _measures.Reserved(replay(builder, device, **bounds))


def blocks(
    builder: SnapshotBuilder,
    divisions: tuple[int, ...] = NO_DIVISIONS,
    max_split: int = -1,
    expandable: bool = False,
    **bounds: Any,
) -> _measures.Blocks:
    return _measures.Blocks(reserved(builder, **bounds), divisions, max_split, expandable)


def active(found: _measures.Blocks) -> _timeline.Measure:
    return found.weigh(_timeline.requested_measure(found.reserved.replay))


def sizes(found: _measures.Blocks) -> tuple[list[int], list[int]]:
    """Return the size for each event, and the size of each carried-over block."""
    measure = active(found)
    return column(measure.weights()), column(measure.carried_weights())


def counts(found: _measures.Blocks) -> tuple[int, int, int, int]:
    return found.proven, found.assumed, found.misplaced, found.end_misfits
